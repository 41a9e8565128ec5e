/* test_answer_fault.c - every allocation of parsing, shapes and messages made to fail: said so, and
 * nothing leaks.
 *
 * failing_malloc.h has how; under sanitizers this test has nothing to test.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "failing_malloc.h"
#include "test.h"

#include "base/json.h"
#include "text/answer.h"

/* jansson may lose a failure of its own where it can do without: the call may then end well. */
static bool json_failed;

static void *json_allocate(size_t bytes)
{
    long failed = n_failed;
    void *block = malloc(bytes);
    json_failed = json_failed || n_failed > failed;
    return block;
}

static glyd_status ignore(void *arg, const glyd_answer_event *event, glyd_error *err)
{
    (void)arg, (void)event, (void)err;
    return GLYD_OK;
}

static glyd_status parse(const json_t *root, const json_t *c, glyd_error *err)
{
    const json_t *text = json_object_get(c, "text");
    const char *reasoning = json_string_value(json_object_get(c, "reasoning"));
    glyd_answer_options options = {.tools = GLYD_TOOLS_AUTO,
                                   .tool_list = json_object_get(root, "tools")};
    glyd_answer_format format;
    glyd_answer *answer;
    glyd_status status = glyd_answer_format_choose(NULL, (glyd_span){NULL, 0}, NULL,
                                                   json_string_value(json_object_get(c, "format")),
                                                   reasoning ? reasoning : "none", &format, err);
    if (status == GLYD_OK)
        status = glyd_answer_create(&format, &options, ignore, NULL, &answer, err);
    if (status != GLYD_OK)
        return status;
    status = glyd_answer_push(answer, -1, json_string_value(text), json_string_length(text), err);
    if (status == GLYD_OK)
        status = glyd_answer_finish(answer, err);
    glyd_answer_free(answer);
    return status;
}

static glyd_status shape(const json_t *root, const json_t *c, glyd_error *err)
{
    glyd_answer_format format;
    glyd_answer_shape *made;
    glyd_status status = glyd_answer_format_choose(NULL, (glyd_span){NULL, 0}, NULL,
                                                   json_string_value(json_object_get(c, "format")),
                                                   NULL, &format, err);
    if (status != GLYD_OK || format.calls == GLYD_ANSWER_CALLS_NONE)
        return status;
    status =
        glyd_answer_shape_create(&format, json_object_get(root, "tools"), NULL, false, &made, err);
    if (status == GLYD_OK)
        glyd_answer_shape_free(made);
    return status;
}

static glyd_status ready(const json_t *root, const json_t *c, glyd_error *err)
{
    static const glyd_answer_format format = {.has_short_ids = true};
    json_t *out;
    (void)root;
    glyd_status status =
        glyd_answer_messages_for_template(&format, json_object_get(c, "messages"), &out, err);
    if (status == GLYD_OK)
        json_decref(out);
    return status;
}

typedef glyd_status (*work_fn)(const json_t *root, const json_t *c, glyd_error *err);

static void check(work_fn work, const json_t *root, const json_t *c)
{
    assert_ok(work(root, c, NULL)); /* once whole: libraries allocate for good at first */
    for (long at = 0;; at++) {
        glyd_error err = {0};
        long live = n_live;
        n_failed = 0;
        json_failed = false;
        fail_at = at;
        glyd_status status = work(root, c, &err);
        fail_at = -1;
        assert_int_equal(n_live, live);
        if (n_failed == 0) {
            assert_int_equal(status, GLYD_OK);
            return;
        }
        if (json_failed && status == GLYD_OK)
            continue;
        assert_int_equal(status, GLYD_E_NOMEM);
        assert_true(err.text[0]);
    }
}

static void test_parse_and_shape(void **state)
{
    const json_t *root = *state, *cases = json_object_get(root, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        check(parse, root, json_array_get(cases, i));
        check(shape, root, json_array_get(cases, i));
    }
}

static void test_messages(void **state)
{
    json_t *c = json_pack(
        "{s:[{s:s, s:[{s:s, s:s}, {s:s, s:s}]}, {s:s, s:n, s:s, s:[{s:s, s:{s:s, s:s}}]}, "
        "{s:s, s:s, s:s}]}",
        "messages", "role", "developer", "content", "type", "text", "text", "a", "type", "text",
        "text", "b", "role", "assistant", "content", "reasoning", "hm", "tool_calls", "id",
        "abcdefgh1", "function", "name", "f", "arguments", "{\"a\": [1, \"x\"]}", "role", "tool",
        "tool_call_id", "abcdefgh1", "content", "c");
    assert_non_null(c);
    check(ready, *state, c);
    json_decref(c);
}

static int set_up(void **state)
{
    json_t *root;
    json_set_alloc_funcs(json_allocate, free);
    if (glyd_json_read("tests/unit/answer_cases.json", 1 << 20, &root, NULL) != GLYD_OK)
        return -1;
    *state = root;
    return 0;
}

static int tear_down(void **state)
{
    json_decref(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_and_shape),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
