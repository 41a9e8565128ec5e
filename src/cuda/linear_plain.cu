/* linear_plain.cu - the product in its simplest form, for any GPU from sm_80.
 *
 * A warp takes a tile of 16 rows and 16 tokens and reads everything straight from global memory:
 * what the other kernels are held to, and what runs where they cannot.
 *
 * Thread to data   lane 4g + t: rows g and g + 8; tokens 2t and 2t + 1 of each 8.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/linear.h"
#include <cuda_bf16.h>

static constexpr int WARPS = 4;
static constexpr int TOKENS = 16;

typedef struct plain_args {
    packed_arrays w;
    const uint16_t *x;
    const __nv_bfloat16 *bias;
    __nv_bfloat16 *y;
    int64_t x_stride, y_stride;
    int tokens, slice_blocks;
} plain_args;

/* Two neighbouring values of X; zero outside it. */
static __device__ __forceinline__ uint32_t x_pair(const plain_args &p, int token, int col)
{
    if (token >= p.tokens || col >= p.w.cols)
        return 0;
    const uint16_t *x = p.x + token * p.x_stride + col;
    return x[0] | (col + 1 < p.w.cols ? (uint32_t)x[1] << 16 : 0);
}

static __global__ void __launch_bounds__(WARPS * 32) linear_plain_kernel(const plain_args p)
{
    int lane = (int)threadIdx.x % 32, tile = (int)(blockIdx.x * WARPS + threadIdx.x / 32);
    int token0 = (int)blockIdx.y * TOKENS;
    if (tile >= p.w.tiles)
        return;
    tile_bases base = bases_of(p.w, tile, lane);
    escape_window escapes = escapes_from(p.w, tile, 0, lane);
    float sum[TOKENS / 2] = {}, slice[TOKENS / 2] = {};
    for (int block = 0; block < p.w.blocks; block++) {
        if (block && block % p.slice_blocks == 0) {
            for (int i = 0; i < TOKENS / 2; i++) {
                sum[i] = block == p.slice_blocks ? slice[i] : sum[i] + slice[i];
                slice[i] = 0;
            }
        }
        int64_t at = (int64_t)tile * p.w.blocks + block;
        const uint4 *sm = (const uint4 *)p.w.sm + at * (GLYD_BLOCK_SM_WORDS / 4) + lane;
        const uint4 *codes = (const uint4 *)p.w.codes + at * (GLYD_BLOCK_CODE_WORDS / 4) + lane;
        uint32_t a[GLYD_FRAGMENT_REGISTERS];
        fragment_decode(a, sm[0], sm[32], codes[0], base);
        escapes_put(p.w, a, &escapes, tile, block, lane);
#pragma unroll
        for (int j = 0; j < GLYD_BLOCK_GROUPS; j++) {
            int col = block * GLYD_BLOCK_COLS + j * GLYD_GROUP_COLS + lane % 4 * 2;
#pragma unroll
            for (int k = 0; k < TOKENS / 8; k++) {
                int token = token0 + k * 8 + lane / 4;
                mma_m16n8k16(slice + 4 * k, a + 4 * j, x_pair(p, token, col),
                             x_pair(p, token, col + 8));
            }
        }
    }
    bool one = p.w.blocks <= p.slice_blocks;
#pragma unroll
    for (int i = 0; i < TOKENS / 2; i++) {
        int row = tile * GLYD_TILE_ROWS + lane / 4 + (i & 2) * 4;
        int token = token0 + i / 4 * 8 + lane % 4 * 2 + (i & 1);
        if (row < p.w.rows && token < p.tokens) {
            float v = one ? slice[i] : sum[i] + slice[i];
            if (p.bias)
                v += __bfloat162float(p.bias[row]);
            p.y[token * p.y_stride + row] = __float2bfloat16_rn(v);
        }
    }
}

extern "C" glyd_status glyd_k_linear_plain(const glyd_gpu_linear_args *args, const uint8_t *codes,
                                           cudaStream_t stream, glyd_error *err)
{
    plain_args p = {};
    p.w = arrays_of(args->weight, codes);
    p.x = args->x;
    p.bias = (const __nv_bfloat16 *)args->bias;
    p.y = (__nv_bfloat16 *)args->y;
    p.x_stride = args->x_stride;
    p.y_stride = args->y_stride;
    p.tokens = (int)args->tokens;
    p.slice_blocks = (int)glyd_gpu_slice_blocks(args->weight->cols, args->plan.slices);
    dim3 grid((unsigned)((p.w.tiles + WARPS - 1) / WARPS),
              (unsigned)((args->tokens + TOKENS - 1) / TOKENS));
    linear_plain_kernel<<<grid, WARPS * 32, 0, stream>>>(p);
    return cuda_status(cudaGetLastError(), "linear", err);
}
