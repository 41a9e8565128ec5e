/* test_answer.c - answers taken apart: every case of answer_cases.json at every cut.
 *
 * A case is a model's output and what it must become, written by hand.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "answer_log.h"
#include "base/error.h"
#include "base/json.h"
#include "text/unicode.h"

typedef struct fixture {
    json_t *root;
    const json_t *tools, *cases;
} fixture;

/* One answer being parsed. */
typedef struct run {
    glyd_answer_format format;
    glyd_answer_options options;
    answer_log log;
    glyd_answer *answer;
} run;

static const char *text_of(const json_t *object, const char *key, const char *absent)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : absent;
}

static void set_up_run(run *r, const fixture *f, const json_t *c)
{
    *r = (run){.log = {.last = -1}};
    assert_ok(glyd_answer_format_choose(NULL, (glyd_span){NULL, 0}, NULL, text_of(c, "format", ""),
                                        text_of(c, "reasoning", "none"), &r->format, NULL));
    r->options.tools =
        strcmp(text_of(c, "tools", ""), "none") == 0 ? GLYD_TOOLS_NONE : GLYD_TOOLS_AUTO;
    r->options.is_single = json_is_true(json_object_get(c, "single"));
    r->options.is_reasoning = json_is_true(json_object_get(c, "start"));
    r->options.tool_list = f->tools;
}

static void begin(run *r)
{
    r->log.text.bytes = 0;
    r->log.last = -1;
    r->log.n_begun = r->log.n_ended = 0;
    assert_ok(glyd_answer_create(&r->format, &r->options, log_event, &r->log, &r->answer, NULL));
}

static void push(run *r, int32_t id, const char *text, size_t bytes)
{
    /* An exact copy, so that a sanitizer sees a read past the end. */
    char *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    assert_ok(glyd_answer_push(r->answer, id, copy, bytes, NULL));
    free(copy);
}

/* The log of the whole answer; the run's buffer. */
static const char *end(run *r)
{
    assert_ok(glyd_answer_finish(r->answer, NULL));
    assert_int_equal(glyd_answer_n_calls(r->answer), r->log.n_begun);
    assert_int_equal(r->log.n_begun, r->log.n_ended);
    glyd_answer_free(r->answer);
    log_close(&r->log);
    const char *text = glyd_buf_text(&r->log.text);
    assert_non_null(text);
    assert_int_equal(glyd_utf8_valid(r->log.text.data, r->log.text.bytes), r->log.text.bytes);
    return text;
}

/* --- what a case must become --- */

typedef struct outcome {
    glyd_buf content, thought;
    json_t *calls;
} outcome;

static glyd_status gather(void *arg, const glyd_answer_event *e, glyd_error *err)
{
    outcome *o = arg;
    (void)err;
    json_t *call = json_array_get(o->calls, json_array_size(o->calls) - 1);
    switch (e->kind) {
    case GLYD_ANSWER_CONTENT:
        return glyd_buf_append(&o->content, e->text.data, e->text.bytes);
    case GLYD_ANSWER_REASONING:
        return glyd_buf_append(&o->thought, e->text.data, e->text.bytes);
    case GLYD_ANSWER_CALL_BEGIN:
        json_array_append_new(o->calls,
                              json_pack("[s%, s]", (const char *)e->text.data, e->text.bytes, ""));
        break;
    case GLYD_ANSWER_CALL_ARGUMENTS: {
        json_t *more = json_stringn((const char *)e->text.data, e->text.bytes);
        json_t *both = json_sprintf("%s%s", json_string_value(json_array_get(call, 1)),
                                    json_string_value(more));
        json_array_set_new(call, 1, both);
        json_decref(more);
        break;
    }
    case GLYD_ANSWER_CALL_END:
        json_array_append_new(call, json_boolean(e->is_complete));
        break;
    }
    return GLYD_OK;
}

static bool is_text(const glyd_buf *buf, const char *text)
{
    return buf->bytes == strlen(text) && (!buf->bytes || memcmp(buf->data, text, buf->bytes) == 0);
}

