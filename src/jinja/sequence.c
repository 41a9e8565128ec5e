/* sequence.c - filters on sequences and mappings.
 *
 * Where Jinja gives a generator, so does this, but its items are computed at once.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"

static glyd_status new_list(jinja_run *r, size_t capacity, jinja_list **out)
{
    *out = glyd_jinja_list_new(&r->arena, capacity);
    return *out ? GLYD_OK : r->arena.status;
}

static bool is_given(jinja_value v)
{
    return v.kind != JINJA_MISSING && v.kind != JINJA_NONE;
}

/* --- keys: what sort, unique, min and max compare --- */

typedef struct key_rule {
    jinja_value attribute; /* MISSING or None: the item itself */
    bool ignore_case;
} key_rule;

static glyd_status fold_case(jinja_run *r, const key_rule *rule, jinja_value *key)
{
    if (rule->ignore_case && key->kind == JINJA_STRING)
        return glyd_jinja_change_case(r, JINJA_LOWER, key->as.string, key);
    return GLYD_OK;
}

static glyd_status key_of(jinja_run *r, const key_rule *rule, jinja_value item, jinja_value *key)
{
    *key = item;
    if (is_given(rule->attribute))
        GLYD_TRY(glyd_jinja_attribute(r, item, rule->attribute, key));
    return fold_case(r, rule, key);
}

/* "a,b" sorts by a, then by b: the key is a list. */
static glyd_status sort_key(jinja_run *r, const key_rule *rule, jinja_value item, jinja_value *key)
{
    if (rule->attribute.kind != JINJA_STRING)
        return key_of(r, rule, item, key);
    const jinja_string *names = rule->attribute.as.string;
    jinja_list *keys;
    GLYD_TRY(new_list(r, 1, &keys));
    for (size_t at = 0; at <= names->bytes;) {
        size_t end = at;
        while (end < names->bytes && names->data[end] != ',')
            end++;
        const jinja_string *name = glyd_jinja_string_view(&r->arena, names->data + at, end - at);
        if (!name)
            return r->arena.status;
        key_rule part = {jinja_text(name), rule->ignore_case};
        GLYD_TRY(key_of(r, &part, item, key));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, keys, *key));
        at = end + 1;
    }
    *key = jinja_seq(JINJA_LIST, keys);
    return GLYD_OK;
}

/* A stable merge sort of items by their keys; both arrays move together. */
static glyd_status merge_sort(jinja_run *r, jinja_value *items, jinja_value *keys, size_t n,
                              bool reverse)
{
    jinja_value *spare_items = glyd_jinja_alloc(&r->arena, n * sizeof *items);
    jinja_value *spare_keys = glyd_jinja_alloc(&r->arena, n * sizeof *keys);
    if (!spare_items || !spare_keys)
        return r->arena.status;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t mid = low + width < n ? low + width : n;
            size_t high = mid + width < n ? mid + width : n;
            for (size_t i = low, j = mid, k = low; k < high; k++) {
                bool take_right = i == mid;
                if (i < mid && j < high) {
                    GLYD_TRY(glyd_jinja_charge(r, 1));
                    GLYD_TRY(glyd_jinja_order(r, '<', reverse ? keys[i] : keys[j],
                                              reverse ? keys[j] : keys[i], &take_right));
                }
                size_t from = take_right ? j++ : i++;
                spare_items[k] = items[from];
                spare_keys[k] = keys[from];
            }
        }
        for (size_t i = 0; i < n; i++) {
            items[i] = spare_items[i];
            keys[i] = spare_keys[i];
        }
    }
    return GLYD_OK;
}

static glyd_status sort_list(jinja_run *r, const jinja_list *from, const jinja_list *keys,
                             bool reverse, jinja_value *out)
{
    jinja_list *items;
    GLYD_TRY(new_list(r, from->n, &items));
    for (size_t i = 0; i < from->n; i++)
        items->items[i] = from->items[i];
    items->n = from->n;
    GLYD_TRY(merge_sort(r, items->items, keys->items, items->n, reverse));
    *out = jinja_seq(JINJA_LIST, items);
    return GLYD_OK;
}

static glyd_status filter_sort(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    key_rule rule = {call->param[2], !glyd_jinja_truth(call->param[1])};
    jinja_list *items, *keys;
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    GLYD_TRY(new_list(r, items->n, &keys));
    for (size_t i = 0; i < items->n; i++) {
        jinja_value key;
        GLYD_TRY(sort_key(r, &rule, items->items[i], &key));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, keys, key));
    }
    return sort_list(r, items, keys, glyd_jinja_truth(call->param[0]), out);
}

