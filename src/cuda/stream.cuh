/* stream.cuh - decoding the streams of layout `mma`: a warp expands a run of blocks.
 *
 * A lane's next 64 bits lie in two words; `at` (0..31 before a step) counts the bits taken of the
 * first. A step takes two pairs by lookups of the next 11 bits. Lanes whose first word is used up
 * are then dealt the next words in lane order: docs/FORMAT.md, "Codes, layout mma".
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_STREAM_CUH
#define GLYD_CUDA_STREAM_CUH

#include "cuda/config.h"
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

static constexpr uint32_t WORDS_BYTES = GLYD_GPU_WORDS_BYTES; /* of a ring, and its alignment */
static constexpr uint32_t WORDS_CHUNK = 512; /* bytes that one copy of the warp brings */
static constexpr uint32_t BLOCK_BYTES_MAX = GLYD_BLOCK_STEPS * GLYD_LANES * 4;
/* Chunks that may still be on their way: with the ring full, the next block does not reach them. */
static constexpr int CHUNKS_AHEAD = (WORDS_BYTES - WORDS_CHUNK - BLOCK_BYTES_MAX) / WORDS_CHUNK;
static_assert(CHUNKS_AHEAD > 0, "a block and a copy ahead");

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

/* The lanes that are dealt a word, and this lane's turn among them in bytes. `used` is the bits it
 * has used of its two words. */
static __device__ __forceinline__ uint32_t stream_mask(const stream *s, uint32_t used,
                                                       uint32_t deal_from, uint32_t lanes_before,
                                                       uint32_t *turn)
{
    uint32_t mask = __ballot_sync(0xffffffffu, used >= deal_from);
    *turn = (uint32_t)__popc(mask & lanes_before) * 4 + s->next;
    return mask;
}

/* Deal words from a ring in shared memory. */
static __device__ __forceinline__ void stream_deal(stream *s, uint32_t deal_from,
                                                   uint32_t lanes_before, uint32_t ring)
{
    uint32_t used = s->at & 63; /* the rest of `at` is left over from entries */
    uint32_t turn, mask = stream_mask(s, used, deal_from, lanes_before, &turn);
    s->sooner = s->high;
    asm volatile("{\n"
                 ".reg .pred moves, dealt;\n"
                 "setp.ge.u32 moves,%2,32;\n"
                 "setp.ge.u32 dealt,%2,%4;\n"
                 "@moves mov.u32 %0,%1;\n"
                 "@dealt ld.shared.u32 %1,[%3];\n"
                 "}"
                 : "+r"(s->low), "+r"(s->high)
                 : "r"(used), "r"((turn & (WORDS_BYTES - 4)) | ring), "r"(deal_from)
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
    copy_async_16(r->ring | at % WORDS_BYTES, r->from + at, at < r->end);
    r->asked += WORDS_CHUNK;
}

/* Keep the ring full and wait for the words of the next block: those before `next` + the most
 * that a block takes. */
static __device__ __forceinline__ void words_keep(word_ring *r, uint32_t next)
{
    __syncwarp(); /* every lane has read the words before `next` */
    while (r->asked + WORDS_CHUNK <= next + WORDS_BYTES)
        words_ask(r);
    copy_async_wait<CHUNKS_AHEAD>();
    __syncwarp(); /* every lane's part is there */
}

static __device__ __forceinline__ uint32_t words_at(const word_ring &r, uint32_t offset)
{
    return *(const uint32_t *)__cvta_shared_to_generic(r.ring | offset % WORDS_BYTES);
}

/* Point the ring at the words from entry `entry` on; `total` is the last entry. */
static __device__ __forceinline__ void words_start(word_ring *r, const uint8_t *codes,
                                                   uint32_t entry, uint32_t total)
{
    uint64_t left = (uint64_t)(total - entry) * GLYD_RUN_ALIGN;
    r->from = codes + (int64_t)entry * GLYD_RUN_ALIGN;
    r->end = left < 1u << 30 ? (uint32_t)left : 1u << 30;
    r->asked = 0;
}

/* Begin the run whose words are at offset `at`. */
static __device__ __forceinline__ void run_open(stream *s, word_ring *r, uint32_t at)
{
    words_keep(r, at);
    s->low = words_at(*r, at + (uint32_t)r->lane * 4);
    s->high = s->sooner = words_at(*r, at + (uint32_t)(GLYD_LANES + r->lane) * 4);
    s->at = 0;
    s->next = at + 2 * GLYD_LANES * 4;
}

/* The lane's four code words of the run's next block, whose words have been waited for; `last`: the
 * run ends with it. After a run's last step a deal takes words that are none of its own: nobody
 * uses them. */
static __device__ __forceinline__ uint4 run_block(stream *s, const word_ring &r,
                                                  const uint32_t *lookup, bool last)
{
    uint32_t deal_from_end = last ? DEAL_FROM_LAST : DEAL_FROM;
    uint32_t code[GLYD_BLOCK_GROUPS], lanes_before = (1u << r.lane) - 1;
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++) {
        uint32_t e[4];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            stream_take(s, lookup, &e[2 * q], &e[2 * q + 1]);
            bool end = j == GLYD_BLOCK_GROUPS - 1 && q == 0; /* one step of the block is left */
            stream_deal(s, end ? deal_from_end : DEAL_FROM, lanes_before, r.ring);
        }
        code[j] = code_word(e);
    }
    return make_uint4(code[0], code[1], code[2], code[3]);
}

#endif
