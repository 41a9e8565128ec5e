/* test_answer_shape.c - an answer that keeps to the shape of forced calls is read as these calls.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "test.h"

#include "answer_log.h"

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"find\", \"parameters\": {"
    "\"type\": \"object\", \"$defs\": {\"n\": {\"type\": \"integer\"}}, \"properties\": {"
    "\"query\": {\"type\": \"string\"}, \"kind\": {\"type\": \"string\", \"enum\": [\"a\", \"b\"]},"
    "\"limit\": {\"$ref\": \"#/$defs/n\"}}, \"required\": [\"query\", \"kind\"]}}},"
    "{\"type\": \"function\", \"function\": {\"name\": \"no\\\"w\"}}]";

/* An answer made from a shape: how many more repetitions, and which of a choice. */
typedef struct writer {
    glyd_answer *answer;
    size_t choice;
    int more; /* repetitions beyond the least */
    const char *object, *until;
    glyd_buf text;
    int n_schemas_with_defs;
} writer;

static void write_text(writer *w, int32_t id, const void *text, size_t bytes)
{
    assert_ok(glyd_buf_append(&w->text, text, bytes));
    if (w->answer)
        assert_ok(glyd_answer_push(w->answer, id, text, bytes, NULL));
}

static void write_part(writer *w, const glyd_answer_part *part);

static void write_once(writer *w, const glyd_answer_part *part)
{
    switch (part->kind) {
    case GLYD_ANSWER_PART_LITERAL:
    case GLYD_ANSWER_PART_TOKEN:
        write_text(w, part->kind == GLYD_ANSWER_PART_TOKEN ? part->id : 7, part->text.data,
                   part->text.bytes);
        break;
    case GLYD_ANSWER_PART_UNTIL:
        write_text(w, 7, w->until, strlen(w->until));
        write_text(w, 7, part->text.data, part->text.bytes);
        break;
    case GLYD_ANSWER_PART_SCHEMA: {
        const char *type = json_string_value(json_object_get(part->schema, "type"));
        const char *value = type && strcmp(type, "object") == 0 ? w->object : "5";
        w->n_schemas_with_defs += json_object_get(part->schema, "$defs") != NULL;
        write_text(w, 7, value, strlen(value));
        break;
    }
    case GLYD_ANSWER_PART_OBJECT:
        write_text(w, 7, "{}", 2);
        break;
    case GLYD_ANSWER_PART_SEQUENCE:
        for (size_t i = 0; i < part->n_parts; i++)
            write_part(w, &part->parts[i]);
        break;
    case GLYD_ANSWER_PART_CHOICE:
        assert_true(part->n_parts > 0);
        write_part(w, &part->parts[w->choice % part->n_parts]);
        break;
    }
}

static void write_part(writer *w, const glyd_answer_part *part)
{
    int n = part->min == 0 && part->max == 0 ? 1 : part->min + w->more;
    if (part->max > 0 && n > part->max)
        n = part->max;
    for (int i = 0; i < n; i++)
        write_once(w, part);
}

typedef struct shape_case {
    const char *format;
    bool has_argument_mark, has_fence, has_ids, is_single;
    const char *name; /* of the only function, or NULL */
    writer w;
    const char *text, *log; /* what is written, what is read */
} shape_case;

#define DS(a, b) "<\xef\xbd\x9c" a "\xe2\x96\x81" b "\xef\xbd\x9c>"
#define CALLS_BEGIN                                                                                \
    DS("tool", "calls\xe2\x96\x81"                                                                 \
               "begin")
#define CALLS_END                                                                                  \
    DS("tool", "calls\xe2\x96\x81"                                                                 \
               "end")
#define CALL_BEGIN                                                                                 \
    DS("tool", "call\xe2\x96\x81"                                                                  \
               "begin")
#define CALL_END                                                                                   \
    DS("tool", "call\xe2\x96\x81"                                                                  \
               "end")
#define ONE   "{\"query\":\"q\"}"
#define FOUND "B0(find)A(" ONE ")E+"

