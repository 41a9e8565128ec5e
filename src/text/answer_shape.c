/* answer_shape.c - what forced calls look like in each format: literals around arguments.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "text/answer.h"
#include <stdlib.h>
#include <string.h>

typedef struct block {
    struct block *next;
    json_t *json; /* a schema that was made here */
    void *memory;
} block;

struct glyd_answer_shape {
    const glyd_answer_format *format; /* while it is made */
    glyd_error *err;
    block *blocks;
    glyd_answer_part root;
};

/* Parts of a sequence that is being written. */
typedef struct sequence {
    glyd_answer_part *parts;
    size_t n, capacity;
} sequence;

/* --- memory: all of it lives as long as the shape --- */

static block *add_block(glyd_answer_shape *shape, size_t bytes)
{
    block *b = calloc(1, sizeof *b);
    if (b && bytes > 0)
        b->memory = calloc(1, bytes);
    if (!b || (bytes > 0 && !b->memory)) {
        free(b);
        glyd_error_set(shape->err, GLYD_E_NOMEM, "out of memory for the calls' shape");
        return NULL;
    }
    b->next = shape->blocks;
    shape->blocks = b;
    return b;
}

void glyd_answer_shape_free(glyd_answer_shape *shape)
{
    if (!shape)
        return;
    for (block *b = shape->blocks, *next; b; b = next) {
        next = b->next;
        json_decref(b->json);
        free(b->memory);
        free(b);
    }
    free(shape);
}

const glyd_answer_part *glyd_answer_shape_root(const glyd_answer_shape *shape)
{
    return &shape->root;
}

static glyd_status begin(glyd_answer_shape *shape, size_t capacity, sequence *s)
{
    block *b = add_block(shape, capacity * sizeof(glyd_answer_part));
    *s = (sequence){b ? b->memory : NULL, 0, capacity};
    return b ? GLYD_OK : GLYD_E_NOMEM;
}

static void add(sequence *s, glyd_answer_part part)
{
    GLYD_ASSERT(s->n < s->capacity);
    s->parts[s->n++] = part;
}

static glyd_answer_part whole(const sequence *s, glyd_answer_part_kind kind)
{
    return (glyd_answer_part){.kind = kind, .parts = s->parts, .n_parts = s->n};
}

/* Three texts put together. */
static glyd_status add_text(glyd_answer_shape *shape, sequence *s, glyd_answer_part_kind kind,
                            const char *first, const char *second, const char *third)
{
    size_t n1 = strlen(first), n2 = strlen(second), n3 = strlen(third);
    block *b = add_block(shape, n1 + n2 + n3 + 1);
    if (!b)
        return GLYD_E_NOMEM;
    uint8_t *text = b->memory;
    memcpy(text, first, n1);
    memcpy(text + n1, second, n2);
    memcpy(text + n1 + n2, third, n3);
    add(s, (glyd_answer_part){.kind = kind, .text = {text, n1 + n2 + n3}});
    return GLYD_OK;
}

static glyd_status add_literal(glyd_answer_shape *shape, sequence *s, const char *text)
{
    return add_text(shape, s, GLYD_ANSWER_PART_LITERAL, text, "", "");
}

static void add_mark(const glyd_answer_shape *shape, sequence *s, glyd_answer_mark mark)
{
    const glyd_answer_format *f = shape->format;
    const char *text = f->marks[mark];
    add(s, (glyd_answer_part){.kind = f->ids[mark] >= 0 ? GLYD_ANSWER_PART_TOKEN
                                                        : GLYD_ANSWER_PART_LITERAL,
                              .text = {(const uint8_t *)text, strlen(text)},
                              .id = f->ids[mark]});
}

/* --- arguments as JSON --- */

