/* eval.c - evaluating expressions.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <stdio.h>

static const struct global {
    const char *name;
    jinja_function function;
} globals[] = {
    {"raise_exception", JINJA_FN_RAISE_EXCEPTION},
    {"strftime_now", JINJA_FN_STRFTIME_NOW},
    {"namespace", JINJA_FN_NAMESPACE},
    {"range", JINJA_FN_RANGE},
    {"dict", JINJA_FN_DICT},
    {"joiner", JINJA_FN_JOINER},
    {"cycler", JINJA_FN_CYCLER},
};

static glyd_status eval_name(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    for (const jinja_scope *scope = r->scope; scope; scope = scope->parent) {
        for (size_t i = scope->n; i-- > 0;) {
            if (scope->items[i].name == node->name) {
                *out = scope->items[i].value;
                return GLYD_OK;
            }
        }
        GLYD_TRY(glyd_jinja_charge(r, scope->n / 16));
    }
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        if (glyd_jinja_string_is(node->name, globals[i].name)) {
            *out = (jinja_value){.kind = JINJA_FUNCTION, .as.function = globals[i].function};
            return GLYD_OK;
        }
    }
    return glyd_jinja_new_undefined(r, NULL, jinja_missing(), jinja_text(node->name), out);
}

static glyd_status eval_sequence(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    jinja_list *list = glyd_jinja_list_new(&r->arena, node->nodes.n);
    if (!list)
        return r->arena.status;
    for (size_t i = 0; i < node->nodes.n; i++) {
        jinja_value item;
        GLYD_TRY(glyd_jinja_eval(r, node->nodes.items[i], &item));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, list, item));
    }
    *out = jinja_seq(node->kind == JINJA_N_LIST ? JINJA_LIST : JINJA_TUPLE, list);
    return GLYD_OK;
}

static glyd_status eval_dict(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    jinja_dict *dict = glyd_jinja_dict_new(&r->arena, node->nodes.n / 2);
    if (!dict)
        return r->arena.status;
    for (size_t i = 0; i + 1 < node->nodes.n; i += 2) {
        jinja_value key, value;
        GLYD_TRY(glyd_jinja_eval(r, node->nodes.items[i], &key));
        GLYD_TRY(glyd_jinja_eval(r, node->nodes.items[i + 1], &value));
        GLYD_TRY(glyd_jinja_dict_set(r, dict, key, value));
    }
    *out = (jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    return GLYD_OK;
}

static glyd_status eval_concat(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    jinja_builder b = {.arena = &r->arena};
    jinja_list *parts = glyd_jinja_list_new(&r->arena, node->nodes.n);
    if (!parts)
        return r->arena.status;
    for (size_t i = 0; i < node->nodes.n; i++) {
        jinja_value part;
        GLYD_TRY(glyd_jinja_eval(r, node->nodes.items[i], &part));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, parts, part));
    }
    for (size_t i = 0; i < parts->n; i++)
        GLYD_TRY(glyd_jinja_put_str(r, &b, parts->items[i]));
    return glyd_jinja_build(&b, out);
}

static glyd_status compare(jinja_run *r, int op, jinja_value a, jinja_value b, bool *out)
{
    switch (op) {
    case JINJA_OP('=', '='):
        return glyd_jinja_equal(r, a, b, out);
    case JINJA_OP('!', '='):
    case JINJA_OP_NOT_IN:
        if (op == JINJA_OP_NOT_IN)
            GLYD_TRY(glyd_jinja_contains(r, b, a, out));
        else
            GLYD_TRY(glyd_jinja_equal(r, a, b, out));
        *out = !*out;
        return GLYD_OK;
    case JINJA_OP_IN:
        return glyd_jinja_contains(r, b, a, out);
    default:
        return glyd_jinja_order(r, op, a, b, out);
    }
}

/* a < b < c: each operand once, and no further than the first that does not hold. */
static glyd_status eval_compare(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    jinja_value left, right;
    bool holds = true;
    GLYD_TRY(glyd_jinja_eval(r, node->a, &left));
    for (size_t i = 0; holds && i < node->nodes.n; i++) {
        GLYD_TRY(glyd_jinja_eval(r, node->nodes.items[i]->a, &right));
        GLYD_TRY(compare(r, node->nodes.items[i]->op, left, right, &holds));
        left = right;
    }
    *out = jinja_bool(holds);
    return GLYD_OK;
}

