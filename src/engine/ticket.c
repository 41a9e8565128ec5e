/* ticket.c - an accepted request, from submit to the last who looks at its result.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/ticket.h"
#include "base/clock.h"
#include <stdlib.h>
#include <string.h>

glyd_ticket *glyd_ticket_create(const glyd_request *request, glyd_logits_fn on_logits)
{
    size_t n_ids = (size_t)request->n_ids, n_stop = (size_t)request->n_stop_ids;
    size_t bias_bytes = (size_t)request->n_logit_bias * sizeof *request->logit_bias;
    glyd_ticket *t = calloc(1, sizeof *t + (n_ids + n_stop) * sizeof *t->storage + bias_bytes);
    if (!t)
        return NULL;
    t->request = *request;
    t->request.ids = t->storage;
    t->request.stop_ids = t->storage + n_ids;
    memcpy(t->storage, request->ids, n_ids * sizeof *t->storage);
    if (n_stop)
        memcpy(t->storage + n_ids, request->stop_ids, n_stop * sizeof *t->storage);
    glyd_logit_bias *bias = (glyd_logit_bias *)(t->storage + n_ids + n_stop);
    t->request.logit_bias = bias;
    if (bias_bytes)
        memcpy(bias, request->logit_bias, bias_bytes);
    t->on_logits = on_logits;
    t->submitted_s = glyd_clock_s();
    t->result.stop_id = -1;
    t->result.n_prompt = request->n_ids;
    atomic_init(&t->is_cancelled, false);
    atomic_init(&t->n_owners, 2);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->finished, NULL);
    return t;
}

void glyd_ticket_drop(glyd_ticket *t)
{
    if (atomic_fetch_sub(&t->n_owners, 1) > 1)
        return;
    pthread_cond_destroy(&t->finished);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void glyd_ticket_finish(glyd_ticket *t, glyd_finish finish)
{
    t->result.finish = finish;
    if (t->request.on_finish)
        t->request.on_finish(t->request.arg, &t->result);
    pthread_mutex_lock(&t->lock);
    t->is_finished = true;
    pthread_cond_broadcast(&t->finished);
    pthread_mutex_unlock(&t->lock);
    glyd_ticket_drop(t);
}

void glyd_ticket_cancel(glyd_ticket *t)
{
    atomic_store(&t->is_cancelled, true);
}

void glyd_ticket_wait(glyd_ticket *t, glyd_result *result)
{
    pthread_mutex_lock(&t->lock);
    while (!t->is_finished)
        pthread_cond_wait(&t->finished, &t->lock);
    if (result)
        *result = t->result;
    pthread_mutex_unlock(&t->lock);
}

void glyd_ticket_free(glyd_ticket *t)
{
    if (!t)
        return;
    glyd_ticket_cancel(t);
    glyd_ticket_drop(t);
}

const char *glyd_finish_name(glyd_finish finish)
{
    static const char *const names[] = {"stop", "length", "context", "cancelled", "error"};
    return (unsigned)finish < sizeof names / sizeof *names ? names[finish] : "unknown";
}
