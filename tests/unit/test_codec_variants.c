/* test_codec_variants.c - every variant this processor runs against plain C, bit for bit, with
 * guard zones around what they write and what they read ending where a page does.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "codec/load.h"
#include "codec/pack.h"
#include "codec_values.h"
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD_WORDS = 64, GUARD = (int)0xa5a5a5a5 };

/* Bytes whose end is the end of a page with none behind: a read past it is a crash. */
typedef struct cliff {
    uint8_t *map, *end;
    size_t bytes;
} cliff;

static cliff cliff_open(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (bytes + page - 1) / page * page;
    cliff c = {.bytes = n + page};
    c.map = mmap(NULL, c.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(c.map != MAP_FAILED);
    assert_int_equal(mprotect(c.map + n, page, PROT_NONE), 0);
    c.end = c.map + n;
    return c;
}

static void cliff_close(cliff *c)
{
    munmap(c->map, c->bytes);
}

static void fill_guard(uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        words[i] = (uint32_t)GUARD;
}

static void assert_guard(const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(words[i], (uint32_t)GUARD);
}

static void test_join_and_split(void **state)
{
    (void)state;
    enum { STRIDE = 71, SQUARE = GLYD_TILE_ROWS * STRIDE };
    uint64_t random = 5;
    cliff sm_in = cliff_open(GLYD_BLOCK_SM_BYTES), codes_in = cliff_open(GLYD_BLOCK_CODE_BYTES);
    uint8_t *sm_at = sm_in.end - GLYD_BLOCK_SM_BYTES,
            *codes_at = codes_in.end - GLYD_BLOCK_CODE_BYTES;
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < GLYD_BLOCK_SM_BYTES; i++)
            sm_at[i] = (uint8_t)(test_random(&random) >> 40);
        for (int i = 0; i < GLYD_BLOCK_CODE_BYTES; i++)
            codes_at[i] = (uint8_t)(test_random(&random) >> 40);
        uint8_t bases[GLYD_TILE_ROWS];
        for (int i = 0; i < GLYD_TILE_ROWS; i++)
            bases[i] = (uint8_t)((test_random(&random) >> 33) % (GLYD_BASE_MAX + 1));
        static uint16_t want[SQUARE], got[SQUARE], in[SQUARE];
        memset(want, 0xa5, sizeof want);
        glyd_variants_c.join(sm_at, codes_at, bases, want, STRIDE);
        for (int row = 0; row < GLYD_TILE_ROWS; row++) { /* nothing beside the block */
            for (int col = GLYD_BLOCK_COLS; col < STRIDE; col++)
                assert_int_equal(want[row * STRIDE + col], 0xa5a5);
        }
        values_fill((values)(round % VALUES_KINDS), (uint64_t)round, in, GLYD_TILE_ROWS,
                    GLYD_BLOCK_COLS, STRIDE);
        if (round % 2)
            memcpy(in, want, sizeof in); /* in the windows: no escape */
        uint32_t sm[2][GLYD_BLOCK_SM_WORDS + 2 * GUARD_WORDS];
        uint32_t codes[2][GLYD_BLOCK_CODE_WORDS + 2 * GUARD_WORDS];
        fill_guard(sm[0], sizeof sm / 4);
        fill_guard(codes[0], sizeof codes / 4);
        int fill = round % 16;
        int escaped = glyd_variants_c.split(in, STRIDE, bases, fill, sm[0] + GUARD_WORDS,
                                            codes[0] + GUARD_WORDS);
        if (round % 2) {
            assert_int_equal(escaped, 0);
            assert_memory_equal(sm[0] + GUARD_WORDS, sm_at, GLYD_BLOCK_SM_BYTES);
            assert_memory_equal(codes[0] + GUARD_WORDS, codes_at, GLYD_BLOCK_CODE_BYTES);
        }
        for (int v = 1; v <= (int)glyd_cpu_variant(); v++) {
            const glyd_variants *variant = glyd_variants_get((glyd_variant)v);
            memset(got, 0xa5, sizeof got);
            variant->join(sm_at, codes_at, bases, got, STRIDE);
            assert_memory_equal(got, want, sizeof want);
            fill_guard(sm[1], sizeof sm[1] / 4);
            fill_guard(codes[1], sizeof codes[1] / 4);
            assert_int_equal(!!variant->split(in, STRIDE, bases, fill, sm[1] + GUARD_WORDS,
                                              codes[1] + GUARD_WORDS),
                             !!escaped);
            assert_memory_equal(sm[1], sm[0], sizeof sm[0]);
            assert_memory_equal(codes[1], codes[0], sizeof codes[0]);
        }
    }
    cliff_close(&sm_in);
    cliff_close(&codes_in);
}

