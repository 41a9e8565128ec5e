/* test_constraint.c - masks, ends, errors and limits of constrained sampling, over small
 * vocabularies. What grammars allow is held against oracles in tests/constraint.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "constraint/constraint.h"
#include "test.h"

enum { BYTES = 256, STOP = 256, N_IDS = 258, WORDS = (N_IDS + 63) / 64 };

/* Ids 0 to 255 are bytes, 256 stops, 257 is a longer token. */
static glyd_vocabulary *byte_vocabulary(void)
{
    static const uint8_t longer[] = "\"},";
    uint8_t bytes[BYTES];
    glyd_span tokens[N_IDS] = {{NULL, 0}};
    glyd_vocabulary *vocabulary;
    for (int i = 0; i < BYTES; i++) {
        bytes[i] = (uint8_t)i;
        tokens[i] = (glyd_span){bytes + i, 1};
    }
    tokens[257] = (glyd_span){longer, 3};
    assert_ok(glyd_vocabulary_from_bytes(tokens, N_IDS, &vocabulary, NULL));
    return vocabulary;
}

typedef struct fixture {
    glyd_vocabulary *vocabulary;
    glyd_grammar *grammar;
    glyd_constraint *constraint;
    uint64_t mask[WORDS + 1];
} fixture;

static void begin(fixture *f, glyd_grammar *grammar)
{
    static const int32_t stop = STOP;
    f->vocabulary = byte_vocabulary();
    f->grammar = grammar;
    assert_ok(glyd_constraint_create(grammar, f->vocabulary, &stop, 1, &f->constraint, NULL));
}

static void end(fixture *f)
{
    glyd_constraint_free(f->constraint);
    glyd_grammar_free(f->grammar);
    glyd_vocabulary_free(f->vocabulary);
}

static void begin_regex(fixture *f, const char *pattern)
{
    glyd_grammar *grammar;
    assert_ok(glyd_grammar_from_regex(pattern, strlen(pattern), &grammar, NULL));
    begin(f, grammar);
}

static void begin_schema(fixture *f, const char *text)
{
    glyd_grammar *grammar;
    json_t *schema = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(schema);
    assert_ok(glyd_grammar_from_schema(schema, NULL, &grammar, NULL));
    json_decref(schema);
    begin(f, grammar);
}

static int count_allowed(fixture *f)
{
    int n = 0;
    memset(f->mask, 0xFF, sizeof f->mask);
    assert_ok(glyd_constraint_mask(f->constraint, f->mask, WORDS + 1, NULL));
    for (int i = 0; i < (WORDS + 1) * 64; i++)
        n += (int)(f->mask[i / 64] >> i % 64 & 1);
    return n;
}

static bool allows(const fixture *f, int32_t id)
{
    return f->mask[id / 64] >> id % 64 & 1;
}

static void feed(fixture *f, const char *text)
{
    for (; *text; text++)
        assert_ok(glyd_constraint_accept(f->constraint, (uint8_t)*text, NULL));
}

static void test_mask_and_end(void **state)
{
    fixture f;
    (void)state;
    begin_regex(&f, "ab?");
    assert_int_equal(count_allowed(&f), 1);
    assert_true(allows(&f, 'a'));
    assert_false(glyd_constraint_may_end(f.constraint));
    assert_int_equal(glyd_constraint_accept(f.constraint, STOP, NULL), GLYD_E_ARG);
    assert_int_equal(glyd_constraint_accept(f.constraint, 'b', NULL), GLYD_E_ARG);
    feed(&f, "a");
    assert_int_equal(count_allowed(&f), 2);
    assert_true(allows(&f, 'b') && allows(&f, STOP));
    assert_true(glyd_constraint_may_end(f.constraint));
    assert_false(glyd_constraint_is_finished(f.constraint));
    feed(&f, "b");
    assert_int_equal(count_allowed(&f), 1);
    assert_true(allows(&f, STOP));
    assert_true(glyd_constraint_is_finished(f.constraint));
    assert_ok(glyd_constraint_accept(f.constraint, STOP, NULL));
    assert_int_equal(count_allowed(&f), 1);
    assert_int_equal(glyd_constraint_accept(f.constraint, STOP, NULL), GLYD_E_ARG);
    end(&f);
}