static const shape_case cases[] = {
    {"hermes", .is_single = true, .name = "find", .w = {.object = ONE},
     .text = "<tool_call>\n{\"name\": \"find\", \"arguments\": " ONE "}\n</tool_call>",
     .log = FOUND},
    {"hermes", .has_ids = true, .w = {.object = ONE, .more = 1},
     .text = "<tool_call>\n{\"name\": \"find\", \"arguments\": " ONE "}\n</tool_call>\n"
             "<tool_call>\n{\"name\": \"find\", \"arguments\": " ONE "}\n</tool_call>",
     .log = FOUND "B1(find)A(" ONE ")E+"},
    {"hermes", .is_single = true, .w = {.object = ONE, .choice = 1},
     .text = "<tool_call>\n{\"name\": \"no\\\"w\", \"arguments\": {}}\n</tool_call>",
     .log = "B0(no\"w)A({})E+"},
    {"llama3_json", .w = {.object = ONE, .more = 1},
     .text = "{\"name\": \"find\", \"parameters\": " ONE "}; "
             "{\"name\": \"find\", \"parameters\": " ONE "}",
     .log = FOUND "B1(find)A(" ONE ")E+"},
    {"mistral", .w = {.object = ONE, .more = 1},
     .text = "[TOOL_CALLS][{\"name\": \"find\", \"arguments\": " ONE "}, "
             "{\"name\": \"find\", \"arguments\": " ONE "}]",
     .log = FOUND "B1(find)A(" ONE ")E+"},
    {"mistral", .has_argument_mark = true, .has_ids = true, .name = "find",
     .w = {.object = ONE, .more = 1},
     .text = "[TOOL_CALLS]find[ARGS]" ONE "[TOOL_CALLS]find[ARGS]" ONE,
     .log = FOUND "B1(find)A(" ONE ")E+"},
    {"deepseek_r1", .has_fence = true, .name = "find", .w = {.object = ONE},
     .text = CALLS_BEGIN CALL_BEGIN "function" DS("tool", "sep") "find\n```json\n" ONE
                                                                 "\n```" CALL_END CALLS_END,
     .log = FOUND},
    {"deepseek_r1", .has_ids = true, .name = "find", .w = {.object = ONE},
     .text = CALLS_BEGIN CALL_BEGIN "find" DS("tool", "sep") ONE CALL_END CALLS_END, .log = FOUND},
    {"qwen3_coder", .is_single = true, .name = "find", .w = {.until = "a\n<b>"},
     .text = "<tool_call>\n<function=find>\n<parameter=query>\na\n<b>\n</parameter>\n"
             "<parameter=kind>\na\n</parameter>\n</function>\n</tool_call>",
     .log = "B0(find)A({\"query\": \"a\\n<b>\", \"kind\": \"a\"})E+"},
    {"qwen3_coder", .is_single = true, .has_ids = true, .name = "find",
     .w = {.until = "", .choice = 3, .more = 1},
     .text = "<tool_call>\n<function=find>\n<parameter=query>\n\n</parameter>\n"
             "<parameter=kind>\nb\n</parameter>\n<parameter=limit>\n5\n</parameter>\n"
             "</function>\n</tool_call>",
     .log = "B0(find)A({\"query\": \"\", \"kind\": \"b\", \"limit\": 5})E+"},
};

static glyd_answer_format format_of(const shape_case *c)
{
    glyd_answer_format format;
    assert_ok(glyd_answer_format_choose(NULL, (glyd_span){NULL, 0}, NULL, c->format, NULL, &format,
                                        NULL));
    format.has_argument_mark = c->has_argument_mark;
    format.has_fence = c->has_fence;
    for (int mark = 0; c->has_ids && mark < GLYD_MARKS; mark++) {
        const char *text = format.marks[mark];
        if (text && text[strlen(text) - 1] != '=')
            format.ids[mark] = 1000 + mark;
    }
    return format;
}

static void test_shapes(void **state)
{
    (void)state;
    json_t *tools = json_loads(tools_text, 0, NULL);
    assert_non_null(tools);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const shape_case *c = &cases[i];
        glyd_answer_format format = format_of(c);
        glyd_answer_options options = {.tools = GLYD_TOOLS_FORCED, .tool_list = tools};
        glyd_answer_shape *shape;
        answer_log log = {.last = -1};
        writer w = c->w;
        assert_ok(glyd_answer_shape_create(&format, tools, c->name, c->is_single, &shape, NULL));
        assert_ok(glyd_answer_create(&format, &options, log_event, &log, &w.answer, NULL));
        write_part(&w, glyd_answer_shape_root(shape));
        assert_ok(glyd_answer_finish(w.answer, NULL));
        assert_string_equal(glyd_buf_text(&w.text), c->text);
        assert_string_equal(glyd_buf_text(&log.text), c->log);
        if (strstr(c->log, "limit")) /* what a parameter refers to comes with it */
            assert_int_equal(w.n_schemas_with_defs, 1);
        glyd_answer_free(w.answer);
        glyd_answer_shape_free(shape);
        glyd_buf_free(&w.text);
        glyd_buf_free(&log.text);
    }
    json_decref(tools);
}

static void test_refused(void **state)
{
    (void)state;
    json_t *tools = json_loads(tools_text, 0, NULL), *nameless = json_loads("[{}]", 0, NULL);
    glyd_answer_shape *shape;
    glyd_error err;
    glyd_answer_format format = format_of(&cases[0]),
                       none = format_of(&(shape_case){.format = "none"});
    assert_int_equal(glyd_answer_shape_create(&format, tools, "lost", true, &shape, &err),
                     GLYD_E_ARG);
    assert_string_equal(err.text, "tool_choice: no tool is named \"lost\"");
    assert_int_equal(glyd_answer_shape_create(&format, NULL, NULL, true, &shape, &err), GLYD_E_ARG);
    assert_string_equal(err.text, "tool_choice: there are no tools to choose from");
    assert_int_equal(glyd_answer_shape_create(&format, nameless, NULL, true, &shape, &err),
                     GLYD_E_ARG);
    assert_string_equal(err.text, "tools[0]: the function has no name");
    assert_int_equal(glyd_answer_shape_create(&none, tools, NULL, true, &shape, &err),
                     GLYD_E_UNSUPPORTED);
    json_decref(tools);
    json_decref(nameless);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
