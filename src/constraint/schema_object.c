/* schema_object.c - objects and arrays.
 *
 * Both are lists written from the end: what may follow element i is a rule, so that a list of many
 * optional properties has twice as many rules and no more.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "constraint/pattern.h"
#include "constraint/schema.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { PROPERTIES_MAX = 2000, PREFIX_MAX = 2000, NAME_BYTES_MAX = 256 };

typedef struct property {
    const char *name;
    size_t bytes;
    const json_t *schema;
    bool is_required;
    glyd_node pair;
} property;

typedef struct properties {
    property *list;
    size_t n;
} properties;

/* --- names of additional properties: any but those in the list --- */

typedef struct spelling {
    const uint8_t *at, *end;
} spelling;

static int by_spelling(const void *a, const void *b)
{
    const spelling *x = a, *y = b;
    size_t nx = (size_t)(x->end - x->at), ny = (size_t)(y->end - y->at);
    int order = memcmp(x->at, y->at, nx < ny ? nx : ny);
    return order ? order : nx < ny ? -1 : nx > ny;
}

static size_t read_point(const spelling *s, uint32_t *point)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t n = utf8proc_iterate(s->at, s->end - s->at, &c);
    *point = n > 0 ? (uint32_t)c : 0xFFFD;
    return n > 0 ? (size_t)n : 1;
}

/* What may follow the characters that `names`, sorted, begin with: not the end of one of them. Up
 * to where it differs from all of them, a name is written without needless escapes, so that an
 * escape cannot hide one. */
static glyd_node other_name(glyd_ir *ir, const spelling *names, size_t n)
{
    glyd_buf kids = {0}, points = {0};
    bool is_whole = n > 0 && names[0].at == names[0].end;
    for (size_t i = is_whole, end; i < n && ir->status == GLYD_OK; i = end) {
        uint32_t point, other;
        glyd_buf rest = {0};
        for (end = i; end < n; end++) {
            spelling s = names[end];
            s.at += read_point(&s, &other);
            if (end == i)
                point = other;
            if (other != point)
                break;
            if (glyd_buf_append(&rest, &s, sizeof s) != GLYD_OK)
                ir->status = GLYD_E_NOMEM;
        }
        glyd_range range = {point, point};
        glyd_node kid = GLYD_IR_SEQ(
            ir, glyd_ir_class(ir, &range, 1, true),
            other_name(ir, (const spelling *)(const void *)rest.data, rest.bytes / sizeof *names));
        if (glyd_buf_append(&kids, &kid, sizeof kid) != GLYD_OK ||
            glyd_buf_append(&points, &range, sizeof range) != GLYD_OK)
            ir->status = GLYD_E_NOMEM;
        glyd_buf_free(&rest);
    }
    glyd_range *ranges = (glyd_range *)(void *)points.data;
    size_t n_points = glyd_ranges_normalise(ranges, points.bytes / sizeof *ranges);
    glyd_buf free_points = {0};
    if (glyd_buf_reserve(&free_points, (n_points + 1) * sizeof *ranges) == GLYD_OK) {
        glyd_range *free_ranges = (glyd_range *)(void *)free_points.data;
        size_t n_free = glyd_ranges_invert(ranges, n_points, free_ranges);
        glyd_node tail[2] = {
            GLYD_IR_SEQ(ir, glyd_ir_class(ir, free_ranges, n_free, true), glyd_ir_chars(ir, 0, -1)),
            GLYD_NODE_EMPTY};
        if (glyd_buf_append(&kids, tail, (is_whole ? 1 : 2) * sizeof *tail) != GLYD_OK)
            ir->status = GLYD_E_NOMEM;
    } else {
        ir->status = GLYD_E_NOMEM;
    }
    glyd_node node =
        glyd_ir_alt(ir, (const glyd_node *)(const void *)kids.data, kids.bytes / sizeof(glyd_node));
    glyd_buf_free(&kids);
    glyd_buf_free(&points);
    glyd_buf_free(&free_points);
    return node;
}

