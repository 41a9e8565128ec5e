/* linear_avx2.c - the kernels of products with AVX2 and FMA: two registers are a row's slots.
 *
 * The low register holds lanes 0..7, the high one lanes 8..15; a panel keeps the two apart, so that
 * products of many tokens run over one of them at a time and still fit sixteen registers.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/linear_kernel.h"
#include <immintrin.h>
#include <string.h>

enum {
    WIDTH = 8,
    STEP_FLOATS = 2 * WIDTH, /* of one group of lanes */
    BLOCK_FLOATS = BLOCK_STEPS * STEP_FLOATS,
    TOKENS_AT_ONCE = 3, /* with ROWS_AT_ONCE: 12 sums, 3 of x and a weight: 16 registers */
    ROWS_AT_ONCE = 4,
    BF16_ROWS = 2,
    SM_BYTES = GLYD_BLOCK_SM_WORDS * 4,
    CODE_BYTES = GLYD_BLOCK_CODE_WORDS * 4,
    LINE = 64,
};

#define INLINE static inline __attribute__((always_inline))

/* A step's 32 columns as sixteen pairs in two registers, or the even or odd columns' floats. */
typedef struct pairs_256 {
    __m256i low, high;
} pairs_256;

INLINE __m256 even_columns(__m256i p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(p, 16));
}

INLINE __m256 odd_columns(__m256i p)
{
    return _mm256_castsi256_ps(_mm256_and_si256(p, _mm256_set1_epi32((int)0xffff0000)));
}

