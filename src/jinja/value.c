/* value.c - truth, length, iteration, equality, order and membership, as Python has them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <math.h>

bool glyd_jinja_truth(jinja_value v)
{
    switch (v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return v.as.truth;
    case JINJA_INT:
        return v.as.integer != 0;
    case JINJA_REAL:
        return v.as.real != 0;
    case JINJA_STRING:
        return v.as.string->bytes != 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW:
        return v.as.list->n != 0;
    case JINJA_DICT:
        return v.as.dict->n != 0;
    default:
        return true; /* generators too, empty or not */
    }
}

const char *glyd_jinja_type_name(jinja_value v)
{
    static const char *const names[] = {
        [JINJA_MISSING] = "missing",
        [JINJA_UNDEFINED] = "Undefined",
        [JINJA_NONE] = "NoneType",
        [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int",
        [JINJA_REAL] = "float",
        [JINJA_STRING] = "str",
        [JINJA_LIST] = "list",
        [JINJA_TUPLE] = "tuple",
        [JINJA_RANGE] = "range",
        [JINJA_VIEW] = "dict_items",
        [JINJA_GENERATOR] = "generator",
        [JINJA_DICT] = "dict",
        [JINJA_NAMESPACE] = "Namespace",
        [JINJA_MACRO] = "Macro",
        [JINJA_FUNCTION] = "function",
        [JINJA_METHOD] = "builtin_function_or_method",
        [JINJA_LOOP] = "LoopContext",
        [JINJA_CYCLER] = "Cycler",
        [JINJA_JOINER] = "Joiner",
    };
    return v.kind == JINJA_VIEW ? v.as.list->label : names[v.kind];
}

bool glyd_jinja_has_length(jinja_value v)
{
    switch (v.kind) {
    case JINJA_UNDEFINED:
    case JINJA_STRING:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW:
    case JINJA_DICT:
    case JINJA_LOOP:
        return true;
    default:
        return false;
    }
}

glyd_status glyd_jinja_length(jinja_run *r, jinja_value v, int64_t *n)
{
    switch (v.kind) {
    case JINJA_UNDEFINED:
        *n = 0;
        return GLYD_OK;
    case JINJA_STRING:
        *n = (int64_t)v.as.string->points;
        return GLYD_OK;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW:
        *n = (int64_t)v.as.list->n;
        return GLYD_OK;
    case JINJA_DICT:
        *n = (int64_t)v.as.dict->n;
        return GLYD_OK;
    case JINJA_LOOP:
        return glyd_jinja_loop_length(r, v.as.loop, n);
    default:
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "object of type '%s' has no len()",
                               glyd_jinja_type_name(v));
    }
}

bool glyd_jinja_is_iterable(jinja_value v)
{
    return v.kind == JINJA_GENERATOR || v.kind == JINJA_LOOP || glyd_jinja_has_length(v);
}

static glyd_status characters(jinja_run *r, const jinja_string *s, jinja_list **items)
{
    GLYD_TRY(glyd_jinja_charge(r, s->points));
    jinja_list *list = glyd_jinja_list_new(&r->arena, s->points);
    if (!list)
        return r->arena.status;
    for (size_t at = 0; at < s->bytes;) {
        int32_t point;
        size_t bytes = glyd_jinja_decode(s->data + at, &point);
        const jinja_string *one = glyd_jinja_string_view(&r->arena, s->data + at, bytes);
        if (!one)
            return r->arena.status;
        GLYD_TRY(glyd_jinja_list_add(&r->arena, list, jinja_text(one)));
        at += bytes;
    }
    *items = list;
    return GLYD_OK;
}

glyd_status glyd_jinja_items(jinja_run *r, jinja_value v, jinja_list **items)
{
    switch (v.kind) {
    case JINJA_STRING:
        return characters(r, v.as.string, items);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW:
        *items = v.as.list;
        return glyd_jinja_charge(r, v.as.list->n);
    case JINJA_UNDEFINED:
    case JINJA_DICT:
    case JINJA_GENERATOR:
        *items = glyd_jinja_list_new(&r->arena, 0);
        if (!*items)
            return r->arena.status;
        break;
    default:
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "'%s' object is not iterable",
                               glyd_jinja_type_name(v));
    }
    if (v.kind == JINJA_GENERATOR) {
        **items = *v.as.list;
        *v.as.list = (jinja_list){0};
    } else if (v.kind == JINJA_DICT) {
        **items = (jinja_list){
            .items = v.as.dict->keys, .n = v.as.dict->n, .capacity = v.as.dict->capacity};
    }
    return glyd_jinja_charge(r, (*items)->n);
}

