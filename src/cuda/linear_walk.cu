/* linear_walk.cu - products of many tokens by warpgroup products (wgmma), in large tiles.
 *
 * A CTA has WGS warpgroups of 64 rows and walks tiles of 64 WGS rows x N tokens, all columns or one
 * slice of them. With slices it has one tile: the slices of a tile are the CTAs of a cluster, and
 * the first adds the others' sums in slice order. Two CTAs of neighbouring rows may be a pair in
 * the cluster, which shares the tokens that either brings. A warpgroup decodes a block of its
 * weights into the A registers of the next products while the tensor cores still run others; one
 * more warpgroup feeds two rings, from one tile to the next without a break, and gives its
 * registers away. With tiles of 256 tokens, a warpgroup starts some blocks after the other, so that
 * one writes its results while the other multiplies.
 *
 * Thread to data   warp w of a warpgroup: tile 4 * warpgroup + w of the CTA. Lane 4g + t: rows g
 *                  and g + 8 of it; sum[4k + i] is token 8k + 2t + (i & 1), row g + 8 (i >> 1).
 * Shared memory    two rings, their barriers, and 16 tokens' results of each warp. A stage is a
 *                  block:
 *                    tokens   [N, 64] bf16, 128-byte swizzle: the B operand as it lies
 *                    weights  4 WGS x 1,024 bytes of sm, then as many x 512 of codes
 *                  Weights are decoded a block ahead, so theirs are needed, and free, before. After
 *                  the last product the rings' place holds the sums of slices.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/linear.h"
#include "cuda/walk_escapes.cuh"
#include <cuda_bf16.h>

static constexpr int SM_BYTES = GLYD_BLOCK_SM_WORDS * 4;
static constexpr int CODE_BYTES = GLYD_BLOCK_CODE_WORDS * 4;
static constexpr int X_ROW_BYTES = GLYD_BLOCK_COLS * 2;
static constexpr int WARPGROUP = 128;
static constexpr int TURN_BARRIER = 3; /* the first of as many named barriers as warpgroups */
static constexpr int WARPGROUP_ROWS = 64;
static constexpr int OUT_TOKENS = 16; /* whose results a warp turns at a time */
/* Bytes of a token's 16 results: eight tokens' halves of 16 bytes fall into different banks. */
static constexpr int OUT_PITCH = GLYD_TILE_ROWS * 2 + 16;
static_assert(OUT_TOKENS * OUT_PITCH == GLYD_GPU_WALK_OUT_BYTES, "a warp's results");

typedef struct walk_args {
    packed_arrays w;
    const __nv_bfloat16 *bias;
    __nv_bfloat16 *y;
    int64_t y_stride;
    int tokens, token_tiles, slices, slice_blocks;
    int x_stages, w_stages; /* of the two rings */
    int pair;               /* 2: CTAs of neighbouring rows share their tokens; 1: they do not */
    int units;              /* tiles, or pairs of them */
    int walkers;            /* CTAs, or pairs of them, that walk the units */
} walk_args;

/* A CTA's tile of a unit. The two of a pair have the same tokens and neighbouring rows. */
typedef struct walk_tile {
    int row, token;
} walk_tile;

/* Which of its pair a CTA is. */
static __device__ __forceinline__ int walk_half(const walk_args &p)
{
    return (int)blockIdx.x & (p.pair - 1);
}

static __device__ __forceinline__ int walk_first(const walk_args &p)
{
    return (int)blockIdx.x >> (p.pair - 1);
}

static __device__ __forceinline__ walk_tile walk_tile_of(const walk_args &p, int unit)
{
    return {(unit / p.token_tiles << (p.pair - 1)) + walk_half(p), unit % p.token_tiles};
}

template <int N, int WGS> struct walk_stage {
    /* Decode between the products where these last long enough to hide it; elsewhere warpgroups
     * take turns, and each decodes while the others multiply. */
    static constexpr bool between = N == 256;
    static constexpr uint32_t x_bytes = N * X_ROW_BYTES;
    static constexpr uint32_t codes_at = 4 * WGS * SM_BYTES;
    static constexpr uint32_t w_bytes = codes_at + 4 * WGS * CODE_BYTES;
    static_assert(x_bytes % 1024 == 0 && w_bytes % 1024 == 0, "the swizzle's atoms");
};

/* A place in a ring, and how often the ring has been round. */
typedef struct walk_place {
    int stage, parity;
} walk_place;