INLINE __m256i load_256(const void *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

INLINE void store_256(void *to, __m256i value)
{
    _mm256_storeu_si256((__m256i *)to, value);
}

/* Even and odd columns of sixteen floats, in order. */
INLINE void split_columns(const float *x, __m256 *even, __m256 *odd)
{
    __m256 a = _mm256_loadu_ps(x), b = _mm256_loadu_ps(x + WIDTH);
    __m256d e = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    __m256d o = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(e, 0xd8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(o, 0xd8));
}

/* Slot order to lane order and back, a 4 x 4 transposition. */
INLINE void transpose(__m256i *low, __m256i *high)
{
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i a = _mm256_permutevar8x32_epi32(*low, order);  /* 0 4 1 5 | 2 6 3 7 */
    __m256i b = _mm256_permutevar8x32_epi32(*high, order); /* 8 12 9 13 | 10 14 11 15 */
    __m256i p = _mm256_unpacklo_epi64(a, b);               /* 0 4 8 12 | 2 6 10 14 */
    __m256i q = _mm256_unpackhi_epi64(a, b);               /* 1 5 9 13 | 3 7 11 15 */
    *low = _mm256_permute2x128_si256(p, q, 0x20);
    *high = _mm256_permute2x128_si256(p, q, 0x31);
}

INLINE void transpose_floats(__m256 *low, __m256 *high)
{
    __m256i a = _mm256_castps_si256(*low), b = _mm256_castps_si256(*high);
    transpose(&a, &b);
    *low = _mm256_castsi256_ps(a);
    *high = _mm256_castsi256_ps(b);
}

INLINE void lay(const float *x, int64_t cols, int64_t blocks, float *panel, int in_lanes)
{
    int64_t group = blocks * BLOCK_FLOATS;
    for (int64_t k = 0; k < blocks * GLYD_BLOCK_COLS; k += STEP_COLS, panel += STEP_FLOATS) {
        float padded[STEP_COLS] = {0};
        const float *from = x + k;
        if (k + STEP_COLS > cols) {
            if (k < cols)
                memcpy(padded, from, (size_t)(cols - k) * sizeof *padded);
            from = padded;
        }
        __m256 even_low, even_high, odd_low, odd_high;
        split_columns(from, &even_low, &odd_low);
        split_columns(from + 2 * WIDTH, &even_high, &odd_high);
        if (in_lanes) {
            transpose_floats(&even_low, &even_high);
            transpose_floats(&odd_low, &odd_high);
        }
        _mm256_storeu_ps(panel, even_low);
        _mm256_storeu_ps(panel + WIDTH, odd_low);
        _mm256_storeu_ps(panel + group, even_high);
        _mm256_storeu_ps(panel + group + WIDTH, odd_high);
    }
}

static void lay_lanes(const float *x, int64_t cols, int64_t blocks, float *panel)
{
    lay(x, cols, blocks, panel, 1);
}

static void lay_slots(const float *x, int64_t cols, int64_t blocks, float *panel)
{
    lay(x, cols, blocks, panel, 0);
}

/* The codes of rows g and g + 8, half of the lanes of half a block: at bits 0 and 4 of each 16. */
INLINE __m256i codes_of_half(const uint8_t *codes, int half)
{
    __m256i all = load_256(codes);
    __m256i groups = half ? _mm256_shuffle_epi32(all, 0xfa) : _mm256_shuffle_epi32(all, 0x50);
    return _mm256_srlv_epi32(groups, _mm256_set1_epi64x(8LL << 32));
}

/* Sign, exponent and mantissa: `codes` has the row's code at bit 7 of each half. */
INLINE __m256i merge(__m256i sm, __m256i codes, __m256i base)
{
    __m256i code = _mm256_and_si256(codes, _mm256_set1_epi32(0x07800780));
    __m256i exponent = _mm256_add_epi32(code, base);
    return _mm256_or_si256(_mm256_and_si256(sm, _mm256_set1_epi32((int)GLYD_SM_MASK)), exponent);
}

INLINE __m256i swap_bytes(__m256i sm)
{
    __m256i order =
        _mm256_broadcastsi128_si256(_mm_set_epi32(0x0e0f0c0d, 0x0a0b0809, 0x06070405, 0x02030001));
    return _mm256_shuffle_epi8(sm, order);
}

/* Eight lanes of rows g and g + 8: sixteen weights each. */
INLINE void decode_rows(const uint8_t *sm, const uint8_t *codes, int half, __m256i base_low,
                        __m256i base_high, __m256i *row_low, __m256i *row_high)
{
    __m256i s = load_256(sm), c = codes_of_half(codes, half);
    *row_low = merge(s, _mm256_slli_epi32(c, 7), base_low);
    *row_high = merge(swap_bytes(s), _mm256_slli_epi32(c, 3), base_high);
}

/* A row's base at the exponent's place in both halves. */
INLINE __m256i place_base(uint8_t base)
{
    return _mm256_set1_epi32(base * 0x00800080);
}

/* An eighth of a block, some blocks ahead. */
INLINE void prefetch_part(const uint8_t *sm, const uint8_t *codes, int g)
{
    _mm_prefetch((const char *)sm + PREFETCH_BYTES + 2 * g * LINE, _MM_HINT_T1);
    _mm_prefetch((const char *)sm + PREFETCH_BYTES + (2 * g + 1) * LINE, _MM_HINT_T1);
    _mm_prefetch((const char *)codes + PREFETCH_BYTES / 2 + g * LINE, _MM_HINT_T1);
}

/* Rows g and g + 8 of a block. */
INLINE void multiply_pair(const uint8_t *sm, const uint8_t *codes, const uint8_t *bases, int g,
                          const float *x, int64_t x_group, float *slots)
{
    float *low = slots + g * SLOTS, *high = low + 8 * SLOTS;
    __m256i base_low = place_base(bases[g]), base_high = place_base(bases[g + 8]);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m256 sum_low = _mm256_loadu_ps(low + i * WIDTH);
        __m256 sum_high = _mm256_loadu_ps(high + i * WIDTH);
#pragma GCC unroll 2
        for (int half = 0; half < BLOCK_STEPS; half++) {
            __m256i row_low, row_high;
            decode_rows(sm + half * (SM_BYTES / 2) + g * LINE + i * (LINE / 2),
                        codes + g * LINE + i * (LINE / 2), half, base_low, base_high, &row_low,
                        &row_high);
            const float *from = x + i * x_group + half * STEP_FLOATS;
            __m256 even = _mm256_loadu_ps(from), odd = _mm256_loadu_ps(from + WIDTH);
            sum_low = _mm256_fmadd_ps(even_columns(row_low), even, sum_low);
            sum_high = _mm256_fmadd_ps(even_columns(row_high), even, sum_high);
            sum_low = _mm256_fmadd_ps(odd_columns(row_low), odd, sum_low);
            sum_high = _mm256_fmadd_ps(odd_columns(row_high), odd, sum_high);
        }
        _mm256_storeu_ps(low + i * WIDTH, sum_low);
        _mm256_storeu_ps(high + i * WIDTH, sum_high);
    }
}

/* Sums stay in L1 rather than in registers: sixteen hold too few, and reading the weights in order
 * counts for more. */
