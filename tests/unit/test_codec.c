/* test_codec.c - packed matrices give back every bit, whatever the shape, the bits, the threads.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "codec/pack.h"
#include "codec/unpack.h"
#include "codec_values.h"

static const int64_t SHAPES[][2] = {
    {1, 1},    {1, 64},   {1, 1000},  {16, 64},   {17, 65}, {15, 63},  {300, 1},   {33, 129},
    {16, 128}, {40, 200}, {64, 1024}, {65, 1100}, {100, 3}, {7, 2050}, {48, 4096},
};
enum { N_SHAPES = sizeof SHAPES / sizeof *SHAPES, GUARD = 0xa5a5 };

static int same_array(const glyd_span *a, const glyd_span *b)
{
    return a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

static void assert_same_matrix(const glyd_matrix *a, const glyd_matrix *b)
{
    assert_int_equal(a->layout, b->layout);
    assert_int_equal(a->run_blocks, b->run_blocks);
    for (int i = 0; i < GLYD_ARRAYS; i++)
        assert_true(same_array(&a->array[i], &b->array[i]));
}

/* Unpack [row0, row0 + rows) into a guarded buffer and compare. */
static void assert_unpacks(const glyd_matrix *m, const uint16_t *bf16, int64_t stride, int64_t row0,
                           int64_t rows, glyd_pool *pool)
{
    int64_t to_stride = m->cols + 3;
    size_t n = (size_t)(rows * to_stride + 32);
    uint16_t *back = malloc(n * 2);
    for (size_t i = 0; i < n; i++)
        back[i] = GUARD;
    assert_ok(glyd_unpack(m, row0, rows, back + 16, to_stride, pool, NULL));
    for (size_t i = 0; i < 16; i++)
        assert_true(back[i] == GUARD && back[n - 1 - i] == GUARD);
    for (int64_t row = 0; row < rows; row++) {
        const uint16_t *got = back + 16 + row * to_stride;
        assert_memory_equal(got, bf16 + (row0 + row) * stride, (size_t)m->cols * 2);
        for (int64_t col = m->cols; col < to_stride; col++)
            assert_int_equal(got[col], GUARD);
    }
    free(back);
}

static void round_trip(glyd_layout layout, values kind, int64_t rows, int64_t cols)
{
    int64_t stride = cols + 5;
    uint16_t *bf16 = malloc((size_t)(rows * stride) * 2);
    memset(bf16, 0xff, (size_t)(rows * stride) * 2);
    values_fill(kind, (uint64_t)(rows * 131 + cols), bf16, rows, cols, stride);
    glyd_buf out = {0};
    glyd_matrix m;
    assert_ok(glyd_pack(layout, bf16, rows, cols, stride, NULL, &out, &m, NULL));
    assert_true(m.layout == layout || m.layout == GLYD_LAYOUT_BF16);
    assert_true(glyd_matrix_bytes(&m) <= (size_t)(rows * cols * 2));
    assert_int_equal(glyd_matrix_bytes(&m), out.bytes);
    assert_ok(glyd_check(&m, NULL, NULL));
    assert_unpacks(&m, bf16, stride, 0, rows, NULL);
    for (int64_t row0 = 0; row0 < rows; row0 += 1 + rows / 5)
        assert_unpacks(&m, bf16, stride, row0, rows - row0 > 20 ? 20 : rows - row0, NULL);
    glyd_buf_free(&out);
    free(bf16);
}

static void test_round_trips(void **state)
{
    (void)state;
    for (int layout = GLYD_LAYOUT_BF16; layout <= GLYD_LAYOUT_MMA; layout++) {
        for (int kind = 0; kind < VALUES_KINDS; kind++) {
            for (int i = 0; i < N_SHAPES; i++)
                round_trip((glyd_layout)layout, (values)kind, SHAPES[i][0], SHAPES[i][1]);
        }
    }
}

static void test_empty(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{0, 0}, {0, 64}, {64, 0}};
    for (int i = 0; i < 3; i++) {
        for (int layout = GLYD_LAYOUT_BF16; layout <= GLYD_LAYOUT_MMA; layout++) {
            glyd_buf out = {0};
            glyd_matrix m;
            assert_ok(glyd_pack((glyd_layout)layout, NULL, shapes[i][0], shapes[i][1], 64, NULL,
                                &out, &m, NULL));
            assert_int_equal(m.layout, GLYD_LAYOUT_BF16);
            assert_int_equal(glyd_matrix_bytes(&m), 0);
            assert_ok(glyd_check(&m, NULL, NULL));
            assert_ok(glyd_unpack(&m, 0, shapes[i][0], NULL, 64, NULL, NULL));
            glyd_buf_free(&out);
        }
    }
}

