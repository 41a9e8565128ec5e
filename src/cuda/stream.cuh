/* stream.cuh - decoding the streams of layout `mma`: a warp expands a run of blocks.
 *
 * A lane has one or two streams. A step takes two pairs of each by lookups of the next 11 bits;
 * streams that have used up a word are then dealt the next ones, in order: docs/FORMAT.md, "Codes,
 * layout mma". Two streams are two chains of dependent instructions, which hide each other.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_STREAM_CUH
#define GLYD_CUDA_STREAM_CUH

#include "cuda/config.h"
#include "cuda/fragment.cuh"

/* An entry of the lookup: the pair's number of bits in its low five, and its codes at bits 7 and
 * 23, where a weight has its exponent. */
static constexpr uint32_t LOOKUP_BYTES = GLYD_LOOKUP_ENTRIES * 4;
static_assert(GLYD_GPU_LOOKUP_SCRATCH_BYTES == 32 * 4 + GLYD_PAIRS, "limits, firsts and symbols");

/* A thread's part of the matrix's `table`, on its way: ask for it before the copy engine is busy.
 */
typedef struct table_part {
    uint32_t symbols[2]; /* words `thread` and `thread` + 32 of them, in the first warp */
    uint32_t count;      /* codes of `thread` bits */
} table_part;

static __device__ __forceinline__ table_part table_ask(const uint8_t *table, int thread)
{
    table_part part = {};
    if (thread < GLYD_LANES) {
        const uint32_t *symbols = (const uint32_t *)(table + GLYD_TABLE_SYMBOLS_OFFSET);
        part.symbols[0] = symbols[thread];
        part.symbols[1] = symbols[thread + GLYD_LANES];
        if (thread <= GLYD_CODE_BITS_MAX)
            part.count = ((const uint16_t *)table)[thread];
    }
    return part;
}

/* Threads 0..n_threads-1 of a CTA, whole warps, turn the table into the lookup at shared address
 * `at`, and meet at barrier 2. `scratch`: GLYD_GPU_LOOKUP_SCRATCH_BYTES. Returns `at`. */
static __device__ uint32_t lookup_make(uint32_t at, uint32_t scratch_at, const table_part &part,
                                       int thread, int n_threads)
{
    static_assert(GLYD_PAIRS == 4 * 2 * GLYD_LANES, "a warp holds all symbols");
    uint32_t *lookup = (uint32_t *)__cvta_shared_to_generic(at);
    uint32_t *scratch = (uint32_t *)__cvta_shared_to_generic(scratch_at);
    uint32_t *limit = scratch, *first = scratch + 16, *symbols = scratch + 32;
    if (thread < GLYD_LANES) { /* lane n: codes of n bits */
        uint32_t n = (uint32_t)thread, in_use = n <= GLYD_CODE_BITS_MAX;
        uint32_t count = n ? part.count : 0;
        symbols[n] = part.symbols[0];
        symbols[n + GLYD_LANES] = part.symbols[1];
        uint32_t width = in_use ? GLYD_CODE_BITS_MAX - n : 0;
        uint32_t below = count, space = count << width; /* sums up to this lane */
        for (int step = 1; step < 16; step <<= 1) {
            uint32_t b = __shfl_up_sync(0xffffffffu, below, step);
            uint32_t c = __shfl_up_sync(0xffffffffu, space, step);
            below += thread >= step ? b : 0;
            space += thread >= step ? c : 0;
        }
        if (n < 16) {
            limit[n] = in_use ? space : 1u << GLYD_CODE_BITS_MAX;
            /* A code of n bits plus this is its symbol's index. */
            first[n] = (below - count) - ((space >> width) - count);
        }
    }
    group_sync(2, n_threads); /* the limits and symbols are there */
    for (uint32_t i = (uint32_t)thread; i < GLYD_LOOKUP_ENTRIES; i += (uint32_t)n_threads) {
        uint32_t code = __brev(i) >> (32 - GLYD_CODE_BITS_MAX); /* the first bit highest */
        uint32_t n = 1;
#pragma unroll
        for (int bits = 1; bits < GLYD_CODE_BITS_MAX; bits++)
            n += code >= limit[bits];
        uint32_t index = (code >> (GLYD_CODE_BITS_MAX - n)) + first[n];
        uint32_t pair = ((const uint8_t *)symbols)[index & (GLYD_PAIRS - 1)];
        lookup[i] = n | (pair & 15) << 7 | (pair >> 4) << 23;
    }
    group_sync(2, n_threads);                 /* the lookup is there */
    asm volatile("" : "+r"(at) : : "memory"); /* reads of it are not ordered otherwise */
    return at;
}