static glyd_status equal_lists(jinja_run *r, const jinja_list *a, const jinja_list *b, bool *equal)
{
    *equal = a->n == b->n;
    for (size_t i = 0; *equal && i < a->n; i++)
        GLYD_TRY(glyd_jinja_equal(r, a->items[i], b->items[i], equal));
    return GLYD_OK;
}

static glyd_status equal_dicts(jinja_run *r, const jinja_dict *a, const jinja_dict *b, bool *equal)
{
    *equal = a->n == b->n;
    for (size_t i = 0; *equal && i < a->n; i++) {
        jinja_value *other;
        GLYD_TRY(glyd_jinja_dict_find(r, b, a->keys[i], &other));
        *equal = other != NULL;
        if (other)
            GLYD_TRY(glyd_jinja_equal(r, a->values[i], *other, equal));
    }
    return GLYD_OK;
}

/* An integer against a real without rounding the integer first. */
static int compare_int_real(int64_t a, double b)
{
    if (isnan(b))
        return 2;
    if (b >= 9223372036854775808.0)
        return -1;
    if (b < -9223372036854775808.0)
        return 1;
    int64_t whole = (int64_t)b;
    if (a != whole)
        return a < whole ? -1 : 1;
    double rest = b - (double)whole;
    return rest > 0 ? -1 : rest < 0;
}

/* -1, 0, 1, or 2 where a NaN makes every comparison false. */
static int compare_numbers(jinja_value a, jinja_value b)
{
    if (jinja_is_int(a) && jinja_is_int(b)) {
        int64_t x = jinja_as_int(a), y = jinja_as_int(b);
        return (x > y) - (x < y);
    }
    if (jinja_is_int(a))
        return compare_int_real(jinja_as_int(a), b.as.real);
    if (jinja_is_int(b)) {
        int order = compare_int_real(jinja_as_int(b), a.as.real);
        return order == 2 ? 2 : -order;
    }
    if (isnan(a.as.real) || isnan(b.as.real))
        return 2;
    return (a.as.real > b.as.real) - (a.as.real < b.as.real);
}

static glyd_status equal_containers(jinja_run *r, jinja_value a, jinja_value b, bool *equal)
{
    GLYD_TRY(glyd_jinja_deeper(r));
    if (a.kind == JINJA_DICT)
        GLYD_TRY(equal_dicts(r, a.as.dict, b.as.dict, equal));
    else
        GLYD_TRY(equal_lists(r, a.as.list, b.as.list, equal));
    r->depth--;
    return GLYD_OK;
}

glyd_status glyd_jinja_equal(jinja_run *r, jinja_value a, jinja_value b, bool *equal)
{
    GLYD_TRY(glyd_jinja_charge(r, 1));
    *equal = false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *equal = compare_numbers(a, b) == 0;
        return GLYD_OK;
    }
    if (a.kind != b.kind)
        return GLYD_OK;
    switch (a.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        *equal = true;
        return GLYD_OK;
    case JINJA_STRING:
        *equal = glyd_jinja_string_equal(a.as.string, b.as.string);
        return glyd_jinja_charge(r, a.as.string->bytes / 256);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_DICT:
        return equal_containers(r, a, b, equal);
    case JINJA_FUNCTION:
        *equal = a.as.function == b.as.function;
        return GLYD_OK;
    default:
        *equal = a.as.list == b.as.list;
        return GLYD_OK;
    }
}

static bool order_holds(int op, int order)
{
    switch (op) {
    case '<':
        return order == -1;
    case '>':
        return order == 1;
    case JINJA_OP('<', '='):
        return order == -1 || order == 0;
    default:
        return order == 1 || order == 0;
    }
}

static glyd_status order_lists(jinja_run *r, int op, const jinja_list *a, const jinja_list *b,
                               bool *out)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool equal;
        GLYD_TRY(glyd_jinja_equal(r, a->items[i], b->items[i], &equal));
        if (!equal)
            return glyd_jinja_order(r, op, a->items[i], b->items[i], out);
    }
    *out = order_holds(op, (a->n > b->n) - (a->n < b->n));
    return GLYD_OK;
}

