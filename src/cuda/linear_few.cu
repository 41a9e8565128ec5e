/* linear_few.cu - products of few tokens: one warp walks K for the 16 rows of a tile.
 *
 * A CTA has `tiles` tiles, each cut into `slices` slices of K: tiles * slices units, a warp each,
 * and one more warp that feeds them. A unit adds k16 steps from zero in order; the units of a tile
 * meet in shared memory, where the first adds the others' sums in slice order.
 *
 * Thread to data   lane 4g + t of a unit: rows g and g + 8 of its tile; tokens 2t and 2t + 1 of
 *                  each 8 of the token tile.
 * Shared memory    a ring of stages, then the slices' sums, then the barriers. A stage is the next
 *                  GLYD_GPU_FEW_BLOCKS blocks of every unit; unit = slice * tiles + tile:
 *                    x      slices x blocks x [token_tile, 64] bf16, 128-byte swizzle
 *                    sm     units x blocks x 1,024 bytes
 *                    codes  units x blocks x 512 bytes
 * Bytes moved      the packed weights once for each token tile; X once a CTA, from the L2 cache.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/linear.h"
#include <cuda_bf16.h>

static constexpr int BLOCKS = GLYD_GPU_FEW_BLOCKS;
static constexpr int SM_BYTES = GLYD_BLOCK_SM_WORDS * 4;
static constexpr int CODE_BYTES = GLYD_BLOCK_CODE_WORDS * 4;
static constexpr int X_ROW_BYTES = GLYD_BLOCK_COLS * 2;

/* More tokens need more registers; a CTA's warps come in fours. */
static constexpr int few_units_max(int token_tile)
{
    return token_tile == 64 ? GLYD_GPU_FEW_UNITS_MAX - 1 : GLYD_GPU_FEW_UNITS_MAX;
}

typedef struct few_args {
    packed_arrays w;
    const __nv_bfloat16 *bias;
    __nv_bfloat16 *y;
    int64_t y_stride;
    int tokens, slices, slice_blocks, tiles, stages;
} few_args;

/* Where a stage's parts lie. */
struct few_stage {
    uint32_t x_bytes, sm_at, codes_at, bytes;
    __device__ few_stage(const few_args &p, int token_tile)
    {
        uint32_t units = (uint32_t)(p.tiles * p.slices);
        x_bytes = (uint32_t)(BLOCKS * token_tile * X_ROW_BYTES);
        sm_at = (uint32_t)p.slices * x_bytes;
        codes_at = sm_at + units * BLOCKS * SM_BYTES;
        bytes = codes_at + units * BLOCKS * CODE_BYTES;
    }
};

/* Blocks that slice `s` has in its part `i`: 0 past its end. */
static __device__ __forceinline__ int part_blocks(const few_args &p, int s, int i)
{
    int first = s * p.slice_blocks, end = min(first + p.slice_blocks, p.w.blocks);
    return max(0, min(BLOCKS, end - first - i * BLOCKS));
}

/* One thread feeds the ring: for each slice a box of sm, one of codes and its X. */
static __device__ void few_feed(const few_args &p, const linear_maps &maps, int token_tile,
                                uint32_t ring, uint32_t full, uint32_t empty)
{
    const few_stage at(p, token_tile);
    int tile = (int)blockIdx.x * p.tiles, parts = (p.slice_blocks + BLOCKS - 1) / BLOCKS;
    uint32_t slice_units = (uint32_t)(p.tiles * BLOCKS);
    uint32_t x_box = (uint32_t)(token_tile * X_ROW_BYTES);
    uint32_t slice_bytes = slice_units * (SM_BYTES + CODE_BYTES) + at.x_bytes;
    for (int i = 0, stage = 0, parity = 1; i < parts; i++) {
        uint32_t to = ring + (uint32_t)stage * at.bytes, ready = full + 8u * (uint32_t)stage;
        int slices = 0; /* those that are not at their end: the last one may be before others */
        while (slices < p.slices && part_blocks(p, slices, i))
            slices++;
        barrier_wait(empty + 8u * (uint32_t)stage, (uint32_t)parity);
        barrier_expect(ready, (uint32_t)slices * slice_bytes);
        for (int s = 0; s < slices; s++) {
            int block = s * p.slice_blocks + i * BLOCKS;
            uint32_t unit = (uint32_t)s * slice_units;
            copy_box(to + at.sm_at + unit * SM_BYTES, &maps.sm, block * (SM_BYTES / 8), tile,
                     ready);
            copy_box(to + at.codes_at + unit * CODE_BYTES, &maps.codes, block * (CODE_BYTES / 8),
                     tile, ready);
            for (int b = 0; b < BLOCKS; b++)
                copy_box(to + (uint32_t)(s * BLOCKS + b) * x_box, &maps.x,
                         (block + b) * GLYD_BLOCK_COLS, (int)blockIdx.y * token_tile, ready);
        }
        if (++stage == p.stages) {
            stage = 0;
            parity ^= 1;
        }
    }
}