static __device__ __forceinline__ walk_place walk_after(walk_place at, int stages)
{
    bool last = at.stage + 1 == stages;
    return {last ? 0 : at.stage + 1, last ? at.parity ^ 1 : at.parity};
}

/* A ring in shared memory: its stages, and a barrier each that says they are full, or empty. */
typedef struct walk_ring {
    uint32_t stages, full, empty;
} walk_ring;

static __device__ __forceinline__ uint32_t walk_full(const walk_ring &r, walk_place at)
{
    return r.full + 8u * (uint32_t)at.stage;
}

static __device__ __forceinline__ uint32_t walk_empty(const walk_ring &r, walk_place at)
{
    return r.empty + 8u * (uint32_t)at.stage;
}

/* Where everything lies in shared memory. */
typedef struct walk_shared {
    walk_ring x, w;
    uint32_t results;
} walk_shared;

template <int N, int WGS>
static __device__ __forceinline__ walk_shared walk_shared_of(const walk_args &p, uint8_t *shared)
{
    typedef walk_stage<N, WGS> at;
    walk_shared m;
    m.x.stages = shared_address(shared);
    m.w.stages = m.x.stages + (uint32_t)p.x_stages * at::x_bytes;
    m.x.full = m.w.stages + (uint32_t)p.w_stages * at::w_bytes;
    m.x.empty = m.x.full + 8u * (uint32_t)p.x_stages;
    m.w.full = m.x.empty + 8u * (uint32_t)p.x_stages;
    m.w.empty = m.w.full + 8u * (uint32_t)p.w_stages;
    m.results = m.x.full + GLYD_GPU_BARRIER_BYTES;
    return m;
}

/* Blocks of this CTA's slice. */
static __device__ __forceinline__ int walk_blocks(const walk_args &p)
{
    return min(p.slice_blocks, p.w.blocks - (int)blockIdx.z * p.slice_blocks);
}

/* One thread brings weights. They may come before the kernels that make the tokens have ended:
 * whatever fits into the ring is there by then. */
template <int N, int WGS>
static __device__ void walk_feed_weights(const walk_args &p, const linear_maps &maps,
                                         const walk_ring &ring)
{
    typedef walk_stage<N, WGS> at;
    int first = (int)blockIdx.z * p.slice_blocks, end = first + walk_blocks(p);
    walk_place place = {0, 1};
    for (int unit = walk_first(p); unit < p.units; unit += p.walkers) {
        int tile = walk_tile_of(p, unit).row * 4 * WGS;
        for (int block = first; block < end; block++) {
            uint32_t to = ring.stages + (uint32_t)place.stage * at::w_bytes;
            uint32_t full = walk_full(ring, place);
            barrier_wait(walk_empty(ring, place), (uint32_t)place.parity);
            barrier_expect(full, at::w_bytes);
            copy_box(to, &maps.sm, block * (SM_BYTES / 8), tile, full);
            copy_box(to + at::codes_at, &maps.codes, block * (CODE_BYTES / 8), tile, full);
            place = walk_after(place, p.w_stages);
        }
    }
}

/* Another brings tokens, once they have been made. Each CTA of a pair brings half of them, to both:
 * what the second-level cache delivers is what limits large tiles. */
template <int N, int WGS>
static __device__ void walk_feed_tokens(const walk_args &p, const linear_maps &maps,
                                        const walk_ring &ring)
{
    typedef walk_stage<N, WGS> at;
    int first = (int)blockIdx.z * p.slice_blocks, end = first + walk_blocks(p);
    uint32_t half_at = (uint32_t)walk_half(p) * at::x_bytes / 2;
    uint16_t ranks = (uint16_t)(3u << 2 * blockIdx.z);
    walk_place place = {0, 1};
    grid_wait();
    for (int unit = walk_first(p); unit < p.units; unit += p.walkers) {
        int token = walk_tile_of(p, unit).token * N + walk_half(p) * (N / 2);
        for (int block = first; block < end; block++) {
            uint32_t to = ring.stages + (uint32_t)place.stage * at::x_bytes + half_at;
            uint32_t full = walk_full(ring, place);
            barrier_wait(walk_empty(ring, place), (uint32_t)place.parity);
            barrier_expect(full, at::x_bytes);
            if (p.pair == 1)
                copy_box(to, &maps.x, block * GLYD_BLOCK_COLS, token, full);
            else
                copy_box_to(to, &maps.x, block * GLYD_BLOCK_COLS, token, full, ranks);
            place = walk_after(place, p.x_stages);
        }
    }
}

