/* linear.cu - glyd_gpu_linear: check, choose a kernel, launch it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/linear.h"

glyd_status glyd_k_token_map(const glyd_gpu_linear_args *args, int box_tokens, CUtensorMap *map,
                             glyd_error *err)
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    GLYD_TRY(cuda_status(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                          12000, cudaEnableDefault, &found),
                         "cuTensorMapEncodeTiled", err));
    if (found != cudaDriverEntryPointSuccess)
        GLYD_FAIL(err, GLYD_E_DEVICE, "the driver has no cuTensorMapEncodeTiled: update it");
    cuuint64_t size[2] = {(cuuint64_t)args->weight->cols, (cuuint64_t)args->tokens};
    cuuint64_t stride[1] = {(cuuint64_t)args->x_stride * 2};
    cuuint32_t box[2] = {GLYD_BLOCK_COLS, (cuuint32_t)box_tokens}, step[2] = {1, 1};
    CUresult result = ((decltype(&cuTensorMapEncodeTiled))function)(
        map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)args->x, size, stride, box, step,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        GLYD_FAIL(err, GLYD_E_DEVICE, "cuTensorMapEncodeTiled: error %d", (int)result);
    return GLYD_OK;
}

/* The current device's number of SMs and capability. */
static glyd_status device_shape(glyd_gpu_shape *shape, glyd_error *err)
{
    int device, major, minor;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver)
        GLYD_FAIL(err, GLYD_E_NODEVICE, "%s", cudaGetErrorString(error));
    GLYD_TRY(cuda_status(error, "device", err));
    GLYD_TRY(
        cuda_status(cudaDeviceGetAttribute(&shape->n_sms, cudaDevAttrMultiProcessorCount, device),
                    "device", err));
    GLYD_TRY(cuda_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                         "device", err));
    GLYD_TRY(cuda_status(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                         "device", err));
    shape->capability = 10 * major + minor;
    if (major < 8)
        GLYD_FAIL(err, GLYD_E_NODEVICE, "a GPU of capability %d.%d, where 8.0 is the least", major,
                  minor);
    return GLYD_OK;
}

extern "C" glyd_status glyd_gpu_linear_with(const glyd_gpu_linear_args *args,
                                            const glyd_gpu_config *config, void *stream,
                                            glyd_error *err)
{
    const uint8_t *codes = args->weight->array[GLYD_ARRAY_CODES].data;
    cudaStream_t on = (cudaStream_t)stream;
    if (config->expand) {
        GLYD_TRY(glyd_k_expand(args->weight, (uint8_t *)args->workspace, on, err));
        codes = (const uint8_t *)args->workspace;
    }
    switch (config->kernel) {
    case GLYD_GPU_KERNEL_FEW:
        return glyd_k_linear_few(args, config, codes, on, err);
    case GLYD_GPU_KERNEL_MANY:
        return glyd_k_linear_many(args, config, codes, on, err);
    default:
        return glyd_k_linear_plain(args, codes, on, err);
    }
}

extern "C" glyd_status glyd_gpu_linear(const glyd_gpu_linear_args *args, void *stream,
                                       glyd_error *err)
{
    GLYD_TRY(glyd_gpu_linear_check(args, err));
    const glyd_matrix *w = args->weight;
    if (args->tokens == 0 || w->rows == 0)
        return GLYD_OK;
    if (w->cols == 0)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "linear: a matrix without columns");
    glyd_gpu_shape shape = {};
    shape.layout = w->layout;
    shape.rows = w->rows;
    shape.cols = w->cols;
    shape.tokens = args->tokens;
    shape.slices = args->plan.slices;
    GLYD_TRY(device_shape(&shape, err));
    glyd_gpu_config config;
    glyd_gpu_config_for(&shape, &config);
    return glyd_gpu_linear_with(args, &config, stream, err);
}

extern "C" const char *glyd_gpu_version(void)
{
    return glyd_version();
}

extern "C" const char *glyd_gpu_status_text(glyd_status status)
{
    return glyd_status_text(status);
}
