/* schema_merge.c - two schemas as one, and whether two share a value.
 *
 * A keyword that only one schema has is taken as it is; one that both have is put together where
 * that can be said in one schema, and refused by name elsewhere.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "constraint/schema.h"
#include <stdint.h>
#include <string.h>

enum { MERGES_MAX = 10000 };

/* A schema with its reference followed, as long as that is all it says. */
static glyd_status follow(glyd_schema *s, const json_t *schema, const json_t **target)
{
    *target = schema;
    for (int i = 0; i < GLYD_GRAMMAR_DEPTH_MAX; i++) {
        const json_t *ref = json_object_get(*target, "$ref");
        if (!ref)
            return GLYD_OK;
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)*target, key, value)
        {
            if (strcmp(key, "$ref") != 0 && strcmp(key, "$defs") != 0 &&
                strcmp(key, "definitions") != 0 && !glyd_schema_is_annotation(key))
                return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "$ref",
                                          "with %s beside it cannot be put together with more",
                                          key);
        }
        GLYD_TRY(glyd_schema_resolve(s, ref, target));
    }
    return glyd_schema_refuse(s, GLYD_E_LIMIT, "$ref", "leads to itself");
}

/* Whether so many comparisons more are within the limit. */
static bool may_compare(glyd_schema *s, size_t n, size_t by)
{
    if (n > GLYD_COMPARED_MAX || by > GLYD_COMPARED_MAX)
        return false;
    s->compared += (int64_t)(n * by) + 1;
    return s->compared <= GLYD_COMPARED_MAX;
}

static glyd_status no_memory(glyd_schema *s)
{
    return glyd_schema_refuse(s, GLYD_E_NOMEM, NULL, "out of memory");
}

static glyd_status merge_properties(glyd_schema *s, const json_t *a, json_t *b, json_t **both)
{
    const char *name;
    json_t *value;
    *both = glyd_schema_copy(a);
    if (!*both)
        return no_memory(s);
    json_object_foreach(b, name, value)
    {
        const json_t *other = json_object_get(*both, name), *merged = value;
        if (other && other != value) {
            glyd_status status = glyd_schema_merge(s, other, value, &merged);
            if (status != GLYD_OK) {
                json_decref(*both);
                return status;
            }
        }
        if (json_object_set(*both, name, (json_t *)(uintptr_t)merged) != 0) {
            json_decref(*both);
            return no_memory(s);
        }
    }
    return GLYD_OK;
}

static bool list_has(const json_t *list, const json_t *value)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (json_equal(item, value))
            return true;
    }
    return false;
}

/* The values of one list that are in the other (`is_union`: or those of both). */
static json_t *combine_lists(const json_t *a, const json_t *b, bool is_union)
{
    json_t *both = is_union ? glyd_schema_copy(a) : json_array(), *item;
    size_t i;
    json_array_foreach(b, i, item)
    {
        if (both && list_has(a, item) != is_union && json_array_append(both, item) != 0) {
            json_decref(both);
            both = NULL;
        }
    }
    return both;
}

/* The names of those types that both lists have; "integer" is a kind of "number". */
static glyd_status combine_types(glyd_schema *s, json_t *a, json_t *b, json_t **result)
{
    static const struct {
        const char *name;
        unsigned type;
    } names[] = {{"null", GLYD_TYPE_NULL},     {"boolean", GLYD_TYPE_BOOLEAN},
                 {"number", GLYD_TYPE_NUMBER}, {"integer", GLYD_TYPE_INTEGER},
                 {"string", GLYD_TYPE_STRING}, {"array", GLYD_TYPE_ARRAY},
                 {"object", GLYD_TYPE_OBJECT}};
    unsigned x = 0, y = 0;
    json_t *both = NULL, *in_a = json_pack("{sO}", "type", a), *in_b = json_pack("{sO}", "type", b);
    glyd_status status = in_a && in_b ? glyd_schema_types(s, in_a, &x) : no_memory(s);
    if (status == GLYD_OK)
        status = glyd_schema_types(s, in_b, &y);
    if (status == GLYD_OK && !(both = json_array()))
        status = no_memory(s);
    for (size_t i = 0; both && i < sizeof names / sizeof *names; i++) {
        if ((x & y & names[i].type) &&
            json_array_append_new(both, json_string(names[i].name)) != 0) {
            json_decref(both);
            both = NULL;
            status = no_memory(s);
        }
        if (x & y & names[i].type & GLYD_TYPE_NUMBER)
            y &= ~(unsigned)GLYD_TYPE_INTEGER;
    }
    json_decref(in_a);
    json_decref(in_b);
    *result = both;
    return status;
}

