/* test_codec_golden.c - the packed matrices of tests/golden/matrix, whole and spoilt: this decoder
 * and tools/decoder.py read them alike, and the encoder still writes them.
 *
 * A golden file is lines `name value` up to an empty line (layout, rows, cols, run_blocks, status,
 * the bytes of each array and of the values), then those bytes. `test_codec_golden --update`
 * writes the files anew, and from them the first inputs of tests/fuzz/fuzz_matrix.c.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/map.h"
#include "codec/load.h"
#include "codec/pack.h"
#include "codec_values.h"

#define GOLDEN "tests/golden/matrix"
#define CORPUS "tests/fuzz/corpus/fuzz_matrix"

typedef struct golden {
    const char *name;
    glyd_layout layout;
    values kind;
    int rows, cols, run_blocks;
    /* What is wrong: a byte of an array, exchanged; none where flip is 0. */
    glyd_array array;
    int at; /* from the end where negative: of the streams, before their padding */
    int flip;
} golden;

static const golden GOLDENS[] = {
    {"bf16-1x1", GLYD_LAYOUT_BF16, VALUES_ORDINARY, 1, 1, 0, 0, 0, 0},
    {"mma12-fallback-3x7", GLYD_LAYOUT_MMA12, VALUES_ORDINARY, 3, 7, 0, 0, 0, 0},
    {"mma12-16x64", GLYD_LAYOUT_MMA12, VALUES_ORDINARY, 16, 64, 0, 0, 0, 0},
    {"mma12-31x120", GLYD_LAYOUT_MMA12, VALUES_ESCAPES, 31, 120, 0, 0, 0, 0},
    {"mma12-zero-16x64", GLYD_LAYOUT_MMA12, VALUES_ZERO, 16, 64, 0, 0, 0, 0},
    {"mma12-nan-16x64", GLYD_LAYOUT_MMA12, VALUES_NAN, 16, 64, 0, 0, 0, 0},
    {"mma12-ends-16x128", GLYD_LAYOUT_MMA12, VALUES_ENDS, 16, 128, 0, 0, 0, 0},
    {"mma-one-16x128", GLYD_LAYOUT_MMA, VALUES_ONE, 16, 128, 16, 0, 0, 0},
    {"mma-two-30x190", GLYD_LAYOUT_MMA, VALUES_TWO, 30, 190, 2, 0, 0, 0},
    {"mma-denormal-16x128", GLYD_LAYOUT_MMA, VALUES_DENORMAL, 16, 128, 16, 0, 0, 0},
    {"mma-40x200", GLYD_LAYOUT_MMA, VALUES_ORDINARY, 40, 200, 16, 0, 0, 0},
    {"mma-runs-40x250", GLYD_LAYOUT_MMA, VALUES_ESCAPES, 40, 250, 3, 0, 0, 0},
    {"mma-skewed-16x320", GLYD_LAYOUT_MMA, VALUES_SKEWED, 16, 320, 16, 0, 0, 0},
    {"mma-flat-16x128", GLYD_LAYOUT_MMA, VALUES_FLAT, 16, 128, 16, 0, 0, 0},
    {"bad-base", GLYD_LAYOUT_MMA12, VALUES_ZERO, 16, 64, 0, GLYD_ARRAY_BASES, 2, 0xff},
    {"bad-edge", GLYD_LAYOUT_MMA12, VALUES_ORDINARY, 16, 60, 0, GLYD_ARRAY_SM, -1, 0x80},
    {"bad-escape-order", GLYD_LAYOUT_MMA12, VALUES_ESCAPES, 16, 64, 0, GLYD_ARRAY_ESCAPES, 2, 2},
    {"bad-escape-index", GLYD_LAYOUT_MMA12, VALUES_ESCAPES, 16, 64, 0, GLYD_ARRAY_ESCAPE_INDEX, 5,
     1},
    {"bad-table", GLYD_LAYOUT_MMA, VALUES_TWO, 16, 128, 16, GLYD_ARRAY_TABLE, 2, 1},
    {"bad-symbol", GLYD_LAYOUT_MMA, VALUES_ONE, 16, 128, 16, GLYD_ARRAY_TABLE, 32, 0xff},
    {"bad-entry", GLYD_LAYOUT_MMA, VALUES_ORDINARY, 16, 192, 2, GLYD_ARRAY_ENTRIES, 4, 1},
    {"bad-stream", GLYD_LAYOUT_MMA, VALUES_ORDINARY, 16, 128, 16, GLYD_ARRAY_CODES, -1, 0x80},
};
enum { N_GOLDENS = sizeof GOLDENS / sizeof *GOLDENS };

