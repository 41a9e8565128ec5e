/* turn_grammar.c - what an answer must look like, as a grammar.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "server/errors.h"
#include "server/request.h"
#include "server/turn.h"
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES_MAX = 1024 };

static bool wrong(glyd_exchange *x, const char *param, const char *text)
{
    glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, param, "%s", text);
    return false;
}

static glyd_span span_of(const json_t *text)
{
    return (glyd_span){(const uint8_t *)json_string_value(text), json_string_length(text)};
}

/* What is asked for, as one part; `choices` is its storage. */
typedef struct wish {
    bool is_free; /* any text will do */
    glyd_part part;
    glyd_part *choices;
    const char *param;
} wish;

static bool read_schema(glyd_exchange *x, const json_t *schema, const char *param, wish *w)
{
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return wrong(x, param, "a JSON schema is needed.");
    w->part = (glyd_part){.kind = GLYD_PART_SCHEMA, .schema = schema};
    return true;
}

static bool read_response_format(glyd_exchange *x, const json_t *format, wish *w)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    w->param = "response_format";
    if (!type)
        return wrong(x, w->param, "response_format must be an object with a type.");
    if (strcmp(type, "text") == 0) {
        w->is_free = true;
        return true;
    }
    if (strcmp(type, "json_object") == 0) {
        w->part = (glyd_part){.kind = GLYD_PART_OBJECT};
        return true;
    }
    if (strcmp(type, "json_schema") == 0) {
        const json_t *holder = json_object_get(format, "json_schema");
        const json_t *schema = json_object_get(holder, "schema");
        return schema ? read_schema(x, schema, w->param, w)
                      : wrong(x, w->param, "response_format.json_schema needs a schema.");
    }
    return wrong(x, w->param, "response_format.type must be text, json_object or json_schema.");
}

static bool read_choices(glyd_exchange *x, const json_t *list, wish *w)
{
    size_t n = json_array_size(list), i;
    const json_t *text;
    if (n == 0 || n > CHOICES_MAX)
        return wrong(x, w->param, "choice must be a list of 1 to 1024 strings.");
    w->choices = calloc(n, sizeof *w->choices);
    if (!w->choices) {
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
        return false;
    }
    json_array_foreach((json_t *)list, i, text)
    {
        if (!json_is_string(text) || json_string_length(text) == 0)
            return wrong(x, w->param, "choice must be a list of strings, none empty.");
        w->choices[i] = (glyd_part){.kind = GLYD_PART_LITERAL, .text = span_of(text)};
    }
    w->part = (glyd_part){.kind = GLYD_PART_CHOICE, .parts = w->choices, .n_parts = n};
    return true;
}

static bool read_structured(glyd_exchange *x, const json_t *outputs, wish *w)
{
    const json_t *schema = glyd_request_member(outputs, "json");
    const json_t *regex = glyd_request_member(outputs, "regex");
    const json_t *choice = glyd_request_member(outputs, "choice");
    const json_t *object = glyd_request_member(outputs, "json_object");
    w->param = "structured_outputs";
    if (!json_is_object(outputs))
        return wrong(x, w->param, "structured_outputs must be an object.");
    if ((schema != NULL) + (regex != NULL) + (choice != NULL) + json_is_true(object) != 1)
        return wrong(x, w->param,
                     "structured_outputs must have one of json, json_object, regex and choice.");
    if (schema)
        return read_schema(x, schema, w->param, w);
    if (choice)
        return read_choices(x, choice, w);
    if (regex && !json_is_string(regex))
        return wrong(x, w->param, "structured_outputs.regex must be a string.");
    w->part = regex ? (glyd_part){.kind = GLYD_PART_REGEX, .text = span_of(regex)}
                    : (glyd_part){.kind = GLYD_PART_OBJECT};
    return true;
}

