/* base.h - spans, buffers and the thread pool: the plain types the other headers share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_BASE_H
#define GLYD_BASE_H

#include "glyd/status.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes owned by somebody else. Host or device memory alike. */
typedef struct glyd_span {
    const uint8_t *data;
    size_t bytes;
} glyd_span;

/* A growable byte buffer on the heap. Zero-initialise, pass to functions that fill it, free once.
 * `data` is aligned to 64 bytes. */
typedef struct glyd_buf {
    uint8_t *data;
    size_t bytes;    /* in use */
    size_t capacity; /* allocated */
} glyd_buf;

GLYD_API void glyd_buf_free(glyd_buf *buf); /* also resets it to empty; NULL is allowed */

/* A pool of worker threads. The caller of a run takes part as worker 0, so a pool of one thread
 * starts none and costs nothing. Runs are not reentrant: one thread uses a pool at a time. */
typedef struct glyd_pool glyd_pool;

typedef struct glyd_pool_options {
    int n_threads; /* 0: one a core that this process may use */
    int pin;       /* non-zero: worker i stays on the i-th core of the process's set */
} glyd_pool_options;

GLYD_API GLYD_MUST_CHECK glyd_status glyd_pool_create(const glyd_pool_options *options,
                                                      glyd_pool **pool, glyd_error *err);
GLYD_API void glyd_pool_free(glyd_pool *pool); /* joins the workers; NULL is allowed */

/* Number of workers, caller included; 1 for NULL, which everywhere means "this thread alone". */
GLYD_API int glyd_pool_size(const glyd_pool *pool);

/* Call fn(arg, task, worker) once for each task in [0, n_tasks), in any order and on any worker;
 * return when all are done. Tasks must not fail: they record their own failures in `arg`. */
typedef void (*glyd_task_fn)(void *arg, int64_t task, int worker);
GLYD_API void glyd_pool_run(glyd_pool *pool, int64_t n_tasks, glyd_task_fn fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
