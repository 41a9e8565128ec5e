/* exec.c - running statements.
 *
 * `break` and `continue` set r->flow; everything between them and their loop returns at once,
 * without finishing what it was building, as Python does when it jumps.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"

static glyd_status exec_node(jinja_run *r, const jinja_node *node);

glyd_status glyd_jinja_exec(jinja_run *r, const jinja_nodes *body)
{
    for (size_t i = 0; i < body->n && r->flow == JINJA_FLOW_ON; i++) {
        r->line = body->items[i]->line;
        GLYD_TRY(glyd_jinja_deeper(r));
        GLYD_TRY(exec_node(r, body->items[i]));
        r->depth--;
    }
    return GLYD_OK;
}

glyd_status glyd_jinja_exec_text(jinja_run *r, const jinja_nodes *body, jinja_value *out)
{
    jinja_builder b = {.arena = &r->arena}, *outer = r->out;
    r->out = &b;
    GLYD_TRY(glyd_jinja_exec(r, body));
    r->out = outer;
    return glyd_jinja_build(&b, out);
}

/* As above, in a scope of its own. */
static glyd_status exec_scoped_text(jinja_run *r, const jinja_nodes *body, jinja_value *out)
{
    jinja_scope *outer = r->scope;
    r->scope = glyd_jinja_scope_new(r, outer);
    if (!r->scope)
        return r->arena.status;
    GLYD_TRY(glyd_jinja_exec_text(r, body, out));
    r->scope = outer;
    return GLYD_OK;
}

static glyd_status assign_tuple(jinja_run *r, jinja_scope *scope, const jinja_node *target,
                                jinja_value value)
{
    const size_t n = target->nodes.n;
    jinja_list *items;
    if (!glyd_jinja_is_iterable(value))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "cannot unpack non-iterable %s object",
                               glyd_jinja_type_name(value));
    GLYD_TRY(glyd_jinja_items(r, value, &items));
    if (items->n < n)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               "not enough values to unpack (expected %zu, got %zu)", n, items->n);
    if (items->n > n)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "too many values to unpack (expected %zu)", n);
    for (size_t i = 0; i < n; i++)
        GLYD_TRY(glyd_jinja_assign(r, scope, target->nodes.items[i], items->items[i]));
    return GLYD_OK;
}

glyd_status glyd_jinja_assign(jinja_run *r, jinja_scope *scope, const jinja_node *target,
                              jinja_value value)
{
    if (target->kind == JINJA_N_NAME)
        return glyd_jinja_scope_set(r, scope, target->name, value);
    if (target->kind == JINJA_N_TUPLE)
        return assign_tuple(r, scope, target, value);
    jinja_value space;
    GLYD_TRY(glyd_jinja_eval(r, target->b, &space));
    if (space.kind != JINJA_NAMESPACE)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "cannot assign attribute on non-namespace object");
    return glyd_jinja_dict_set(r, space.as.dict, jinja_text(target->name), value);
}

static glyd_status exec_print(jinja_run *r, const jinja_node *node)
{
    for (size_t i = 0; i < node->nodes.n; i++) {
        jinja_value value;
        GLYD_TRY(glyd_jinja_eval(r, node->nodes.items[i], &value));
        GLYD_TRY(glyd_jinja_put_str(r, r->out, value));
    }
    return GLYD_OK;
}

static glyd_status exec_if(jinja_run *r, const jinja_node *node)
{
    jinja_value test;
    GLYD_TRY(glyd_jinja_eval(r, node->a, &test));
    if (glyd_jinja_truth(test))
        return glyd_jinja_exec(r, &node->body);
    for (size_t i = 0; i < node->nodes.n; i++) {
        GLYD_TRY(glyd_jinja_eval(r, node->nodes.items[i]->a, &test));
        if (glyd_jinja_truth(test))
            return glyd_jinja_exec(r, &node->nodes.items[i]->body);
    }
    return glyd_jinja_exec(r, &node->orelse);
}

