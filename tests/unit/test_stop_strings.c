/* test_stop_strings.c - stop strings in a text that comes in any pieces.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "test.h"

#include "server/stop_strings.h"

static glyd_stop_strings make(const char *const *texts, int n)
{
    glyd_stop_strings stops = {.n = n};
    for (int i = 0; i < n; i++)
        stops.text[i] = (glyd_span){(const uint8_t *)texts[i], strlen(texts[i])};
    return stops;
}

/* Feed `text` in pieces as a server does: what is safe is passed on, the rest waits. Returns how
 * many bytes were passed on; *which is the stop string that was found. */
static size_t feed(const glyd_stop_strings *stops, const char *text, uint64_t *random, int *which)
{
    size_t n = strlen(text), passed = 0, seen = 0;
    *which = -1;
    for (size_t end = 0; end < n && *which < 0;) {
        size_t piece = 1 + (random ? test_random(random) % 4 : 0);
        end = end + piece < n ? end + piece : n;
        glyd_stop_match match = glyd_stop_strings_find(
            stops, (glyd_span){(const uint8_t *)text + passed, end - passed}, seen - passed);
        *which = match.which;
        assert_true(match.begin <= end - passed && match.end >= match.begin);
        passed += match.begin;
        seen = end;
    }
    return passed;
}

static void test_found_where_a_byte_by_byte_reader_ends(void **state)
{
    (void)state;
    static const char *const texts[] = {"abab", "ba", "ccc", "d"};
    uint64_t random = 7;
    for (int round = 0; round < 20000; round++) {
        char text[24] = "";
        size_t n = test_random(&random) % (sizeof text - 1);
        for (size_t i = 0; i < n; i++)
            text[i] = "abcd"[test_random(&random) % (round % 2 ? 4 : 3)];
        int first = (int)(test_random(&random) % 4), which, cut;
        glyd_stop_strings stops = make(texts + first, 4 - first);
        size_t passed = feed(&stops, text, NULL, &which);
        /* The reference: the stop string that ends first, of these the longest. */
        const char *best = NULL;
        int best_which = -1;
        for (int i = 0; i < stops.n; i++) {
            const char *at = strstr(text, texts[first + i]);
            if (at && (!best || at + stops.text[i].bytes < best + stops.text[best_which].bytes)) {
                best = at;
                best_which = i;
            }
        }
        assert_int_equal(which, best_which);
        if (best)
            assert_int_equal(passed, best - text);
        /* In larger pieces the same one is found, where no two end in one piece. */
        size_t again = feed(&stops, text, &random, &cut);
        assert_int_equal(cut, which);
        if (best)
            assert_int_equal(again, passed);
    }
}

static void test_nothing_is_held_that_need_not_be(void **state)
{
    (void)state;
    static const char *const texts[] = {"stop", "</s>"};
    glyd_stop_strings stops = make(texts, 2);
    static const struct {
        const char *text;
        size_t safe;
    } cases[] = {{"", 0},    {"a", 1},    {"s", 0},   {"as", 1},    {"asto", 1},
                 {"stx", 3}, {"a</s", 1}, {"sts", 2}, {"stosto", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        glyd_span text = {(const uint8_t *)cases[i].text, strlen(cases[i].text)};
        glyd_stop_match match = glyd_stop_strings_find(&stops, text, 0);
        assert_int_equal(match.which, -1);
        assert_int_equal(match.begin, cases[i].safe);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_where_a_byte_by_byte_reader_ends),
        cmocka_unit_test(test_nothing_is_held_that_need_not_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
