/* linear_many.cu - products of tens to thousands of tokens by warpgroup products (wgmma).
 *
 * A CTA has WGS warpgroups of 64 rows and a tile of N tokens, for one slice of K; the slices of a
 * tile are the CTAs of a cluster, and the first adds the others' sums in slice order. Two CTAs of
 * neighbouring rows may be a pair in the cluster, which shares the tokens that either brings. A
 * warpgroup decodes a block of its weights into the A registers of the next products while the
 * tensor cores still run the last ones; one more warpgroup feeds the ring and gives its registers
 * away.
 *
 * Thread to data   warp w of a warpgroup: tile 4 * warpgroup + w of the CTA. Lane 4g + t: rows g
 *                  and g + 8 of it; sum[4k + i] is token 8k + 2t + (i & 1), row g + 8 (i >> 1).
 * Shared memory    a ring of stages, then the barriers. A stage is a block or two of
 *                  every tile:
 *                    x      blocks x [N, 64] bf16, 128-byte swizzle: the B operand as it lies
 *                    sm     4 WGS x blocks x 1,024 bytes
 *                    codes  4 WGS x blocks x 512 bytes
 *                  After the last product the ring's place holds sums and results.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/linear.h"
#include <cuda_bf16.h>

static constexpr int SM_BYTES = GLYD_BLOCK_SM_WORDS * 4;
static constexpr int CODE_BYTES = GLYD_BLOCK_CODE_WORDS * 4;
static constexpr int X_ROW_BYTES = GLYD_BLOCK_COLS * 2;
static constexpr int WARPGROUP = 128;
static constexpr int WARPGROUP_ROWS = 64;
static constexpr int OUT_PITCH = WARPGROUP_ROWS * 2 + 16; /* bytes of a token's row of results */

typedef struct many_args {
    packed_arrays w;
    const __nv_bfloat16 *bias;
    __nv_bfloat16 *y;
    int64_t y_stride;
    int tokens, token_tiles, slices, slice_blocks, stages;
    int pair; /* 2: CTAs of neighbouring rows share their tokens; 1: they do not */
} many_args;

/* A CTA's tiles. The two of a pair have the same tokens and neighbouring rows. */
typedef struct many_tile {
    int row, token, half; /* half: which of its pair */
} many_tile;

static __device__ __forceinline__ many_tile many_tile_of(const many_args &p)
{
    int x = (int)blockIdx.x;
    if (p.pair == 1)
        return {x / p.token_tiles, x % p.token_tiles, 0};
    return {x / 2 / p.token_tiles * 2 + x % 2, x / 2 % p.token_tiles, x % 2};
}

/* Blocks of a stage: two where registers allow, whose decoding then interleaves. */
static constexpr int many_blocks_of(int token_tile)
{
    return token_tile == 256 ? 1 : 2;
}

template <int N, int WGS> struct many_stage {
    static constexpr int blocks = many_blocks_of(N);
    static constexpr uint32_t x_bytes = N * X_ROW_BYTES;
    static constexpr uint32_t sm_at = blocks * x_bytes;
    static constexpr uint32_t codes_at = sm_at + blocks * 4 * WGS * SM_BYTES;
    static constexpr uint32_t bytes = codes_at + blocks * 4 * WGS * CODE_BYTES;
    static_assert(sm_at % 1024 == 0 && bytes % 1024 == 0, "the swizzle's atoms");
};

/* Blocks of this CTA's slice. */
static __device__ __forceinline__ int many_blocks(const many_args &p)
{
    return min(p.slice_blocks, p.w.blocks - (int)blockIdx.z * p.slice_blocks);
}

/* One thread brings weights. They may come before the kernels that make the tokens have ended:
 * whatever fits into the ring is there by then. */
template <int N, int WGS>
static __device__ void many_feed_weights(const many_args &p, const linear_maps &maps, uint32_t ring,
                                         uint32_t full, uint32_t empty)
{
    typedef many_stage<N, WGS> at;
    int block = (int)blockIdx.z * p.slice_blocks, end = block + many_blocks(p);
    int tile = many_tile_of(p).row * 4 * WGS;
    for (int stage = 0, parity = 1; block < end; block += at::blocks) {
        uint32_t to = ring + (uint32_t)stage * at::bytes, ready = full + 8u * (uint32_t)stage;
        barrier_wait(empty + 8u * (uint32_t)stage, (uint32_t)parity);
        barrier_expect(ready, at::bytes - at::sm_at);
        copy_box(to + at::sm_at, &maps.sm, block * (SM_BYTES / 8), tile, ready);
        copy_box(to + at::codes_at, &maps.codes, block * (CODE_BYTES / 8), tile, ready);
        if (++stage == p.stages) {
            stage = 0;
            parity ^= 1;
        }
    }
}

