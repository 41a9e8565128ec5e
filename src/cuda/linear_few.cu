/* linear_few.cu - products of few tokens: one warp walks K for the 16 rows of a tile.
 *
 * A CTA has `tiles` tiles, each cut into `slices` slices of K: tiles * slices units, a warp each,
 * and two more warps that feed them. A unit adds k16 steps from zero in order; the units of a tile
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
#include "cuda/few_streams.cuh"
#include "cuda/launch.cuh"
#include "cuda/linear.h"
#include <cuda_bf16.h>

static constexpr int BLOCKS = GLYD_GPU_FEW_BLOCKS;
static constexpr int SM_BYTES = GLYD_BLOCK_SM_WORDS * 4;
static constexpr int CODE_BYTES = GLYD_BLOCK_CODE_WORDS * 4;
static constexpr int X_ROW_BYTES = GLYD_BLOCK_COLS * 2;

/* Warps of a CTA, at most: more tokens need more registers, and warps come in fours. */
static constexpr int few_warps_max(int token_tile, glyd_gpu_codes from)
{
    if (from == GLYD_GPU_CODES_AHEAD)
        return GLYD_GPU_FEW_AHEAD_WARPS_MAX - (token_tile == 8 ? 0 : token_tile == 16 ? 4 : 8);
    if (from == GLYD_GPU_CODES_HERE)
        return GLYD_GPU_FEW_HERE_UNITS_MAX + 2 - (token_tile <= 16 ? 0 : 4);
    return GLYD_GPU_FEW_UNITS_MAX + 2;
}

typedef struct few_args {
    packed_arrays w;
    const __nv_bfloat16 *bias;
    __nv_bfloat16 *y;
    int64_t y_stride;
    int tokens, slices, slice_blocks, tiles, stages;
    int decoders_log2, planes_log2; /* AHEAD: few_planes */
} few_args;

/* Where a stage's parts lie. */
template <glyd_gpu_codes FROM> struct few_stage {
    uint32_t x_bytes, sm_at, codes_at, bytes;
    __device__ few_stage(const few_args &p, int token_tile)
    {
        uint32_t units = (uint32_t)(p.tiles * p.slices);
        x_bytes = (uint32_t)(BLOCKS * token_tile * X_ROW_BYTES);
        sm_at = (uint32_t)p.slices * x_bytes;
        codes_at = sm_at + units * BLOCKS * SM_BYTES;
        bytes = FROM == GLYD_GPU_CODES_PLANE ? codes_at + units * BLOCKS * CODE_BYTES : codes_at;
    }
};

/* Blocks that slice `s` has in its part `i`: 0 past its end. */
static __device__ __forceinline__ int part_blocks(const few_args &p, int s, int i)
{
    int first = s * p.slice_blocks, end = min(first + p.slice_blocks, p.w.blocks);
    return max(0, min(BLOCKS, end - first - i * BLOCKS));
}

/* Slices that have a part i: the last one may end before the others. */
static __device__ __forceinline__ int few_slices(const few_args &p, int i)
{
    return part_blocks(p, p.slices - 1, i) ? p.slices : p.slices - 1;
}

/* The next stage of the ring to fill. */
typedef struct few_fill {
    uint32_t to, full, empty, ring_end, ring_bytes, stage_bytes, barrier_bytes, parity;
} few_fill;

template <glyd_gpu_codes FROM>
static __device__ __forceinline__ few_fill few_fill_start(const few_args &p, int token_tile,
                                                          uint32_t ring, uint32_t full)
{
    const few_stage<FROM> at(p, token_tile);
    few_fill f;
    f.to = ring;
    f.full = full;
    f.barrier_bytes = 8u * (uint32_t)p.stages;
    f.empty = full + f.barrier_bytes;
    f.stage_bytes = at.bytes;
    f.ring_bytes = (uint32_t)p.stages * at.bytes;
    f.ring_end = ring + f.ring_bytes;
    f.parity = 1;
    keep(f.stage_bytes);
    keep(f.ring_bytes);
    keep(f.ring_end);
    keep(f.barrier_bytes);
    return f;
}

