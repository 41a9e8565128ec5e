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

/* A decoding warp: runs decoder, decoder + decoders, ... of a unit's slice [first, end). */
typedef struct few_decoder {
    int unit, first, end, run, lane;
    const uint32_t *entries; /* of the tile */
    uint32_t entry, total;   /* of `run`, and the last of all */
    word_ring words;
} few_decoder;

/* Ask for the first run's words: this comes before the wait for the lookup. */
static __device__ __forceinline__ few_decoder few_decoder_start(const packed_arrays &w,
                                                                const few_planes &f, int tile,
                                                                int unit, int decoder, int first,
                                                                int end)
{
    few_decoder d;
    int runs = (w.blocks + GLYD_RUN_BLOCKS - 1) / GLYD_RUN_BLOCKS;
    d.unit = unit;
    d.first = first;
    d.end = end;
    d.run = min(first / GLYD_RUN_BLOCKS + decoder, runs - 1);
    d.lane = (int)threadIdx.x % 32;
    d.entries = w.entries + (int64_t)tile * runs;
    d.entry = d.entries[d.run];
    d.total = w.entries[(int64_t)w.tiles * runs];
    d.words.ring = f.words + (uint32_t)(unit << f.decoders_log2 | decoder) * GLYD_GPU_WORDS_BYTES;
    d.words.lane = d.lane;
    d.run = first / GLYD_RUN_BLOCKS + decoder;
    words_start(&d.words, w.codes, d.entry, d.total);
    words_ask_all(&d.words);
    return d;
}

static __device__ __forceinline__ void few_decode(const packed_arrays &w, const few_planes &f,
                                                  few_decoder *d, uint32_t lookup)
{
    uint32_t origin = d->entry;
    while (d->run * GLYD_RUN_BLOCKS < d->end) {
        stream_run<2> r = {};
        int block = d->run * GLYD_RUN_BLOCKS, run_end = min(block + GLYD_RUN_BLOCKS, w.blocks);
        run_open(&r, &d->words, (d->entry - origin) * GLYD_RUN_ALIGN);
        int stop = min(run_end, d->end);
        d->run += 1 << f.decoders_log2;
        if (d->run * GLYD_RUN_BLOCKS < d->end)
            d->entry = d->entries[d->run];
        for (; block < stop; block++) {
            words_keep(&d->words, r.next, run_read(r));
            uint4 codes = run_block(&r, d->words, lookup, block + 1 == run_end);
            if (block < d->first)
                continue;
            few_place place = few_place_of(f, d->unit, d->first, block);
            if (block % 2 == 0)
                barrier_wait(place.empty, place.parity ^ 1);
            *((uint4 *)__cvta_shared_to_generic(place.plane) + d->lane) = codes;
            if (block % 2 || block + 1 == d->end)
                barrier_arrive(place.full); /* every lane: each says that its part is written */
        }
        if (f.decoders_log2) { /* the next run's words are elsewhere */
            copy_async_wait<0>();
            __syncwarp(); /* nobody reads the old ones any more */
            origin = d->entry;
            words_start(&d->words, w.codes, d->entry, d->total);
        }
    }
    copy_async_wait<0>();
}

#endif
