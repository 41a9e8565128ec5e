/* pack_kernels.h - what the parts of packing on the GPU share: the weights, the workspace.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_PACK_KERNELS_H
#define GLYD_CUDA_PACK_KERNELS_H

#include "cuda/pack.h"
#include <cuda_runtime_api.h>

/* The weights, and the workspace's parts, in device memory. */
typedef struct pack_job {
    const uint16_t *bf16;
    int64_t rows, cols, stride, tasks; /* a task is a run of a tile, also for mma12 */
    int blocks, runs;
    bool wide; /* rows start at multiples of 4 bytes */
    glyd_pack_totals *totals;
    glyd_pack_code *code;
    uint8_t *bases;       /* a row each, zero beyond the rows */
    glyd_survey *surveys; /* mma: a row each */
    uint32_t *escapes;    /* a task each: its escapes, then its first one */
    uint32_t *units;      /* mma: the same of its stream */
} pack_job;

/* Survey the rows and choose all bases. Errors: E_DEVICE. */
GLYD_MUST_CHECK glyd_status glyd_k_pack_bases(const pack_job *job, bool mma, cudaStream_t stream,
                                              glyd_error *err);

#endif
