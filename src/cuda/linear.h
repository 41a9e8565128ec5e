/* linear.h - the product kernels' launchers, one a kernel file; glyd_gpu_linear picks among them.
 *
 * All take checked arguments and a config from glyd_gpu_config_for; `codes` is the mma12 code
 * plane, the matrix's own or one decoded into the workspace.
 * Errors: E_DEVICE with CUDA's text; nothing was launched then.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_LINEAR_H
#define GLYD_CUDA_LINEAR_H

#include "cuda/config.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

GLYD_MUST_CHECK glyd_status glyd_k_linear_plain(const glyd_gpu_linear_args *args,
                                                const uint8_t *codes, cudaStream_t stream,
                                                glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_k_linear_few(const glyd_gpu_linear_args *args,
                                              const glyd_gpu_config *config, const uint8_t *codes,
                                              cudaStream_t stream, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_k_linear_many(const glyd_gpu_linear_args *args,
                                               const glyd_gpu_config *config, const uint8_t *codes,
                                               cudaStream_t stream, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_k_linear_walk(const glyd_gpu_linear_args *args,
                                               const glyd_gpu_config *config, const uint8_t *codes,
                                               cudaStream_t stream, glyd_error *err);

/* Decode all streams of an mma matrix to an mma12 code plane. */
GLYD_MUST_CHECK glyd_status glyd_k_expand(const glyd_matrix *m, uint8_t *codes, cudaStream_t stream,
                                          glyd_error *err);

/* The product that glyd_gpu_config_for would not choose: for tests and benchmarks. */
GLYD_MUST_CHECK glyd_status glyd_gpu_linear_with(const glyd_gpu_linear_args *args,
                                                 const glyd_gpu_config *config, void *stream,
                                                 glyd_error *err);

#ifdef __cplusplus
}
#endif
#endif
