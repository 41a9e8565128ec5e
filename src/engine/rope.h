/* rope.h - the angles of rotary position embedding, for every scaling a config can ask for.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_ROPE_H
#define GLYD_ENGINE_ROPE_H

#include "model/model.h"

/* Fill inverse[0..head_dim / 2) and *scale, which multiplies every cosine and sine. `context` is
 * the number of positions that will be used: only `dynamic` depends on it, and so is fixed once
 * for all sequences of an engine. */
void glyd_rope_frequencies(const glyd_rope *rope, int head_dim, int context_model, int context,
                           float *inverse, float *scale);

/* Fill turn with the cosines, then the sines, of one position: n = head_dim / 2 values each. */
void glyd_rope_turn(const float *inverse, float scale, int n, int position, float *turn);

#endif