static glyd_status name_node(glyd_schema *s, const properties *props, glyd_node *node)
{
    if (props->n == 0) {
        *node = s->json->string;
        return GLYD_OK;
    }
    spelling *names = calloc(props->n, sizeof *names);
    if (!names)
        return glyd_schema_refuse(s, GLYD_E_NOMEM, NULL, "out of memory");
    for (size_t i = 0; i < props->n; i++) {
        if (props->list[i].bytes > NAME_BYTES_MAX) {
            free(names);
            return glyd_schema_refuse(s, GLYD_E_LIMIT, "properties",
                                      "a name over %d bytes beside additionalProperties",
                                      NAME_BYTES_MAX);
        }
        names[i].at = (const uint8_t *)props->list[i].name;
        names[i].end = names[i].at + props->list[i].bytes;
    }
    qsort(names, props->n, sizeof *names, by_spelling);
    *node = GLYD_IR_SEQ(s->ir, glyd_ir_text(s->ir, "\""), other_name(s->ir, names, props->n),
                        glyd_ir_text(s->ir, "\""));
    free(names);
    return GLYD_OK;
}

/* --- objects --- */

static glyd_node colon(glyd_schema *s)
{
    return GLYD_IR_SEQ(s->ir, s->json->space, glyd_ir_text(s->ir, ":"), s->json->space);
}

static glyd_node comma(glyd_schema *s)
{
    return GLYD_IR_SEQ(s->ir, s->json->space, glyd_ir_text(s->ir, ","), s->json->space);
}

static glyd_status make_pair(glyd_schema *s, property *p)
{
    glyd_buf quoted = {0};
    glyd_node value = GLYD_NODE_NEVER;
    if (p->schema)
        GLYD_TRY(glyd_schema_node(s, p->schema, "properties", p->name, &value));
    else
        value = s->json->value;
    glyd_status status = glyd_json_quote(p->name, p->bytes, &quoted);
    if (status == GLYD_OK)
        p->pair = glyd_ir_shared(
            s->ir,
            GLYD_IR_SEQ(s->ir, glyd_ir_bytes(s->ir, quoted.data, quoted.bytes), colon(s), value));
    glyd_buf_free(&quoted);
    return status == GLYD_OK ? GLYD_OK : glyd_schema_refuse(s, status, NULL, "out of memory");
}

static bool requires_name(const json_t *required, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(required, i, item)
    {
        if (json_is_string(item) && strcmp(json_string_value(item), name) == 0)
            return true;
    }
    return false;
}

/* Properties in order, then required names that are not among them. */
static glyd_status list_properties(glyd_schema *s, const json_t *schema, properties *props)
{
    json_t *listed = json_object_get(schema, "properties"), *value;
    const json_t *required = json_object_get(schema, "required");
    const char *name;
    size_t i, name_bytes;
    if (listed && !json_is_object(listed))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, "properties", "must be an object");
    if (required && !json_is_array(required))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, "required", "must be a list of names");
    size_t most = json_object_size(listed) + json_array_size(required);
    if (most > PROPERTIES_MAX)
        return glyd_schema_refuse(s, GLYD_E_LIMIT, "properties", "has over %d names",
                                  PROPERTIES_MAX);
    props->list = calloc(most + 1, sizeof *props->list);
    if (!props->list)
        return glyd_schema_refuse(s, GLYD_E_NOMEM, NULL, "out of memory");
    json_object_keylen_foreach(listed, name, name_bytes, value)
    {
        props->list[props->n++] = (property){.name = name,
                                             .bytes = name_bytes,
                                             .schema = value,
                                             .is_required = requires_name(required, name)};
    }
    json_array_foreach(required, i, value)
    {
        if (!json_is_string(value))
            return glyd_schema_refuse(s, GLYD_E_FORMAT, "required", "must be a list of names");
        bool is_new = true;
        for (size_t j = 0; is_new && j < props->n; j++)
            is_new = strcmp(props->list[j].name, json_string_value(value)) != 0;
        if (is_new)
            props->list[props->n++] = (property){.name = json_string_value(value),
                                                 .bytes = json_string_length(value),
                                                 .is_required = true};
    }
    return GLYD_OK;
}

/* The one pattern that names must match. *pattern is NULL where there is none. */
static glyd_status find_pattern(glyd_schema *s, const json_t *schema, const properties *props,
                                const char **pattern, const json_t **value)
{
    static const char keyword[] = "patternProperties";
    json_t *patterns = json_object_get(schema, keyword);
    const json_t *more = json_object_get(schema, "additionalProperties");
    void *first = json_object_iter(patterns);
    *pattern = first ? json_object_iter_key(first) : NULL;
    *value = first ? json_object_iter_value(first) : NULL;
    if (patterns && !json_is_object(patterns))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, keyword, "must be an object");
    if (json_object_size(patterns) > 1)
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, keyword,
                                  "more than one pattern is not supported");
    if (first && (props->n > 0 || (more && !json_is_false(more))))
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, keyword,
                                  "is not supported beside properties, required or "
                                  "additionalProperties other than false");
    return GLYD_OK;
}

