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
    float *weights;  /* of each id: exp((logit - largest) / temperature) */
    float *adjusted; /* logits after mask, bias and penalties */
    int32_t *counts; /* of each id in the answer; all 0 between draws */
} glyd_sampler_work;

/* What a draw goes by besides the logits. */
typedef struct glyd_draw {
    const int32_t *ids; /* the prompt, then the answer so far */
    int n_prompt, n_ids;
    const uint64_t *allowed; /* glyd_id_words(vocab) words, a bit an id; NULL: all */
    const glyd_logit_bias *bias;
    int n_bias;
    uint64_t index; /* tokens drawn before for this request */
} glyd_draw;

static inline int64_t glyd_id_words(int vocab)
{
    return ((int64_t)vocab + 63) / 64;
}

static inline void glyd_id_clear(uint64_t *allowed, int32_t id)
{
    allowed[id / 64] &= ~((uint64_t)1 << id % 64);
}

/* Draw the id. -1 where no logit is a number above minus infinity, or none is allowed. */
int32_t glyd_sample(const glyd_sampling *sampling, const float *logits, int vocab,
                    const glyd_draw *draw, const glyd_sampler_work *work);

#endif
