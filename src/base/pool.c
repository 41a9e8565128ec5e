/* pool.c - the thread pool: workers that spin a little, then sleep on a futex.
 *
 * 1. A run is open from its start until the caller finds no task left. While it is open, workers
 *    that are awake join it; the caller waits for those that joined, and for no other, so a worker
 *    that the system has not scheduled costs its share of the work and no waiting.
 * 2. Tasks of a run are handed out one by one from `next`, so uneven tasks even out.
 * 3. The caller is worker 0 and returns only when every worker that joined has left, so `fn` and
 *    `arg` never outlive the run.
 * 4. The run's number, whether it is open, and how many workers are in it are one atomic word: a
 *    worker cannot join a run that has just closed.
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
    SPINS_MAX = 20000,  /* about 50 us of pause instructions: the gap between two products */
    SPINS_YIELD = 2000, /* then whoever is waited for may need this core */
    /* The word of a run. */
    JOINED = (1 << 11) - 1, /* workers in it */
    OPEN = 1 << 11,
    NUMBER = 1 << 12, /* counts up from here, and wraps */
};
_Static_assert(THREADS_MAX <= JOINED, "every worker can join");

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
    int quit;
    _Alignas(64) atomic_uint run;
    _Alignas(64) atomic_int n_sleeping;
    _Alignas(64) _Atomic int64_t next;
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

/* Join the run if it is open and another one than `last`. A number may come round again after
 * 2^20 runs: then a worker misses one, or joins it twice and finds no task. */
static bool join_run(glyd_pool *pool, unsigned last, unsigned *joined)
{
    unsigned now = atomic_load_explicit(&pool->run, memory_order_relaxed);
    while ((now & OPEN) && now / NUMBER != last)
        if (atomic_compare_exchange_weak_explicit(&pool->run, &now, now + 1, memory_order_acquire,
                                                  memory_order_relaxed)) {
            *joined = now / NUMBER;
            return true;
        }
    return false;
}

/* Wait until there is a run to join; returns its number. */
static unsigned wait_for_run(glyd_pool *pool, unsigned last)
{
    unsigned joined;
    for (int i = 0; i < SPINS_MAX; i++) {
        if (join_run(pool, last, &joined))
            return joined;
        relax();
    }
    atomic_fetch_add(&pool->n_sleeping, 1);
    for (;;) {
        unsigned now = atomic_load(&pool->run);
        if (join_run(pool, last, &joined))
            break;
        futex_wait(&pool->run, now);
    }
    atomic_fetch_sub(&pool->n_sleeping, 1);
    return joined;
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    glyd_pool *pool = w->pool;
    unsigned last = 0;
    for (;;) {
        last = wait_for_run(pool, last);
        if (pool->quit)
            return NULL;
        take_tasks(pool, w->index);
        atomic_fetch_sub_explicit(&pool->run, 1, memory_order_release);
    }
}

static void open_run(glyd_pool *pool)
{
    unsigned number = atomic_load_explicit(&pool->run, memory_order_relaxed) / NUMBER + 1;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store(&pool->run, number * NUMBER | OPEN); /* nobody is in the last one */
    if (atomic_load(&pool->n_sleeping) > 0)
        futex_wake_all(&pool->run);
}

static void close_run(glyd_pool *pool)
{
    atomic_fetch_and_explicit(&pool->run, ~(unsigned)OPEN, memory_order_relaxed);
    for (int i = 1; atomic_load_explicit(&pool->run, memory_order_acquire) & JOINED; i++) {
        relax();
        if (i % SPINS_YIELD == 0)
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
    pool->quit = 1;
    open_run(pool); /* and never closed: every worker joins it */
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
    open_run(pool);
    take_tasks(pool, 0);
    close_run(pool);
}
