/* serving.h - what the commands share that answer others over HTTP: serve, and run with its page.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CLI_SERVING_H
#define GLYD_CLI_SERVING_H

#include "cli/options.h"
#include "glyd/engine.h"

enum { GLYD_SERVING_QUEUE_MAX = 256 };

/* The key that requests must carry, of --api-key or the environment. NULL: none. */
const char *glyd_serving_key(const glyd_args *args);

/* For a server: what was not given becomes the model's whole context, and several sequences. Where
 * memory is short they share less KV cache than each could fill, and only where it cannot hold one
 * context is that made shorter. *why: how the context was chosen. */
GLYD_MUST_CHECK glyd_status glyd_serving_choose(glyd_engine_options *options, const char **why,
                                                glyd_error *err);

/* For a chat that others are answered beside: several sequences, and KV cache for two whole
 * contexts, or for one where memory is short. */
GLYD_MUST_CHECK glyd_status glyd_serving_beside(glyd_engine_options *options, glyd_error *err);

/* Each connection takes a descriptor: allow as many as the system does. */
void glyd_serving_raise_file_limit(void);

#endif