/* What is packed and what is left as it is. */
static void test_layouts_chosen(void **state)
{
    (void)state;
    static const struct {
        values kind;
        int64_t rows, cols;
        int packed;
    } cases[] = {
        {VALUES_ORDINARY, 64, 1024, 1}, {VALUES_NOISE, 64, 1024, 0}, {VALUES_ORDINARY, 1, 1, 0},
        {VALUES_ORDINARY, 1, 4096, 0},  {VALUES_NAN, 64, 1024, 1},   {VALUES_ZERO, 64, 1024, 1},
        {VALUES_ENDS, 64, 1024, 1},     {VALUES_ORDINARY, 64, 1, 0}, {VALUES_FLAT, 64, 1024, 1},
    };
    static uint16_t bf16[64 * 1024];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        values_fill(cases[i].kind, 1, bf16, cases[i].rows, cases[i].cols, cases[i].cols);
        for (int layout = GLYD_LAYOUT_MMA12; layout <= GLYD_LAYOUT_MMA; layout++) {
            glyd_buf out = {0};
            glyd_matrix m;
            assert_ok(glyd_pack((glyd_layout)layout, bf16, cases[i].rows, cases[i].cols,
                                cases[i].cols, NULL, &out, &m, NULL));
            assert_int_equal(m.layout, cases[i].packed ? layout : GLYD_LAYOUT_BF16);
            glyd_buf_free(&out);
        }
    }
}

/* All threads, all variants, all run lengths: the same values; the first two: the same bytes. */
static void test_bytes_depend_on_values_alone(void **state)
{
    (void)state;
    enum { ROWS = 200, COLS = 1500 };
    uint16_t *bf16 = malloc(ROWS * COLS * 2);
    values_fill(VALUES_ESCAPES, 3, bf16, ROWS, COLS, COLS);
    for (int layout = GLYD_LAYOUT_MMA12; layout <= GLYD_LAYOUT_MMA; layout++) {
        for (int run_blocks = 1; run_blocks <= GLYD_RUN_BLOCKS_MAX; run_blocks *= 4) {
            glyd_buf first = {0}, out = {0};
            glyd_matrix m, n;
            glyd_pack_choice choice = {(glyd_layout)layout, run_blocks, &glyd_variants_c};
            assert_ok(glyd_pack_with(&choice, bf16, ROWS, COLS, COLS, NULL, &first, &m, NULL));
            assert_int_equal(m.layout, layout);
            for (int v = 0; v <= (int)glyd_cpu_variant(); v++) {
                glyd_pool *pool;
                glyd_pool_options threads = {.n_threads = v + 1};
                assert_ok(glyd_pool_create(&threads, &pool, NULL));
                choice.variants = glyd_variants_get((glyd_variant)v);
                assert_ok(glyd_pack_with(&choice, bf16, ROWS, COLS, COLS, pool, &out, &n, NULL));
                assert_same_matrix(&m, &n);
                assert_ok(glyd_check(&n, pool, NULL));
                assert_unpacks(&n, bf16, COLS, 5, ROWS - 9, pool);
                glyd_pool_free(pool);
            }
            glyd_buf_free(&first);
            glyd_buf_free(&out);
        }
    }
    free(bf16);
}

