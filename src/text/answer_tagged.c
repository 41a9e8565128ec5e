/* answer_tagged.c - qwen3_coder's values between tags, made into the JSON of the arguments.
 *
 *   <parameter=KEY>\nVALUE\n</parameter>\n ... </function>
 *
 * The newlines at both ends are not the value's. The text does not say types, the schema does: a
 * value that can only be a string is streamed, any other is read when it is whole.
 *
 * Values are not escaped, so they may hold the tags themselves. </parameter> ends a value only
 * where another parameter or the function's end comes next; without it, <parameter= or </function>
 * at the start of a line do.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/answer_parser.h"
#include <stdio.h>
#include <string.h>

enum {
    TYPE_STRING = 1,
    TYPE_NUMBER = 2,
    TYPE_BOOLEAN = 4,
    TYPE_NULL = 8,
    TYPE_OBJECT = 16,
    TYPE_ARRAY = 32,
    SCHEMA_DEPTH_MAX = 16,
};

void glyd_answer_tagged_deinit(answer_tagged *tagged)
{
    json_decref(tagged->keys);
    glyd_buf_free(&tagged->key);
    glyd_buf_free(&tagged->value);
    glyd_buf_free(&tagged->tail);
}

glyd_status glyd_answer_tagged_start(glyd_answer *a)
{
    answer_tagged *t = &a->tagged;
    const json_t *function =
        glyd_answer_function(a->options.tool_list, (const char *)a->name.data, a->name.bytes);
    json_decref(t->keys);
    t->state = TAGGED_BETWEEN;
    t->parameters = json_object_get(function, "parameters");
    t->keys = json_object();
    if (!t->keys)
        GLYD_FAIL(a->err, GLYD_E_NOMEM, "out of memory for an answer");
    return glyd_answer_emit(a, GLYD_ANSWER_CALL_ARGUMENTS, "{", 1);
}

/* --- types --- */

static unsigned type_of_name(const char *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } names[] = {{"string", TYPE_STRING},   {"integer", TYPE_NUMBER}, {"number", TYPE_NUMBER},
                 {"boolean", TYPE_BOOLEAN}, {"null", TYPE_NULL},      {"object", TYPE_OBJECT},
                 {"array", TYPE_ARRAY}};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name) == 0)
            return names[i].type;
    }
    return 0;
}

static unsigned type_of_value(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_INTEGER:
    case JSON_REAL:
        return TYPE_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_OBJECT:
        return TYPE_OBJECT;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    case JSON_NULL:
        break;
    }
    return TYPE_NULL;
}

/* "#/$defs/NAME" and "#/definitions/NAME". */
static const json_t *find_reference(const json_t *root, const char *reference)
{
    static const char *const folders[] = {"$defs", "definitions"};
    for (size_t i = 0; reference && i < 2; i++) {
        size_t n = strlen(folders[i]);
        if (strncmp(reference, "#/", 2) == 0 && strncmp(reference + 2, folders[i], n) == 0 &&
            reference[2 + n] == '/')
            return json_object_get(json_object_get(root, folders[i]), reference + 3 + n);
    }
    return NULL;
}

/* The types that a schema names; 0 where it names none. */
static unsigned types_of(const json_t *root, const json_t *schema, int depth)
{
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    const json_t *type = json_object_get(schema, "type");
    unsigned types = type_of_name(json_string_value(type));
    for (size_t i = 0; i < json_array_size(type); i++)
        types |= type_of_name(json_string_value(json_array_get(type, i)));
    if (json_is_true(json_object_get(schema, "nullable")) && types)
        types |= TYPE_NULL;
    if (types || depth >= SCHEMA_DEPTH_MAX)
        return types;
    const json_t *values = json_object_get(schema, "enum");
    for (size_t i = 0; i < json_array_size(values); i++)
        types |= type_of_value(json_array_get(values, i));
    const json_t *constant = json_object_get(schema, "const");
    if (constant)
        types |= type_of_value(constant);
    const json_t *other = find_reference(root, json_string_value(json_object_get(schema, "$ref")));
    if (other)
        types |= types_of(root, other, depth + 1);
    for (size_t k = 0; k < 3; k++) {
        const json_t *list = json_object_get(schema, unions[k]);
        for (size_t i = 0; i < json_array_size(list) && i < SCHEMA_DEPTH_MAX; i++)
            types |= types_of(root, json_array_get(list, i), depth + SCHEMA_DEPTH_MAX / 2);
    }
    return types;
}

/* --- output --- */

static glyd_status emit(glyd_answer *a, const void *data, size_t bytes)
{
    return glyd_answer_emit(a, GLYD_ANSWER_CALL_ARGUMENTS, data, bytes);
}

