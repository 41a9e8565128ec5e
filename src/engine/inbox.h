/* inbox.h - where other threads meet the engine's: requests that came in, and figures going out.
 *
 * Threads    any; the engine's own thread takes tickets out and writes the figures.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_INBOX_H
#define GLYD_ENGINE_INBOX_H

#include "engine/ticket.h"

/* glyd_stats, written by one thread and read by any. */
typedef struct glyd_figures {
    atomic_int n_running, kv_pages, kv_pages_used, step_tokens;
    atomic_llong prefix_queries, prefix_hits, prompt_tokens, answer_tokens;
    atomic_llong n_preemptions, n_steps, steps_tokens, steps_of_size[GLYD_STEP_SIZES];
} glyd_figures;

typedef struct glyd_inbox {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* its clock is CLOCK_MONOTONIC */
    /* Under lock. */
    glyd_ticket *first, **end;
    bool is_closing, is_draining, is_idle; /* is_idle: the engine waits for something to do */

    int n_open_max;          /* 0: any number */
    atomic_int n_open;       /* tickets accepted and not finished */
    atomic_int n_arrived;    /* tickets not taken yet */
    atomic_bool cancels_all; /* as if every ticket had been cancelled, */
    atomic_int n_cut;        /* and how many were for that */
    glyd_figures figures;
} glyd_inbox;

void glyd_inbox_init(glyd_inbox *inbox);
void glyd_inbox_deinit(glyd_inbox *inbox);

/* Accept a ticket; *out is set before any callback can run. Errors: E_BUSY, E_CANCELLED. */
GLYD_MUST_CHECK glyd_status glyd_inbox_put(glyd_inbox *inbox, glyd_ticket *ticket,
                                           glyd_ticket **out, glyd_error *err);

/* Engine: what has arrived, in order; NULL: nothing. Takes no lock where nothing has. */
glyd_ticket *glyd_inbox_take(glyd_inbox *inbox);

/* Engine: wait until something has arrived; at once where it is not idle. False: closing. */
bool glyd_inbox_wait(glyd_inbox *inbox, bool is_idle);

void glyd_inbox_close(glyd_inbox *inbox);
int glyd_inbox_drain(glyd_inbox *inbox, double timeout_s); /* as glyd_engine_drain */

#endif