static glyd_status pairs_of(jinja_run *r, const jinja_dict *dict, jinja_list **out)
{
    GLYD_TRY(glyd_jinja_charge(r, dict->n));
    GLYD_TRY(new_list(r, dict->n, out));
    for (size_t i = 0; i < dict->n; i++) {
        jinja_list *pair;
        GLYD_TRY(new_list(r, 2, &pair));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, pair, dict->keys[i]));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, pair, dict->values[i]));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, *out, jinja_seq(JINJA_TUPLE, pair)));
    }
    return GLYD_OK;
}

static glyd_status filter_dictsort(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    key_rule rule = {jinja_missing(), !glyd_jinja_truth(call->param[0])};
    jinja_list *pairs, *keys;
    bool by_value = false;
    if (call->param[1].kind != JINJA_MISSING) {
        const jinja_string *by;
        GLYD_TRY(glyd_jinja_need_text(r, call->param[1], "by", &by));
        by_value = glyd_jinja_string_is(by, "value");
        if (!by_value && !glyd_jinja_string_is(by, "key"))
            return glyd_jinja_fail(r, GLYD_E_FORMAT,
                                   "You can only sort by either \"key\" or \"value\"");
    }
    GLYD_TRY(glyd_jinja_need_defined(r, call->self));
    if (call->self.kind != JINJA_DICT)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "'%s' object has no attribute 'items'",
                               glyd_jinja_type_name(call->self));
    GLYD_TRY(pairs_of(r, call->self.as.dict, &pairs));
    GLYD_TRY(new_list(r, pairs->n, &keys));
    for (size_t i = 0; i < pairs->n; i++) {
        jinja_value key = pairs->items[i].as.list->items[by_value];
        GLYD_TRY(fold_case(r, &rule, &key));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, keys, key));
    }
    return sort_list(r, pairs, keys, glyd_jinja_truth(call->param[2]), out);
}

static glyd_status filter_unique(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    key_rule rule = {call->param[1], !glyd_jinja_truth(call->param[0])};
    jinja_list *items, *unique;
    jinja_dict *seen = glyd_jinja_dict_new(&r->arena, 8);
    if (!seen)
        return r->arena.status;
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    GLYD_TRY(new_list(r, 0, &unique));
    for (size_t i = 0; i < items->n; i++) {
        jinja_value key, *found;
        GLYD_TRY(key_of(r, &rule, items->items[i], &key));
        GLYD_TRY(glyd_jinja_dict_find(r, seen, key, &found));
        if (found)
            continue;
        GLYD_TRY(glyd_jinja_dict_add(&r->arena, seen, key, jinja_none()));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, unique, items->items[i]));
    }
    *out = jinja_seq(JINJA_GENERATOR, unique);
    return GLYD_OK;
}

static glyd_status extreme(jinja_run *r, const jinja_call *call, int op, jinja_value *out)
{
    key_rule rule = {call->param[1], !glyd_jinja_truth(call->param[0])};
    jinja_list *items;
    jinja_value best, key;
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    if (items->n == 0)
        return glyd_jinja_new_undefined(r, "No aggregated item, sequence was empty.",
                                        jinja_missing(), jinja_none(), out);
    *out = items->items[0];
    GLYD_TRY(key_of(r, &rule, *out, &best));
    for (size_t i = 1; i < items->n; i++) {
        bool better;
        GLYD_TRY(key_of(r, &rule, items->items[i], &key));
        GLYD_TRY(glyd_jinja_order(r, op, key, best, &better));
        if (better) {
            best = key;
            *out = items->items[i];
        }
    }
    return GLYD_OK;
}

static glyd_status filter_min(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return extreme(r, call, '<', out);
}

static glyd_status filter_max(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return extreme(r, call, '>', out);
}

/* --- picking and joining --- */

static glyd_status filter_first(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_list *items;
    if (call->self.kind == JINJA_GENERATOR &&
        call->self.as.list->n) { /* takes one, keeps the rest */
        *out = call->self.as.list->items[0];
        call->self.as.list->items++;
        call->self.as.list->n--;
        call->self.as.list->capacity = call->self.as.list->n;
        return GLYD_OK;
    }
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    if (items->n == 0)
        return glyd_jinja_new_undefined(r, "No first item, sequence was empty.", jinja_missing(),
                                        jinja_none(), out);
    *out = items->items[0];
    return GLYD_OK;
}

