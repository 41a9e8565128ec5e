/* answer_json.c - an object with a name and arguments, byte by byte.
 *
 * The outer object is read strictly, so that what is no call is found out early. The arguments are
 * only followed to where their brackets close: what is in them is the client's to judge.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/answer_parser.h"
#include <string.h>

enum {             /* of answer_json */
       JSON_BEGIN, /* before "{" */
       JSON_FIRST, /* before the first key, or "}" */
       JSON_NEXT,  /* before another key */
       JSON_KEY,
       JSON_COLON,
       JSON_VALUE, /* before a value */
       JSON_INSIDE,
       JSON_AFTER, /* before "," or "}" */
       JSON_ALONE, /* inside arguments that have no object around them */
};

enum { ROLE_OTHER, ROLE_NAME, ROLE_ARGUMENTS };
enum { FORM_SCALAR = 's' };

void glyd_answer_json_start(answer_json *json)
{
    glyd_buf text = json->text, arguments = json->arguments;
    text.bytes = arguments.bytes = 0;
    *json = (answer_json){.state = JSON_BEGIN, .text = text, .arguments = arguments};
}

void glyd_answer_json_deinit(answer_json *json)
{
    glyd_buf_free(&json->text);
    glyd_buf_free(&json->arguments);
}

/* Whether the next symbol is inside a string, where marks are text. */
static bool in_string(const answer_json *json)
{
    bool is_inside = json->state == JSON_INSIDE || json->state == JSON_ALONE;
    return json->state == JSON_KEY || (is_inside && (json->form == '"' || json->in_string));
}

/* A part of the value, to where its role wants it. */
static glyd_status keep_value(glyd_answer *a, const void *data, size_t bytes)
{
    answer_json *j = &a->json;
    if (j->role == ROLE_NAME)
        return glyd_answer_keep(a, &j->text, data, bytes);
    if (j->role != ROLE_ARGUMENTS)
        return GLYD_OK;
    if (j->is_streaming)
        return glyd_answer_emit(a, GLYD_ANSWER_CALL_ARGUMENTS, data, bytes);
    return glyd_answer_keep(a, &j->arguments, data, bytes);
}

glyd_status glyd_answer_json_arguments(glyd_answer *a, const answer_symbol *symbol)
{
    glyd_answer_json_start(&a->json);
    a->json.state = JSON_ALONE;
    a->json.role = ROLE_ARGUMENTS;
    a->json.form = '{';
    a->json.is_streaming = true;
    a->json.depth = 1;
    return keep_value(a, &symbol->byte, 1);
}

/* --- values that have ended --- */

