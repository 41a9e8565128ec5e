/* ticket.h - an accepted request: what session.c queues and scheduler.c serves.
 *
 * Two own a ticket, the caller and the engine; the last to let go frees it. The request is not
 * changed after submit; the result belongs to the engine's thread until the ticket is finished.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_TICKET_H
#define GLYD_ENGINE_TICKET_H

#include "glyd/engine.h"
#include <pthread.h>
#include <stdatomic.h>

/* Logits of the next `n` positions of the prompt: n x vocab floats. */
typedef glyd_status (*glyd_logits_fn)(void *arg, const float *logits, int n, int vocab);

struct glyd_ticket {
    glyd_request request;     /* its ids, stop ids and biases are in `storage` */
    glyd_logits_fn on_logits; /* set: every position's logits are wanted, and no token */
    glyd_result result;
    glyd_ticket *next; /* in a queue */
    double submitted_s;
    atomic_bool is_cancelled;
    atomic_int n_owners;
    pthread_mutex_t lock;
    pthread_cond_t finished; /* with is_finished */
    bool is_finished;
    int32_t storage[];
};

/* A ticket owned by caller and engine, or NULL: out of memory. */
glyd_ticket *glyd_ticket_create(const glyd_request *request, glyd_logits_fn on_logits);

void glyd_ticket_drop(glyd_ticket *ticket); /* one owner lets go */

/* Engine: report the result, call on_finish, wake who waits, and let go. */
void glyd_ticket_finish(glyd_ticket *ticket, glyd_finish finish);

#endif
