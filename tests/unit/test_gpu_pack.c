/* test_gpu_pack.c - the host's part of packing on the GPU: from counts to array sizes and the code,
 * as glyd_pack has them; and the table of plans.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec_values.h"
#include "cuda/pack.h"
#include "cuda/plan_cache.h"
#include "test.h"

/* The code that a weight gets, `base` being its row's: what the kernels compute, one at a time. */
static int code_of(uint16_t weight, int base, int fill)
{
    int code = (weight >> 7 & 255) - base;
    return code < 0 || code >= GLYD_WINDOW ? fill : code;
}

/* Pairs of all blocks; weights beyond the edge have code 0. */
static void count_pairs(const uint16_t *w, int64_t rows, int64_t cols, const uint8_t *bases,
                        int fill, uint64_t *pairs)
{
    for (int64_t r = 0; r < glyd_tiles_of(rows) * GLYD_TILE_ROWS; r++) {
        for (int64_t c = 0; c < glyd_blocks_of(cols) * GLYD_BLOCK_COLS; c += 2) {
            int code[2] = {0, 0};
            for (int h = 0; h < 2; h++) {
                if (r < rows && c + h < cols)
                    code[h] = code_of(w[r * cols + c + h], bases[r], fill);
            }
            pairs[code[0] | code[1] << 4]++;
        }
    }
}

/* What the kernels count. */
static void count_all(const uint16_t *w, int64_t rows, int64_t cols, glyd_layout layout,
                      glyd_pack_totals *totals)
{
    glyd_survey *surveys = malloc((size_t)rows * sizeof *surveys);
    uint8_t *bases = malloc((size_t)rows);
    int fill;
    assert_non_null(surveys);
    assert_non_null(bases);
    memset(totals, 0, sizeof *totals);
    for (int64_t r = 0; r < rows; r++)
        glyd_survey_row(&surveys[r], w + r * cols, cols);
    if (layout == GLYD_LAYOUT_MMA12) {
        for (int64_t r = 0; r < rows; r++)
            totals->in_window +=
                (uint64_t)cols - glyd_base_escapes(&surveys[r], glyd_base_fewest(&surveys[r]));
    } else {
        glyd_bases_align(surveys, rows, bases, &fill);
        uint64_t *codes = totals->codes[GLYD_BASES_ROUNDS];
        for (int64_t r = 0; r < rows; r++) {
            for (int c = 0; c < GLYD_WINDOW; c++)
                codes[c] += surveys[r].count[bases[r] - surveys[r].origin + c];
        }
        assert_int_equal(fill, glyd_bases_fill(codes));
        count_pairs(w, rows, cols, bases, fill, totals->pairs);
    }
    free(surveys);
    free(bases);
}

static void check_choice(const uint16_t *w, int64_t rows, int64_t cols, glyd_layout layout)
{
    glyd_buf buf = {0};
    glyd_matrix reference, m;
    glyd_pack_totals totals;
    glyd_pack_code code;
    glyd_error err;
    assert_ok(glyd_pack(layout, w, rows, cols, cols, NULL, &buf, &reference, &err));
    count_all(w, rows, cols, layout, &totals);
    glyd_gpu_pack_choose(layout, rows, cols, &totals, &code, &m);
    /* Streams that were too long are not there to be measured: as long as the weights, then. */
    totals.units = (uint64_t)(rows * cols) * 2 / GLYD_RUN_ALIGN + 1;
    const glyd_span *entries = &reference.array[GLYD_ARRAY_ENTRIES];
    if (entries->bytes) {
        int64_t runs = glyd_runs_of(glyd_blocks_of(cols), GLYD_RUN_BLOCKS);
        uint32_t last;
        memcpy(&last, entries->data + glyd_tiles_of(rows) * runs * 4, sizeof last);
        totals.units = last;
        assert_memory_equal(code.table, reference.array[GLYD_ARRAY_TABLE].data, GLYD_TABLE_BYTES);
    } else if (layout == GLYD_LAYOUT_MMA12) {
        totals.units = 0;
    }
    glyd_gpu_pack_close(&totals, &m);
    assert_int_equal(m.layout, reference.layout);
    assert_int_equal(m.run_blocks, reference.run_blocks);
    for (int i = 0; i < GLYD_ARRAYS; i++)
        assert_int_equal(m.array[i].bytes, reference.array[i].bytes);
    glyd_buf_free(&buf);
}