static bool check_outcome(const fixture *f, const json_t *c)
{
    run r;
    outcome o = {.calls = json_array()};
    set_up_run(&r, f, c);
    const json_t *text = json_object_get(c, "text");
    assert_ok(glyd_answer_create(&r.format, &r.options, gather, &o, &r.answer, NULL));
    push(&r, -1, json_string_value(text), json_string_length(text));
    assert_ok(glyd_answer_finish(r.answer, NULL));
    glyd_answer_free(r.answer);
    bool is_right = is_text(&o.content, text_of(c, "content", "")) &&
                    is_text(&o.thought, text_of(c, "thought", "")) &&
                    json_equal(o.calls, json_object_get(c, "calls"));
    if (!is_right) {
        char *calls = json_dumps(o.calls, 0);
        print_error("%s: content \"%.*s\" thought \"%.*s\" calls %s\n", text_of(c, "name", ""),
                    (int)o.content.bytes, (const char *)o.content.data, (int)o.thought.bytes,
                    (const char *)o.thought.data, calls);
        free(calls);
    }
    glyd_buf_free(&o.content);
    glyd_buf_free(&o.thought);
    json_decref(o.calls);
    return is_right;
}

static void test_outcomes(void **state)
{
    const fixture *f = *state;
    assert_true(json_array_size(f->cases) >= 150);
    size_t n_right = 0;
    for (size_t i = 0; i < json_array_size(f->cases); i++)
        n_right += check_outcome(f, json_array_get(f->cases, i));
    assert_int_equal(n_right, json_array_size(f->cases));
}

/* --- cuts --- */

static void same(const char *wanted, const char *got, const json_t *c, const char *cut, size_t at)
{
    if (strcmp(wanted, got) != 0)
        fail_msg("%s, %s %zu:\n%s\nis not\n%s", text_of(c, "name", ""), cut, at, got, wanted);
}

static void check_cuts(const fixture *f, const json_t *c, uint64_t *seed)
{
    run r;
    const char *text = text_of(c, "text", "");
    size_t n = strlen(text);
    set_up_run(&r, f, c);
    begin(&r);
    push(&r, -1, text, n);
    char *whole = strdup(end(&r));
    assert_non_null(whole);
    for (size_t cut = 0; cut <= n; cut++) {
        begin(&r);
        push(&r, -1, text, cut);
        push(&r, -1, text + cut, n - cut);
        same(whole, end(&r), c, "cut at", cut);
    }
    for (size_t step = 1; step <= 3; step++) {
        begin(&r);
        for (size_t i = 0; i < n; i += step)
            push(&r, -1, text + i, n - i < step ? n - i : step);
        same(whole, end(&r), c, "in pieces of", step);
    }
    for (size_t i_try = 0; i_try < 50; i_try++) {
        begin(&r);
        for (size_t i = 0; i < n;) {
            size_t step = test_random(seed) % 12;
            step = step > n - i ? n - i : step;
            push(&r, -1, text + i, step);
            i += step;
        }
        same(whole, end(&r), c, "cut at random, try", i_try);
    }
    free(whole);
    glyd_buf_free(&r.log.text);
}

static void test_cuts(void **state)
{
    const fixture *f = *state;
    uint64_t seed = 1;
    for (size_t i = 0; i < json_array_size(f->cases); i++)
        check_cuts(f, json_array_get(f->cases, i), &seed);
}

/* --- marks that are tokens --- */

enum { FIRST_ID = 1000, PLAIN_ID = 7 };

static void give_ids(run *r, bool is_special)
{
    for (int mark = 0; mark < GLYD_MARKS; mark++) {
        const char *text = r->format.marks[mark];
        bool is_token = text && text[strlen(text) - 1] != '='; /* no token ends in the middle */
        r->format.ids[mark] = is_token ? FIRST_ID + mark : -1;
        r->format.is_special[mark] = is_token && is_special;
    }
}

/* Every mark by its id, the rest a byte at a time. */
static void push_as_tokens(run *r, const char *text)
{
    while (*text) {
        int found = -1;
        for (int mark = 0; mark < GLYD_MARKS; mark++) {
            const char *own = r->format.marks[mark];
            if (own && r->format.ids[mark] >= 0 && strncmp(text, own, strlen(own)) == 0)
                found = mark;
        }
        const char *own = found >= 0 ? r->format.marks[found] : NULL;
        if (found >= 0)
            push(r, FIRST_ID + found, own, r->format.is_special[found] ? 0 : strlen(own));
        else
            push(r, PLAIN_ID, text, 1);
        text += found >= 0 ? strlen(own) : 1;
    }
}

