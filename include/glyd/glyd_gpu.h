/* glyd_gpu.h - products straight from packed weights on an NVIDIA GPU.
 *
 * The matrix
 *   A glyd_matrix whose arrays lie in device memory, byte for byte what a save holds: copy each
 *   array of a matrix that passed glyd_check on the host. Arrays start at multiples of 16 bytes
 *   (cudaMalloc gives 256). Calls check every pointer, alignment, shape and size before anything
 *   is launched; the contents are trusted, which is what glyd_check is for.
 *
 * The order of a sum
 *   plan.slices = S cuts the K columns into S slices of ceil(K / S) columns rounded up to 64, the
 *   last one shorter. A slice is a chain from +0: one tensor-core step for each 16 columns, in
 *   order. The slices' float32 sums are added in order, then the bias, then one rounding to bf16.
 *   Every kernel keeps to it: the same plan gives the same bits at any number of tokens, in any
 *   layout, for any weights' coding. plan_cublas finds the plan that gives cuBLAS's own bits.
 *
 * A call allocates nothing, waits for nothing and keeps no state, unless it says so: it may be
 * captured in a graph, and any number of threads, streams and devices may be in calls at once. It
 * works on the calling thread's current device. `stream` is a cudaStream_t (NULL: the default
 * stream). On Hopper a product may start while kernels before it in its stream still run, if these
 * allow it (as products themselves do): it loads weights then, and waits before it reads X or
 * writes Y. So the arrays of a matrix must not be written by a kernel that lets its successors
 * start early. Where a call fails, nothing was launched and the CUDA context stays usable.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_GPU_H
#define GLYD_GPU_H

#include "glyd/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GLYD_GPU_SLICES_MAX = 16 };

typedef struct glyd_gpu_plan {
    int32_t slices; /* 1 to GLYD_GPU_SLICES_MAX */
} glyd_gpu_plan;

/* The library's version, for example "0.1.0". */
GLYD_API const char *glyd_gpu_version(void);

/* The fixed text of a status. */
GLYD_API const char *glyd_gpu_status_text(glyd_status status);

/* Check shape, layout, array sizes, pointers and alignment: what every call below does itself.
 * Errors: E_ARG, E_UNSUPPORTED (a layout the library has no kernels for), naming the array. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_gpu_matrix_check(const glyd_matrix *m, glyd_error *err);

/* The plan for an [O, K] matrix that depends on nothing else: results are then the same whatever
 * the number of tokens and whatever the GPU. */
GLYD_API glyd_gpu_plan glyd_gpu_plan_fixed(int64_t rows, int64_t cols);

/* The workspaces that cuBLAS is given: what it computes depends on them. 0 stands for what PyTorch
 * gives it on Hopper: 32 MiB (CUBLAS_WORKSPACE_CONFIG), and 1 MiB to cublasLt, which computes
 * products with a bias (CUBLASLT_WORKSPACE_SIZE). */
typedef struct glyd_gpu_plans_options {
    size_t cublas_bytes, cublaslt_bytes;
} glyd_gpu_plans_options;

/* Plans by which cuBLAS computes, found once for each product and remembered. Belongs to the device
 * that is current when it is created; one thread at a time uses it. `options` may be NULL.
 * Errors: E_NOTFOUND (no libcublas or libcublasLt, which are loaded here), E_NODEVICE, E_NOMEM,
 * E_DEVICE. */
typedef struct glyd_gpu_plans glyd_gpu_plans;
GLYD_API GLYD_MUST_CHECK glyd_status glyd_gpu_plans_create(const glyd_gpu_plans_options *options,
                                                           glyd_gpu_plans **plans, glyd_error *err);
GLYD_API void glyd_gpu_plans_free(glyd_gpu_plans *plans); /* NULL is allowed */

/* Give device memory back but for the workspaces; what was found stays. */
GLYD_API void glyd_gpu_plans_trim(glyd_gpu_plans *plans);

