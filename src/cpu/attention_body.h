/* attention_body.h - attention over paged keys and values, compiled once for each instruction set.
 *
 * The queries of a group and of a run of tokens are rows; ROWS of them share each load of keys.
 * Scores of a row lie in scratch, score p at p - the first position of its page, so that whole
 * vectors of sixteen can be computed and the ends masked afterwards.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CPU_ATTENTION_BODY_H
#define GLYD_CPU_ATTENTION_BODY_H

#include "cpu/ops.h"
#include "cpu/vec.h"

enum {
    ROWS = 4,    /* with one score vector each: four chains hide the latency of a fused add */
    COLUMNS = 4, /* vectors of a value that are summed at once: again four chains */
};

/* A query, the positions it attends to, and where its scores are. */
typedef struct row {
    const float *q;
    float *out;
    int first, last;
    float *score; /* of position 0, which need not be in scratch */
} row;

/* Scores of `n` rows with the sixteen keys at `keys`, positions from `position`. Inlined for each
 * n, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void
score_keys(const row *rows, int n, const float *keys, int position, int head_dim, float scale)
{
    vec sum[ROWS];
    for (int r = 0; r < n; r++)
        sum[r] = vec_set(0);
    for (int d = 0; d < head_dim; d++) {
        vec k = vec_load(keys + (int64_t)d * VEC);
        for (int r = 0; r < n; r++)
            sum[r] = vec_fma(vec_set(rows[r].q[d]), k, sum[r]);
    }
    for (int r = 0; r < n; r++)
        vec_store(rows[r].score + position, vec_mul(sum[r], vec_set(scale)));
}

static void score_rows(const glyd_attention *a, const row *rows, int n)
{
    int first = rows[0].first, last = rows[n - 1].last;
    int head_dim = a->shape.head_dim;
    for (int p = first / VEC * VEC; p <= last; p += VEC) {
        const float *page = a->pages + a->page_table[p / GLYD_KV_PAGE] * a->page_stride;
        const float *keys = page + (int64_t)(p % GLYD_KV_PAGE) * head_dim;
        switch (n) {
        case 1:
            score_keys(rows, 1, keys, p, head_dim, a->scale);
            break;
        case 2:
            score_keys(rows, 2, keys, p, head_dim, a->scale);
            break;
        case 3:
            score_keys(rows, 3, keys, p, head_dim, a->scale);
            break;
        default:
            score_keys(rows, ROWS, keys, p, head_dim, a->scale);
            break;
        }
    }
}

/* Fill the ends of the row's vectors of sixteen that it does not attend to. */
static void fill_ends(const row *r, float x)
{
    for (int p = r->first / VEC * VEC; p < r->first; p++)
        r->score[p] = x;
    for (int p = r->last + 1; p % VEC != 0; p++)
        r->score[p] = x;
}

/* Turn scores into weights; returns their sum. */
static float weigh(const row *r)
{
    int start = r->first / VEC * VEC;
    fill_ends(r, -INFINITY);
    vec most = vec_set(-INFINITY);
    for (int p = start; p <= r->last; p += VEC)
        most = vec_max(vec_load(r->score + p), most);
    vec largest = vec_set(vec_largest(most));
    for (int p = start; p <= r->last; p += VEC)
        vec_store(r->score + p, vec_exp(vec_sub(vec_load(r->score + p), largest)));
    fill_ends(r, 0);
    vec sum = vec_set(0);
    for (int p = start; p <= r->last; p += VEC)
        sum = vec_add(sum, vec_load(r->score + p));
    return vec_sum(sum);
}

/* out[d] for `n` vectors of d from `column`, weights from the row's scores. */
static inline __attribute__((always_inline)) void mix_columns(const glyd_attention *a, const row *r,
                                                              float total, int column, int n)
{
    int head_dim = a->shape.head_dim;
    int64_t value_stride = (head_dim + VEC - 1) / VEC * VEC;
    vec sum[COLUMNS];
    for (int j = 0; j < n; j++)
        sum[j] = vec_set(0);
    for (int p = r->first; p <= r->last;) {
        const float *page = a->pages + a->page_table[p / GLYD_KV_PAGE] * a->page_stride;
        const float *values = page + (int64_t)GLYD_KV_PAGE * head_dim + column;
        int end = (p / GLYD_KV_PAGE + 1) * GLYD_KV_PAGE;
        if (end > r->last + 1)
            end = r->last + 1;
        for (; p < end; p++) {
            vec w = vec_set(r->score[p]);
            const float *value = values + p % GLYD_KV_PAGE * value_stride;
            for (int j = 0; j < n; j++)
                sum[j] = vec_fma(w, vec_load(value + (int64_t)j * VEC), sum[j]);
        }
    }
    for (int j = 0; j < n; j++) {
        vec out = vec_div(sum[j], vec_set(total));
        int left = head_dim - column - j * VEC;
        if (left >= VEC)
            vec_store(r->out + column + j * VEC, out);
        else
            vec_store_first(r->out + column + j * VEC, left, out);
    }
}

static void mix_row(const glyd_attention *a, const row *r, float total)
{
    int n_vectors = (a->shape.head_dim + VEC - 1) / VEC, v = 0;
    for (; v + COLUMNS <= n_vectors; v += COLUMNS)
        mix_columns(a, r, total, v * VEC, COLUMNS);
    for (; v < n_vectors; v++)
        mix_columns(a, r, total, v * VEC, 1);
}

static void attention(const glyd_attention *a)
{
    int64_t score_stride = glyd_attention_scratch(a->position + a->n_tokens) / ROWS;
    int n_rows = a->n_tokens * a->group;
    for (int i = 0; i < n_rows; i += ROWS) {
        row rows[ROWS];
        int n = n_rows - i < ROWS ? n_rows - i : ROWS;
        for (int r = 0; r < n; r++) {
            int token = (i + r) / a->group, head = (i + r) % a->group;
            int64_t at = token * a->stride + (int64_t)head * a->shape.head_dim;
            int last = a->position + token;
            int first = a->window && last >= a->window ? last - a->window + 1 : 0;
            rows[r] = (row){a->q + at, a->out + at, first, last, a->scratch + r * score_stride};
        }
        score_rows(a, rows, n);
        for (int r = 0; r < n; r++) {
            float total = weigh(&rows[r]);
            mix_row(a, &rows[r], total);
        }
    }
}

#endif