/* Where a warp is in its slice. Three blocks are in the making: one is multiplied while the next
 * is decoded and the words of the one after that, the front, are loaded. The front is BLOCKS
 * blocks ahead of the one being multiplied, so that it lies in the next stage. */
typedef struct few_walk {
    uint32_t ring, full, empty;
    uint32_t front, present; /* addresses of the front's stage and of the one before it */
    int front_block, front_stage, parity;
    int lane, unit, slice, block, end, stage; /* the block being multiplied */
    uint32_t x_lane;
    tile_bases base;
    escape_window escapes;
} few_walk;

template <int NT>
static __device__ __forceinline__ few_walk few_start(const few_args &p, uint32_t ring,
                                                     uint32_t full, uint32_t empty)
{
    few_walk k;
    k.ring = k.front = k.present = ring;
    k.full = full;
    k.empty = empty;
    k.lane = (int)threadIdx.x % 32;
    k.unit = (int)threadIdx.x / 32;
    k.slice = k.unit / p.tiles;
    k.front_stage = k.stage = k.parity = 0;
    k.block = k.front_block = k.slice * p.slice_blocks;
    k.end = min(k.block + p.slice_blocks, p.w.blocks);
    int tile = min((int)blockIdx.x * p.tiles + k.unit % p.tiles, p.w.tiles - 1);
    /* Rows of 128 bytes: lane 8i + r reads chunk i of token r, where the swizzle put it. */
    k.x_lane = (uint32_t)(k.slice * BLOCKS * NT * 8 * X_ROW_BYTES + k.lane % 8 * X_ROW_BYTES +
                          (k.lane / 8 ^ k.lane % 8) * 16);
    k.base = bases_of(p.w, tile, k.lane);
    k.escapes = escapes_from(p.w, tile, k.block, k.lane);
    return k;
}

/* The packed words of a block. */
typedef struct few_words {
    uint4 sm0, sm1, codes;
} few_words;

/* Load the front block, `b` of its stage. Past the end the words are of no use and not waited for:
 * that spares the loop a branch. */
static __device__ __forceinline__ few_words few_load(const few_args &p, const few_stage &at,
                                                     few_walk *k, int b)
{
    if (b == 0) {
        k->present = k->front;
        if (k->front_block < k->end) {
            k->front = ring_wait(k->full + 8u * (uint32_t)k->front_stage, (uint32_t)k->parity,
                                 k->ring + (uint32_t)k->front_stage * at.bytes);
            if (++k->front_stage == p.stages) {
                k->front_stage = 0;
                k->parity ^= 1;
            }
        }
    }
    k->front_block++;
    uint32_t u = (uint32_t)(k->unit * BLOCKS + b), lane = (uint32_t)k->lane * 16;
    const uint4 *sm =
        (const uint4 *)__cvta_shared_to_generic(k->front + at.sm_at + u * SM_BYTES + lane);
    const uint4 *codes =
        (const uint4 *)__cvta_shared_to_generic(k->front + at.codes_at + u * CODE_BYTES + lane);
    return {sm[0], sm[32], codes[0]};
}