static glyd_status pattern_name(glyd_schema *s, const char *pattern, glyd_node *name)
{
    glyd_error why = {0};
    glyd_span text = {(const uint8_t *)pattern, strlen(pattern)};
    glyd_node content = GLYD_NODE_NEVER, quote = glyd_ir_text(s->ir, "\"");
    glyd_status status = glyd_pattern_parse(s->ir, text, GLYD_PATTERN_JSON_SEARCH, &content, &why);
    if (status != GLYD_OK)
        return glyd_schema_refuse(s, status, "patternProperties", "%s", why.text);
    *name = GLYD_IR_SEQ(s->ir, quote, content, quote);
    return GLYD_OK;
}

/* The rest of an object after its listed properties, with and without one before. */
static glyd_status object_tails(glyd_schema *s, const json_t *schema, const properties *props,
                                glyd_node tails[2])
{
    const json_t *more = json_object_get(schema, "additionalProperties");
    glyd_node end = glyd_ir_text(s->ir, "}"), value = s->json->value, name;
    const char *pattern;
    const json_t *matched;
    GLYD_TRY(find_pattern(s, schema, props, &pattern, &matched));
    tails[0] = end;
    tails[1] = GLYD_IR_SEQ(s->ir, s->json->space, end);
    if (!pattern && (json_is_false(more) || (!more && json_object_get(schema, "properties"))))
        return GLYD_OK;
    if (pattern) {
        GLYD_TRY(glyd_schema_node(s, matched, "patternProperties", pattern, &value));
        GLYD_TRY(pattern_name(s, pattern, &name));
    } else {
        if (more)
            GLYD_TRY(glyd_schema_node(s, more, "additionalProperties", NULL, &value));
        GLYD_TRY(name_node(s, props, &name));
    }
    glyd_node pair = glyd_ir_shared(s->ir, GLYD_IR_SEQ(s->ir, name, colon(s), value));
    glyd_node others = glyd_ir_shared(
        s->ir, GLYD_IR_SEQ(s->ir, glyd_ir_repeat(s->ir, GLYD_IR_SEQ(s->ir, comma(s), pair), 0, -1),
                           tails[1]));
    tails[1] = others;
    tails[0] = GLYD_IR_ALT(s->ir, end, GLYD_IR_SEQ(s->ir, pair, others));
    return GLYD_OK;
}

/* A required name that may not be there can never be. */
static void deny_missing(const json_t *schema, properties *props, glyd_node *root)
{
    if (!json_is_false(json_object_get(schema, "additionalProperties")))
        return;
    for (size_t i = 0; i < props->n; i++)
        if (!props->list[i].schema)
            *root = GLYD_NODE_NEVER;
}

static glyd_status build_object(glyd_schema *s, const json_t *schema, properties *props,
                                glyd_node *node)
{
    glyd_node tails[2];
    GLYD_TRY(list_properties(s, schema, props));
    for (size_t i = 0; i < props->n; i++)
        GLYD_TRY(make_pair(s, &props->list[i]));
    GLYD_TRY(object_tails(s, schema, props, tails));
    for (size_t i = props->n; i-- > 0;) {
        const property *p = &props->list[i];
        glyd_node first = GLYD_IR_SEQ(s->ir, p->pair, tails[1]);
        glyd_node later = GLYD_IR_SEQ(s->ir, comma(s), p->pair, tails[1]);
        if (!p->is_required) {
            first = GLYD_IR_ALT(s->ir, first, tails[0]);
            later = GLYD_IR_ALT(s->ir, later, tails[1]);
        }
        tails[0] = glyd_ir_shared(s->ir, first);
        tails[1] = glyd_ir_shared(s->ir, later);
    }
    *node = GLYD_IR_SEQ(s->ir, glyd_ir_text(s->ir, "{"), s->json->space, tails[0]);
    deny_missing(schema, props, node);
    return GLYD_OK;
}

