/* variants.c - the plain-C inner loops, which the vector variants are held to, and the choice.
 *
 * decode: a lane holds more than 30 bits before each step, and a step takes at most 22, so one look
 * at each lane after a step is enough. The lane's 64-bit buffer holds the next of its bits, and a
 * word beyond them waits beside it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/variants.h"
#include "codec/load.h"

typedef struct lane_state {
    uint64_t buffer;
    uint32_t word; /* follows the buffer's bits where the lane holds more than 64 */
    int bits;      /* of both */
} lane_state;

/* Take one pair from the low end of the lane's buffer. */
static inline uint32_t take(lane_state *l, const glyd_lookup *lookup)
{
    uint32_t entry = lookup->entry[l->buffer & (GLYD_LOOKUP_ENTRIES - 1)];
    int n = (int)(entry >> GLYD_LOOKUP_BITS_SHIFT & 15);
    l->buffer = l->buffer >> n | (uint64_t)l->word << (64 - n);
    l->word >>= n;
    l->bits -= n;
    return entry & GLYD_LOOKUP_CODES;
}

/* Append a word to the at most 64 bits that a lane holds. */
static inline void append(lane_state *l, uint32_t word)
{
    if (l->bits < 64)
        l->buffer |= (uint64_t)word << l->bits;
    if (l->bits > 32)
        l->word = (uint32_t)((uint64_t)word << (l->bits - 32) >> 32);
    l->bits += 32;
}

static int64_t decode(const uint8_t *words, int64_t n_words, const glyd_lookup *lookup, int blocks,
                      uint32_t *codes, uint64_t *left)
{
    lane_state lanes[GLYD_LANES] = {0};
    int64_t next = 0;
    if (n_words < 2 * GLYD_LANES)
        return -1;
    for (int i = 0; i < 2; i++)
        for (int l = 0; l < GLYD_LANES; l++)
            append(&lanes[l], glyd_load_u32(words, next++));
    int steps = blocks * GLYD_BLOCK_STEPS;
    for (int step = 0; step < steps; step++) {
        int half = step & 1;
        uint32_t *to = codes + step / GLYD_BLOCK_STEPS * GLYD_BLOCK_CODE_WORDS +
                       glyd_code_word(0, step / 2 % GLYD_BLOCK_GROUPS);
        for (int l = 0; l < GLYD_LANES; l++, to += GLYD_BLOCK_GROUPS) {
            uint32_t pairs = take(&lanes[l], lookup);
            pairs |= take(&lanes[l], lookup) << 4;
            *to = half ? *to | pairs << 8 : pairs;
        }
        if (step + 1 == steps)
            break;
        int refill = glyd_refill_bits(step, steps);
        for (int l = 0; l < GLYD_LANES; l++) {
            if (lanes[l].bits > refill)
                continue;
            if (next == n_words)
                return -1;
            append(&lanes[l], glyd_load_u32(words, next++));
        }
    }
    *left = 0;
    for (int l = 0; l < GLYD_LANES; l++)
        *left |= lanes[l].buffer | lanes[l].word;
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