glyd_status glyd_answer_json_decode(const void *text, size_t bytes, json_t **value, glyd_error *err)
{
    json_error_t e;
    *value = json_loadb(bytes ? text : "", bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    if (!*value && !e.text[0]) /* what jansson says when an allocation fails: nothing */
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for JSON");
    return GLYD_OK;
}

static bool has_only_space(const char *text, size_t bytes)
{
    return strspn(text, " \n\r\t") >= bytes;
}

static void set_arguments(answer_json *j, const char *text, size_t bytes)
{
    /* Never longer than what was there. */
    GLYD_ASSERT(bytes <= j->arguments.capacity);
    memcpy(j->arguments.data, text, bytes);
    j->arguments.bytes = bytes;
}

/* Arguments that are no object as written: null, and an object inside a string. */
static glyd_status settle_arguments(glyd_answer *a, answer_step *step)
{
    answer_json *j = &a->json;
    json_t *value;
    GLYD_TRY(glyd_answer_json_decode(j->arguments.data, j->arguments.bytes, &value, a->err));
    if (!value && j->form == FORM_SCALAR)
        *step = ANSWER_REFUSE;
    const char *text = json_string_value(value);
    size_t bytes = json_string_length(value);
    if (json_is_null(value) || (text && has_only_space(text, bytes)))
        set_arguments(j, "{}", 2);
    else if (text && text[strspn(text, " \n\r\t")] == '{')
        set_arguments(j, text, bytes);
    json_decref(value);
    return GLYD_OK;
}

/* The name as text; one that is no string, empty or too long does not fit. */
static glyd_status settle_name(glyd_answer *a, answer_step *step)
{
    answer_json *j = &a->json;
    json_t *value;
    GLYD_TRY(glyd_answer_json_decode(j->text.data, j->text.bytes, &value, a->err));
    size_t bytes = json_string_length(value);
    glyd_status status = GLYD_OK;
    bool is_name =
        bytes > 0 && bytes <= ANSWER_NAME_BYTES_MAX && strlen(json_string_value(value)) == bytes;
    if (!is_name)
        *step = ANSWER_REFUSE;
    else
        status = glyd_answer_keep(a, &a->name, json_string_value(value), bytes);
    json_decref(value);
    if (status == GLYD_OK && *step != ANSWER_REFUSE && !glyd_answer_call_is_believed(a))
        *step = ANSWER_REFUSE;
    j->has_name = true;
    return status;
}

static glyd_status end_value(glyd_answer *a, answer_step *step)
{
    answer_json *j = &a->json;
    j->state = JSON_AFTER;
    if (j->role == ROLE_NAME)
        GLYD_TRY(settle_name(a, step));
    if (j->role == ROLE_ARGUMENTS) {
        j->has_arguments = true;
        if (j->form == '"' || j->form == FORM_SCALAR)
            GLYD_TRY(settle_arguments(a, step));
    }
    if (*step == ANSWER_REFUSE || a->is_committed || !j->has_name || !j->has_arguments)
        return GLYD_OK;
    GLYD_TRY(glyd_answer_call_commit(a));
    return glyd_answer_emit(a, GLYD_ANSWER_CALL_ARGUMENTS, j->arguments.data, j->arguments.bytes);
}

/* --- inside a value --- */

/* Whether the byte ends a string whose quote has been seen. */
static bool ends_string(answer_json *j, uint8_t byte)
{
    bool was_escaped = j->is_escaped;
    j->is_escaped = !was_escaped && byte == '\\';
    return !was_escaped && byte == '"';
}

/* Whether the byte ends an object or an array. */
static bool ends_container(answer_json *j, uint8_t byte)
{
    if (j->in_string) {
        j->in_string = !ends_string(j, byte);
        return false;
    }
    j->in_string = byte == '"';
    if (byte == '{' || byte == '[')
        j->depth++;
    return (byte == '}' || byte == ']') && --j->depth == 0;
}

static glyd_status begin_value(glyd_answer *a, uint8_t byte, answer_step *step)
{
    answer_json *j = &a->json;
    bool is_container = byte == '{' || byte == '[';
    if (!is_container && byte != '"' && (byte == 0 || !strchr("-0123456789tfn", byte))) {
        *step = ANSWER_REFUSE;
        return GLYD_OK;
    }
    j->form = is_container || byte == '"' ? byte : FORM_SCALAR;
    j->state = JSON_INSIDE;
    j->in_string = j->is_escaped = false;
    j->depth = 1;
    if (is_container && j->role == ROLE_ARGUMENTS && j->has_name) {
        GLYD_TRY(glyd_answer_call_commit(a));
        j->is_streaming = true;
    }
    return keep_value(a, &byte, 1);
}

static bool is_scalar_byte(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
           c == '-' || c == '.';
}

static glyd_status after_step(glyd_answer *a, uint8_t byte, answer_step *step);

static glyd_status inside_step(glyd_answer *a, uint8_t byte, answer_step *step)
{
    answer_json *j = &a->json;
    bool is_alone = j->state == JSON_ALONE;
    if (j->form == FORM_SCALAR && !is_scalar_byte(byte)) {
        GLYD_TRY(end_value(a, step));
        return *step == ANSWER_REFUSE ? GLYD_OK : after_step(a, byte, step);
    }
    GLYD_TRY(keep_value(a, &byte, 1));
    bool is_end = j->form == '"'           ? ends_string(j, byte)
                  : j->form != FORM_SCALAR ? ends_container(j, byte)
                                           : false;
    if (!is_end)
        return GLYD_OK;
    if (is_alone)
        *step = ANSWER_ENDED;
    return end_value(a, step);
}

/* --- around values --- */

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static int role_of_key(const answer_json *j)
{
    const char *key = (const char *)j->text.data;
    size_t n = j->text.bytes;
    if (n == 4 && memcmp(key, "name", n) == 0)
        return j->has_name ? ROLE_OTHER : ROLE_NAME;
    bool is_arguments = (n == 9 && memcmp(key, "arguments", n) == 0) ||
                        (n == 10 && memcmp(key, "parameters", n) == 0);
    return is_arguments && !j->has_arguments ? ROLE_ARGUMENTS : ROLE_OTHER;
}

/* "}" of the outer object. */
static glyd_status end_object(glyd_answer *a, answer_step *step)
{
    answer_json *j = &a->json;
    *step = ANSWER_ENDED;
    if (a->is_committed)
        return GLYD_OK;
    if (!j->has_name || !a->is_marked) {
        *step = ANSWER_REFUSE;
        return GLYD_OK;
    }
    j->has_arguments = true;
    GLYD_TRY(glyd_answer_call_commit(a));
    return glyd_answer_emit(a, GLYD_ANSWER_CALL_ARGUMENTS, "{}", 2);
}

static glyd_status after_step(glyd_answer *a, uint8_t byte, answer_step *step)
{
    if (byte == ',')
        a->json.state = JSON_NEXT;
    else if (byte == '}')
        return end_object(a, step);
    else if (!is_space(byte))
        *step = ANSWER_REFUSE;
    return GLYD_OK;
}

static glyd_status key_step(glyd_answer *a, uint8_t byte)
{
    answer_json *j = &a->json;
    if (!ends_string(j, byte))
        return glyd_answer_keep(a, &j->text, &byte, 1);
    j->role = role_of_key(j);
    j->text.bytes = 0;
    j->state = JSON_COLON;
    return GLYD_OK;
}

/* Between the parts of the object. */
static glyd_status outer_step(glyd_answer *a, uint8_t byte, answer_step *step)
{
    answer_json *j = &a->json;
    if (is_space(byte))
        return GLYD_OK;
    if (j->state == JSON_VALUE)
        return begin_value(a, byte, step);
    if (j->state == JSON_AFTER)
        return after_step(a, byte, step);
    if (j->state == JSON_FIRST && byte == '}')
        return end_object(a, step);
    uint8_t wanted = j->state == JSON_BEGIN ? '{' : j->state == JSON_COLON ? ':' : '"';
    if (byte != wanted) {
        *step = ANSWER_REFUSE;
        return GLYD_OK;
    }
    j->is_escaped = false;
    j->text.bytes = 0;
    j->state = byte == '{' ? JSON_FIRST : byte == ':' ? JSON_VALUE : JSON_KEY;
    return GLYD_OK;
}

glyd_status glyd_answer_json_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    answer_json *j = &a->json;
    *step = ANSWER_MORE;
    if (symbol->mark != ANSWER_NO_MARK) {
        if (!in_string(j)) {
            *step = ANSWER_REFUSE;
            return GLYD_OK;
        }
        glyd_span text = glyd_answer_symbol_text(a, symbol);
        j->is_escaped = false;
        if (j->state == JSON_KEY)
            return glyd_answer_keep(a, &j->text, text.data, text.bytes);
        return keep_value(a, text.data, text.bytes);
    }
    switch (j->state) {
    case JSON_KEY:
        return key_step(a, symbol->byte);
    case JSON_INSIDE:
    case JSON_ALONE:
        return inside_step(a, symbol->byte, step);
    default:
        return outer_step(a, symbol->byte, step);
    }
}
