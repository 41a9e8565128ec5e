/* linear.h - products with a weight as it is held: y = x W^T (+ bias), activations in float32.
 *
 * The order of the sum
 * --------------------
 * One result y[token][row] is the same 32 bits for every layout of the weight, every CPU variant,
 * every number of threads, and whatever else is in the call: other tokens and other matrices.
 * Columns are padded to a multiple of 64, with x = +0 and a weight of +0 or a positive number.
 *
 *   1. Sixteen slots start at +0. Columns are taken 32 at a time, in order; of these, columns 2w
 *      and 2w + 1 belong to slot w, in that order, and each is one fused multiply-add (rounded
 *      once): slot[w] = fma(W[row][column], x[token][column], slot[w]).
 *   2. The slots are added in a fixed tree: with A(k) = (slot[k] + slot[k + 2]) +
 *      (slot[k + 1] + slot[k + 3]), the sum is (A(0) + A(8)) + (A(4) + A(12)).
 *   3. The bias is added, if there is one.
 *   4. A result that is not a number becomes 0x7fc00000, so that it has one bit pattern too.
 *
 * Memory     no allocation: the caller gives scratch, aligned to 64 bytes.
 * Threads    a weight may be used by any number of calls at once; scratch and pool by one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CPU_LINEAR_H
#define GLYD_CPU_LINEAR_H

#include "glyd/codec.h"

/* A matrix and what its decoder needs beside it: owns nothing. */
typedef struct glyd_linear_weight {
    glyd_matrix matrix;
    const void *lookup; /* layout mma: built by glyd_linear_weight_init in the caller's memory */
} glyd_linear_weight;

/* Bytes of lookup memory that a matrix needs: 0 unless its layout is mma. */
size_t glyd_linear_lookup_bytes(const glyd_matrix *m);

/* Fill *w from a matrix that has passed glyd_check. `lookup` is aligned to 64 bytes and lives as
 * long as the weight; NULL is allowed where glyd_linear_lookup_bytes says 0.
 * Errors: E_CORRUPT (the matrix never passed glyd_check). */
GLYD_MUST_CHECK glyd_status glyd_linear_weight_init(glyd_linear_weight *w, const glyd_matrix *m,
                                                    void *lookup, glyd_error *err);

/* One matrix of a product and where its results go. */
typedef struct glyd_linear_part {
    const glyd_linear_weight *weight;
    const float *bias; /* rows values, or NULL */
    float *y;          /* result of token i and row r at y[i * y_stride + r] */
    int64_t y_stride;
} glyd_linear_part;

/* Bytes of scratch for products of at most `n_tokens` tokens with matrices of at most `cols`
 * columns on a pool of `n_threads`. */
size_t glyd_linear_scratch_bytes(int64_t cols, int64_t n_tokens, int n_threads);

/* Multiply n_tokens rows of x, token i at x + i * x_stride, by each of the parts' matrices, which
 * all have the same number of columns. One parallel region: give matrices that share x (q, k and
 * v; gate and up) in one call. */
void glyd_linear(const glyd_linear_part *parts, int n_parts, const float *x, int64_t x_stride,
                 int64_t n_tokens, void *scratch, glyd_pool *pool);

#endif