/* The entry of the pair whose code begins at bit 2 of `bits`. `lookup` is a shared address aligned
 * to LOOKUP_BYTES, so that masking and adding are one instruction; what it points to does not
 * change. */
static __device__ __forceinline__ uint32_t lookup_at(uint32_t lookup, uint32_t bits)
{
    uint32_t entry;
    asm("{\n"
        ".reg .b32 at;\n"
        "lop3.b32 at,%1,%2,%3,0xea;\n" /* bits & %2 | lookup */
        "ld.shared.u32 %0,[at];\n"
        "}"
        : "=r"(entry)
        : "r"(bits), "n"(LOOKUP_BYTES - 4), "r"(lookup));
    return entry;
}

static constexpr uint32_t WORDS_BYTES = GLYD_GPU_WORDS_BYTES; /* of a ring, and its alignment */
static constexpr uint32_t WORDS_CHUNK = 1024; /* bytes that the warp asks for at once */
static constexpr uint32_t BLOCK_BYTES_MAX = 8 * GLYD_LANES * 4; /* a word for each two pairs */
/* Chunks that may still be on their way: with the ring full, the next block does not reach them. */
static constexpr int CHUNKS_AHEAD = (WORDS_BYTES - WORDS_CHUNK - BLOCK_BYTES_MAX) / WORDS_CHUNK;
static_assert(CHUNKS_AHEAD > 0 && BLOCK_BYTES_MAX <= WORDS_CHUNK, "a block and a copy ahead");

/* A stream: three words, of which the first is being used up. In the run's last block a third word
 * is not replaced any more, and the stream goes on with two. */
typedef struct stream {
    uint32_t low, high, top; /* the next bits: those of `low` from at + 2 on, then the others' */
    uint32_t at;             /* bits taken but for two, modulo 32 in its low five; bit 5 flips with
                                each word used up; what is above means nothing */
    uint32_t three;          /* last block: whether `top` is still there */
} stream;

/* Two pairs as lookup entries. Shifts take their low five bits of what they are given, so entries
 * are shifted by and added up as they are. Bits are looked up two places too high, which makes
 * them an offset into the lookup. Returns what `at` becomes. */
static __device__ __forceinline__ uint32_t stream_take(const stream &s, uint32_t lookup,
                                                       uint32_t *first, uint32_t *second)
{
    uint32_t bits = __funnelshift_r(s.low, s.high, s.at);
    *first = lookup_at(lookup, bits);
    *second = lookup_at(lookup, __funnelshift_r(bits, 0, *first));
    return s.at + *first + *second;
}

static_assert(
    GLYD_REFILL_BITS == 64 - 2 && GLYD_REFILL_END_BITS == 32 - 2,
    "a stream that is dealt a word has used up one of three, or of two, but for two bits");

/* Deal words from a ring in shared memory to one stream of each lane: to those that have used up a
 * word, as `at` says. `next` is the byte offset of the next word, the same in every lane. A word is
 * needed two steps later at the earliest. The load is not ordered by the compiler: words_keep gives
 * `ring` and takes what was loaded. */
