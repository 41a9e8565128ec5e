/* few_streams.cuh - layout mma in linear_few.cu: warps that decode a unit's runs ahead of it.
 *
 * A unit (a tile's slice of K) has `decoders` warps; the slice's run i is warp i % decoders' work.
 * Each expands its runs, block after block, into a ring of code planes in shared memory, from
 * which the unit's multiplying warp takes them as it would take those of layout mma12. The words of
 * a run come through a ring of their own, filled by asynchronous copies some blocks ahead.
 *
 * Shared memory of a decoding warp
 *   planes  `plane_blocks` x 512 bytes; a full and an empty barrier for each two blocks
 *   words   GLYD_GPU_FEW_WORDS_BYTES
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_FEW_STREAMS_CUH
#define GLYD_CUDA_FEW_STREAMS_CUH

#include "cuda/config.h"
#include "cuda/stream.cuh"

static constexpr uint32_t WORDS_CHUNK = 512; /* bytes that one copy of the warp brings */
static constexpr uint32_t BLOCK_BYTES_MAX = GLYD_BLOCK_STEPS * GLYD_LANES * 4;
/* Chunks that may still be on their way: with the ring full, the next block does not reach them. */
static constexpr int CHUNKS_AHEAD =
    (GLYD_GPU_FEW_WORDS_BYTES - WORDS_CHUNK - BLOCK_BYTES_MAX) / WORDS_CHUNK;
static_assert(CHUNKS_AHEAD > 0, "a block and a copy ahead");

/* Where the decoders' memory lies, and how a block of a slice is found there. */
typedef struct few_planes {
    uint32_t planes, words, full, empty; /* shared addresses of the first decoder's */
    int decoders_log2, blocks_log2;      /* warps a unit, blocks a ring */
} few_planes;

/* A place in the decoders' rings: a plane, its barriers, and the parity of this use of them. */
typedef struct few_place {
    uint32_t plane, full, empty, parity;
} few_place;

/* Where block `block` of a slice that starts at `first` is put. */
static __device__ __forceinline__ few_place few_place_of(const few_planes &f, int unit, int first,
                                                         int block)
{
    int run = block / GLYD_RUN_BLOCKS - first / GLYD_RUN_BLOCKS;
    int decoder = run & ((1 << f.decoders_log2) - 1), turn = run >> f.decoders_log2;
    int n = turn * GLYD_RUN_BLOCKS + block % GLYD_RUN_BLOCKS;
    if (decoder == 0)
        n -= first % GLYD_RUN_BLOCKS; /* its first run began before the slice */
    uint32_t warp = (uint32_t)(unit << f.decoders_log2 | decoder);
    uint32_t slot = (uint32_t)n & ((1u << f.blocks_log2) - 1);
    uint32_t barrier = ((warp << f.blocks_log2) + slot) / 2 * 8;
    few_place p;
    p.plane = f.planes + ((warp << f.blocks_log2) + slot) * (GLYD_BLOCK_CODE_WORDS * 4);
    p.full = f.full + barrier;
    p.empty = f.empty + barrier;
    p.parity = (uint32_t)(n >> f.blocks_log2 & 1);
    return p;
}

/* A run's words on their way through a warp's ring. Offsets are bytes from `from`. */
typedef struct word_ring {
    const uint8_t *from; /* the first run's first word */
    uint32_t end;        /* of all streams */
    uint32_t ring;       /* shared address */
    uint32_t asked;      /* how far words have been asked for */
    int lane;
} word_ring;

/* One chunk, each lane 16 bytes of it. */
static __device__ __forceinline__ void words_ask(word_ring *r)
{
    uint32_t at = r->asked + (uint32_t)r->lane * 16;
    copy_async_16(r->ring | at % GLYD_GPU_FEW_WORDS_BYTES, r->from + at, at < r->end);
    r->asked += WORDS_CHUNK;
}

/* Keep the ring full and wait for the words of the next block: those before `next` + the most
 * that a block takes. */
static __device__ __forceinline__ void words_keep(word_ring *r, uint32_t next)
{
    __syncwarp(); /* every lane has read the words before `next` */
    while (r->asked + WORDS_CHUNK <= next + GLYD_GPU_FEW_WORDS_BYTES)
        words_ask(r);
    copy_async_wait<CHUNKS_AHEAD>();
    __syncwarp(); /* every lane's part is there */
}

