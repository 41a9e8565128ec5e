/* test_quads.c - quads and digits: every code that can be written comes back, by every decoder, and
 * nothing is read past a record's end.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/cpu.h"
#include "codec/load.h"
#include "codec/quads.h"
#include "test.h"

enum {
    BLOCKS = GLYD_QUAD_RUN_BLOCKS,
    WORDS = BLOCKS * GLYD_BLOCK_CODE_WORDS,
    GUARD_WORDS = 16,
    GUARD = (int)0xa5a5a5a5,
};

typedef int64_t (*decoder)(const glyd_quads *q, const uint8_t *index, const uint8_t *record,
                           int64_t bytes, int blocks, uint32_t *codes);

/* Those that this processor runs; NULL past the last. */
static decoder decoder_get(int i)
{
    if (i == 0)
        return glyd_quads_decode_c;
#if defined(__x86_64__)
    if (i == 1 && glyd_cpu_variant() >= GLYD_VARIANT_AVX2)
        return glyd_quads_decode_bmi2;
#endif
    return NULL;
}

/* Codes: 0 to `most`, or mostly those that are constants. */
static void fill_codes(uint32_t *codes, int n, int most, int constants, uint64_t *random)
{
    for (int i = 0; i < n; i++) {
        codes[i] = 0;
        for (int shift = 0; shift < 32; shift += 4) {
            uint64_t r = test_random(random) >> 20;
            uint32_t code = (uint32_t)(r % (uint64_t)(most + 1));
            if ((int)(r >> 16 & 15) < constants)
                code = 6 + (uint32_t)(r >> 24 & 3);
            codes[i] |= code << shift;
        }
    }
}

static void test_patterns(void **state)
{
    (void)state;
    glyd_quads q;
    glyd_quads_init(&q);
    int with_six = 0;
    for (int i = 0; i < GLYD_QUAD_PATTERNS; i++) {
        int digits = 0, six = 0;
        for (int byte = 0; byte < 4; byte++) {
            uint32_t mark = q.marks[i] >> 8 * byte & 255, code = q.codes[i] >> 8 * byte & 255;
            assert_true(mark ? mark == 7 && code == 0 : code >= 6 && code <= 9);
            digits += mark != 0;
            six |= code == 6;
        }
        with_six += six;
        assert_int_equal(q.digits[i], digits);
    }
    assert_int_equal(with_six, 256);
    for (int tuple = 0, place; tuple < GLYD_QUAD_TUPLES; tuple++) {
        int i = q.index[tuple];
        place = 125;
        for (int byte = 0; byte < 4; byte++, place /= 5) {
            int symbol = tuple / place % 5;
            uint32_t mark = q.marks[i] >> 8 * byte & 7, code = q.codes[i] >> 8 * byte & 255;
            if (mark)
                assert_true(symbol == 4 || symbol == 3); /* a digit may stand for a 6 */
            else
                assert_int_equal(code, 9 - symbol);
        }
    }
}

/* Encode and decode a run of codes that can be written. */
static void round_trip(const glyd_quads *q, const uint32_t *codes, int blocks, uint64_t *random)
{
    uint32_t escapes[8], back[GLYD_QUAD_ESCAPES_MAX], out[WORDS + 2 * GUARD_WORDS];
    int n_escapes = (int)(test_random(random) >> 40 & 7), n = blocks * GLYD_BLOCK_CODE_WORDS;
    int64_t first = 4 * (int64_t)(test_random(random) >> 52), digits = 0;
    for (int i = 0; i < n_escapes; i++)
        escapes[i] = glyd_escape_make(first + i * blocks / 8, 100 * i + 17, 255 - i);
    for (int i = 0; i < blocks; i++)
        digits += glyd_quads_count(q, codes + i * GLYD_BLOCK_CODE_WORDS);
    int64_t bytes = glyd_quads_record_bytes(digits, n_escapes);
    assert_true(bytes <= GLYD_QUAD_RECORD_MAX);
    uint8_t *record = malloc((size_t)bytes + 4), index[BLOCKS * GLYD_QUAD_INDEX_BYTES];
    assert_non_null(record);
    memset(record + bytes, 0xa5, 4);
    glyd_quads_encode(q, codes, blocks, escapes, n_escapes, index, record);
    assert_int_equal(glyd_load_u32(record + bytes, 0), (uint32_t)GUARD);
    assert_int_equal(glyd_quads_escapes(record, bytes, first, back), n_escapes);
    assert_memory_equal(back, escapes, (size_t)n_escapes * 4);
    int64_t bits = GLYD_QUAD_HEAD_BITS + GLYD_QUAD_ESCAPE_BITS * n_escapes + 3 * digits;
    for (int i = 0; decoder_get(i); i++) {
        for (int64_t fewer = bytes; fewer >= 4; fewer -= 4 + fewer / 64 * 4) {
            uint8_t *cut = malloc((size_t)fewer); /* exactly, so that a read past it is found */
            assert_non_null(cut);
            memcpy(cut, record, (size_t)fewer);
            memset(out, 0xa5, sizeof out);
            assert_int_equal(decoder_get(i)(q, index, cut, fewer, blocks, out + GUARD_WORDS), bits);
            for (int k = 0; k < GUARD_WORDS; k++) {
                assert_int_equal(out[k], (uint32_t)GUARD);
                assert_int_equal(out[GUARD_WORDS + n + k], (uint32_t)GUARD);
            }
            if (fewer == bytes)
                assert_memory_equal(out + GUARD_WORDS, codes, (size_t)n * 4);
            free(cut);
        }
    }
    free(record);
}

