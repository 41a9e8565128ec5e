/* linear.cu - glyd_gpu_linear: check, choose a kernel, launch it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/linear.h"

typedef decltype(&cuTensorMapEncodeTiled) encode_function;

static glyd_status find_encode(encode_function *encode, glyd_error *err)
{
    cudaDriverEntryPointQueryResult found;
    GLYD_TRY(cuda_status(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)encode,
                                                          12000, cudaEnableDefault, &found),
                         "cuTensorMapEncodeTiled", err));
    if (found != cudaDriverEntryPointSuccess)
        GLYD_FAIL(err, GLYD_E_DEVICE, "the driver has no cuTensorMapEncodeTiled: update it");
    return GLYD_OK;
}

/* A row-major matrix of `size` elements, rows `stride_bytes` apart, to be copied in boxes. */
typedef struct map_shape {
    CUtensorMapDataType type;
    CUtensorMapSwizzle swizzle;
    cuuint64_t size[2], stride_bytes;
    cuuint32_t box[2];
} map_shape;

static glyd_status encode_map(encode_function encode, const map_shape *s, const void *data,
                              CUtensorMap *map, glyd_error *err)
{
    const cuuint32_t step[2] = {1, 1};
    CUresult result = encode(map, s->type, 2, (void *)data, s->size, &s->stride_bytes, s->box, step,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, s->swizzle,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        GLYD_FAIL(err, GLYD_E_DEVICE, "cuTensorMapEncodeTiled: error %d", (int)result);
    return GLYD_OK;
}

static map_shape plane_shape(const glyd_matrix *w, int block_bytes, int box_blocks, int box_tiles)
{
    map_shape s = {};
    s.type = CU_TENSOR_MAP_DATA_TYPE_UINT64;
    s.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    s.stride_bytes = (cuuint64_t)(glyd_blocks_of(w->cols) * block_bytes);
    s.size[0] = s.stride_bytes / 8;
    s.size[1] = (cuuint64_t)glyd_tiles_of(w->rows);
    s.box[0] = (cuuint32_t)(box_blocks * block_bytes / 8);
    s.box[1] = (cuuint32_t)box_tiles;
    return s;
}

glyd_status glyd_k_linear_maps(const glyd_gpu_linear_args *args, const uint8_t *codes,
                               int token_tile, int box_blocks, int box_tiles, linear_maps *maps,
                               glyd_error *err)
{
    const glyd_matrix *w = args->weight;
    encode_function encode = NULL;
    GLYD_TRY(find_encode(&encode, err));
    map_shape x = {};
    x.type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    x.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    x.size[0] = (cuuint64_t)w->cols;
    x.size[1] = (cuuint64_t)args->tokens;
    x.stride_bytes = (cuuint64_t)args->x_stride * 2;
    x.box[0] = GLYD_BLOCK_COLS;
    x.box[1] = (cuuint32_t)token_tile;
    map_shape sm = plane_shape(w, GLYD_BLOCK_SM_WORDS * 4, box_blocks, box_tiles);
    map_shape code = plane_shape(w, GLYD_BLOCK_CODE_WORDS * 4, box_blocks, box_tiles);
    GLYD_TRY(encode_map(encode, &x, args->x, &maps->x, err));
    GLYD_TRY(encode_map(encode, &sm, w->array[GLYD_ARRAY_SM].data, &maps->sm, err));
    return encode_map(encode, &code, codes, &maps->codes, err);
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
    case GLYD_GPU_KERNEL_WALK:
        return glyd_k_linear_walk(args, config, codes, on, err);
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
    shape.run_blocks = w->run_blocks;
    shape.tokens = args->tokens;
    shape.slices = args->plan.slices;
    GLYD_TRY(device_of("device", &shape.n_sms, &shape.capability, err));
    GLYD_TRY(glyd_gpu_capability_check(shape.capability / 10, shape.capability % 10, err));
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
