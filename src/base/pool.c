/* pool.c - the thread pool: workers that spin a little, then sleep on a futex.
 *
 * 1. A run has a number (`generation`). A worker takes part by passing the gate while it is open.
 * 2. Tasks of a run are handed out one by one from `next`, so uneven tasks even out.
 * 3. The caller is worker 0. When no task is left it closes the gate and waits for the workers
 *    inside, so `fn` and `arg` never outlive a run; and a worker that the system did not let run
 *    in time is not waited for, so a busy machine does not stall every run.
 * Workers spin because a decode step makes hundreds of runs a few tens of microseconds apart, and a
 * wake-up through the kernel costs as much as a small run.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "base/error.h"
#include "glyd/base.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    THREADS_MAX = 1024,
    SPINS_MAX = 20000, /* about 50 us of pause instructions: the gap between two products */

    /* The gate: run number << 16 | open << 15 | workers inside. */
    GATE_RUN_SHIFT = 16,
    GATE_OPEN = 1 << 15,
    GATE_INSIDE = GATE_OPEN - 1,
};

typedef struct worker {
    glyd_pool *pool;
    int index;
    pthread_t thread;
} worker;

struct glyd_pool {
    int n_threads;
    glyd_task_fn fn;
    void *arg;
    int64_t n_tasks;
    atomic_int quit;
    _Alignas(64) atomic_uint generation;
    _Alignas(64) atomic_int n_sleeping;
    _Alignas(64) _Atomic int64_t next;
    _Alignas(64) _Atomic uint64_t gate;
    worker *workers; /* n_threads entries; entry 0 is the caller and has no thread */
};

static void futex_wait(atomic_uint *word, unsigned value)
{
    syscall(SYS_futex, (unsigned *)word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake_all(atomic_uint *word)
{
    syscall(SYS_futex, (unsigned *)word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void take_tasks(glyd_pool *pool, int index)
{
    int64_t n_tasks = pool->n_tasks;
    for (;;) {
        int64_t task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= n_tasks)
            return;
        pool->fn(pool->arg, task, index);
    }
}

static unsigned wait_for_run(glyd_pool *pool, unsigned seen)
{
    for (int i = 0; i < SPINS_MAX; i++) {
        unsigned now = atomic_load_explicit(&pool->generation, memory_order_acquire);
        if (now != seen)
            return now;
        relax();
    }
    atomic_fetch_add(&pool->n_sleeping, 1);
    unsigned now;
    while ((now = atomic_load(&pool->generation)) == seen)
        futex_wait(&pool->generation, seen);
    atomic_fetch_sub(&pool->n_sleeping, 1);
    return now;
}

static bool enter_run(glyd_pool *pool, unsigned run)
{
    uint64_t gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
    do {
        if (gate >> GATE_RUN_SHIFT != run || !(gate & GATE_OPEN))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&pool->gate, &gate, gate + 1,
                                                    memory_order_acq_rel, memory_order_acquire));
    return true;
}

static void leave_run(glyd_pool *pool)
{
    atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_release);
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    glyd_pool *pool = w->pool;
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_run(pool, seen);
        if (atomic_load_explicit(&pool->quit, memory_order_acquire))
            return NULL;
        if (!enter_run(pool, seen))
            continue;
        take_tasks(pool, w->index);
        leave_run(pool);
    }
}

static void start_run(glyd_pool *pool)
{
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    unsigned run = atomic_load_explicit(&pool->generation, memory_order_relaxed) + 1;
    atomic_store_explicit(&pool->gate, (uint64_t)run << GATE_RUN_SHIFT | GATE_OPEN,
                          memory_order_release);
    atomic_store(&pool->generation, run);
    if (atomic_load(&pool->n_sleeping) > 0)
        futex_wake_all(&pool->generation);
}

/* Each worker inside has one task to finish: a short wait unless the system took its core. */
static void finish_run(glyd_pool *pool)
{
    atomic_fetch_and_explicit(&pool->gate, ~(uint64_t)GATE_OPEN, memory_order_acq_rel);
    for (int i = 0; atomic_load_explicit(&pool->gate, memory_order_acquire) & GATE_INSIDE; i++) {
        if (i < SPINS_MAX)
            relax();
        else
            sched_yield();
    }
}

static void pin_to_core(pthread_t thread, const cpu_set_t *allowed, int index)
{
    int n = CPU_COUNT(allowed), want = n ? index % n : 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed) || want-- > 0)
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)pthread_setaffinity_np(thread, sizeof one, &one); /* a hint: failing costs speed */
        return;
    }
}

glyd_status glyd_pool_create(const glyd_pool_options *options, glyd_pool **out, glyd_error *err)
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    (void)sched_getaffinity(0, sizeof allowed, &allowed);
    int n = options ? options->n_threads : 0;
    if (n == 0)
        n = CPU_COUNT(&allowed) > 0 ? CPU_COUNT(&allowed) : 1;
    if (n < 0 || n > THREADS_MAX)
        GLYD_FAIL(err, GLYD_E_ARG, "%d threads: between 1 and %d are possible", n, THREADS_MAX);

    glyd_pool *pool = aligned_alloc(64, (sizeof *pool + 63) / 64 * 64);
    worker *workers = calloc((size_t)n, sizeof *workers);
    if (!pool || !workers) {
        free(pool);
        free(workers);
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for %d threads", n);
    }
    *pool = (glyd_pool){.n_threads = n, .workers = workers};
    for (int i = 1; i < n; i++) {
        workers[i] = (worker){.pool = pool, .index = i};
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0) {
            pool->n_threads = i;
            glyd_pool_free(pool);
            GLYD_FAIL(err, GLYD_E_NOMEM, "the system refused to start thread %d of %d", i + 1, n);
        }
        if (options && options->pin)
            pin_to_core(workers[i].thread, &allowed, i);
    }
    if (options && options->pin && n > 1)
        pin_to_core(pthread_self(), &allowed, 0);
    *out = pool;
    return GLYD_OK;
}

void glyd_pool_free(glyd_pool *pool)
{
    if (!pool)
        return;
    atomic_store_explicit(&pool->quit, 1, memory_order_release);
    start_run(pool);
    for (int i = 1; i < pool->n_threads; i++)
        pthread_join(pool->workers[i].thread, NULL);
    free(pool->workers);
    free(pool);
}

int glyd_pool_size(const glyd_pool *pool)
{
    return pool ? pool->n_threads : 1;
}

void glyd_pool_run(glyd_pool *pool, int64_t n_tasks, glyd_task_fn fn, void *arg)
{
    if (!pool || pool->n_threads == 1 || n_tasks <= 1) {
        for (int64_t task = 0; task < n_tasks; task++)
            fn(arg, task, 0);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    start_run(pool);
    take_tasks(pool, 0);
    finish_run(pool);
}