/* Another brings tokens, once they have been made. Each CTA of a pair brings half of them, to both:
 * what the second-level cache delivers is what limits large tiles. */
template <int N, int WGS>
static __device__ void many_feed_tokens(const many_args &p, const linear_maps &maps, uint32_t ring,
                                        uint32_t full, uint32_t empty)
{
    typedef many_stage<N, WGS> at;
    int block = (int)blockIdx.z * p.slice_blocks, end = block + many_blocks(p);
    many_tile tile = many_tile_of(p);
    int token = tile.token * N + tile.half * (N / 2);
    uint32_t half_at = (uint32_t)tile.half * at::x_bytes / 2;
    uint16_t ranks = (uint16_t)(3u << 2 * blockIdx.z);
    grid_wait();
    for (int stage = 0, parity = 1; block < end; block += at::blocks) {
        uint32_t to = ring + (uint32_t)stage * at::bytes, ready = full + 8u * (uint32_t)stage;
        barrier_wait(empty + 8u * (uint32_t)stage, (uint32_t)parity);
        barrier_expect(ready, at::sm_at);
        for (int b = 0; b < at::blocks; b++) {
            uint32_t x = to + (uint32_t)b * at::x_bytes + half_at;
            if (p.pair == 1)
                copy_box(x, &maps.x, (block + b) * GLYD_BLOCK_COLS, token, ready);
            else
                copy_box_to(x, &maps.x, (block + b) * GLYD_BLOCK_COLS, token, ready, ranks);
        }
        if (++stage == p.stages) {
            stage = 0;
            parity ^= 1;
        }
    }
}

/* What a warp keeps while it walks its slice. */
typedef struct many_walk {
    uint32_t ring, full, empty;
    int warp, lane, tile, block, end, stage, parity;
    int other; /* rank of the pair's other CTA, or -1 */
    tile_bases base;
    escape_window escapes;
} many_walk;

/* Decode BLOCKS blocks of the walk's next stage into `a` and start their products, as one group:
 * with a branch among them they would become several, and the wait for the group before this one
 * would wait for a part of this one. */
template <int N, int WGS, int BLOCKS>
static __device__ __forceinline__ void
many_step(const packed_arrays &w, float *sum, uint32_t (*a)[GLYD_FRAGMENT_REGISTERS], many_walk *k)
{
    typedef many_stage<N, WGS> at;
    uint32_t x = ring_wait(k->full + 8u * (uint32_t)k->stage, (uint32_t)k->parity,
                           k->ring + (uint32_t)k->stage * at::bytes);
    uint32_t place = (uint32_t)(k->warp * at::blocks), lane = (uint32_t)k->lane * 16;
    const uint4 *sm =
        (const uint4 *)__cvta_shared_to_generic(x + at::sm_at + place * SM_BYTES + lane);
    const uint4 *codes =
        (const uint4 *)__cvta_shared_to_generic(x + at::codes_at + place * CODE_BYTES + lane);
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
        fragment_decode(a[b], sm[64 * b], sm[64 * b + 32], codes[32 * b], k->base);
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
        escapes_put(w, a[b], &k->escapes, k->tile, k->block + b, k->lane);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < BLOCKS * GLYD_BLOCK_GROUPS; i++) {
        int b = i / GLYD_BLOCK_GROUPS, j = i % GLYD_BLOCK_GROUPS;
        uint64_t operand = wgmma_operand(x + (uint32_t)b * at::x_bytes);
        wgmma_k16<N>(sum, a[b] + 4 * j, operand + (uint64_t)(j * GLYD_GROUP_COLS * 2 >> 4));
    }
    wgmma_commit();
    k->block += BLOCKS;
}

/* The products of the stage before the last one started are done: let go of it. */
static __device__ __forceinline__ void many_next(many_walk *k, int stages, bool has_before)
{
    if (k->lane == 0 && has_before) {
        int before = k->stage ? k->stage - 1 : stages - 1;
        uint32_t barrier = k->empty + 8u * (uint32_t)before;
        barrier_arrive(barrier);
        if (k->other >= 0) /* the pair's other CTA writes here, too */
            barrier_arrive_at(barrier, (uint32_t)k->other);
    }
    if (++k->stage == stages) {
        k->stage = 0;
        k->parity ^= 1;
    }
}

