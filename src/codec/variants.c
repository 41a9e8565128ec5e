/* variants.c - the plain-C inner loops, which the vector variants are held to, and the choice.
 *
 * decode: a stream holds more than 30 bits before each step, and a step takes at most 22, so one
 * look at each stream after a step is enough. Its 64-bit buffer holds the next of its bits, and a
 * word beyond them waits beside it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/variants.h"
#include "codec/load.h"
#include <string.h>

typedef struct stream_state {
    uint64_t buffer;
    uint32_t word; /* follows the buffer's bits where the stream holds more than 64 */
    int bits;      /* of both */
} stream_state;

/* Take one pair from the low end. */
static inline uint32_t take(stream_state *s, const glyd_lookup *lookup)
{
    uint32_t entry = lookup->entry[s->buffer & (GLYD_LOOKUP_ENTRIES - 1)];
    int n = (int)(entry >> GLYD_LOOKUP_BITS_SHIFT & 15);
    s->buffer = s->buffer >> n | (uint64_t)s->word << (64 - n);
    s->word >>= n;
    s->bits -= n;
    return entry & GLYD_LOOKUP_CODES;
}

/* Append a word to the at most 64 bits that a stream holds. */
static inline void append(stream_state *s, uint32_t word)
{
    if (s->bits < 64)
        s->buffer |= (uint64_t)word << s->bits;
    if (s->bits > 32)
        s->word = (uint32_t)((uint64_t)word << (s->bits - 32) >> 32);
    s->bits += 32;
}

static int64_t decode(const uint8_t *words, int64_t n_words, const glyd_lookup *lookup, int blocks,
                      int streams, uint32_t *codes, uint64_t *left)
{
    stream_state all[GLYD_STREAMS_MAX] = {0};
    int64_t next = 0;
    if (n_words < 2 * streams)
        return -1;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < streams; k++)
            append(&all[k], glyd_load_u32(words, next++));
    int block_steps = glyd_block_steps(streams), steps = blocks * block_steps;
    memset(codes, 0, (size_t)blocks * GLYD_BLOCK_CODE_BYTES);
    for (int i = 0; i < steps; i++) {
        int step = i % block_steps, group = glyd_step_group(streams, step);
        uint32_t *to = codes + i / block_steps * GLYD_BLOCK_CODE_WORDS;
        for (int k = 0; k < streams; k++) {
            uint32_t first = take(&all[k], lookup), second = take(&all[k], lookup);
            to[glyd_code_word(k % GLYD_LANES, group)] |=
                first << 4 * glyd_step_register(streams, k, step, 0) |
                second << 4 * glyd_step_register(streams, k, step, 1);
        }
        if (i + 1 == steps)
            break;
        int refill = glyd_refill_bits(i, steps, streams);
        for (int k = 0; k < streams; k++) {
            if (all[k].bits > refill)
                continue;
            if (next == n_words)
                return -1;
            append(&all[k], glyd_load_u32(words, next++));
        }
    }
    *left = 0;
    for (int k = 0; k < streams; k++)
        *left |= all[k].buffer | all[k].word;
    return next;
}

/* Exchange the bytes of both halves: register 2q + 1's view of an sm word. */
static inline uint32_t exchange(uint32_t sm)
{
    return (sm >> 8 & 0x00ff00ff) | (sm & 0x00ff00ff) << 8;
}

/* One register: two weights of a row. `codes` has theirs at bits 0 and 16. */
static inline void put_pair(uint16_t *to, uint32_t sm, uint32_t codes, uint32_t base)
{
    uint32_t pair = (sm & GLYD_SM_MASK) | ((codes & 0x000f000f) + base * 0x00010001) << 7;
    memcpy(to, &pair, sizeof pair);
}

static void join(const uint8_t *sm, const uint8_t *codes, const uint8_t *bases, uint16_t *bf16,
                 int64_t stride)
{
    for (int lane = 0; lane < GLYD_LANES; lane++) {
        int row = lane >> 2;
        uint16_t *to = bf16 + row * stride + 2 * (lane & 3);
        for (int group = 0; group < GLYD_BLOCK_GROUPS; group++) {
            uint32_t code = glyd_load_u32(codes, glyd_code_word(lane, group));
            for (int q = 0; q < 2; q++, to += 8, code >>= 8) {
                uint32_t word = glyd_load_u32(sm, glyd_sm_word(lane, group, q));
                put_pair(to, word, code, bases[row]);
                put_pair(to + 8 * stride, exchange(word), code >> 4, bases[row + 8]);
            }
        }
    }
}

/* The codes of a register's two weights at bits 0 and 16; *escaped is set where there is none. */
static inline uint32_t get_codes(const uint16_t *from, uint32_t base, uint32_t fill, int *escaped)
{
    uint32_t low = (from[0] >> 7 & 255U) - base, high = (from[1] >> 7 & 255U) - base;
    if ((low | high) >= GLYD_WINDOW) { /* a negative difference is a large one */
        *escaped = 1;
        low = low < GLYD_WINDOW ? low : fill;
        high = high < GLYD_WINDOW ? high : fill;
    }
    return low | high << 16;
}

static int split(const uint16_t *bf16, int64_t stride, const uint8_t *bases, int fill, uint32_t *sm,
                 uint32_t *codes)
{
    int escaped = 0;
    for (int lane = 0; lane < GLYD_LANES; lane++) {
        int row = lane >> 2;
        const uint16_t *from = bf16 + row * stride + 2 * (lane & 3);
        for (int group = 0; group < GLYD_BLOCK_GROUPS; group++) {
            uint32_t code = 0;
            for (int q = 0; q < 2; q++, from += 8) {
                const uint16_t *below = from + 8 * stride;
                uint32_t pair = from[0] | (uint32_t)from[1] << 16;
                uint32_t pair_below = below[0] | (uint32_t)below[1] << 16;
                sm[glyd_sm_word(lane, group, q)] =
                    (pair & GLYD_SM_MASK) | exchange(pair_below & GLYD_SM_MASK);
                uint32_t c = get_codes(from, bases[row], (uint32_t)fill, &escaped);
                c |= get_codes(below, bases[row + 8], (uint32_t)fill, &escaped) << 4;
                code |= c << 8 * q;
            }
            codes[glyd_code_word(lane, group)] = code;
        }
    }
    return escaped;
}

const glyd_variants glyd_variants_c = {decode, join, split};

const glyd_variants *glyd_variants_get(glyd_variant variant)
{
    switch (variant) {
    case GLYD_VARIANT_C:
        return &glyd_variants_c;
#if defined(__x86_64__)
    case GLYD_VARIANT_AVX2:
        return &glyd_variants_avx2;
    case GLYD_VARIANT_AVX512:
        return &glyd_variants_avx512;
#endif
    default:
        return NULL;
    }
}

const glyd_variants *glyd_variants_best(void)
{
    return glyd_variants_get(glyd_cpu_variant());
}