/* What a warp reads from memory by itself, asked for before it is needed. */
typedef struct walk_ahead {
    uint32_t base_low, base_high, escapes, escapes_end;
} walk_ahead;

template <int WGS>
static __device__ __forceinline__ walk_ahead walk_ask(const walk_args &p, int unit)
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int tile = min(walk_tile_of(p, unit).row * 4 * WGS + warp, p.w.tiles - 1);
    const uint8_t *bases = p.w.bases + (int64_t)tile * GLYD_TILE_ROWS + lane / 4;
    return {bases[0], bases[8], p.w.escape_index[tile], p.w.escape_index[tile + 1]};
}

/* What a warp keeps while it walks its tiles. */
typedef struct walk_warp {
    walk_shared m;
    walk_place x, w; /* the stages that are multiplied by, and whose words are decoded next */
    int warp, lane;
    int block, left; /* blocks of the slice from `block` on */
    int other;       /* rank of the pair's other CTA, or -1 */
    int lead;        /* steps until the next warpgroup may start; 0: it has */
    walk_ahead ahead;
    tile_bases base;
    walk_escape escape;
} walk_warp;

/* A warp's packed words of a stage. */
typedef struct walk_words {
    uint4 sm[2], codes;
} walk_words;

/* Take those of the stage at `k->w`, waited for but where they are known to be `there`. */
template <int N, int WGS>
static __device__ __forceinline__ void walk_take(walk_words *words, const walk_warp &k, bool there)
{
    typedef walk_stage<N, WGS> at;
    if (!there)
        barrier_wait(walk_full(k.m.w, k.w), (uint32_t)k.w.parity);
    uint32_t w = ring_stage(k.m.w.stages + (uint32_t)k.w.stage * at::w_bytes);
    uint32_t warp = (uint32_t)k.warp, lane = (uint32_t)k.lane * 16;
    const uint4 *sm = (const uint4 *)__cvta_shared_to_generic(w + warp * SM_BYTES + lane);
    words->sm[0] = sm[0];
    words->sm[1] = sm[32];
    words->codes =
        *(const uint4 *)__cvta_shared_to_generic(w + at::codes_at + warp * CODE_BYTES + lane);
}

/* The words have been decoded: let go of their stage. */
static __device__ __forceinline__ void walk_took(const walk_args &p, walk_warp *k)
{
    barrier_arrive_if(walk_empty(k->m.w, k->w), k->lane == 0);
    k->w = walk_after(k->w, p.w_stages);
}

/* Decode k16 group `j` of a block into `a`. */
static __device__ __forceinline__ void walk_group(const walk_words &words, int j, uint32_t *a,
                                                  const walk_warp &k)
{
    const uint32_t code[4] = {words.codes.x, words.codes.y, words.codes.z, words.codes.w};
    uint4 sm = words.sm[j / 2];
    fragment_group(a + 4 * j, j % 2 ? sm.z : sm.x, j % 2 ? sm.w : sm.y, code[j], k.base);
}

/* Put the escapes of the walk's block. A vote among equals: a branch that may part the lanes of a
 * warp would make products wait for each other. */
static __device__ __forceinline__ void walk_escapes(uint32_t *a, walk_warp *k)
{
    while (__any_sync(0xffffffffu, k->escape.block <= k->block))
        walk_escape_put(&k->escape, a, k->lane);
}

/* The products of the stage before `k->x` are done: let go of it, where `does`. */
static __device__ __forceinline__ void walk_release(const walk_args &p, const walk_warp &k,
                                                    bool does)
{
    uint32_t barrier = k.m.x.empty + 8u * (uint32_t)(k.x.stage ? k.x.stage - 1 : p.x_stages - 1);
    does = does && k.lane == 0;
    barrier_arrive_if(barrier, does);
    /* The pair's other CTA writes here, too. */
    barrier_arrive_at_if(barrier, (uint32_t)k.other, does && k.other >= 0);
}

/* Multiply by a block, which is in `a`, and decode the next one's words into `next`, a group after
 * each product: a warp that has several products to issue waits for the first ones, so that
 * decoding between them is what overlaps. Then take the words of the block after that. */
