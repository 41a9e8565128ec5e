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
    glyd_status status = GLYD_E_DEVICE;
    if (error == cudaErrorMemoryAllocation)
        status = GLYD_E_NOMEM;
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
        error == cudaErrorNoKernelImageForDevice)
        status = GLYD_E_NODEVICE;
    return glyd_error_set(err, status, "%s: %s", what, cudaGetErrorString(error));
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

/* The attribute that lets a kernel start before those in front of it have ended: it then waits by
 * itself before it reads tokens or writes results. Not where the codes are being decoded into the
 * workspace just before. Returns the number of attributes set. */
static inline unsigned launch_early(const glyd_gpu_config *config, cudaLaunchAttribute *attribute)
{
    attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute->val.programmaticStreamSerializationAllowed = 1;
    return config->expand ? 0 : 1;
}

/* What the copy engine brings, each in boxes; what lies outside an array reads as zero.
 *   x          [tokens, cols] bf16: 64 columns of a tile of tokens, swizzled by 128 bytes
 *   sm, codes  [tiles, blocks * bytes / 8] uint64: some blocks of some tiles, as they lie */
typedef struct linear_maps {
    CUtensorMap x, sm, codes;
} linear_maps;

glyd_status glyd_k_linear_maps(const glyd_gpu_linear_args *args, const uint8_t *codes,
                               int token_tile, int box_blocks, int box_tiles, linear_maps *maps,
                               glyd_error *err);

#endif
