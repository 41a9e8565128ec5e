/* attention_body.h - attention over paged keys and values, compiled once for each instruction set.
 *
 * The queries of a group and of a run of tokens are rows. ROWS of them share each load of a key or
 * a value: they attend to nearly the same positions, and what they do not share is done row by row.
 * How rows and columns are grouped changes no result: each is a chain of its own.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CPU_ATTENTION_BODY_H
#define GLYD_CPU_ATTENTION_BODY_H

#include "cpu/ops.h"
#include "cpu/vec.h"

enum {
    ROWS = 4,
#if defined(__AVX512F__)
    WIDTH = 2, /* vectors of keys or values at once: with four rows, eight chains in registers */
#else
    WIDTH = 1,
#endif
};

/* A query, the positions it attends to, and its scores. */
typedef struct row {
    const float *q;
    float *out;
    int first, last;
    float *score; /* by position; whole vectors of sixteen are written */
    float total;  /* of the weights */
} row;

static inline const float *page_at(const glyd_attention *a, int position)
{
    return a->pages + a->page_table[position / GLYD_KV_PAGE] * a->page_stride;
}

/* Scores of n rows with 16 * width keys from `position`, in one page. Inlined for each n and width,
 * so that the sums stay in registers. */
static inline __attribute__((always_inline)) void
score_keys(const glyd_attention *a, const row *rows, int n, int width, int position)
{
    int head_dim = a->shape.head_dim;
    const float *keys = page_at(a, position) + (int64_t)(position % GLYD_KV_PAGE) * head_dim;
    vec sum[ROWS][WIDTH];
    for (int r = 0; r < n; r++)
        for (int j = 0; j < width; j++)
            sum[r][j] = vec_set(0);
    for (int d = 0; d < head_dim; d++) {
        vec k[WIDTH];
        for (int j = 0; j < width; j++)
            k[j] = vec_load(keys + ((int64_t)j * head_dim + d) * VEC);
        for (int r = 0; r < n; r++)
            for (int j = 0; j < width; j++)
                sum[r][j] = vec_fma(vec_set(rows[r].q[d]), k[j], sum[r][j]);
    }
    for (int r = 0; r < n; r++)
        for (int j = 0; j < width; j++)
            vec_store(rows[r].score + position + j * VEC, vec_mul(sum[r][j], vec_set(a->scale)));
}

static inline __attribute__((always_inline)) void score_n_rows(const glyd_attention *a,
                                                               const row *rows, int n)
{
    int last = rows[n - 1].last, p = rows[0].first / VEC * VEC;
    while (p <= last) {
        if (p % GLYD_KV_PAGE + WIDTH * VEC <= GLYD_KV_PAGE && p + (WIDTH - 1) * VEC <= last) {
            score_keys(a, rows, n, WIDTH, p);
            p += WIDTH * VEC;
        } else {
            score_keys(a, rows, n, 1, p);
            p += VEC;
        }
    }
}

static void score_rows(const glyd_attention *a, const row *rows, int n)
{
    switch (n) {
    case 1:
        score_n_rows(a, rows, 1);
        break;
    case 2:
        score_n_rows(a, rows, 2);
        break;
    case 3:
        score_n_rows(a, rows, 3);
        break;
    default:
        score_n_rows(a, rows, ROWS);
        break;
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

/* Add to n rows' sums the values of positions [from, end), `width` vectors of them from `column`.
 */
static inline __attribute__((always_inline)) void mix_range(const glyd_attention *a,
                                                            const row *rows, int n, int from,
                                                            int end, int column, int width,
                                                            vec sum[][WIDTH])
{
    int head_dim = a->shape.head_dim;
    int64_t value_stride = (head_dim + VEC - 1) / VEC * VEC;
    while (from < end) {
        const float *values = page_at(a, from) + (int64_t)GLYD_KV_PAGE * head_dim + column;
        int page_end = (from / GLYD_KV_PAGE + 1) * GLYD_KV_PAGE;
        int stop = page_end < end ? page_end : end;
        for (; from < stop; from++) {
            const float *value = values + from % GLYD_KV_PAGE * value_stride;
            vec v[WIDTH];
            for (int j = 0; j < width; j++)
                v[j] = vec_load(value + (int64_t)j * VEC);
            for (int r = 0; r < n; r++)
                for (int j = 0; j < width; j++)
                    sum[r][j] = vec_fma(vec_set(rows[r].score[from]), v[j], sum[r][j]);
        }
    }
}

/* out[d] of n rows for `width` vectors of d from `column`. Positions that all rows attend to are
 * in the middle; each row has its own few before and after them. */
static inline __attribute__((always_inline)) void
mix_columns(const glyd_attention *a, const row *rows, int n, int column, int width)
{
    vec sum[ROWS][WIDTH];
    int shared = rows[n - 1].first, end = rows[0].last + 1;
    if (end < shared)
        end = shared;
    for (int r = 0; r < n; r++) {
        int before = shared < rows[r].last + 1 ? shared : rows[r].last + 1;
        for (int j = 0; j < width; j++)
            sum[r][j] = vec_set(0);
        mix_range(a, &rows[r], 1, rows[r].first, before, column, width, &sum[r]);
    }
    mix_range(a, rows, n, shared, end, column, width, sum);
    for (int r = 0; r < n; r++) {
        mix_range(a, &rows[r], 1, end, rows[r].last + 1, column, width, &sum[r]);
        for (int j = 0; j < width; j++) {
            vec out = vec_div(sum[r][j], vec_set(rows[r].total));
            int at = column + j * VEC, left = a->shape.head_dim - at;
            if (left >= VEC)
                vec_store(rows[r].out + at, out);
            else
                vec_store_first(rows[r].out + at, left, out);
        }
    }
}

static inline __attribute__((always_inline)) void mix_n_rows(const glyd_attention *a,
                                                             const row *rows, int n)
{
    int n_vectors = (a->shape.head_dim + VEC - 1) / VEC, v = 0;
    for (; v + WIDTH <= n_vectors; v += WIDTH)
        mix_columns(a, rows, n, v * VEC, WIDTH);
    for (; v < n_vectors; v++)
        mix_columns(a, rows, n, v * VEC, 1);
}

static void mix_rows(const glyd_attention *a, const row *rows, int n)
{
    switch (n) {
    case 1:
        mix_n_rows(a, rows, 1);
        break;
    case 2:
        mix_n_rows(a, rows, 2);
        break;
    case 3:
        mix_n_rows(a, rows, 3);
        break;
    default:
        mix_n_rows(a, rows, ROWS);
        break;
    }
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
            float *score = a->scratch + r * score_stride;
            rows[r] = (row){a->q + at, a->out + at, first, last, score, 0};
        }
        score_rows(a, rows, n);
        for (int r = 0; r < n; r++)
            rows[r].total = weigh(&rows[r]);
        mix_rows(a, rows, n);
    }
}

#endif
