/* variants_avx512.c - the codec's inner loops in AVX-512.
 *
 * join and split work on 16 sm words at a time: four lanes of one g (t = 0..3), two groups, both
 * q, which are 32 columns of rows g and g + 8. In the plane they lie as t, j, q; in the rows as
 * j, q, t: one permutation.
 * decode keeps a stream's 96 bits as three 32-bit words in three registers. A step's 22 bits are
 * always in the low one. Words are dealt by an expansion under the mask of the streams that want
 * one.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/load.h"
#include "codec/variants.h"
#include <immintrin.h>

/* --- decode: sixteen streams a register --- */

enum { SETS_MAX = GLYD_STREAMS_MAX / 16 };

/* Sixteen streams. */
typedef struct stream_set {
    __m512i low, high, top, bits;
} stream_set;

/* Two pairs of each stream: the first one's codes at bits 0 and 16, the second's `apart` above. */
static inline __m512i take_step(stream_set *h, const glyd_lookup *lookup, int apart)
{
    const __m512i index = _mm512_set1_epi32(GLYD_LOOKUP_ENTRIES - 1);
    const __m512i fifteen = _mm512_set1_epi32(15), codes = _mm512_set1_epi32(GLYD_LOOKUP_CODES);
    __m512i first = _mm512_i32gather_epi32(_mm512_and_si512(h->low, index), lookup->entry, 4);
    __m512i n = _mm512_and_si512(_mm512_srli_epi32(first, GLYD_LOOKUP_BITS_SHIFT), fifteen);
    __m512i rest = _mm512_srlv_epi32(h->low, n);
    __m512i second = _mm512_i32gather_epi32(_mm512_and_si512(rest, index), lookup->entry, 4);
    n = _mm512_add_epi32(
        n, _mm512_and_si512(_mm512_srli_epi32(second, GLYD_LOOKUP_BITS_SHIFT), fifteen));
    __m512i up = _mm512_sub_epi32(_mm512_set1_epi32(32), n);
    h->low = _mm512_or_si512(_mm512_srlv_epi32(h->low, n), _mm512_sllv_epi32(h->high, up));
    h->high = _mm512_or_si512(_mm512_srlv_epi32(h->high, n), _mm512_sllv_epi32(h->top, up));
    h->top = _mm512_srlv_epi32(h->top, n);
    h->bits = _mm512_sub_epi32(h->bits, n);
    return _mm512_or_si512(_mm512_and_si512(first, codes),
                           _mm512_slli_epi32(_mm512_and_si512(second, codes), (unsigned)apart));
}

/* The next sixteen words, or as many as there are. */
static inline __m512i load_words(const uint8_t *words, int64_t next, int64_t n_words)
{
    int64_t there = n_words - next;
    unsigned mask = there >= 16 ? 0xffffU : (1U << there) - 1;
    return _mm512_maskz_loadu_epi32((__mmask16)mask, words + 4 * next);
}

/* Put words, or zeros, behind the at most 64 bits that the streams hold. A shift by 32 or more, or
 * by a negative count, leaves nothing. */
static inline void append(stream_set *h, __m512i word)
{
    const __m512i thirty_two = _mm512_set1_epi32(32), sixty_four = _mm512_set1_epi32(64);
    __m512i up = _mm512_sub_epi32(h->bits, thirty_two);
    __m512i down = _mm512_sub_epi32(thirty_two, h->bits);
    __m512i high = _mm512_or_si512(_mm512_sllv_epi32(word, up), _mm512_srlv_epi32(word, down));
    h->low = _mm512_or_si512(h->low, _mm512_sllv_epi32(word, h->bits));
    h->high = _mm512_or_si512(h->high, high);
    h->top =
        _mm512_or_si512(h->top, _mm512_srlv_epi32(word, _mm512_sub_epi32(sixty_four, h->bits)));
}

/* Deal to the streams that hold `refill` bits or fewer. Returns how many were dealt to. */
static inline int deal_step(stream_set *h, int refill, const uint8_t *words, int64_t next,
                            int64_t n_words)
{
    __mmask16 set = _mm512_cmple_epi32_mask(h->bits, _mm512_set1_epi32(refill));
    __m512i word = _mm512_maskz_expand_epi32(set, load_words(words, next, n_words));
    append(h, word);
    h->bits = _mm512_mask_add_epi32(h->bits, set, h->bits, _mm512_set1_epi32(32));
    return __builtin_popcount(set);
}

