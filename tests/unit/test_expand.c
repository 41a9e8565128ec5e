/* test_expand.c - a matrix of layout mma, expanded, is the same matrix in layout mma12.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "glyd/codec.h"
#include "test.h"

typedef struct shape {
    int64_t rows, cols;
} shape;

static const shape shapes[] = {{1, 4000}, {17, 100}, {64, 1088}, {200, 640}};

/* Normal-like values, with a wild one now and then to make escapes. */
static uint16_t *make_values(int64_t n)
{
    uint64_t state = 1;
    uint16_t *values = malloc((size_t)n * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = test_random(&state);
        int exponent = 120 - __builtin_ctzll(r | 1ULL << 20);
        uint16_t calm = (uint16_t)((r >> 48 & 0x807f) | (uint64_t)exponent << 7);
        values[i] = r >> 40 & 255 ? calm : (uint16_t)(r >> 24);
    }
    return values;
}

static void check_shape(shape s, glyd_pool *pool)
{
    int64_t n = s.rows * s.cols;
    uint16_t *values = make_values(n), *back = malloc((size_t)n * sizeof *back);
    glyd_buf packed = {0}, codes = {0};
    glyd_matrix m, expanded;
    glyd_error err;
    assert_non_null(back);
    assert_ok(glyd_pack(GLYD_LAYOUT_MMA, values, s.rows, s.cols, s.cols, pool, &packed, &m, &err));
    if (m.layout == GLYD_LAYOUT_MMA) {
        size_t bytes = glyd_expand_bytes(&m);
        codes.data = aligned_alloc(64, bytes + 64);
        assert_non_null(codes.data);
        memset(codes.data, 0xa5, bytes + 64);
        assert_ok(glyd_expand(&m, codes.data, pool, &expanded, &err));
        for (int i = 0; i < 64; i++)
            assert_int_equal(codes.data[bytes + (size_t)i], 0xa5);
    } else {
        assert_int_equal(glyd_expand_bytes(&m), 0);
        assert_ok(glyd_expand(&m, NULL, pool, &expanded, &err));
    }
    assert_int_equal(expanded.layout,
                     m.layout == GLYD_LAYOUT_MMA ? GLYD_LAYOUT_MMA12 : GLYD_LAYOUT_BF16);
    assert_ok(glyd_check(&expanded, pool, &err));
    assert_ok(glyd_unpack(&expanded, 0, s.rows, back, s.cols, pool, &err));
    assert_memory_equal(values, back, (size_t)n * sizeof *values);
    glyd_buf_free(&packed);
    glyd_buf_free(&codes);
    free(values);
    free(back);
}

static void test_expanded_is_the_same(void **state)
{
    (void)state;
    glyd_pool *pool;
    assert_ok(glyd_pool_create(&(glyd_pool_options){.n_threads = 2}, &pool, NULL));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_shape(shapes[i], NULL);
        check_shape(shapes[i], pool);
    }
    glyd_pool_free(pool);
}

static void test_other_layouts_stay(void **state)
{
    (void)state;
    glyd_buf packed = {0};
    glyd_matrix m, expanded;
    uint16_t *values = make_values(64 * 64);
    assert_ok(glyd_pack(GLYD_LAYOUT_MMA12, values, 64, 64, 64, NULL, &packed, &m, NULL));
    assert_int_equal(m.layout, GLYD_LAYOUT_MMA12);
    assert_int_equal(glyd_expand_bytes(&m), 0);
    assert_ok(glyd_expand(&m, NULL, NULL, &expanded, NULL));
    assert_memory_equal(&m, &expanded, sizeof m);
    glyd_buf_free(&packed);
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expanded_is_the_same),
        cmocka_unit_test(test_other_layouts_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