static void test_round_trips(void **state)
{
    (void)state;
    glyd_quads q;
    glyd_quads_init(&q);
    uint64_t random = 11;
    uint32_t codes[WORDS], before[WORDS];
    for (int round = 0; round < 300; round++) {
        int blocks = 1 + round % BLOCKS, n = blocks * GLYD_BLOCK_CODE_WORDS;
        fill_codes(codes, n, round % 3 == 0 ? 15 : 10, round % 17, &random);
        memcpy(before, codes, sizeof before);
        int changed = 0;
        for (int i = 0; i < blocks; i++)
            changed |= glyd_quads_limit(&q, codes + i * GLYD_BLOCK_CODE_WORDS);
        assert_int_equal(changed, memcmp(before, codes, (size_t)n * 4) != 0);
        for (int i = 0; i < n; i++) {
            for (int shift = 0; shift < 32; shift += 4) {
                uint32_t was = before[i] >> shift & 15, is = codes[i] >> shift & 15;
                assert_true(is == was || is == GLYD_QUAD_FILL);
                assert_true(is < GLYD_QUAD_CODES);
            }
        }
        for (int i = 0; i < blocks; i++)
            assert_int_equal(glyd_quads_limit(&q, codes + i * GLYD_BLOCK_CODE_WORDS), 0);
        round_trip(&q, codes, blocks, &random);
    }
}

/* A lane's row has at most 8 digits, and keeps them as long as it has no more. */
static void test_limit(void **state)
{
    (void)state;
    glyd_quads q;
    glyd_quads_init(&q);
    uint32_t codes[GLYD_BLOCK_CODE_WORDS];
    for (int digits = 0; digits <= 16; digits++) {
        memset(codes, 0x88, sizeof codes);
        for (int i = 0; i < digits; i++) /* of lane 9's row g + 8 */
            codes[36 + i / 4] &= ~(0xf0U << 8 * (i % 4));
        assert_int_equal(glyd_quads_limit(&q, codes), digits > 8);
        assert_int_equal(glyd_quads_count(&q, codes), digits < 8 ? digits : 8);
        for (int i = 0; i < digits; i++)
            assert_int_equal(codes[36 + i / 4] >> (8 * (i % 4) + 4) & 15, i < 8 ? 0 : 8);
    }
}

/* Any index and any record: every decoder gives the same, within its output. */
static void test_noise(void **state)
{
    (void)state;
    glyd_quads q;
    glyd_quads_init(&q);
    uint64_t random = 3;
    for (int round = 0; round < 200; round++) {
        uint8_t index[BLOCKS * GLYD_QUAD_INDEX_BYTES];
        int64_t bytes = 4 + 4 * (int64_t)(test_random(&random) >> 56), bits = 0;
        uint8_t *record = malloc((size_t)bytes);
        assert_non_null(record);
        for (size_t i = 0; i < sizeof index; i++)
            index[i] = (uint8_t)(test_random(&random) >> 40);
        for (int64_t i = 0; i < bytes; i++)
            record[i] = (uint8_t)(test_random(&random) >> 40);
        record[1] &= round % 2 ? 0 : 255;
        uint32_t codes[2][WORDS], escapes[GLYD_QUAD_ESCAPES_MAX];
        int n = glyd_quads_escapes(record, bytes, 8, escapes);
        assert_int_equal(n<0, 16 + 20 * (int64_t)glyd_load_u16(record, 0)> bytes * 8 ||
                         glyd_load_u16(record, 0) > GLYD_QUAD_ESCAPES_MAX);
        for (int i = 0; decoder_get(i); i++) {
            int64_t found = decoder_get(i)(&q, index, record, bytes, BLOCKS, codes[i > 0]);
            if (i)
                assert_memory_equal(codes[1], codes[0], sizeof codes[0]);
            assert_true(i == 0 || found == bits);
            bits = found;
        }
        free(record);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