static void test_tokens(void **state)
{
    const fixture *f = *state;
    for (size_t i = 0; i < json_array_size(f->cases); i++) {
        const json_t *c = json_array_get(f->cases, i);
        const char *text = text_of(c, "text", "");
        run r;
        set_up_run(&r, f, c);
        begin(&r);
        push(&r, -1, text, strlen(text));
        char *whole = strdup(end(&r));
        give_ids(&r, false);
        begin(&r);
        push_as_tokens(&r, text);
        same(whole, end(&r), c, "as tokens", 0);
        free(whole);
        glyd_buf_free(&r.log.text);
    }
}

static void check_log(run *r, const char *wanted)
{
    assert_string_equal(end(r), wanted);
}

static run new_run(const fixture *f, const char *calls, const char *reasoning)
{
    run r = {.log = {.last = -1}, .options = {.tools = GLYD_TOOLS_AUTO, .tool_list = f->tools}};
    assert_ok(glyd_answer_format_choose(NULL, (glyd_span){NULL, 0}, NULL, calls, reasoning,
                                        &r.format, NULL));
    return r;
}

static const char hermes_call[] = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";

/* The characters of a mark are text where the mark is a token, and all of it is shown. */
static void test_written_marks_are_text(void **state)
{
    run r = new_run(*state, "hermes", "think");
    give_ids(&r, false);
    begin(&r);
    push(&r, FIRST_ID + GLYD_MARK_THINK, "<think>", 7);
    push(&r, PLAIN_ID, "a </think> b ", 13);
    push(&r, FIRST_ID + GLYD_MARK_THINK_END, "</think>", 8);
    push(&r, PLAIN_ID, hermes_call, strlen(hermes_call));
    check_log(&r,
              "R(a </think> b )C(<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>)");
    /* Under a constraint characters are all that is known. */
    r.options.tools = GLYD_TOOLS_FORCED;
    begin(&r);
    push(&r, PLAIN_ID, hermes_call, strlen(hermes_call));
    check_log(&r, "B0(now)A({})E+");
    glyd_buf_free(&r.log.text);
}

static void test_special_tokens(void **state)
{
    run r = new_run(*state, "mistral", "none");
    give_ids(&r, true);
    begin(&r);
    push(&r, PLAIN_ID, "Say [TOOL_CALLS] and ", 21);
    push(&r, FIRST_ID + GLYD_MARK_OPEN, "", 0);
    push(&r, PLAIN_ID, "now", 3);
    push(&r, FIRST_ID + GLYD_MARK_SEPARATOR, "[ARGS]", 6); /* decoded with its text: the same */
    push(&r, PLAIN_ID, "{\"a\": \"[ARGS]\"}", 15);
    check_log(&r, "C(Say [TOOL_CALLS] and )B0(now)A({\"a\": \"[ARGS]\"})E+");
    /* A special token that opens nothing is not shown. */
    begin(&r);
    push(&r, PLAIN_ID, "a ", 2);
    push(&r, FIRST_ID + GLYD_MARK_OPEN, "", 0);
    push(&r, PLAIN_ID, " b", 2);
    check_log(&r, "C(a  b)");
    /* What the decoder gives before the token's own text is text. */
    begin(&r);
    push(&r, FIRST_ID + GLYD_MARK_OPEN, "\xef\xbf\xbd[TOOL_CALLS]", 15);
    push(&r, PLAIN_ID, "now{}", 5);
    check_log(&r, "C(\xef\xbf\xbd)B0(now)A({})E+");
    glyd_buf_free(&r.log.text);
}