template <int N, int WGS>
static __device__ __forceinline__ void
walk_step_between(const walk_args &p, float *sum, uint32_t *a, uint32_t *next, walk_words *words,
                  walk_warp *k, bool first)
{
    uint32_t x = ring_wait(walk_full(k->m.x, k->x), (uint32_t)k->x.parity,
                           k->m.x.stages + (uint32_t)k->x.stage * walk_stage<N, WGS>::x_bytes);
    walk_place after = walk_after(k->w, p.w_stages);
    bool there = barrier_test(walk_full(k->m.w, after), (uint32_t)after.parity);
    uint64_t operand = wgmma_operand(x);
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++) {
        wgmma_k16<N>(sum, a + 4 * j, operand + (uint64_t)(j * GLYD_GROUP_COLS * 2 >> 4));
        wgmma_commit();
        /* The product by group j of `next`, a block of products ago, is done. To wait for no more
         * than this keeps the compiler from decoding everything first. */
        if (j == 2) {
            wgmma_wait<3>(); /* all products by the block before */
            walk_release(p, *k, !first);
        } else {
            wgmma_wait<GLYD_BLOCK_GROUPS>();
        }
        walk_group(*words, j, next, *k);
    }
    k->block++;
    k->left--;
    k->x = walk_after(k->x, p.x_stages);
    if (k->left <= 0)
        return;
    walk_took(p, k);
    if (k->left > 1)
        walk_take<N, WGS>(words, *k, there);
    walk_escapes(next, k);
}

/* Decode a block into `a` and, when it is this warpgroup's turn, multiply by it; then take the next
 * one's words. */
template <int N, int WGS>
static __device__ __forceinline__ void walk_step_turn(const walk_args &p, float *sum, uint32_t *a,
                                                      walk_words *words, walk_warp *k, bool first)
{
    walk_place after = walk_after(k->w, p.w_stages);
    bool there = barrier_test(walk_full(k->m.w, after), (uint32_t)after.parity);
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++)
        walk_group(*words, j, a, *k);
    walk_took(p, k);
    walk_escapes(a, k);
    uint32_t x = ring_wait(walk_full(k->m.x, k->x), (uint32_t)k->x.parity,
                           k->m.x.stages + (uint32_t)k->x.stage * walk_stage<N, WGS>::x_bytes);
    group_sync(TURN_BARRIER + k->warp / 4, 2 * WARPGROUP);
    uint64_t operand = wgmma_operand(x);
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++)
        wgmma_k16<N>(sum, a + 4 * j, operand + (uint64_t)(j * GLYD_GROUP_COLS * 2 >> 4));
    wgmma_commit();
    group_arrive(TURN_BARRIER + (k->warp / 4 + 1) % WGS, 2 * WARPGROUP);
    k->block++;
    k->left--;
    if (k->left > 0)
        walk_take<N, WGS>(words, *k, there);
    wgmma_wait<1>(); /* the other registers and the stage before are free */
    walk_release(p, *k, !first);
    k->x = walk_after(k->x, p.x_stages);
}

/* Another step is done: whoever waits for this warpgroup's lead may start. */
static __device__ __forceinline__ void walk_lead(walk_warp *k, int steps)
{
    if (k->lead > 0 && (k->lead -= steps) <= 0)
        group_arrive(TURN_BARRIER + k->warp / 4, 2 * WARPGROUP);
}

/* The sums of a tile. */
template <int N, int WGS>
static __device__ __forceinline__ void walk_chain(const walk_args &p, float *sum, walk_warp *k)
{
    constexpr bool between = walk_stage<N, WGS>::between;
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        sum[i] = 0;
    uint32_t a[2][GLYD_FRAGMENT_REGISTERS];
    walk_words words;
    walk_take<N, WGS>(&words, *k, false);
    k->escape = walk_escape_first(p.w, k->ahead.escapes, k->ahead.escapes_end, k->block, k->lane);
    if constexpr (between) {
#pragma unroll
        for (int j = 0; j < GLYD_BLOCK_GROUPS; j++)
            walk_group(words, j, a[0], *k);
        walk_took(p, k);
        if (k->left > 1)
            walk_take<N, WGS>(&words, *k, false);
        walk_escapes(a[0], k);
    }
    bool first = true;
    while (k->left > 0) {
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
            if (k->left > 0) {
                if constexpr (between)
                    walk_step_between<N, WGS>(p, sum, a[odd], a[!odd], &words, k, first);
                else
                    walk_step_turn<N, WGS>(p, sum, a[odd], &words, k, first);
            }
            first = false;
            if constexpr (between)
                walk_lead(k, 1);
        }
    }
    if constexpr (between)
        walk_lead(k, k->lead);
    wgmma_wait<0>();
    walk_release(p, *k, true);
}