static glyd_status filter_last(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_list *items;
    if (call->self.kind == JINJA_GENERATOR || call->self.kind == JINJA_LOOP)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "'%s' object is not reversible",
                               glyd_jinja_type_name(call->self));
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    if (items->n == 0)
        return glyd_jinja_new_undefined(r, "No last item, sequence was empty.", jinja_missing(),
                                        jinja_none(), out);
    *out = items->items[items->n - 1];
    return GLYD_OK;
}

static glyd_status filter_join(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    static const jinja_string empty = {"", 0, 0};
    const jinja_string *separator = &empty;
    jinja_list *items;
    jinja_builder b = {.arena = &r->arena};
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    if (call->param[0].kind != JINJA_MISSING)
        GLYD_TRY(glyd_jinja_str(r, call->param[0], &separator));
    for (size_t i = 0; i < items->n; i++) {
        jinja_value item = items->items[i];
        if (is_given(call->param[1]))
            GLYD_TRY(glyd_jinja_attribute(r, item, call->param[1], &item));
        if (i)
            GLYD_TRY(glyd_jinja_put_string(&b, separator));
        GLYD_TRY(glyd_jinja_put_str(r, &b, item));
    }
    return glyd_jinja_build(&b, out);
}

static glyd_status filter_list(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_list *items;
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    *out = jinja_seq(JINJA_LIST, items);
    return GLYD_OK;
}

static glyd_status filter_items(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_list *pairs;
    if (call->self.kind == JINJA_UNDEFINED)
        GLYD_TRY(new_list(r, 0, &pairs));
    else if (call->self.kind == JINJA_DICT)
        GLYD_TRY(pairs_of(r, call->self.as.dict, &pairs));
    else
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "Can only get item pairs from a mapping.");
    *out = jinja_seq(JINJA_GENERATOR, pairs);
    return GLYD_OK;
}

static glyd_status filter_reverse(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_list *items, *reversed;
    if (call->self.kind != JINJA_STRING && !glyd_jinja_is_iterable(call->self))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "argument must be iterable");
    if (call->self.kind == JINJA_STRING)
        return glyd_jinja_slice(r, call->self, jinja_none(), jinja_none(), jinja_int(-1), out);
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    GLYD_TRY(new_list(r, items->n, &reversed));
    for (size_t i = items->n; i-- > 0;)
        GLYD_TRY(glyd_jinja_list_add(&r->arena, reversed, items->items[i]));
    bool was_generator = call->self.kind == JINJA_GENERATOR;
    *out = jinja_seq(was_generator ? JINJA_LIST : JINJA_GENERATOR, reversed);
    return GLYD_OK;
}

static glyd_status filter_sum(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_list *items;
    jinja_value total = call->param[1].kind == JINJA_MISSING ? jinja_int(0) : call->param[1];
    if (total.kind == JINJA_STRING)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               "sum() can't sum strings [use ''.join(seq) instead]");
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    for (size_t i = 0; i < items->n; i++) {
        jinja_value item = items->items[i];
        if (is_given(call->param[0]))
            GLYD_TRY(glyd_jinja_attribute(r, item, call->param[0], &item));
        GLYD_TRY(glyd_jinja_binary(r, '+', total, item, &total));
    }
    *out = total;
    return GLYD_OK;
}

/* --- map, select, reject --- */

/* The arguments after the first `skip` ones. */
static jinja_args rest_of(const jinja_args *args, size_t skip)
{
    jinja_args rest = *args;
    if (skip) {
        rest.positional += skip;
        rest.n -= skip;
    }
    return rest;
}

static glyd_status map_attribute(jinja_run *r, const jinja_args *args, const jinja_list *items,
                                 jinja_list *mapped)
{
    jinja_call call;
    GLYD_TRY(glyd_jinja_bind(r, "the filter map", "attribute default?", args, &call));
    for (size_t i = 0; i < items->n; i++) {
        jinja_value value;
        GLYD_TRY(glyd_jinja_attribute(r, items->items[i], call.param[0], &value));
        if (value.kind == JINJA_UNDEFINED && is_given(call.param[1]))
            value = call.param[1];
        GLYD_TRY(glyd_jinja_list_add(&r->arena, mapped, value));
    }
    return GLYD_OK;
}

