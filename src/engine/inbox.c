/* inbox.c - where other threads meet the engine's.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "engine/inbox.h"
#include "base/error.h"
#include <errno.h>
#include <time.h>

void glyd_inbox_init(glyd_inbox *inbox)
{
    pthread_condattr_t attributes;
    *inbox = (glyd_inbox){0};
    inbox->end = &inbox->first;
    pthread_mutex_init(&inbox->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&inbox->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void glyd_inbox_deinit(glyd_inbox *inbox)
{
    pthread_cond_destroy(&inbox->changed);
    pthread_mutex_destroy(&inbox->lock);
}

static glyd_status refusal(const glyd_inbox *inbox, glyd_error *err)
{
    if (inbox->is_closing || inbox->is_draining)
        GLYD_FAIL(err, GLYD_E_CANCELLED, "the engine is closing");
    int n = atomic_load(&inbox->n_open);
    if (inbox->n_open_max > 0 && n >= inbox->n_open_max)
        GLYD_FAIL(err, GLYD_E_BUSY, "%d requests run or wait, which is the most: try again later",
                  n);
    return GLYD_OK;
}

glyd_status glyd_inbox_put(glyd_inbox *inbox, glyd_ticket *ticket, glyd_ticket **out,
                           glyd_error *err)
{
    pthread_mutex_lock(&inbox->lock);
    glyd_status status = refusal(inbox, err);
    if (status == GLYD_OK) {
        *out = ticket;
        *inbox->end = ticket;
        inbox->end = &ticket->next;
        atomic_fetch_add(&inbox->n_open, 1);
        atomic_fetch_add(&inbox->n_arrived, 1);
        pthread_cond_broadcast(&inbox->changed);
    }
    pthread_mutex_unlock(&inbox->lock);
    return status;
}

glyd_ticket *glyd_inbox_take(glyd_inbox *inbox)
{
    if (atomic_load(&inbox->n_arrived) == 0)
        return NULL;
    pthread_mutex_lock(&inbox->lock);
    glyd_ticket *first = inbox->first;
    inbox->first = NULL;
    inbox->end = &inbox->first;
    atomic_store(&inbox->n_arrived, 0);
    pthread_mutex_unlock(&inbox->lock);
    return first;
}

bool glyd_inbox_wait(glyd_inbox *inbox, bool is_idle)
{
    pthread_mutex_lock(&inbox->lock);
    while (is_idle && !inbox->is_closing && !inbox->first) {
        if (!inbox->is_idle) {
            inbox->is_idle = true;
            pthread_cond_broadcast(&inbox->changed);
        }
        pthread_cond_wait(&inbox->changed, &inbox->lock);
    }
    inbox->is_idle = false;
    bool is_closing = inbox->is_closing;
    pthread_mutex_unlock(&inbox->lock);
    return !is_closing;
}

void glyd_inbox_close(glyd_inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->is_closing = true;
    atomic_store(&inbox->cancels_all, true);
    pthread_cond_broadcast(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
}

static struct timespec time_after(double seconds)
{
    struct timespec t;
    const double most = 1e9; /* some thirty years */
    seconds = seconds > 0 ? (seconds < most ? seconds : most) : 0;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)seconds;
    t.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

int glyd_inbox_drain(glyd_inbox *inbox, double timeout_s)
{
    struct timespec end = time_after(timeout_s);
    int rc = 0;
    pthread_mutex_lock(&inbox->lock);
    inbox->is_draining = true;
    while (rc != ETIMEDOUT && (!inbox->is_idle || inbox->first))
        rc = pthread_cond_timedwait(&inbox->changed, &inbox->lock, &end);
    if (!inbox->is_idle || inbox->first)
        atomic_store(&inbox->cancels_all, true);
    while (!inbox->is_idle || inbox->first)
        pthread_cond_wait(&inbox->changed, &inbox->lock);
    pthread_mutex_unlock(&inbox->lock);
    return atomic_load(&inbox->n_cut);
}