static __device__ __forceinline__ void few_fill_next(few_fill *f)
{
    f->to += f->stage_bytes;
    f->full += 8;
    f->empty += 8;
    if (f->to == f->ring_end) {
        f->to -= f->ring_bytes;
        f->full -= f->barrier_bytes;
        f->empty -= f->barrier_bytes;
        f->parity ^= 1;
    }
}

/* One thread brings weights: for each slice a box of sm and one of codes. They may come before
 * the kernels that make the tokens have ended: whatever fits into the ring is there by then. */
template <glyd_gpu_codes FROM>
static __device__ void few_feed_weights(const few_args &p, const linear_maps &maps, int token_tile,
                                        uint32_t ring, uint32_t full)
{
    const few_stage<FROM> at(p, token_tile);
    few_fill f = few_fill_start<FROM>(p, token_tile, ring, full);
    int tile = (int)blockIdx.x * p.tiles, parts = (p.slice_blocks + BLOCKS - 1) / BLOCKS;
    uint32_t slice_units = (uint32_t)(p.tiles * BLOCKS), sm_at = at.sm_at, codes_at = at.codes_at;
    uint32_t slice_bytes =
        slice_units * (SM_BYTES + (FROM == GLYD_GPU_CODES_PLANE ? CODE_BYTES : 0));
    for (int i = 0, first = 0; i < parts; i++, first += BLOCKS) {
        int slices = few_slices(p, i);
        barrier_wait(f.empty, f.parity);
        barrier_expect(f.full, (uint32_t)slices * slice_bytes);
        for (int s = 0, block = first; s < slices; s++, block += p.slice_blocks) {
            uint32_t unit = (uint32_t)s * slice_units;
            copy_box(f.to + sm_at + unit * SM_BYTES, &maps.sm, block * (SM_BYTES / 8), tile,
                     f.full);
            if constexpr (FROM == GLYD_GPU_CODES_PLANE)
                copy_box(f.to + codes_at + unit * CODE_BYTES, &maps.codes, block * (CODE_BYTES / 8),
                         tile, f.full);
        }
        few_fill_next(&f);
    }
}

/* Another brings each slice's tokens, once they have been made. */
template <glyd_gpu_codes FROM>
static __device__ void few_feed_tokens(const few_args &p, const linear_maps &maps, int token_tile,
                                       uint32_t ring, uint32_t full)
{
    few_fill f = few_fill_start<FROM>(p, token_tile, ring, full);
    int token = (int)blockIdx.y * token_tile, parts = (p.slice_blocks + BLOCKS - 1) / BLOCKS;
    uint32_t box = (uint32_t)(token_tile * X_ROW_BYTES);
    grid_wait();
    for (int i = 0, first = 0; i < parts; i++, first += BLOCKS) {
        int slices = few_slices(p, i);
        barrier_wait(f.empty, f.parity);
        barrier_expect(f.full, (uint32_t)slices * BLOCKS * box);
        uint32_t to = f.to;
        for (int s = 0, block = first; s < slices; s++, block += p.slice_blocks) {
#pragma unroll
            for (int b = 0; b < BLOCKS; b++, to += box)
                copy_box(to, &maps.x, (block + b) * GLYD_BLOCK_COLS, token, f.full);
        }
        few_fill_next(&f);
    }
}

/* A unit's tile; past the matrix its last one, whose results are then not stored. */
static __device__ __forceinline__ int few_tile(const few_args &p, int unit)
{
    return min((int)blockIdx.x * p.tiles + unit % p.tiles, p.w.tiles - 1);
}

/* Where a warp is in its slice. Three blocks are in the making: one is multiplied while the next
 * is decoded and the words of the one after that, the front, are loaded. The front is BLOCKS
 * blocks ahead of the one being multiplied, so that it lies in the next stage. */