/* A mask only clears: what the caller has ruled out stays so. */
static void test_mask_only_clears(void **state)
{
    fixture f;
    (void)state;
    begin_regex(&f, "[ab]");
    memset(f.mask, 0, sizeof f.mask);
    f.mask['a' / 64] |= (uint64_t)1 << 'a' % 64;
    assert_ok(glyd_constraint_mask(f.constraint, f.mask, WORDS + 1, NULL));
    assert_true(allows(&f, 'a'));
    assert_false(allows(&f, 'b'));
    end(&f);
}

static void test_token_across_levels(void **state)
{
    fixture f;
    (void)state;
    begin_schema(&f, "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"a\":"
                     "{\"type\":\"string\"}},\"required\":[\"a\"]},\"maxItems\":2}");
    feed(&f, "[{\"a\":\"x");
    count_allowed(&f);
    assert_true(allows(&f, 257));
    assert_ok(glyd_constraint_accept(f.constraint, 257, NULL));
    feed(&f, "{\"a\":\"y");
    count_allowed(&f);
    assert_false(allows(&f, 257)); /* no third element may come */
    assert_int_equal(glyd_constraint_accept(f.constraint, 257, NULL), GLYD_E_ARG);
    feed(&f, "\"}]");
    assert_true(glyd_constraint_is_finished(f.constraint));
    end(&f);
}

/* Two sequences over one grammar do not see each other. */
static void test_sequences_are_apart(void **state)
{
    static const int32_t stop = STOP;
    fixture f;
    glyd_constraint *other;
    (void)state;
    begin_regex(&f, "a{3}|b{3}");
    assert_ok(glyd_constraint_create(f.grammar, f.vocabulary, &stop, 1, &other, NULL));
    feed(&f, "aa");
    assert_ok(glyd_constraint_accept(other, 'b', NULL));
    feed(&f, "a");
    assert_int_equal(glyd_constraint_accept(other, 'a', NULL), GLYD_E_ARG);
    assert_true(glyd_constraint_is_finished(f.constraint));
    assert_false(glyd_constraint_is_finished(other));
    glyd_constraint_free(other);
    end(&f);
}

static void test_stop_ids(void **state)
{
    static const int32_t beyond = 100000;
    fixture f;
    glyd_constraint *none;
    (void)state;
    begin_regex(&f, "a");
    assert_int_equal(glyd_constraint_create(f.grammar, f.vocabulary, &beyond, 1, &none, NULL),
                     GLYD_E_ARG);
    assert_int_equal(glyd_constraint_create(f.grammar, f.vocabulary, NULL, 0, &none, NULL),
                     GLYD_E_ARG);
    assert_int_equal(glyd_constraint_accept(f.constraint, -1, NULL), GLYD_E_ARG);
    assert_int_equal(glyd_constraint_accept(f.constraint, N_IDS, NULL), GLYD_E_ARG);
    end(&f);
}

/* A stop id that is a text token, too, ends the text and is not matched. */
static void test_stop_id_with_text(void **state)
{
    static const int32_t stop = 'b';
    fixture f;
    (void)state;
    begin_regex(&f, "a[bc]?");
    glyd_constraint_free(f.constraint);
    assert_ok(glyd_constraint_create(f.grammar, f.vocabulary, &stop, 1, &f.constraint, NULL));
    assert_int_equal(count_allowed(&f), 1);
    feed(&f, "a");
    assert_int_equal(count_allowed(&f), 2);
    assert_true(allows(&f, 'b') && allows(&f, 'c'));
    feed(&f, "b");
    assert_true(glyd_constraint_is_finished(f.constraint));
    end(&f);
}