/* Decode with every variant, all of the words and then ever fewer of them. */
static void decode_all(const uint8_t *words, int64_t n_words, const glyd_lookup *lookup, int blocks,
                       int streams, const uint32_t *expected)
{
    size_t n = (size_t)blocks * GLYD_BLOCK_CODE_WORDS;
    uint32_t *codes = malloc((n + 2 * GUARD_WORDS) * 4);
    for (int v = 0; v <= (int)glyd_cpu_variant(); v++) {
        const glyd_variants *variant = glyd_variants_get((glyd_variant)v);
        uint64_t left = 1;
        fill_guard(codes, n + 2 * GUARD_WORDS);
        int64_t dealt =
            variant->decode(words, n_words, lookup, blocks, streams, codes + GUARD_WORDS, &left);
        assert_in_range(n_words - dealt, 0, 3);
        assert_true(left == 0);
        assert_guard(codes, GUARD_WORDS);
        assert_guard(codes + GUARD_WORDS + n, GUARD_WORDS);
        assert_memory_equal(codes + GUARD_WORDS, expected, n * 4);
        for (int64_t fewer = dealt - 1; fewer >= 0; fewer -= 1 + fewer / 7) {
            /* the same end, so that the words that are missing are those behind the cliff */
            fill_guard(codes, n + 2 * GUARD_WORDS);
            assert_int_equal(variant->decode(words + 4 * (n_words - fewer), fewer, lookup, blocks,
                                             streams, codes + GUARD_WORDS, &left) <= fewer,
                             1);
            assert_guard(codes, GUARD_WORDS);
            assert_guard(codes + GUARD_WORDS + n, GUARD_WORDS);
            cliff c = cliff_open((size_t)fewer * 4);
            memcpy(c.end - fewer * 4, words, (size_t)fewer * 4);
            assert_int_equal(variant->decode(c.end - fewer * 4, fewer, lookup, blocks, streams,
                                             codes + GUARD_WORDS, &left),
                             -1);
            cliff_close(&c);
        }
    }
    free(codes);
}

static void test_decode(void **state)
{
    (void)state;
    static const values kinds[] = {VALUES_ORDINARY, VALUES_SKEWED, VALUES_ONE,    VALUES_TWO,
                                   VALUES_FLAT,     VALUES_ENDS,   VALUES_ESCAPES};
    enum { ROWS = 32, NARROW = 64 * 7, WIDE = 64 * 33, KINDS = sizeof kinds / sizeof *kinds };
    static uint16_t bf16[ROWS * WIDE];
    glyd_lookup *lookup = aligned_alloc(64, sizeof *lookup);
    for (size_t i = 0; i < 2 * KINDS; i++) {
        size_t k = i % KINDS;
        int cols = i < KINDS ? NARROW : WIDE; /* 32 streams, and 64 */
        values_fill(kinds[k], k, bf16, ROWS, cols, cols);
        for (int run_blocks = 1; run_blocks <= 8; run_blocks += 3) {
            glyd_buf out = {0};
            glyd_matrix m;
            glyd_pack_choice choice = {GLYD_LAYOUT_MMA, run_blocks, &glyd_variants_c};
            assert_ok(glyd_pack_with(&choice, bf16, ROWS, cols, cols, NULL, &out, &m, NULL));
            assert_int_equal(m.layout, GLYD_LAYOUT_MMA);
            assert_ok(glyd_lookup_init(lookup, m.array[GLYD_ARRAY_TABLE], NULL));
            for (int64_t run = 0; run < glyd_runs_of(glyd_blocks_of(cols), run_blocks); run++) {
                uint32_t expected[8 * GLYD_BLOCK_CODE_WORDS];
                glyd_run r = glyd_stream_run(&m, 1, run);
                assert_int_equal(glyd_stream_expand(&m, lookup, 1, run, expected), r.blocks);
                /* What the codes stand for is what split finds in the values. */
                for (int block = 0; block < r.blocks; block++) {
                    uint32_t sm[GLYD_BLOCK_SM_WORDS], codes[GLYD_BLOCK_CODE_WORDS];
                    int64_t col = (run * run_blocks + block) * GLYD_BLOCK_COLS;
                    if (glyd_variants_c.split(bf16 + 16 * cols + col, cols,
                                              m.array[GLYD_ARRAY_BASES].data + 16, 0, sm, codes))
                        continue; /* escapes have any code */
                    assert_memory_equal(expected + block * GLYD_BLOCK_CODE_WORDS, codes,
                                        sizeof codes);
                }
                cliff c = cliff_open((size_t)r.n_words * 4);
                memcpy(c.end - r.n_words * 4, r.words, (size_t)r.n_words * 4);
                decode_all(c.end - r.n_words * 4, r.n_words, lookup, r.blocks, r.streams, expected);
                cliff_close(&c);
            }
            glyd_buf_free(&out);
        }
    }
    free(lookup);
}