static glyd_status exec_set_block(jinja_run *r, const jinja_node *node)
{
    jinja_value text;
    GLYD_TRY(exec_scoped_text(r, &node->body, &text));
    if (r->flow != JINJA_FLOW_ON)
        return GLYD_OK;
    if (node->b)
        GLYD_TRY(glyd_jinja_eval_filters(r, node->b, text, &text));
    return glyd_jinja_assign(r, r->scope, node->a, text);
}

static glyd_status exec_with(jinja_run *r, const jinja_node *node)
{
    jinja_scope *outer = r->scope, *inner = glyd_jinja_scope_new(r, outer);
    if (!inner)
        return r->arena.status;
    for (size_t i = 0; i + 1 < node->nodes.n; i += 2) {
        jinja_value value;
        GLYD_TRY(glyd_jinja_eval(r, node->nodes.items[i + 1], &value));
        GLYD_TRY(glyd_jinja_assign(r, inner, node->nodes.items[i], value));
    }
    r->scope = inner;
    GLYD_TRY(glyd_jinja_exec(r, &node->body));
    r->scope = outer;
    return GLYD_OK;
}

static glyd_status new_macro(jinja_run *r, const jinja_macro_node *node, jinja_value *out)
{
    jinja_macro *macro = glyd_jinja_alloc(&r->arena, sizeof *macro);
    if (!macro)
        return r->arena.status;
    glyd_jinja_scope_capture(r->scope);
    *macro = (jinja_macro){node, r->scope};
    *out = (jinja_value){.kind = JINJA_MACRO, .as.macro = macro};
    return GLYD_OK;
}

static glyd_status exec_macro(jinja_run *r, const jinja_node *node)
{
    jinja_value macro;
    GLYD_TRY(new_macro(r, node->macro, &macro));
    return glyd_jinja_scope_set(r, r->scope, node->name, macro);
}

static glyd_status exec_call_block(jinja_run *r, const jinja_node *node)
{
    static const jinja_string caller_name = {"caller", 6, 6};
    jinja_value callee, caller, text;
    jinja_args args;
    GLYD_TRY(new_macro(r, node->macro, &caller));
    GLYD_TRY(glyd_jinja_eval(r, node->a->a, &callee));
    GLYD_TRY(glyd_jinja_eval_args(r, node->a->call, &args));
    jinja_scope named = {0};
    for (size_t i = 0; i < args.n_named; i++)
        GLYD_TRY(glyd_jinja_scope_set(r, &named, args.named[i].name, args.named[i].value));
    const jinja_string *name = r->word_caller ? r->word_caller : &caller_name;
    GLYD_TRY(glyd_jinja_scope_set(r, &named, name, caller));
    args.named = named.items;
    args.n_named = named.n;
    r->line = node->line;
    GLYD_TRY(glyd_jinja_call(r, callee, &args, &text));
    return glyd_jinja_put_str(r, r->out, text);
}

static glyd_status exec_filter_block(jinja_run *r, const jinja_node *node)
{
    jinja_value text;
    GLYD_TRY(exec_scoped_text(r, &node->body, &text));
    if (r->flow != JINJA_FLOW_ON)
        return GLYD_OK;
    GLYD_TRY(glyd_jinja_eval_filters(r, node->a, text, &text));
    return glyd_jinja_put_str(r, r->out, text);
}

/* transformers marks what the model itself said with this block; here it is only a scope. */
static glyd_status exec_generation(jinja_run *r, const jinja_node *node)
{
    jinja_value macro, text;
    GLYD_TRY(new_macro(r, node->macro, &macro));
    GLYD_TRY(glyd_jinja_call_macro(r, macro.as.macro, &(jinja_args){0}, &text));
    return glyd_jinja_put_str(r, r->out, text);
}

/* --- for --- */

/* The next item that passes the loop's filter, or MISSING. */
static glyd_status fetch(jinja_run *r, jinja_loop *loop, jinja_value *out)
{
    *out = jinja_missing();
    while (loop->at < loop->n) {
        jinja_value item = loop->items[loop->at++];
        if (loop->node->c && !loop->filtered) {
            jinja_scope *outer = r->scope;
            jinja_value test;
            r->scope = glyd_jinja_scope_new(r, loop->scope);
            if (!r->scope)
                return r->arena.status;
            GLYD_TRY(glyd_jinja_assign(r, r->scope, loop->node->a, item));
            GLYD_TRY(glyd_jinja_eval(r, loop->node->c, &test));
            r->scope = outer;
            if (!glyd_jinja_truth(test))
                continue;
        }
        *out = item;
        break;
    }
    return GLYD_OK;
}

