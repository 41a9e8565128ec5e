/* answer_format.c - which format a model writes in, and the marks of each.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "text/answer.h"
#include <string.h>

static const char *const calls_names[] = {
#define CALLS_NAME(name, text) [GLYD_ANSWER_CALLS_##name] = (text),
    GLYD_ANSWER_CALLS_LIST(CALLS_NAME)
#undef CALLS_NAME
};

static const char *const reasoning_names[] = {
#define REASONING_NAME(name, text) [GLYD_ANSWER_REASONING_##name] = (text),
    GLYD_ANSWER_REASONING_LIST(REASONING_NAME)
#undef REASONING_NAME
};

/* deepseek's bars are U+FF5C, its spaces U+2581. */
#define DEEPSEEK(a, b)     "<\xef\xbd\x9c" a "\xe2\x96\x81" b "\xef\xbd\x9c>"
#define DEEPSEEK3(a, b, c) DEEPSEEK(a, b "\xe2\x96\x81" c)

static const char *const calls_marks[GLYD_ANSWER_CALLS_KINDS][GLYD_MARKS] = {
    [GLYD_ANSWER_CALLS_HERMES] =
        {[GLYD_MARK_OPEN] = "<tool_call>", [GLYD_MARK_CLOSE] = "</tool_call>"},
    [GLYD_ANSWER_CALLS_QWEN3_CODER] = {[GLYD_MARK_OPEN] = "<tool_call>",
                                       [GLYD_MARK_CLOSE] = "</tool_call>",
                                       [GLYD_MARK_FUNCTION] = "<function=",
                                       [GLYD_MARK_FUNCTION_END] = "</function>",
                                       [GLYD_MARK_PARAMETER] = "<parameter=",
                                       [GLYD_MARK_PARAMETER_END] = "</parameter>"},
    [GLYD_ANSWER_CALLS_LLAMA3_JSON] = {[GLYD_MARK_OPEN] = "<|python_tag|>"},
    [GLYD_ANSWER_CALLS_MISTRAL] = {[GLYD_MARK_OPEN] = "[TOOL_CALLS]",
                                   [GLYD_MARK_SEPARATOR] = "[ARGS]",
                                   [GLYD_MARK_ID] = "[CALL_ID]"},
    [GLYD_ANSWER_CALLS_DEEPSEEK_R1] = {[GLYD_MARK_OPEN] = DEEPSEEK3("tool", "calls", "begin"),
                                       [GLYD_MARK_CLOSE] = DEEPSEEK3("tool", "calls", "end"),
                                       [GLYD_MARK_CALL] = DEEPSEEK3("tool", "call", "begin"),
                                       [GLYD_MARK_CALL_END] = DEEPSEEK3("tool", "call", "end"),
                                       [GLYD_MARK_SEPARATOR] = DEEPSEEK("tool", "sep")},
};

static const char *const reasoning_marks[GLYD_ANSWER_REASONING_KINDS][GLYD_MARKS] = {
    [GLYD_ANSWER_REASONING_THINK] =
        {[GLYD_MARK_THINK] = "<think>", [GLYD_MARK_THINK_END] = "</think>"},
    [GLYD_ANSWER_REASONING_MISTRAL] =
        {[GLYD_MARK_THINK] = "[THINK]", [GLYD_MARK_THINK_END] = "[/THINK]"},
};

const char *glyd_answer_calls_name(glyd_answer_calls calls)
{
    return calls_names[calls];
}

const char *glyd_answer_reasoning_name(glyd_answer_reasoning reasoning)
{
    return reasoning_names[reasoning];
}

/* --- choosing --- */

static bool has_text(glyd_span text, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; n <= text.bytes && i <= text.bytes - n; i++) {
        if (text.data[i] == (uint8_t)what[0] && memcmp(text.data + i, what, n) == 0)
            return true;
    }
    return false;
}

static bool has_token(const glyd_tokenizer *tokenizer, const char *token)
{
    return tokenizer && glyd_tokenizer_id(tokenizer, token) >= 0;
}

static bool is_family(const char *family, const char *beginning)
{
    return family && strncmp(family, beginning, strlen(beginning)) == 0;
}

static glyd_answer_calls choose_calls(const char *family, glyd_span text,
                                      const glyd_tokenizer *tokenizer)
{
    if (text.bytes == 0)
        return GLYD_ANSWER_CALLS_NONE;
    if (has_text(text, "[TOOL_CALLS]"))
        return GLYD_ANSWER_CALLS_MISTRAL;
    if (has_text(text, DEEPSEEK3("tool", "calls", "begin")))
        return GLYD_ANSWER_CALLS_DEEPSEEK_R1;
    if (has_text(text, "<function=") && has_text(text, "<parameter="))
        return GLYD_ANSWER_CALLS_QWEN3_CODER;
    if (has_text(text, "<tool_call>"))
        return GLYD_ANSWER_CALLS_HERMES;
    if (has_text(text, "<|python_tag|>") || has_token(tokenizer, "<|python_tag|>") ||
        (has_text(text, "<|start_header_id|>") && has_text(text, "tool_calls")))
        return GLYD_ANSWER_CALLS_LLAMA3_JSON;
    if (has_token(tokenizer, "[TOOL_CALLS]"))
        return GLYD_ANSWER_CALLS_MISTRAL;
    if (has_token(tokenizer, DEEPSEEK3("tool", "calls", "begin")))
        return GLYD_ANSWER_CALLS_DEEPSEEK_R1;
    /* Models of the ChatML form that were taught calls were taught Hermes' (SmolLM2 too). */
    if (has_token(tokenizer, "<tool_call>") || has_text(text, "<|im_start|>") ||
        is_family(family, "qwen"))
        return GLYD_ANSWER_CALLS_HERMES;
    return GLYD_ANSWER_CALLS_NONE;
}

