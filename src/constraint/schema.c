/* schema.c - one schema: its keywords, references, alternatives and types.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "constraint/schema.h"
#include "base/buf.h"
#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MERGES_MAX = 10000 };

static const struct {
    const char *name;
    unsigned type;
} type_names[] = {{"null", GLYD_TYPE_NULL},       {"boolean", GLYD_TYPE_BOOLEAN},
                  {"integer", GLYD_TYPE_INTEGER}, {"number", GLYD_TYPE_NUMBER | GLYD_TYPE_INTEGER},
                  {"string", GLYD_TYPE_STRING},   {"array", GLYD_TYPE_ARRAY},
                  {"object", GLYD_TYPE_OBJECT}};

/* Keywords and the types that they are about; 0: about any. */
static const struct {
    const char *name;
    unsigned types;
} keywords[] = {{"type", 0},
                {"enum", 0},
                {"const", 0},
                {"anyOf", 0},
                {"oneOf", 0},
                {"allOf", 0},
                {"$ref", 0},
                {"$defs", 0},
                {"definitions", 0},
                {"nullable", 0},
                {"properties", GLYD_TYPE_OBJECT},
                {"required", GLYD_TYPE_OBJECT},
                {"additionalProperties", GLYD_TYPE_OBJECT},
                {"patternProperties", GLYD_TYPE_OBJECT},
                {"items", GLYD_TYPE_ARRAY},
                {"prefixItems", GLYD_TYPE_ARRAY},
                {"minItems", GLYD_TYPE_ARRAY},
                {"maxItems", GLYD_TYPE_ARRAY},
                {"uniqueItems", GLYD_TYPE_ARRAY},
                {"minLength", GLYD_TYPE_STRING},
                {"maxLength", GLYD_TYPE_STRING},
                {"pattern", GLYD_TYPE_STRING},
                {"format", GLYD_TYPE_STRING},
                {"minimum", GLYD_TYPE_NUMBER | GLYD_TYPE_INTEGER},
                {"maximum", GLYD_TYPE_NUMBER | GLYD_TYPE_INTEGER},
                {"exclusiveMinimum", GLYD_TYPE_NUMBER | GLYD_TYPE_INTEGER},
                {"exclusiveMaximum", GLYD_TYPE_NUMBER | GLYD_TYPE_INTEGER},
                {"multipleOf", GLYD_TYPE_NUMBER | GLYD_TYPE_INTEGER}};

static const char *const annotations[] = {
    "title",      "description", "default",       "example",         "examples",
    "deprecated", "readOnly",    "writeOnly",     "$schema",         "$id",
    "$comment",   "$anchor",     "discriminator", "contentEncoding", "contentMediaType"};

bool glyd_schema_is_annotation(const char *keyword)
{
    for (size_t i = 0; i < sizeof annotations / sizeof *annotations; i++)
        if (strcmp(keyword, annotations[i]) == 0)
            return true;
    return strncmp(keyword, "x-", 2) == 0;
}

glyd_status glyd_schema_refuse(glyd_schema *s, glyd_status status, const char *keyword,
                               const char *format, ...)
{
    char text[GLYD_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *path = glyd_buf_text(&s->path);
    return glyd_error_set(s->err, status, "JSON schema, %.300s%s%s: %s", path ? path : "",
                          keyword ? "/" : "", keyword ? keyword : "", text);
}

/* A name in a JSON pointer: "~" and "/" are escaped. */
static glyd_status add_to_path(glyd_schema *s, const char *name)
{
    GLYD_TRY(glyd_buf_append(&s->path, "/", 1));
    for (; *name; name++) {
        const char *text = *name == '~' ? "~0" : *name == '/' ? "~1" : NULL;
        GLYD_TRY(glyd_buf_append(&s->path, text ? text : name, text ? 2 : 1));
    }
    return GLYD_OK;
}

glyd_status glyd_schema_count(glyd_schema *s, const json_t *schema, const char *keyword,
                              int32_t absent, int32_t *count)
{
    enum { COUNT_MAX = 1 << 20 };
    const json_t *value = json_object_get(schema, keyword);
    *count = absent;
    if (!value)
        return GLYD_OK;
    double n = json_number_value(value);
    if (!json_is_number(value) || n < 0 || (n < COUNT_MAX && n != (double)(int64_t)n))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, keyword, "must be an integer from 0 on");
    if (n > COUNT_MAX)
        return glyd_schema_refuse(s, GLYD_E_LIMIT, keyword, "is over %d", COUNT_MAX);
    *count = (int32_t)n;
    return GLYD_OK;
}

