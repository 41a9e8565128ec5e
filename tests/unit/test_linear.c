/* test_linear.c - products give the bits that cpu/linear.h defines, in every variant and layout.
 *
 * The reference below is written from the definition alone. mma12 weights are packed here, not by
 * the codec, so that bases and escapes can be as awkward as the format allows.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/stream.h"
#include "cpu/linear_kernel.h"
#include "test.h"
#include <math.h>

enum {
    GUARD = 16,          /* floats around each result */
    GUARD_BITS = 0x7fa5, /* a NaN that no product stores, and scratch's poison */
    TOKENS = 150,        /* more than share a decoding */
    ROWS_MAX = 1536,
    COLS_MAX = 2048,
};

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* --- inputs --------------------------------------------------------------------------------- */

typedef enum input {
    ORDINARY,
    WIDE,       /* exponents from end to end */
    CANCELLING, /* every other column takes back what the one before gave */
    SPECIAL,    /* NaNs, infinities, zeros of both signs among ordinary weights */
    DENORMAL,
    NOISE, /* any bits */
    INPUTS,
} input;

/* About normal, by the sum of uniforms. */
static float normal(uint64_t *random)
{
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)(int32_t)(test_random(random) >> 32) * 0x1p-31F;
    return sum;
}

static uint16_t weight_of(input kind, int64_t at, uint16_t before, uint64_t *random)
{
    static const uint16_t special[] = {0x7f80, 0xff80, 0x7fc1, 0xffab, 0x7f81, 0, 0x8000, 0x0001};
    uint64_t any = test_random(random);
    uint16_t ordinary = (uint16_t)(bits_of(normal(random) * 0.02F) >> 16);
    switch (kind) {
    case WIDE:
        return (uint16_t)((any & 0x807f) | (any >> 16) % 255 << 7);
    case CANCELLING:
        return at & 1 ? before ^ 0x8000 : ordinary;
    case SPECIAL:
        return any % 97 ? ordinary : special[(any >> 32) % 8];
    case DENORMAL:
        return (uint16_t)((any & 0x807f) | (any >> 16) % 3 << 7);
    case NOISE:
        return (uint16_t)any;
    default:
        return ordinary;
    }
}

static float x_of(input kind, uint64_t *random)
{
    uint64_t any = test_random(random);
    if (kind == WIDE || kind == NOISE)
        return from_bits((uint32_t)any);
    if (kind == DENORMAL)
        return normal(random) * 0x1p-20F;
    if (kind == SPECIAL && any % 1009 == 0)
        return any & 1 << 20 ? INFINITY : -0.0F;
    return kind == CANCELLING ? 1 : normal(random);
}

/* --- a packer ------------------------------------------------------------------------------- */

typedef struct packed {
    glyd_matrix m;
    uint8_t *bytes;
} packed;

static int exponent_of(uint16_t bits)
{
    return bits >> 7 & 255;
}

/* The window that ends at a row's largest finite exponent; or, to be awkward, any window. */
static uint8_t base_of(const uint16_t *row, int64_t cols, int awkward, uint64_t *random)
{
    int most = 0;
    for (int64_t k = 0; k < cols; k++)
        if (exponent_of(row[k]) > most && exponent_of(row[k]) < 255)
            most = exponent_of(row[k]);
    if (awkward)
        most += (int)(test_random(random) % 9) - 4;
    int base = most > 15 ? most - 15 : 0;
    return (uint8_t)(base < GLYD_BASE_MAX ? base : GLYD_BASE_MAX);
}

static void pack_weight(uint16_t bits, uint8_t base, int row, int col, uint32_t *sm,
                        uint32_t *codes)
{
    int position = glyd_position_at(row, col);
    int lane = position >> 5, group = position >> 3 & 3, reg = position >> 1 & 3;
    int half = position & 1, mantissa = bits & 127, sign = bits >> 15;
    uint32_t word =
        reg & 1 ? (uint32_t)(mantissa << 8 | sign << 7) : (uint32_t)(sign << 15 | mantissa);
    sm[glyd_sm_word(lane, group, reg >> 1)] |= word << 16 * half;
    uint32_t code = (uint32_t)(exponent_of(bits) - base) & 15;
    codes[glyd_code_word(lane, group)] |= code << (16 * half + 4 * reg);
}