/* The names that two closed objects know must be the same, or one would refuse the other's. */
static bool same_names(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;
    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_foreach((json_t *)(uintptr_t)a, name, value)
    {
        if (!json_object_get(b, name))
            return false;
    }
    return true;
}

static bool is_lower_bound(const char *key)
{
    return strcmp(key, "minimum") == 0 || strcmp(key, "exclusiveMinimum") == 0 ||
           strcmp(key, "minLength") == 0 || strcmp(key, "minItems") == 0;
}

static bool is_upper_bound(const char *key)
{
    return strcmp(key, "maximum") == 0 || strcmp(key, "exclusiveMaximum") == 0 ||
           strcmp(key, "maxLength") == 0 || strcmp(key, "maxItems") == 0;
}

/* One keyword that both have. *result is a new reference. */
static glyd_status merge_keyword(glyd_schema *s, const char *key, json_t *a, json_t *b,
                                 json_t **result)
{
    *result = NULL;
    if (!may_compare(s, json_array_size(a), json_array_size(b)))
        return glyd_schema_refuse(s, GLYD_E_LIMIT, key, "too much to compare");
    if (json_equal(a, b) || strcmp(key, "$defs") == 0 || strcmp(key, "definitions") == 0) {
        *result = json_incref(a);
        return GLYD_OK;
    }
    if (strcmp(key, "properties") == 0 && json_is_object(a) && json_is_object(b))
        return merge_properties(s, a, b, result);
    if (strcmp(key, "items") == 0) {
        const json_t *merged;
        GLYD_TRY(glyd_schema_merge(s, a, b, &merged));
        *result = json_incref((json_t *)(uintptr_t)merged);
        return GLYD_OK;
    }
    if (strcmp(key, "nullable") == 0)
        *result = json_false();
    else if (strcmp(key, "required") == 0 && json_is_array(a) && json_is_array(b))
        *result = combine_lists(a, b, true);
    else if (strcmp(key, "enum") == 0 && json_is_array(a) && json_is_array(b))
        *result = combine_lists(a, b, false);
    else if (strcmp(key, "type") == 0)
        return combine_types(s, a, b, result);
    else if ((is_lower_bound(key) || is_upper_bound(key)) && json_is_number(a) && json_is_number(b))
        *result = json_incref(
            (json_number_value(a) > json_number_value(b)) == is_lower_bound(key) ? a : b);
    else
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, key,
                                  "two schemas that must both hold differ in it");
    return *result ? GLYD_OK : no_memory(s);
}

/* A schema whose additionalProperties says something goes together only with one that has the same
 * properties, or none; one that is closed only for want of the keyword takes the other's. */
static glyd_status check_closed(glyd_schema *s, const json_t *a, const json_t *b)
{
    const json_t *more_a = json_object_get(a, "additionalProperties");
    const json_t *more_b = json_object_get(b, "additionalProperties");
    const json_t *props_a = json_object_get(a, "properties");
    const json_t *props_b = json_object_get(b, "properties");
    bool strict_a = more_a && !json_is_true(more_a), strict_b = more_b && !json_is_true(more_b);
    bool is_open = (!strict_a && !props_a) || (!strict_b && !props_b);
    if ((!strict_a && !strict_b) || is_open || same_names(props_a, props_b))
        return GLYD_OK;
    return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "additionalProperties",
                              "schemas that must both hold have different properties");
}

static glyd_status merge_into(glyd_schema *s, json_t *merged, const json_t *b)
{
    const char *key;
    json_t *value, *result;
    json_object_foreach((json_t *)(uintptr_t)b, key, value)
    {
        json_t *mine = json_object_get(merged, key);
        if (glyd_schema_is_annotation(key))
            continue;
        if (mine)
            GLYD_TRY(merge_keyword(s, key, mine, value, &result));
        else
            result = json_incref(value);
        if (json_object_set_new(merged, key, result) != 0)
            return no_memory(s);
    }
    return GLYD_OK;
}

glyd_status glyd_schema_merge(glyd_schema *s, const json_t *a, const json_t *b,
                              const json_t **merged)
{
    GLYD_TRY(follow(s, a, &a));
    GLYD_TRY(follow(s, b, &b));
    if (a == b || json_is_true(b) || json_is_false(a)) {
        *merged = a;
        return GLYD_OK;
    }
    if (json_is_true(a) || json_is_false(b)) {
        *merged = b;
        return GLYD_OK;
    }
    if (!json_is_object(a) || !json_is_object(b))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, NULL,
                                  "a schema must be an object or a boolean");
    if (json_object_size(json_object_get(a, "patternProperties")) > 0 ||
        json_object_size(json_object_get(b, "patternProperties")) > 0)
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "patternProperties",
                                  "is not supported in schemas that must both hold");
    GLYD_TRY(check_closed(s, a, b));
    if (json_array_size(s->kept) >= MERGES_MAX || s->depth >= GLYD_GRAMMAR_DEPTH_MAX)
        return glyd_schema_refuse(s, GLYD_E_LIMIT, NULL, "too many schemas to put together");
    json_t *copy = glyd_schema_copy(a);
    if (!copy || json_array_append_new(s->kept, copy) != 0)
        return no_memory(s);
    s->depth++;
    glyd_status status = merge_into(s, copy, b);
    s->depth--;
    *merged = copy;
    return status;
}

