/* linear_avx512.c - the kernels of products with AVX-512: a register is the sixteen slots of a row.
 *
 * Decoding a row's 32 weights takes six instructions: codes moved to the exponent's bits, masked,
 * based, merged with sign and mantissa, and the pairs split into even and odd columns.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/linear_kernel.h"
#include <immintrin.h>
#include <string.h>

enum {
    STEP_FLOATS = 2 * SLOTS,
    TOKENS_AT_ONCE = 6, /* with ROWS_AT_ONCE: 24 sums, 4 weights, 2 of x: 30 of 32 registers */
    ROWS_AT_ONCE = 4,
    SM_BYTES = GLYD_BLOCK_SM_WORDS * 4,
    CODE_BYTES = GLYD_BLOCK_CODE_WORDS * 4,
    SELECT = 0xd8, /* vpternlog: c ? b : a */
    LINE = 64,
};

#define INLINE static inline __attribute__((always_inline))

/* Even and odd columns of a step, from memory order to slot order or lane order. */
INLINE void lay(const float *x, int64_t cols, int64_t blocks, float *panel, __m512i even,
                __m512i odd)
{
    for (int64_t k = 0; k < blocks * GLYD_BLOCK_COLS; k += STEP_COLS) {
        int64_t left = cols - k;
        uint32_t mask = left >= 32 ? 0xffffffffU : left > 0 ? (1U << left) - 1 : 0;
        __m512 a = _mm512_maskz_loadu_ps((__mmask16)mask, x + k);
        __m512 b = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), x + k + 16);
        _mm512_storeu_ps(panel + k, _mm512_permutex2var_ps(a, even, b));
        _mm512_storeu_ps(panel + k + SLOTS, _mm512_permutex2var_ps(a, odd, b));
    }
}

static void lay_lanes(const float *x, int64_t cols, int64_t blocks, float *panel)
{
    __m512i even = _mm512_setr_epi32(0, 8, 16, 24, 2, 10, 18, 26, 4, 12, 20, 28, 6, 14, 22, 30);
    lay(x, cols, blocks, panel, even, _mm512_add_epi32(even, _mm512_set1_epi32(1)));
}

static void lay_slots(const float *x, int64_t cols, int64_t blocks, float *panel)
{
    __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    lay(x, cols, blocks, panel, even, _mm512_add_epi32(even, _mm512_set1_epi32(1)));
}

/* Slot order to lane order and back: a 4 x 4 transposition. */
INLINE __m512i transposition(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

INLINE __m512 even_columns(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}

INLINE __m512 odd_columns(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)));
}

/* The codes of rows g and g + 8 of half a block, at bits 0 and 4 of each 16-bit half. */
INLINE __m512i codes_of_half(const uint8_t *codes, int half)
{
    __m512i all = _mm512_loadu_si512(codes);
    __m512i groups = half ? _mm512_shuffle_epi32(all, 0xfa) : _mm512_shuffle_epi32(all, 0x50);
    return _mm512_srlv_epi32(groups, _mm512_set1_epi64(8LL << 32));
}

/* Sign, exponent and mantissa: `codes` has the row's code at bit 7 of each half. */
INLINE __m512i merge(__m512i sm, __m512i codes, __m512i base)
{
    __m512i code = _mm512_and_si512(codes, _mm512_set1_epi32(0x07800780));
    __m512i exponent = _mm512_add_epi32(code, base);
    return _mm512_ternarylogic_epi32(exponent, sm, _mm512_set1_epi32((int)GLYD_SM_MASK), SELECT);
}

INLINE __m512i swap_bytes(__m512i sm)
{
    return _mm512_shuffle_epi8(sm,
                               _mm512_set4_epi32(0x0e0f0c0d, 0x0a0b0809, 0x06070405, 0x02030001));
}

/* Both rows of a pair: 32 weights each, as bf16 pairs. */
INLINE void decode_rows(const uint8_t *sm, const uint8_t *codes, int half, const uint32_t *bases,
                        int g, __m512i *low, __m512i *high)
{
    __m512i s = _mm512_loadu_si512(sm + half * (SM_BYTES / 2) + g * LINE);
    __m512i c = codes_of_half(codes + g * LINE, half);
    *low = merge(s, _mm512_slli_epi32(c, 7), _mm512_set1_epi32((int)bases[g]));
    *high = merge(swap_bytes(s), _mm512_slli_epi32(c, 3), _mm512_set1_epi32((int)bases[g + 8]));
}