/* Multiply the present block, `b` of its stage, by `now`; meanwhile decode `words` to `next`, and
 * load the front's. */
template <int NT>
static __device__ __forceinline__ void few_step(const few_args &p, const few_stage &at, few_walk *k,
                                                int b, few_words *words, uint32_t *next,
                                                float (&sum)[NT][4], const uint32_t *now)
{
    few_words front = few_load(p, at, k, b);
    uint32_t x[NT][8], read = 0;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        uint32_t tokens = k->present + k->x_lane + (uint32_t)((b * NT + n) * 8 * X_ROW_BYTES);
        load_matrix_x4(x[n], tokens);
        load_matrix_x4(x[n] + 4, tokens ^ 64);
        read |= x[n][0] | x[n][4];
    }
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++) {
#pragma unroll
        for (int n = 0; n < NT; n++)
            mma_m16n8k16(sum[n], now + 4 * j, x[n][2 * j], x[n][2 * j + 1]);
    }
    fragment_decode(next, words->sm0, words->sm1, words->codes, k->base);
    *words = front;
    k->block++;
    escapes_put(next, &k->escapes, k->block, k->lane);
    if (b == BLOCKS - 1 || k->block == k->end) {
        ring_release(k->empty + 8u * (uint32_t)k->stage, read, k->lane);
        if (++k->stage == p.stages)
            k->stage = 0;
    }
}

/* A unit's chain: its sums over its slice. */
template <int NT>
static __device__ __forceinline__ void few_chain(const few_args &p, float (&sum)[NT][4],
                                                 uint32_t ring, uint32_t full, uint32_t empty)
{
    static_assert(BLOCKS == 2, "two fragments take turns");
    const few_stage at(p, NT * 8);
    few_walk k = few_start<NT>(p, ring, full, empty);
    uint32_t even[GLYD_FRAGMENT_REGISTERS], odd[GLYD_FRAGMENT_REGISTERS];
    few_words words = few_load(p, at, &k, 0);
    fragment_decode(even, words.sm0, words.sm1, words.codes, k.base);
    escapes_put(even, &k.escapes, k.block, k.lane);
    words = few_load(p, at, &k, 1);
    for (;;) {
        few_step<NT>(p, at, &k, 0, &words, odd, sum, even);
        if (k.block == k.end)
            break;
        few_step<NT>(p, at, &k, 1, &words, even, sum, odd);
        if (k.block == k.end)
            break;
    }
    /* Stages of longer slices: nothing in them is this warp's, but it has a say in their end. */
    int parts = (p.slice_blocks + BLOCKS - 1) / BLOCKS;
    int mine = (k.end - k.slice * p.slice_blocks + BLOCKS - 1) / BLOCKS;
    for (; mine < parts; mine++) {
        uint32_t read = ring_wait(full + 8u * (uint32_t)k.stage, (uint32_t)k.parity, ring);
        ring_release(empty + 8u * (uint32_t)k.stage, read, k.lane);
        if (++k.stage == p.stages) {
            k.stage = 0;
            k.parity ^= 1;
        }
    }
}

/* Slices of a tile added in order, by the warp of its first. True in that warp. */
template <int NT>
static __device__ __forceinline__ bool few_add_slices(const few_args &p, float (&sum)[NT][4],
                                                      float *sums)
{
    int lane = (int)threadIdx.x % 32, unit = (int)threadIdx.x / 32;
    int slice = unit / p.tiles;
    if (p.slices == 1)
        return true;
    if (slice) {
#pragma unroll
        for (int i = 0; i < NT * 4; i++)
            sums[(unit * NT * 4 + i) * 32 + lane] = sum[i / 4][i % 4];
    }
    group_sync(1, p.tiles * p.slices * 32); /* the units' sums are written */
    for (int s = 1; slice == 0 && s < p.slices; s++) {
#pragma unroll
        for (int i = 0; i < NT * 4; i++)
            sum[i / 4][i % 4] += sums[((unit + s * p.tiles) * NT * 4 + i) * 32 + lane];
    }
    return slice == 0;
}