static glyd_status peek(jinja_run *r, jinja_loop *loop)
{
    return loop->next.kind == JINJA_MISSING ? fetch(r, loop, &loop->next) : GLYD_OK;
}

/* Go to the next item; *there is false at the end. */
static glyd_status advance(jinja_run *r, jinja_loop *loop, bool *there)
{
    GLYD_TRY(peek(r, loop));
    *there = loop->next.kind != JINJA_MISSING;
    if (*there) {
        loop->previous = loop->current;
        loop->current = loop->next;
        loop->next = jinja_missing();
        loop->index0++;
    }
    return GLYD_OK;
}

glyd_status glyd_jinja_loop_length(jinja_run *r, jinja_loop *loop, int64_t *n)
{
    if (loop->length < 0) {
        if (loop->node->c && !loop->filtered) {
            jinja_list *rest = glyd_jinja_list_new(&r->arena, 0);
            if (!rest)
                return r->arena.status;
            for (;;) {
                jinja_value item;
                GLYD_TRY(fetch(r, loop, &item));
                if (item.kind == JINJA_MISSING)
                    break;
                GLYD_TRY(glyd_jinja_list_add(&r->arena, rest, item));
            }
            loop->items = rest->items;
            loop->n = rest->n;
            loop->at = 0;
            loop->filtered = true;
        }
        loop->length =
            loop->index0 + 1 + (loop->next.kind != JINJA_MISSING) + (int64_t)(loop->n - loop->at);
    }
    *n = loop->length;
    return GLYD_OK;
}

glyd_status glyd_jinja_loop_member(jinja_run *r, jinja_loop *loop, const jinja_string *name,
                                   jinja_value *out)
{
    int64_t n;
    *out = jinja_missing();
    if (glyd_jinja_string_is(name, "index0")) {
        *out = jinja_int(loop->index0);
    } else if (glyd_jinja_string_is(name, "index")) {
        *out = jinja_int(loop->index0 + 1);
    } else if (glyd_jinja_string_is(name, "first")) {
        *out = jinja_bool(loop->index0 == 0);
    } else if (glyd_jinja_string_is(name, "last")) {
        GLYD_TRY(peek(r, loop));
        *out = jinja_bool(loop->next.kind == JINJA_MISSING);
    } else if (glyd_jinja_string_is(name, "depth0")) {
        *out = jinja_int(loop->depth0);
    } else if (glyd_jinja_string_is(name, "depth")) {
        *out = jinja_int(loop->depth0 + 1);
    } else if (glyd_jinja_string_is(name, "length")) {
        GLYD_TRY(glyd_jinja_loop_length(r, loop, &n));
        *out = jinja_int(n);
    } else if (glyd_jinja_string_is(name, "revindex") || glyd_jinja_string_is(name, "revindex0")) {
        GLYD_TRY(glyd_jinja_loop_length(r, loop, &n));
        *out = jinja_int(n - loop->index0 - (name->bytes == 9));
    } else if (glyd_jinja_string_is(name, "previtem")) {
        *out = loop->previous;
        if (loop->index0 == 0)
            return glyd_jinja_new_undefined(r, "there is no previous item", jinja_missing(),
                                            jinja_none(), out);
    } else if (glyd_jinja_string_is(name, "nextitem")) {
        GLYD_TRY(peek(r, loop));
        *out = loop->next;
        if (out->kind == JINJA_MISSING)
            return glyd_jinja_new_undefined(r, "there is no next item", jinja_missing(),
                                            jinja_none(), out);
    }
    return GLYD_OK;
}