/* Text that cannot be a call is not held back. */
static void test_nothing_waits(void **state)
{
    run r = new_run(*state, "hermes", "none");
    begin(&r);
    push(&r, -1, "Hello", 5);
    assert_string_equal(glyd_buf_text(&r.log.text), "C(Hello");
    push(&r, -1, " a < b <tool", 12);
    assert_string_equal(glyd_buf_text(&r.log.text), "C(Hello a < b ");
    push(&r, -1, "s ", 2);
    assert_string_equal(glyd_buf_text(&r.log.text), "C(Hello a < b <tools ");
    push(&r, -1, "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": [1", 49);
    assert_non_null(strstr(glyd_buf_text(&r.log.text), ")B0(now)A({\"a\": [1"));
    end(&r);
    glyd_buf_free(&r.log.text);
}

/* Forced, a model may go on calling: at some call it is enough. Unforced it ends by itself. */
static void test_forced_calls_end(void **state)
{
    for (int is_forced = 0; is_forced < 2; is_forced++) {
        run r = new_run(*state, "hermes", "none");
        r.options.tools = is_forced ? GLYD_TOOLS_FORCED : GLYD_TOOLS_AUTO;
        begin(&r);
        for (int i = 1; i <= GLYD_ANSWER_FORCED_CALLS_MAX; i++) {
            assert_false(glyd_answer_is_done(r.answer));
            push(&r, -1, hermes_call, strlen(hermes_call));
        }
        assert_int_equal(glyd_answer_n_calls(r.answer), GLYD_ANSWER_FORCED_CALLS_MAX);
        assert_int_equal(glyd_answer_is_done(r.answer), is_forced);
        end(&r);
        glyd_buf_free(&r.log.text);
    }
}

static void test_done(void **state)
{
    run r = new_run(*state, "hermes", "none");
    r.options.is_single = true;
    begin(&r);
    push(&r, -1, hermes_call, strlen(hermes_call) - strlen("}</tool_call>"));
    assert_false(glyd_answer_is_done(r.answer));
    push(&r, -1, "}", 1);
    assert_true(glyd_answer_is_done(r.answer));
    check_log(&r, "B0(now)A({})E+");
    glyd_buf_free(&r.log.text);
}

static glyd_status refuse_event(void *arg, const glyd_answer_event *e, glyd_error *err)
{
    (void)arg, (void)e;
    return glyd_error_set(err, GLYD_E_CANCELLED, "the client is gone");
}

static void test_event_fails(void **state)
{
    run r = new_run(*state, "hermes", "none");
    glyd_error err = {0};
    assert_ok(glyd_answer_create(&r.format, &r.options, refuse_event, NULL, &r.answer, NULL));
    assert_int_equal(glyd_answer_push(r.answer, -1, "a", 1, &err), GLYD_E_CANCELLED);
    assert_string_equal(err.text, "the client is gone");
    glyd_answer_free(r.answer);
}

/* --- long answers: time that grows with the square would not end --- */

static void push_many(run *r, const char *text, size_t bytes_total)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < bytes_total; i += n)
        assert_ok(glyd_answer_push(r->answer, -1, text, n, NULL));
}

static void test_long(void **state)
{
    static const struct {
        const char *format, *head, *unit;
    } longs[] = {
        {"hermes", "", "word "},
        {"hermes", "", " "},
        {"hermes", "", "<"},
        {"hermes", "", "<tool_call>"},
        {"hermes", "", "<tool_call>{"},
        {"hermes", "<tool_call>{\"arguments\": {\"a\": \"", "x"},
        {"hermes", "<tool_call>{\"arguments\": \"", "\\n"},
        {"hermes", "<tool_call>{\"x\": ", "["},
        {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": ", "{\"a\":"},
        {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {}", "}"},
        {"hermes", "", "<tool_call>{\"name\": \"now\"}</tool_call>"},
        {"llama3_json", "{\"name\": \"", "n"},
        {"mistral", "[TOOL_CALLS]", "n"},
        {"mistral", "[TOOL_CALLS]", "[TOOL_CALLS]n{}"},
        {"deepseek_r1", "", "<\xef\xbd\x9ctool\xe2\x96\x81"},
        {"qwen3_coder", "<tool_call><function=search><parameter=query>", "\n"},
        {"qwen3_coder", "<tool_call><function=search><parameter=query>", "</parameter>\n"},
        {"qwen3_coder", "<tool_call><function=search><parameter=tags>", "[\n"},
        {"qwen3_coder", "<tool_call><function=search>", "<parameter=a>1</parameter>"},
    };
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++) {
        run r = new_run(*state, longs[i].format, "think");
        begin(&r);
        push(&r, -1, longs[i].head, strlen(longs[i].head));
        push_many(&r, longs[i].unit, 1 << 20);
        end(&r);
        glyd_buf_free(&r.log.text);
    }
}