unsigned glyd_schema_value_types(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        return GLYD_TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return GLYD_TYPE_BOOLEAN;
    case JSON_INTEGER:
        return GLYD_TYPE_INTEGER;
    case JSON_REAL: {
        double n = json_real_value(value);
        return n > -1e18 && n < 1e18 && n == (double)(int64_t)n ? GLYD_TYPE_INTEGER
                                                                : GLYD_TYPE_NUMBER;
    }
    case JSON_STRING:
        return GLYD_TYPE_STRING;
    case JSON_ARRAY:
        return GLYD_TYPE_ARRAY;
    default:
        return GLYD_TYPE_OBJECT;
    }
}

static unsigned type_of_name(const json_t *name)
{
    const char *text = json_string_value(name);
    for (size_t i = 0; text && i < sizeof type_names / sizeof *type_names; i++)
        if (strcmp(text, type_names[i].name) == 0)
            return type_names[i].type;
    return 0;
}

glyd_status glyd_schema_types(glyd_schema *s, const json_t *schema, unsigned *types)
{
    const json_t *type = json_object_get(schema, "type"), *name;
    size_t i;
    *types = 0;
    if (!type) {
        for (i = 0; i < sizeof keywords / sizeof *keywords; i++)
            if (json_object_get(schema, keywords[i].name))
                *types |= keywords[i].types;
        if (*types == 0)
            *types = GLYD_TYPE_ALL;
        return GLYD_OK;
    }
    if (json_is_string(type))
        *types = type_of_name(type);
    if (!json_is_array(type) && *types == 0)
        return glyd_schema_refuse(s, GLYD_E_FORMAT, "type",
                                  "must be the name of a type or several");
    json_array_foreach(type, i, name)
    {
        if (type_of_name(name) == 0)
            return glyd_schema_refuse(s, GLYD_E_FORMAT, "type", "has something that is no type");
        *types |= type_of_name(name);
    }
    return GLYD_OK;
}

/* --- references --- */

/* The hexadecimal byte after a "%"; -1 where there is none. */
static int percent_byte(const char *text)
{
    char hex[3] = {0}, *end;
    if (!text[0] || !text[1])
        return -1;
    memcpy(hex, text, 2);
    long byte = strtol(hex, &end, 16);
    return *end ? -1 : (int)byte;
}

/* One name of a pointer, unescaped, into `name`; returns what follows it. */
static const char *next_name(const char *at, glyd_buf *name, glyd_status *status)
{
    name->bytes = 0;
    for (; *status == GLYD_OK && *at && *at != '/'; at++) {
        char c = *at;
        int byte = c == '%' ? percent_byte(at + 1) : -1;
        if (byte >= 0) {
            c = (char)byte;
            at += 2;
        } else if (c == '~' && (at[1] == '0' || at[1] == '1')) {
            c = *++at == '0' ? '~' : '/';
        }
        *status = glyd_buf_append(name, &c, 1);
    }
    return at;
}