static void multiply_packed(const packed_run *run, const float *x, int64_t x_group, float *slots)
{
    const uint8_t *sm = run->sm, *codes = run->codes;
    for (int64_t block = 0; block < run->blocks; block++) {
        for (int g = 0; g < 8; g++) {
            prefetch_part(sm, codes, g);
            multiply_pair(sm, codes, run->bases, g, x, x_group, slots);
        }
        sm += SM_BYTES;
        codes += CODE_BYTES;
        x += BLOCK_FLOATS;
    }
}

INLINE void add_products(pairs_256 w, const float *x, int64_t x_group, __m256 *low, __m256 *high)
{
    *low = _mm256_fmadd_ps(even_columns(w.low), _mm256_loadu_ps(x), *low);
    *high = _mm256_fmadd_ps(even_columns(w.high), _mm256_loadu_ps(x + x_group), *high);
    *low = _mm256_fmadd_ps(odd_columns(w.low), _mm256_loadu_ps(x + WIDTH), *low);
    *high = _mm256_fmadd_ps(odd_columns(w.high), _mm256_loadu_ps(x + x_group + WIDTH), *high);
}

static void decode(const packed_run *run, uint16_t *pairs)
{
    const uint8_t *sm = run->sm, *codes = run->codes;
    for (int64_t block = 0; block < run->blocks; block++) {
        for (int g = 0; g < 8; g++) {
            prefetch_part(sm, codes, g);
            __m256i base_low = place_base(run->bases[g]), base_high = place_base(run->bases[g + 8]);
#pragma GCC unroll 2
            for (int half = 0; half < BLOCK_STEPS; half++, pairs += 2 * STEP_COLS)
#pragma GCC unroll 2
                for (int i = 0; i < 2; i++) {
                    __m256i row_low, row_high;
                    decode_rows(sm + half * (SM_BYTES / 2) + g * LINE + i * (LINE / 2),
                                codes + g * LINE + i * (LINE / 2), half, base_low, base_high,
                                &row_low, &row_high);
                    store_256(pairs + i * STEP_COLS / 2, row_low);
                    store_256(pairs + STEP_COLS + i * STEP_COLS / 2, row_high);
                }
        }
        sm += SM_BYTES;
        codes += CODE_BYTES;
    }
}

/* Pairs of row `row` in half a block. */
INLINE pairs_256 load_pairs(const uint16_t *pairs, int row, int half)
{
    const uint16_t *from = pairs + (row % 8) * 128 + half * 64 + row / 8 * 32;
    return (pairs_256){load_256(from), load_256(from + STEP_COLS / 2)};
}

static void multiply_pairs(const uint16_t *pairs, int64_t blocks, const float *x, int64_t x_group,
                           float *slots)
{
    for (int row = 0; row < GLYD_TILE_ROWS; row += 2) {
        float *to = slots + row * SLOTS;
        __m256 low[2] = {_mm256_loadu_ps(to), _mm256_loadu_ps(to + SLOTS)};
        __m256 high[2] = {_mm256_loadu_ps(to + WIDTH), _mm256_loadu_ps(to + SLOTS + WIDTH)};
        for (int64_t block = 0; block < blocks; block++)
#pragma GCC unroll 2
            for (int half = 0; half < BLOCK_STEPS; half++)
#pragma GCC unroll 2
                for (int r = 0; r < 2; r++)
                    add_products(load_pairs(pairs + block * GLYD_BLOCK_WEIGHTS, row + r, half),
                                 x + block * BLOCK_FLOATS + half * STEP_FLOATS, x_group, &low[r],
                                 &high[r]);
#pragma GCC unroll 2
        for (int r = 0; r < 2; r++) {
            _mm256_storeu_ps(to + r * SLOTS, low[r]);
            _mm256_storeu_ps(to + r * SLOTS + WIDTH, high[r]);
        }
    }
}

INLINE void lay_step(pairs_256 some, float *low, float *high)
{
    _mm256_storeu_ps(low, even_columns(some.low));
    _mm256_storeu_ps(low + WIDTH, odd_columns(some.low));
    _mm256_storeu_ps(high, even_columns(some.high));
    _mm256_storeu_ps(high + WIDTH, odd_columns(some.high));
}

static void lay_pairs(const uint16_t *pairs, int64_t blocks, float *panel, int64_t panel_blocks)
{
    int64_t row_floats = panel_blocks * BLOCK_FLOATS;
    for (int r = 0; r < GLYD_TILE_ROWS; r++, panel += row_floats)
        for (int64_t block = 0; block < blocks; block++)
#pragma GCC unroll 2
            for (int half = 0; half < BLOCK_STEPS; half++) {
                float *low = panel + block * BLOCK_FLOATS + half * STEP_FLOATS;
                lay_step(load_pairs(pairs + block * GLYD_BLOCK_WEIGHTS, r, half), low,
                         low + GLYD_TILE_ROWS * row_floats);
            }
}