typedef struct few_walk {
    uint32_t front, front_full;     /* the front's stage and its full barrier */
    uint32_t present, present_full; /* the stage of the block being multiplied */
    uint32_t ring_end, ring_bytes, stage_bytes, barrier_bytes, parity;
    uint32_t sm_lane, codes_lane, x_lane; /* offsets of this lane's parts in a stage */
    int lane, unit, tile, block, end;     /* `block` is being multiplied */
    tile_bases base;
    escape_window escapes;
    uint32_t codes, front_empty, present_empty; /* AHEAD: the front's planes, and the barriers */
    uint32_t lookup;                            /* HERE: decoding the tile's streams, */
    uint32_t origin, entry; /* entries of the slice's first run and of the next one */
    stream_run<2> run;
    word_ring words;
} few_walk;

/* The packed words of a block. */
typedef struct few_words {
    uint4 sm0, sm1, codes;
} few_words;

/* HERE: begin at the slice's first block, which may lie within a run. */
static __device__ __forceinline__ void few_open_streams(const few_args &p, few_walk *k,
                                                        uint32_t words)
{
    int runs = (p.w.blocks + GLYD_RUN_BLOCKS - 1) / GLYD_RUN_BLOCKS,
        run = k->block / GLYD_RUN_BLOCKS;
    const uint32_t *entries = p.w.entries + (int64_t)k->tile * runs + run;
    k->words.ring = words + (uint32_t)k->unit * GLYD_GPU_WORDS_BYTES;
    k->words.lane = k->lane;
    words_start(&k->words, p.w.codes, entries[0], p.w.entries[(int64_t)p.w.tiles * runs]);
    k->origin = entries[0];
    k->entry = entries[1];
    k->run = {};
    words_ask_all(&k->words);
}

/* Decode what of its run comes before the slice. */
static __device__ __forceinline__ void few_skip(const few_args &p, few_walk *k)
{
    run_open(&k->run, &k->words, 0);
    for (int i = k->block % GLYD_RUN_BLOCKS; i > 0; i--) {
        words_keep(&k->words, k->run.next, run_read(k->run));
        (void)run_codes<2, false>(&k->run, k->words, k->lookup);
    }
    words_keep(&k->words, k->run.next, run_read(k->run));
}

/* HERE: have the words of `block`, the next one to be decoded, at hand. */
static __device__ __forceinline__ void few_ready(const few_args &p, few_walk *k, int block)
{
    if (block % GLYD_RUN_BLOCKS == 0 && block < k->end) {
        int runs = (p.w.blocks + GLYD_RUN_BLOCKS - 1) / GLYD_RUN_BLOCKS;
        run_open(&k->run, &k->words, (k->entry - k->origin) * GLYD_RUN_ALIGN);
        k->entry = p.w.entries[(int64_t)k->tile * runs + block / GLYD_RUN_BLOCKS + 1];
    }
    words_keep(&k->words, k->run.next, run_read(k->run));
}

/* The registers of `block` from its words; `multiply(j)`, for each group of the block before, is
 * done meanwhile. */
template <glyd_gpu_codes FROM, typename F>
static __device__ __forceinline__ void few_decode_block(const few_args &p, few_walk *k, int block,
                                                        const few_words &words, uint4 codes,
                                                        uint32_t *a, F multiply)
{
    if constexpr (FROM == GLYD_GPU_CODES_HERE) {
        if (block % GLYD_RUN_BLOCKS == GLYD_RUN_BLOCKS - 1 || block + 1 == p.w.blocks)
            run_fragment<2, true>(&k->run, k->words, k->lookup, a, words.sm0, words.sm1, k->base,
                                  multiply);
        else
            run_fragment<2, false>(&k->run, k->words, k->lookup, a, words.sm0, words.sm1, k->base,
                                   multiply);
    } else {
#pragma unroll
        for (int j = 0; j < GLYD_BLOCK_GROUPS; j++)
            multiply(j);
        fragment_decode(a, words.sm0, words.sm1, codes, k->base);
    }
}