glyd_status glyd_schema_resolve(glyd_schema *s, const json_t *ref, const json_t **target)
{
    const char *at = json_string_value(ref);
    glyd_buf name = {0};
    glyd_status status = GLYD_OK;
    const json_t *found = s->root;
    if (!at)
        return glyd_schema_refuse(s, GLYD_E_FORMAT, "$ref", "must be a text");
    if (at[0] != '#' || (at[1] && at[1] != '/'))
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "$ref",
                                  "\"%.100s\": only pointers within the schema (#/...) are held",
                                  at);
    at++;
    while (found && status == GLYD_OK && *at == '/') {
        at = next_name(at + 1, &name, &status);
        const char *text = status == GLYD_OK ? glyd_buf_text(&name) : NULL;
        if (!text)
            status = GLYD_E_NOMEM;
        else if (json_is_array(found))
            found = json_array_get(found, strtoul(text, NULL, 10));
        else
            found = json_object_get(found, text);
    }
    glyd_buf_free(&name);
    if (status != GLYD_OK)
        return glyd_schema_refuse(s, status, "$ref", "out of memory");
    if (!found)
        return glyd_schema_refuse(s, GLYD_E_FORMAT, "$ref", "\"%.100s\" leads nowhere",
                                  json_string_value(ref));
    *target = found;
    return GLYD_OK;
}

/* --- kinds of schemas --- */

json_t *glyd_schema_copy(const json_t *value)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)value);
    if (copy && json_object_size(copy) + json_array_size(copy) !=
                    json_object_size(value) + json_array_size(value)) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

/* The schema without one keyword and without definitions. NULL: out of memory. */
static json_t *without(glyd_schema *s, const json_t *schema, const char *keyword)
{
    json_t *copy = glyd_schema_copy(schema);
    if (!copy || json_array_append_new(s->kept, copy) != 0 || json_array_size(s->kept) > MERGES_MAX)
        return NULL;
    json_object_del(copy, keyword);
    json_object_del(copy, "nullable"); /* compile_body does it */
    json_object_del(copy, "$defs");
    json_object_del(copy, "definitions");
    return copy;
}

/* Whether a schema says anything: annotations and definitions do not. */
static bool says_something(const json_t *schema)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        if (!glyd_schema_is_annotation(key))
            return true;
    }
    return false;
}

/* One schema that says what the rest of `schema` and `other` say. */
static glyd_status join(glyd_schema *s, const json_t *rest, const json_t *other,
                        const json_t **joined)
{
    *joined = other;
    return says_something(rest) ? glyd_schema_merge(s, rest, other, joined) : GLYD_OK;
}

static glyd_status compile_ref(glyd_schema *s, const json_t *schema, glyd_node *node)
{
    const json_t *target, *joined, *rest = without(s, schema, "$ref");
    if (!rest)
        return glyd_schema_refuse(s, GLYD_E_LIMIT, "$ref", "too many schemas to put together");
    GLYD_TRY(glyd_schema_resolve(s, json_object_get(schema, "$ref"), &target));
    GLYD_TRY(join(s, rest, target, &joined));
    return glyd_schema_node(s, joined, NULL, NULL, node);
}

static glyd_status compile_all_of(glyd_schema *s, const json_t *schema, glyd_node *node)
{
    const json_t *list = json_object_get(schema, "allOf"), *part;
    const json_t *joined = without(s, schema, "allOf");
    size_t i;
    if (!joined)
        return glyd_schema_refuse(s, GLYD_E_LIMIT, "allOf", "too many schemas to put together");
    if (!json_is_array(list) || json_array_size(list) == 0)
        return glyd_schema_refuse(s, GLYD_E_FORMAT, "allOf", "must be a list of schemas");
    json_array_foreach(list, i, part)
    {
        GLYD_TRY(join(s, joined, part, &joined));
    }
    return glyd_schema_node(s, joined, NULL, NULL, node);
}

static glyd_status check_exclusive(glyd_schema *s, const json_t *const *branches, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (!glyd_schema_are_disjoint(s, branches[i], branches[j]))
                return glyd_schema_refuse(
                    s, GLYD_E_UNSUPPORTED, "oneOf",
                    "schemas %zu and %zu may share a value; use anyOf, or a constant that differs",
                    i, j);
    return GLYD_OK;
}

