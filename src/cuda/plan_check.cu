/* plan_check.cu - products in a given order of sums, compared with cuBLAS's.
 *
 * Thread to data   a warp has a tile of 16 rows by 8 tokens and one scheme; lane 4g + t holds W and
 *                  X as m16n8k16 wants them and results of rows g, g + 8, tokens 2t, 2t + 1.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/plan_check.h"
#include <cuda_bf16.h>

static constexpr int WARPS = 4;
static constexpr int TILE_TOKENS = 8;
static constexpr int TILES_MAX = 1024, TOKEN_TILES_MAX = 32;
static constexpr int LARGE = 16;                /* columns whose products are large, */
static constexpr float LARGE_FACTOR = 65536.0f; /* by this */

static __device__ __forceinline__ uint32_t hash(uint64_t i)
{
    i *= 0x9e3779b97f4a7c15ull;
    i = (i ^ i >> 31) * 0xbf58476d1ce4e5b9ull;
    return (uint32_t)(i >> 32);
}

/* Even in (-1, 1). */
static __device__ __forceinline__ float even(uint64_t seed, int64_t row, int64_t col)
{
    return (float)(int32_t)hash(seed << 60 ^ (uint64_t)row << 24 ^ (uint64_t)col) / 2147483648.0f;
}

/* Large columns come in pairs, q and 15 - q, alike but for the sign of X. */
static __global__ void fill_kernel(uint16_t *to, int64_t rows, int64_t cols, uint64_t seed,
                                   float scale, float large)
{
    int64_t part = cols / LARGE;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
            int64_t q = part ? col / part : LARGE, like = col;
            bool is_large = part && q < LARGE && col % part == part / 2;
            float factor = is_large ? large : 1;
            if (is_large && q >= LARGE / 2) {
                like = (LARGE - 1 - q) * part + part / 2;
                factor = large == 1 ? 1 : -large;
            }
            float v = even(seed, row, like) * scale * factor;
            to[row * cols + col] = __bfloat16_as_ushort(__float2bfloat16_rn(v));
        }
    }
}

glyd_status glyd_k_plan_fill(const glyd_plan_product *p, int fill_w, cudaStream_t stream,
                             glyd_error *err)
{
    const unsigned grid = 2048;
    if (fill_w)
        fill_kernel<<<grid, 256, 0, stream>>>(p->w, p->rows, p->cols, 1, 0.05f, 1);
    fill_kernel<<<grid, 256, 0, stream>>>(p->x, p->tokens, p->cols, 2, 1, LARGE_FACTOR);
    if (p->bias)
        fill_kernel<<<1, 256, 0, stream>>>(p->bias, 1, p->rows, 3, 1, 1);
    return cuda_status(cudaGetLastError(), "plan", err);
}

static __global__ void start_kernel(const glyd_plan_product p, int from_bias)
{
    for (int64_t token = blockIdx.x; token < p.tokens; token += gridDim.x) {
        for (int64_t row = threadIdx.x; row < p.rows; row += blockDim.x)
            p.y[token * p.rows + row] = from_bias ? p.bias[row] : 0xffff;
    }
}

glyd_status glyd_k_plan_start(const glyd_plan_product *p, int from_bias, cudaStream_t stream,
                              glyd_error *err)
{
    start_kernel<<<(unsigned)(p->tokens < 2048 ? p->tokens : 2048), 1024, 0, stream>>>(*p,
                                                                                       from_bias);
    return cuda_status(cudaGetLastError(), "plan", err);
}

typedef struct compare_args {
    glyd_plan_product p;
    int row_tiles, token_tiles; /* that are compared */
    uint32_t *different;
    glyd_plan_scheme schemes[GLYD_PLAN_SCHEMES_MAX];
} compare_args;

/* Columns k and k + 1 of a row, zero beyond the last. */
static __device__ __forceinline__ uint32_t load_pair(const uint16_t *row, int64_t k, int64_t cols,
                                                     bool there)
{
    if (!there || k >= cols)
        return 0;
    if (cols % 2 == 0)
        return *(const uint32_t *)(row + k);
    return row[k] | (k + 1 < cols ? (uint32_t)row[k + 1] << 16 : 0);
}