template <int NT, glyd_gpu_codes FROM>
static __device__ __forceinline__ few_walk few_start(const few_args &p, uint32_t ring,
                                                     uint32_t full)
{
    const few_stage<FROM> at(p, NT * 8);
    few_walk k;
    k.lane = (int)threadIdx.x % 32;
    k.unit = (int)threadIdx.x / 32;
    int slice = k.unit / p.tiles;
    k.stage_bytes = at.bytes;
    k.ring_bytes = (uint32_t)p.stages * at.bytes;
    k.ring_end = ring + k.ring_bytes;
    k.barrier_bytes = 8u * (uint32_t)p.stages;
    k.front = k.present = ring - at.bytes; /* before the first */
    k.front_full = k.present_full = full - 8;
    k.parity = 0;
    k.block = slice * p.slice_blocks;
    k.end = min(k.block + p.slice_blocks, p.w.blocks);
    k.tile = few_tile(p, k.unit);
    uint32_t unit = (uint32_t)(k.unit * BLOCKS), lane = (uint32_t)k.lane * 16;
    k.sm_lane = at.sm_at + unit * SM_BYTES + lane;
    k.codes_lane = at.codes_at + unit * CODE_BYTES + lane;
    /* Rows of 128 bytes: lane 8i + r reads chunk i of token r, where the swizzle put it. */
    k.x_lane = (uint32_t)slice * at.x_bytes +
               (uint32_t)(k.lane % 8 * X_ROW_BYTES + (k.lane / 8 ^ k.lane % 8) * 16);
    keep(k.stage_bytes);
    keep(k.ring_bytes);
    keep(k.ring_end);
    keep(k.barrier_bytes);
    keep(k.front);
    keep(k.front_full);
    keep(k.end);
    keep(k.sm_lane);
    keep(k.codes_lane);
    keep(k.x_lane);
    k.base = bases_of(p.w, k.tile, k.lane);
    k.escapes = escapes_from(p.w, k.tile, k.block, k.lane);
    return k;
}

/* Go on to the next stage and wait until it is full. */
static __device__ __forceinline__ void few_advance(few_walk *k)
{
    k->front += k->stage_bytes;
    k->front_full += 8;
    if (k->front == k->ring_end) {
        k->front -= k->ring_bytes;
        k->front_full -= k->barrier_bytes;
        k->parity ^= 1;
    }
    k->front = ring_wait(k->front_full, k->parity, k->front);
}

/* Load the block `front`, `b` of its stage. Past the end the words are of no use and not waited
 * for: that spares the loop a branch. */
template <glyd_gpu_codes FROM>
static __device__ __forceinline__ few_words few_load(const few_planes &planes, int first,
                                                     few_walk *k, int front, int b)
{
    if (b == 0) {
        k->present = k->front;
        k->present_full = k->front_full;
        k->present_empty = k->front_empty;
        if (front < k->end) {
            few_advance(k);
            if constexpr (FROM == GLYD_GPU_CODES_AHEAD) {
                few_place place = few_place_of(planes, k->unit, first, front);
                k->codes = ring_wait(place.full, place.parity, place.plane);
                k->front_empty = place.empty;
            }
        }
    }
    const uint4 *sm =
        (const uint4 *)__cvta_shared_to_generic(k->front + k->sm_lane) + b * (SM_BYTES / 16);
    if constexpr (FROM != GLYD_GPU_CODES_PLANE)
        return {sm[0], sm[32], {}};
    const uint4 *codes =
        (const uint4 *)__cvta_shared_to_generic(k->front + k->codes_lane) + b * (CODE_BYTES / 16);
    return {sm[0], sm[32], codes[0]};
}

/* The codes of the next block, `b` of its stage. Streams leave too few registers to load them
 * together with the signs and mantissas, a block earlier. */
