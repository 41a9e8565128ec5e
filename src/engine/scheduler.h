/* scheduler.h - which tokens run in the next step, and what becomes of them.
 *
 * Continuous batching: a step takes one token of every sequence that is answering, and fills up
 * with chunks of prompts that are still to be read. A sequence starts when one of n_sequences slots
 * is idle and the KV pool has all pages that it may come to need, in order of arrival; it then
 * never waits for memory. An idle slot keeps the keys and values of its last sequence, and a new
 * prompt that begins with the same ids takes them over.
 *
 * Threads    one thread, the engine's; only glyd_ticket_cancel reaches in from others.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_SCHEDULER_H
#define GLYD_ENGINE_SCHEDULER_H

#include "engine/forward.h"
#include "engine/ticket.h"

typedef struct glyd_scheduler glyd_scheduler;

/* `forward` and `config` live longer. Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_scheduler_open(glyd_forward *forward, const glyd_backend *backend,
                                                const glyd_config *config, const glyd_sizes *sizes,
                                                int n_sequences, glyd_scheduler **scheduler,
                                                glyd_error *err);
void glyd_scheduler_close(glyd_scheduler *scheduler); /* cancels what is left; NULL is allowed */

/* Bytes of slots, page tables and sampler. */
size_t glyd_scheduler_bytes(const glyd_sizes *sizes, int n_sequences, const glyd_backend *backend);

void glyd_scheduler_add(glyd_scheduler *scheduler, glyd_ticket *ticket);
bool glyd_scheduler_is_idle(const glyd_scheduler *scheduler);
void glyd_scheduler_step(glyd_scheduler *scheduler);
void glyd_scheduler_cancel_all(glyd_scheduler *scheduler);

#endif