static __device__ __forceinline__ uint32_t words_at(const word_ring &r, uint32_t offset)
{
    return *(const uint32_t *)__cvta_shared_to_generic(r.ring | offset % GLYD_GPU_FEW_WORDS_BYTES);
}

/* The four code words of the next block of a run, which is the run's last or not. */
static __device__ __forceinline__ uint4 few_expand(stream *s, uint32_t ring, uint32_t lanes_before,
                                                   const uint32_t *lookup, bool last)
{
    uint32_t deal_from_end = last ? DEAL_FROM_LAST : DEAL_FROM;
    uint32_t code[GLYD_BLOCK_GROUPS];
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++) {
        uint32_t e[4];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            stream_take(s, lookup, &e[2 * q], &e[2 * q + 1]);
            bool end = j == GLYD_BLOCK_GROUPS - 1 && q == 0; /* one step of the block is left */
            stream_deal_ring<GLYD_GPU_FEW_WORDS_BYTES>(s, end ? deal_from_end : DEAL_FROM,
                                                       lanes_before, ring);
        }
        code[j] = code_word(e);
    }
    return make_uint4(code[0], code[1], code[2], code[3]);
}

/* Begin a run: its words follow those of the run before it where this warp decoded that one. */
static __device__ __forceinline__ void few_run_open(stream *s, word_ring *r, uint32_t at,
                                                    bool follows)
{
    if (!follows)
        r->asked = 0;
    words_keep(r, at);
    s->low = words_at(*r, at + (uint32_t)r->lane * 4);
    s->high = s->sooner = words_at(*r, at + (uint32_t)(GLYD_LANES + r->lane) * 4);
    s->at = 0;
    s->next = at + 2 * GLYD_LANES * 4;
}

/* Decode those runs of a unit's slice [first, end) that are decoder `decoder`'s. After a run's
 * last step a deal takes words that are none of its own: nobody uses them. */
static __device__ __forceinline__ void few_decode(const packed_arrays &w, const few_planes &f,
                                                  int tile, int unit, int decoder, int first,
                                                  int end, const uint32_t *lookup)
{
    int lane = (int)threadIdx.x % 32;
    int runs = (w.blocks + GLYD_RUN_BLOCKS - 1) / GLYD_RUN_BLOCKS;
    uint32_t warp = (uint32_t)(unit << f.decoders_log2 | decoder);
    word_ring r;
    r.ring = f.words + warp * GLYD_GPU_FEW_WORDS_BYTES;
    r.lane = lane;
    const uint32_t *entries = w.entries + (int64_t)tile * runs;
    uint32_t total = w.entries[(int64_t)w.tiles * runs], origin = 0;
    bool follows = false;
    for (int run = first / GLYD_RUN_BLOCKS + decoder; run * GLYD_RUN_BLOCKS < end;
         run += 1 << f.decoders_log2) {
        uint32_t entry = entries[run];
        if (!follows) {
            origin = entry;
            uint64_t left = (uint64_t)(total - entry) * GLYD_RUN_ALIGN;
            r.from = w.codes + (int64_t)entry * GLYD_RUN_ALIGN;
            r.end = left < 1u << 30 ? (uint32_t)left : 1u << 30;
        }
        stream s;
        few_run_open(&s, &r, (entry - origin) * GLYD_RUN_ALIGN, follows);
        follows = f.decoders_log2 == 0;
        int block = run * GLYD_RUN_BLOCKS, run_end = min(block + GLYD_RUN_BLOCKS, w.blocks);
        int stop = min(run_end, end);
        for (; block < stop; block++) {
            words_keep(&r, s.next);
            uint4 codes = few_expand(&s, r.ring, (1u << lane) - 1, lookup, block + 1 == run_end);
            if (block < first)
                continue;
            few_place place = few_place_of(f, unit, first, block);
            if (block % 2 == 0)
                barrier_wait(place.empty, place.parity ^ 1);
            *((uint4 *)__cvta_shared_to_generic(place.plane) + lane) = codes;
            if (block % 2 || block + 1 == end) {
                __syncwarp(); /* both planes are written */
                if (lane == 0)
                    barrier_arrive(place.full);
            }
        }
        if (!follows)
            copy_async_wait<0>(); /* the next run's words go to the same places */
    }
    copy_async_wait<0>();
}

#endif