template <glyd_gpu_codes FROM>
static __device__ __forceinline__ uint4 few_codes(const few_walk &k, const few_words &words, int b)
{
    if constexpr (FROM != GLYD_GPU_CODES_AHEAD)
        return words.codes;
    return *((const uint4 *)__cvta_shared_to_generic(k.codes + (uint32_t)(b * CODE_BYTES)) +
             k.lane);
}

/* Multiply the present block, `b` of its stage, by `now`; meanwhile decode `words` to `next`, and
 * load the front's. */
template <int NT, glyd_gpu_codes FROM>
static __device__ __forceinline__ void
few_step(const few_args &p, const few_planes &planes, int first, few_walk *k, int b,
         few_words *words, uint32_t *next, float (&sum)[NT][4], const uint32_t *now)
{
    if constexpr (FROM == GLYD_GPU_CODES_HERE)
        few_ready(p, k, k->block + 1);
    uint4 codes = few_codes<FROM>(*k, *words, b ^ 1); /* before few_load moves on */
    few_words front = few_load<FROM>(planes, first, k, k->block + BLOCKS, b);
    uint32_t x[NT][8], read = 0, x_lane = k->present + k->x_lane;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        uint32_t tokens = x_lane + (uint32_t)((b * NT + n) * 8 * X_ROW_BYTES);
        load_matrix_x4(x[n], tokens);
        load_matrix_x4(x[n] + 4, tokens ^ 64);
        read |= x[n][0] | x[n][4];
    }
    few_decode_block<FROM>(p, k, k->block + 1, *words, codes, next, [&](int j) {
#pragma unroll
        for (int n = 0; n < NT; n++)
            mma_m16n8k16(sum[n], now + 4 * j, x[n][2 * j], x[n][2 * j + 1]);
    });
    *words = front;
    k->block++;
    escapes_put(p.w, next, &k->escapes, k->tile, k->block, k->lane);
    if (b == BLOCKS - 1 || k->block == k->end) {
        ring_release(k->present_full + k->barrier_bytes, read, k->lane);
        if (FROM == GLYD_GPU_CODES_AHEAD)
            barrier_arrive(k->present_empty);
    }
}

/* Shared memory in the order of its parts. */
struct few_layout {
    uint32_t lookup, words, ring, planes, scratch, sums, full, empty;
    template <glyd_gpu_codes FROM>
    __device__ few_layout(const few_args &p, const few_stage<FROM> &at, uint32_t start, int nt)
    {
        constexpr bool streams = FROM != GLYD_GPU_CODES_PLANE;
        uint32_t units = (uint32_t)(p.tiles * p.slices), decoders = units << p.decoders_log2;
        lookup = start; /* aligned to its size, as the words' rings are to theirs */
        words = lookup + (streams ? LOOKUP_BYTES : 0);
        ring = words + (streams ? decoders * GLYD_GPU_WORDS_BYTES : 0);
        planes = ring + (uint32_t)p.stages * at.bytes;
        scratch =
            planes + (FROM == GLYD_GPU_CODES_AHEAD ? (decoders << p.planes_log2) * CODE_BYTES : 0);
        sums = scratch + (streams ? GLYD_GPU_LOOKUP_SCRATCH_BYTES : 0);
        full = sums + (p.slices > 1 ? units * (uint32_t)nt * 4 * 32 * 4 : 0);
        empty = full + 8u * (uint32_t)p.stages;
    }
};