static glyd_status compile_branches(glyd_schema *s, const json_t *schema, const char *keyword,
                                    const json_t **branches, glyd_node *kids, size_t n)
{
    const json_t *list = json_object_get(schema, keyword);
    const json_t *rest = without(s, schema, keyword);
    if (!rest)
        return glyd_schema_refuse(s, GLYD_E_LIMIT, keyword, "too many schemas to put together");
    for (size_t i = 0; i < n; i++)
        GLYD_TRY(join(s, rest, json_array_get(list, i), &branches[i]));
    if (strcmp(keyword, "oneOf") == 0)
        GLYD_TRY(check_exclusive(s, branches, n));
    for (size_t i = 0; i < n; i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        GLYD_TRY(glyd_schema_node(s, branches[i], keyword, index, &kids[i]));
    }
    return GLYD_OK;
}

static glyd_status compile_alternatives(glyd_schema *s, const json_t *schema, const char *keyword,
                                        glyd_node *node)
{
    size_t n = json_array_size(json_object_get(schema, keyword));
    if (n == 0)
        return glyd_schema_refuse(s, GLYD_E_FORMAT, keyword, "must be a list of schemas");
    if (n > 1000)
        return glyd_schema_refuse(s, GLYD_E_LIMIT, keyword, "has over 1000 schemas");
    const json_t **branches = calloc(n, sizeof(const json_t *));
    glyd_node *kids = calloc(n, sizeof *kids);
    glyd_status status = branches && kids ? GLYD_OK : GLYD_E_NOMEM;
    if (status == GLYD_OK)
        status = compile_branches(s, schema, keyword, branches, kids, n);
    else
        status = glyd_schema_refuse(s, status, keyword, "out of memory");
    if (status == GLYD_OK)
        *node = glyd_ir_alt(s->ir, kids, n);
    free(branches);
    free(kids);
    return status;
}

/* A value as compact JSON onto `out`. */
static glyd_status write_value(const json_t *value, glyd_buf *out)
{
    if (json_is_string(value))
        return glyd_json_quote(json_string_value(value), json_string_length(value), out);
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return GLYD_E_NOMEM;
    glyd_status status = glyd_buf_append(out, text, strlen(text));
    free(text);
    return status;
}

static bool is_allowed(unsigned types, const json_t *value)
{
    unsigned have = glyd_schema_value_types(value);
    return (have & types) != 0;
}

/* The texts of those values that have one of the types. */
static glyd_node choose_values(glyd_schema *s, const json_t *const *values, size_t n,
                               unsigned types, glyd_status *status)
{
    glyd_buf text = {0};
    glyd_span *texts = calloc(n, sizeof *texts);
    size_t *ends = calloc(n + 1, sizeof *ends), kept = 0;
    glyd_node node = GLYD_NODE_NEVER;
    *status = texts && ends ? GLYD_OK : GLYD_E_NOMEM;
    for (size_t i = 0; *status == GLYD_OK && i < n; i++) {
        if (!is_allowed(types, values[i]))
            continue;
        *status = write_value(values[i], &text);
        ends[++kept] = text.bytes;
    }
    if (*status == GLYD_OK) {
        for (size_t i = 0; i < kept; i++)
            texts[i] = (glyd_span){text.data + ends[i], ends[i + 1] - ends[i]};
        node = glyd_ir_choice(s->ir, texts, kept);
    }
    free(texts);
    free(ends);
    glyd_buf_free(&text);
    return node;
}

/* enum and const. Other keywords beside them are not checked against the values, so refused. */
static glyd_status compile_values(glyd_schema *s, const json_t *schema, glyd_node *node)
{
    const json_t *list = json_object_get(schema, "enum");
    const json_t *only = json_object_get(schema, "const");
    const char *key;
    json_t *value;
    unsigned types;
    GLYD_TRY(glyd_schema_types(s, schema, &types));
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        if (strcmp(key, "enum") != 0 && strcmp(key, "const") != 0 && strcmp(key, "type") != 0 &&
            strcmp(key, "nullable") != 0 && strcmp(key, "$defs") != 0 &&
            strcmp(key, "definitions") != 0 && !glyd_schema_is_annotation(key))
            return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, key,
                                      "is not supported beside enum or const");
    }
    if (list && (!json_is_array(list) || json_array_size(list) == 0))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, "enum", "must be a list of values");
    size_t n_list = list ? json_array_size(list) : 1, n = 0;
    const json_t **values = calloc(n_list, sizeof(const json_t *));
    glyd_status status = values ? GLYD_OK : GLYD_E_NOMEM;
    for (size_t i = 0; values && i < n_list; i++) {
        const json_t *v = list ? json_array_get(list, i) : only;
        if (!list || !only || json_equal(v, only))
            values[n++] = v;
    }
    if (values)
        *node = choose_values(s, values, n, types, &status);
    free(values);
    return status == GLYD_OK ? GLYD_OK : glyd_schema_refuse(s, status, NULL, "out of memory");
}