/* Slices of a tile added in order, by the first CTA of the cluster. True in that CTA. */
template <int N, int WGS>
static __device__ __forceinline__ bool walk_add_slices(const walk_args &p, float *sum,
                                                       uint8_t *sums)
{
    if (p.slices == 1)
        return true;
    group_sync(1, WGS * WARPGROUP); /* nobody reads the ring any more */
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
            sum[i] +=
                load_cluster(shared_address(mine + i * WGS * WARPGROUP), s * p.pair + walk_half(p));
    }
    cluster_sync(); /* and read: shared memory may go */
    return blockIdx.z == 0;
}

/* Round, turn 16 tokens of a warp's results to token-major in shared memory, and write them out. */
template <int N, int WGS>
static __device__ __forceinline__ void walk_store(const walk_args &p, const float *sum,
                                                  walk_tile tile, const walk_warp &k)
{
    int lane = k.lane, row0 = (tile.row * 4 * WGS + k.warp) * GLYD_TILE_ROWS, row = row0 + lane / 4;
    float bias_low = p.bias && row < p.w.rows ? __bfloat162float(p.bias[row]) : 0;
    float bias_high = p.bias && row + 8 < p.w.rows ? __bfloat162float(p.bias[row + 8]) : 0;
    uint32_t out = k.m.results + (uint32_t)k.warp * GLYD_GPU_WALK_OUT_BYTES;
    uint32_t to = out + (uint32_t)((lane % 8 + lane / 16 * 8) * OUT_PITCH + lane / 8 % 2 * 16);
    const uint4 *from = (const uint4 *)__cvta_shared_to_generic(
        out + (uint32_t)(lane / 2 * OUT_PITCH) + (uint32_t)(lane % 2 * 16));
    bool wide = (((uintptr_t)p.y | (uintptr_t)p.y_stride * 2) & 15) == 0;
    int n_rows = min(8, p.w.rows - row0 - lane % 2 * 8), token = tile.token * N + lane / 2;
    __nv_bfloat16 *y = p.y + token * p.y_stride + row0 + lane % 2 * 8;
#pragma unroll
    for (int i = 0; i < N / OUT_TOKENS; i++, token += OUT_TOKENS, y += OUT_TOKENS * p.y_stride) {
        uint32_t pair[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float bias = j & 1 ? bias_high : bias_low, low = sum[8 * i + 2 * j],
                  high = sum[8 * i + 2 * j + 1];
            if (p.bias) {
                low += bias;
                high += bias;
            }
            __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
            pair[j] = *(uint32_t *)&both;
        }
        store_matrix_x4_transposed(to, pair);
        __syncwarp(); /* the results are there */
        uint4 v = *from;
        if (token < p.tokens && wide && n_rows == 8) {
            store_16(y, v);
        } else if (token < p.tokens) {
            const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int j = 0; j < 8; j++) {
                if (j < n_rows)
                    y[j] = __ushort_as_bfloat16((unsigned short)(word[j / 2] >> 16 * (j & 1)));
            }
        }
        __syncwarp(); /* and read */
    }
}

/* A multiplying warp's tiles, one after another. `ahead` is the first one's. */
template <int N, int WGS>
static __device__ __forceinline__ void walk_multiply(const walk_args &p, const walk_shared &m,
                                                     walk_ahead ahead, uint8_t *shared)
{
    walk_warp k;
    k.m = m;
    k.x = k.w = {0, 0};
    k.warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0); /* the compiler sees it uniform */
    k.lane = (int)threadIdx.x % 32;
    k.other = p.pair == 1 ? -1 : (int)blockIdx.z * 2 + (walk_half(p) ^ 1);
    k.lead = 0;
    k.ahead = ahead;
    if (!walk_stage<N, WGS>::between && k.warp / 4 == WGS - 1)
        group_arrive(TURN_BARRIER, 2 * WARPGROUP); /* the first turn */
    if (walk_stage<N, WGS>::between && p.units > p.walkers) {
        if (k.warp / 4 > 0)
            group_sync(TURN_BARRIER + k.warp / 4 - 1, 2 * WARPGROUP); /* the lead is there */
        if (k.warp / 4 < WGS - 1)
            k.lead = 2;
    }
    for (int unit = walk_first(p); unit < p.units; unit += p.walkers) {
        k.block = (int)blockIdx.z * p.slice_blocks;
        k.left = walk_blocks(p);
        k.base = bases_from(k.ahead.base_low, k.ahead.base_high);
        float sum[N / 2];
        walk_chain<N, WGS>(p, sum, &k);
        if (unit + p.walkers < p.units)
            k.ahead = walk_ask<WGS>(p, unit + p.walkers);
        grid_wait(); /* those before may still read what is written now */
        if (walk_add_slices<N, WGS>(p, sum, shared))
            walk_store<N, WGS>(p, sum, walk_tile_of(p, unit), k);
    }
    if (p.pair == 2 && p.slices == 1)
        cluster_sync(); /* the other CTA arrives at this one's barriers no more */
}