/* Words that no encoder wrote: the variants agree on what they decode to, and on whether they do.
 */
static void test_decode_noise(void **state)
{
    (void)state;
    enum { BLOCKS_MAX = 5, ROWS = 16, COLS = 1024 };
    static uint16_t bf16[ROWS * COLS];
    uint64_t random = 11;
    glyd_buf out = {0};
    glyd_matrix m;
    glyd_lookup *lookup = aligned_alloc(64, sizeof *lookup);
    values_fill(VALUES_SKEWED, 1, bf16, ROWS, COLS, COLS);
    assert_ok(glyd_pack(GLYD_LAYOUT_MMA, bf16, ROWS, COLS, COLS, NULL, &out, &m, NULL));
    assert_ok(glyd_lookup_init(lookup, m.array[GLYD_ARRAY_TABLE], NULL));
    int decoded = 0;
    for (int round = 0; round < 300; round++) {
        int blocks = 1 + round % BLOCKS_MAX, streams = round / BLOCKS_MAX % 2 ? 32 : 64;
        int64_t n_words = (int64_t)(test_random(&random) >> 40) % (blocks * 250);
        uint8_t *words = malloc((size_t)n_words * 4 + 1);
        for (int64_t i = 0; i < n_words * 4; i++)
            words[i] = (uint8_t)(test_random(&random) >> 40);
        uint32_t codes[2][BLOCKS_MAX * GLYD_BLOCK_CODE_WORDS];
        uint64_t left[2];
        int64_t dealt =
            glyd_variants_c.decode(words, n_words, lookup, blocks, streams, codes[0], &left[0]);
        assert_in_range(dealt + 1, 0, n_words + 1);
        decoded += dealt >= 0;
        for (int v = 1; v <= (int)glyd_cpu_variant(); v++) {
            assert_int_equal(
                glyd_variants_get((glyd_variant)v)
                    ->decode(words, n_words, lookup, blocks, streams, codes[1], &left[1]),
                dealt);
            if (dealt < 0)
                continue;
            assert_int_equal(!left[1], !left[0]);
            assert_memory_equal(codes[1], codes[0], (size_t)blocks * GLYD_BLOCK_CODE_BYTES);
        }
        free(words);
    }
    assert_in_range(decoded, 30, 270); /* both outcomes were seen */
    glyd_buf_free(&out);
    free(lookup);
}

/* Geometry: positions, rows and columns are the same thing seen from two sides. */
static void test_geometry(void **state)
{
    (void)state;
    int seen[GLYD_BLOCK_WEIGHTS] = {0};
    for (int lane = 0; lane < GLYD_LANES; lane++) {
        for (int group = 0; group < GLYD_BLOCK_GROUPS; group++) {
            for (int reg = 0; reg < 4; reg++) {
                for (int half = 0; half < 2; half++) {
                    int p = glyd_position(lane, group, reg, half);
                    int row = lane / 4 + 8 * (reg & 1);
                    int col = 16 * group + 2 * (lane % 4) + 8 * (reg >> 1) + half;
                    assert_int_equal(glyd_position_row(p), row);
                    assert_int_equal(glyd_position_col(p), col);
                    assert_int_equal(glyd_position_at(row, col), p);
                    seen[p]++;
                }
            }
        }
    }
    for (int p = 0; p < GLYD_BLOCK_WEIGHTS; p++)
        assert_int_equal(seen[p], 1);
    uint32_t escape = glyd_escape_make(16383, 1023, 255);
    assert_int_equal(escape, UINT32_MAX);
    assert_int_equal(glyd_escape_block(escape), 16383);
    assert_int_equal(glyd_escape_position(escape), 1023);
    assert_int_equal(glyd_escape_exponent(escape), 255);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_geometry),
        cmocka_unit_test(test_join_and_split),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_decode_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
