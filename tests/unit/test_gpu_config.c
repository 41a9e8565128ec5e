/* test_gpu_config.c - the host side of the GPU library: what it refuses, and how it cuts work up.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/config.h"
#include "test.h"
#include <stdbool.h>

static uint8_t arrays[GLYD_ARRAYS][64] __attribute__((aligned(64)));

/* A matrix whose arrays have the right sizes; nothing reads them. */
static glyd_matrix matrix_of(glyd_layout layout, int64_t rows, int64_t cols)
{
    glyd_matrix m = {.layout = layout, .rows = rows, .cols = cols};
    m.run_blocks = layout == GLYD_LAYOUT_MMA ? GLYD_RUN_BLOCKS : 0;
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        int64_t bytes = glyd_array_bytes(layout, (glyd_array)i, rows, cols, m.run_blocks);
        m.array[i] = (glyd_span){arrays[i], bytes < 0 ? 64 : (size_t)bytes};
    }
    return m;
}

static void test_matrix_check(void **state)
{
    (void)state;
    glyd_error err;
    for (int layout = GLYD_LAYOUT_MMA12; layout <= GLYD_LAYOUT_MMA; layout++) {
        glyd_matrix good = matrix_of((glyd_layout)layout, 100, 1000);
        assert_ok(glyd_gpu_matrix_check(&good, &err));
        for (int i = 0; i < GLYD_ARRAYS; i++) {
            glyd_matrix m = good;
            if (!m.array[i].bytes)
                continue;
            m.array[i].bytes += 8;
            assert_int_equal(glyd_gpu_matrix_check(&m, &err), GLYD_E_ARG);
            m = good;
            m.array[i].data++;
            assert_int_equal(glyd_gpu_matrix_check(&m, &err), GLYD_E_ARG);
            m.array[i].data = NULL;
            assert_int_equal(glyd_gpu_matrix_check(&m, &err), GLYD_E_ARG);
        }
        glyd_matrix m = good;
        m.rows = -1;
        assert_int_equal(glyd_gpu_matrix_check(&m, &err), GLYD_E_ARG);
        m.rows = (int64_t)GLYD_ROWS_MAX + 1;
        assert_int_equal(glyd_gpu_matrix_check(&m, &err), GLYD_E_ARG);
    }
    glyd_matrix bf16 = matrix_of(GLYD_LAYOUT_BF16, 16, 64);
    assert_int_equal(glyd_gpu_matrix_check(&bf16, &err), GLYD_E_UNSUPPORTED);
    assert_int_equal(glyd_gpu_matrix_check(NULL, &err), GLYD_E_ARG);
    glyd_matrix runs = matrix_of(GLYD_LAYOUT_MMA, 16, 64);
    runs.run_blocks = GLYD_RUN_BLOCKS_MAX + 1;
    assert_int_equal(glyd_gpu_matrix_check(&runs, &err), GLYD_E_ARG);
}

static void test_linear_check(void **state)
{
    (void)state;
    glyd_error err;
    glyd_matrix m = matrix_of(GLYD_LAYOUT_MMA12, 100, 1000);
    uint16_t *memory = (uint16_t *)(void *)arrays;
    const glyd_gpu_linear_args good = {.weight = &m,
                                       .x = memory,
                                       .x_stride = 1000,
                                       .tokens = 3,
                                       .y = memory,
                                       .y_stride = 100,
                                       .plan = {2}};
    assert_ok(glyd_gpu_linear_check(&good, &err));
    glyd_gpu_linear_args a = good;
    a.x_stride = 999;
    assert_int_equal(glyd_gpu_linear_check(&a, &err), GLYD_E_ARG);
    a.x_stride = 1004; /* not a multiple of 8 */
    assert_int_equal(glyd_gpu_linear_check(&a, &err), GLYD_E_ARG);
    a = good;
    a.y_stride = 99;
    assert_int_equal(glyd_gpu_linear_check(&a, &err), GLYD_E_ARG);
    a = good;
    a.x = memory + 1;
    assert_int_equal(glyd_gpu_linear_check(&a, &err), GLYD_E_ARG);
    a = good;
    a.y = NULL;
    assert_int_equal(glyd_gpu_linear_check(&a, &err), GLYD_E_ARG);
    a = good;
    a.tokens = -1;
    assert_int_equal(glyd_gpu_linear_check(&a, &err), GLYD_E_ARG);
    a.tokens = GLYD_GPU_TOKENS_MAX + 1;
    assert_int_equal(glyd_gpu_linear_check(&a, &err), GLYD_E_ARG);
    a.tokens = GLYD_GPU_TOKENS_MAX;
    assert_ok(glyd_gpu_linear_check(&a, &err));
    a.tokens = 0;
    assert_ok(glyd_gpu_linear_check(&a, &err));
    for (int slices = 0; slices <= GLYD_GPU_SLICES_MAX + 1; slices++) {
        a = good;
        a.plan.slices = slices;
        /* 1,000 columns are 16 blocks: a slice of none is refused. */
        bool fits = slices >= 1 && slices <= GLYD_GPU_SLICES_MAX &&
                    (slices - 1) * glyd_gpu_slice_blocks(1000, slices) < 16;
        assert_int_equal(glyd_gpu_linear_check(&a, &err), fits ? GLYD_OK : GLYD_E_ARG);
    }
}