static void test_choose(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{200, 2200}, {160, 512}, {33, 1101}, {1, 1},
                                        {16, 64},    {1, 2048},  {17, 333},  {3, 20}};
    for (int kind = 0; kind < VALUES_KINDS; kind++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            int64_t rows = shapes[i][0], cols = shapes[i][1];
            uint16_t *w = malloc((size_t)(rows * cols) * sizeof *w);
            assert_non_null(w);
            values_fill((values)kind, i, w, rows, cols, cols);
            check_choice(w, rows, cols, GLYD_LAYOUT_MMA12);
            check_choice(w, rows, cols, GLYD_LAYOUT_MMA);
            free(w);
        }
    }
}

/* Counts that leave nothing to gain, or that the lists cannot hold, keep the matrix as it is. */
static void test_choose_bf16(void **state)
{
    (void)state;
    glyd_pack_totals totals = {0};
    glyd_pack_code code;
    glyd_matrix m;
    const int64_t rows = 4096, cols = 4096;
    glyd_gpu_pack_choose(GLYD_LAYOUT_MMA12, rows, cols, &totals, &code, &m); /* all are escapes */
    assert_int_equal(m.layout, GLYD_LAYOUT_BF16);
    assert_int_equal(m.array[GLYD_ARRAY_SM].bytes, rows * cols * 2);
    assert_int_equal(m.array[GLYD_ARRAY_CODES].bytes, 0);
    totals.in_window = (uint64_t)(rows * cols);
    glyd_gpu_pack_choose(GLYD_LAYOUT_MMA12, rows, cols, &totals, &code, &m);
    assert_int_equal(m.layout, GLYD_LAYOUT_MMA12);
    totals.codes[GLYD_BASES_ROUNDS][3] = (uint64_t)(rows * cols);
    totals.pairs[0x33] = (uint64_t)(rows * cols / 2);
    glyd_gpu_pack_choose(GLYD_LAYOUT_MMA, rows, cols, &totals, &code, &m);
    assert_int_equal(m.layout, GLYD_LAYOUT_MMA);
    totals.units = (uint64_t)UINT32_MAX + 1;
    glyd_gpu_pack_close(&totals, &m);
    assert_int_equal(m.layout, GLYD_LAYOUT_BF16);
}

static void test_workspace(void **state)
{
    (void)state;
    assert_int_equal(glyd_gpu_pack_workspace(GLYD_LAYOUT_BF16, 16, 64), 0);
    assert_int_equal(glyd_gpu_pack_workspace(GLYD_LAYOUT_MMA, 0, 64), 0);
    assert_int_equal(glyd_gpu_pack_workspace(GLYD_LAYOUT_MMA, 16, GLYD_COLS_MAX + 1), 0);
    const int64_t rows = 24576, cols = 4096;
    size_t mma12 = glyd_gpu_pack_workspace(GLYD_LAYOUT_MMA12, rows, cols);
    size_t mma = glyd_gpu_pack_workspace(GLYD_LAYOUT_MMA, rows, cols);
    assert_in_range(mma12, rows, rows * cols * 2 / 1000);
    assert_in_range(mma, mma12 + rows * sizeof(glyd_survey), rows * cols * 2 / 50);
}