static glyd_status compile_types(glyd_schema *s, const json_t *schema, glyd_node *node)
{
    glyd_node kids[6];
    size_t n = 0;
    unsigned types;
    GLYD_TRY(glyd_schema_types(s, schema, &types));
    if (types & GLYD_TYPE_NULL)
        kids[n++] = s->json->null;
    if (types & GLYD_TYPE_BOOLEAN)
        kids[n++] = s->json->boolean;
    if (types & (GLYD_TYPE_INTEGER | GLYD_TYPE_NUMBER))
        GLYD_TRY(glyd_schema_number(s, schema, !(types & GLYD_TYPE_NUMBER), &kids[n++]));
    if (types & GLYD_TYPE_STRING)
        GLYD_TRY(glyd_schema_string(s, schema, &kids[n++]));
    if (types & GLYD_TYPE_ARRAY)
        GLYD_TRY(glyd_schema_array(s, schema, &kids[n++]));
    if (types & GLYD_TYPE_OBJECT)
        GLYD_TRY(glyd_schema_object(s, schema, &kids[n++]));
    *node = glyd_ir_alt(s->ir, kids, n);
    return GLYD_OK;
}

/* Keywords that are not held but allow everything with this value, as generators write them. */
static bool says_nothing(const char *keyword, const json_t *value)
{
    const char *key;
    json_t *said;
    if (strcmp(keyword, "dependentRequired") == 0)
        return json_is_object(value) && json_object_size(value) == 0;
    if (strcmp(keyword, "minProperties") == 0)
        return json_is_integer(value) && json_integer_value(value) == 0;
    if (strcmp(keyword, "propertyNames") != 0 || !json_is_object(value))
        return false;
    json_object_foreach((json_t *)(uintptr_t)value, key, said)
    {
        const char *type = strcmp(key, "type") == 0 ? json_string_value(said) : NULL;
        if (!glyd_schema_is_annotation(key) && !(type && strcmp(type, "string") == 0))
            return false;
    }
    return true;
}

static glyd_status check_keywords(glyd_schema *s, const json_t *schema)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        bool is_known = glyd_schema_is_annotation(key) || says_nothing(key, value);
        for (size_t i = 0; !is_known && i < sizeof keywords / sizeof *keywords; i++)
            is_known = strcmp(key, keywords[i].name) == 0;
        if (!is_known)
            return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, key, "the keyword is not supported");
    }
    return GLYD_OK;
}

static glyd_status compile_body(glyd_schema *s, const json_t *schema, glyd_node *node)
{
    glyd_status status;
    const json_t *nullable = json_object_get(schema, "nullable");
    GLYD_TRY(check_keywords(s, schema));
    if (nullable && !json_is_boolean(nullable))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, "nullable", "must be true or false");
    if (json_object_get(schema, "$ref"))
        status = compile_ref(s, schema, node);
    else if (json_object_get(schema, "allOf"))
        status = compile_all_of(s, schema, node);
    else if (json_object_get(schema, "anyOf"))
        status = compile_alternatives(s, schema, "anyOf", node);
    else if (json_object_get(schema, "oneOf"))
        status = compile_alternatives(s, schema, "oneOf", node);
    else if (json_object_get(schema, "enum") || json_object_get(schema, "const"))
        status = compile_values(s, schema, node);
    else
        status = compile_types(s, schema, node);
    if (status == GLYD_OK && json_is_true(nullable))
        *node = GLYD_IR_ALT(s->ir, *node, s->json->null);
    return status;
}

/* --- rules by address --- */

