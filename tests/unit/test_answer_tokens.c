/* test_answer_tokens.c - answers as a server has them: ids through the streaming decoder into the
 * parser, with a byte-level tokenizer whose added tokens are the formats' marks.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "answer_log.h"
#include "base/json.h"
#include "text/unicode.h"

static const char *const special_tokens[] = {"<|im_start|>", "<|im_end|>", "[TOOL_CALLS]", "[ARGS]",
                                             "[CALL_ID]"};
static const char *const plain_tokens[] = {"<think>",
                                           "</think>",
                                           "<tool_call>",
                                           "</tool_call>",
                                           "[THINK]",
                                           "[/THINK]",
                                           "<\xef\xbd\x9cUser\xef\xbd\x9c>"};

/* The character that stands for a byte in a byte-level vocabulary. */
static uint32_t point_of(int byte)
{
    uint32_t n = 0;
    for (int b = 0; b < 256; b++) {
        bool is_own = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte)
            return is_own ? (uint32_t)b : 256 + n;
        n += !is_own;
    }
    return 0;
}

static void add_tokens(json_t *list, const char *const *tokens, size_t n, bool is_special)
{
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:b}", "id", 256 + (int)json_array_size(list),
                                        "content", tokens[i], "special", is_special));
}

/* One token a byte, and the added ones. */
static glyd_tokenizer *new_tokenizer(void)
{
    json_t *vocab = json_object(), *added = json_array();
    glyd_tokenizer *tokenizer;
    glyd_error err = {0};
    for (int byte = 0; byte < 256; byte++) {
        char c[5] = {0};
        glyd_utf8_encode(point_of(byte), c);
        json_object_set_new(vocab, c, json_integer(byte));
    }
    add_tokens(added, special_tokens, sizeof special_tokens / sizeof *special_tokens, true);
    add_tokens(added, plain_tokens, sizeof plain_tokens / sizeof *plain_tokens, false);
    json_t *root =
        json_pack("{s:o, s:{s:s, s:b, s:b}, s:{s:s}, s:{s:s, s:o, s:[]}}", "added_tokens", added,
                  "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0,
                  "decoder", "type", "ByteLevel", "model", "type", "BPE", "vocab", vocab, "merges");
    assert_non_null(root);
    char *text = json_dumps(root, 0);
    if (glyd_tokenizer_parse((glyd_span){(const uint8_t *)text, strlen(text)}, &tokenizer, &err))
        fail_msg("%s", err.text);
    free(text);
    json_decref(root);
    return tokenizer;
}

typedef struct fixture {
    glyd_tokenizer *tokenizer;
    json_t *root;
} fixture;

static glyd_answer_format choose(const glyd_tokenizer *tokenizer, const char *calls,
                                 const char *reasoning)
{
    glyd_answer_format format;
    assert_ok(glyd_answer_format_choose(NULL, (glyd_span){NULL, 0}, tokenizer, calls, reasoning,
                                        &format, NULL));
    return format;
}

static glyd_answer_options options_of(const json_t *root, const json_t *c)
{
    const char *tools = json_string_value(json_object_get(c, "tools"));
    return (glyd_answer_options){.tools = tools && strcmp(tools, "none") == 0 ? GLYD_TOOLS_NONE
                                                                              : GLYD_TOOLS_AUTO,
                                 .is_single = json_is_true(json_object_get(c, "single")),
                                 .is_reasoning = json_is_true(json_object_get(c, "start")),
                                 .tool_list = json_object_get(root, "tools")};
}

/* The log of an answer given as text at once. */
static char *log_of_text(const glyd_answer_format *format, const glyd_answer_options *options,
                         const char *text)
{
    answer_log log = {.last = -1};
    glyd_answer *answer;
    assert_ok(glyd_answer_create(format, options, log_event, &log, &answer, NULL));
    assert_ok(glyd_answer_push(answer, -1, text, strlen(text), NULL));
    assert_ok(glyd_answer_finish(answer, NULL));
    glyd_answer_free(answer);
    log_close(&log);
    char *copy = strdup(glyd_buf_text(&log.text));
    glyd_buf_free(&log.text);
    return copy;
}