/* --- whether two schemas share a value --- */

/* Values that differ for certain; 1 and 1.0 are the same. */
static bool differ(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) != json_number_value(b);
    bool is_flat = !json_is_array(a) && !json_is_object(a);
    return is_flat ? !json_equal(a, b) : json_typeof(a) != json_typeof(b);
}

/* How many values const or enum give; 0 without them. */
static size_t count_values(const json_t *schema)
{
    return json_object_get(schema, "const") ? 1 : json_array_size(json_object_get(schema, "enum"));
}

static const json_t *value_at(const json_t *schema, size_t i)
{
    const json_t *only = json_object_get(schema, "const");
    return only ? only : json_array_get(json_object_get(schema, "enum"), i);
}

static bool values_differ(glyd_schema *s, const json_t *a, const json_t *b)
{
    size_t n_a = count_values(a), n_b = count_values(b);
    bool result = n_a > 0 && n_b > 0 && may_compare(s, n_a, n_b);
    for (size_t i = 0; result && i < n_a; i++)
        for (size_t j = 0; result && j < n_b; j++)
            result = differ(value_at(a, i), value_at(b, j));
    return result;
}

/* What values of a schema may be; false where only the kinds of its keywords say so. */
static bool types_of(glyd_schema *s, const json_t *schema, unsigned *types)
{
    size_t n_values = count_values(schema);
    *types = 0;
    for (size_t i = 0; i < n_values; i++)
        *types |= glyd_schema_value_types(value_at(schema, i));
    glyd_error *err = s->err;
    s->err = NULL; /* only a question */
    if (n_values == 0 && glyd_schema_types(s, schema, types) != GLYD_OK)
        *types = GLYD_TYPE_ALL;
    s->err = err;
    if (json_is_true(json_object_get(schema, "nullable")))
        *types |= GLYD_TYPE_NULL;
    return n_values > 0 || json_object_get(schema, "type");
}

static bool list_requires(const json_t *schema, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(schema, "required"), i, item)
    {
        if (json_is_string(item) && strcmp(json_string_value(item), name) == 0)
            return true;
    }
    return false;
}

/* Both are objects, and a required property tells them apart. */
static bool objects_differ(glyd_schema *s, const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;
    if (!may_compare(s, json_object_size(json_object_get(a, "properties")),
                     json_array_size(json_object_get(a, "required")) +
                         json_array_size(json_object_get(b, "required"))))
        return false;
    json_object_foreach(json_object_get(a, "properties"), name, value)
    {
        const json_t *x, *y = json_object_get(json_object_get(b, "properties"), name);
        if (!list_requires(a, name))
            continue;
        if (!y && json_is_false(json_object_get(b, "additionalProperties")))
            return true;
        if (!y || !list_requires(b, name))
            continue;
        glyd_error *err = s->err;
        s->err = NULL;
        bool is_known = follow(s, value, &x) == GLYD_OK && follow(s, y, &y) == GLYD_OK;
        s->err = err;
        if (is_known && values_differ(s, x, y))
            return true;
    }
    return false;
}

bool glyd_schema_are_disjoint(glyd_schema *s, const json_t *a, const json_t *b)
{
    unsigned x, y;
    glyd_error *err = s->err;
    s->err = NULL;
    bool is_known = follow(s, a, &a) == GLYD_OK && follow(s, b, &b) == GLYD_OK;
    s->err = err;
    if (!is_known)
        return false;
    if (json_is_false(a) || json_is_false(b))
        return true;
    bool is_a_typed = types_of(s, a, &x), is_b_typed = types_of(s, b, &y);
    if (is_a_typed && is_b_typed && (x & y) == 0)
        return true;
    if (x == GLYD_TYPE_OBJECT && y == GLYD_TYPE_OBJECT &&
        (objects_differ(s, a, b) || objects_differ(s, b, a)))
        return true;
    bool is_nullable = json_is_true(json_object_get(a, "nullable")) ||
                       json_is_true(json_object_get(b, "nullable"));
    bool share_null = is_nullable && (x & y & GLYD_TYPE_NULL);
    return !share_null && values_differ(s, a, b);
}