/* Four groups' code words of sixteen lanes each, to the plane's order. */
static inline void store_codes(uint32_t *to, const __m512i group[GLYD_BLOCK_GROUPS])
{
    __m512i ab_low = _mm512_unpacklo_epi32(group[0], group[1]);
    __m512i ab_high = _mm512_unpackhi_epi32(group[0], group[1]);
    __m512i cd_low = _mm512_unpacklo_epi32(group[2], group[3]);
    __m512i cd_high = _mm512_unpackhi_epi32(group[2], group[3]);
    __m512i by_four[4] = {
        /* lanes l, l + 4, l + 8, l + 12 */
        _mm512_unpacklo_epi64(ab_low, cd_low), _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high), _mm512_unpackhi_epi64(ab_high, cd_high)};
    __m512i a = _mm512_shuffle_i32x4(by_four[0], by_four[1], 0x44); /* 0 4 | 1 5 */
    __m512i b = _mm512_shuffle_i32x4(by_four[2], by_four[3], 0x44); /* 2 6 | 3 7 */
    __m512i c = _mm512_shuffle_i32x4(by_four[0], by_four[1], 0xee); /* 8 12 | 9 13 */
    __m512i d = _mm512_shuffle_i32x4(by_four[2], by_four[3], 0xee);
    _mm512_storeu_si512(to, _mm512_shuffle_i32x4(a, b, 0x88));
    _mm512_storeu_si512(to + 16, _mm512_shuffle_i32x4(a, b, 0xdd));
    _mm512_storeu_si512(to + 32, _mm512_shuffle_i32x4(c, d, 0x88));
    _mm512_storeu_si512(to + 48, _mm512_shuffle_i32x4(c, d, 0xdd));
}

/* `sets` is 2 or 4, and known where this is inlined. */
static inline int64_t decode_sets(const uint8_t *words, int64_t n_words, const glyd_lookup *lookup,
                                  int blocks, const int sets, uint32_t *codes, uint64_t *left)
{
    stream_set h[SETS_MAX];
    int streams = sets * 16, block_steps = glyd_block_steps(streams), steps = blocks * block_steps;
    int64_t next = 2 * streams;
    if (n_words < next)
        return -1;
    for (int i = 0; i < sets; i++) {
        h[i].low = _mm512_loadu_si512(words + i * 64);
        h[i].high = _mm512_loadu_si512(words + (sets + i) * 64);
        h[i].top = _mm512_setzero_si512();
        h[i].bits = _mm512_set1_epi32(64);
    }
    for (int block = 0, step = 0; block < blocks; block++, codes += GLYD_BLOCK_CODE_WORDS) {
        __m512i group[2][GLYD_BLOCK_GROUPS]; /* of lanes 0..15 and 16..31 */
        for (int s = 0; s < block_steps; s++) {
            int refill = glyd_refill_bits(step, steps, streams);
            int last = ++step == steps;
            for (int i = 0; i < sets; i++) {
                __m512i pairs = take_step(&h[i], lookup, sets == 2 ? 4 : 8);
                __m512i *to = &group[i % 2][glyd_step_group(streams, s)];
                if (sets == 2 ? s & 1 : i / 2)
                    *to = _mm512_or_si512(*to, _mm512_slli_epi32(pairs, sets == 2 ? 8 : 4));
                else
                    *to = pairs;
                if (last)
                    continue;
                next += deal_step(&h[i], refill, words, next, n_words);
                if (next > n_words)
                    return -1;
            }
        }
        for (int i = 0; i < 2; i++)
            store_codes(codes + i * 16 * GLYD_BLOCK_GROUPS, group[i]);
    }
    __m512i any = _mm512_setzero_si512();
    for (int i = 0; i < sets; i++)
        any = _mm512_or_si512(any, _mm512_or_si512(h[i].low, _mm512_or_si512(h[i].high, h[i].top)));
    *left = _mm512_test_epi32_mask(any, any);
    return next;
}

static int64_t decode(const uint8_t *words, int64_t n_words, const glyd_lookup *lookup, int blocks,
                      int streams, uint32_t *codes, uint64_t *left)
{
    return streams == GLYD_LANES ? decode_sets(words, n_words, lookup, blocks, 2, codes, left)
                                 : decode_sets(words, n_words, lookup, blocks, 4, codes, left);
}

/* --- join and split --- */

/* Exchange the bytes of each 16-bit half. */
static inline __m512i exchange(__m512i words)
{
    return _mm512_or_si512(_mm512_slli_epi16(words, 8), _mm512_srli_epi16(words, 8));
}