static __device__ __forceinline__ void stream_deal(stream *s, uint32_t *next, uint32_t at,
                                                   uint32_t lanes_before, uint32_t ring)
{
    uint32_t turned = at ^ s->at;
    asm("{\n"
        ".reg .pred dealt;\n"
        ".reg .b32 mask, turn, n;\n"
        "and.b32 turn,%4,32;\n"
        "setp.ne.u32 dealt,turn,0;\n"
        "vote.sync.ballot.b32 mask,dealt,0xffffffff;\n"
        "and.b32 turn,mask,%5;\n"
        "popc.b32 turn,turn;\n"
        "mad.lo.u32 turn,turn,4,%3;\n"
        "lop3.b32 turn,turn,%7,%6,0xea;\n" /* turn & %7 | ring */
        "popc.b32 n,mask;\n"
        "mad.lo.u32 %3,n,4,%3;\n"
        "selp.b32 %0,%1,%0,dealt;\n"
        "selp.b32 %1,%2,%1,dealt;\n"
        "@dealt ld.shared.u32 %2,[turn];\n"
        "}"
        : "+r"(s->low), "+r"(s->high), "+r"(s->top), "+r"(*next)
        : "r"(turned), "r"(lanes_before), "r"(ring), "n"(WORDS_BYTES - 4));
    s->at = at;
}

/* The same in a run's last block: to the streams that have used up one of two. `late`: the run's
 * last step follows, and streams go without where what is left suffices. */
