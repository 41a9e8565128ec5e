/* answer_call.c - a call from what opens it to what closes it, in each format but for the JSON
 * (answer_json.c) and the tagged values (answer_tagged.c).
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/answer_parser.h"
#include <string.h>

const json_t *glyd_answer_function(const json_t *tool_list, const char *name, size_t bytes)
{
    for (size_t i = 0; i < json_array_size(tool_list); i++) {
        const json_t *function = json_object_get(json_array_get(tool_list, i), "function");
        const json_t *own = json_object_get(function, "name");
        if (json_is_string(own) && json_string_length(own) == bytes &&
            memcmp(json_string_value(own), name, bytes) == 0)
            return function;
    }
    return NULL;
}

bool glyd_answer_call_is_believed(const glyd_answer *a)
{
    return a->is_marked ||
           glyd_answer_function(a->options.tool_list, (const char *)a->name.data, a->name.bytes);
}

static glyd_status keep_raw(glyd_answer *a, const answer_symbol *symbol)
{
    glyd_span text = glyd_answer_symbol_text(a, symbol);
    return a->is_committed ? GLYD_OK : glyd_answer_keep(a, &a->raw, text.data, text.bytes);
}

glyd_status glyd_answer_call_open(glyd_answer *a, const answer_symbol *symbol, call_state state)
{
    a->place = ANSWER_AT_CALL;
    a->call = state;
    a->is_committed = false;
    a->is_muted = false;
    a->is_list = a->is_list && state == CALL_JSON;
    a->raw.bytes = a->name.bytes = 0;
    glyd_answer_json_start(&a->json);
    GLYD_TRY(keep_raw(a, symbol));
    if (state != CALL_JSON)
        return GLYD_OK;
    answer_step step;
    return glyd_answer_json_step(a, symbol, &step); /* it is the "{" */
}

glyd_status glyd_answer_call_commit(glyd_answer *a)
{
    a->fallback = ANSWER_AT_CONTENT;
    a->may_think = false;
    a->is_committed = true;
    a->is_closed = false;
    a->raw.bytes = a->space.bytes = 0;
    a->is_muted = a->options.is_single && a->n_calls > 0;
    if (a->is_muted)
        return GLYD_OK;
    /* What was before goes out under the last index. */
    GLYD_TRY(glyd_answer_emit(a, GLYD_ANSWER_CALL_BEGIN, "", 0));
    a->n_calls++;
    return glyd_answer_emit(a, GLYD_ANSWER_CALL_BEGIN, a->name.data, a->name.bytes);
}

/* A candidate that is none: what was held back is text. */
static glyd_status refuse(glyd_answer *a)
{
    bool is_reasoning = a->fallback == ANSWER_AT_REASONING;
    glyd_answer_kind kind = is_reasoning ? GLYD_ANSWER_REASONING : GLYD_ANSWER_CONTENT;
    a->place = a->fallback;
    a->is_list = false;
    if (a->raw.bytes == 0)
        return GLYD_OK;
    GLYD_TRY(glyd_answer_emit(a, kind, a->space.data, a->space.bytes));
    GLYD_TRY(glyd_answer_emit(a, kind, a->raw.data, a->raw.bytes));
    a->space.bytes = a->raw.bytes = 0;
    a->is_fresh = false;
    return GLYD_OK;
}

static glyd_status end_call(glyd_answer *a, bool is_complete)
{
    a->place = ANSWER_AT_GAP;
    a->space.bytes = 0;
    bool is_last = a->options.is_single || (a->options.tools == GLYD_TOOLS_FORCED &&
                                            a->n_calls >= GLYD_ANSWER_FORCED_CALLS_MAX);
    a->is_done = a->is_done || is_last;
    return glyd_answer_emit_end(a, is_complete);
}

/* --- before the arguments --- */

static bool is_name_byte(const answer_symbol *symbol)
{
    uint8_t c = symbol->byte;
    return symbol->mark == ANSWER_NO_MARK &&
           ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
            c == '_' || c == '-' || c == '.');
}

/* Take a byte of the name; a mark, or one too many, does not fit. */
static glyd_status keep_name(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    if (symbol->mark != ANSWER_NO_MARK || a->name.bytes >= ANSWER_NAME_BYTES_MAX) {
        *step = ANSWER_REFUSE;
        return GLYD_OK;
    }
    return glyd_answer_keep(a, &a->name, &symbol->byte, 1);
}

static void trim_name(glyd_answer *a)
{
    glyd_buf *name = &a->name;
    size_t first = 0;
    while (name->bytes > 0 && strchr(" \n\r\t", name->data[name->bytes - 1]))
        name->bytes--;
    while (first < name->bytes && strchr(" \n\r\t", name->data[first]))
        first++;
    name->bytes -= first;
    if (first > 0)
        memmove(name->data, name->data + first, name->bytes);
}