/* The matrix as it should be: packed, then spoilt. `bf16` has room for rows * cols. */
static void make(const golden *g, uint16_t *bf16, glyd_buf *out, glyd_matrix *m)
{
    values_fill(g->kind, 77, bf16, g->rows, g->cols, g->cols);
    glyd_pack_choice choice = {g->layout, g->run_blocks ? g->run_blocks : 1, &glyd_variants_c};
    assert_ok(glyd_pack_with(&choice, bf16, g->rows, g->cols, g->cols, NULL, out, m, NULL));
    if (!g->flip)
        return;
    assert_int_equal(m->layout, g->layout);
    const glyd_span *array = &m->array[g->array];
    size_t bytes = array->bytes;
    if (g->layout == GLYD_LAYOUT_MMA && g->array == GLYD_ARRAY_CODES) /* one tile of one run */
        bytes = GLYD_RUN_ALIGN * (size_t)glyd_load_u32(m->array[GLYD_ARRAY_ENTRIES].data, 1);
    size_t at = g->at < 0 ? bytes - (size_t)-g->at : (size_t)g->at;
    out->data[(size_t)(array->data - out->data) + at] ^= (uint8_t)g->flip;
}

static void write_file(const char *path, const glyd_buf *buf)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(buf->data, 1, buf->bytes, file), buf->bytes);
    assert_int_equal(fclose(file), 0);
}

static void print_golden(const golden *g, const glyd_matrix *m, const uint16_t *bf16, glyd_buf *to)
{
    size_t values_bytes = g->flip ? 0 : (size_t)(g->rows * g->cols) * 2;
    assert_ok(glyd_buf_print(to, "layout %s\nrows %d\ncols %d\nrun_blocks %d\nstatus %s\n",
                             glyd_layout_name(m->layout), g->rows, g->cols, m->run_blocks,
                             g->flip ? "corrupt" : "ok"));
    for (int i = 0; i < GLYD_ARRAYS; i++)
        assert_ok(
            glyd_buf_print(to, "%s %zu\n", glyd_array_name((glyd_array)i), m->array[i].bytes));
    assert_ok(glyd_buf_print(to, "values %zu\n\n", values_bytes));
    for (int i = 0; i < GLYD_ARRAYS; i++)
        assert_ok(glyd_buf_append(to, m->array[i].data, m->array[i].bytes));
    assert_ok(glyd_buf_append(to, bf16, values_bytes));
}

static void put(glyd_buf *to, size_t value, int bytes)
{
    assert_ok(glyd_buf_append(to, &value, (size_t)bytes));
}

/* As the fuzz target reads a matrix, and weights. */
static void write_corpus(const golden *g, const glyd_matrix *m, const uint16_t *bf16)
{
    char path[256];
    glyd_buf seed = {0};
    put(&seed, 0, 1);
    put(&seed, m->layout, 1);
    put(&seed, (size_t)m->run_blocks, 1);
    put(&seed, (size_t)g->rows, 2);
    put(&seed, (size_t)g->cols, 2);
    for (int i = 0; i < GLYD_ARRAYS; i++)
        put(&seed, m->array[i].bytes, 2);
    for (int i = 0; i < GLYD_ARRAYS; i++)
        assert_ok(glyd_buf_append(&seed, m->array[i].data, m->array[i].bytes));
    snprintf(path, sizeof path, CORPUS "/%s", g->name);
    write_file(path, &seed);
    seed.bytes = 0;
    put(&seed, 1, 1);
    put(&seed, g->layout, 1);
    put(&seed, (size_t)g->cols - 1, 2);
    assert_ok(glyd_buf_append(&seed, bf16, (size_t)(g->rows * g->cols) * 2));
    snprintf(path, sizeof path, CORPUS "/%s-values", g->name);
    if (!g->flip && g->rows * g->cols < 4096)
        write_file(path, &seed);
    glyd_buf_free(&seed);
}

static int update;

static void test_goldens(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDENS; i++) {
        const golden *g = &GOLDENS[i];
        static uint16_t bf16[64 * 1024], back[64 * 1024];
        char path[256];
        glyd_buf out = {0}, text = {0}, file = {0};
        glyd_matrix m;
        make(g, bf16, &out, &m);
        print_golden(g, &m, bf16, &text);
        snprintf(path, sizeof path, GOLDEN "/%s.matrix", g->name);
        if (update) {
            write_file(path, &text);
            write_corpus(g, &m, bf16);
        }
        assert_ok(glyd_file_read(path, 1 << 20, &file, NULL));
        assert_int_equal(file.bytes, text.bytes);
        assert_memory_equal(file.data, text.data, text.bytes);
        if (g->flip) {
            assert_int_equal(glyd_check(&m, NULL, NULL), GLYD_E_CORRUPT);
        } else {
            assert_ok(glyd_check(&m, NULL, NULL));
            assert_ok(glyd_unpack(&m, 0, m.rows, back, m.cols, NULL, NULL));
            assert_memory_equal(back, bf16, (size_t)(g->rows * g->cols) * 2);
        }
        glyd_buf_free(&out);
        glyd_buf_free(&text);
        glyd_buf_free(&file);
    }
}

static void test_second_decoder(void **state)
{
    (void)state;
    if (system("python3 -c 'import struct' >/dev/null 2>&1") != 0)
        skip();
    assert_int_equal(system("python3 -B tools/decoder.py matrix " GOLDEN "/*.matrix"), 0);
    assert_int_equal(system("python3 -B tools/format_example.py --check"), 0);
}

int main(int argc, char **argv)
{
    update = argc > 1 && strcmp(argv[1], "--update") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_second_decoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