/* A vocabulary that cannot spell what must come: an error, not an empty or an open mask. */
static void test_dead_end(void **state)
{
    static const int32_t stop = 1;
    static const uint8_t a[] = "a";
    glyd_span tokens[2] = {{a, 1}, {NULL, 0}};
    glyd_vocabulary *vocabulary;
    glyd_grammar *grammar;
    glyd_constraint *constraint;
    glyd_error err = {0};
    uint64_t mask = UINT64_MAX;
    (void)state;
    assert_ok(glyd_vocabulary_from_bytes(tokens, 2, &vocabulary, NULL));
    assert_ok(glyd_grammar_from_regex("ab", 2, &grammar, NULL));
    assert_ok(glyd_constraint_create(grammar, vocabulary, &stop, 1, &constraint, NULL));
    assert_ok(glyd_constraint_mask(constraint, &mask, 1, NULL));
    assert_int_equal(mask, 1);
    assert_ok(glyd_constraint_accept(constraint, 0, NULL));
    mask = UINT64_MAX;
    assert_int_equal(glyd_constraint_mask(constraint, &mask, 1, &err), GLYD_E_LIMIT);
    assert_int_equal(mask, 0);
    assert_true(err.text[0] != 0);
    glyd_constraint_free(constraint);
    glyd_grammar_free(grammar);
    glyd_vocabulary_free(vocabulary);
}

/* Far more places than are remembered: nothing changes but what is kept. */
static void test_many_places(void **state)
{
    fixture f;
    (void)state;
    begin_schema(&f, "{\"type\":\"array\",\"minItems\":20000,\"items\":"
                     "{\"type\":\"array\",\"minItems\":3,\"items\":{\"type\":\"integer\"}}}");
    feed(&f, "[");
    for (int i = 0; i < 20000; i++) {
        feed(&f, i ? ",[1,23" : "[1,23");
        if (i % 500 == 0) {
            count_allowed(&f);
            assert_false(allows(&f, ']'));
        }
        feed(&f, ",4]");
        if (i % 500 == 0) {
            count_allowed(&f);
            assert_true(allows(&f, ','));
            assert_int_equal(allows(&f, ']'), i == 19999);
        }
    }
    feed(&f, "]");
    assert_true(glyd_constraint_is_finished(f.constraint));
    end(&f);
}

static void test_errors_name_the_keyword(void **state)
{
    glyd_grammar *grammar;
    glyd_error err = {0};
    json_t *schema = json_loads("{\"properties\":{\"a\":{\"items\":{\"multipleOf\":2}}}}", 0, NULL);
    (void)state;
    assert_int_equal(glyd_grammar_from_schema(schema, NULL, &grammar, &err), GLYD_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "#/properties/a/items/multipleOf"));
    json_decref(schema);
    assert_int_equal(glyd_grammar_from_regex("a(?!b)", 6, &grammar, &err), GLYD_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "offset"));
    assert_int_equal(glyd_grammar_from_choice(NULL, 0, &grammar, &err), GLYD_E_ARG);
}

/* A schema as deep as jansson reads: a limit, not a crash. */
static void test_deep_schema(void **state)
{
    glyd_grammar *grammar;
    json_t *schema = json_pack("{s:s}", "type", "string");
    (void)state;
    for (int i = 0; i < 2000; i++)
        schema = json_pack("{s:o}", "items", schema);
    assert_int_equal(glyd_grammar_from_schema(schema, NULL, &grammar, NULL), GLYD_E_LIMIT);
    json_decref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_and_end),
        cmocka_unit_test(test_mask_only_clears),
        cmocka_unit_test(test_token_across_levels),
        cmocka_unit_test(test_sequences_are_apart),
        cmocka_unit_test(test_stop_ids),
        cmocka_unit_test(test_stop_id_with_text),
        cmocka_unit_test(test_dead_end),
        cmocka_unit_test(test_many_places),
        cmocka_unit_test(test_errors_name_the_keyword),
        cmocka_unit_test(test_deep_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
