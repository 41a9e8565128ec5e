/* answer.c - an answer's text and ids become symbols, and symbols become content, reasoning and
 * calls.
 *
 * Each byte is looked at once: what may be the beginning of a mark waits in `held`, which is
 * shorter than the longest mark.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/answer_parser.h"
#include <stdlib.h>
#include <string.h>

glyd_status glyd_answer_create(const glyd_answer_format *format, const glyd_answer_options *options,
                               glyd_answer_fn fn, void *arg, glyd_answer **answer, glyd_error *err)
{
    glyd_answer *a = calloc(1, sizeof *a);
    if (!a)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the parser of an answer");
    a->format = format;
    a->options = *options;
    if (format->calls == GLYD_ANSWER_CALLS_NONE)
        a->options.tools = GLYD_TOOLS_NONE;
    a->fn = fn;
    a->arg = arg;
    a->is_fresh = true;
    a->may_think = format->reasoning != GLYD_ANSWER_REASONING_NONE;
    a->place = a->may_think && options->is_reasoning ? ANSWER_AT_REASONING : ANSWER_AT_CONTENT;
    *answer = a;
    return GLYD_OK;
}

void glyd_answer_free(glyd_answer *answer)
{
    if (!answer)
        return;
    glyd_buf *bufs[] = {&answer->held, &answer->out, &answer->space, &answer->raw, &answer->name};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        glyd_buf_free(bufs[i]);
    glyd_answer_json_deinit(&answer->json);
    glyd_answer_tagged_deinit(&answer->tagged);
    free(answer);
}

int glyd_answer_n_calls(const glyd_answer *answer)
{
    return answer->n_calls;
}

bool glyd_answer_is_done(const glyd_answer *answer)
{
    return answer->is_done;
}

bool glyd_answer_is_reasoning(const glyd_answer *answer)
{
    bool is_candidate = answer->place == ANSWER_AT_CALL && !answer->is_committed;
    return answer->place == ANSWER_AT_REASONING ||
           (is_candidate && answer->fallback == ANSWER_AT_REASONING);
}

/* --- output --- */

glyd_status glyd_answer_keep(glyd_answer *a, glyd_buf *buf, const void *data, size_t bytes)
{
    if (glyd_buf_append(buf, data, bytes) != GLYD_OK)
        GLYD_FAIL(a->err, GLYD_E_NOMEM, "out of memory for an answer");
    return GLYD_OK;
}

/* Bytes at the end that begin a character and do not end it. */
static size_t unfinished(const uint8_t *text, size_t bytes)
{
    for (size_t n = 1; n <= 3 && n <= bytes; n++) {
        uint8_t c = text[bytes - n];
        if ((c & 0xc0) == 0x80)
            continue;
        size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        return length > n ? n : 0;
    }
    return 0;
}

/* Give the function what is there; all of it, or what ends on a character. */
static glyd_status flush(glyd_answer *a, bool is_all)
{
    size_t rest =
        is_all || a->out_kind == GLYD_ANSWER_CALL_BEGIN ? 0 : unfinished(a->out.data, a->out.bytes);
    size_t bytes = a->out.bytes - rest;
    if (bytes == 0)
        return GLYD_OK;
    glyd_answer_event event = {
        .kind = a->out_kind, .index = a->n_calls - 1, .text = {a->out.data, bytes}};
    if (a->out_kind < GLYD_ANSWER_CALL_BEGIN)
        event.index = 0;
    GLYD_TRY(a->fn(a->arg, &event, a->err));
    memmove(a->out.data, a->out.data + bytes, rest);
    a->out.bytes = rest;
    return GLYD_OK;
}

glyd_status glyd_answer_emit(glyd_answer *a, glyd_answer_kind kind, const void *data, size_t bytes)
{
    bool is_of_call = kind >= GLYD_ANSWER_CALL_BEGIN;
    if (is_of_call && a->is_muted)
        return GLYD_OK;
    /* A begin and an end are events of their own. */
    if (a->out_kind != kind || kind == GLYD_ANSWER_CALL_BEGIN)
        GLYD_TRY(flush(a, true));
    a->out_kind = kind;
    return glyd_answer_keep(a, &a->out, data, bytes);
}

glyd_status glyd_answer_emit_end(glyd_answer *a, bool is_complete)
{
    if (a->is_muted)
        return GLYD_OK;
    GLYD_TRY(flush(a, true));
    glyd_answer_event event = {.kind = GLYD_ANSWER_CALL_END,
                               .index = a->n_calls - 1,
                               .text = {(const uint8_t *)"", 0},
                               .is_complete = is_complete};
    return a->fn(a->arg, &event, a->err);
}