/* A unit's chain: its sums over its slice. */
template <int NT, glyd_gpu_codes FROM>
static __device__ __forceinline__ void few_chain(const few_args &p, const few_planes &planes,
                                                 few_walk &k, float (&sum)[NT][4])
{
    static_assert(BLOCKS == 2, "two fragments take turns");
    int first = k.block;
    if constexpr (FROM == GLYD_GPU_CODES_HERE)
        few_skip(p, &k);
    uint32_t even[GLYD_FRAGMENT_REGISTERS], odd[GLYD_FRAGMENT_REGISTERS];
    few_words words = few_load<FROM>(planes, first, &k, first, 0);
    few_decode_block<FROM>(p, &k, first, words, few_codes<FROM>(k, words, 0), even, [](int) {});
    escapes_put(p.w, even, &k.escapes, k.tile, first, k.lane);
    words = few_load<FROM>(planes, first, &k, first + 1, 1);
    for (;;) {
        few_step<NT, FROM>(p, planes, first, &k, 0, &words, odd, sum, even);
        if (k.block == k.end)
            break;
        few_step<NT, FROM>(p, planes, first, &k, 1, &words, even, sum, odd);
        if (k.block == k.end)
            break;
    }
    /* Stages of longer slices: nothing in them is this warp's, but it has a say in their end. */
    int parts = (p.slice_blocks + BLOCKS - 1) / BLOCKS;
    for (int mine = (k.end - first + BLOCKS - 1) / BLOCKS; mine < parts; mine++) {
        few_advance(&k);
        ring_release(k.front_full + k.barrier_bytes, k.front, k.lane);
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

/* One thread makes the barriers: those of the ring, then those of the decoders' planes. */
static __device__ void few_barriers(const few_args &p, const few_layout &l, const few_planes &f,
                                    bool ahead)
{
    int units = p.tiles * p.slices;
    for (int i = 0; i < p.stages; i++) {
        barrier_init(l.full + 8u * (uint32_t)i, 2); /* weights and tokens */
        barrier_init(l.empty + 8u * (uint32_t)i, (uint32_t)units);
    }
    int pairs = ahead ? units << f.decoders_log2 << f.blocks_log2 >> 1 : 0;
    for (int i = 0; i < pairs; i++) {
        barrier_init(f.full + 8u * (uint32_t)i, GLYD_LANES);
        barrier_init(f.empty + 8u * (uint32_t)i, GLYD_LANES);
    }
    barrier_init_fence();
}

/* The two warps that feed: one makes the barriers, then each brings its part. */
template <int NT, glyd_gpu_codes FROM>
static __device__ __forceinline__ void few_feed(const few_args &p, const linear_maps &maps,
                                                const few_layout &l, const few_planes &f)
{
    bool first = (int)threadIdx.x / 32 == p.tiles * p.slices, one = threadIdx.x % 32 == 0;
    if (first && one)
        few_barriers(p, l, f, FROM == GLYD_GPU_CODES_AHEAD);
    group_sync(3, 2 * GLYD_LANES); /* the barriers are there */
    if constexpr (FROM == GLYD_GPU_CODES_PLANE)
        group_sync(4, (int)blockDim.x); /* else what the others read would come behind the ring */
    else
        group_arrive(4, (int)blockDim.x);
    if (first && one)
        few_feed_weights<FROM>(p, maps, NT * 8, l.ring, l.full);
    else if (one)
        few_feed_tokens<FROM>(p, maps, NT * 8, l.ring, l.full);
}

/* All others. What decoding needs of memory is asked for first: once the rings are being filled, an
 * answer takes microseconds. */
template <int NT, glyd_gpu_codes FROM>
static __device__ __forceinline__ void few_work(const few_args &p, const few_layout &l,
                                                const few_planes &f)
{
    int units = p.tiles * p.slices, warp = (int)threadIdx.x / 32;
    bool decodes = FROM == GLYD_GPU_CODES_AHEAD && warp > units;
    int thread = (int)threadIdx.x - (decodes ? 2 * GLYD_LANES : 0);
    int threads = (int)blockDim.x - 2 * GLYD_LANES;
    table_part table = {};
    if constexpr (FROM != GLYD_GPU_CODES_PLANE)
        table = table_ask(p.w.table, thread);
    if constexpr (FROM == GLYD_GPU_CODES_AHEAD) {
        if (decodes) {
            int decoder = warp - units - 2, unit = decoder >> p.decoders_log2;
            int first = unit / p.tiles * p.slice_blocks;
            few_decoder d = few_decoder_start(p.w, f, few_tile(p, unit), unit,
                                              decoder & ((1 << p.decoders_log2) - 1), first,
                                              min(first + p.slice_blocks, p.w.blocks));
            group_sync(4, (int)blockDim.x); /* the barriers are there */
            uint32_t lookup = lookup_make(l.lookup, l.scratch, table, thread, threads);
            few_decode(p.w, f, &d, lookup);
            return;
        }
    }
    if constexpr (FROM == GLYD_GPU_CODES_PLANE)
        group_sync(4, (int)blockDim.x); /* the barriers are there */
    few_walk k = few_start<NT, FROM>(p, l.ring, l.full);
    if constexpr (FROM != GLYD_GPU_CODES_PLANE) {
        if constexpr (FROM == GLYD_GPU_CODES_HERE)
            few_open_streams(p, &k, l.words);
        group_sync(4, (int)blockDim.x);
        k.lookup = lookup_make(l.lookup, l.scratch, table, thread, threads);
    }
    float sum[NT][4] = {};
    few_chain<NT, FROM>(p, f, k, sum);
    grid_wait(); /* those before may still read what is written now */
    if (few_add_slices<NT>(p, sum, (float *)__cvta_shared_to_generic(l.sums)))
        few_store<NT>(p, sum);
}

template <int NT, glyd_gpu_codes FROM>
static __global__ void __launch_bounds__(few_warps_max(NT * 8, FROM) * 32, 1)
    linear_few_kernel(const __grid_constant__ linear_maps maps, const __grid_constant__ few_args p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t shared[];
    const few_stage<FROM> at(p, NT * 8);
    uint32_t start = shared_address(shared);
    if constexpr (FROM != GLYD_GPU_CODES_PLANE)
        start = (start + LOOKUP_BYTES - 1) & ~(LOOKUP_BYTES - 1);
    const few_layout l(p, at, start, NT);
    int units = p.tiles * p.slices, warp = (int)threadIdx.x / 32;
    grid_let_next();
    few_planes f = {l.planes, l.words,         l.empty + 8u * (uint32_t)p.stages,
                    0,        p.decoders_log2, p.planes_log2};
    f.empty = f.full + ((uint32_t)units << p.decoders_log2 << p.planes_log2) / 2 * 8;
    if (warp == units || warp == units + 1)
        few_feed<NT, FROM>(p, maps, l, f);
    else
        few_work<NT, FROM>(p, l, f);
#endif
}

template <int NT, glyd_gpu_codes FROM>
static glyd_status few_launch(const few_args &p, const glyd_gpu_config *config,
                              const linear_maps &maps, cudaStream_t stream, glyd_error *err)
{
    dim3 grid((unsigned)config->grid_rows, (unsigned)config->grid_tokens);
    return launch_product(linear_few_kernel<NT, FROM>, grid, NULL, config, maps, p, stream, err);
}

template <glyd_gpu_codes FROM>
static glyd_status few_launch_from(const few_args &p, const glyd_gpu_config *config,
                                   const linear_maps &maps, cudaStream_t stream, glyd_error *err)
{
    switch (config->token_tile) {
    case 8:
        return few_launch<1, FROM>(p, config, maps, stream, err);
    case 16:
        return few_launch<2, FROM>(p, config, maps, stream, err);
    default:
        return few_launch<4, FROM>(p, config, maps, stream, err);
    }
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
    p.decoders_log2 = config->decoders_log2;
    p.planes_log2 = config->planes_log2;
    switch (config->codes) {
    case GLYD_GPU_CODES_AHEAD:
        return few_launch_from<GLYD_GPU_CODES_AHEAD>(p, config, maps, stream, err);
    case GLYD_GPU_CODES_HERE:
        return few_launch_from<GLYD_GPU_CODES_HERE>(p, config, maps, stream, err);
    default:
        return few_launch_from<GLYD_GPU_CODES_PLANE>(p, config, maps, stream, err);
    }
}