static __device__ __forceinline__ void stream_deal_end(stream *s, uint32_t *next, uint32_t at,
                                                       bool late, uint32_t lanes_before,
                                                       uint32_t ring)
{
    bool moves = ((at ^ s->at) & 32) != 0;
    bool enough = late && (at & 31) < GLYD_REFILL_END_BITS - GLYD_REFILL_LAST_BITS;
    uint32_t dealt = moves && !s->three && !enough;
    uint32_t mask = __ballot_sync(0xffffffffu, dealt);
    uint32_t from = (uint32_t)__popc(mask & lanes_before) * 4 + *next;
    from = (from & (WORDS_BYTES - 4)) | ring;
    s->low = moves ? s->high : s->low;
    s->high = moves ? s->top : s->high;
    asm("{\n"
        ".reg .pred dealt;\n"
        "setp.ne.u32 dealt,%1,0;\n"
        "@dealt ld.shared.u32 %0,[%2];\n"
        "}"
        : "+r"(s->high)
        : "r"(dealt), "r"(from));
    s->three = s->three && !moves;
    s->at = at;
    *next += (uint32_t)__popc(mask) * 4;
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

/* One chunk, each lane 16 bytes of either half of it: a group of copies. */
static __device__ __forceinline__ void words_ask(word_ring *r)
{
    uint32_t at = r->asked + (uint32_t)r->lane * 16;
#pragma unroll
    for (int half = 0; half < 2; half++, at += WORDS_CHUNK / 2)
        copy_async_16(r->ring | at % WORDS_BYTES, r->from + at, at < r->end);
    copy_async_commit();
    r->asked += WORDS_CHUNK;
}

/* Fill the ring for the first time: it is waited for later. */
static __device__ __forceinline__ void words_ask_all(word_ring *r)
{
#pragma unroll 1
    for (int i = 0; i < (int)(WORDS_BYTES / WORDS_CHUNK); i++)
        words_ask(r);
}

/* Keep the ring full and wait for the words of the next block: those before `next` + the most
 * that a block takes, which is a chunk at most. `read` is what was read last. */
static __device__ __forceinline__ void words_keep(word_ring *r, uint32_t next, uint32_t read)
{
    asm volatile("" : : "r"(read) : "memory");
    while (next + WORDS_BYTES - r->asked >= WORDS_CHUNK) {
        __syncwarp(); /* every lane has read the words before `next` */
        words_ask(r);
    }
    copy_async_wait<CHUNKS_AHEAD>();
    __syncwarp(); /* every lane's part is there */
    asm volatile("" : "+r"(r->ring) : : "memory");
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

/* A lane's part of a run of 32 N streams: N of them, for each of its rows one or for both. */
template <int N> struct stream_run {
    stream of[N];
    uint32_t next; /* byte offset of the next word to be dealt */
};

/* What was read last: to be given to words_keep. */
template <int N> static __device__ __forceinline__ uint32_t run_read(const stream_run<N> &r)
{
    uint32_t read = 0;
#pragma unroll
    for (int i = 0; i < N; i++)
        read ^= r.of[i].high ^ r.of[i].top;
    return read;
}

/* Begin the run whose words are at offset `at`: as if a word before its first ones were used up but
 * for the two bits that lookups have below a code. */
template <int N>
static __device__ __forceinline__ void run_open(stream_run<N> *r, word_ring *words, uint32_t at)
{
    words_keep(words, at, run_read(*r));
#pragma unroll
    for (int i = 0; i < N; i++) {
        r->of[i].low = 0;
        r->of[i].high = words_at(*words, at + (uint32_t)(GLYD_LANES * i + words->lane) * 4);
        r->of[i].top = words_at(*words, at + (uint32_t)(GLYD_LANES * (N + i) + words->lane) * 4);
        r->of[i].at = 30;
        r->of[i].three = 1;
    }
    r->next = at + 2 * N * GLYD_LANES * 4;
}

/* A k16 group of the run's next block, whose words have been waited for: the entries of its four
 * registers. END: the run ends with this block. After a run's last step a deal takes words that are
 * none of its own: nobody uses them. */
template <int N, bool END>
static __device__ __forceinline__ void run_group(stream_run<N> *r, const word_ring &words,
                                                 uint32_t lookup, int group, uint32_t lanes_before,
                                                 uint32_t *e)
{
#pragma unroll
    for (int step = 0; step < 2 / N; step++) {
        uint32_t at[N];
#pragma unroll
        for (int i = 0; i < N; i++) /* registers 0 2, 1 3; or 0 1 and then 2 3 */
            at[i] = stream_take(r->of[i], lookup, &e[2 * step + i],
                                &e[2 * step + i + (N == 1 ? 1 : 2)]);
#pragma unroll
        for (int i = 0; i < N; i++) {
            bool late = group == GLYD_BLOCK_GROUPS - (N == 1 ? 1 : 2) && step == 0;
            if constexpr (END)
                stream_deal_end(&r->of[i], &r->next, at[i], late, lanes_before, words.ring);
            else
                stream_deal(&r->of[i], &r->next, at[i], lanes_before, words.ring);
        }
    }
}

template <int N, bool END>
static __device__ __forceinline__ uint4 run_codes(stream_run<N> *r, const word_ring &words,
                                                  uint32_t lookup)
{
    uint32_t code[GLYD_BLOCK_GROUPS], lanes_before = (1u << words.lane) - 1;
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++) {
        uint32_t e[4];
        run_group<N, END>(r, words, lookup, j, lanes_before, e);
        code[j] = code_word(e);
    }
    return make_uint4(code[0], code[1], code[2], code[3]);
}

/* The lane's four code words of the run's next block; `last`: the run ends with it. */
template <int N>
static __device__ __forceinline__ uint4 run_block(stream_run<N> *r, const word_ring &words,
                                                  uint32_t lookup, bool last)
{
    return last ? run_codes<N, true>(r, words, lookup) : run_codes<N, false>(r, words, lookup);
}

/* The 16 registers of the run's next block, straight from the streams. `between(j)` is done after
 * group j, so that what it does overlaps. */
template <int N, bool END, typename F>
static __device__ __forceinline__ void run_fragment(stream_run<N> *r, const word_ring &words,
                                                    uint32_t lookup, uint32_t *a, uint4 sm0,
                                                    uint4 sm1, tile_bases base, F between)
{
    const uint32_t sm[8] = {sm0.x, sm0.y, sm0.z, sm0.w, sm1.x, sm1.y, sm1.z, sm1.w};
    uint32_t lanes_before = (1u << words.lane) - 1;
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++) {
        uint32_t e[4];
        run_group<N, END>(r, words, lookup, j, lanes_before, e);
#pragma unroll
        for (int q = 0; q < 2; q++) {
            uint32_t odd = __byte_perm(sm[2 * j + q], 0, 0x2301);
            a[4 * j + 2 * q] = bits_of(base.sm_mask, sm[2 * j + q], e[2 * q] + base.low);
            a[4 * j + 2 * q + 1] = bits_of(base.sm_mask, odd, e[2 * q + 1] + base.high);
        }
        between(j);
    }
}

#endif