static void test_workspace(void **state)
{
    (void)state;
    glyd_error err;
    glyd_matrix m12 = matrix_of(GLYD_LAYOUT_MMA12, 100, 1000);
    assert_int_equal(glyd_gpu_linear_workspace(&m12, 100), 0);
    glyd_matrix m = matrix_of(GLYD_LAYOUT_MMA, 100, 1000);
    size_t need = glyd_gpu_linear_workspace(&m, 100);
    assert_true(need >= 7 * 16 * 512);
    glyd_gpu_linear_args a = {.weight = &m,
                              .x = (uint16_t *)(void *)arrays,
                              .x_stride = 1000,
                              .tokens = 100,
                              .y = (uint16_t *)(void *)arrays,
                              .y_stride = 100,
                              .plan = {1}};
    assert_int_equal(glyd_gpu_linear_check(&a, &err), GLYD_E_ARG);
    a.workspace = (void *)(uintptr_t)4096;
    a.workspace_bytes = need - 1;
    assert_int_equal(glyd_gpu_linear_check(&a, &err), GLYD_E_ARG);
    a.workspace_bytes = need;
    assert_ok(glyd_gpu_linear_check(&a, &err));
}

static void test_rows_check(void **state)
{
    (void)state;
    glyd_error err;
    glyd_matrix m = matrix_of(GLYD_LAYOUT_MMA12, 100, 1000);
    assert_ok(glyd_gpu_rows_check(&m, 0, 100, arrays, 1000, &err));
    assert_ok(glyd_gpu_rows_check(&m, 100, 0, NULL, 1000, &err));
    assert_int_equal(glyd_gpu_rows_check(&m, 1, 100, arrays, 1000, &err), GLYD_E_ARG);
    assert_int_equal(glyd_gpu_rows_check(&m, INT64_MAX, 2, arrays, 1000, &err), GLYD_E_ARG);
    assert_int_equal(glyd_gpu_rows_check(&m, 0, 1, arrays, 999, &err), GLYD_E_ARG);
    assert_int_equal(glyd_gpu_rows_check(&m, 0, 1, NULL, 1000, &err), GLYD_E_ARG);
}

/* Whatever is chosen fits the GPU and covers the matrix. */
static void assert_config_fits(const glyd_gpu_shape *s, const glyd_gpu_config *c)
{
    assert_in_range(c->threads, 32, 1024);
    assert_int_equal(c->threads % 32, 0);
    assert_in_range(c->shared_bytes, 1, GLYD_GPU_SHARED_MAX);
    assert_true(c->stages >= 3);
    assert_true(c->grid_tokens * c->token_tile >= s->tokens);
    int rows = c->kernel == GLYD_GPU_KERNEL_FEW ? 16 * c->tiles : 64 * c->tiles;
    assert_true(c->grid_rows * rows >= s->rows);
    if (c->kernel == GLYD_GPU_KERNEL_FEW)
        assert_true(c->tiles * s->slices <= GLYD_GPU_FEW_HERE_UNITS_MAX);
    else
        assert_true(s->slices <= GLYD_GPU_CLUSTER_MAX);
    if (c->kernel == GLYD_GPU_KERNEL_WALK) {
        int64_t tiles = (c->grid_rows + c->pair) / (1 + c->pair) * c->grid_tokens;
        assert_true(c->stages >= 4 && c->weight_stages >= 3);
        assert_true(16 * (c->stages + c->weight_stages) <= GLYD_GPU_BARRIER_BYTES);
        assert_in_range(c->walkers, 1, tiles);
        if (s->slices > 1) /* they meet after one tile each */
            assert_true(c->walkers == tiles && !c->pair);
        else
            assert_true(c->walkers * (1 + c->pair) <= s->n_sms);
    }
    assert_true(s->layout == GLYD_LAYOUT_MMA ? c->expand != (c->codes != GLYD_GPU_CODES_PLANE)
                                             : !c->expand && c->codes == GLYD_GPU_CODES_PLANE);
}

