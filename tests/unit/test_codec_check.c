/* test_codec_check.c - matrices that lie are refused, each for its reason.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "codec/check.h"
#include "codec/load.h"
#include "codec/pack.h"
#include "codec/prefix.h"
#include "codec/unpack.h"
#include "codec_values.h"

enum { ROWS = 39, COLS = 700 };

/* A matrix whose arrays are copies of their own, to be spoilt. */
typedef struct victim {
    glyd_matrix m;
    uint8_t *array[GLYD_ARRAYS];
} victim;

static void victim_set(victim *v, glyd_array array, const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1); /* exact but for one: malloc(0) may be NULL */
    if (bytes)
        memcpy(copy, data, bytes);
    free(v->array[array]);
    v->array[array] = copy;
    v->m.array[array] = (glyd_span){copy, bytes};
}

static victim victim_make(glyd_layout layout)
{
    static uint16_t bf16[ROWS * COLS];
    glyd_buf out = {0};
    glyd_matrix m;
    values_fill(VALUES_ESCAPES, 1, bf16, ROWS, COLS, COLS);
    glyd_pack_choice choice = {layout, 4, &glyd_variants_c};
    assert_ok(glyd_pack_with(&choice, bf16, ROWS, COLS, COLS, NULL, &out, &m, NULL));
    assert_int_equal(m.layout, layout);
    victim v = {.m = m};
    for (int i = 0; i < GLYD_ARRAYS; i++)
        victim_set(&v, (glyd_array)i, m.array[i].data, m.array[i].bytes);
    glyd_buf_free(&out);
    return v;
}

static void victim_free(victim *v)
{
    for (int i = 0; i < GLYD_ARRAYS; i++)
        free(v->array[i]);
}

static void victim_put(victim *v, glyd_array array, int64_t index, uint32_t value)
{
    memcpy(v->array[array] + 4 * index, &value, sizeof value);
}

static uint32_t victim_get(const victim *v, glyd_array array, int64_t index)
{
    return glyd_load_u32(v->array[array], index);
}

/* What glyd_check says in one go, glyd_check_frame and glyd_unpack_strict say together. */
static void assert_refused_strictly(const glyd_matrix *m, glyd_pool *pool, const char *text)
{
    glyd_error err = {0};
    if (glyd_check_frame(m, pool, &err) == GLYD_OK) {
        uint16_t *back = malloc((size_t)(m->rows * m->cols) * sizeof *back);
        assert_non_null(back);
        assert_int_equal(glyd_unpack_strict(m, 0, m->rows, back, m->cols, pool, &err),
                         GLYD_E_CORRUPT);
        free(back);
    }
    assert_string_equal(err.text, text);
}

/* The check fails, and its text has `words`. Frees the victim. */
static void assert_refused(victim *v, const char *words)
{
    glyd_error err = {0}, again = {0};
    assert_int_equal(glyd_check(&v->m, NULL, &err), GLYD_E_CORRUPT);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" where \"%s\" belongs", err.text, words);
    glyd_pool *pool;
    assert_ok(glyd_pool_create(&(glyd_pool_options){.n_threads = 3}, &pool, NULL));
    assert_int_equal(glyd_check(&v->m, pool, &again), GLYD_E_CORRUPT);
    assert_string_equal(err.text, again.text);
    assert_int_equal(glyd_check(&v->m, pool, NULL), GLYD_E_CORRUPT);
    assert_refused_strictly(&v->m, NULL, err.text);
    assert_refused_strictly(&v->m, pool, err.text);
    glyd_pool_free(pool);
    victim_free(v);
}

static void test_headers(void **state)
{
    (void)state;
    victim v = victim_make(GLYD_LAYOUT_MMA);
    assert_ok(glyd_check(&v.m, NULL, NULL));
    v.m.layout = (glyd_layout)7;
    assert_refused(&v, "layout");
    static const int64_t shapes[][2] = {{-1, COLS},
                                        {ROWS, -1},
                                        {GLYD_ROWS_MAX + 1LL, COLS},
                                        {ROWS, GLYD_COLS_MAX + 1LL},
                                        {INT64_MAX, INT64_MAX},
                                        {ROWS + 16, COLS},
                                        {ROWS, COLS + 64},
                                        {GLYD_ROWS_MAX, GLYD_COLS_MAX}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        v = victim_make(GLYD_LAYOUT_MMA);
        v.m.rows = shapes[i][0];
        v.m.cols = shapes[i][1];
        assert_refused(&v, i < 5 ? "are possible" : "belong");
    }
    static const int runs[] = {0, -1, GLYD_RUN_BLOCKS_MAX + 1, INT32_MAX};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        v = victim_make(GLYD_LAYOUT_MMA);
        v.m.run_blocks = runs[i];
        assert_refused(&v, "runs of");
    }
    v = victim_make(GLYD_LAYOUT_MMA12);
    v.m.run_blocks = 16;
    assert_refused(&v, "runs of 16 blocks in layout mma12");
}

