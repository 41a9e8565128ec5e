/* variants_avx2.c - the codec's inner loops in AVX2.
 *
 * join and split work on 16 sm words at a time: four lanes of one g (t = 0..3), two groups, both
 * q, which are 32 columns of rows g and g + 8. In the plane they lie as t, j, q; in the rows as
 * j, q, t: unpacking the two halves interleaves them to within one permutation.
 * decode keeps a stream's 96 bits as three 32-bit words in three registers. A step's 22 bits are
 * always in the low one.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/load.h"
#include "codec/variants.h"
#include <immintrin.h>

/* --- decode: eight streams a register --- */

enum { SETS_MAX = GLYD_STREAMS_MAX / 8 };

/* Eight streams. */
typedef struct stream_set {
    __m256i low, high, top, bits;
} stream_set;

/* For each set of streams that are dealt a word: which of the next words each takes. The
 * others take any. A table of 8 bytes for each of 256 sets. */
typedef struct deal_table {
    uint8_t index[256][8];
} deal_table;

static void fill_deal_table(deal_table *deal)
{
    for (int set = 0; set < 256; set++) {
        for (int l = 0, n = 0; l < 8; l++) {
            deal->index[set][l] = (uint8_t)n;
            n += set >> l & 1;
        }
    }
}

/* Two pairs of each stream: the first one's codes at bits 0 and 16, the second's `apart` above. */
static inline __m256i take_step(stream_set *q, const glyd_lookup *lookup, int apart)
{
    const int *entries = (const int *)(const void *)lookup->entry;
    const __m256i index = _mm256_set1_epi32(GLYD_LOOKUP_ENTRIES - 1);
    const __m256i fifteen = _mm256_set1_epi32(15), codes = _mm256_set1_epi32(GLYD_LOOKUP_CODES);
    __m256i first = _mm256_i32gather_epi32(entries, _mm256_and_si256(q->low, index), 4);
    __m256i n = _mm256_and_si256(_mm256_srli_epi32(first, GLYD_LOOKUP_BITS_SHIFT), fifteen);
    __m256i rest = _mm256_srlv_epi32(q->low, n);
    __m256i second = _mm256_i32gather_epi32(entries, _mm256_and_si256(rest, index), 4);
    __m256i m = _mm256_and_si256(_mm256_srli_epi32(second, GLYD_LOOKUP_BITS_SHIFT), fifteen);
    n = _mm256_add_epi32(n, m);
    __m256i up = _mm256_sub_epi32(_mm256_set1_epi32(32), n);
    q->low = _mm256_or_si256(_mm256_srlv_epi32(q->low, n), _mm256_sllv_epi32(q->high, up));
    q->high = _mm256_or_si256(_mm256_srlv_epi32(q->high, n), _mm256_sllv_epi32(q->top, up));
    q->top = _mm256_srlv_epi32(q->top, n);
    q->bits = _mm256_sub_epi32(q->bits, n);
    return _mm256_or_si256(_mm256_and_si256(first, codes),
                           _mm256_slli_epi32(_mm256_and_si256(second, codes), apart));
}

/* The next eight words, or as many as there are. */
static inline __m256i load_words(const uint8_t *words, int64_t next, int64_t n_words)
{
    const uint8_t *from = words + 4 * next;
    if (next + 8 <= n_words)
        return _mm256_loadu_si256((const __m256i *)(const void *)from);
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n_words - next)), lane);
    return _mm256_maskload_epi32((const int *)(const void *)from, there);
}

/* Put words, or zeros, behind the at most 64 bits that the streams hold. A shift by 32 or more, or
 * by a negative count, leaves nothing. */
static inline void append(stream_set *q, __m256i word)
{
    const __m256i thirty_two = _mm256_set1_epi32(32), sixty_four = _mm256_set1_epi32(64);
    __m256i up = _mm256_sub_epi32(q->bits, thirty_two);
    __m256i down = _mm256_sub_epi32(thirty_two, q->bits);
    __m256i high = _mm256_or_si256(_mm256_sllv_epi32(word, up), _mm256_srlv_epi32(word, down));
    q->low = _mm256_or_si256(q->low, _mm256_sllv_epi32(word, q->bits));
    q->high = _mm256_or_si256(q->high, high);
    q->top =
        _mm256_or_si256(q->top, _mm256_srlv_epi32(word, _mm256_sub_epi32(sixty_four, q->bits)));
}

