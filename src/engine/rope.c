/* rope.c - the angles of rotary position embedding.
 *
 * Frequencies are computed in double and rounded to float32 once; an angle is the float32 product
 * of position and frequency, as the models were trained and as transformers computes it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/rope.h"
#include <math.h>

static const double two_pi = 6.283185307179586;

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Long waves are slowed by factor, short ones kept, those between blended by wavelength. */
static double scale_llama3(const glyd_rope *rope, double frequency)
{
    double wave = two_pi / frequency;
    double low = rope->original_positions / rope->low_freq_factor;
    double high = rope->original_positions / rope->high_freq_factor;
    if (wave < high)
        return frequency;
    if (wave > low)
        return frequency / rope->factor;
    double keep = (rope->original_positions / wave - rope->low_freq_factor) /
                  (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - keep) * frequency / rope->factor + keep * frequency;
}

/* The (fractional) index of the frequency that turns `n_turns` times in the original context. */
static double index_of_turns(const glyd_rope *rope, int head_dim, double n_turns)
{
    return head_dim * log(rope->original_positions / (n_turns * two_pi)) / (2 * log(rope->theta));
}

/* As llama3, but blended linearly by index between two numbers of turns. */
static double scale_yarn(const glyd_rope *rope, int head_dim, int i, double frequency)
{
    double low = floor(index_of_turns(rope, head_dim, rope->beta_fast));
    double high = ceil(index_of_turns(rope, head_dim, rope->beta_slow));
    low = low < 0 ? 0 : low;
    high = high > head_dim - 1 ? head_dim - 1 : high;
    if (low == high)
        high += 0.001; /* no division by zero */
    double slow = clamp((i - low) / (high - low), 0, 1);
    return frequency / rope->factor * slow + frequency * (1 - slow);
}

/* The base that stretches the longest wave to `context` positions. */
static double dynamic_theta(const glyd_rope *rope, int head_dim, int context_model, int context)
{
    if (context <= context_model || head_dim <= 2)
        return rope->theta;
    double stretch = rope->factor * context / context_model - (rope->factor - 1);
    return rope->theta * pow(stretch, (double)head_dim / (head_dim - 2));
}

void glyd_rope_frequencies(const glyd_rope *rope, int head_dim, int context_model, int context,
                           float *inverse, float *scale)
{
    double theta = rope->theta;
    if (rope->kind == GLYD_ROPE_DYNAMIC)
        theta = dynamic_theta(rope, head_dim, context_model, context);
    for (int i = 0; i < head_dim / 2; i++) {
        double frequency = 1 / pow(theta, 2.0 * i / head_dim);
        if (rope->kind == GLYD_ROPE_LINEAR)
            frequency /= rope->factor;
        else if (rope->kind == GLYD_ROPE_LLAMA3)
            frequency = scale_llama3(rope, frequency);
        else if (rope->kind == GLYD_ROPE_YARN)
            frequency = scale_yarn(rope, head_dim, i, frequency);
        inverse[i] = (float)frequency;
    }
    *scale = 1;
    if (rope->kind == GLYD_ROPE_YARN && rope->attention_factor > 0)
        *scale = (float)rope->attention_factor;
    else if (rope->kind == GLYD_ROPE_YARN && rope->factor > 1)
        *scale = (float)(0.1 * log(rope->factor) + 1);
}

void glyd_rope_turn(const float *inverse, float scale, int n, int position, float *turn)
{
    for (int i = 0; i < n; i++) {
        float angle = (float)position * inverse[i];
        turn[i] = (float)cos(angle) * scale;
        turn[n + i] = (float)sin(angle) * scale;
    }
}