glyd_span glyd_answer_symbol_text(const glyd_answer *a, const answer_symbol *symbol)
{
    if (symbol->mark == ANSWER_NO_MARK)
        return (glyd_span){&symbol->byte, 1};
    if (symbol->is_hidden)
        return (glyd_span){(const uint8_t *)"", 0};
    const char *text = a->format->marks[symbol->mark];
    return (glyd_span){(const uint8_t *)text, strlen(text)};
}

bool glyd_answer_is_space(const answer_symbol *symbol)
{
    uint8_t c = symbol->byte;
    return symbol->mark == ANSWER_NO_MARK && (c == ' ' || c == '\n' || c == '\r' || c == '\t');
}

/* --- content and reasoning --- */

/* Text after white space: both are passed on. */
static glyd_status emit_text(glyd_answer *a, glyd_answer_kind kind, const answer_symbol *symbol)
{
    glyd_span text = glyd_answer_symbol_text(a, symbol);
    if (text.bytes == 0)
        return GLYD_OK;
    GLYD_TRY(glyd_answer_emit(a, kind, a->space.data, a->space.bytes));
    a->space.bytes = 0;
    a->is_fresh = false;
    return glyd_answer_emit(a, kind, text.data, text.bytes);
}

static void begin_place(glyd_answer *a, answer_place place)
{
    a->place = place;
    a->is_fresh = true;
    a->space.bytes = 0;
}

static glyd_status content_step(glyd_answer *a, const answer_symbol *symbol)
{
    const glyd_answer_format *f = a->format;
    if (a->is_fresh && glyd_answer_is_space(symbol))
        return glyd_answer_keep(a, &a->space, &symbol->byte, 1);
    if (a->is_fresh && a->may_think &&
        (symbol->mark == GLYD_MARK_THINK || symbol->mark == GLYD_MARK_THINK_END)) {
        /* An end without a beginning: the prompt had closed the reasoning already. */
        bool begins = symbol->mark == GLYD_MARK_THINK;
        begin_place(a, begins ? ANSWER_AT_REASONING : ANSWER_AT_CONTENT);
        a->may_think = begins;
        return GLYD_OK;
    }
    if (a->options.tools != GLYD_TOOLS_NONE) {
        a->fallback = ANSWER_AT_CONTENT;
        a->is_marked = symbol->mark == GLYD_MARK_OPEN || symbol->mark == GLYD_MARK_CALL;
        if (symbol->mark == GLYD_MARK_OPEN)
            return glyd_answer_call_open(a, symbol, CALL_START);
        if (symbol->mark == GLYD_MARK_CALL)
            return glyd_answer_call_open(a, symbol, CALL_HEAD);
        if (symbol->mark == GLYD_MARK_FUNCTION)
            return glyd_answer_call_open(a, symbol, CALL_FUNCTION);
        if (f->calls == GLYD_ANSWER_CALLS_LLAMA3_JSON && a->is_fresh && a->n_calls == 0 &&
            answer_is_byte(symbol, '{'))
            return glyd_answer_call_open(a, symbol, CALL_JSON);
    }
    return emit_text(a, GLYD_ANSWER_CONTENT, symbol);
}

static glyd_status reasoning_step(glyd_answer *a, const answer_symbol *symbol)
{
    if (symbol->mark == GLYD_MARK_THINK_END) {
        a->may_think = false;
        begin_place(a, ANSWER_AT_CONTENT);
        return GLYD_OK;
    }
    if (a->is_fresh && symbol->mark == GLYD_MARK_THINK)
        return GLYD_OK; /* the prompt had opened it already */
    if (a->is_fresh && glyd_answer_is_space(symbol))
        return glyd_answer_keep(a, &a->space, &symbol->byte, 1);
    if (a->options.tools != GLYD_TOOLS_NONE && a->format->calls == GLYD_ANSWER_CALLS_QWEN3_CODER &&
        symbol->mark == GLYD_MARK_OPEN) {
        a->fallback = ANSWER_AT_REASONING;
        a->is_marked = true;
        return glyd_answer_call_open(a, symbol, CALL_START);
    }
    return emit_text(a, GLYD_ANSWER_REASONING, symbol);
}

static glyd_status take(glyd_answer *a, answer_symbol symbol)
{
    bool again = false;
    do {
        switch (a->place) {
        case ANSWER_AT_CONTENT:
            GLYD_TRY(content_step(a, &symbol));
            again = false;
            break;
        case ANSWER_AT_REASONING:
            GLYD_TRY(reasoning_step(a, &symbol));
            again = false;
            break;
        case ANSWER_AT_CALL:
            GLYD_TRY(glyd_answer_call_step(a, &symbol, &again));
            break;
        case ANSWER_AT_GAP:
            GLYD_TRY(glyd_answer_gap_step(a, &symbol, &again));
            break;
        }
    } while (again);
    return GLYD_OK;
}