/* Each row's base at the exponent's place in both halves. */
static void place_bases(const uint8_t *bases, uint32_t placed[GLYD_TILE_ROWS])
{
    for (int r = 0; r < GLYD_TILE_ROWS; r++)
        placed[r] = (uint32_t)bases[r] * 0x00800080U;
}

INLINE void prefetch_block(const uint8_t *sm, const uint8_t *codes)
{
    for (int i = 0; i < SM_BYTES; i += LINE)
        _mm_prefetch((const char *)sm + PREFETCH_BYTES + i, _MM_HINT_T1);
    for (int i = 0; i < CODE_BYTES; i += LINE)
        _mm_prefetch((const char *)codes + PREFETCH_BYTES / 2 + i, _MM_HINT_T1);
}

static void multiply_packed(const packed_run *run, const float *x, int64_t x_group, float *slots)
{
    (void)x_group;
    uint32_t bases[GLYD_TILE_ROWS];
    place_bases(run->bases, bases);
    __m512 sum[GLYD_TILE_ROWS];
#pragma GCC unroll 16
    for (int r = 0; r < GLYD_TILE_ROWS; r++)
        sum[r] = _mm512_loadu_ps(slots + r * SLOTS);
    const uint8_t *sm = run->sm, *codes = run->codes;
    for (int64_t block = 0; block < run->blocks; block++) {
        prefetch_block(sm, codes);
#pragma GCC unroll 2
        for (int half = 0; half < BLOCK_STEPS; half++) {
            __m512 x_even = _mm512_loadu_ps(x), x_odd = _mm512_loadu_ps(x + SLOTS);
#pragma GCC unroll 8
            for (int g = 0; g < 8; g++) {
                __m512i low, high;
                decode_rows(sm, codes, half, bases, g, &low, &high);
                sum[g] = _mm512_fmadd_ps(even_columns(low), x_even, sum[g]);
                sum[g + 8] = _mm512_fmadd_ps(even_columns(high), x_even, sum[g + 8]);
                sum[g] = _mm512_fmadd_ps(odd_columns(low), x_odd, sum[g]);
                sum[g + 8] = _mm512_fmadd_ps(odd_columns(high), x_odd, sum[g + 8]);
            }
            x += STEP_FLOATS;
        }
        sm += SM_BYTES;
        codes += CODE_BYTES;
    }
#pragma GCC unroll 16
    for (int r = 0; r < GLYD_TILE_ROWS; r++)
        _mm512_storeu_ps(slots + r * SLOTS, sum[r]);
}

static void decode(const packed_run *run, uint16_t *pairs)
{
    uint32_t bases[GLYD_TILE_ROWS];
    place_bases(run->bases, bases);
    const uint8_t *sm = run->sm, *codes = run->codes;
    for (int64_t block = 0; block < run->blocks; block++) {
        prefetch_block(sm, codes);
#pragma GCC unroll 8
        for (int g = 0; g < 8; g++)
#pragma GCC unroll 2
            for (int half = 0; half < BLOCK_STEPS; half++, pairs += 2 * STEP_COLS) {
                __m512i low, high;
                decode_rows(sm, codes, half, bases, g, &low, &high);
                _mm512_storeu_si512(pairs, low);
                _mm512_storeu_si512(pairs + STEP_COLS, high);
            }
        sm += SM_BYTES;
        codes += CODE_BYTES;
    }
}

/* Pairs of row `row` in half a block. */
INLINE __m512i load_pairs(const uint16_t *pairs, int row, int half)
{
    return _mm512_loadu_si512(pairs + (row % 8) * 128 + half * 64 + row / 8 * 32);
}

static void multiply_pairs(const uint16_t *pairs, int64_t blocks, const float *x, int64_t x_group,
                           float *slots)
{
    (void)x_group;
    __m512 sum[GLYD_TILE_ROWS];
#pragma GCC unroll 16
    for (int r = 0; r < GLYD_TILE_ROWS; r++)
        sum[r] = _mm512_loadu_ps(slots + r * SLOTS);
    for (int64_t block = 0; block < blocks; block++, pairs += GLYD_BLOCK_WEIGHTS)
#pragma GCC unroll 2
        for (int half = 0; half < BLOCK_STEPS; half++, x += STEP_FLOATS) {
            __m512 x_even = _mm512_loadu_ps(x), x_odd = _mm512_loadu_ps(x + SLOTS);
#pragma GCC unroll 16
            for (int r = 0; r < GLYD_TILE_ROWS; r++) {
                __m512i some = load_pairs(pairs, r, half);
                sum[r] = _mm512_fmadd_ps(even_columns(some), x_even, sum[r]);
                sum[r] = _mm512_fmadd_ps(odd_columns(some), x_odd, sum[r]);
            }
        }
#pragma GCC unroll 16
    for (int r = 0; r < GLYD_TILE_ROWS; r++)
        _mm512_storeu_ps(slots + r * SLOTS, sum[r]);
}