static void test_pack_check(void **state)
{
    (void)state;
    static uint8_t memory[64] __attribute__((aligned(256)));
    glyd_error err;
    glyd_gpu_pack_args good = {GLYD_LAYOUT_MMA12,          16,     64, 64,
                               (uint16_t *)(void *)memory, memory, 0};
    good.workspace_bytes = glyd_gpu_pack_workspace(good.layout, good.rows, good.cols);
    assert_ok(glyd_gpu_pack_check(&good, NULL, &err));
    assert_int_equal(glyd_gpu_pack_check(NULL, NULL, &err), GLYD_E_ARG);
#define WRONG(change)                                                                              \
    do {                                                                                           \
        glyd_gpu_pack_args a = good;                                                               \
        change;                                                                                    \
        assert_int_equal(glyd_gpu_pack_check(&a, NULL, &err), GLYD_E_ARG);                         \
    } while (0)
    WRONG(a.layout = GLYD_LAYOUT_BF16);
    WRONG(a.rows = 0);
    WRONG(a.cols = -1);
    WRONG(a.stride = 63);
    WRONG(a.stride = INT64_MAX);
    WRONG(a.bf16 = NULL);
    WRONG(a.bf16 = (uint16_t *)(void *)(memory + 1));
    WRONG(a.workspace = NULL);
    WRONG(a.workspace = memory + 16);
    WRONG(a.workspace_bytes--);
#undef WRONG
}

/* The parts of a scheme are all columns once, in k16 groups; and the table of plans keeps them. */
static void test_schemes(void **state)
{
    (void)state;
    enum { COLS = 1024 };
    glyd_plan_scheme scheme;
    int n = 0;
    for (; glyd_plan_scheme_candidate(n, &scheme); n++) {
        if (!glyd_plan_scheme_fits(scheme, COLS))
            continue;
        int seen[COLS / 16] = {0};
        for (int part = 0; part < scheme.parts; part++) {
            int64_t begin, end, step;
            glyd_plan_part(scheme, COLS, part, &begin, &end, &step);
            assert_true(begin < end);
            for (int64_t k = begin; k < end; k += step)
                seen[k / 16]++;
        }
        for (int i = 0; i < COLS / 16; i++)
            assert_int_equal(seen[i], 1);
        if (glyd_plan_scheme_is_plan(scheme) && scheme.parts > 1)
            assert_int_equal(scheme.align, 64);
    }
    assert_in_range(n, 64, 96);
    assert_false(glyd_plan_scheme_fits((glyd_plan_scheme){0, 64}, COLS));
    assert_false(glyd_plan_scheme_fits((glyd_plan_scheme){2, 64}, 64));
    assert_false(glyd_plan_scheme_is_plan((glyd_plan_scheme){0, 64}));
    assert_false(glyd_plan_scheme_is_plan((glyd_plan_scheme){4, 0}));
    assert_true(glyd_plan_scheme_is_plan((glyd_plan_scheme){1, 64}));
}

static void test_plan_cache(void **state)
{
    (void)state;
    enum { TOKENS = 700 };
    glyd_plan_cache cache = {0};
    glyd_plan_scheme scheme;
    glyd_plan_key key = {4096, 4096, 1, 0};
    assert_false(glyd_plan_cache_find(&cache, &key, &scheme));
    for (int pass = 0; pass < 2; pass++) { /* the second one adds nothing */
        for (key.tokens = 1; key.tokens <= TOKENS; key.tokens++) {
            for (key.has_bias = 0; key.has_bias < 2; key.has_bias++) {
                glyd_plan_scheme add = {(int)key.tokens + key.has_bias, 64};
                assert_ok(glyd_plan_cache_add(&cache, &key, add));
            }
        }
        assert_int_equal(cache.n_used, 2 * TOKENS);
    }
    for (key.tokens = 1; key.tokens <= TOKENS; key.tokens++) {
        key.has_bias = 1;
        assert_true(glyd_plan_cache_find(&cache, &key, &scheme));
        assert_int_equal(scheme.parts, key.tokens + 1);
    }
    assert_false(glyd_plan_cache_find(&cache, &key, &scheme));
    key = (glyd_plan_key){4096, 2048, 1, 0};
    assert_false(glyd_plan_cache_find(&cache, &key, &scheme));
    glyd_plan_cache_free(&cache);
    assert_false(glyd_plan_cache_find(&cache, &key, &scheme));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choose),    cmocka_unit_test(test_choose_bf16),
        cmocka_unit_test(test_workspace), cmocka_unit_test(test_pack_check),
        cmocka_unit_test(test_schemes),   cmocka_unit_test(test_plan_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