/* 32 columns of a bf16 row from column k on, in slot order, +0 beyond `cols`. */
INLINE pairs_256 load_bf16(const uint8_t *row, int64_t k, int64_t cols)
{
    uint16_t padded[STEP_COLS] = {0};
    const uint8_t *from = row + 2 * k;
    if (k + STEP_COLS > cols) {
        if (k < cols)
            memcpy(padded, from, (size_t)(cols - k) * sizeof *padded);
        from = (const uint8_t *)padded;
    }
    return (pairs_256){load_256(from), load_256(from + 32)};
}

INLINE void multiply_bf16_rows(const bf16_run *run, int row, const float *x, int64_t x_group,
                               float *slots)
{
    const uint8_t *w[BF16_ROWS];
    __m256 low[BF16_ROWS], high[BF16_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < BF16_ROWS; r++) {
        w[r] = run->w + (row + r < run->rows ? row + r : run->rows - 1) * run->row_bytes;
        low[r] = _mm256_loadu_ps(slots + (row + r) * SLOTS);
        high[r] = _mm256_loadu_ps(slots + (row + r) * SLOTS + WIDTH);
        transpose_floats(&low[r], &high[r]);
    }
    const uint8_t *next = run->w + (row + BF16_ROWS) * run->row_bytes;
    int64_t padded = run->blocks * GLYD_BLOCK_COLS, k = 0;
    int64_t whole = run->cols < padded ? run->cols / STEP_COLS * STEP_COLS : padded;
    for (; k < whole; k += STEP_COLS, x += STEP_FLOATS)
#pragma GCC unroll 4
        for (int r = 0; r < BF16_ROWS; r++) {
            const uint8_t *from = w[r] + 2 * k;
            _mm_prefetch((const char *)next + 2 * BF16_ROWS * k + r * LINE, _MM_HINT_T1);
            pairs_256 some = {load_256(from), load_256(from + 32)};
            add_products(some, x, x_group, &low[r], &high[r]);
        }
    for (; k < padded; k += STEP_COLS, x += STEP_FLOATS)
#pragma GCC unroll 4
        for (int r = 0; r < BF16_ROWS; r++)
            add_products(load_bf16(w[r], k, run->cols), x, x_group, &low[r], &high[r]);
#pragma GCC unroll 4
    for (int r = 0; r < BF16_ROWS; r++) {
        transpose_floats(&low[r], &high[r]);
        _mm256_storeu_ps(slots + (row + r) * SLOTS, low[r]);
        _mm256_storeu_ps(slots + (row + r) * SLOTS + WIDTH, high[r]);
    }
}

static void multiply_bf16(const bf16_run *run, const float *x, int64_t x_group, float *slots)
{
    for (int row = 0; row < run->rows; row += BF16_ROWS)
        multiply_bf16_rows(run, row, x, x_group, slots);
}

static void lay_bf16(const bf16_run *run, float *panel)
{
    int64_t row_floats = run->blocks * BLOCK_FLOATS;
    for (int r = 0; r < GLYD_TILE_ROWS; r++, panel += row_floats) {
        float *high = panel + GLYD_TILE_ROWS * row_floats;
        if (r >= run->rows) {
            memset(panel, 0, (size_t)row_floats * sizeof *panel);
            memset(high, 0, (size_t)row_floats * sizeof *panel);
            continue;
        }
        const uint8_t *row = run->w + r * run->row_bytes;
        for (int64_t step = 0; step < run->blocks * BLOCK_STEPS; step++) {
            int64_t k = step * STEP_COLS;
            _mm_prefetch((const char *)row + 2 * (k + run->blocks * GLYD_BLOCK_COLS), _MM_HINT_T1);
            pairs_256 some = load_bf16(row, k, run->cols);
            transpose(&some.low, &some.high);
            lay_step(some, panel + step * STEP_FLOATS, high + step * STEP_FLOATS);
        }
    }
}

/* ROWS_AT_ONCE rows by `tokens` tokens, eight lanes; `tokens` is a constant where this is called.
 */
