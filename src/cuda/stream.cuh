/* stream.cuh - decoding the streams of layout `mma`: a warp expands a run of blocks.
 *
 * A lane's next 64 bits lie in two words; `at` (0..31 before a step) counts the bits taken of the
 * first. A step takes two pairs by lookups of the next 11 bits. Lanes whose first word is used up
 * are then dealt the next words in lane order: docs/FORMAT.md, "Codes, layout mma".
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_STREAM_CUH
#define GLYD_CUDA_STREAM_CUH

#include "cuda/fragment.cuh"

/* An entry of the lookup: the pair's number of bits in its low five, and its codes at bits 7 and
 * 23, where a weight has its exponent.
 *
 * Threads 0..n_threads-1 of a CTA turn the matrix's `table` into the lookup; `scratch` is 32 words,
 * barrier 2 is used. The caller synchronises afterwards. */
static __device__ void lookup_build(uint32_t *lookup, uint32_t *scratch, const uint8_t *table,
                                    int thread, int n_threads)
{
    uint32_t *limit = scratch, *first = scratch + 16;
    if (thread == 0) {
        const uint16_t *counts = (const uint16_t *)table;
        uint32_t code = 0, symbols = 0;
        for (int n = 1; n <= GLYD_CODE_BITS_MAX; n++, code <<= 1) {
            first[n] = symbols - code; /* a code of n bits plus this is its symbol's index */
            code += counts[n];
            symbols += counts[n];
            limit[n] = code << (GLYD_CODE_BITS_MAX - n);
        }
    }
    group_sync(2, n_threads); /* the limits are there */
    for (uint32_t i = (uint32_t)thread; i < GLYD_LOOKUP_ENTRIES; i += (uint32_t)n_threads) {
        uint32_t code = __brev(i) >> (32 - GLYD_CODE_BITS_MAX); /* the first bit highest */
        uint32_t n = 1;
        while (n < GLYD_CODE_BITS_MAX && code >= limit[n])
            n++;
        uint32_t index = (code >> (GLYD_CODE_BITS_MAX - n)) + first[n];
        uint32_t pair = table[GLYD_TABLE_SYMBOLS_OFFSET + (index & (GLYD_PAIRS - 1))];
        lookup[i] = n | (pair & 15) << 7 | (pair >> 4) << 23;
    }
}

/* A lane's part of a run. The word dealt last may still be on its way: the first lookup of a step
 * needs only bits that lie before it (at most 21 taken + 11 looked up), and does not wait. */
typedef struct stream {
    uint32_t low, high; /* the next bits: those of `low` from `at` on, then those of `high` */
    uint32_t sooner;    /* what `high` was before the last deal */
    uint32_t at;        /* its low six bits; what is above them means nothing */
    uint32_t next;      /* byte offset of the next word to be dealt; the same in every lane */
} stream;

/* Two pairs: registers 2q and 2q + 1 of a group, as lookup entries. Shifts take their low five
 * bits of what they are given, so entries are shifted by and added up as they are. */
static __device__ __forceinline__ void stream_take(stream *s, const uint32_t *lookup,
                                                   uint32_t *even, uint32_t *odd)
{
    uint32_t first = __funnelshift_r(s->low, s->sooner, s->at);
    *even = lookup[first & (GLYD_LOOKUP_ENTRIES - 1)];
    uint32_t bits = __funnelshift_r(s->low, s->high, s->at);
    bits = __funnelshift_r(bits, 0, *even);
    *odd = lookup[bits & (GLYD_LOOKUP_ENTRIES - 1)];
    s->at += *even + *odd;
}

/* Before a run's last step a lane is dealt a word only where what is left of its second one may not
 * suffice; before every other step, where it has used up a word. */
static constexpr uint32_t DEAL_FROM = 64 - GLYD_REFILL_BITS;
static constexpr uint32_t DEAL_FROM_LAST = 64 - GLYD_REFILL_LAST_BITS;
static_assert(DEAL_FROM == 32, "a lane that is dealt a word has used up its first");