/* The inside of a JSON string. */
static glyd_status emit_escaped(glyd_answer *a, const uint8_t *text, size_t bytes)
{
    static const char shorts[] = "\"\"\\\\\nn\rr\tt\bb\ff"; /* pairs: the byte, its letter */
    for (size_t i = 0; i < bytes; i++) {
        const char *pair = NULL;
        for (const char *p = shorts; *p && !pair; p += 2)
            pair = (uint8_t)*p == text[i] ? p : NULL;
        char code[8];
        int n = 1;
        if (pair)
            n = snprintf(code, sizeof code, "\\%c", pair[1]);
        else if (text[i] < 0x20)
            n = snprintf(code, sizeof code, "\\u%04x", text[i]);
        else
            code[0] = (char)text[i];
        GLYD_TRY(emit(a, code, (size_t)n));
    }
    return GLYD_OK;
}

static bool is_word(const glyd_buf *text, const char *word)
{
    return text->bytes == strlen(word) && memcmp(text->data, word, text->bytes) == 0;
}

static void trim(const glyd_buf *text, const char **start, size_t *bytes)
{
    const char *s = (const char *)text->data;
    size_t first = 0, end = text->bytes;
    while (first < end && strchr(" \n\r\t", s[first]) && s[first])
        first++;
    while (end > first && strchr(" \n\r\t", s[end - 1]) && s[end - 1])
        end--;
    *start = s ? s + first : "";
    *bytes = end - first;
}

/* A value that is whole: JSON of a wanted type as written, Python's words, or else a string. */
static glyd_status emit_value(glyd_answer *a)
{
    answer_tagged *t = &a->tagged;
    static const struct {
        const char *python, *json;
        unsigned type;
    } words[] = {{"True", "true", TYPE_BOOLEAN},
                 {"False", "false", TYPE_BOOLEAN},
                 {"None", "null", TYPE_NULL}};
    /* Null is taken where nothing says that the word is a string. */
    unsigned types = t->types & TYPE_STRING ? t->types : t->types | TYPE_NULL;
    for (size_t i = 0; i < 3; i++) {
        if ((types & words[i].type) && is_word(&t->value, words[i].python))
            return emit(a, words[i].json, strlen(words[i].json));
    }
    const char *text;
    size_t bytes;
    trim(&t->value, &text, &bytes);
    json_t *value;
    GLYD_TRY(glyd_answer_json_decode(text, bytes, &value, a->err));
    unsigned type = value ? type_of_value(value) : 0;
    json_decref(value);
    if (type & types & ~(unsigned)TYPE_STRING)
        return emit(a, text, bytes);
    GLYD_TRY(emit(a, "\"", 1));
    GLYD_TRY(emit_escaped(a, t->value.data, t->value.bytes));
    return emit(a, "\"", 1);
}

/* --- a parameter --- */

static bool is_streamed(const answer_tagged *t)
{
    return t->types == TYPE_STRING;
}

static glyd_status begin_value(glyd_answer *a)
{
    answer_tagged *t = &a->tagged;
    const char *key = glyd_buf_text(&t->key);
    if (!key)
        GLYD_FAIL(a->err, GLYD_E_NOMEM, "out of memory for an answer");
    const json_t *schema = json_object_get(json_object_get(t->parameters, "properties"), key);
    t->types = types_of(t->parameters, schema, 0);
    if (t->types == 0)
        t->types = TYPE_STRING;
    t->state = TAGGED_VALUE;
    t->is_first_byte = t->is_line_start = true;
    t->value.bytes = t->tail.bytes = 0;
    t->is_left_out = json_object_get(t->keys, key) != NULL;
    if (t->is_left_out)
        return GLYD_OK;
    bool is_first = json_object_size(t->keys) == 0;
    if (json_object_set_new_nocheck(t->keys, key, json_true()) != 0)
        GLYD_FAIL(a->err, GLYD_E_NOMEM, "out of memory for an answer");
    GLYD_TRY(emit(a, is_first ? "\"" : ", \"", is_first ? 1 : 3));
    GLYD_TRY(emit_escaped(a, t->key.data, t->key.bytes));
    GLYD_TRY(emit(a, "\": ", 3));
    return is_streamed(t) ? emit(a, "\"", 1) : GLYD_OK;
}

static glyd_status keep_value(glyd_answer *a, const uint8_t *text, size_t bytes)
{
    answer_tagged *t = &a->tagged;
    if (t->is_left_out)
        return GLYD_OK;
    return is_streamed(t) ? emit_escaped(a, text, bytes)
                          : glyd_answer_keep(a, &t->value, text, bytes);
}