template <int N, int WGS>
static __device__ __forceinline__ void many_chain(const many_args &p, float *sum, uint32_t ring,
                                                  uint32_t full, uint32_t empty)
{
    typedef many_stage<N, WGS> at;
    many_walk k;
    k.warp = (int)threadIdx.x / 32;
    k.lane = (int)threadIdx.x % 32;
    k.ring = ring;
    k.full = full;
    k.empty = empty;
    k.stage = k.parity = 0;
    many_tile tile = many_tile_of(p);
    k.tile = min(tile.row * 4 * WGS + k.warp, p.w.tiles - 1);
    k.other = p.pair == 1 ? -1 : (int)blockIdx.z * 2 + (tile.half ^ 1);
    int first = (int)blockIdx.z * p.slice_blocks;
    k.block = first;
    k.end = first + many_blocks(p);
    k.base = bases_of(p.w, k.tile, k.lane);
    k.escapes = escapes_from(p.w, k.tile, first, k.lane);
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        sum[i] = 0;
    uint32_t a[2][at::blocks][GLYD_FRAGMENT_REGISTERS];
    bool has_before = false;
    while (k.block + at::blocks <= k.end) {
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
            if (odd && k.block + at::blocks > k.end)
                break;
            many_step<N, WGS, at::blocks>(p.w, sum, a[odd], &k);
            wgmma_wait<1>(); /* the registers a[!odd] and the stage before are free */
            many_next(&k, p.stages, has_before);
            has_before = true;
        }
    }
    wgmma_wait<0>();
    if (k.block < k.end) { /* half a stage is left */
        many_step<N, WGS, 1>(p.w, sum, a[0], &k);
        wgmma_wait<0>();
    }
}

/* Slices of a tile added in order, by the first CTA of the cluster. True in that CTA. */
template <int N, int WGS>
static __device__ __forceinline__ bool many_add_slices(const many_args &p, float *sum,
                                                       uint8_t *sums)
{
    if (p.slices == 1) {
        if (p.pair == 2)
            cluster_sync(); /* the other CTA arrives at this one's barriers no more */
        return true;
    }
    float *mine = (float *)sums + threadIdx.x;
    if (blockIdx.z > 0) {
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            mine[i * WGS * WARPGROUP] = sum[i];
    }
    cluster_sync(); /* every slice's sums are written */
    for (int s = 1; blockIdx.z == 0 && s < p.slices; s++) {
#pragma unroll
        for (int i = 0; i < N / 2; i++)
            sum[i] += load_cluster(shared_address(mine + i * WGS * WARPGROUP),
                                   s * p.pair + many_tile_of(p).half);
    }
    cluster_sync(); /* and read: shared memory may go */
    return blockIdx.z == 0;
}

/* Round, turn a warpgroup's results to token-major in shared memory, and write them out. */
template <int N, int WGS>
static __device__ __forceinline__ void many_store(const many_args &p, const float *sum,
                                                  uint8_t *results)
{
    int lane = (int)threadIdx.x % 32, group = (int)threadIdx.x / WARPGROUP;
    int in_group = (int)threadIdx.x % WARPGROUP;
    many_tile tile = many_tile_of(p);
    int row0 = (tile.row * WGS + group) * WARPGROUP_ROWS;
    int row = row0 + in_group / 32 * GLYD_TILE_ROWS + lane / 4;
    float bias_low = p.bias && row < p.w.rows ? __bfloat162float(p.bias[row]) : 0;
    float bias_high = p.bias && row + 8 < p.w.rows ? __bfloat162float(p.bias[row + 8]) : 0;
    uint8_t *out = results + group * N * OUT_PITCH;
    uint32_t to = shared_address(out) + (uint32_t)((lane % 8 + lane / 16 * 8) * OUT_PITCH +
                                                   in_group / 32 * 32 + lane / 8 % 2 * 16);
#pragma unroll
    for (int k = 0; k < N / 8; k += 2) {
        uint32_t pair[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float bias = i & 1 ? bias_high : bias_low, low = sum[4 * k + 2 * i],
                  high = sum[4 * k + 2 * i + 1];
            if (p.bias) {
                low += bias;
                high += bias;
            }
            __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
            pair[i] = *(uint32_t *)&both;
        }
        store_matrix_x4_transposed(to + (uint32_t)(k * 8 * OUT_PITCH), pair);
    }
    group_sync(2 + group, WARPGROUP); /* the warpgroup's results are written */
    int token0 = tile.token * N, n_tokens = min(N, p.tokens - token0);
    bool wide = (((uintptr_t)p.y | (uintptr_t)p.y_stride * 2) & 15) == 0;
    int chunk = in_group % 8 * 8, n_rows = min(8, p.w.rows - row0 - chunk);
    for (int token = in_group / 8; token < n_tokens; token += WARPGROUP / 8) {
        const uint8_t *from = out + token * OUT_PITCH + chunk * 2;
        __nv_bfloat16 *y = p.y + (token0 + token) * p.y_stride + row0 + chunk;
        if (wide && n_rows == 8) {
            *(uint4 *)y = *(const uint4 *)from;
        } else {
            for (int i = 0; i < n_rows; i++)
                y[i] = ((const __nv_bfloat16 *)from)[i];
        }
    }
}