INLINE void multiply_some(const float *w, int64_t floats, const float *x, int64_t x_token,
                          int tokens, bool is_first, float *slots)
{
    __m256 sum[TOKENS_AT_ONCE][ROWS_AT_ONCE];
#pragma GCC unroll 3
    for (int i = 0; i < tokens; i++)
#pragma GCC unroll 4
        for (int r = 0; r < ROWS_AT_ONCE; r++)
            sum[i][r] = is_first ? _mm256_setzero_ps()
                                 : _mm256_loadu_ps(slots + i * TILE_SLOTS + r * SLOTS);
    for (int64_t k = 0; k < floats; k += WIDTH) {
        __m256 some[TOKENS_AT_ONCE];
#pragma GCC unroll 3
        for (int i = 0; i < tokens; i++)
            some[i] = _mm256_loadu_ps(x + i * x_token + k);
#pragma GCC unroll 4
        for (int r = 0; r < ROWS_AT_ONCE; r++) {
            __m256 weight = _mm256_loadu_ps(w + r * floats + k);
#pragma GCC unroll 3
            for (int i = 0; i < tokens; i++)
                sum[i][r] = _mm256_fmadd_ps(weight, some[i], sum[i][r]);
        }
    }
#pragma GCC unroll 3
    for (int i = 0; i < tokens; i++)
#pragma GCC unroll 4
        for (int r = 0; r < ROWS_AT_ONCE; r++)
            _mm256_storeu_ps(slots + i * TILE_SLOTS + r * SLOTS, sum[i][r]);
}

/* Every token by four rows and one group of lanes. */
INLINE void multiply_rows(const float *w, int64_t floats, const float *x, int64_t x_token,
                          int64_t n_tokens, bool is_first, float *slots)
{
    int64_t left = n_tokens;
    for (; left >= TOKENS_AT_ONCE; left -= TOKENS_AT_ONCE) {
        multiply_some(w, floats, x, x_token, TOKENS_AT_ONCE, is_first, slots);
        x += TOKENS_AT_ONCE * x_token;
        slots += TOKENS_AT_ONCE * TILE_SLOTS;
    }
    if (left == 2)
        multiply_some(w, floats, x, x_token, 2, is_first, slots);
    else if (left == 1)
        multiply_some(w, floats, x, x_token, 1, is_first, slots);
}

static void multiply_panel(const float *w, int64_t blocks, const float *x, int64_t x_group,
                           int64_t x_token, int64_t n_tokens, bool is_first, float *slots)
{
    int64_t floats = blocks * BLOCK_FLOATS;
    for (int group = 0; group < SLOTS / WIDTH; group++, x += x_group)
        for (int row = 0; row < GLYD_TILE_ROWS; row += ROWS_AT_ONCE, w += ROWS_AT_ONCE * floats)
            multiply_rows(w, floats, x, x_token, n_tokens, is_first,
                          slots + row * SLOTS + group * WIDTH);
}

/* Lanes i and i + 8, then i and i + 4: what is left of rows `row` and `row + 1`. */
INLINE __m256 add_two(const float *slots, int row)
{
    const float *from = slots + row * SLOTS;
    __m256 a = _mm256_add_ps(_mm256_loadu_ps(from), _mm256_loadu_ps(from + WIDTH));
    __m256 b = _mm256_add_ps(_mm256_loadu_ps(from + SLOTS), _mm256_loadu_ps(from + SLOTS + WIDTH));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

INLINE __m256 add_64(__m256 a, __m256 b) /* lanes i and i + 2 */
{
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
}

INLINE __m256 add_32(__m256 a, __m256 b) /* lanes i and i + 1 */
{
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}

static void add_slots(const float *slots, float *sums)
{
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int row = 0; row < GLYD_TILE_ROWS; row += 8, sums += 8) {
        __m256 a = add_64(add_two(slots, row), add_two(slots, row + 2));
        __m256 b = add_64(add_two(slots, row + 4), add_two(slots, row + 6));
        _mm256_storeu_ps(sums, _mm256_permutevar8x32_ps(add_32(a, b), order));
    }
}

const linear_kernels glyd_linear_kernels_avx2 = {
    .width = WIDTH,
    .lay_lanes = lay_lanes,
    .lay_slots = lay_slots,
    .multiply_packed = multiply_packed,
    .multiply_pairs = multiply_pairs,
    .multiply_bf16 = multiply_bf16,
    .decode = decode,
    .lay_pairs = lay_pairs,
    .lay_bf16 = lay_bf16,
    .multiply_panel = multiply_panel,
    .add_slots = add_slots,
};
