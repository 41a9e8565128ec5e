/* logprobs.h - log-probabilities of tokens, from logits.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_LOGPROBS_H
#define GLYD_ENGINE_LOGPROBS_H

#include "glyd/engine.h"

/* Whether every logit is a number and none is infinite. */
bool glyd_logits_are_finite(const float *logits, int vocab);

/* Describe token `id` by its logits, which are finite: logits[i] - log(sum of exp(logits[j])) in
 * double. Fills top[0..n_top), n_top <= vocab; equal logits rank by lowest id. */
void glyd_logprobs(const float *logits, int vocab, int32_t id, int n_top, glyd_token_logprob *top,
                   glyd_token *token);

#endif
