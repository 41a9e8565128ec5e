/* few_streams.cuh - layout mma in linear_few.cu: warps that decode a unit's runs ahead of it.
 *
 * A unit (a tile's slice of K) has `decoders` warps; the slice's run i is warp i % decoders' work.
 * Each expands its runs, block after block, into a ring of code planes in shared memory, from
 * which the unit's multiplying warp takes them as it would take those of layout mma12. The words of
 * a run come through a ring of their own, filled by asynchronous copies some blocks ahead.
 *
 * Shared memory of a decoding warp
 *   planes  `plane_blocks` x 512 bytes; a full and an empty barrier for each two blocks
 *   words   GLYD_GPU_WORDS_BYTES
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_FEW_STREAMS_CUH
#define GLYD_CUDA_FEW_STREAMS_CUH

#include "cuda/config.h"
#include "cuda/stream.cuh"

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

/* Decode those runs of a unit's slice [first, end) that are decoder `decoder`'s. */
static __device__ __forceinline__ void few_decode(const packed_arrays &w, const few_planes &f,
                                                  int tile, int unit, int decoder, int first,
                                                  int end, uint32_t lookup)
{
    int lane = (int)threadIdx.x % 32;
    int runs = (w.blocks + GLYD_RUN_BLOCKS - 1) / GLYD_RUN_BLOCKS;
    uint32_t warp = (uint32_t)(unit << f.decoders_log2 | decoder);
    word_ring r;
    r.ring = f.words + warp * GLYD_GPU_WORDS_BYTES;
    r.lane = lane;
    const uint32_t *entries = w.entries + (int64_t)tile * runs;
    uint32_t total = w.entries[(int64_t)w.tiles * runs], origin = 0;
    bool follows = false;
    for (int run = first / GLYD_RUN_BLOCKS + decoder; run * GLYD_RUN_BLOCKS < end;
         run += 1 << f.decoders_log2) {
        uint32_t entry = entries[run];
        if (!follows) {
            origin = entry;
            words_start(&r, w.codes, entry, total);
        }
        stream s = {};
        follows = f.decoders_log2 == 0;
        int block = run * GLYD_RUN_BLOCKS, run_end = min(block + GLYD_RUN_BLOCKS, w.blocks);
        run_open(&s, &r, (entry - origin) * GLYD_RUN_ALIGN, run_end - block);
        int stop = min(run_end, end);
        for (; block < stop; block++) {
            words_keep(&r, s.next, s.high ^ s.top);
            uint4 codes = run_block(&s, r, lookup, block + 1 == run_end);
            if (block < first)
                continue;
            few_place place = few_place_of(f, unit, first, block);
            if (block % 2 == 0)
                barrier_wait(place.empty, place.parity ^ 1);
            *((uint4 *)__cvta_shared_to_generic(place.plane) + lane) = codes;
            if (block % 2 || block + 1 == end)
                barrier_arrive(place.full); /* every lane: each says that its part is written */
        }
        if (!follows)
            copy_async_wait<0>(); /* the next run's words go to the same places */
    }
    copy_async_wait<0>();
}

#endif