glyd_status glyd_jinja_order(jinja_run *r, int op, jinja_value a, jinja_value b, bool *out)
{
    GLYD_TRY(glyd_jinja_need_defined(r, a));
    GLYD_TRY(glyd_jinja_need_defined(r, b));
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = order_holds(op, compare_numbers(a, b));
        return GLYD_OK;
    }
    if (a.kind == b.kind && a.kind == JINJA_STRING) {
        int order = glyd_jinja_string_compare(a.as.string, b.as.string);
        *out = order_holds(op, (order > 0) - (order < 0));
        return glyd_jinja_charge(r, a.as.string->bytes / 256);
    }
    if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE)) {
        GLYD_TRY(glyd_jinja_deeper(r));
        GLYD_TRY(order_lists(r, op, a.as.list, b.as.list, out));
        r->depth--;
        return GLYD_OK;
    }
    return glyd_jinja_fail(r, GLYD_E_FORMAT,
                           "'%c%s' not supported between instances of '%s' and '%s'", op & 0xFF,
                           op > 0xFF ? "=" : "", glyd_jinja_type_name(a), glyd_jinja_type_name(b));
}

glyd_status glyd_jinja_contains(jinja_run *r, jinja_value container, jinja_value item, bool *out)
{
    *out = false;
    if (container.kind == JINJA_STRING) {
        const jinja_string *s = container.as.string;
        if (item.kind != JINJA_STRING)
            return glyd_jinja_fail(r, GLYD_E_FORMAT,
                                   "'in <string>' requires string as left operand, not %s",
                                   glyd_jinja_type_name(item));
        *out = glyd_jinja_string_find(s, item.as.string, 0, s->bytes) != SIZE_MAX;
        return glyd_jinja_charge(r, s->bytes / 16);
    }
    if (container.kind == JINJA_DICT) {
        jinja_value *found;
        GLYD_TRY(glyd_jinja_dict_find(r, container.as.dict, item, &found));
        *out = found != NULL;
        return GLYD_OK;
    }
    if (!glyd_jinja_is_iterable(container))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "argument of type '%s' is not iterable",
                               glyd_jinja_type_name(container));
    jinja_list *items;
    GLYD_TRY(glyd_jinja_items(r, container, &items));
    for (size_t i = 0; !*out && i < items->n; i++)
        GLYD_TRY(glyd_jinja_equal(r, items->items[i], item, out));
    return GLYD_OK;
}

glyd_status glyd_jinja_hashable(jinja_run *r, jinja_value key)
{
    if (key.kind == JINJA_LIST || key.kind == JINJA_DICT)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "unhashable type: '%s'",
                               glyd_jinja_type_name(key));
    if (key.kind != JINJA_TUPLE)
        return GLYD_OK;
    GLYD_TRY(glyd_jinja_deeper(r));
    for (size_t i = 0; i < key.as.list->n; i++)
        GLYD_TRY(glyd_jinja_hashable(r, key.as.list->items[i]));
    r->depth--;
    return GLYD_OK;
}

glyd_status glyd_jinja_dict_find(jinja_run *r, const jinja_dict *dict, jinja_value key,
                                 jinja_value **found)
{
    *found = NULL;
    if (key.kind == JINJA_STRING) {
        *found = glyd_jinja_dict_text(dict, key.as.string);
        return glyd_jinja_charge(r, 1 + dict->n / 8 + dict->n * (key.as.string->bytes / 256));
    }
    GLYD_TRY(glyd_jinja_hashable(r, key));
    for (size_t i = 0; i < dict->n; i++) {
        bool equal;
        GLYD_TRY(glyd_jinja_equal(r, dict->keys[i], key, &equal));
        if (equal) {
            *found = &dict->values[i];
            break;
        }
    }
    return GLYD_OK;
}

glyd_status glyd_jinja_dict_set(jinja_run *r, jinja_dict *dict, jinja_value key, jinja_value value)
{
    jinja_value *found;
    GLYD_TRY(glyd_jinja_dict_find(r, dict, key, &found));
    if (found) {
        *found = value;
        return GLYD_OK;
    }
    return glyd_jinja_dict_add(&r->arena, dict, key, value);
}