static glyd_answer_reasoning choose_reasoning(glyd_span text, const glyd_tokenizer *tokenizer)
{
    if (text.bytes == 0)
        return GLYD_ANSWER_REASONING_NONE;
    if (has_text(text, "[THINK]") || has_token(tokenizer, "[THINK]"))
        return GLYD_ANSWER_REASONING_MISTRAL;
    if (has_text(text, "</think>") || has_text(text, "<think>") || has_token(tokenizer, "</think>"))
        return GLYD_ANSWER_REASONING_THINK;
    return GLYD_ANSWER_REASONING_NONE;
}

/* The place of a name in a list; -1 for "auto" and NULL. */
static glyd_status find_name(const char *name, const char *what, const char *const *names, int n,
                             int *found, glyd_error *err)
{
    char list[256] = "auto";
    *found = -1;
    if (!name || strcmp(name, "auto") == 0)
        return GLYD_OK;
    for (int i = 0; i < n; i++) {
        if (strcmp(name, names[i]) == 0) {
            *found = i;
            return GLYD_OK;
        }
        size_t used = strlen(list);
        GLYD_ASSERT(used + strlen(names[i]) + 3 <= sizeof list);
        memcpy(list + used, ", ", 2);
        memcpy(list + used + 2, names[i], strlen(names[i]) + 1);
    }
    GLYD_FAIL(err, GLYD_E_ARG, "no %s format \"%s\"; there are %s", what, name, list);
}

static void set_marks(glyd_answer_format *format, const glyd_tokenizer *tokenizer)
{
    for (int mark = 0; mark < GLYD_MARKS; mark++) {
        const char *text = reasoning_marks[format->reasoning][mark];
        if (!text)
            text = calls_marks[format->calls][mark];
        format->marks[mark] = text;
        format->ids[mark] = text && tokenizer ? glyd_tokenizer_id(tokenizer, text) : -1;
        format->is_special[mark] =
            format->ids[mark] >= 0 && glyd_tokenizer_is_special(tokenizer, format->ids[mark]);
    }
}

glyd_status glyd_answer_format_choose(const char *family, glyd_span chat_template,
                                      const glyd_tokenizer *tokenizer, const char *calls,
                                      const char *reasoning, glyd_answer_format *format,
                                      glyd_error *err)
{
    int i_calls, i_reasoning;
    GLYD_TRY(find_name(calls, "tool-call", calls_names, GLYD_ANSWER_CALLS_KINDS, &i_calls, err));
    GLYD_TRY(find_name(reasoning, "reasoning", reasoning_names, GLYD_ANSWER_REASONING_KINDS,
                       &i_reasoning, err));
    *format = (glyd_answer_format){
        .calls = i_calls < 0 ? choose_calls(family, chat_template, tokenizer)
                             : (glyd_answer_calls)i_calls,
        .reasoning = i_reasoning < 0 ? choose_reasoning(chat_template, tokenizer)
                                     : (glyd_answer_reasoning)i_reasoning,
        /* Newer tokenizers have the token in models whose template writes lists. */
        .has_argument_mark =
            has_text(chat_template, "[ARGS]") ||
            (!has_text(chat_template, "[TOOL_CALLS]") && has_token(tokenizer, "[ARGS]")),
        .has_fence = has_text(chat_template, "```json"),
        .knows_developer = has_text(chat_template, "developer"),
    };
    format->has_short_ids = format->calls == GLYD_ANSWER_CALLS_MISTRAL;
    set_marks(format, tokenizer);
    return GLYD_OK;
}

/* --- the prompt --- */

/* Whether a token begins or ends a turn: special, or written like one ("<|...|>"). */
static bool is_turn_token(const glyd_tokenizer *tokenizer, int32_t id)
{
    glyd_span t = glyd_tokenizer_token(tokenizer, id);
    const char bar[] = "\xef\xbd\x9c";
    if (glyd_tokenizer_is_special(tokenizer, id))
        return true;
    if (t.bytes < 5 || t.data[0] != '<' || t.data[t.bytes - 1] != '>')
        return false;
    return t.data[1] == '|' || memcmp(t.data + 1, bar, 3) == 0;
}

static bool ends_with_mark(glyd_span text, const char *mark)
{
    size_t n = strlen(mark);
    while (text.bytes > 0 && strchr(" \n\r\t", text.data[text.bytes - 1]) &&
           text.data[text.bytes - 1])
        text.bytes--;
    return text.bytes >= n && memcmp(text.data + text.bytes - n, mark, n) == 0;
}

bool glyd_answer_prompt_is_reasoning(const glyd_answer_format *format,
                                     const glyd_tokenizer *tokenizer, glyd_span text,
                                     const int32_t *ids, size_t n_ids)
{
    const char *mark = format->marks[GLYD_MARK_THINK];
    int32_t begin = format->ids[GLYD_MARK_THINK], end = format->ids[GLYD_MARK_THINK_END];
    if (!mark)
        return false;
    if (begin < 0 || end < 0 || !tokenizer || !ids)
        return ends_with_mark(text, mark);
    for (size_t i = n_ids; i-- > 0;) {
        if (ids[i] == begin)
            return true;
        if (ids[i] == end || is_turn_token(tokenizer, ids[i]))
            return false;
    }
    return false;
}