/* The lanes that are dealt a word, and this lane's turn among them in bytes. */
static __device__ __forceinline__ uint32_t stream_mask(const stream *s, uint32_t deal_from,
                                                       uint32_t lanes_before, uint32_t *turn)
{
    uint32_t mask = __ballot_sync(0xffffffffu, s->at >= deal_from);
    *turn = (uint32_t)__popc(mask & lanes_before) * 4 + s->next;
    return mask;
}

/* Deal words from global memory. */
static __device__ __forceinline__ void stream_deal(stream *s, int steps_left, uint32_t lanes_before,
                                                   const uint8_t *words)
{
    uint32_t deal_from = steps_left > 1 ? DEAL_FROM : DEAL_FROM_LAST;
    uint32_t turn, mask = stream_mask(s, deal_from, lanes_before, &turn);
    s->sooner = s->high;
    if (s->at >= 32)
        s->low = s->high;
    if (s->at >= deal_from)
        s->high = __ldg((const uint32_t *)(words + turn));
    s->at &= 31;
    s->next += (uint32_t)__popc(mask) * 4;
}

/* Deal words from a ring in shared memory of `BYTES`, a power of two to which it is aligned. */
template <uint32_t BYTES>
static __device__ __forceinline__ void stream_deal_ring(stream *s, uint32_t deal_from,
                                                        uint32_t lanes_before, uint32_t ring)
{
    uint32_t turn, mask = stream_mask(s, deal_from, lanes_before, &turn);
    s->sooner = s->high;
    asm volatile("{\n"
                 ".reg .pred moves, dealt;\n"
                 "setp.ge.u32 moves,%2,32;\n"
                 "setp.ge.u32 dealt,%2,%4;\n"
                 "@moves mov.u32 %0,%1;\n"
                 "@dealt ld.shared.u32 %1,[%3];\n"
                 "}"
                 : "+r"(s->low), "+r"(s->high)
                 : "r"(s->at), "r"((turn & (BYTES - 4)) | ring), "r"(deal_from)
                 : "memory");
    s->at &= 31;
    s->next += (uint32_t)__popc(mask) * 4;
}

/* A code word of an mma12 plane from a group's four lookup entries. */
static __device__ __forceinline__ uint32_t code_word(const uint32_t *e)
{
    return (e[0] >> 7 & 0x000f000fu) | (e[1] >> 3 & 0x00f000f0u) | (e[2] << 1 & 0x0f000f00u) |
           (e[3] << 5 & 0xf000f000u);
}

/* Runs of a matrix read straight from global memory, through the first-level cache. */
typedef struct run_reader {
    const uint8_t *words;
    stream s;
    uint32_t lanes_before;
    int steps_left;
} run_reader;

static __device__ __forceinline__ run_reader run_open(const packed_arrays &m, int tile, int run,
                                                      int blocks, int lane)
{
    int runs = (m.blocks + m.run_blocks - 1) / m.run_blocks;
    uint32_t entry = m.entries[(int64_t)tile * runs + run];
    run_reader r;
    r.words = m.codes + (int64_t)entry * GLYD_RUN_ALIGN;
    r.s.low = ((const uint32_t *)r.words)[lane];
    r.s.high = r.s.sooner = ((const uint32_t *)r.words)[GLYD_LANES + lane];
    r.s.at = 0;
    r.s.next = 2 * GLYD_LANES * 4;
    r.lanes_before = (1u << lane) - 1;
    r.steps_left = blocks * GLYD_BLOCK_STEPS;
    return r;
}

/* The lane's four code words of the run's next block. */
static __device__ __forceinline__ uint4 run_block(run_reader *r, const uint32_t *lookup)
{
    uint32_t code[4];
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++) {
        uint32_t e[4];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            stream_take(&r->s, lookup, &e[2 * q], &e[2 * q + 1]);
            if (--r->steps_left)
                stream_deal(&r->s, r->steps_left, r->lanes_before, r->words);
        }
        code[j] = code_word(e);
    }
    return make_uint4(code[0], code[1], code[2], code[3]);
}

#endif