glyd_status glyd_schema_object(glyd_schema *s, const json_t *schema, glyd_node *node)
{
    properties props = {0};
    glyd_status status = build_object(s, schema, &props, node);
    free(props.list);
    return status;
}

/* --- arrays --- */

/* What follows `done` prefix items; `item` is what comes after them all. */
static glyd_node array_tail(glyd_schema *s, glyd_node item, int32_t done, int32_t min, int32_t max)
{
    glyd_ir *ir = s->ir;
    glyd_node end = glyd_ir_text(ir, "]"), spaced = GLYD_IR_SEQ(ir, s->json->space, end);
    int32_t least = min > done ? min - done : 0, most = max < 0 ? -1 : max - done;
    glyd_node next = GLYD_IR_SEQ(ir, comma(s), item);
    if (max >= 0 && most <= 0)
        return most == 0 && done > 0 ? spaced : most == 0 ? end : GLYD_NODE_NEVER;
    if (done > 0)
        return GLYD_IR_SEQ(ir, glyd_ir_repeat(ir, next, least, most), spaced);
    glyd_node some = GLYD_IR_SEQ(
        ir, item, glyd_ir_repeat(ir, next, least > 0 ? least - 1 : 0, most < 0 ? -1 : most - 1),
        spaced);
    return least > 0 ? some : GLYD_IR_ALT(ir, end, some);
}

static glyd_status build_array(glyd_schema *s, const json_t *schema, glyd_node *prefix, size_t n,
                               glyd_node *node)
{
    const json_t *items = json_object_get(schema, "items");
    glyd_node item = s->json->value;
    int32_t min, max;
    GLYD_TRY(glyd_schema_count(s, schema, "minItems", 0, &min));
    GLYD_TRY(glyd_schema_count(s, schema, "maxItems", -1, &max));
    if (max >= 0 && min > max) {
        *node = GLYD_NODE_NEVER;
        return GLYD_OK;
    }
    for (size_t i = 0; i < n; i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        GLYD_TRY(glyd_schema_node(s, json_array_get(json_object_get(schema, "prefixItems"), i),
                                  "prefixItems", index, &prefix[i]));
    }
    if (items)
        GLYD_TRY(glyd_schema_node(s, items, "items", NULL, &item));
    item = glyd_ir_shared(s->ir, item);
    glyd_node tail = array_tail(s, item, (int32_t)n, min, max);
    for (size_t i = n; i-- > 0;) {
        bool may_stop = (int32_t)i >= min;
        glyd_node end = i == 0 ? glyd_ir_text(s->ir, "]")
                               : GLYD_IR_SEQ(s->ir, s->json->space, glyd_ir_text(s->ir, "]"));
        glyd_node more = i == 0 ? GLYD_IR_SEQ(s->ir, prefix[i], tail)
                                : GLYD_IR_SEQ(s->ir, comma(s), prefix[i], tail);
        bool may_go_on = max < 0 || (int32_t)i < max;
        tail = glyd_ir_shared(s->ir, !may_go_on ? end
                                     : may_stop ? GLYD_IR_ALT(s->ir, end, more)
                                                : more);
    }
    *node = GLYD_IR_SEQ(s->ir, glyd_ir_text(s->ir, "["), s->json->space, tail);
    return GLYD_OK;
}

glyd_status glyd_schema_array(glyd_schema *s, const json_t *schema, glyd_node *node)
{
    const json_t *list = json_object_get(schema, "prefixItems");
    const json_t *unique = json_object_get(schema, "uniqueItems");
    size_t n = json_array_size(list);
    if (unique && !json_is_false(unique))
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "uniqueItems",
                                  "the keyword is not supported");
    if (list && !json_is_array(list))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, "prefixItems", "must be a list of schemas");
    if (json_is_array(json_object_get(schema, "items")))
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "items",
                                  "a list of schemas is not supported; use prefixItems");
    if (n > PREFIX_MAX)
        return glyd_schema_refuse(s, GLYD_E_LIMIT, "prefixItems", "has over %d schemas",
                                  PREFIX_MAX);
    glyd_node *prefix = calloc(n + 1, sizeof *prefix);
    if (!prefix)
        return glyd_schema_refuse(s, GLYD_E_NOMEM, NULL, "out of memory");
    glyd_status status = build_array(s, schema, prefix, n, node);
    free(prefix);
    return status;
}