/* Deal to the streams that hold `refill` bits or fewer. Returns how many were dealt to. */
static inline int deal_step(stream_set *q, int refill, const deal_table *deal, const uint8_t *words,
                            int64_t next, int64_t n_words)
{
    __m256i full = _mm256_cmpgt_epi32(q->bits, _mm256_set1_epi32(refill));
    unsigned set = ~(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(full)) & 255;
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)deal->index[set]);
    __m256i word =
        _mm256_permutevar8x32_epi32(load_words(words, next, n_words), _mm256_cvtepu8_epi32(bytes));
    word = _mm256_andnot_si256(full, word);
    append(q, word);
    q->bits = _mm256_add_epi32(q->bits, _mm256_andnot_si256(full, _mm256_set1_epi32(32)));
    return __builtin_popcount(set);
}

/* Four groups' code words of eight lanes each, to the plane's order. */
static inline void store_codes(uint32_t *to, const __m256i group[GLYD_BLOCK_GROUPS])
{
    __m256i ab_low = _mm256_unpacklo_epi32(group[0], group[1]);
    __m256i ab_high = _mm256_unpackhi_epi32(group[0], group[1]);
    __m256i cd_low = _mm256_unpacklo_epi32(group[2], group[3]);
    __m256i cd_high = _mm256_unpackhi_epi32(group[2], group[3]);
    __m256i lanes_04 = _mm256_unpacklo_epi64(ab_low, cd_low);
    __m256i lanes_15 = _mm256_unpackhi_epi64(ab_low, cd_low);
    __m256i lanes_26 = _mm256_unpacklo_epi64(ab_high, cd_high);
    __m256i lanes_37 = _mm256_unpackhi_epi64(ab_high, cd_high);
    __m256i *out = (__m256i *)(void *)to;
    _mm256_storeu_si256(out + 0, _mm256_permute2x128_si256(lanes_04, lanes_15, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(lanes_26, lanes_37, 0x20));
    _mm256_storeu_si256(out + 2, _mm256_permute2x128_si256(lanes_04, lanes_15, 0x31));
    _mm256_storeu_si256(out + 3, _mm256_permute2x128_si256(lanes_26, lanes_37, 0x31));
}

/* `sets` is 4 or 8, and known where this is inlined. */
static inline int64_t decode_sets(const uint8_t *words, int64_t n_words, const glyd_lookup *lookup,
                                  int blocks, const int sets, uint32_t *codes, uint64_t *left)
{
    deal_table deal;
    stream_set q[SETS_MAX];
    int streams = sets * 8, block_steps = glyd_block_steps(streams), steps = blocks * block_steps;
    int64_t next = 2 * streams;
    if (n_words < next)
        return -1;
    fill_deal_table(&deal);
    for (int i = 0; i < sets; i++) {
        const __m256i *from = (const __m256i *)(const void *)words + i;
        q[i].low = _mm256_loadu_si256(from);
        q[i].high = _mm256_loadu_si256(from + sets);
        q[i].top = _mm256_setzero_si256();
        q[i].bits = _mm256_set1_epi32(64);
    }
    for (int block = 0, step = 0; block < blocks; block++, codes += GLYD_BLOCK_CODE_WORDS) {
        __m256i group[4][GLYD_BLOCK_GROUPS]; /* of lanes 0..7, 8..15 and so on */
        for (int s = 0; s < block_steps; s++) {
            int refill = glyd_refill_bits(step, steps, streams);
            int last = ++step == steps;
            for (int i = 0; i < sets; i++) {
                __m256i pairs = take_step(&q[i], lookup, sets == 4 ? 4 : 8);
                __m256i *to = &group[i % 4][glyd_step_group(streams, s)];
                if (sets == 4 ? s & 1 : i / 4)
                    *to = _mm256_or_si256(*to, _mm256_slli_epi32(pairs, sets == 4 ? 8 : 4));
                else
                    *to = pairs;
                if (last)
                    continue;
                next += deal_step(&q[i], refill, &deal, words, next, n_words);
                if (next > n_words)
                    return -1;
            }
        }
        for (int i = 0; i < 4; i++)
            store_codes(codes + i * 8 * GLYD_BLOCK_GROUPS, group[i]);
    }
    __m256i any = _mm256_setzero_si256();
    for (int i = 0; i < sets; i++)
        any = _mm256_or_si256(any, _mm256_or_si256(q[i].low, _mm256_or_si256(q[i].high, q[i].top)));
    *left = !_mm256_testz_si256(any, any);
    return next;
}

static int64_t decode(const uint8_t *words, int64_t n_words, const glyd_lookup *lookup, int blocks,
                      int streams, uint32_t *codes, uint64_t *left)
{
    return streams == GLYD_LANES ? decode_sets(words, n_words, lookup, blocks, 4, codes, left)
                                 : decode_sets(words, n_words, lookup, blocks, 8, codes, left);
}

/* --- join and split --- */

/* Exchange the bytes of each 16-bit half. */
static inline __m256i exchange(__m256i words)
{
    const __m256i order = _mm256_setr_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14, 1,
                                           0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return _mm256_shuffle_epi8(words, order);
}

static inline __m256i load(const void *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

static inline void store(void *to, __m256i value)
{
    _mm256_storeu_si256((__m256i *)to, value);
}

/* After an unpack of t0 t1 with t2 t3 a register holds t0 t2 t0 t2 | t1 t3 t1 t3. This puts the
 * first q's four lanes first, then the second's. */
static inline __m256i by_q(__m256i unpacked)
{
    return _mm256_permutevar8x32_epi32(unpacked, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* 16 columns of a row: sm words in the order q, t and their codes. */
static inline __m256i join_row(__m256i sm, __m256i codes, __m256i base)
{
    codes = _mm256_and_si256(codes, _mm256_set1_epi32(0x000f000f));
    return _mm256_or_si256(_mm256_and_si256(sm, _mm256_set1_epi32((int)GLYD_SM_MASK)),
                           _mm256_slli_epi16(_mm256_add_epi16(codes, base), 7));
}

static void join(const uint8_t *sm, const uint8_t *codes, const uint8_t *bases, uint16_t *bf16,
                 int64_t stride)
{
    const __m256i shift_top = _mm256_setr_epi32(0, 0, 0, 0, 8, 8, 8, 8);
    const __m256i shift_below = _mm256_setr_epi32(4, 4, 4, 4, 12, 12, 12, 12);
    const __m256i even = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
    const __m256i odd = _mm256_setr_epi32(2, 6, 3, 7, 2, 6, 3, 7);
    for (int g = 0; g < 8; g++) {
        uint16_t *top = bf16 + g * stride, *below = top + 8 * stride;
        __m256i base_top = _mm256_set1_epi16(bases[g]);
        __m256i base_below = _mm256_set1_epi16(bases[g + 8]);
        __m256i code_01 = load(codes + g * 64), code_23 = load(codes + g * 64 + 32);
        __m256i groups_01 = _mm256_unpacklo_epi32(code_01, code_23);
        __m256i groups_23 = _mm256_unpackhi_epi32(code_01, code_23);
        for (int half = 0; half < 2; half++) { /* groups 0 and 1, then 2 and 3 */
            const uint8_t *from = sm + half * 512 + g * 64;
            __m256i sm_01 = load(from), sm_23 = load(from + 32);
            __m256i unpacked[2] = {_mm256_unpacklo_epi32(sm_01, sm_23),
                                   _mm256_unpackhi_epi32(sm_01, sm_23)};
            __m256i groups = half ? groups_23 : groups_01;
            for (int j = 0; j < 2; j++) {
                __m256i words = by_q(unpacked[j]);
                __m256i code = _mm256_permutevar8x32_epi32(groups, j ? odd : even);
                int col = half * 32 + j * 16;
                store(top + col, join_row(words, _mm256_srlv_epi32(code, shift_top), base_top));
                store(below + col,
                      join_row(exchange(words), _mm256_srlv_epi32(code, shift_below), base_below));
            }
        }
    }
}

/* 16 columns of a row: their codes, one a half word. *far gathers what is outside the window. */
static inline __m256i split_row(__m256i bf16, __m256i base, __m256i fill, __m256i *far)
{
    __m256i exponent = _mm256_and_si256(_mm256_srli_epi16(bf16, 7), _mm256_set1_epi16(255));
    __m256i code = _mm256_sub_epi16(exponent, base);
    __m256i in_window = _mm256_cmpeq_epi16(_mm256_and_si256(code, _mm256_set1_epi16(15)), code);
    *far = _mm256_or_si256(*far, _mm256_andnot_si256(in_window, _mm256_set1_epi16(-1)));
    return _mm256_blendv_epi8(fill, code, in_window);
}

/* by_q undone, without its unpack: q, t order to t0 t2 t0 t2 | t1 t3 t1 t3. */
static inline __m256i by_t(__m256i words)
{
    return _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

/* The two unpacks undone: the words of lanes t0 t1 from the even places, of t2 t3 from the odd. */
static inline void store_split(void *to, __m256i low, __m256i high)
{
    __m256 a = _mm256_castsi256_ps(low), b = _mm256_castsi256_ps(high);
    store(to, _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)));
    store((uint8_t *)to + 32, _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)));
}

static int split(const uint16_t *bf16, int64_t stride, const uint8_t *bases, int fill, uint32_t *sm,
                 uint32_t *codes)
{
    const __m256i mask = _mm256_set1_epi32((int)GLYD_SM_MASK);
    const __m256i fills = _mm256_set1_epi16((short)fill);
    __m256i far = _mm256_setzero_si256();
    for (int g = 0; g < 8; g++) {
        const uint16_t *top = bf16 + g * stride, *below = top + 8 * stride;
        __m256i base_top = _mm256_set1_epi16(bases[g]);
        __m256i base_below = _mm256_set1_epi16(bases[g + 8]);
        __m128i code[GLYD_BLOCK_GROUPS]; /* a word for each t */
        for (int half = 0; half < 2; half++) {
            __m256i words[2];
            for (int j = 0; j < 2; j++) {
                __m256i t = load(top + half * 32 + j * 16), b = load(below + half * 32 + j * 16);
                words[j] = by_t(_mm256_or_si256(_mm256_and_si256(t, mask),
                                                exchange(_mm256_and_si256(b, mask))));
                __m256i pair =
                    _mm256_or_si256(split_row(t, base_top, fills, &far),
                                    _mm256_slli_epi16(split_row(b, base_below, fills, &far), 4));
                code[half * 2 + j] =
                    _mm_or_si128(_mm256_castsi256_si128(pair),
                                 _mm_slli_epi16(_mm256_extracti128_si256(pair, 1), 8));
            }
            store_split(sm + half * 128 + g * 16, words[0], words[1]);
        }
        __m128i ab_low = _mm_unpacklo_epi32(code[0], code[1]);
        __m128i ab_high = _mm_unpackhi_epi32(code[0], code[1]);
        __m128i cd_low = _mm_unpacklo_epi32(code[2], code[3]);
        __m128i cd_high = _mm_unpackhi_epi32(code[2], code[3]);
        __m128i *to = (__m128i *)(void *)(codes + g * 16);
        _mm_storeu_si128(to + 0, _mm_unpacklo_epi64(ab_low, cd_low));
        _mm_storeu_si128(to + 1, _mm_unpackhi_epi64(ab_low, cd_low));
        _mm_storeu_si128(to + 2, _mm_unpacklo_epi64(ab_high, cd_high));
        _mm_storeu_si128(to + 3, _mm_unpackhi_epi64(ab_high, cd_high));
    }
    return !_mm256_testz_si256(far, far);
}

const glyd_variants glyd_variants_avx2 = {decode, join, split};
