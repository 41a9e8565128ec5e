/* sampler.h - from logits to the next token's id.
 *
 * The steps and their order are those of glyd_sampling in glyd/engine.h. Everything is a fixed
 * function of its arguments: sums run in double in a fixed order, exp is one polynomial, and draw
 * number i of seed s is splitmix64 of s + i times an odd constant.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_SAMPLER_H
#define GLYD_ENGINE_SAMPLER_H

#include "glyd/engine.h"

/* Check ranges. Errors: E_ARG naming the option. */
GLYD_MUST_CHECK glyd_status glyd_sampling_check(const glyd_sampling *sampling, glyd_error *err);

typedef struct glyd_candidate {
    float logit;
    int32_t id;
} glyd_candidate;

/* Room for one draw at a time: an entry an id of the vocabulary each. */
typedef struct glyd_sampler_work {
    glyd_candidate *candidates;
    float *weights; /* of each id: exp((logit - largest) / temperature) */
} glyd_sampler_work;

/* The ids that the repetition penalty applies to: one bit each. */
static inline void glyd_seen_add(uint64_t *seen, int32_t id)
{
    seen[id / 64] |= (uint64_t)1 << id % 64;
}

static inline int64_t glyd_seen_words(int vocab)
{
    return ((int64_t)vocab + 63) / 64;
}

/* Draw the id. `seen` has glyd_seen_words(vocab) words; draw is the number of tokens drawn before
 * for this request. -1 where no logit is a number above minus infinity. */
int32_t glyd_sample(const glyd_sampling *sampling, const float *logits, int vocab,
                    const uint64_t *seen, uint64_t draw, const glyd_sampler_work *work);

#endif