static void test_sizes(void **state)
{
    (void)state;
    for (int layout = GLYD_LAYOUT_MMA12; layout <= GLYD_LAYOUT_MMA; layout++) {
        for (int i = 0; i < GLYD_ARRAYS; i++) {
            for (int more = -64; more <= 64; more += 32) {
                victim v = victim_make((glyd_layout)layout);
                if (more == 0 || (int64_t)v.m.array[i].bytes + more < 0) {
                    victim_free(&v);
                    continue;
                }
                /* The larger ones are backed by real bytes: the size alone is wrong. */
                uint8_t *longer = calloc(1, v.m.array[i].bytes + 64);
                if (v.m.array[i].bytes)
                    memcpy(longer, v.array[i], v.m.array[i].bytes);
                victim_set(&v, (glyd_array)i, longer, v.m.array[i].bytes + (size_t)more);
                free(longer);
                assert_refused(&v, glyd_array_name((glyd_array)i));
            }
        }
    }
}

static void test_bases(void **state)
{
    (void)state;
    victim v = victim_make(GLYD_LAYOUT_MMA12);
    v.array[GLYD_ARRAY_BASES][3] = GLYD_BASE_MAX + 1;
    assert_refused(&v, "bases: 241 in row 3");
    v = victim_make(GLYD_LAYOUT_MMA12);
    v.array[GLYD_ARRAY_BASES][ROWS] = 1;
    assert_refused(&v, "bases: padding");
}

static void test_escapes(void **state)
{
    (void)state;
    victim v = victim_make(GLYD_LAYOUT_MMA12);
    uint32_t n = victim_get(&v, GLYD_ARRAY_ESCAPE_INDEX, 3);
    assert_true(n > 20);
    victim_put(&v, GLYD_ARRAY_ESCAPE_INDEX, 0, 1);
    assert_refused(&v, "escape_index: does not start at 0");
    v = victim_make(GLYD_LAYOUT_MMA12);
    victim_put(&v, GLYD_ARRAY_ESCAPE_INDEX, 1, n + 1);
    assert_refused(&v, "escape_index");
    v = victim_make(GLYD_LAYOUT_MMA12);
    victim_put(&v, GLYD_ARRAY_ESCAPE_INDEX, 3, UINT32_MAX);
    assert_refused(&v, "escape_index: ends at");
    v = victim_make(GLYD_LAYOUT_MMA12);
    victim_put(&v, GLYD_ARRAY_ESCAPE_INDEX, 4, 1);
    assert_refused(&v, "escape_index: padding");

    v = victim_make(GLYD_LAYOUT_MMA12);
    victim_put(&v, GLYD_ARRAY_ESCAPES, 5, victim_get(&v, GLYD_ARRAY_ESCAPES, 6));
    assert_refused(&v, "tile 0: escapes: number 6 is out of order");
    v = victim_make(GLYD_LAYOUT_MMA12);
    victim_put(&v, GLYD_ARRAY_ESCAPES, 5, glyd_escape_make(glyd_blocks_of(COLS), 0, 3));
    assert_refused(&v, "outside the matrix");
    v = victim_make(GLYD_LAYOUT_MMA12); /* beyond the last column, in the last block */
    uint32_t last = victim_get(&v, GLYD_ARRAY_ESCAPE_INDEX, 1) - 1;
    victim_put(&v, GLYD_ARRAY_ESCAPES, last,
               glyd_escape_make(COLS / 64, glyd_position_at(15, COLS % 64), 3));
    assert_refused(&v, "outside the matrix");
    v = victim_make(GLYD_LAYOUT_MMA12); /* beyond the last row, in the last tile */
    victim_put(&v, GLYD_ARRAY_ESCAPES, n - 1,
               glyd_escape_make(COLS / 64, glyd_position_at(ROWS % 16, 0), 3));
    assert_refused(&v, "outside the matrix");
    v = victim_make(GLYD_LAYOUT_MMA12);
    if (v.m.array[GLYD_ARRAY_ESCAPES].bytes > 4 * (size_t)n) {
        victim_put(&v, GLYD_ARRAY_ESCAPES, n, 1);
        assert_refused(&v, "escapes: padding");
    } else {
        victim_free(&v);
    }
}

