/* workers.c - a few threads that take pieces of work in turn.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/workers.h"
#include "base/error.h"
#include <pthread.h>
#include <stdlib.h>

enum { THREADS_MAX = 16 };

typedef struct queue {
    glyd_work *first, **end;
} queue;

struct glyd_workers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    queue urgent, rest;
    int n_threads;
    int n_rest; /* threads that are busy with the rest */
    bool is_closing;
    pthread_t thread[THREADS_MAX];
};

static glyd_work *take(queue *q)
{
    glyd_work *work = q->first;
    q->first = work->next;
    if (!q->first)
        q->end = &q->first;
    return work;
}

static void *serve(void *arg)
{
    glyd_workers *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        bool may_rest = w->rest.first && (w->n_rest < w->n_threads - 1 || w->n_threads == 1);
        if (w->urgent.first) {
            glyd_work *work = take(&w->urgent);
            pthread_mutex_unlock(&w->lock);
            work->run(work);
            pthread_mutex_lock(&w->lock);
        } else if (may_rest) {
            glyd_work *work = take(&w->rest);
            w->n_rest++;
            pthread_mutex_unlock(&w->lock);
            work->run(work);
            pthread_mutex_lock(&w->lock);
            w->n_rest--;
        } else if (w->is_closing && !w->rest.first) {
            break;
        } else {
            pthread_cond_wait(&w->changed, &w->lock);
        }
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

glyd_status glyd_workers_create(int n_threads, glyd_workers **out, glyd_error *err)
{
    glyd_workers *w = calloc(1, sizeof *w);
    if (!w)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->urgent.end = &w->urgent.first;
    w->rest.end = &w->rest.first;
    for (int i = 0; i < n_threads && i < THREADS_MAX; i++) {
        if (pthread_create(&w->thread[i], NULL, serve, w) != 0)
            break;
        pthread_mutex_lock(&w->lock);
        w->n_threads++;
        pthread_mutex_unlock(&w->lock);
    }
    if (w->n_threads == 0) {
        glyd_workers_free(w);
        GLYD_FAIL(err, GLYD_E_NOMEM, "no thread can be started");
    }
    *out = w;
    return GLYD_OK;
}

void glyd_workers_free(glyd_workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->is_closing = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_threads; i++)
        pthread_join(w->thread[i], NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void glyd_workers_add(glyd_workers *w, glyd_work *work, bool is_urgent)
{
    queue *q = is_urgent ? &w->urgent : &w->rest;
    work->next = NULL;
    pthread_mutex_lock(&w->lock);
    *q->end = work;
    q->end = &work->next;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}
