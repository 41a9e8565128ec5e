/* forward.h - one step of a model: a batch of tokens through every layer.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_FORWARD_H
#define GLYD_ENGINE_FORWARD_H

#include "engine/backend.h"
#include "model/model.h"

typedef struct glyd_forward glyd_forward;

/* Load every weight and make room for the activations. The model lives longer. */
GLYD_MUST_CHECK glyd_status glyd_forward_open(const glyd_backend *backend, const glyd_model *model,
                                              const glyd_sizes *sizes, glyd_forward **forward,
                                              glyd_error *err);
void glyd_forward_close(glyd_forward *forward); /* NULL is allowed */

const char *glyd_forward_describe(const glyd_forward *forward);

/* Run a batch: ids and runs are given, turns are filled in here. The batch's keys and values are
 * then in the cache, and its last hidden states wait for glyd_forward_logits. `is_moot` is asked
 * before every product of every layer; when it says that nobody wants the batch any more, the rest
 * is left out and false returned. */
typedef bool (*glyd_moot_fn)(void *arg);
bool glyd_forward_run(glyd_forward *forward, const int32_t *ids, int n_tokens, const glyd_run *runs,
                      int n_runs, glyd_moot_fn is_moot, void *arg);

/* Logits of tokens rows[0..n) of the batch, n <= sizes.n_outputs: n x vocab floats that stay until
 * the next call. */
GLYD_MUST_CHECK glyd_status glyd_forward_logits(glyd_forward *forward, const int32_t *rows, int n,
                                                const float **logits, glyd_error *err);

/* Copy a page of the KV cache; between steps. */
void glyd_forward_copy_page(glyd_forward *forward, int from, int to);

/* End the step. Errors: what the device remembered. */
GLYD_MUST_CHECK glyd_status glyd_forward_finish(glyd_forward *forward, glyd_error *err);

/* Bytes of activations beside the backend's own scratch, and of tables for `turns`. */
size_t glyd_forward_bytes(const glyd_sizes *sizes);

#endif
