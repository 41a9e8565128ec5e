/* scheduler.h - which tokens run in the next step, and what becomes of them.
 *
 * Continuous batching: a step takes one token of every sequence that is answering, and fills up
 * with chunks of prompts that are still to be read: as much as chunk_tokens allows where nobody
 * waits for an answer's next token, otherwise as much as keeps a step near 50 ms, but no less than
 * lets prompts go on at a fair speed.
 *
 * Requests start in order of arrival, when one of n_sequences slots is idle and the KV pool has the
 * pages for the prompt (kv.h). An answer's pages are taken as it grows; when none is left, the
 * sequence that started last gives up all of its own and goes on later, before any other starts, by
 * computing again what the prefix cache does not have. The pool holds at least one whole context,
 * so the sequence that started first always goes on.
 *
 * Threads    one thread, the engine's; others reach in by glyd_ticket_cancel and the inbox.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_SCHEDULER_H
#define GLYD_ENGINE_SCHEDULER_H

#include "engine/forward.h"
#include "engine/inbox.h"

typedef struct glyd_scheduler glyd_scheduler;

/* `forward`, `config` and `inbox` live longer. Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_scheduler_open(glyd_forward *forward, const glyd_backend *backend,
                                                const glyd_config *config, const glyd_sizes *sizes,
                                                const glyd_engine_options *options,
                                                glyd_inbox *inbox, glyd_scheduler **scheduler,
                                                glyd_error *err);
/* The inbox is closed; what is left is cancelled. NULL is allowed. */
void glyd_scheduler_close(glyd_scheduler *scheduler);

/* Bytes of slots, page tables and sampler. */
size_t glyd_scheduler_bytes(const glyd_sizes *sizes, int n_sequences, const glyd_backend *backend);

bool glyd_scheduler_is_idle(const glyd_scheduler *scheduler); /* but for the inbox */
void glyd_scheduler_step(glyd_scheduler *scheduler);

#endif