/* The arguments stand alone: an object, or nothing that is a call. */
static glyd_status begin_arguments(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    if (!answer_is_byte(symbol, '{') || a->name.bytes == 0) {
        *step = ANSWER_REFUSE;
        return GLYD_OK;
    }
    GLYD_TRY(glyd_answer_call_commit(a));
    a->call = CALL_ARGUMENTS;
    return glyd_answer_json_arguments(a, symbol);
}

/* After the mark that opens a call, or "[" of a list. */
static glyd_status start_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    glyd_answer_calls calls = a->format->calls;
    if (glyd_answer_is_space(symbol))
        return GLYD_OK;
    if (calls == GLYD_ANSWER_CALLS_DEEPSEEK_R1 && symbol->mark == GLYD_MARK_CALL) {
        a->call = CALL_HEAD;
        return GLYD_OK;
    }
    if (calls == GLYD_ANSWER_CALLS_QWEN3_CODER && symbol->mark == GLYD_MARK_FUNCTION) {
        a->call = CALL_FUNCTION;
        return GLYD_OK;
    }
    bool has_objects = calls == GLYD_ANSWER_CALLS_HERMES || calls == GLYD_ANSWER_CALLS_LLAMA3_JSON;
    if (answer_is_byte(symbol, '{') && (has_objects || a->call == CALL_LIST)) {
        a->call = CALL_JSON;
        return glyd_answer_json_step(a, symbol, step);
    }
    if (calls == GLYD_ANSWER_CALLS_MISTRAL && a->call == CALL_START) {
        if (answer_is_byte(symbol, '[')) {
            a->call = CALL_LIST;
            a->is_list = true;
            return GLYD_OK;
        }
        if (is_name_byte(symbol)) {
            a->call = CALL_NAME;
            return keep_name(a, symbol, step);
        }
    }
    *step = ANSWER_REFUSE;
    return GLYD_OK;
}

/* mistral's NAME, perhaps with [CALL_ID]ID and [ARGS], before the object. */
static glyd_status name_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    if (symbol->mark == GLYD_MARK_SEPARATOR) {
        a->call = CALL_BEFORE;
        return GLYD_OK;
    }
    if (symbol->mark == GLYD_MARK_ID && a->call == CALL_NAME) {
        a->call = CALL_ID;
        return GLYD_OK;
    }
    if (a->call == CALL_NAME && is_name_byte(symbol))
        return keep_name(a, symbol, step);
    if (a->call == CALL_ID && is_name_byte(symbol))
        return GLYD_OK;
    if (glyd_answer_is_space(symbol)) {
        a->call = CALL_BEFORE;
        return GLYD_OK;
    }
    return begin_arguments(a, symbol, step);
}

/* deepseek's "function" before the separator, then the name's line; or the name itself. */
static glyd_status head_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    bool is_end =
        a->call == CALL_HEAD ? symbol->mark == GLYD_MARK_SEPARATOR : answer_is_byte(symbol, '\n');
    if (!is_end)
        return keep_name(a, symbol, step);
    trim_name(a);
    bool is_kind = a->call == CALL_HEAD && a->name.bytes == strlen("function") &&
                   memcmp(a->name.data, "function", a->name.bytes) == 0;
    if (is_kind)
        a->name.bytes = 0;
    a->call = is_kind ? CALL_FENCED_NAME : CALL_BEFORE;
    return GLYD_OK;
}

static bool is_fence(const answer_symbol *symbol)
{
    return symbol->mark == ANSWER_NO_MARK && symbol->byte && strchr("`json", symbol->byte);
}

/* Between the name and the object: space, [ARGS], and the fence of deepseek. */
static glyd_status before_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    bool is_deepseek = a->format->calls == GLYD_ANSWER_CALLS_DEEPSEEK_R1;
    if (glyd_answer_is_space(symbol) || (is_deepseek && is_fence(symbol)) ||
        (!is_deepseek && symbol->mark == GLYD_MARK_SEPARATOR))
        return GLYD_OK;
    return begin_arguments(a, symbol, step);
}

/* qwen3_coder's NAME up to ">". */
static glyd_status function_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    if (!answer_is_byte(symbol, '>')) {
        if (answer_is_byte(symbol, '\n'))
            *step = ANSWER_REFUSE;
        return *step == ANSWER_REFUSE ? GLYD_OK : keep_name(a, symbol, step);
    }
    trim_name(a);
    if (a->name.bytes == 0 || !glyd_answer_call_is_believed(a)) {
        *step = ANSWER_REFUSE;
        return GLYD_OK;
    }
    a->call = CALL_TAGGED;
    GLYD_TRY(glyd_answer_call_commit(a));
    return glyd_answer_tagged_start(a);
}