static void set_table(victim *v, const uint16_t count[12], const uint8_t *symbols, int n)
{
    uint8_t table[GLYD_TABLE_BYTES] = {0};
    memcpy(table, count, 24);
    for (int i = 0; i < n; i++)
        table[GLYD_TABLE_SYMBOLS_OFFSET + i] = symbols ? symbols[i] : (uint8_t)i;
    victim_set(v, GLYD_ARRAY_TABLE, table, sizeof table);
}

static void test_table(void **state)
{
    (void)state;
    static const struct {
        uint16_t count[12];
        uint8_t symbols[4];
        int n;
        const char *words;
    } cases[] = {
        {{0}, {0}, 0, "not complete"},
        {{0, 1}, {7}, 1, "not complete"},
        {{0, 3}, {1, 2, 3}, 3, "not complete"},
        {{0, 1, 1}, {1, 2}, 2, "not complete"},
        {{0, 1, 2}, {1, 2, 2}, 3, "symbol 2 has two codes"},
        {{1, 2}, {1, 2}, 2, "codes of 0 bits"},
        {{0, 2}, {1, 2, 9}, 3, "is not zero"},
        {{0, 0xffff}, {1, 2}, 2, "65535 codes of 1 bits"},
        {{0, 0, 0, 0, 0, 0, 0, 0, 255, 2}, {0}, 0, "not complete"}, /* 257 symbols */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        victim v = victim_make(GLYD_LAYOUT_MMA);
        set_table(&v, cases[i].count, cases[i].symbols, cases[i].n);
        assert_refused(&v, cases[i].words);
    }
    victim v = victim_make(GLYD_LAYOUT_MMA);
    v.array[GLYD_ARRAY_TABLE][24] = 1; /* a code of 12 bits */
    assert_refused(&v, "codes of 12 bits");
    v = victim_make(GLYD_LAYOUT_MMA);
    v.array[GLYD_ARRAY_TABLE][GLYD_TABLE_BYTES - 1] = 1;
    assert_refused(&v, "table: byte 319 is not zero");
}

static void test_entries(void **state)
{
    (void)state;
    int64_t n = glyd_tiles_of(ROWS) * glyd_runs_of(glyd_blocks_of(COLS), 4);
    victim v = victim_make(GLYD_LAYOUT_MMA);
    victim_put(&v, GLYD_ARRAY_ENTRIES, 0, 1);
    assert_refused(&v, "entries: does not start at 0");
    v = victim_make(GLYD_LAYOUT_MMA);
    victim_put(&v, GLYD_ARRAY_ENTRIES, 2, victim_get(&v, GLYD_ARRAY_ENTRIES, 3) + 1);
    assert_refused(&v, "entries:");
    v = victim_make(GLYD_LAYOUT_MMA);
    victim_put(&v, GLYD_ARRAY_ENTRIES, n, UINT32_MAX);
    assert_refused(&v, "entries: ends at");
    v = victim_make(GLYD_LAYOUT_MMA);
    victim_put(&v, GLYD_ARRAY_ENTRIES, 4, victim_get(&v, GLYD_ARRAY_ENTRIES, 3));
    assert_refused(&v, "codes: run 0 ends early");
    v = victim_make(GLYD_LAYOUT_MMA);
    victim_put(&v, GLYD_ARRAY_ENTRIES, 4, victim_get(&v, GLYD_ARRAY_ENTRIES, 4) - 1);
    assert_refused(&v, "tile 1: codes: run 0 ends early");
    v = victim_make(GLYD_LAYOUT_MMA);
    victim_put(&v, GLYD_ARRAY_ENTRIES, 4, victim_get(&v, GLYD_ARRAY_ENTRIES, 4) + 1);
    assert_refused(&v, "tile 1: codes: run 0 is longer than its codes");
}