static glyd_status eval_if_else(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    jinja_value test;
    GLYD_TRY(glyd_jinja_eval(r, node->a, &test));
    if (glyd_jinja_truth(test))
        return glyd_jinja_eval(r, node->b, out);
    if (node->c)
        return glyd_jinja_eval(r, node->c, out);
    char hint[128];
    int n = snprintf(hint, sizeof hint,
                     "the inline if-expression on line %d evaluated to false and no else section "
                     "was defined.",
                     node->line);
    const jinja_string *text = glyd_jinja_string_copy(&r->arena, hint, (size_t)n + 1);
    if (!text)
        return r->arena.status;
    return glyd_jinja_new_undefined(r, text->data, jinja_missing(), jinja_none(), out);
}

static glyd_status eval_slice(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    jinja_value owner, part[3] = {jinja_none(), jinja_none(), jinja_none()};
    const jinja_node *const nodes[3] = {node->b, node->c, node->d};
    GLYD_TRY(glyd_jinja_eval(r, node->a, &owner));
    for (int i = 0; i < 3; i++) {
        if (nodes[i])
            GLYD_TRY(glyd_jinja_eval(r, nodes[i], &part[i]));
    }
    return glyd_jinja_slice(r, owner, part[0], part[1], part[2], out);
}

/* The members of a mapping as more named arguments. */
static glyd_status add_mapping(jinja_run *r, jinja_value more, jinja_scope *named)
{
    if (more.kind != JINJA_DICT)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "argument after ** must be a mapping, not %s",
                               glyd_jinja_type_name(more));
    const jinja_dict *dict = more.as.dict;
    for (size_t i = 0; i < dict->n; i++) {
        if (dict->keys[i].kind != JINJA_STRING)
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "keywords must be strings");
        const jinja_string *name = dict->keys[i].as.string;
        for (size_t k = 0; k < named->n; k++) {
            if (glyd_jinja_string_equal(named->items[k].name, name))
                return glyd_jinja_fail(r, GLYD_E_FORMAT,
                                       "got multiple values for keyword argument '%.*s'",
                                       (int)(name->bytes < 64 ? name->bytes : 64), name->data);
        }
        GLYD_TRY(glyd_jinja_charge(r, named->n / 4));
        GLYD_TRY(glyd_jinja_scope_set(r, named, name, dict->values[i]));
    }
    return GLYD_OK;
}

glyd_status glyd_jinja_eval_args(jinja_run *r, const jinja_call_node *call, jinja_args *args)
{
    jinja_value value;
    jinja_list *items;
    *args = (jinja_args){0};
    if (!call)
        return GLYD_OK;
    jinja_list *positional = glyd_jinja_list_new(&r->arena, call->positional.n);
    if (!positional)
        return r->arena.status;
    for (size_t i = 0; i < call->positional.n; i++) {
        GLYD_TRY(glyd_jinja_eval(r, call->positional.items[i], &value));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, positional, value));
    }
    jinja_scope named = {0}; /* used as a growing array of variables */
    for (size_t i = 0; i < call->named.n; i++) {
        GLYD_TRY(glyd_jinja_eval(r, call->named.items[i], &value));
        GLYD_TRY(glyd_jinja_scope_set(r, &named, call->names.items[i], value));
    }
    if (call->star) {
        GLYD_TRY(glyd_jinja_eval(r, call->star, &value));
        GLYD_TRY(glyd_jinja_items(r, value, &items));
        for (size_t i = 0; i < items->n; i++)
            GLYD_TRY(glyd_jinja_list_add(&r->arena, positional, items->items[i]));
    }
    if (call->star_star) {
        GLYD_TRY(glyd_jinja_eval(r, call->star_star, &value));
        GLYD_TRY(add_mapping(r, value, &named));
    }
    *args = (jinja_args){positional->items, positional->n, named.items, named.n};
    return GLYD_OK;
}

