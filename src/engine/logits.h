/* logits.h - every logit of a prompt, for tests and tools beside the public interface.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_LOGITS_H
#define GLYD_ENGINE_LOGITS_H

#include "engine/ticket.h"

/* Run a prompt and pass the logits of every position, in order, to on_logits on the engine's
 * thread; return when done. Not from a callback. Errors: as glyd_engine_submit. */
GLYD_MUST_CHECK glyd_status glyd_engine_logits(glyd_engine *engine, const int32_t *ids, int n_ids,
                                               glyd_logits_fn on_logits, void *arg,
                                               glyd_error *err);

#endif