static size_t slot_of(const glyd_schema *s, const json_t *schema)
{
    const glyd_schema_rule *rules = (const glyd_schema_rule *)(const void *)s->rules.data;
    size_t n = s->rules.bytes / sizeof *rules;
    size_t slot = (size_t)((uintptr_t)schema / 16 * 0x9E3779B1u) % n;
    while (rules[slot].schema && rules[slot].schema != schema)
        slot = (slot + 1) % n;
    return slot;
}

static glyd_status grow(glyd_schema *s)
{
    glyd_buf old = s->rules;
    const glyd_schema_rule *rules = (const glyd_schema_rule *)(const void *)old.data;
    size_t n = old.bytes / sizeof *rules;
    if (s->n_rules * 2 < n)
        return GLYD_OK;
    s->rules = (glyd_buf){0};
    glyd_status status = glyd_buf_resize(&s->rules, (n ? 2 * n : 64) * sizeof *rules);
    if (status != GLYD_OK) {
        s->rules = old;
        return status;
    }
    memset(s->rules.data, 0, s->rules.bytes);
    for (size_t i = 0; i < n; i++)
        if (rules[i].schema)
            ((glyd_schema_rule *)(void *)s->rules.data)[slot_of(s, rules[i].schema)] = rules[i];
    glyd_buf_free(&old);
    return GLYD_OK;
}

static glyd_status node_of(glyd_schema *s, const json_t *schema, glyd_node *node)
{
    if (json_is_true(schema)) {
        *node = s->json->value;
        return GLYD_OK;
    }
    if (json_is_false(schema)) {
        *node = GLYD_NODE_NEVER;
        return GLYD_OK;
    }
    if (!json_is_object(schema))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, NULL,
                                  "a schema must be an object or a boolean");
    if (grow(s) != GLYD_OK)
        return glyd_schema_refuse(s, GLYD_E_NOMEM, NULL, "out of memory");
    glyd_schema_rule *at = (glyd_schema_rule *)(void *)s->rules.data + slot_of(s, schema);
    if (!at->schema) {
        uint32_t rule = glyd_ir_new_rule(s->ir);
        glyd_node body = GLYD_NODE_NEVER;
        *at = (glyd_schema_rule){schema, rule};
        s->n_rules++;
        GLYD_TRY(compile_body(s, schema, &body));
        glyd_ir_set_rule(s->ir, rule, body);
        *node = glyd_ir_rule(s->ir, rule);
        return GLYD_OK;
    }
    *node = glyd_ir_rule(s->ir, at->rule);
    return GLYD_OK;
}

glyd_status glyd_schema_node(glyd_schema *s, const json_t *schema, const char *key,
                             const char *name, glyd_node *node)
{
    size_t path = s->path.bytes;
    glyd_status status = key ? add_to_path(s, key) : GLYD_OK;
    if (status == GLYD_OK && name)
        status = add_to_path(s, name);
    if (status != GLYD_OK)
        return glyd_schema_refuse(s, status, NULL, "out of memory");
    if (s->depth >= GLYD_GRAMMAR_DEPTH_MAX)
        return glyd_schema_refuse(s, GLYD_E_LIMIT, NULL, "schemas are nested over %d deep",
                                  GLYD_GRAMMAR_DEPTH_MAX);
    s->depth++;
    status = node_of(s, schema, node);
    s->depth--;
    s->path.bytes = path;
    return status;
}

glyd_status glyd_schema_compile(glyd_ir *ir, const glyd_json_nodes *json, const json_t *root,
                                glyd_node *node, glyd_error *err)
{
    glyd_schema s = {.ir = ir, .json = json, .root = root, .kept = json_array(), .err = err};
    if (!s.kept)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    glyd_status status = glyd_buf_append(&s.path, "#", 1);
    if (status == GLYD_OK)
        status = glyd_schema_node(&s, root, NULL, NULL, node);
    else
        glyd_error_set(err, status, "out of memory");
    json_decref(s.kept);
    glyd_buf_free(&s.rules);
    glyd_buf_free(&s.path);
    return status;
}
