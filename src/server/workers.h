/* workers.h - a few threads that take pieces of work in turn.
 *
 * Urgent work (tokens that exist) goes before the rest (prompts to read), and one thread is never
 * given to the rest, so that a long prompt delays nobody's stream.
 *
 * Threads    all functions from any thread; glyd_workers_add does not block beyond a short lock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_WORKERS_H
#define GLYD_SERVER_WORKERS_H

#include "glyd/base.h"
#include <stdbool.h>

/* Part of what is to be worked on; in one queue at a time. */
typedef struct glyd_work {
    void (*run)(struct glyd_work *work);
    struct glyd_work *next;
} glyd_work;

typedef struct glyd_workers glyd_workers;

GLYD_MUST_CHECK glyd_status glyd_workers_create(int n_threads, glyd_workers **workers,
                                                glyd_error *err);

/* Finish what is queued, join. NULL is allowed. */
void glyd_workers_free(glyd_workers *workers);

void glyd_workers_add(glyd_workers *workers, glyd_work *work, bool is_urgent);

#endif