template <int N, int WGS>
static __global__ void __launch_bounds__((WGS + 1) * WARPGROUP, 1)
    linear_many_kernel(const __grid_constant__ linear_maps maps,
                       const __grid_constant__ many_args p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t shared[];
    typedef many_stage<N, WGS> at;
    uint32_t ring = shared_address(shared);
    grid_let_next();
    uint32_t full = ring + (uint32_t)p.stages * at::bytes, empty = full + 8u * (uint32_t)p.stages;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.stages; i++) {
            barrier_init(full + 8u * (uint32_t)i, 2); /* weights and tokens */
            barrier_init(empty + 8u * (uint32_t)i, (uint32_t)(4 * WGS * p.pair));
        }
        barrier_init_fence();
    }
    __syncthreads(); /* the barriers are there */
    if (p.pair == 2)
        cluster_sync(); /* in both CTAs */
    if (threadIdx.x / WARPGROUP == WGS) {
        if constexpr (N == 256)
            registers_fewer<40>();
        if (threadIdx.x % WARPGROUP == 0)
            many_feed_weights<N, WGS>(p, maps, ring, full, empty);
        else if (threadIdx.x % WARPGROUP == 32)
            many_feed_tokens<N, WGS>(p, maps, ring, full, empty);
    } else {
        if constexpr (N == 256)
            registers_more<232>();
        float sum[N / 2];
        many_chain<N, WGS>(p, sum, ring, full, empty);
        grid_wait();                    /* those before may still read what is written now */
        group_sync(1, WGS * WARPGROUP); /* nobody reads the ring any more */
        if (many_add_slices<N, WGS>(p, sum, shared))
            many_store<N, WGS>(p, sum, shared);
    }
#endif
}

template <int N, int WGS>
static glyd_status many_launch(const many_args &p, const glyd_gpu_config *config,
                               const linear_maps &maps, cudaStream_t stream, glyd_error *err)
{
    int64_t rows = (config->grid_rows + p.pair - 1) / p.pair * p.pair;
    dim3 grid((unsigned)(rows * config->grid_tokens), 1, (unsigned)p.slices);
    dim3 cluster((unsigned)p.pair, 1, (unsigned)p.slices);
    return launch_product(linear_many_kernel<N, WGS>, grid, &cluster, config, maps, p, stream, err);
}

extern "C" glyd_status glyd_k_linear_many(const glyd_gpu_linear_args *args,
                                          const glyd_gpu_config *config, const uint8_t *codes,
                                          cudaStream_t stream, glyd_error *err)
{
    linear_maps maps;
    GLYD_TRY(glyd_k_linear_maps(args, codes, config->token_tile >> config->pair,
                                many_blocks_of(config->token_tile), 4 * config->tiles, &maps, err));
    many_args p = {};
    p.w = arrays_of(args->weight, codes);
    p.bias = (const __nv_bfloat16 *)args->bias;
    p.y = (__nv_bfloat16 *)args->y;
    p.y_stride = args->y_stride;
    p.tokens = (int)args->tokens;
    p.token_tiles = (int)config->grid_tokens;
    p.slices = args->plan.slices;
    p.slice_blocks = (int)glyd_gpu_slice_blocks(args->weight->cols, args->plan.slices);
    p.stages = config->stages;
    p.pair = config->pair ? 2 : 1;
    if (config->token_tile == 64)
        return config->tiles == 1 ? many_launch<64, 1>(p, config, maps, stream, err)
                                  : many_launch<64, 2>(p, config, maps, stream, err);
    if (config->token_tile == 128)
        return config->tiles == 1 ? many_launch<128, 1>(p, config, maps, stream, err)
                                  : many_launch<128, 2>(p, config, maps, stream, err);
    return many_launch<256, 2>(p, config, maps, stream, err);
}