static packed pack_mma12(const uint16_t *w, int64_t rows, int64_t cols, int awkward)
{
    int64_t tiles = glyd_tiles_of(rows), blocks = glyd_blocks_of(cols);
    int64_t sizes[GLYD_ARRAYS], total = 0;
    for (int a = 0; a < GLYD_ARRAYS; a++) {
        sizes[a] = glyd_array_bytes(GLYD_LAYOUT_MMA12, a, rows, cols, 0);
        if (a == GLYD_ARRAY_ESCAPES)
            sizes[a] = rows * cols * 4;
        total += sizes[a];
    }
    packed p = {.m = {.layout = GLYD_LAYOUT_MMA12, .rows = rows, .cols = cols},
                .bytes = calloc(1, (size_t)total + 1)};
    assert_non_null(p.bytes);
    uint8_t *at = p.bytes + 1; /* saves need not be aligned in memory */
    uint8_t *array[GLYD_ARRAYS];
    for (int a = 0; a < GLYD_ARRAYS; at += sizes[a], a++) {
        array[a] = at;
        p.m.array[a] = (glyd_span){at, (size_t)sizes[a]};
    }
    uint64_t random = 77;
    for (int64_t r = 0; r < rows; r++)
        array[GLYD_ARRAY_BASES][r] = base_of(w + r * cols, cols, awkward, &random);
    uint32_t n_escapes = 0;
    for (int64_t tile = 0; tile < tiles; tile++) {
        for (int64_t block = 0; block < blocks; block++) {
            uint32_t sm[GLYD_BLOCK_SM_WORDS] = {0}, codes[GLYD_BLOCK_CODE_WORDS] = {0};
            for (int position = 0; position < GLYD_BLOCK_WEIGHTS; position++) {
                int row = glyd_position_row(position), col = glyd_position_col(position);
                int64_t r = tile * 16 + row, k = block * 64 + col;
                if (r >= rows || k >= cols)
                    continue;
                uint16_t bits = w[r * cols + k];
                uint8_t base = array[GLYD_ARRAY_BASES][r];
                pack_weight(bits, base, row, col, sm, codes);
                int code = exponent_of(bits) - base;
                if (code < 0 || code > 15) {
                    uint32_t escape = glyd_escape_make(block, position, exponent_of(bits));
                    memcpy(array[GLYD_ARRAY_ESCAPES] + 4 * n_escapes++, &escape, 4);
                }
            }
            int64_t i = tile * blocks + block;
            memcpy(array[GLYD_ARRAY_SM] + i * (int64_t)sizeof sm, sm, sizeof sm);
            memcpy(array[GLYD_ARRAY_CODES] + i * (int64_t)sizeof codes, codes, sizeof codes);
        }
        memcpy(array[GLYD_ARRAY_ESCAPE_INDEX] + 4 * (tile + 1), &n_escapes, 4);
    }
    return p;
}

/* --- the definition ------------------------------------------------------------------------- */

static float four(const float *slot, int k)
{
    return (slot[k] + slot[k + 2]) + (slot[k + 1] + slot[k + 3]);
}

static float dot_as_defined(const uint16_t *w, const float *x, int64_t cols)
{
    float slot[16] = {0};
    for (int64_t k = 0; k < (cols + 63) / 64 * 64; k++) {
        float weight = k < cols ? from_bits((uint32_t)w[k] << 16) : 0;
        slot[k % 32 / 2] = fmaf(weight, k < cols ? x[k] : 0, slot[k % 32 / 2]);
    }
    return (four(slot, 0) + four(slot, 8)) + (four(slot, 4) + four(slot, 12));
}

/* --- the comparison ------------------------------------------------------------------------- */

typedef struct fixture {
    int64_t rows, cols;
    uint16_t *w;
    float *x, *bias, *expected, *y;
    int64_t x_stride, y_stride;
    glyd_pool *pools[4]; /* of 1, 2 and 3 threads */
    uint64_t random;
    int n_mma; /* matrices that were packed as mma */
} fixture;

static void fill(fixture *f, input kind, int64_t rows, int64_t cols, int64_t n_tokens)
{
    f->rows = rows;
    f->cols = cols;
    f->x_stride = cols + 3;
    f->y_stride = rows + GUARD;
    for (int64_t i = 0; i < rows * cols; i++)
        f->w[i] = weight_of(kind, i % cols, i ? f->w[i - 1] : 0, &f->random);
    for (int64_t i = 0; i < n_tokens * f->x_stride; i++)
        f->x[i] = i % f->x_stride < cols ? x_of(kind, &f->random) : NAN;
    for (int64_t r = 0; r < rows; r++)
        f->bias[r] = normal(&f->random);
    for (int64_t i = 0; i < n_tokens; i++)
        for (int64_t r = 0; r < rows; r++) {
            float y = dot_as_defined(f->w + r * cols, f->x + i * f->x_stride, cols) + f->bias[r];
            f->expected[i * rows + r] = y == y ? y : from_bits(0x7fc00000);
        }
}