template <int N, int WGS>
static __global__ void __launch_bounds__((WGS + 1) * WARPGROUP, 1)
    linear_walk_kernel(const __grid_constant__ linear_maps maps,
                       const __grid_constant__ walk_args p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t shared[];
    walk_shared m = walk_shared_of<N, WGS>(p, shared);
    walk_ahead ahead = {};
    grid_let_next();
    if (threadIdx.x < WGS * WARPGROUP)
        ahead = walk_ask<WGS>(p, walk_first(p));
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.x_stages; i++) {
            barrier_init(m.x.full + 8u * (uint32_t)i, 1);
            barrier_init(m.x.empty + 8u * (uint32_t)i, (uint32_t)(4 * WGS * p.pair));
        }
        for (int i = 0; i < p.w_stages; i++) {
            barrier_init(m.w.full + 8u * (uint32_t)i, 1);
            barrier_init(m.w.empty + 8u * (uint32_t)i, 4 * WGS);
        }
        barrier_init_fence();
    }
    __syncthreads(); /* the barriers are there */
    if (p.pair == 2)
        cluster_sync(); /* in both CTAs */
    if (threadIdx.x / WARPGROUP == WGS) {
        registers_fewer<WGS == 2 ? 40 : 32>();
        if (threadIdx.x % WARPGROUP == 0)
            walk_feed_weights<N, WGS>(p, maps, m.w);
        else if (threadIdx.x % WARPGROUP == 32)
            walk_feed_tokens<N, WGS>(p, maps, m.x);
    } else {
        registers_more<WGS == 2 ? 232 : 160>();
        walk_multiply<N, WGS>(p, m, ahead, shared);
    }
#endif
}

template <int N, int WGS>
static glyd_status walk_launch(const walk_args &p, const glyd_gpu_config *config,
                               const linear_maps &maps, cudaStream_t stream, glyd_error *err)
{
    dim3 grid((unsigned)(p.walkers * p.pair), 1, (unsigned)p.slices);
    dim3 cluster((unsigned)p.pair, 1, (unsigned)p.slices);
    return launch_product(linear_walk_kernel<N, WGS>, grid, &cluster, config, maps, p, stream, err);
}

extern "C" glyd_status glyd_k_linear_walk(const glyd_gpu_linear_args *args,
                                          const glyd_gpu_config *config, const uint8_t *codes,
                                          cudaStream_t stream, glyd_error *err)
{
    linear_maps maps;
    GLYD_TRY(glyd_k_linear_maps(args, codes, config->token_tile >> config->pair, 1,
                                4 * config->tiles, &maps, err));
    walk_args p = {};
    p.w = arrays_of(args->weight, codes);
    p.bias = (const __nv_bfloat16 *)args->bias;
    p.y = (__nv_bfloat16 *)args->y;
    p.y_stride = args->y_stride;
    p.tokens = (int)args->tokens;
    p.token_tiles = (int)config->grid_tokens;
    p.slices = args->plan.slices;
    p.slice_blocks = (int)glyd_gpu_slice_blocks(args->weight->cols, args->plan.slices);
    p.x_stages = config->stages;
    p.w_stages = config->weight_stages;
    p.pair = 1 + config->pair;
    p.units = (int)((config->grid_rows + config->pair) / p.pair * config->grid_tokens);
    p.walkers = (int)config->walkers;
    if (config->token_tile == 64)
        return walk_launch<64, 3>(p, config, maps, stream, err);
    if (config->token_tile == 128)
        return walk_launch<128, 3>(p, config, maps, stream, err);
    return walk_launch<256, 2>(p, config, maps, stream, err);
}