static void lay_pairs(const uint16_t *pairs, int64_t blocks, float *panel, int64_t panel_blocks)
{
    for (int r = 0; r < GLYD_TILE_ROWS; r++, panel += panel_blocks * GLYD_BLOCK_COLS)
        for (int64_t block = 0; block < blocks; block++)
#pragma GCC unroll 2
            for (int half = 0; half < BLOCK_STEPS; half++) {
                __m512i some = load_pairs(pairs + block * GLYD_BLOCK_WEIGHTS, r, half);
                float *to = panel + block * GLYD_BLOCK_COLS + half * STEP_FLOATS;
                _mm512_storeu_ps(to, even_columns(some));
                _mm512_storeu_ps(to + SLOTS, odd_columns(some));
            }
}

/* 32 columns of a bf16 row from column k on, in slot order, +0 beyond `cols`. */
INLINE __m512i load_bf16(const uint8_t *row, int64_t k, int64_t cols)
{
    int64_t left = cols - k;
    if (left >= STEP_COLS)
        return _mm512_loadu_si512(row + 2 * k);
    uint32_t mask = left > 0 ? (1U << left) - 1 : 0;
    return _mm512_maskz_loadu_epi16(mask, row + 2 * k);
}

INLINE void multiply_bf16_rows(const bf16_run *run, int row, const float *x, float *slots)
{
    const uint8_t *w[ROWS_AT_ONCE];
    __m512 sum[ROWS_AT_ONCE];
    __m512i transpose = transposition();
#pragma GCC unroll 4
    for (int r = 0; r < ROWS_AT_ONCE; r++) {
        w[r] = run->w + (row + r < run->rows ? row + r : run->rows - 1) * run->row_bytes;
        sum[r] = _mm512_permutexvar_ps(transpose, _mm512_loadu_ps(slots + (row + r) * SLOTS));
    }
    const uint8_t *next = run->w + (row + ROWS_AT_ONCE) * run->row_bytes;
    int64_t padded = run->blocks * GLYD_BLOCK_COLS;
    int64_t whole = run->cols < padded ? run->cols / STEP_COLS * STEP_COLS : padded;
    for (int64_t k = 0; k < padded; k += STEP_COLS) {
        __m512 x_even = _mm512_loadu_ps(x + k), x_odd = _mm512_loadu_ps(x + k + SLOTS);
#pragma GCC unroll 4
        for (int r = 0; r < ROWS_AT_ONCE; r++) {
            __m512i pairs =
                k < whole ? _mm512_loadu_si512(w[r] + 2 * k) : load_bf16(w[r], k, run->cols);
            _mm_prefetch((const char *)next + 2 * ROWS_AT_ONCE * k + r * LINE, _MM_HINT_T1);
            sum[r] = _mm512_fmadd_ps(even_columns(pairs), x_even, sum[r]);
            sum[r] = _mm512_fmadd_ps(odd_columns(pairs), x_odd, sum[r]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS_AT_ONCE; r++)
        _mm512_storeu_ps(slots + (row + r) * SLOTS, _mm512_permutexvar_ps(transpose, sum[r]));
}

static void multiply_bf16(const bf16_run *run, const float *x, int64_t x_group, float *slots)
{
    (void)x_group;
    for (int row = 0; row < run->rows; row += ROWS_AT_ONCE)
        multiply_bf16_rows(run, row, x, slots);
}

static void lay_bf16(const bf16_run *run, float *w)
{
    int64_t row_floats = run->blocks * GLYD_BLOCK_COLS;
    for (int r = 0; r < GLYD_TILE_ROWS; r++, w += row_floats) {
        if (r >= run->rows) {
            memset(w, 0, (size_t)row_floats * sizeof *w);
            continue;
        }
        const uint8_t *row = run->w + r * run->row_bytes;
        for (int64_t k = 0; k < row_floats; k += STEP_COLS) {
            _mm_prefetch((const char *)row + 2 * (k + row_floats), _MM_HINT_T1); /* next panel */
            __m512i pairs = load_bf16(row, k, run->cols);
            pairs = _mm512_permutexvar_epi32(transposition(), pairs);
            _mm512_storeu_ps(w + k, even_columns(pairs));
            _mm512_storeu_ps(w + k + SLOTS, odd_columns(pairs));
        }
    }
}

/* ROWS_AT_ONCE rows by `tokens` tokens; `tokens` is a constant where this is called. */
INLINE void multiply_some(const float *w, int64_t floats, const float *x, int64_t x_token,
                          int tokens, bool is_first, float *slots)
{
    __m512 sum[TOKENS_AT_ONCE][ROWS_AT_ONCE];
#pragma GCC unroll 6
    for (int i = 0; i < tokens; i++)
#pragma GCC unroll 4
        for (int r = 0; r < ROWS_AT_ONCE; r++)
            sum[i][r] = is_first ? _mm512_setzero_ps()
                                 : _mm512_loadu_ps(slots + i * TILE_SLOTS + r * SLOTS);
    for (int64_t k = 0; k < floats; k += SLOTS) {
        __m512 weight[ROWS_AT_ONCE];
#pragma GCC unroll 4
        for (int r = 0; r < ROWS_AT_ONCE; r++)
            weight[r] = _mm512_loadu_ps(w + r * floats + k);
#pragma GCC unroll 6
        for (int i = 0; i < tokens; i++) {
            __m512 one = _mm512_loadu_ps(x + i * x_token + k);
#pragma GCC unroll 4
            for (int r = 0; r < ROWS_AT_ONCE; r++)
                sum[i][r] = _mm512_fmadd_ps(weight[r], one, sum[i][r]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < tokens; i++)
#pragma GCC unroll 4
        for (int r = 0; r < ROWS_AT_ONCE; r++)
            _mm512_storeu_ps(slots + i * TILE_SLOTS + r * SLOTS, sum[i][r]);
}

/* A tile by `tokens` tokens: their x stays in L1 while four rows after four pass over it. */
INLINE void multiply_tile(const float *w, int64_t floats, const float *x, int64_t x_token,
                          int tokens, bool is_first, float *slots)
{
    for (int row = 0; row < GLYD_TILE_ROWS; row += ROWS_AT_ONCE)
        multiply_some(w + row * floats, floats, x, x_token, tokens, is_first, slots + row * SLOTS);
}

static void multiply_panel(const float *w, int64_t blocks, const float *x, int64_t x_group,
                           int64_t x_token, int64_t n_tokens, bool is_first, float *slots)
{
    (void)x_group;
    int64_t floats = blocks * GLYD_BLOCK_COLS, left = n_tokens;
    for (; left >= TOKENS_AT_ONCE; left -= TOKENS_AT_ONCE) {
        multiply_tile(w, floats, x, x_token, TOKENS_AT_ONCE, is_first, slots);
        x += TOKENS_AT_ONCE * x_token;
        slots += TOKENS_AT_ONCE * TILE_SLOTS;
    }
    switch (left) {
    case 5:
        multiply_tile(w, floats, x, x_token, 5, is_first, slots);
        break;
    case 4:
        multiply_tile(w, floats, x, x_token, 4, is_first, slots);
        break;
    case 3:
        multiply_tile(w, floats, x, x_token, 3, is_first, slots);
        break;
    case 2:
        multiply_tile(w, floats, x, x_token, 2, is_first, slots);
        break;
    case 1:
        multiply_tile(w, floats, x, x_token, 1, is_first, slots);
        break;
    default:
        break;
    }
}

/* Each level adds two halves of every row and packs twice as many rows into a register. */
INLINE __m512 add_256(__m512 a, __m512 b) /* lanes i and i + 8; a's row, then b's */
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}

INLINE __m512 add_128(__m512 a, __m512 b) /* lanes i and i + 4 */
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

INLINE __m512 add_64(__m512 a, __m512 b) /* lanes i and i + 2 */
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}

INLINE __m512 add_32(__m512 a, __m512 b) /* lanes i and i + 1 */
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* Rows row, row + 1, row + 2, row + 3: one to each 128-bit lane. */
INLINE __m512 add_four(const float *slots, int row)
{
    const float *from = slots + row * SLOTS;
    __m512 a = add_256(_mm512_loadu_ps(from), _mm512_loadu_ps(from + SLOTS));
    __m512 b = add_256(_mm512_loadu_ps(from + 2 * SLOTS), _mm512_loadu_ps(from + 3 * SLOTS));
    return add_128(a, b);
}

static void add_slots(const float *slots, float *sums)
{
    __m512 a = add_64(add_four(slots, 0), add_four(slots, 4));
    __m512 b = add_64(add_four(slots, 8), add_four(slots, 12));
    __m512i order = transposition();
    _mm512_storeu_ps(sums, _mm512_permutexvar_ps(order, add_32(a, b)));
}

const linear_kernels glyd_linear_kernels_avx512 = {
    .width = SLOTS,
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