/* Row order (j, q, t) from the plane's (t, j, q), and back. */
static inline __m512i row_order(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

static void join(const uint8_t *sm, const uint8_t *codes, const uint8_t *bases, uint16_t *bf16,
                 int64_t stride)
{
    const __m512i mask = _mm512_set1_epi32((int)GLYD_SM_MASK);
    const __m512i nibbles = _mm512_set1_epi32(0x000f000f);
    const __m512i shift_top = _mm512_setr_epi32(0, 0, 0, 0, 8, 8, 8, 8, 0, 0, 0, 0, 8, 8, 8, 8);
    const __m512i shift_below = _mm512_add_epi32(shift_top, _mm512_set1_epi32(4));
    const __m512i code_order =
        _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 1, 5, 9, 13, 1, 5, 9, 13);
    for (int g = 0; g < 8; g++) {
        uint16_t *top = bf16 + g * stride, *below = top + 8 * stride;
        __m512i base_top = _mm512_set1_epi16(bases[g]);
        __m512i base_below = _mm512_set1_epi16(bases[g + 8]);
        __m512i code = _mm512_loadu_si512(codes + g * 64);
        for (int half = 0; half < 2; half++) { /* groups 0 and 1, then 2 and 3 */
            __m512i words =
                _mm512_permutexvar_epi32(row_order(), _mm512_loadu_si512(sm + half * 512 + g * 64));
            __m512i order = _mm512_add_epi32(code_order, _mm512_set1_epi32(2 * half));
            __m512i both = _mm512_permutexvar_epi32(order, code);
            __m512i code_top = _mm512_and_si512(_mm512_srlv_epi32(both, shift_top), nibbles);
            __m512i code_below = _mm512_and_si512(_mm512_srlv_epi32(both, shift_below), nibbles);
            code_top = _mm512_slli_epi16(_mm512_add_epi16(code_top, base_top), 7);
            code_below = _mm512_slli_epi16(_mm512_add_epi16(code_below, base_below), 7);
            _mm512_storeu_si512(top + half * 32,
                                _mm512_or_si512(_mm512_and_si512(words, mask), code_top));
            _mm512_storeu_si512(
                below + half * 32,
                _mm512_or_si512(_mm512_and_si512(exchange(words), mask), code_below));
        }
    }
}

/* 32 columns of a row: their codes, one a half word. *far gathers what is outside the window. */
static inline __m512i split_row(__m512i bf16, __m512i base, __m512i fill, __mmask32 *far)
{
    __m512i exponent = _mm512_and_si512(_mm512_srli_epi16(bf16, 7), _mm512_set1_epi16(255));
    __m512i code = _mm512_sub_epi16(exponent, base);
    __mmask32 outside = _mm512_cmpgt_epu16_mask(code, _mm512_set1_epi16(15));
    *far |= outside;
    return _mm512_mask_mov_epi16(code, outside, fill);
}

static int split(const uint16_t *bf16, int64_t stride, const uint8_t *bases, int fill, uint32_t *sm,
                 uint32_t *codes)
{
    const __m512i mask = _mm512_set1_epi32((int)GLYD_SM_MASK);
    const __m512i fills = _mm512_set1_epi16((short)fill);
    /* Both halves' code words in row order, q = 0 and q = 1, to t, j. */
    const __m512i first_q =
        _mm512_setr_epi32(0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27);
    const __m512i second_q = _mm512_add_epi32(first_q, _mm512_set1_epi32(4));
    __mmask32 far = 0;
    for (int g = 0; g < 8; g++) {
        const uint16_t *top = bf16 + g * stride, *below = top + 8 * stride;
        __m512i base_top = _mm512_set1_epi16(bases[g]);
        __m512i base_below = _mm512_set1_epi16(bases[g + 8]);
        __m512i pairs[2];
        for (int half = 0; half < 2; half++) {
            __m512i t = _mm512_loadu_si512(top + half * 32);
            __m512i b = _mm512_loadu_si512(below + half * 32);
            __m512i words =
                _mm512_or_si512(_mm512_and_si512(t, mask), exchange(_mm512_and_si512(b, mask)));
            _mm512_storeu_si512(sm + half * 128 + g * 16,
                                _mm512_permutexvar_epi32(row_order(), words));
            pairs[half] =
                _mm512_or_si512(split_row(t, base_top, fills, &far),
                                _mm512_slli_epi16(split_row(b, base_below, fills, &far), 4));
        }
        __m512i q0 = _mm512_permutex2var_epi32(pairs[0], first_q, pairs[1]);
        __m512i q1 = _mm512_permutex2var_epi32(pairs[0], second_q, pairs[1]);
        _mm512_storeu_si512(codes + g * 16, _mm512_or_si512(q0, _mm512_slli_epi16(q1, 8)));
    }
    return far != 0;
}

const glyd_variants glyd_variants_avx512 = {decode, join, split};
