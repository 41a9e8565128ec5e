/* plan_check.h - a product whose result tells the order of its sums, and a comparison with one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_PLAN_CHECK_H
#define GLYD_CUDA_PLAN_CHECK_H

#include "cuda/plan_cache.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GLYD_PLAN_SCHEMES_MAX = 96 }; /* of one comparison */

/* A product in device memory: bf16, row-major, without gaps. */
typedef struct glyd_plan_product {
    int64_t rows, cols, tokens;
    uint16_t *w, *x; /* [rows, cols], [tokens, cols] */
    uint16_t *bias;  /* [rows], or NULL */
    uint16_t *y;     /* [tokens, rows] */
} glyd_plan_product;

/* Fill W, X and the bias. A few large products cancel across K, so that the roundings of the sums
 * between them are larger than a result's last bit: another order shows in most results, and not in
 * a few of a thousand. Errors: E_DEVICE. */
GLYD_MUST_CHECK glyd_status glyd_k_plan_fill(const glyd_plan_product *p, int fill_w,
                                             cudaStream_t stream, glyd_error *err);

/* Set Y to the bias in every row, or to NaN. Errors: E_DEVICE. */
GLYD_MUST_CHECK glyd_status glyd_k_plan_start(const glyd_plan_product *p, int from_bias,
                                              cudaStream_t stream, glyd_error *err);

/* For each of the n schemes, add to different[i] how many results differ from Y's. Compared are the
 * results of up to 1,024 tiles of 16 rows by 8 tokens, spread evenly over rows and tokens, the
 * first and the last ones among them. Errors: E_DEVICE. */
GLYD_MUST_CHECK glyd_status glyd_k_plan_compare(const glyd_plan_product *p,
                                                const glyd_plan_scheme *schemes, int n,
                                                uint32_t *different, cudaStream_t stream,
                                                glyd_error *err);

#ifdef __cplusplus
}
#endif
#endif
