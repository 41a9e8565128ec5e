/* launch.cuh - what launchers share: CUDA's errors as statuses, and the map of an X.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_LAUNCH_CUH
#define GLYD_CUDA_LAUNCH_CUH

#include "base/error.h"
#include "cuda/config.h"
#include "cuda/fragment.cuh"
#include <cuda_runtime.h>

static inline glyd_status cuda_status(cudaError_t error, const char *what, glyd_error *err)
{
    if (error == cudaSuccess)
        return GLYD_OK;
    (void)cudaGetLastError(); /* else the next launch would report it again */
    return glyd_error_set(err, GLYD_E_DEVICE, "%s: %s", what, cudaGetErrorString(error));
}

static inline packed_arrays arrays_of(const glyd_matrix *m, const uint8_t *codes)
{
    packed_arrays a;
    a.sm = m->array[GLYD_ARRAY_SM].data;
    a.codes = codes;
    a.bases = m->array[GLYD_ARRAY_BASES].data;
    a.escape_index = (const uint32_t *)m->array[GLYD_ARRAY_ESCAPE_INDEX].data;
    a.escapes = (const uint32_t *)m->array[GLYD_ARRAY_ESCAPES].data;
    a.entries = (const uint32_t *)m->array[GLYD_ARRAY_ENTRIES].data;
    a.table = m->array[GLYD_ARRAY_TABLE].data;
    a.rows = (int)m->rows;
    a.cols = (int)m->cols;
    a.tiles = (int)glyd_tiles_of(m->rows);
    a.blocks = (int)glyd_blocks_of(m->cols);
    a.run_blocks = m->run_blocks;
    return a;
}

/* Describe X [tokens, cols] to the copy engine: boxes of 64 columns x box_tokens rows, swizzled
 * by 128 bytes; what lies outside X reads as zero. */
glyd_status glyd_k_token_map(const glyd_gpu_linear_args *args, int box_tokens, CUtensorMap *map,
                             glyd_error *err);

#endif