/* --- from text to symbols --- */

/* Whether the characters of a mark count. */
static bool is_in_text(const glyd_answer *a, int mark)
{
    return a->format->marks[mark] &&
           (a->format->ids[mark] < 0 || !a->has_id || a->options.tools == GLYD_TOOLS_FORCED);
}

/* The mark that `held` is; *may_become: it could be the beginning of one. */
static int find_mark(const glyd_answer *a, bool *may_become)
{
    *may_become = false;
    for (int mark = 0; mark < GLYD_MARKS; mark++) {
        if (!is_in_text(a, mark))
            continue;
        const char *text = a->format->marks[mark];
        size_t bytes = strlen(text);
        if (a->held.bytes > bytes || memcmp(text, a->held.data, a->held.bytes) != 0)
            continue;
        if (a->held.bytes == bytes)
            return mark;
        *may_become = true;
    }
    return ANSWER_NO_MARK;
}

static bool may_begin_mark(uint8_t byte)
{
    return byte == '<' || byte == '[';
}

static glyd_status take_held_byte(glyd_answer *a)
{
    answer_symbol symbol = {ANSWER_NO_MARK, a->held.data[0], false};
    memmove(a->held.data, a->held.data + 1, --a->held.bytes);
    return take(a, symbol);
}

static glyd_status take_text(glyd_answer *a, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)text[i];
        if (a->held.bytes == 0 && !may_begin_mark(byte)) {
            GLYD_TRY(take(a, (answer_symbol){ANSWER_NO_MARK, byte, false}));
            continue;
        }
        GLYD_TRY(glyd_answer_keep(a, &a->held, &byte, 1));
        while (a->held.bytes > 0) {
            bool may_become;
            int mark = find_mark(a, &may_become);
            if (mark != ANSWER_NO_MARK) {
                a->held.bytes = 0;
                GLYD_TRY(take(a, (answer_symbol){mark, 0, false}));
            } else if (may_become) {
                break;
            } else {
                GLYD_TRY(take_held_byte(a));
            }
        }
    }
    return GLYD_OK;
}

static int mark_of_id(const glyd_answer_format *format, int32_t id)
{
    for (int mark = 0; id >= 0 && mark < GLYD_MARKS; mark++) {
        if (format->marks[mark] && format->ids[mark] == id)
            return mark;
    }
    return ANSWER_NO_MARK;
}

glyd_status glyd_answer_push(glyd_answer *answer, int32_t id, const char *text, size_t bytes,
                             glyd_error *err)
{
    glyd_answer *a = answer;
    GLYD_ASSERT(!a->is_finished);
    if (bytes > GLYD_TEXT_BYTES_MAX - a->bytes)
        GLYD_FAIL(err, GLYD_E_LIMIT, "the answer is over %zu bytes", GLYD_TEXT_BYTES_MAX);
    a->bytes += bytes;
    a->err = err;
    a->has_id = id >= 0;
    int mark = mark_of_id(a->format, id);
    if (mark != ANSWER_NO_MARK) {
        const char *own = a->format->marks[mark];
        size_t n = strlen(own);
        /* What stands before it is the end of a character that never came. */
        if (bytes >= n && memcmp(text + bytes - n, own, n) == 0)
            bytes -= n;
    }
    GLYD_TRY(take_text(a, text, bytes));
    if (mark != ANSWER_NO_MARK) {
        while (a->held.bytes > 0)
            GLYD_TRY(take_held_byte(a));
        GLYD_TRY(take(a, (answer_symbol){mark, 0, a->format->is_special[mark]}));
    }
    return flush(a, false);
}

glyd_status glyd_answer_finish(glyd_answer *answer, glyd_error *err)
{
    glyd_answer *a = answer;
    GLYD_ASSERT(!a->is_finished);
    a->err = err;
    while (a->held.bytes > 0)
        GLYD_TRY(take_held_byte(a));
    a->is_finished = true;
    if (a->place == ANSWER_AT_CALL)
        GLYD_TRY(glyd_answer_call_finish(a));
    if (a->place == ANSWER_AT_CONTENT && a->is_fresh && a->n_calls == 0)
        GLYD_TRY(glyd_answer_emit(a, GLYD_ANSWER_CONTENT, a->space.data, a->space.bytes));
    return flush(a, true);
}