static glyd_status filter_map(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_args *args = call->args;
    jinja_list *items, *mapped;
    GLYD_TRY(new_list(r, 0, &mapped));
    *out = jinja_seq(JINJA_GENERATOR, mapped);
    if (!glyd_jinja_truth(call->self))
        return GLYD_OK;
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    if (args->n == 0 && args->n_named)
        return map_attribute(r, args, items, mapped);
    if (args->n == 0)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "map requires a filter argument");
    const jinja_string *name;
    GLYD_TRY(glyd_jinja_need_text(r, args->positional[0], "the name of a filter", &name));
    const jinja_filter *filter = glyd_jinja_filter_find(name);
    if (!filter)
        return glyd_jinja_fail(
            r, glyd_jinja_filter_refused(name) ? GLYD_E_UNSUPPORTED : GLYD_E_FORMAT,
            glyd_jinja_filter_refused(name) ? "the filter '%.*s' is not supported"
                                            : "No filter named '%.*s'.",
            (int)name->bytes, name->data);
    jinja_args rest = rest_of(args, 1);
    for (size_t i = 0; i < items->n; i++) {
        jinja_value value;
        GLYD_TRY(glyd_jinja_deeper(r));
        GLYD_TRY(glyd_jinja_filter_run(r, filter, items->items[i], &rest, &value));
        r->depth--;
        GLYD_TRY(glyd_jinja_list_add(&r->arena, mapped, value));
    }
    return GLYD_OK;
}

static glyd_status choose(jinja_run *r, const jinja_call *call, bool by_attribute, bool keep,
                          jinja_value *out)
{
    const jinja_args *args = call->args;
    const jinja_test *test = NULL;
    jinja_list *items, *chosen;
    GLYD_TRY(new_list(r, 0, &chosen));
    *out = jinja_seq(JINJA_GENERATOR, chosen);
    if (!glyd_jinja_truth(call->self))
        return GLYD_OK;
    if (args->n < by_attribute)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "Missing parameter for attribute name");
    if (args->n > by_attribute) {
        const jinja_string *name;
        GLYD_TRY(
            glyd_jinja_need_text(r, args->positional[by_attribute], "the name of a test", &name));
        test = glyd_jinja_test_find(name);
        if (!test)
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "No test named '%.*s'.", (int)name->bytes,
                                   name->data);
    }
    jinja_args rest = rest_of(args, test ? (size_t)by_attribute + 1 : 0);
    GLYD_TRY(glyd_jinja_items(r, call->self, &items));
    for (size_t i = 0; i < items->n; i++) {
        jinja_value value = items->items[i];
        bool holds;
        if (by_attribute)
            GLYD_TRY(glyd_jinja_attribute(r, value, args->positional[0], &value));
        if (test)
            GLYD_TRY(glyd_jinja_test_run(r, test, value, &rest, &holds));
        else
            holds = glyd_jinja_truth(value);
        if (holds == keep)
            GLYD_TRY(glyd_jinja_list_add(&r->arena, chosen, items->items[i]));
    }
    return GLYD_OK;
}

static glyd_status filter_select(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return choose(r, call, false, true, out);
}

static glyd_status filter_reject(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return choose(r, call, false, false, out);
}

static glyd_status filter_selectattr(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return choose(r, call, true, true, out);
}

static glyd_status filter_rejectattr(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return choose(r, call, true, false, out);
}

const jinja_filter glyd_jinja_sequence_filters[] = {
    {"dictsort", "case_sensitive? by? reverse?", filter_dictsort},
    {"first", "", filter_first},
    {"items", "", filter_items},
    {"join", "d? attribute?", filter_join},
    {"last", "", filter_last},
    {"list", "", filter_list},
    {"map", "*", filter_map},
    {"max", "case_sensitive? attribute?", filter_max},
    {"min", "case_sensitive? attribute?", filter_min},
    {"reject", "*", filter_reject},
    {"rejectattr", "*", filter_rejectattr},
    {"reverse", "", filter_reverse},
    {"select", "*", filter_select},
    {"selectattr", "*", filter_selectattr},
    {"sort", "reverse? case_sensitive? attribute?", filter_sort},
    {"sum", "attribute? start?", filter_sum},
    {"unique", "case_sensitive? attribute?", filter_unique},
};

const size_t glyd_jinja_n_sequence_filters =
    sizeof glyd_jinja_sequence_filters / sizeof *glyd_jinja_sequence_filters;