/* Run a for node over a value, in `scope`. */
static glyd_status run_loop(jinja_run *r, const jinja_node *node, jinja_value over,
                            jinja_scope *scope, int depth0)
{
    jinja_list *items;
    GLYD_TRY(glyd_jinja_items(r, over, &items));
    jinja_loop *loop = glyd_jinja_zalloc(&r->arena, sizeof *loop);
    jinja_scope *outer = r->scope, *inner = NULL;
    if (!loop)
        return r->arena.status;
    *loop = (jinja_loop){.node = node,
                         .scope = scope,
                         .items = items->items,
                         .n = items->n,
                         .index0 = -1,
                         .length = -1,
                         .depth0 = depth0};
    bool finished_one = false;
    for (;;) {
        bool there;
        GLYD_TRY(advance(r, loop, &there));
        if (!there)
            break;
        if (!inner || inner->captured)
            inner = glyd_jinja_scope_new(r, scope);
        if (!inner)
            return r->arena.status;
        inner->n = 0;
        if (r->word_loop)
            GLYD_TRY(glyd_jinja_scope_set(r, inner, r->word_loop,
                                          (jinja_value){.kind = JINJA_LOOP, .as.loop = loop}));
        r->scope = inner;
        r->line = node->line;
        GLYD_TRY(glyd_jinja_assign(r, inner, node->a, loop->current));
        GLYD_TRY(glyd_jinja_exec(r, &node->body));
        jinja_flow flow = r->flow;
        r->flow = JINJA_FLOW_ON;
        if (flow == JINJA_FLOW_BREAK)
            break;
        finished_one |= flow == JINJA_FLOW_ON;
    }
    if (!finished_one && node->orelse.n) { /* Jinja too counts only bodies run to their end */
        r->scope = glyd_jinja_scope_new(r, scope);
        if (!r->scope)
            return r->arena.status;
        GLYD_TRY(glyd_jinja_exec(r, &node->orelse));
    }
    r->scope = outer;
    return GLYD_OK;
}

glyd_status glyd_jinja_loop_call(jinja_run *r, const jinja_loop *loop, const jinja_args *args,
                                 jinja_value *out)
{
    if (!loop->node->op)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               "The loop must have the 'recursive' marker to be called.");
    if (args->n != 1 || args->n_named)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "loop() takes exactly one argument");
    jinja_builder b = {.arena = &r->arena}, *outer = r->out;
    r->out = &b;
    GLYD_TRY(run_loop(r, loop->node, args->positional[0], loop->scope, loop->depth0 + 1));
    r->out = outer;
    return glyd_jinja_build(&b, out);
}

static glyd_status exec_for(jinja_run *r, const jinja_node *node)
{
    jinja_value over;
    GLYD_TRY(glyd_jinja_eval(r, node->b, &over));
    r->line = node->line;
    return run_loop(r, node, over, r->scope, 0);
}

static glyd_status exec_set(jinja_run *r, const jinja_node *node)
{
    jinja_value value;
    GLYD_TRY(glyd_jinja_eval(r, node->b, &value));
    return glyd_jinja_assign(r, r->scope, node->a, value);
}

static glyd_status exec_node(jinja_run *r, const jinja_node *node)
{
    switch (node->kind) {
    case JINJA_N_DATA:
        return glyd_jinja_put_string(r->out, node->value.as.string);
    case JINJA_N_PRINT:
        return exec_print(r, node);
    case JINJA_N_SET:
        return exec_set(r, node);
    case JINJA_N_SET_BLOCK:
        return exec_set_block(r, node);
    case JINJA_N_FOR:
        return exec_for(r, node);
    case JINJA_N_IF:
        return exec_if(r, node);
    case JINJA_N_WITH:
        return exec_with(r, node);
    case JINJA_N_MACRO:
        return exec_macro(r, node);
    case JINJA_N_CALL_BLOCK:
        return exec_call_block(r, node);
    case JINJA_N_FILTER_BLOCK:
        return exec_filter_block(r, node);
    case JINJA_N_GENERATION:
        return exec_generation(r, node);
    default:
        GLYD_ASSERT(node->kind == JINJA_N_BREAK || node->kind == JINJA_N_CONTINUE);
        r->flow = node->kind == JINJA_N_BREAK ? JINJA_FLOW_BREAK : JINJA_FLOW_CONTINUE;
        return GLYD_OK;
    }
}