/* One part's sum: d[4], from zero. */
static __device__ __forceinline__ void sum_part(float *d, const glyd_plan_product &p,
                                                glyd_plan_scheme scheme, int part, int64_t row,
                                                int64_t token, int t)
{
    int64_t begin, end, step;
    glyd_plan_part(scheme, p.cols, part, &begin, &end, &step);
    const uint16_t *low = p.w + row * p.cols, *high = low + 8 * p.cols, *x = p.x + token * p.cols;
    bool has_low = row < p.rows, has_high = row + 8 < p.rows, has_x = token < p.tokens;
    d[0] = d[1] = d[2] = d[3] = 0;
#pragma unroll 4
    for (int64_t k = begin + 2 * t; k < end + 2 * t; k += step) {
        uint32_t a[4] = {load_pair(low, k, p.cols, has_low), load_pair(high, k, p.cols, has_high),
                         load_pair(low, k + 8, p.cols, has_low),
                         load_pair(high, k + 8, p.cols, has_high)};
        mma_m16n8k16(d, a, load_pair(x, k, p.cols, has_x), load_pair(x, k + 8, p.cols, has_x));
    }
}

/* Tile i of n that are spread over `all`. */
static __device__ __forceinline__ int64_t spread(int i, int n, int64_t all)
{
    return n > 1 ? i * (all - 1) / (n - 1) : 0;
}

static __global__ void __launch_bounds__(WARPS * 32)
    compare_kernel(const __grid_constant__ compare_args c)
{
    int task = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int g = lane / 4, t = lane % 4;
    if (task >= c.row_tiles * c.token_tiles)
        return;
    const glyd_plan_product &p = c.p;
    glyd_plan_scheme scheme = c.schemes[blockIdx.y];
    int64_t row = spread(task % c.row_tiles, c.row_tiles, glyd_tiles_of(p.rows)) * GLYD_TILE_ROWS;
    int64_t token =
        spread(task / c.row_tiles, c.token_tiles, (p.tokens + TILE_TOKENS - 1) / TILE_TOKENS) *
        TILE_TOKENS;
    float sum[4], d[4];
    sum_part(sum, p, scheme, 0, row + g, token + g, t);
    for (int part = 1; part < scheme.parts; part++) {
        sum_part(d, p, scheme, part, row + g, token + g, t);
        for (int i = 0; i < 4; i++)
            sum[i] += d[i];
    }
    uint32_t different = 0;
    for (int i = 0; i < 4; i++) {
        int64_t r = row + g + (i >= 2 ? 8 : 0), at = token + 2 * t + i % 2;
        if (r >= p.rows || at >= p.tokens)
            continue;
        if (p.bias)
            sum[i] += __uint_as_float((uint32_t)p.bias[r] << 16);
        uint16_t bits = __bfloat16_as_ushort(__float2bfloat16_rn(sum[i]));
        different += bits != p.y[at * p.rows + r];
    }
    different = __reduce_add_sync(0xffffffffu, different);
    if (lane == 0 && different)
        atomicAdd(&c.different[blockIdx.y], different);
}

glyd_status glyd_k_plan_compare(const glyd_plan_product *p, const glyd_plan_scheme *schemes, int n,
                                uint32_t *different, cudaStream_t stream, glyd_error *err)
{
    int64_t tiles = glyd_tiles_of(p->rows),
            token_tiles = (p->tokens + TILE_TOKENS - 1) / TILE_TOKENS;
    compare_args c = {};
    c.p = *p;
    c.token_tiles = (int)(token_tiles < TOKEN_TILES_MAX ? token_tiles : TOKEN_TILES_MAX);
    int most = TILES_MAX / c.token_tiles;
    c.row_tiles = (int)(tiles < most ? tiles : most);
    c.different = different;
    for (int i = 0; i < n; i++)
        c.schemes[i] = schemes[i];
    dim3 grid((unsigned)((c.row_tiles * c.token_tiles + WARPS - 1) / WARPS), (unsigned)n);
    compare_kernel<<<grid, WARPS * 32, 0, stream>>>(c);
    return cuda_status(cudaGetLastError(), "plan", err);
}