static void compare(const fixture *f, int64_t n_tokens, const char *what)
{
    for (int64_t i = 0; i < n_tokens; i++) {
        const float *y = f->y + GUARD + i * f->y_stride;
        for (int64_t r = 0; r < f->rows; r++)
            if (bits_of(y[r]) != bits_of(f->expected[i * f->rows + r]))
                fail_msg("%s: %lld x %lld, %lld tokens: token %lld row %lld is %08x, not %08x",
                         what, (long long)f->rows, (long long)f->cols, (long long)n_tokens,
                         (long long)i, (long long)r, bits_of(y[r]),
                         bits_of(f->expected[i * f->rows + r]));
        for (int64_t r = f->rows; r < f->y_stride; r++)
            assert_int_equal(bits_of(y[r]), GUARD_BITS);
    }
    for (int64_t i = 0; i < GUARD; i++)
        assert_int_equal(bits_of(f->y[i]), GUARD_BITS);
}

/* Scratch of exactly the bytes asked for, poisoned, so that a sanitizer sees every overrun. */
static void run_product(const fixture *f, glyd_variant variant, const glyd_matrix *m,
                        int64_t n_tokens, int n_threads)
{
    size_t bytes = glyd_linear_scratch_bytes(f->cols, n_tokens, n_threads);
    uint32_t *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    glyd_lookup *lookup = aligned_alloc(64, sizeof *lookup);
    assert_non_null(scratch);
    assert_non_null(lookup);
    for (size_t i = 0; i < bytes / 4; i++)
        scratch[i] = GUARD_BITS;
    for (int64_t i = 0; i < n_tokens * f->y_stride + 2 * GUARD; i++)
        f->y[i] = from_bits(GUARD_BITS);
    glyd_linear_weight weight;
    assert_ok(glyd_linear_weight_init(&weight, m, lookup, NULL));
    glyd_linear_part part = {
        .weight = &weight, .bias = f->bias, .y = f->y + GUARD, .y_stride = f->y_stride};
    glyd_linear_by(variant, &part, 1, f->x, f->x_stride, n_tokens, scratch, f->pools[n_threads]);
    char what[64];
    snprintf(what, sizeof what, "%s %s, %d threads", glyd_variant_name(variant),
             glyd_layout_name(m->layout), n_threads);
    compare(f, n_tokens, what);
    free(lookup);
    free(scratch);
}

static void check_all(fixture *f, input kind, int64_t rows, int64_t cols, int64_t n_tokens)
{
    fill(f, kind, rows, cols, n_tokens);
    glyd_matrix bf16 = {.layout = GLYD_LAYOUT_BF16, .rows = rows, .cols = cols};
    bf16.array[GLYD_ARRAY_SM] = (glyd_span){(const uint8_t *)f->w, (size_t)(rows * cols) * 2};
    packed plain = pack_mma12(f->w, rows, cols, 0), awkward = pack_mma12(f->w, rows, cols, 1);
    glyd_buf buf = {0};
    glyd_matrix mma;
    assert_ok(glyd_pack(GLYD_LAYOUT_MMA, f->w, rows, cols, cols, NULL, &buf, &mma, NULL));
    f->n_mma += mma.layout == GLYD_LAYOUT_MMA;
    for (int v = 0; v <= (int)glyd_cpu_variant(); v++)
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            if (n_threads == 2 && rows * cols > 100000)
                continue;
            run_product(f, v, &bf16, n_tokens, n_threads);
            run_product(f, v, &plain.m, n_tokens, n_threads);
            run_product(f, v, &awkward.m, n_tokens, n_threads);
            if (mma.layout == GLYD_LAYOUT_MMA) /* bf16 where it would be no smaller */
                run_product(f, v, &mma, n_tokens, n_threads);
        }
    glyd_buf_free(&buf);
    free(plain.bytes);
    free(awkward.bytes);
}