static void add_arguments(sequence *s, const json_t *function)
{
    const json_t *schema = json_object_get(function, "parameters");
    glyd_answer_part part = {.kind = GLYD_ANSWER_PART_OBJECT};
    /* A schema that does not ask for an object would allow arguments that are none. */
    if (json_object_get(schema, "type") || json_object_get(schema, "properties"))
        part = (glyd_answer_part){.kind = GLYD_ANSWER_PART_SCHEMA, .schema = schema};
    add(s, part);
}

/* {"name": NAME, KEY: arguments} */
static glyd_status add_object(glyd_answer_shape *shape, sequence *s, const json_t *function,
                              const char *before, const char *key, const char *after)
{
    char *name = json_dumps(json_object_get(function, "name"), JSON_ENCODE_ANY);
    char tail[64] = ", \"";
    GLYD_ASSERT(strlen(key) + 8 < sizeof tail);
    memcpy(tail + 3, key, strlen(key));
    memcpy(tail + 3 + strlen(key), "\": ", 4);
    if (!name)
        GLYD_FAIL(shape->err, GLYD_E_NOMEM, "out of memory for the calls' shape");
    glyd_status status = add_text(shape, s, GLYD_ANSWER_PART_LITERAL, before, name, tail);
    free(name);
    if (status != GLYD_OK)
        return status;
    add_arguments(s, function);
    return add_literal(shape, s, after);
}

/* --- arguments between tags --- */

static bool is_string_schema(const json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    return type && strcmp(type, "string") == 0;
}

/* One of the texts of an enum of strings. */
static glyd_status add_choice(glyd_answer_shape *shape, sequence *s, const json_t *list)
{
    sequence choice;
    GLYD_TRY(begin(shape, json_array_size(list), &choice));
    for (size_t i = 0; i < json_array_size(list); i++)
        GLYD_TRY(add_literal(shape, &choice, json_string_value(json_array_get(list, i))));
    add(s, whole(&choice, GLYD_ANSWER_PART_CHOICE));
    return add_literal(shape, s, "\n</parameter>\n");
}

static bool are_strings(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!json_is_string(json_array_get(list, i)))
            return false;
    }
    return json_array_size(list) > 0;
}

/* A schema with the definitions that it may refer to. */
static glyd_status add_schema(glyd_answer_shape *shape, sequence *s, const json_t *root,
                              const json_t *schema)
{
    static const char *const folders[] = {"$defs", "definitions"};
    block *b = add_block(shape, 0);
    if (b)
        b->json = json_is_object(schema) ? json_copy((json_t *)(uintptr_t)schema) : json_object();
    /* jansson's copy leaves members out where it has no memory. */
    if (!b || !b->json || json_object_size(b->json) != json_object_size(schema))
        GLYD_FAIL(shape->err, GLYD_E_NOMEM, "out of memory for the calls' shape");
    for (size_t i = 0; i < 2; i++) {
        json_t *defs = json_object_get(root, folders[i]);
        if (defs && !json_object_get(schema, folders[i]) &&
            json_object_set(b->json, folders[i], defs) != 0)
            GLYD_FAIL(shape->err, GLYD_E_NOMEM, "out of memory for the calls' shape");
    }
    add(s, (glyd_answer_part){.kind = GLYD_ANSWER_PART_SCHEMA, .schema = b->json});
    return add_literal(shape, s, "\n</parameter>\n");
}

/* <parameter=KEY>, the value, </parameter> */
static glyd_status add_parameter(glyd_answer_shape *shape, sequence *s, const json_t *root,
                                 const char *key, const json_t *schema, bool is_required)
{
    sequence p;
    GLYD_TRY(begin(shape, 3, &p));
    GLYD_TRY(add_text(shape, &p, GLYD_ANSWER_PART_LITERAL, "<parameter=", key, ">\n"));
    const json_t *list = json_object_get(schema, "enum");
    if (are_strings(list))
        GLYD_TRY(add_choice(shape, &p, list));
    else if (is_string_schema(schema))
        GLYD_TRY(add_text(shape, &p, GLYD_ANSWER_PART_UNTIL, "\n</parameter>\n", "", ""));
    else
        GLYD_TRY(add_schema(shape, &p, root, schema));
    glyd_answer_part part = whole(&p, GLYD_ANSWER_PART_SEQUENCE);
    part.min = is_required;
    part.max = 1;
    add(s, part);
    return GLYD_OK;
}

