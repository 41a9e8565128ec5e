/* backend.h - what the engine asks of a device: a table of functions and one opaque context.
 *
 * A backend sees batches, never requests, and knows no model. Activations are its own memory and
 * its own element type; the engine only passes them on, and reads logits through `logits`.
 *
 *   open     the context; weight_load, vector_load, rows_create, kv_create: before the first step
 *   step     begin, any of the operations, logits or finish
 *   close    frees what is left, weights and memory included
 *
 * Errors     operations queue work and cannot fail by themselves; a device that fails remembers it
 *            and says so at the next `logits` or `finish`.
 * Exactness  a token's result depends on its own sequence alone: not on the batch, the threads, or
 *            how a weight is coded.
 * Threads    one context is used by one thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_BACKEND_H
#define GLYD_ENGINE_BACKEND_H

#include "glyd/codec.h"
#include <stdbool.h>

typedef struct glyd_weight glyd_weight; /* a matrix, ready for products and for embedding */
typedef struct glyd_vector glyd_vector; /* a norm's weights or a bias */
typedef struct glyd_rows glyd_rows;     /* activations, a row a token */
typedef struct glyd_kv glyd_kv;         /* the KV pool of all layers */

/* Tokens next to each other in a batch and in one sequence. */
typedef struct glyd_run {
    int first, n_tokens;       /* in the batch */
    int position;              /* of the first token in its sequence */
    const int32_t *page_table; /* page of position p: page_table[p / glyd_backend.page_tokens] */
} glyd_run;

typedef struct glyd_batch {
    int n_tokens;
    const int32_t *ids; /* n_tokens */
    const float *turns; /* n_tokens rows of head_dim: cosines, then sines (rope.h) */
    const glyd_run *runs;
    int n_runs;
} glyd_batch;

/* The sizes that a backend plans its memory for. */
typedef struct glyd_sizes {
    int n_layers, hidden, n_heads, n_kv_heads, head_dim, ffn, vocab;
    int window; /* positions a token attends to, itself included; 0: all before it */
    int context;
    int n_tokens;  /* of a batch, at most */
    int n_outputs; /* rows of logits at once, at most */
    int n_pages;   /* of the KV pool */
    int n_threads;
    bool pin;
    bool expand; /* hold mma matrices as mma12 */
    bool unpack; /* hold every matrix as bf16 */
} glyd_sizes;

/* One of several products with the same x. */
typedef struct glyd_product {
    const glyd_weight *weight;
    const glyd_vector *bias; /* NULL: none */
    glyd_rows *y;
} glyd_product;

typedef struct glyd_backend {
    const char *name;
    int page_tokens; /* positions of a page */
    bool expands;    /* multiplies faster from mma12 codes than from mma's streams */
    /* Bytes of the KV pool and of everything else but weights. Pure: nothing is opened. */
    size_t (*kv_bytes)(const glyd_sizes *sizes);
    size_t (*scratch_bytes)(const glyd_sizes *sizes);

    glyd_status (*open)(const glyd_sizes *sizes, void **ctx, glyd_error *err);
    void (*close)(void *ctx);
    const char *(*describe)(void *ctx); /* "cpu (avx512)" */

    /* Check the bytes, once, and take the weight, of a packed matrix expanded or unpacked where
     * sizes says so. The host matrix lives as long as the context: a backend that can read
     * it in place does. */
    glyd_status (*weight_load)(void *ctx, const glyd_matrix *host, glyd_weight **weight,
                               glyd_error *err);
    glyd_status (*vector_load)(void *ctx, const glyd_matrix *host, glyd_vector **vector,
                               glyd_error *err);
    glyd_status (*rows_create)(void *ctx, int n_rows, int64_t n_cols, glyd_rows **rows,
                               glyd_error *err);
    glyd_status (*kv_create)(void *ctx, glyd_kv **kv, glyd_error *err);
    /* Copy a page, in all layers; between steps. */
    void (*kv_copy)(void *ctx, glyd_kv *kv, int from, int to);

    /* Set the batch that the operations below work on; it lives until `finish`. */
    void (*begin)(void *ctx, const glyd_batch *batch);
    /* x[i] = table[ids[i]] */
    void (*embed)(void *ctx, const glyd_weight *table, glyd_rows *x);
    /* y = x W^T + bias for each part */
    void (*linear)(void *ctx, const glyd_product *parts, int n_parts, const glyd_rows *x);
    /* y = x / rms(x) * weight, for each run of `weight`'s length in a row; y may be x */
    void (*rmsnorm)(void *ctx, const glyd_rows *x, const glyd_vector *weight, float eps,
                    glyd_rows *y);
    /* Turn each head of x by its token's angles. */
    void (*rope)(void *ctx, glyd_rows *x);
    void (*kv_store)(void *ctx, glyd_kv *kv, int layer, const glyd_rows *k, const glyd_rows *v);
    /* y = softmax(q k^T * scale) v over the positions before and at each token */
    void (*attention)(void *ctx, const glyd_kv *kv, int layer, const glyd_rows *q, float scale,
                      glyd_rows *y);
    /* gate = gate / (1 + exp(-gate)) * up */
    void (*silu_mul)(void *ctx, glyd_rows *gate, const glyd_rows *up);
    /* x += y */
    void (*add)(void *ctx, glyd_rows *x, const glyd_rows *y);
    /* The head: logits of rows[0..n) of x, norm included, as n x vocab floats in host memory that
     * stay until the next call. */
    glyd_status (*logits)(void *ctx, const glyd_rows *x, const int32_t *rows, int n,
                          const glyd_vector *norm, float eps, const glyd_weight *head,
                          const float **logits, glyd_error *err);
    glyd_status (*finish)(void *ctx, glyd_error *err);
} glyd_backend;

const glyd_backend *glyd_backend_cpu(void);

#endif