/* A run with one more padding word, or bits where none belong. */
static void test_streams(void **state)
{
    (void)state;
    victim v = victim_make(GLYD_LAYOUT_MMA);
    int64_t n = glyd_tiles_of(ROWS) * glyd_runs_of(glyd_blocks_of(COLS), 4);
    int64_t end = victim_get(&v, GLYD_ARRAY_ENTRIES, n) * 4LL;
    uint32_t last = victim_get(&v, GLYD_ARRAY_CODES, end - 1);
    victim_put(&v, GLYD_ARRAY_CODES, end - 1, last ^ 0x80000000);
    assert_refused(&v, "tile 2: codes: run 2");
    v = victim_make(GLYD_LAYOUT_MMA);
    size_t bytes = v.m.array[GLYD_ARRAY_CODES].bytes;
    if (bytes > (size_t)end * 4) {
        v.array[GLYD_ARRAY_CODES][bytes - 1] = 1;
        assert_refused(&v, "codes: padding");
    } else {
        victim_free(&v);
    }
}

static void test_edges(void **state)
{
    (void)state;
    int64_t blocks = glyd_blocks_of(COLS);
    int in_row = glyd_position_at(0, COLS % 64), below = glyd_position_at(ROWS % 16, 0);
    for (int layout = GLYD_LAYOUT_MMA12; layout <= GLYD_LAYOUT_MMA; layout++) {
        victim v = victim_make((glyd_layout)layout); /* the first column beyond, in tile 1 */
        int64_t word = (2 * blocks - 1) * GLYD_BLOCK_SM_WORDS +
                       glyd_sm_word(in_row >> 5, in_row >> 3 & 3, in_row >> 2 & 1);
        victim_put(&v, GLYD_ARRAY_SM, word, victim_get(&v, GLYD_ARRAY_SM, word) | 0x8000);
        assert_refused(&v, "tile 1: block 10 has a weight beyond");
        v = victim_make((glyd_layout)layout); /* the first row beyond, in tile 2 */
        word = 2 * blocks * GLYD_BLOCK_SM_WORDS +
               glyd_sm_word(below >> 5, below >> 3 & 3, below >> 2 & 1);
        victim_put(&v, GLYD_ARRAY_SM, word, victim_get(&v, GLYD_ARRAY_SM, word) | 0x80018001);
        if (ROWS % 16 >= 8)
            victim_put(&v, GLYD_ARRAY_SM, word, victim_get(&v, GLYD_ARRAY_SM, word) | 0x0100);
        assert_refused(&v, "tile 2: block 0 has a weight beyond");
    }
    victim v = victim_make(GLYD_LAYOUT_MMA12);
    int64_t word = (blocks - 1) * GLYD_BLOCK_CODE_WORDS + glyd_code_word(31, 3);
    victim_put(&v, GLYD_ARRAY_CODES, word, 1u << 28);
    assert_refused(&v, "tile 0: block 10 has a weight beyond");
}

static void test_bf16(void **state)
{
    (void)state;
    uint8_t bytes[64] = {0};
    glyd_matrix m = {.layout = GLYD_LAYOUT_BF16, .rows = 4, .cols = 8};
    m.array[GLYD_ARRAY_SM] = (glyd_span){bytes, 64};
    assert_ok(glyd_check(&m, NULL, NULL));
    m.array[GLYD_ARRAY_SM].bytes = 62;
    assert_int_equal(glyd_check(&m, NULL, NULL), GLYD_E_CORRUPT);
    m.array[GLYD_ARRAY_SM].bytes = 64;
    m.array[GLYD_ARRAY_BASES] = (glyd_span){bytes, 64};
    assert_int_equal(glyd_check(&m, NULL, NULL), GLYD_E_CORRUPT);
}