/* The same as ids, decoded one by one. */
static char *log_of_ids(const glyd_tokenizer *tokenizer, const glyd_answer_format *format,
                        const glyd_answer_options *options, const glyd_ids *ids)
{
    answer_log log = {.last = -1};
    glyd_answer *answer;
    glyd_detok *detok;
    glyd_buf text = {0};
    assert_ok(glyd_detok_create(tokenizer, GLYD_DECODE_SKIP_SPECIAL, &detok, NULL));
    assert_ok(glyd_answer_create(format, options, log_event, &log, &answer, NULL));
    for (size_t i = 0; i < ids->n; i++) {
        text.bytes = 0;
        assert_ok(glyd_detok_push(detok, ids->data[i], &text, NULL));
        assert_ok(
            glyd_answer_push(answer, ids->data[i], (const char *)text.data, text.bytes, NULL));
    }
    text.bytes = 0;
    assert_ok(glyd_detok_finish(detok, &text, NULL));
    assert_ok(glyd_answer_push(answer, -1, (const char *)text.data, text.bytes, NULL));
    assert_ok(glyd_answer_finish(answer, NULL));
    glyd_answer_free(answer);
    glyd_detok_free(detok);
    glyd_buf_free(&text);
    log_close(&log);
    char *copy = strdup(glyd_buf_text(&log.text));
    glyd_buf_free(&log.text);
    return copy;
}

static glyd_ids encode(const glyd_tokenizer *tokenizer, const char *text, unsigned flags)
{
    glyd_ids ids = {0};
    assert_ok(glyd_tokenizer_encode(tokenizer, text, strlen(text), flags, &ids, NULL));
    return ids;
}

/* A special token that turns out to be no mark is not shown: such cases differ. */
static bool shows_special(const char *log)
{
    for (size_t i = 0; i < sizeof special_tokens / sizeof *special_tokens; i++) {
        if (strstr(log, special_tokens[i]))
            return true;
    }
    return false;
}

static void test_cases(void **state)
{
    const fixture *f = *state;
    const json_t *cases = json_object_get(f->root, "cases");
    size_t n_compared = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        const char *reasoning = json_string_value(json_object_get(c, "reasoning"));
        const char *text = json_string_value(json_object_get(c, "text"));
        const char *calls = json_string_value(json_object_get(c, "format"));
        glyd_answer_format plain = choose(NULL, calls, reasoning ? reasoning : "none");
        glyd_answer_format format = choose(f->tokenizer, calls, reasoning ? reasoning : "none");
        glyd_answer_options options = options_of(f->root, c);
        glyd_ids ids = encode(f->tokenizer, text, GLYD_ENCODE_PARSE_SPECIAL);
        char *wanted = log_of_text(&plain, &options, text);
        char *got = log_of_ids(f->tokenizer, &format, &options, &ids);
        if (!shows_special(wanted)) {
            n_compared++;
            if (strcmp(wanted, got) != 0)
                fail_msg("%s:\n%s\nis not\n%s", json_string_value(json_object_get(c, "name")), got,
                         wanted);
        }
        free(wanted);
        free(got);
        glyd_ids_free(&ids);
    }
    assert_true(n_compared >= 150);
}