static glyd_status step_in(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    switch (a->call) {
    case CALL_START:
    case CALL_LIST:
        return start_step(a, symbol, step);
    case CALL_NAME:
    case CALL_ID:
        return name_step(a, symbol, step);
    case CALL_HEAD:
    case CALL_FENCED_NAME:
        return head_step(a, symbol, step);
    case CALL_BEFORE:
        return before_step(a, symbol, step);
    case CALL_FUNCTION:
        return function_step(a, symbol, step);
    case CALL_TAGGED:
        return glyd_answer_tagged_step(a, symbol, step);
    case CALL_JSON:
    case CALL_ARGUMENTS:
        break;
    }
    return glyd_answer_json_step(a, symbol, step);
}

static bool is_whole(const glyd_answer *a)
{
    return a->call != CALL_TAGGED && a->json.has_arguments;
}

glyd_status glyd_answer_call_step(glyd_answer *a, const answer_symbol *symbol, bool *again)
{
    answer_step step = ANSWER_MORE;
    *again = false;
    GLYD_TRY(step_in(a, symbol, &step));
    if (step == ANSWER_MORE)
        return keep_raw(a, symbol);
    if (step == ANSWER_ENDED)
        return end_call(a, true);
    *again = true;
    return a->is_committed ? end_call(a, is_whole(a)) : refuse(a);
}

glyd_status glyd_answer_call_finish(glyd_answer *a)
{
    return a->is_committed ? end_call(a, is_whole(a)) : refuse(a);
}

/* --- after a call --- */

/* What opens the next call of the same list; false where the symbol does not. */
static bool opens_next(const glyd_answer *a, const answer_symbol *symbol, call_state *state)
{
    glyd_answer_calls calls = a->format->calls;
    *state = symbol->mark == GLYD_MARK_OPEN       ? CALL_START
             : symbol->mark == GLYD_MARK_CALL     ? CALL_HEAD
             : symbol->mark == GLYD_MARK_FUNCTION ? CALL_FUNCTION
                                                  : CALL_JSON;
    if (*state != CALL_JSON)
        return true;
    return answer_is_byte(symbol, '{') && (calls == GLYD_ANSWER_CALLS_LLAMA3_JSON ||
                                           (calls == GLYD_ANSWER_CALLS_MISTRAL && a->is_list));
}

/* What may stand between what ends a call and what closes it, or between two. */
static bool is_between(const glyd_answer *a, const answer_symbol *symbol)
{
    if (glyd_answer_is_space(symbol))
        return true;
    switch (a->format->calls) {
    case GLYD_ANSWER_CALLS_HERMES: /* small models write one brace too many */
        return !a->is_closed && answer_is_byte(symbol, '}');
    case GLYD_ANSWER_CALLS_LLAMA3_JSON:
        return answer_is_byte(symbol, ';');
    case GLYD_ANSWER_CALLS_MISTRAL:
        return a->is_list && answer_is_byte(symbol, ',');
    case GLYD_ANSWER_CALLS_DEEPSEEK_R1:
        return !a->is_closed && answer_is_byte(symbol, '`');
    default:
        return false;
    }
}

/* What closes a call or a list of them. */
static bool closes(const glyd_answer *a, const answer_symbol *symbol)
{
    if (a->format->calls == GLYD_ANSWER_CALLS_MISTRAL)
        return a->is_list && answer_is_byte(symbol, ']');
    return !a->is_closed && (symbol->mark == GLYD_MARK_CLOSE || symbol->mark == GLYD_MARK_CALL_END);
}

glyd_status glyd_answer_gap_step(glyd_answer *a, const answer_symbol *symbol, bool *again)
{
    call_state state;
    *again = false;
    if (closes(a, symbol)) {
        a->space.bytes = 0;
        /* deepseek closes each call, and then their list. */
        a->is_closed = symbol->mark != GLYD_MARK_CALL_END;
        a->is_list = false;
        return GLYD_OK;
    }
    if (is_between(a, symbol))
        return glyd_answer_keep(a, &a->space, &symbol->byte, 1);
    if (opens_next(a, symbol, &state)) {
        a->fallback = ANSWER_AT_CONTENT;
        a->is_marked = a->is_marked || state == CALL_START || state == CALL_HEAD;
        return glyd_answer_call_open(a, symbol, state);
    }
    *again = true;
    a->place = ANSWER_AT_CONTENT;
    a->is_fresh = a->is_list = false;
    GLYD_TRY(glyd_answer_emit(a, GLYD_ANSWER_CONTENT, a->space.data, a->space.bytes));
    a->space.bytes = 0;
    return GLYD_OK;
}