/* The code is complete and no longer than it may be, whatever the counts. */
static void test_prefix_codes(void **state)
{
    (void)state;
    uint64_t random = 9;
    glyd_lookup *lookup = aligned_alloc(64, sizeof *lookup);
    for (int round = 0; round < 300; round++) {
        uint64_t count[GLYD_PAIRS] = {0};
        int n = round < 4 ? round : 1 + (int)(test_random(&random) >> 40) % GLYD_PAIRS;
        for (int i = 0; i < n; i++) {
            uint64_t r = test_random(&random);
            count[r >> 11 & 255] += 1 + (r >> 20 & 1023) * (r >> 40 & 1 ? 1000000007ULL : 1);
        }
        glyd_prefix prefix;
        uint8_t table[GLYD_TABLE_BYTES];
        glyd_prefix_init(&prefix, count);
        glyd_prefix_write(&prefix, table);
        assert_ok(glyd_lookup_init(lookup, (glyd_span){table, sizeof table}, NULL));
        for (int s = 0; s < GLYD_PAIRS; s++) {
            assert_true(count[s] == 0 || prefix.bits[s] > 0);
            if (!prefix.bits[s])
                continue;
            uint32_t entry = lookup->entry[prefix.code[s]];
            assert_int_equal((entry & 15) | (entry >> 12 & 0xf0), s);
            assert_int_equal(entry >> GLYD_LOOKUP_BITS_SHIFT & 15, prefix.bits[s]);
        }
    }
    free(lookup);
}

/* What is written for a rare pair has a code, differs from it in halves that become `fill`, and the
 * counts tell. */
static void test_pruning(void **state)
{
    (void)state;
    uint64_t random = 3;
    int pruned = 0;
    for (int round = 0; round < 500; round++) {
        uint64_t count[GLYD_PAIRS], before[GLYD_PAIRS], sum = 0, sum_before = 0, made = 0;
        uint8_t keep[GLYD_PAIRS] = {0}, instead[GLYD_PAIRS];
        int fill = round % 16;
        for (int s = 0; s < GLYD_PAIRS; s++) {
            uint64_t r = test_random(&random);
            before[s] = count[s] = (r >> 40 & 3) == 0 ? 0 : (r >> 20 & 0xffff) >> (r >> 50 & 15);
            keep[s] = (r >> 60) == 0;
        }
        count[round % 251] = before[round % 251] = 1 << 22;
        uint64_t escapes = glyd_prefix_prune(count, keep, fill, instead);
        for (int s = 0; s < GLYD_PAIRS; s++) {
            sum += count[s];
            sum_before += before[s];
            if (instead[s] == s)
                continue;
            int changed = instead[s] ^ s, first = changed & 15, second = changed & 0xf0;
            assert_false(keep[s]);
            assert_int_equal(count[s], 0);
            assert_int_equal(instead[instead[s]], instead[s]);
            assert_true(before[s] == 0 || count[instead[s]] >= before[s]);
            assert_true(!first || (instead[s] & 15) == fill);
            assert_true(!second || (instead[s] >> 4) == fill);
            made += before[s] * (uint64_t)((first != 0) + (second != 0));
            pruned += before[s] != 0;
        }
        assert_true(sum == sum_before);
        assert_true(made == escapes);
    }
    assert_true(pruned > 1000);
}

static uint64_t code_cost(const uint64_t count[GLYD_PAIRS])
{
    glyd_prefix prefix;
    uint64_t cost = 0;
    glyd_prefix_init(&prefix, count);
    for (int s = 0; s < GLYD_PAIRS; s++)
        cost += count[s] * prefix.bits[s];
    return cost;
}

/* The cheapest complete codes of at most 11 bits for these counts cost this much, by an exhaustive
 * search over lengths. */
static void test_prefix_codes_are_cheapest(void **state)
{
    (void)state;
    uint64_t powers[GLYD_PAIRS] = {1}, cubes[GLYD_PAIRS] = {0}, flat[GLYD_PAIRS];
    for (int i = 0; i < GLYD_PAIRS; i++) {
        flat[i] = 1;
        if (i >= 1 && i < 16)
            powers[i] = 1ULL << (i - 1); /* unlimited, the longest code has 15 bits */
        if (i < 40)
            cubes[i] = (uint64_t)(i * i * i % 97 + 1);
    }
    cubes[100] = 5000;
    cubes[200] = 20000;
    assert_int_equal(code_cost(powers), 65632);
    assert_int_equal(code_cost(cubes), 42029);
    assert_int_equal(code_cost(flat), 2048);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_bases),   cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_table),   cmocka_unit_test(test_entries),
        cmocka_unit_test(test_streams), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_bf16),    cmocka_unit_test(test_prefix_codes),
        cmocka_unit_test(test_pruning), cmocka_unit_test(test_prefix_codes_are_cheapest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
