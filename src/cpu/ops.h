/* ops.h - the operations between products, on rows of float32.
 *
 * One table a CPU variant, all with the same bits: the order of every sum is part of the
 * definition here. `sum` below means sixteen partial sums, element i in partial sum i mod 16, each
 * taken in order from +0, then added by halving (8, 4, 2, 1). A fused multiply-add is rounded once;
 * every other operation by itself. exp is the polynomial of vec.h.
 *
 * Every operation works on one row or one head, so a result depends on that row alone.
 *
 * Memory     no allocation; rows need no alignment.
 * Threads    no state: any number at once.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CPU_OPS_H
#define GLYD_CPU_OPS_H

#include "base/cpu.h"
#include <stdint.h>

enum {
    GLYD_KV_PAGE = 32,       /* positions of a page of the KV cache */
    GLYD_HEAD_DIM_MAX = 256, /* of attention: its accumulators stay in registers and L1 */
};

/* The KV cache of one layer: pages of GLYD_KV_PAGE positions, each holding for each KV head
 *   keys    [2][head_dim][16]: element d of position p at (p / 16, d, p % 16), so that sixteen
 *           scores are computed at once without a sum across lanes
 *   values  [32][head_dim rounded up to 16]
 * Positions that were never stored hold anything; they are read and not used. */
typedef struct glyd_kv_shape {
    int n_kv_heads, head_dim;
} glyd_kv_shape;

/* Floats of one head of a page: keys, then values. */
int64_t glyd_kv_head_floats(int head_dim);

/* Attention of one run of tokens of one sequence and one KV head.
 *
 * Query head h of the group and token i attend to positions first..last, last = position + i and
 * first = max(0, last - window + 1), or 0 without a window:
 *   s[p]   = scale * dot(q, k[p]); dot is one chain of fused multiply-adds over d from +0
 *   w[p]   = exp(s[p] - max s)
 *   out[d] = (chain of fused multiply-adds of w[p] v[p][d] over p from +0) / sum of w, where w[p]
 *            belongs to partial sum p mod 16 */
typedef struct glyd_attention {
    glyd_kv_shape shape;
    int group;  /* query heads of a KV head */
    int window; /* 0: none */
    float scale;
    const float *q; /* head h of token i at q + i * stride + h * head_dim, h in [0, group) */
    float *out;     /* the same shape */
    int64_t stride;
    int n_tokens, position;    /* of the run; the first token's position */
    const float *pages;        /* the layer's pages, at this KV head */
    int64_t page_stride;       /* floats from page to page */
    const int32_t *page_table; /* page of position p: page_table[p / GLYD_KV_PAGE] */
    float *scratch;            /* glyd_attention_scratch(position + n_tokens) floats */
} glyd_attention;

int64_t glyd_attention_scratch(int64_t n_positions);

typedef struct glyd_ops {
    /* y[i] = (x[i] * (1 / sqrt(sum(x[i]^2) / n + eps))) * weight[i]; x may be y */
    void (*rmsnorm)(const float *x, const float *weight, float *y, int64_t n, float eps);

    /* x[i] += y[i] */
    void (*add)(float *x, const float *y, int64_t n);

    /* gate[i] = (gate[i] / (1 + exp(-gate[i]))) * up[i] */
    void (*silu_mul)(float *gate, const float *up, int64_t n);

    /* x[i] = exp(x[i]) */
    void (*exp)(float *x, int64_t n);

    /* Rotate the pairs (x[i], x[i + n/2]) of a head of n values by the angles whose cosines are
     * turn[0..n/2) and whose sines are turn[n/2..n):
     *   x[i] = x[i] cos - x[i + n/2] sin,  x[i + n/2] = x[i + n/2] cos + x[i] sin */
    void (*rope)(float *x, const float *turn, int64_t n);

    void (*attention)(const glyd_attention *a);
} glyd_ops;

/* The table of a variant that this processor has. */
const glyd_ops *glyd_ops_of(glyd_variant variant);

/* Store one position's key and value of one KV head into its page. */
void glyd_kv_store(float *head, int slot, int head_dim, const float *key, const float *value);

extern const glyd_ops glyd_ops_c, glyd_ops_avx2, glyd_ops_avx512;

#endif
