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
 * itself before it reads tokens or writes results. From sm_90. */
static inline cudaLaunchAttribute launch_early(void)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    return attribute;
}

/* The current device's number of SMs and its capability, 10 * major + minor. */
static inline glyd_status device_of(const char *what, int *n_sms, int *capability, glyd_error *err)
{
    int device, major, minor;
    GLYD_TRY(cuda_status(cudaGetDevice(&device), what, err));
    GLYD_TRY(cuda_status(cudaDeviceGetAttribute(n_sms, cudaDevAttrMultiProcessorCount, device),
                         what, err));
    GLYD_TRY(cuda_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                         what, err));
    GLYD_TRY(cuda_status(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                         what, err));
    *capability = 10 * major + minor;
    return GLYD_OK;
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

/* Launch a product's kernel(maps, args) as `config` says; `cluster` may be NULL. It starts early,
 * but not where the codes are being decoded into the workspace just before. */
template <typename Args>
static glyd_status launch_product(void (*kernel)(linear_maps, Args), dim3 grid, const dim3 *cluster,
                                  const glyd_gpu_config *config, const linear_maps &maps,
                                  const Args &args, cudaStream_t stream, glyd_error *err)
{
    GLYD_TRY(cuda_status(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              config->shared_bytes),
                         "linear", err));
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t launch = {};
    launch.gridDim = grid;
    launch.blockDim = dim3((unsigned)config->threads);
    launch.dynamicSmemBytes = (size_t)config->shared_bytes;
    launch.stream = stream;
    launch.attrs = attributes;
    if (cluster) {
        cudaLaunchAttribute *attribute = &attributes[launch.numAttrs++];
        attribute->id = cudaLaunchAttributeClusterDimension;
        attribute->val.clusterDim.x = cluster->x;
        attribute->val.clusterDim.y = cluster->y;
        attribute->val.clusterDim.z = cluster->z;
    }
    if (!config->expand)
        attributes[launch.numAttrs++] = launch_early();
    return cuda_status(cudaLaunchKernelEx(&launch, kernel, maps, args), "linear", err);
}

#endif