/* The parts of a forced call are those of a grammar under other names. */
static glyd_part *convert(const glyd_answer_part *from, size_t n)
{
    static const glyd_part_kind kinds[] = {
        [GLYD_ANSWER_PART_LITERAL] = GLYD_PART_LITERAL,
        [GLYD_ANSWER_PART_UNTIL] = GLYD_PART_UNTIL,
        [GLYD_ANSWER_PART_TOKEN] = GLYD_PART_TOKEN,
        [GLYD_ANSWER_PART_SCHEMA] = GLYD_PART_SCHEMA,
        [GLYD_ANSWER_PART_OBJECT] = GLYD_PART_OBJECT,
        [GLYD_ANSWER_PART_SEQUENCE] = GLYD_PART_SEQUENCE,
        [GLYD_ANSWER_PART_CHOICE] = GLYD_PART_CHOICE,
    };
    glyd_part *parts = calloc(n ? n : 1, sizeof *parts);
    for (size_t i = 0; parts && i < n; i++) {
        parts[i] = (glyd_part){.kind = kinds[from[i].kind],
                               .text = from[i].text,
                               .schema = from[i].schema,
                               .n_parts = from[i].n_parts,
                               .id = from[i].id,
                               .min = from[i].min,
                               .max = from[i].max};
        if (from[i].n_parts > 0)
            parts[i].parts = convert(from[i].parts, from[i].n_parts);
    }
    return parts;
}

static void free_parts(glyd_part *parts, size_t n)
{
    for (size_t i = 0; parts && i < n; i++)
        free_parts((glyd_part *)parts[i].parts, parts[i].parts ? parts[i].n_parts : 0);
    free(parts);
}

static bool has_lost_parts(const glyd_part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (parts[i].n_parts > 0 &&
            (!parts[i].parts || has_lost_parts(parts[i].parts, parts[i].n_parts)))
            return true;
    return false;
}

/* Compile `part`, after the rest of the reasoning where the prompt leaves the model in it. */
static glyd_status compile(const glyd_server *server, const glyd_part *part, bool inside,
                           glyd_grammar **grammar, glyd_error *err)
{
    const glyd_answer_format *f = &server->format;
    const char *mark = f->marks[GLYD_MARK_THINK_END];
    if (!inside || !mark)
        return glyd_grammar_create(part, NULL, grammar, err);
    glyd_part thought = {.kind = GLYD_PART_UNTIL,
                         .text = {(const uint8_t *)mark, strlen(mark)},
                         .id = f->ids[GLYD_MARK_THINK_END]};
    glyd_part space = {.kind = GLYD_PART_REGEX, .text = {(const uint8_t *)"\\n{0,2}", 7}};
    glyd_part parts[] = {thought, space, *part};
    glyd_part whole = {.kind = GLYD_PART_SEQUENCE, .parts = parts, .n_parts = 3};
    return glyd_grammar_create(&whole, NULL, grammar, err);
}

/* The calls that tools allow, or `other` where it is not NULL. */
static bool make_calls(glyd_exchange *x, const glyd_turn *t, bool inside, const glyd_part *other,
                       glyd_grammar **grammar)
{
    glyd_answer_shape *shape = NULL;
    glyd_error error;
    glyd_status status = glyd_answer_shape_create(&x->server->format, t->tools, t->tool_name,
                                                  t->is_single, &shape, &error);
    if (status == GLYD_OK) {
        glyd_part *calls = convert(glyd_answer_shape_root(shape), 1);
        if (!calls || has_lost_parts(calls, 1)) {
            status = glyd_error_set(&error, GLYD_E_NOMEM, "out of memory");
        } else {
            glyd_part both[] = {*calls, other ? *other : *calls};
            glyd_part either = {.kind = GLYD_PART_CHOICE, .parts = both, .n_parts = 2};
            status = compile(x->server, other ? &either : calls, inside, grammar, &error);
        }
        free_parts(calls, 1);
    }
    if (status != GLYD_OK)
        glyd_exchange_fail_status(x, "tools", &error);
    glyd_answer_shape_free(shape);
    return status == GLYD_OK;
}

bool glyd_turn_grammar(glyd_exchange *x, const glyd_turn *t, bool inside, glyd_grammar **grammar)
{
    wish w = {0};
    *grammar = NULL;
    if (t->choice == GLYD_TOOLS_FORCED)
        return make_calls(x, t, inside, NULL, grammar);
    bool is_made = true;
    if (t->structured_outputs)
        is_made = read_structured(x, t->structured_outputs, &w);
    else if (t->response_format)
        is_made = read_response_format(x, t->response_format, &w);
    else
        w.is_free = true;
    glyd_error error;
    if (is_made && !w.is_free && t->choice == GLYD_TOOLS_AUTO) {
        is_made = make_calls(x, t, inside, &w.part, grammar);
    } else if (is_made && !w.is_free &&
               compile(x->server, &w.part, inside, grammar, &error) != GLYD_OK) {
        glyd_exchange_fail_status(x, w.param, &error);
        is_made = false;
    }
    free(w.choices);
    return is_made;
}