static int set_up(void **state)
{
    static fixture f = {.random = 20261130};
    f.w = malloc((size_t)ROWS_MAX * COLS_MAX * sizeof *f.w);
    f.x = malloc((size_t)TOKENS * (COLS_MAX + GUARD) * sizeof *f.x);
    f.y = malloc((size_t)(TOKENS * (ROWS_MAX + GUARD) + 2 * GUARD) * sizeof *f.y);
    f.bias = malloc(ROWS_MAX * sizeof *f.bias);
    f.expected = malloc((size_t)TOKENS * ROWS_MAX * sizeof *f.expected);
    for (int n = 1; n <= 3; n++)
        assert_ok(glyd_pool_create(&(glyd_pool_options){.n_threads = n}, &f.pools[n], NULL));
    *state = &f;
    return f.w && f.x && f.y && f.bias && f.expected ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    free(f->w);
    free(f->x);
    free(f->y);
    free(f->bias);
    free(f->expected);
    for (int n = 1; n <= 3; n++)
        glyd_pool_free(f->pools[n]);
    return 0;
}

/* --- the tests ------------------------------------------------------------------------------ */

static void test_small_shapes(void **state)
{
    static const int64_t shapes[][2] = {{1, 1},   {1, 200},   {200, 1},  {16, 64}, {17, 65},
                                        {33, 97}, {100, 640}, {5, 1100}, {3, 0}};
    static const int64_t tokens[] = {1, 2, 3, 5, 7, 8, 17};
    for (int s = 0; s < 9; s++)
        for (int t = 0; t < 7; t++)
            for (int kind = 0; kind < INPUTS; kind++)
                check_all(*state, kind, shapes[s][0], shapes[s][1], tokens[t]);
}

static void test_model_shapes(void **state)
{
    fixture *f = *state;
    f->n_mma = 0;
    check_all(f, ORDINARY, 576, 576, 1);
    check_all(f, SPECIAL, 1536, 576, 1);
    check_all(f, ORDINARY, 64, COLS_MAX, 4);
    check_all(f, ORDINARY, 192, 576, 64);
    check_all(f, SPECIAL, 40, 1100, TOKENS);
    assert_int_equal(f->n_mma, 5);
}

/* Parts of several layouts and sizes in one call give what each gives alone. */
static void test_parts(void **state)
{
    enum { PARTS = 5, COLS = 700, ROWS = 97, STRIDE = PARTS * ROWS };
    static const int64_t rows[PARTS] = {ROWS, 16, 0, 1, 33};
    fixture *f = *state;
    for (int64_t n_tokens = 1; n_tokens <= 3; n_tokens++) {
        fill(f, ORDINARY, ROWS, COLS, n_tokens);
        glyd_linear_weight weights[PARTS];
        glyd_linear_part parts[PARTS];
        glyd_buf bufs[PARTS] = {{0}};
        size_t bytes = glyd_linear_scratch_bytes(COLS, n_tokens, 3);
        void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
        glyd_lookup *lookups = aligned_alloc(64, PARTS * sizeof *lookups);
        assert_non_null(scratch);
        assert_non_null(lookups);
        for (int i = 0; i < PARTS; i++) {
            glyd_matrix m;
            assert_ok(glyd_pack(i % 3, f->w, rows[i], COLS, COLS, NULL, &bufs[i], &m, NULL));
            assert_ok(glyd_linear_weight_init(&weights[i], &m, &lookups[i], NULL));
            parts[i] = (glyd_linear_part){.weight = &weights[i],
                                          .bias = i % 2 ? NULL : f->bias,
                                          .y = f->y + i * ROWS,
                                          .y_stride = STRIDE};
        }
        glyd_linear(parts, PARTS, f->x, f->x_stride, n_tokens, scratch, f->pools[3]);
        for (int i = 0; i < PARTS; i++)
            for (int64_t token = 0; token < n_tokens; token++)
                for (int64_t r = 0; r < rows[i]; r++) {
                    const float *x = f->x + token * f->x_stride;
                    float y = dot_as_defined(f->w + r * COLS, x, COLS);
                    y = i % 2 ? y : y + f->bias[r];
                    assert_int_equal(bits_of(f->y[token * STRIDE + i * ROWS + r]), bits_of(y));
                }
        for (int i = 0; i < PARTS; i++)
            glyd_buf_free(&bufs[i]);
        free(lookups);
        free(scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_shapes),
        cmocka_unit_test(test_model_shapes),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
