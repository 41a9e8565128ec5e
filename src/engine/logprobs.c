/* logprobs.c - log-probabilities of tokens, from logits.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/logprobs.h"
#include <math.h>
#include <string.h>

bool glyd_logits_are_finite(const float *logits, int vocab)
{
    const uint32_t exponent = 0x7F800000;
    uint32_t largest = 0; /* exponent; that of infinities and of what is not a number is all ones */
    for (int i = 0; i < vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        bits &= exponent;
        largest = bits > largest ? bits : largest;
    }
    return largest != exponent;
}

/* The n largest, by insertion: few logits get past the smallest of those found so far. */
static void find_top(const float *logits, int vocab, int n, glyd_token_logprob *top)
{
    int n_found = 0;
    for (int32_t id = 0; id < vocab; id++) {
        double x = logits[id];
        if (n_found == n && x <= top[n - 1].logprob)
            continue;
        int at = n_found < n ? n_found++ : n - 1;
        for (; at > 0 && top[at - 1].logprob < x; at--)
            top[at] = top[at - 1];
        top[at] = (glyd_token_logprob){id, x};
    }
}

void glyd_logprobs(const float *logits, int vocab, int32_t id, int n_top, glyd_token_logprob *top,
                   glyd_token *token)
{
    float own = logits[id], largest = logits[0];
    int rank = 1;
    for (int32_t i = 0; i < vocab; i++) {
        largest = logits[i] > largest ? logits[i] : largest;
        rank += logits[i] > own || (logits[i] == own && i < id);
    }
    double sum = 0;
    for (int i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - largest);
    double log_sum = largest + log(sum);
    if (n_top > 0)
        find_top(logits, vocab, n_top, top);
    for (int i = 0; i < n_top; i++)
        top[i].logprob -= log_sum;
    *token =
        (glyd_token){.id = id, .logprob = own - log_sum, .rank = rank, .top = top, .n_top = n_top};
}