static glyd_status end_value(glyd_answer *a)
{
    answer_tagged *t = &a->tagged;
    t->state = TAGGED_BETWEEN;
    if (t->is_left_out)
        return GLYD_OK;
    return is_streamed(t) ? emit(a, "\"", 1) : emit_value(a);
}

/* What was held back after the value belongs to it. */
static glyd_status keep_tail(glyd_answer *a)
{
    answer_tagged *t = &a->tagged;
    t->state = TAGGED_VALUE;
    GLYD_TRY(keep_value(a, t->tail.data, t->tail.bytes));
    t->tail.bytes = 0;
    return GLYD_OK;
}

/* --- steps --- */

static glyd_status between_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    answer_tagged *t = &a->tagged;
    switch (symbol->mark) {
    case GLYD_MARK_PARAMETER:
        t->state = TAGGED_KEY;
        t->key.bytes = 0;
        return GLYD_OK;
    case GLYD_MARK_FUNCTION_END:
        *step = ANSWER_ENDED;
        return emit(a, "}", 1);
    case GLYD_MARK_OPEN:
    case GLYD_MARK_CLOSE:
    case GLYD_MARK_FUNCTION:
        *step = ANSWER_REFUSE; /* the function's end is missing */
        return GLYD_OK;
    default:
        return GLYD_OK; /* what stands between parameters means nothing */
    }
}

static glyd_status key_step(glyd_answer *a, const answer_symbol *symbol)
{
    answer_tagged *t = &a->tagged;
    if (answer_is_byte(symbol, '>') && t->key.bytes > 0)
        return begin_value(a);
    if (symbol->mark != ANSWER_NO_MARK || symbol->byte < 0x20 || symbol->byte == '>' ||
        t->key.bytes >= ANSWER_NAME_BYTES_MAX) {
        t->state = TAGGED_BETWEEN; /* no key: left out */
        return GLYD_OK;
    }
    return glyd_answer_keep(a, &t->key, &symbol->byte, 1);
}

/* Whether the mark ends a value that no </parameter> has ended. */
static bool ends_unclosed(const answer_tagged *t, const answer_symbol *symbol)
{
    return t->is_line_start &&
           (symbol->mark == GLYD_MARK_PARAMETER || symbol->mark == GLYD_MARK_FUNCTION_END);
}

static glyd_status value_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    answer_tagged *t = &a->tagged;
    glyd_span text = glyd_answer_symbol_text(a, symbol);
    if (symbol->mark == GLYD_MARK_PARAMETER_END) {
        t->state = TAGGED_CLOSED;
        return glyd_answer_keep(a, &t->tail, text.data, text.bytes);
    }
    if (ends_unclosed(t, symbol)) {
        GLYD_TRY(end_value(a));
        return between_step(a, symbol, step);
    }
    bool is_newline = answer_is_byte(symbol, '\n');
    bool was_first = t->is_first_byte;
    t->is_first_byte = false;
    t->is_line_start = is_newline;
    if (is_newline && was_first)
        return GLYD_OK;
    GLYD_TRY(keep_tail(a));
    if (is_newline)
        return glyd_answer_keep(a, &t->tail, "\n", 1);
    return keep_value(a, text.data, text.bytes);
}

/* After </parameter>: the value has ended if another tag comes. */
static glyd_status closed_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    answer_tagged *t = &a->tagged;
    if (glyd_answer_is_space(symbol))
        return glyd_answer_keep(a, &t->tail, &symbol->byte, 1);
    if (symbol->mark == GLYD_MARK_PARAMETER || symbol->mark == GLYD_MARK_FUNCTION_END ||
        symbol->mark == GLYD_MARK_CLOSE) {
        GLYD_TRY(end_value(a));
        return between_step(a, symbol, step);
    }
    /* A newline at the end may still be the one before the tag that ends the value. */
    t->is_line_start = t->tail.data[t->tail.bytes - 1] == '\n';
    t->tail.bytes -= t->is_line_start;
    t->is_first_byte = false;
    GLYD_TRY(keep_tail(a));
    if (t->is_line_start)
        GLYD_TRY(glyd_answer_keep(a, &t->tail, "\n", 1));
    return value_step(a, symbol, step);
}

glyd_status glyd_answer_tagged_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step)
{
    *step = ANSWER_MORE;
    switch (a->tagged.state) {
    case TAGGED_KEY:
        return key_step(a, symbol);
    case TAGGED_VALUE:
        return value_step(a, symbol, step);
    case TAGGED_CLOSED:
        return closed_step(a, symbol, step);
    case TAGGED_BETWEEN:
        break;
    }
    return between_step(a, symbol, step);
}
