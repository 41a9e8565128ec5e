/* sampler.c - from logits to the next token's id.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/sampler.h"
#include "base/cpu.h"
#include "base/error.h"
#include "cpu/ops.h"
#include <math.h>
#include <string.h>

glyd_status glyd_sampling_check(const glyd_sampling *s, glyd_error *err)
{
    if (!(s->temperature >= 0 && s->temperature <= 100))
        GLYD_FAIL(err, GLYD_E_ARG, "temperature is %g: between 0 and 100 is possible",
                  s->temperature);
    if (s->top_k < 0)
        GLYD_FAIL(err, GLYD_E_ARG, "top-k is %d: 0 (all) or more is possible", s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        GLYD_FAIL(err, GLYD_E_ARG, "top-p is %g: above 0, at most 1 is possible", s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        GLYD_FAIL(err, GLYD_E_ARG, "min-p is %g: between 0 and 1 is possible", s->min_p);
    if (!(s->repetition_penalty > 0 && s->repetition_penalty <= 100))
        GLYD_FAIL(err, GLYD_E_ARG, "repetition penalty is %g: above 0, at most 100 is possible",
                  s->repetition_penalty);
    if (!(s->presence_penalty >= -100 && s->presence_penalty <= 100))
        GLYD_FAIL(err, GLYD_E_ARG, "presence penalty is %g: between -100 and 100 is possible",
                  s->presence_penalty);
    if (!(s->frequency_penalty >= -100 && s->frequency_penalty <= 100))
        GLYD_FAIL(err, GLYD_E_ARG, "frequency penalty is %g: between -100 and 100 is possible",
                  s->frequency_penalty);
    return GLYD_OK;
}

/* Rank: larger logit first, then lower id. */
static bool is_before(const glyd_candidate *a, const glyd_candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* --- before the draw --- */

static void mask(float *x, int vocab, const uint64_t *allowed)
{
    for (int32_t word = 0; word < glyd_id_words(vocab); word++) {
        if (allowed[word] == UINT64_MAX)
            continue;
        for (int32_t id = 64 * word; id < vocab && id < 64 * (word + 1); id++)
            if (!(allowed[word] >> id % 64 & 1))
                x[id] = -INFINITY;
    }
}

static void penalise_repetition(float *x, float penalty, const glyd_draw *draw, int32_t *counts)
{
    for (int i = 0; i < draw->n_ids; i++) {
        int32_t id = draw->ids[i];
        if (counts[id]++ == 0)
            x[id] = x[id] < 0 ? x[id] * penalty : x[id] / penalty;
    }
    for (int i = 0; i < draw->n_ids; i++)
        counts[draw->ids[i]] = 0;
}

static void penalise_answer(float *x, const glyd_sampling *s, const glyd_draw *draw,
                            int32_t *counts)
{
    for (int i = draw->n_prompt; i < draw->n_ids; i++)
        counts[draw->ids[i]]++;
    for (int i = draw->n_prompt; i < draw->n_ids; i++) {
        int32_t id = draw->ids[i];
        if (counts[id] > 0)
            x[id] -= (float)(s->frequency_penalty * counts[id] + s->presence_penalty);
        counts[id] = 0;
    }
}

/* The logits after all that changes them; they themselves where nothing does. */
static const float *adjust(const glyd_sampling *s, const float *logits, int vocab,
                           const glyd_draw *draw, const glyd_sampler_work *work)
{
    bool repeats = s->repetition_penalty != 1;
    bool counts = s->frequency_penalty != 0 || s->presence_penalty != 0;
    if (!draw->allowed && draw->n_bias == 0 && !repeats && !counts)
        return logits;
    float *x = work->adjusted;
    memcpy(x, logits, (size_t)vocab * sizeof *x);
    if (draw->allowed)
        mask(x, vocab, draw->allowed);
    for (int i = 0; i < draw->n_bias; i++)
        x[draw->bias[i].id] += draw->bias[i].bias;
    if (repeats)
        penalise_repetition(x, (float)s->repetition_penalty, draw, work->counts);
    if (counts)
        penalise_answer(x, s, draw, work->counts);
    return x;
}

/* --- the draw --- */

static int32_t largest_id(const float *logits, int vocab)
{
    int32_t best = -1;
    float largest = -INFINITY;
    for (int32_t id = 0; id < vocab; id++)
        if (logits[id] > largest) {
            largest = logits[id];
            best = id;
        }
    return best;
}

/* Candidates in id order with their weights, ids that cannot be drawn left out. Returns how many;
 * *total is the sum of their weights. */
static int collect(const glyd_sampling *s, const float *logits, int vocab, float largest,
                   const glyd_sampler_work *work, double *total)
{
    int n = 0;
    for (int32_t id = 0; id < vocab; id++) {
        float x = logits[id];
        /* Equal infinities have no difference, yet they are equal. */
        work->weights[id] = x == largest ? 0 : (float)((x - largest) / s->temperature);
        if (x > -INFINITY)
            work->candidates[n++] = (glyd_candidate){.logit = x, .id = id};
    }
    glyd_ops_of(glyd_cpu_variant())->exp(work->weights, vocab);
    *total = 0;
    for (int i = 0; i < n; i++)
        *total += work->weights[work->candidates[i].id];
    return n;
}

/* The heap holds the unsorted candidates, first ranked on top. */
static void sift_down(glyd_candidate *heap, int n, int i)
{
    glyd_candidate moved = heap[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &moved))
            break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

/* Sort candidates by rank while top_k asks for more, or without top_k while top_p and min_p do:
 * usually a few of many thousands. They end up at the end, first ranked last. Returns how many. */
static int rank(const glyd_sampling *s, const glyd_sampler_work *work, int n, double total)
{
    glyd_candidate *heap = work->candidates;
    int most = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    double sum = 0;
    for (int i = n / 2 - 1; i >= 0; i--)
        sift_down(heap, n, i);
    for (int n_ranked = 0; n_ranked < most; n_ranked++) {
        float weight = work->weights[heap[0].id];
        if (s->top_k == 0 && (weight < (float)s->min_p || sum >= s->top_p * total))
            return n_ranked;
        sum += weight;
        glyd_candidate first = heap[0];
        int left = n - n_ranked - 1;
        heap[0] = heap[left];
        sift_down(heap, left, 0);
        heap[left] = first;
    }
    return most;
}

static double uniform(uint64_t seed, uint64_t draw)
{
    uint64_t z = seed + (draw + 1) * 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* The candidate at which the running sum of weights passes u times their total; candidate i is
 * first[i * step]. The last one where rounding leaves a crumb. */
static int32_t pick(const glyd_candidate *first, int step, int n, const float *weights,
                    double total, double u)
{
    double rest = u * total;
    for (int i = 0; i < n - 1; i++) {
        rest -= weights[first[i * step].id];
        if (rest < 0)
            return first[i * step].id;
    }
    return first[(n - 1) * step].id;
}

int32_t glyd_sample(const glyd_sampling *s, const float *logits, int vocab, const glyd_draw *draw,
                    const glyd_sampler_work *work)
{
    logits = adjust(s, logits, vocab, draw, work);
    int32_t best = largest_id(logits, vocab);
    if (s->temperature == 0 || best < 0)
        return best;
    double total, u = uniform(s->seed, draw->index);
    int n = collect(s, logits, vocab, logits[best], work, &total);
    if (s->top_k == 0 && s->top_p >= 1 && s->min_p <= 0)
        return pick(work->candidates, 1, n, work->weights, total, u);

    int n_ranked = rank(s, work, n, total);
    const glyd_candidate *first = work->candidates + n - 1;
    double ranked = 0, kept = 0;
    for (int i = 0; i < n_ranked; i++)
        ranked += work->weights[first[-i].id];
    if (s->top_k == 0)
        return pick(first, -1, n_ranked, work->weights, ranked, u);
    /* top_p is a share of what top_k left. */
    int n_kept = 0;
    for (; n_kept < n_ranked; n_kept++) {
        float weight = work->weights[first[-n_kept].id];
        if (weight < (float)s->min_p || kept >= s->top_p * ranked)
            break;
        kept += weight;
    }
    return pick(first, -1, n_kept, work->weights, kept, u);
}
