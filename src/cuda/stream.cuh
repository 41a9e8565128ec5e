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

/* An entry of the lookup: the pair's bits, and its codes where a weight has its exponent. */
static constexpr uint32_t ENTRY_BITS = 31;
static constexpr uint32_t ENTRY_CODES = 0x07800780;

/* All threads of a CTA turn the matrix's `table` into the lookup; `scratch` is 64 words. The
 * caller synchronises afterwards. */
static __device__ void lookup_build(uint32_t *lookup, uint32_t *scratch, const uint8_t *table)
{
    uint32_t *limit = scratch, *first = scratch + 16;
    if (threadIdx.x == 0) {
        const uint16_t *counts = (const uint16_t *)table;
        uint32_t code = 0, symbols = 0;
        for (int n = 1; n <= GLYD_CODE_BITS_MAX; n++, code <<= 1) {
            first[n] = symbols - code; /* a code of n bits plus this is its symbol's index */
            code += counts[n];
            symbols += counts[n];
            limit[n] = code << (GLYD_CODE_BITS_MAX - n);
        }
    }
    __syncthreads(); /* the limits are there */
    for (uint32_t i = threadIdx.x; i < GLYD_LOOKUP_ENTRIES; i += blockDim.x) {
        uint32_t code = __brev(i) >> (32 - GLYD_CODE_BITS_MAX); /* the first bit highest */
        uint32_t n = 1;
        while (n < GLYD_CODE_BITS_MAX && code >= limit[n])
            n++;
        uint32_t index = (code >> (GLYD_CODE_BITS_MAX - n)) + first[n];
        uint32_t pair = table[GLYD_TABLE_SYMBOLS_OFFSET + (index & (GLYD_PAIRS - 1))];
        lookup[i] = n | (pair & 15) << 7 | (pair >> 4) << 23;
    }
}

typedef struct stream {
    uint32_t low, high, at;
    uint32_t next; /* index of the next word to be dealt; the same in every lane */
} stream;

/* Two pairs: registers 2q and 2q + 1 of a group, as lookup entries. */
static __device__ __forceinline__ void stream_take(stream *s, const uint32_t *lookup,
                                                   uint32_t *even, uint32_t *odd)
{
    uint32_t bits = __funnelshift_r(s->low, s->high, s->at);
    *even = lookup[bits & (GLYD_LOOKUP_ENTRIES - 1)];
    bits = __funnelshift_r(bits, 0, *even); /* the low five bits of an entry */
    *odd = lookup[bits & (GLYD_LOOKUP_ENTRIES - 1)];
    s->at += (*even & ENTRY_BITS) + (*odd & ENTRY_BITS);
}

/* Deal words to the lanes that need one. `word(i)` reads word i. */
template <typename READ>
static __device__ __forceinline__ void stream_deal(stream *s, uint32_t lanes_before, READ word)
{
    bool needs = s->at >= 32;
    uint32_t mask = __ballot_sync(0xffffffffu, needs);
    if (needs) {
        s->low = s->high;
        s->high = word(s->next + (uint32_t)__popc(mask & lanes_before));
        s->at -= 32;
    }
    s->next += (uint32_t)__popc(mask);
}

/* A code word of an mma12 plane from a group's four lookup entries. */
static __device__ __forceinline__ uint32_t code_word(const uint32_t *e)
{
    return (e[0] >> 7 & 0x000f000fu) | (e[1] >> 3 & 0x00f000f0u) | (e[2] << 1 & 0x0f000f00u) |
           (e[3] << 5 & 0xf000f000u);
}

/* Runs of a matrix read straight from global memory, through the first-level cache. */
typedef struct run_reader {
    const uint32_t *words;
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
    r.words = (const uint32_t *)(m.codes + (int64_t)entry * GLYD_RUN_ALIGN);
    r.s.low = r.words[lane];
    r.s.high = r.words[GLYD_LANES + lane];
    r.s.at = 0;
    r.s.next = 2 * GLYD_LANES;
    r.lanes_before = (1u << lane) - 1;
    r.steps_left = blocks * GLYD_BLOCK_STEPS;
    return r;
}

/* The lane's four code words of the run's next block. */
static __device__ __forceinline__ uint4 run_block(run_reader *r, const uint32_t *lookup)
{
    uint32_t code[4];
    const uint32_t *words = r->words;
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++) {
        uint32_t e[4];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            stream_take(&r->s, lookup, &e[2 * q], &e[2 * q + 1]);
            if (--r->steps_left)
                stream_deal(&r->s, r->lanes_before, [=](uint32_t i) { return __ldg(words + i); });
        }
        code[j] = code_word(e);
    }
    return make_uint4(code[0], code[1], code[2], code[3]);
}

#endif