static bool is_listed(const json_t *list, const char *key)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *other = json_string_value(json_array_get(list, i));
        if (other && strcmp(other, key) == 0)
            return true;
    }
    return false;
}

static glyd_status add_tagged(glyd_answer_shape *shape, sequence *s, const json_t *function)
{
    const json_t *root = json_object_get(function, "parameters");
    json_t *properties = json_object_get(root, "properties");
    const char *name = json_string_value(json_object_get(function, "name"));
    sequence all;
    const char *key;
    json_t *schema;
    add_mark(shape, s, GLYD_MARK_OPEN);
    GLYD_TRY(add_text(shape, s, GLYD_ANSWER_PART_LITERAL, "\n<function=", name, ">\n"));
    if (json_object_size(properties) > 0) {
        GLYD_TRY(begin(shape, json_object_size(properties), &all));
        json_object_foreach(properties, key, schema)
        {
            bool is_required = is_listed(json_object_get(root, "required"), key);
            GLYD_TRY(add_parameter(shape, &all, root, key, schema, is_required));
        }
        add(s, whole(&all, GLYD_ANSWER_PART_SEQUENCE));
    }
    GLYD_TRY(add_literal(shape, s, "</function>\n"));
    add_mark(shape, s, GLYD_MARK_CLOSE);
    return GLYD_OK;
}

/* --- calls --- */

static glyd_status add_mistral(glyd_answer_shape *shape, sequence *s, const json_t *function)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    if (!shape->format->has_argument_mark)
        return add_object(shape, s, function, "{\"name\": ", "arguments", "}");
    add_mark(shape, s, GLYD_MARK_OPEN);
    GLYD_TRY(add_literal(shape, s, name));
    add_mark(shape, s, GLYD_MARK_SEPARATOR);
    add_arguments(s, function);
    return GLYD_OK;
}

static glyd_status add_deepseek(glyd_answer_shape *shape, sequence *s, const json_t *function)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    bool has_fence = shape->format->has_fence;
    add_mark(shape, s, GLYD_MARK_CALL);
    GLYD_TRY(add_literal(shape, s, has_fence ? "function" : name));
    add_mark(shape, s, GLYD_MARK_SEPARATOR);
    if (has_fence)
        GLYD_TRY(add_text(shape, s, GLYD_ANSWER_PART_LITERAL, name, "\n```json\n", ""));
    add_arguments(s, function);
    if (has_fence)
        GLYD_TRY(add_literal(shape, s, "\n```"));
    add_mark(shape, s, GLYD_MARK_CALL_END);
    return GLYD_OK;
}

static glyd_status add_call(glyd_answer_shape *shape, sequence *calls, const json_t *function)
{
    sequence s;
    GLYD_TRY(begin(shape, 8, &s));
    switch (shape->format->calls) {
    case GLYD_ANSWER_CALLS_QWEN3_CODER:
        GLYD_TRY(add_tagged(shape, &s, function));
        break;
    case GLYD_ANSWER_CALLS_LLAMA3_JSON:
        GLYD_TRY(add_object(shape, &s, function, "{\"name\": ", "parameters", "}"));
        break;
    case GLYD_ANSWER_CALLS_MISTRAL:
        GLYD_TRY(add_mistral(shape, &s, function));
        break;
    case GLYD_ANSWER_CALLS_DEEPSEEK_R1:
        GLYD_TRY(add_deepseek(shape, &s, function));
        break;
    default:
        add_mark(shape, &s, GLYD_MARK_OPEN);
        GLYD_TRY(add_object(shape, &s, function, "\n{\"name\": ", "arguments", "}\n"));
        add_mark(shape, &s, GLYD_MARK_CLOSE);
    }
    add(calls, whole(&s, GLYD_ANSWER_PART_SEQUENCE));
    return GLYD_OK;
}

