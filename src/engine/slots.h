/* slots.h - what the scheduler's parts share: slots, and the queue before them.
 *
 *   scheduler.c    open, close, the batch of a step
 *   slots.c        a sequence starts, is preempted, goes on, finishes
 *   tokens.c       from logits to callbacks
 *
 * A slot holds ids[0..n_ids): the prompt and what was drawn. Of these the first n_cached are in the
 * KV cache; the others run in the next steps. When all are, the next token is drawn.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_SLOTS_H
#define GLYD_ENGINE_SLOTS_H

#include "engine/kv.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"

typedef struct glyd_slot {
    glyd_ticket *ticket; /* NULL: idle */
    bool is_preempted;   /* it has no pages, and waits for some */
    int32_t *ids;        /* room for a whole context */
    int n_ids, n_cached;
    int n_ids_max; /* prompt and answer */
    int n_shown;   /* positions whose logits the request has had, where it wants them all */
    glyd_kv_table table;
    uint64_t order; /* of starting */
    bool draws;     /* a token, in this step */
    double started_s, first_token_s;
} glyd_slot;

struct glyd_scheduler {
    glyd_forward *forward;
    glyd_inbox *inbox;
    const glyd_config *config;
    glyd_sizes sizes;
    int n_slots;
    bool caches; /* the prefix cache is on */
    glyd_slot *slots;
    glyd_ticket *waiting, **waiting_end;
    glyd_kv_pool pool;
    uint64_t n_started, n_steps;
    int pace; /* tokens that a step takes near the time it should */
    glyd_sampler_work work;
    uint64_t *allowed; /* ids of a draw, a bit each */
    glyd_token_logprob top[GLYD_REQUEST_LOGPROBS_MAX];
    /* The batch of a step; slot_of_run[i] owns runs[i]. */
    int32_t *ids;
    glyd_run *runs;
    glyd_slot **slot_of_run;
    int32_t *rows; /* of which logits are wanted */
    int n_tokens, n_runs;
};

static inline bool glyd_slot_runs(const glyd_slot *t)
{
    return t->ticket && !t->is_preempted;
}

/* Positions whose logits the request wants to see; 0 for most. */
static inline int glyd_slot_to_show(const glyd_slot *t)
{
    const glyd_request *request = &t->ticket->request;
    return t->ticket->on_logits ? request->n_ids
                                : (request->n_prompt_logprobs >= 0 ? request->n_ids - 1 : 0);
}

/* slots.c */

/* Start what waits, the preempted first, as far as slots and pages go. */
void glyd_slots_start(glyd_scheduler *s);

/* Give every running sequence pages for all of its ids, preempting where there are too few. */
void glyd_slots_grow(glyd_scheduler *s);

/* Take in what arrived, and finish what was cancelled. */
void glyd_slots_poll(glyd_scheduler *s);

void glyd_slot_finish(glyd_scheduler *s, glyd_slot *t, glyd_finish finish);
void glyd_slot_fail(glyd_scheduler *s, glyd_slot *t, const glyd_error *error);

/* tokens.c */

/* After a batch has run: hand out logits and log-probabilities, and draw the next token of every
 * sequence whose ids have all run. Errors: the device's. */
GLYD_MUST_CHECK glyd_status glyd_tokens_take(glyd_scheduler *s, glyd_error *err);

#endif