static void test_marks_have_ids(void **state)
{
    const fixture *f = *state;
    glyd_answer_format format = choose(f->tokenizer, "mistral", "think");
    assert_int_equal(format.ids[GLYD_MARK_OPEN], glyd_tokenizer_id(f->tokenizer, "[TOOL_CALLS]"));
    assert_true(format.is_special[GLYD_MARK_OPEN]);
    assert_int_equal(format.ids[GLYD_MARK_THINK], glyd_tokenizer_id(f->tokenizer, "<think>"));
    assert_false(format.is_special[GLYD_MARK_THINK]);
    assert_true(format.has_short_ids && format.has_argument_mark);
    format = choose(f->tokenizer, "qwen3_coder", "none");
    assert_int_equal(format.ids[GLYD_MARK_FUNCTION], -1);
    assert_null(format.marks[GLYD_MARK_THINK]);
    /* Without a template nothing is chosen; with a plain one the tokens tell. */
    glyd_span text = {(const uint8_t *)"{{ x }}", 7};
    assert_ok(glyd_answer_format_choose("llama", text, f->tokenizer, NULL, NULL, &format, NULL));
    assert_int_equal(format.calls, GLYD_ANSWER_CALLS_MISTRAL);
    assert_int_equal(format.reasoning, GLYD_ANSWER_REASONING_MISTRAL);
}

static void test_written_by_bytes(void **state)
{
    const fixture *f = *state;
    const char *text = "Write [TOOL_CALLS]now[ARGS]{}.";
    glyd_answer_format format = choose(f->tokenizer, "mistral", "none");
    glyd_answer_options options = {.tools = GLYD_TOOLS_AUTO};
    glyd_ids ids = encode(f->tokenizer, text, 0);
    assert_int_equal(ids.n, strlen(text));
    char *log = log_of_ids(f->tokenizer, &format, &options, &ids);
    assert_string_equal(log, "C(Write [TOOL_CALLS]now[ARGS]{}.)");
    free(log);
    glyd_ids_free(&ids);
}

static void test_prompts(void **state)
{
    static const struct {
        const char *text;
        bool is_reasoning;
    } prompts[] = {
        {"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", false},
        {"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n", true},
        {"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", false},
        /* what a user typed is not the model's */
        {"<|im_start|>user\n<think><|im_end|>\n<|im_start|>assistant\n", false},
        {"<|im_start|>user\n</think><|im_end|>\n<|im_start|>assistant\n<think>", true},
        {"<\xef\xbd\x9cUser\xef\xbd\x9c><think><\xef\xbd\x9cUser\xef\xbd\x9c>", false},
        /* a turn that is continued */
        {"<|im_start|>assistant\n<think>\nLet me see, the", true},
        {"<|im_start|>assistant\n<think>\nOk.</think>The answer", false},
        {"", false},
    };
    const fixture *f = *state;
    glyd_answer_format format = choose(f->tokenizer, "hermes", "think");
    glyd_answer_format none = choose(f->tokenizer, "hermes", "none");
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        glyd_ids ids = encode(f->tokenizer, prompts[i].text, GLYD_ENCODE_PARSE_SPECIAL);
        glyd_span text = {(const uint8_t *)prompts[i].text, strlen(prompts[i].text)};
        assert_int_equal(
            glyd_answer_prompt_is_reasoning(&format, f->tokenizer, text, ids.data, ids.n),
            prompts[i].is_reasoning);
        assert_false(glyd_answer_prompt_is_reasoning(&none, f->tokenizer, text, ids.data, ids.n));
        glyd_ids_free(&ids);
    }
}

static void test_call_ids(void **state)
{
    const fixture *f = *state;
    uint8_t random[16];
    char id[GLYD_CALL_ID_BYTES];
    for (int i = 0; i < 16; i++)
        random[i] = (uint8_t)(i * 17);
    glyd_answer_format format = choose(f->tokenizer, "hermes", "none");
    glyd_answer_call_id(&format, random, id);
    assert_string_equal(id, "chatcmpl-tool-00112233445566778899aabbccddeeff");
    format = choose(f->tokenizer, "mistral", "none");
    glyd_answer_call_id(&format, random, id);
    assert_int_equal(strlen(id), 9);
    assert_int_equal(strspn(id, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
                     9);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f || glyd_json_read("tests/unit/answer_cases.json", 1 << 20, &f->root, NULL) != GLYD_OK)
        return -1;
    f->tokenizer = new_tokenizer();
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    glyd_tokenizer_close(f->tokenizer);
    json_decref(f->root);
    free(f);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_marks_have_ids),
        cmocka_unit_test(test_written_by_bytes),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_call_ids),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