/* What stands between two calls. */
static const char *separator(const glyd_answer_format *format)
{
    switch (format->calls) {
    case GLYD_ANSWER_CALLS_LLAMA3_JSON:
        return "; ";
    case GLYD_ANSWER_CALLS_MISTRAL:
        return format->has_argument_mark ? "" : ", ";
    default:
        return "\n";
    }
}

/* The choice of calls, and the marks and repetitions around it. */
static glyd_status add_calls(glyd_answer_shape *shape, const sequence *calls, bool is_single)
{
    const glyd_answer_format *f = shape->format;
    bool is_array = f->calls == GLYD_ANSWER_CALLS_MISTRAL && !f->has_argument_mark;
    bool has_list = is_array || f->calls == GLYD_ANSWER_CALLS_DEEPSEEK_R1;
    sequence s, more;
    GLYD_TRY(begin(shape, 6, &s));
    if (has_list)
        add_mark(shape, &s, GLYD_MARK_OPEN);
    if (is_array)
        GLYD_TRY(add_literal(shape, &s, "["));
    add(&s, whole(calls, GLYD_ANSWER_PART_CHOICE));
    if (!is_single) {
        GLYD_TRY(begin(shape, 2, &more));
        if (*separator(f))
            GLYD_TRY(add_literal(shape, &more, separator(f)));
        add(&more, whole(calls, GLYD_ANSWER_PART_CHOICE));
        glyd_answer_part part = whole(&more, GLYD_ANSWER_PART_SEQUENCE);
        part.max = -1;
        add(&s, part);
    }
    if (is_array)
        GLYD_TRY(add_literal(shape, &s, "]"));
    if (has_list && !is_array)
        add_mark(shape, &s, GLYD_MARK_CLOSE);
    shape->root = whole(&s, GLYD_ANSWER_PART_SEQUENCE);
    return GLYD_OK;
}

static glyd_status make(glyd_answer_shape *shape, const json_t *tool_list, const char *name,
                        bool is_single)
{
    sequence calls;
    GLYD_TRY(begin(shape, json_array_size(tool_list) + 1, &calls));
    for (size_t i = 0; i < json_array_size(tool_list); i++) {
        const json_t *function = json_object_get(json_array_get(tool_list, i), "function");
        const char *own = json_string_value(json_object_get(function, "name"));
        if (!own || !*own)
            GLYD_FAIL(shape->err, GLYD_E_ARG, "tools[%zu]: the function has no name", i);
        if (!name || strcmp(name, own) == 0)
            GLYD_TRY(add_call(shape, &calls, function));
    }
    if (calls.n == 0 && name)
        GLYD_FAIL(shape->err, GLYD_E_ARG, "tool_choice: no tool is named \"%s\"", name);
    if (calls.n == 0)
        GLYD_FAIL(shape->err, GLYD_E_ARG, "tool_choice: there are no tools to choose from");
    return add_calls(shape, &calls, is_single);
}

glyd_status glyd_answer_shape_create(const glyd_answer_format *format, const json_t *tool_list,
                                     const char *name, bool is_single, glyd_answer_shape **shape,
                                     glyd_error *err)
{
    if (format->calls == GLYD_ANSWER_CALLS_NONE)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "tool_choice: the model has no tool-call format; name one");
    glyd_answer_shape *made = calloc(1, sizeof *made);
    if (!made)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the calls' shape");
    made->format = format;
    made->err = err;
    glyd_status status = make(made, tool_list, name, is_single);
    made->format = NULL;
    made->err = NULL;
    if (status != GLYD_OK) {
        glyd_answer_shape_free(made);
        return status;
    }
    *shape = made;
    return GLYD_OK;
}