template <int NT>
static __device__ __forceinline__ void few_store(const few_args &p, const float (&sum)[NT][4])
{
    int lane = (int)threadIdx.x % 32, unit = (int)threadIdx.x / 32;
    int tile = (int)blockIdx.x * p.tiles + unit;
#pragma unroll
    for (int i = 0; i < NT * 4; i++) {
        int row = tile * GLYD_TILE_ROWS + lane / 4 + (i & 2) * 4;
        int token = ((int)blockIdx.y * NT + i / 4) * 8 + lane % 4 * 2 + (i & 1);
        if (row < p.w.rows && token < p.tokens) {
            float v = sum[i / 4][i % 4];
            if (p.bias)
                v += __bfloat162float(p.bias[row]);
            p.y[token * p.y_stride + row] = __float2bfloat16_rn(v);
        }
    }
}

template <int NT>
static __global__ void __launch_bounds__((few_units_max(NT * 8) + 1) * 32, 1)
    linear_few_kernel(const __grid_constant__ linear_maps maps, const __grid_constant__ few_args p)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    const few_stage at(p, NT * 8);
    int units = p.tiles * p.slices;
    uint32_t ring = shared_address(shared), sums = ring + (uint32_t)p.stages * at.bytes;
    uint32_t full = sums + (p.slices > 1 ? (uint32_t)(units * NT * 4 * 32 * 4) : 0);
    uint32_t empty = full + 8u * (uint32_t)p.stages;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.stages; i++) {
            barrier_init(full + 8u * (uint32_t)i, 1);
            barrier_init(empty + 8u * (uint32_t)i, (uint32_t)units);
        }
        barrier_init_fence();
    }
    __syncthreads(); /* the barriers are there */
    if ((int)threadIdx.x / 32 == units) {
        if (threadIdx.x % 32 == 0)
            few_feed(p, maps, NT * 8, ring, full, empty);
        return;
    }
    float sum[NT][4] = {};
    few_chain<NT>(p, sum, ring, full, empty);
    if (few_add_slices<NT>(p, sum, (float *)__cvta_shared_to_generic(sums)))
        few_store<NT>(p, sum);
}

template <int NT>
static glyd_status few_launch(const few_args &p, const glyd_gpu_config *config,
                              const linear_maps &maps, cudaStream_t stream, glyd_error *err)
{
    GLYD_TRY(cuda_status(cudaFuncSetAttribute(linear_few_kernel<NT>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              config->shared_bytes),
                         "linear", err));
    dim3 grid((unsigned)config->grid_rows, (unsigned)config->grid_tokens);
    linear_few_kernel<NT>
        <<<grid, (unsigned)config->threads, (size_t)config->shared_bytes, stream>>>(maps, p);
    return cuda_status(cudaGetLastError(), "linear", err);
}

extern "C" glyd_status glyd_k_linear_few(const glyd_gpu_linear_args *args,
                                         const glyd_gpu_config *config, const uint8_t *codes,
                                         cudaStream_t stream, glyd_error *err)
{
    linear_maps maps;
    GLYD_TRY(
        glyd_k_linear_maps(args, codes, config->token_tile, BLOCKS, config->tiles, &maps, err));
    few_args p = {};
    p.w = arrays_of(args->weight, codes);
    p.bias = (const __nv_bfloat16 *)args->bias;
    p.y = (__nv_bfloat16 *)args->y;
    p.y_stride = args->y_stride;
    p.tokens = (int)args->tokens;
    p.slices = args->plan.slices;
    p.slice_blocks = (int)glyd_gpu_slice_blocks(args->weight->cols, args->plan.slices);
    p.tiles = config->tiles;
    p.stages = config->stages;
    if (config->token_tile == 8)
        return few_launch<1>(p, config, maps, stream, err);
    if (config->token_tile == 16)
        return few_launch<2>(p, config, maps, stream, err);
    if (config->token_tile == 32)
        return few_launch<4>(p, config, maps, stream, err);
    return few_launch<8>(p, config, maps, stream, err);
}