static void test_configs_fit(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 16, 1000, 4096, 6144, 24576, 151936};
    static const int64_t cols[] = {1, 64, 1000, 4096, 12288, 28672};
    static const int64_t tokens[] = {1, 8, 9, 16, 32, 33, 64, 65, 128, 300, 8192};
    for (size_t i = 0; i < sizeof rows / sizeof *rows * 6 * 11; i++) {
        for (int slices = 1; slices <= GLYD_GPU_SLICES_MAX; slices++) {
            glyd_gpu_shape s = {.layout = i % 2 ? GLYD_LAYOUT_MMA : GLYD_LAYOUT_MMA12,
                                .rows = rows[i / 66],
                                .cols = cols[i / 11 % 6],
                                .tokens = tokens[i % 11],
                                .slices = slices,
                                .run_blocks = GLYD_RUN_BLOCKS,
                                .n_sms = 132,
                                .capability = 90};
            glyd_gpu_config c;
            glyd_gpu_config_for(&s, &c);
            if (c.kernel != GLYD_GPU_KERNEL_PLAIN)
                assert_config_fits(&s, &c);
            else
                assert_true(slices > GLYD_GPU_CLUSTER_MAX);
            for (int k = 0; glyd_gpu_config_candidate(&s, k, &c); k++) {
                if (c.kernel != GLYD_GPU_KERNEL_PLAIN && c.stages >= 3 && c.threads <= 800 &&
                    c.tiles * slices <= GLYD_GPU_FEW_UNITS_MAX)
                    assert_config_fits(&s, &c);
            }
        }
    }
}

static void test_other_gpus_get_the_plain_kernel(void **state)
{
    (void)state;
    static const int capabilities[] = {80, 86, 89, 100, 120};
    for (int i = 0; i < 5; i++) {
        glyd_gpu_shape s = {GLYD_LAYOUT_MMA12, 4096, 4096, 8, 1, 0, 100, capabilities[i]};
        glyd_gpu_config c;
        glyd_gpu_config_for(&s, &c);
        assert_int_equal(c.kernel, GLYD_GPU_KERNEL_PLAIN);
    }
}

static void test_plan_fixed(void **state)
{
    (void)state;
    for (int64_t rows = 1; rows <= 200000; rows = rows * 3 + 1) {
        for (int64_t cols = 1; cols <= 60000; cols = cols * 3 + 1) {
            glyd_gpu_plan plan = glyd_gpu_plan_fixed(rows, cols);
            assert_in_range(plan.slices, 1, GLYD_GPU_CLUSTER_MAX);
            assert_true(plan.slices == 1 ||
                        (plan.slices - 1) * glyd_gpu_slice_blocks(cols, plan.slices) <
                            glyd_blocks_of(cols));
        }
    }
    assert_int_equal(glyd_gpu_plan_fixed(24576, 4096).slices, 1);
    assert_int_equal(glyd_gpu_plan_fixed(4096, 4096).slices, 4);
}

static void test_capability(void **state)
{
    (void)state;
    glyd_error err;
    assert_ok(glyd_gpu_capability_check(8, 0, &err));
    assert_ok(glyd_gpu_capability_check(12, 0, &err));
    assert_int_equal(glyd_gpu_capability_check(7, 5, &err), GLYD_E_NODEVICE);
    assert_non_null(strstr(err.text, "7.5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix_check), cmocka_unit_test(test_linear_check),
        cmocka_unit_test(test_workspace),    cmocka_unit_test(test_rows_check),
        cmocka_unit_test(test_configs_fit),  cmocka_unit_test(test_other_gpus_get_the_plain_kernel),
        cmocka_unit_test(test_plan_fixed),   cmocka_unit_test(test_capability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