/* The plan that gives the bits of cuBLAS as PyTorch's F.linear calls it: contiguous operands
 * aligned to 256 bytes, the bias added in float32 before the rounding.
 * Unless it is known already, cuBLAS computes a product of that size whose result tells the order
 * of its sums, and up to 1,024 tiles of it, 16 rows by 8 tokens, spread over all, are computed by
 * the plan that cuBLAS's heuristic speaks of, else by others; a plan may differ from that of one
 * token more. It takes about half a millisecond, waits, and allocates
 * 2 (rows cols + tokens (rows + cols)) bytes of device memory, which are kept for the next product:
 * not for use under graph capture.
 * Errors: E_UNSUPPORTED (not reproduced: no plan gives these bits; unpack the matrix and use cuBLAS
 * itself where they are wanted), E_ARG (also for another device), E_NOMEM, E_DEVICE. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_gpu_plan_cublas(glyd_gpu_plans *plans, int64_t rows,
                                                          int64_t cols, int64_t tokens,
                                                          int has_bias, glyd_gpu_plan *plan,
                                                          glyd_error *err);

/* Y = X W^T (+ bias). All pointers but `weight` itself are device memory. */
typedef struct glyd_gpu_linear_args {
    const glyd_matrix *weight; /* a host struct whose spans are device memory */
    const uint16_t *x;         /* bf16 [tokens, cols], row i at x + i * x_stride; 16-byte aligned */
    int64_t x_stride;          /* elements, at least cols, a multiple of 8 */
    int64_t tokens;            /* 0 is allowed: nothing is done */
    const uint16_t *bias;      /* bf16 [rows], or NULL */
    uint16_t *y;               /* bf16 [tokens, rows], row i at y + i * y_stride */
    int64_t y_stride;          /* elements, at least rows */
    glyd_gpu_plan plan;
    void *workspace; /* at least glyd_gpu_linear_workspace bytes, 256-byte aligned; else NULL */
    size_t workspace_bytes;
} glyd_gpu_linear_args;

/* Bytes of workspace a product of up to `tokens` rows needs; often 0. The contents need no
 * preparation; one workspace serves one call at a time. */
GLYD_API size_t glyd_gpu_linear_workspace(const glyd_matrix *weight, int64_t tokens);

GLYD_API GLYD_MUST_CHECK glyd_status glyd_gpu_linear(const glyd_gpu_linear_args *args, void *stream,
                                                     glyd_error *err);

/* Decode rows [row0, row0 + rows) to bf16, row r at bf16 + (r - row0) * stride (elements). */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_gpu_unpack(const glyd_matrix *m, int64_t row0,
                                                     int64_t rows, uint16_t *bf16, int64_t stride,
                                                     void *stream, glyd_error *err);

/* Decode the rows that `ids` (device memory) names: row ids[i] to out + i * stride. An id outside
 * the matrix gives a row of zeros. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_gpu_embed(const glyd_matrix *m, const int32_t *ids,
                                                    int64_t n_ids, uint16_t *out, int64_t stride,
                                                    void *stream, glyd_error *err);

/* Packing: from bf16 in device memory to the arrays that glyd_pack makes, byte for byte. Array
 * sizes depend on the weights, so it takes two calls and the caller's allocations between them. */
typedef struct glyd_gpu_pack_args {
    glyd_layout layout;   /* GLYD_LAYOUT_MMA12 or GLYD_LAYOUT_MMA */
    int64_t rows, cols;   /* at least 1 each */
    int64_t stride;       /* elements, at least cols */
    const uint16_t *bf16; /* device memory, row r at bf16 + r * stride; fastest where rows start at
                             multiples of 4 bytes */
    void *workspace;      /* at least glyd_gpu_pack_workspace bytes, 256-byte aligned */
    size_t workspace_bytes;
} glyd_gpu_pack_args;

/* Bytes of workspace that both calls need: about 1/1000 of the weights; 0 for what cannot be
 * packed. */
GLYD_API size_t glyd_gpu_pack_workspace(glyd_layout layout, int64_t rows, int64_t cols);

/* First call: survey the weights. Fills *m with the layout, the shape and the bytes of each array
 * (data NULL). Where packing would not make the matrix smaller, m->layout comes back
 * GLYD_LAYOUT_BF16, with one array. Unlike the other calls it waits for the stream, once for mma12
 * and twice for mma, so it is not for use under graph capture.
 * Errors: E_ARG, E_NODEVICE, E_DEVICE. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_gpu_pack_survey(const glyd_gpu_pack_args *args,
                                                          void *stream, glyd_matrix *m,
                                                          glyd_error *err);

/* Second call: write the arrays, in the same stream or ordered after it. *args and *m as they were,
 * the workspace and the weights untouched, and data of each array that has bytes set to device
 * memory, 16-byte aligned. Waits for nothing; nothing is written outside the arrays, whatever sizes
 * *m gives. Errors: E_ARG, E_DEVICE. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_gpu_pack(const glyd_gpu_pack_args *args,
                                                   const glyd_matrix *m, void *stream,
                                                   glyd_error *err);

#ifdef __cplusplus
}
#endif
#endif
