/* test_constraint_fault.c - allocations of grammars, vocabularies and constraints made to fail:
 * said so, and nothing leaks. A grammar that was made is whole.
 *
 * failing_malloc.h has how; under sanitizers this test has nothing to test.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "failing_malloc.h"

#include "constraint/constraint.h"
#include "test.h"

static const char *const schemas[] = {
    "{\"properties\":{\"a\":{\"pattern\":\"^[^b]{2,}$\"},\"b\":{\"minimum\":0.5}},"
    "\"additionalProperties\":{\"enum\":[1,\"x\"]}}",
    "{\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#\"},{\"format\":\"date\"}],\"maxItems\":3}",
    "{\"allOf\":[{\"type\":[\"string\",\"integer\"],\"enum\":[\"a\",1,2]},{\"type\":\"integer\"},"
    "{\"enum\":[2,1]}]}",
    "{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":[\"k\"]},"
    "{\"properties\":{\"k\":{\"const\":\"b\"}},\"required\":[\"k\"]}],\"type\":\"object\"}",
};

static glyd_status make_all(const json_t *schema)
{
    static const uint8_t text[] = "{\"a\":12x}";
    static const int32_t stop = 3;
    const glyd_span tokens[4] = {{text, 1}, {text + 1, 3}, {text + 4, 5}, {NULL, 0}};
    glyd_grammar *grammar = NULL;
    glyd_vocabulary *vocabulary = NULL;
    glyd_constraint *constraint = NULL;
    glyd_error err;
    glyd_status status = glyd_vocabulary_from_bytes(tokens, 4, &vocabulary, &err);
    if (status == GLYD_OK)
        status = glyd_grammar_from_schema(schema, NULL, &grammar, &err);
    if (status == GLYD_OK)
        status = glyd_constraint_create(grammar, vocabulary, &stop, 1, &constraint, &err);
    glyd_constraint_free(constraint);
    glyd_grammar_free(grammar);
    glyd_vocabulary_free(vocabulary);
    return status;
}

static void test_each_allocation(void **state)
{
    (void)state;
#if OWN_MALLOC
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        json_t *schema = json_loads(schemas[i], 0, NULL);
        assert_non_null(schema);
        assert_ok(make_all(schema));
        for (long at = 0;; at++) {
            long live = n_live;
            n_failed = 0;
            fail_at = at;
            glyd_status status = make_all(schema);
            fail_at = -1;
            assert_int_equal(n_live, live);
            if (n_failed == 0) {
                assert_ok(status);
                break;
            }
            assert_int_not_equal(status, GLYD_OK);
        }
        json_decref(schema);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