/* Large enough for pairs too rare for a code, with edges whose padding must keep its codes. */
static void test_rare_pairs(void **state)
{
    (void)state;
    enum { ROWS = 1025, COLS = 3001 };
    uint16_t *bf16 = malloc(ROWS * COLS * 2);
    for (int kind = VALUES_ORDINARY; kind <= VALUES_SKEWED; kind += VALUES_SKEWED) {
        glyd_buf out = {0};
        glyd_matrix m;
        values_fill((values)kind, 5, bf16, ROWS, COLS, COLS);
        assert_ok(glyd_pack(GLYD_LAYOUT_MMA, bf16, ROWS, COLS, COLS, NULL, &out, &m, NULL));
        assert_int_equal(m.layout, GLYD_LAYOUT_MMA);
        assert_ok(glyd_check(&m, NULL, NULL));
        assert_unpacks(&m, bf16, COLS, 0, ROWS, NULL);
        /* Some escapes are within their row's window. */
        const uint32_t *index =
            (const uint32_t *)(const void *)m.array[GLYD_ARRAY_ESCAPE_INDEX].data;
        const uint32_t *escape = (const uint32_t *)(const void *)m.array[GLYD_ARRAY_ESCAPES].data;
        int inside = 0;
        for (int64_t tile = 0; tile < glyd_tiles_of(ROWS); tile++) {
            for (uint32_t i = index[tile]; i < index[tile + 1]; i++) {
                int row = glyd_position_row(glyd_escape_position(escape[i]));
                int base = m.array[GLYD_ARRAY_BASES].data[tile * GLYD_TILE_ROWS + row];
                int code = glyd_escape_exponent(escape[i]) - base;
                inside += code >= 0 && code < GLYD_WINDOW;
            }
        }
        assert_in_range(inside, 1, ROWS * COLS / 1000);
        glyd_buf_free(&out);
    }
    free(bf16);
}

/* A buffer that was used before is used again, larger or smaller. */
static void test_buffer_is_overwritten(void **state)
{
    (void)state;
    static uint16_t bf16[64 * 1024];
    glyd_buf out = {0};
    for (int rows = 64; rows > 0; rows -= 9) {
        glyd_matrix m;
        values_fill(VALUES_ORDINARY, (uint64_t)rows, bf16, rows, 1024, 1024);
        assert_ok(glyd_pack(GLYD_LAYOUT_MMA, bf16, rows, 1024, 1024, NULL, &out, &m, NULL));
        assert_ok(glyd_check(&m, NULL, NULL));
        assert_unpacks(&m, bf16, 1024, 0, rows, NULL);
    }
    glyd_buf_free(&out);
}

static void test_refuses_wrong_calls(void **state)
{
    (void)state;
    uint16_t bf16[64] = {0};
    glyd_buf out = {0};
    glyd_matrix m;
    glyd_error err;
    static const int64_t bad[][3] = {
        {-1, 1, 1}, {1, -1, 1}, {GLYD_ROWS_MAX + 1LL, 1, 1}, {1, GLYD_COLS_MAX + 1LL, 1 << 30},
        {1, 8, 7},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(
            glyd_pack(GLYD_LAYOUT_MMA, bf16, bad[i][0], bad[i][1], bad[i][2], NULL, &out, &m, &err),
            GLYD_E_ARG);
    assert_non_null(strstr(err.text, "stride of 7 for 8"));
    assert_int_equal(glyd_pack((glyd_layout)9, bf16, 1, 1, 1, NULL, &out, &m, &err), GLYD_E_ARG);

    assert_ok(glyd_pack(GLYD_LAYOUT_MMA12, bf16, 4, 16, 16, NULL, &out, &m, NULL));
    static const int64_t ranges[][3] = {{-1, 1, 16}, {0, 5, 16}, {5, 0, 16},
                                        {4, 1, 16},  {0, 1, 15}, {1, INT64_MAX, 16}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        assert_int_equal(
            glyd_unpack(&m, ranges[i][0], ranges[i][1], bf16, ranges[i][2], NULL, &err),
            GLYD_E_ARG);
    assert_ok(glyd_unpack(&m, 4, 0, bf16, 16, NULL, NULL));
    glyd_buf_free(&out);
}

static void test_names(void **state)
{
    (void)state;
    for (int i = GLYD_LAYOUT_BF16; i <= GLYD_LAYOUT_MMA; i++) {
        glyd_layout layout;
        assert_ok(glyd_layout_from_name(glyd_layout_name((glyd_layout)i), &layout));
        assert_int_equal(layout, i);
    }
    glyd_layout layout;
    assert_int_equal(glyd_layout_from_name("mma11", &layout), GLYD_E_UNSUPPORTED);
    assert_int_equal(glyd_layout_from_name(NULL, &layout), GLYD_E_UNSUPPORTED);
    assert_null(glyd_layout_name((glyd_layout)3));
    assert_string_equal(glyd_array_name(GLYD_ARRAY_ESCAPE_INDEX), "escape_index");
    assert_null(glyd_array_name((glyd_array)GLYD_ARRAYS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_layouts_chosen),
        cmocka_unit_test(test_bytes_depend_on_values_alone),
        cmocka_unit_test(test_rare_pairs),
        cmocka_unit_test(test_buffer_is_overwritten),
        cmocka_unit_test(test_refuses_wrong_calls),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