/* --- formats --- */

static void test_format_names(void **state)
{
    (void)state;
    glyd_answer_format format;
    glyd_error err = {0};
    assert_int_equal(
        glyd_answer_format_choose(NULL, (glyd_span){NULL, 0}, NULL, "herms", NULL, &format, &err),
        GLYD_E_ARG);
    assert_string_equal(err.text, "no tool-call format \"herms\"; there are auto, none, hermes, "
                                  "qwen3_coder, llama3_json, mistral, deepseek_r1");
    assert_int_equal(
        glyd_answer_format_choose(NULL, (glyd_span){NULL, 0}, NULL, NULL, "x", &format, &err),
        GLYD_E_ARG);
    assert_string_equal(err.text,
                        "no reasoning format \"x\"; there are auto, none, think, mistral");
    assert_string_equal(glyd_answer_calls_name(GLYD_ANSWER_CALLS_QWEN3_CODER), "qwen3_coder");
    assert_string_equal(glyd_answer_reasoning_name(GLYD_ANSWER_REASONING_THINK), "think");
}

static void test_format_by_template(void **state)
{
    (void)state;
    static const struct {
        const char *text, *calls, *reasoning;
    } templates[] = {
        {"", "none", "none"},
        {"{{ messages }}", "none", "none"},
        {"<|im_start|>", "hermes", "none"},
        {"<tool_call> {% if '</think>' in content %}", "hermes", "think"},
        {"<tool_call>\n<function=x>\n<parameter=y> <think>", "qwen3_coder", "think"},
        {"<|python_tag|>", "llama3_json", "none"},
        {"<|start_header_id|> message.tool_calls", "llama3_json", "none"},
        {"<|start_header_id|>", "none", "none"},
        {"[TOOL_CALLS] [", "mistral", "none"},
        {"[TOOL_CALLS] [ARGS] [THINK]", "mistral", "mistral"},
        {"<\xef\xbd\x9ctool\xe2\x96\x81"
         "calls\xe2\x96\x81"
         "begin\xef\xbd\x9c> ```json </think>",
         "deepseek_r1", "think"},
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        glyd_answer_format format;
        glyd_span text = {(const uint8_t *)templates[i].text, strlen(templates[i].text)};
        assert_ok(glyd_answer_format_choose("llama", text, NULL, "auto", NULL, &format, NULL));
        assert_string_equal(glyd_answer_calls_name(format.calls), templates[i].calls);
        assert_string_equal(glyd_answer_reasoning_name(format.reasoning), templates[i].reasoning);
    }
}

static void test_prompt_text(void **state)
{
    run r = new_run(*state, "hermes", "think");
    static const struct {
        const char *text;
        bool is_reasoning;
    } prompts[] = {{"user: <think>?\nassistant:", false},
                   {"assistant:\n<think>\n", true},
                   {"assistant:\n<think>\n\n</think>\n\n", false},
                   {"", false},
                   {"<think>", true}};
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        glyd_span text = {(const uint8_t *)prompts[i].text, strlen(prompts[i].text)};
        assert_int_equal(glyd_answer_prompt_is_reasoning(&r.format, NULL, text, NULL, 0),
                         prompts[i].is_reasoning);
    }
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    glyd_error err;
    if (!f || glyd_json_read("tests/unit/answer_cases.json", 1 << 20, &f->root, &err) != GLYD_OK)
        return -1;
    f->tools = json_object_get(f->root, "tools");
    f->cases = json_object_get(f->root, "cases");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    json_decref(f->root);
    free(f);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outcomes),         cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_tokens),           cmocka_unit_test(test_written_marks_are_text),
        cmocka_unit_test(test_special_tokens),   cmocka_unit_test(test_nothing_waits),
        cmocka_unit_test(test_forced_calls_end), cmocka_unit_test(test_done),
        cmocka_unit_test(test_event_fails),      cmocka_unit_test(test_long),
        cmocka_unit_test(test_format_names),     cmocka_unit_test(test_format_by_template),
        cmocka_unit_test(test_prompt_text),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