static glyd_status eval_call(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    jinja_value callee;
    jinja_args args;
    GLYD_TRY(glyd_jinja_eval(r, node->a, &callee));
    GLYD_TRY(glyd_jinja_eval_args(r, node->call, &args));
    r->line = node->line;
    return glyd_jinja_call(r, callee, &args, out);
}

static glyd_status eval_filter(jinja_run *r, const jinja_node *node, jinja_value input,
                               jinja_value *out)
{
    jinja_args args;
    GLYD_TRY(glyd_jinja_eval_args(r, node->call, &args));
    r->line = node->line;
    return glyd_jinja_filter_run(r, node->fn.filter, input, &args, out);
}

glyd_status glyd_jinja_eval_filters(jinja_run *r, const jinja_node *chain, jinja_value input,
                                    jinja_value *out)
{
    GLYD_TRY(glyd_jinja_deeper(r));
    if (chain->a)
        GLYD_TRY(glyd_jinja_eval_filters(r, chain->a, input, &input));
    GLYD_TRY(eval_filter(r, chain, input, out));
    r->depth--;
    return GLYD_OK;
}

static glyd_status eval_test(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    jinja_value input;
    jinja_args args;
    bool holds;
    GLYD_TRY(glyd_jinja_eval(r, node->a, &input));
    GLYD_TRY(glyd_jinja_eval_args(r, node->call, &args));
    r->line = node->line;
    GLYD_TRY(glyd_jinja_test_run(r, node->fn.test, input, &args, &holds));
    *out = jinja_bool(holds);
    return GLYD_OK;
}

/* Expressions that evaluate `a` first, and `b` where there is one. */
static glyd_status eval_operands(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    jinja_value a, b = jinja_none();
    GLYD_TRY(glyd_jinja_eval(r, node->a, &a));
    if (node->kind == JINJA_N_AND || node->kind == JINJA_N_OR) {
        if (glyd_jinja_truth(a) == (node->kind == JINJA_N_AND))
            return glyd_jinja_eval(r, node->b, out);
        *out = a;
        return GLYD_OK;
    }
    if (node->b)
        GLYD_TRY(glyd_jinja_eval(r, node->b, &b));
    r->line = node->line;
    switch (node->kind) {
    case JINJA_N_MEMBER:
        return glyd_jinja_member(r, a, node->name, out);
    case JINJA_N_INDEX:
        return glyd_jinja_index(r, a, b, out);
    case JINJA_N_BINARY:
        return glyd_jinja_binary(r, node->op, a, b, out);
    case JINJA_N_UNARY:
        return glyd_jinja_unary(r, node->op, a, out);
    case JINJA_N_FILTER:
        return eval_filter(r, node, a, out);
    default:
        GLYD_ASSERT(node->kind == JINJA_N_NOT);
        *out = jinja_bool(!glyd_jinja_truth(a));
        return GLYD_OK;
    }
}

static glyd_status eval_node(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    switch (node->kind) {
    case JINJA_N_CONST:
        *out = node->value;
        return GLYD_OK;
    case JINJA_N_NAME:
        return eval_name(r, node, out);
    case JINJA_N_LIST:
    case JINJA_N_TUPLE:
        return eval_sequence(r, node, out);
    case JINJA_N_DICT:
        return eval_dict(r, node, out);
    case JINJA_N_CONCAT:
        return eval_concat(r, node, out);
    case JINJA_N_COMPARE:
        return eval_compare(r, node, out);
    case JINJA_N_IF_ELSE:
        return eval_if_else(r, node, out);
    case JINJA_N_SLICE:
        return eval_slice(r, node, out);
    case JINJA_N_CALL:
        return eval_call(r, node, out);
    case JINJA_N_TEST:
        return eval_test(r, node, out);
    default:
        return eval_operands(r, node, out);
    }
}

glyd_status glyd_jinja_eval(jinja_run *r, const jinja_node *node, jinja_value *out)
{
    r->line = node->line;
    GLYD_TRY(glyd_jinja_deeper(r));
    GLYD_TRY(eval_node(r, node, out));
    r->depth--;
    return GLYD_OK;
}
