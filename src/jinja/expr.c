/* expr.c - parsing expressions, with Jinja's precedence.
 *
 * Loosest first: a if b else c; or; and; not; comparisons and in; + -; ~; * / // %; **; unary;
 * then subscripts and calls, then filters and tests. Binary levels are one loop over a table, so
 * a chain of a thousand terms costs no stack here; nesting counts against JINJA_NESTING_MAX.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "jinja/run.h"
#include <string.h>

static glyd_status parse_or(jinja_parser *p, jinja_node **out);
static glyd_status parse_unary(jinja_parser *p, bool with_filters, jinja_node **out);

static glyd_status new_node(jinja_parser *p, jinja_node_kind kind, int line, jinja_node **out)
{
    *out = glyd_jinja_node_new(p, kind, line);
    return *out ? GLYD_OK : p->arena->status;
}

static glyd_status pair(jinja_parser *p, jinja_node_kind kind, int line, int op, jinja_node *a,
                        jinja_node *b, jinja_node **out)
{
    jinja_node *n;
    GLYD_TRY(new_node(p, kind, line, &n));
    n->op = op;
    n->a = a;
    n->b = b;
    *out = n;
    return GLYD_OK;
}

static glyd_status parse_items(jinja_parser *p, int close, bool is_dict, jinja_nodes *nodes)
{
    while (!glyd_jinja_at_op(p, close)) {
        if (nodes->n) {
            GLYD_TRY(glyd_jinja_expect_op(p, ','));
            if (glyd_jinja_at_op(p, close))
                break;
        }
        for (int part = 0; part <= is_dict; part++) {
            jinja_node *item;
            if (part)
                GLYD_TRY(glyd_jinja_expect_op(p, ':'));
            GLYD_TRY(glyd_jinja_parse_expr(p, &item));
            GLYD_TRY(glyd_jinja_nodes_add(p->arena, nodes, item));
        }
    }
    return glyd_jinja_expect_op(p, close);
}

static glyd_status parse_literal(jinja_parser *p, jinja_value value, int line, jinja_node **out)
{
    GLYD_TRY(new_node(p, JINJA_N_CONST, line, out));
    (*out)->value = value;
    return GLYD_OK;
}

/* Strings that follow each other are one. */
static glyd_status parse_strings(jinja_parser *p, jinja_node **out)
{
    const jinja_token *t = glyd_jinja_next(p);
    if (jinja_peek(p)->kind != JINJA_T_STRING)
        return parse_literal(p, t->value, t->line, out);
    jinja_builder b = {.arena = p->arena};
    GLYD_TRY(glyd_jinja_put_string(&b, t->value.as.string));
    while (jinja_peek(p)->kind == JINJA_T_STRING)
        GLYD_TRY(glyd_jinja_put_string(&b, glyd_jinja_next(p)->value.as.string));
    jinja_value whole;
    GLYD_TRY(glyd_jinja_build(&b, &whole));
    return parse_literal(p, whole, t->line, out);
}

static glyd_status parse_word(jinja_parser *p, jinja_node **out)
{
    const jinja_token *t = glyd_jinja_next(p);
    const jinja_string *name = t->value.as.string;
    if (glyd_jinja_string_is(name, "true") || glyd_jinja_string_is(name, "True"))
        return parse_literal(p, jinja_bool(true), t->line, out);
    if (glyd_jinja_string_is(name, "false") || glyd_jinja_string_is(name, "False"))
        return parse_literal(p, jinja_bool(false), t->line, out);
    if (glyd_jinja_string_is(name, "none") || glyd_jinja_string_is(name, "None"))
        return parse_literal(p, jinja_none(), t->line, out);
    static const char *const refused[] = {"self", "super", "lipsum"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (glyd_jinja_string_is(name, refused[i]))
            return glyd_jinja_fail_at(p->arena, t->line, GLYD_E_UNSUPPORTED,
                                      "the name '%s' is not supported", refused[i]);
    }
    if (p->macro) {
        p->macro->wants_caller |= glyd_jinja_string_is(name, "caller");
        p->macro->wants_varargs |= glyd_jinja_string_is(name, "varargs");
        p->macro->wants_kwargs |= glyd_jinja_string_is(name, "kwargs");
    }
    GLYD_TRY(new_node(p, JINJA_N_NAME, t->line, out));
    (*out)->name = name;
    return GLYD_OK;
}

static glyd_status parse_primary(jinja_parser *p, jinja_node **out)
{
    const jinja_token *t = jinja_peek(p);
    switch (t->kind) {
    case JINJA_T_NAME:
        return parse_word(p, out);
    case JINJA_T_STRING:
        return parse_strings(p, out);
    case JINJA_T_INT:
    case JINJA_T_REAL:
        glyd_jinja_next(p);
        return parse_literal(p, t->value, t->line, out);
    case JINJA_T_OPERATOR:
        if (t->op == '(') {
            glyd_jinja_next(p);
            GLYD_TRY(glyd_jinja_parse_tuple(p, JINJA_TUPLE_PARENS, out));
            return glyd_jinja_expect_op(p, ')');
        }
        if (t->op == '[' || t->op == '{') {
            glyd_jinja_next(p);
            bool is_dict = t->op == '{';
            GLYD_TRY(new_node(p, is_dict ? JINJA_N_DICT : JINJA_N_LIST, t->line, out));
            return parse_items(p, is_dict ? '}' : ']', is_dict, &(*out)->nodes);
        }
        break;
    default:
        break;
    }
    return glyd_jinja_unexpected(p, "an expression");
}

static glyd_status parse_slice_part(jinja_parser *p, jinja_node **out)
{
    if (glyd_jinja_at_op(p, ':') || glyd_jinja_at_op(p, ']') || glyd_jinja_at_op(p, ','))
        return GLYD_OK;
    return glyd_jinja_parse_expr(p, out);
}

static glyd_status parse_brackets(jinja_parser *p, jinja_node *owner, int line, jinja_node **out)
{
    jinja_node *part[3] = {NULL, NULL, NULL};
    if (glyd_jinja_skip_op(p, ']')) { /* x[] has the empty tuple as its key */
        GLYD_TRY(new_node(p, JINJA_N_TUPLE, line, &part[0]));
        return pair(p, JINJA_N_INDEX, line, 0, owner, part[0], out);
    }
    if (!glyd_jinja_at_op(p, ':'))
        GLYD_TRY(glyd_jinja_parse_expr(p, &part[0]));
    if (glyd_jinja_skip_op(p, ':')) {
        GLYD_TRY(parse_slice_part(p, &part[1]));
        if (glyd_jinja_skip_op(p, ':'))
            GLYD_TRY(parse_slice_part(p, &part[2]));
        GLYD_TRY(pair(p, JINJA_N_SLICE, line, 0, owner, part[0], out));
        (*out)->c = part[1];
        (*out)->d = part[2];
        if (glyd_jinja_at_op(p, ','))
            return glyd_jinja_fail_at(p->arena, line, GLYD_E_UNSUPPORTED,
                                      "a slice among several subscripts is not supported");
        return glyd_jinja_expect_op(p, ']');
    }
    if (glyd_jinja_at_op(p, ',')) { /* x[a, b] has a tuple as its key */
        jinja_node *key;
        GLYD_TRY(new_node(p, JINJA_N_TUPLE, line, &key));
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &key->nodes, part[0]));
        while (glyd_jinja_skip_op(p, ',')) {
            GLYD_TRY(glyd_jinja_parse_expr(p, &part[0]));
            GLYD_TRY(glyd_jinja_nodes_add(p->arena, &key->nodes, part[0]));
        }
        part[0] = key;
    }
    GLYD_TRY(pair(p, JINJA_N_INDEX, line, 0, owner, part[0], out));
    return glyd_jinja_expect_op(p, ']');
}

static glyd_status parse_dot(jinja_parser *p, jinja_node *owner, int line, jinja_node **out)
{
    const jinja_token *t = glyd_jinja_next(p);
    if (t->kind == JINJA_T_NAME) {
        GLYD_TRY(pair(p, JINJA_N_MEMBER, line, 0, owner, NULL, out));
        (*out)->name = t->value.as.string;
        return GLYD_OK;
    }
    if (t->kind != JINJA_T_INT)
        return glyd_jinja_fail_at(p->arena, t->line, GLYD_E_FORMAT,
                                  "expected a name or a number after '.'");
    jinja_node *key;
    GLYD_TRY(parse_literal(p, t->value, t->line, &key));
    return pair(p, JINJA_N_INDEX, line, 0, owner, key, out);
}

static glyd_status parse_argument(jinja_parser *p, jinja_call_node *call)
{
    int line = jinja_peek(p)->line;
    bool stars = call->star || call->star_star, misplaced = false;
    jinja_node *value;
    if (glyd_jinja_skip_op(p, '*')) {
        misplaced = stars;
        GLYD_TRY(glyd_jinja_parse_expr(p, &call->star));
    } else if (glyd_jinja_skip_op(p, JINJA_OP('*', '*'))) {
        misplaced = call->star_star != NULL;
        GLYD_TRY(glyd_jinja_parse_expr(p, &call->star_star));
    } else if (jinja_peek(p)->kind == JINJA_T_NAME && jinja_peek(p)[1].kind == JINJA_T_OPERATOR &&
               jinja_peek(p)[1].op == '=') {
        misplaced = call->star_star != NULL;
        const jinja_string *name = glyd_jinja_next(p)->value.as.string;
        for (size_t i = 0; i < call->names.n; i++) {
            if (call->names.items[i] == name)
                return glyd_jinja_fail_at(p->arena, line, GLYD_E_FORMAT,
                                          "keyword argument repeated: %.*s", (int)name->bytes,
                                          name->data);
        }
        glyd_jinja_next(p);
        GLYD_TRY(glyd_jinja_parse_expr(p, &value));
        GLYD_TRY(glyd_jinja_names_add(p->arena, &call->names, name));
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &call->named, value));
    } else {
        misplaced = stars || call->named.n;
        GLYD_TRY(glyd_jinja_parse_expr(p, &value));
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &call->positional, value));
    }
    if (misplaced)
        return glyd_jinja_fail_at(p->arena, line, GLYD_E_FORMAT,
                                  "invalid order of arguments in a call");
    return GLYD_OK;
}

/* (arguments); the parenthesis is next. */
static glyd_status parse_arguments(jinja_parser *p, jinja_call_node **out)
{
    jinja_call_node *call = glyd_jinja_zalloc(p->arena, sizeof *call);
    if (!call)
        return p->arena->status;
    *out = call;
    GLYD_TRY(glyd_jinja_expect_op(p, '('));
    bool first = true;
    while (!glyd_jinja_at_op(p, ')')) {
        if (!first) {
            GLYD_TRY(glyd_jinja_expect_op(p, ','));
            if (glyd_jinja_at_op(p, ')'))
                break;
        }
        first = false;
        GLYD_TRY(parse_argument(p, call));
    }
    return glyd_jinja_expect_op(p, ')');
}

static glyd_status parse_call(jinja_parser *p, jinja_node *callee, jinja_node **out)
{
    int line = jinja_peek(p)->line;
    jinja_node *n;
    GLYD_TRY(pair(p, JINJA_N_CALL, line, 0, callee, NULL, &n));
    GLYD_TRY(parse_arguments(p, &n->call));
    *out = n;
    return GLYD_OK;
}

static glyd_status parse_postfix(jinja_parser *p, jinja_node **node)
{
    for (;;) {
        int line = jinja_peek(p)->line;
        if (glyd_jinja_skip_op(p, '.'))
            GLYD_TRY(parse_dot(p, *node, line, node));
        else if (glyd_jinja_skip_op(p, '['))
            GLYD_TRY(parse_brackets(p, *node, line, node));
        else if (glyd_jinja_at_op(p, '('))
            GLYD_TRY(parse_call(p, *node, node));
        else
            return GLYD_OK;
    }
}

static glyd_status parse_filter(jinja_parser *p, jinja_node *input, jinja_node **out)
{
    int line = jinja_peek(p)->line;
    const jinja_string *name;
    GLYD_TRY(glyd_jinja_expect_name(p, &name));
    jinja_node *n;
    GLYD_TRY(pair(p, JINJA_N_FILTER, line, 0, input, NULL, &n));
    n->fn.filter = glyd_jinja_filter_find(name);
    if (!n->fn.filter) {
        if (glyd_jinja_filter_refused(name))
            return glyd_jinja_fail_at(p->arena, line, GLYD_E_UNSUPPORTED,
                                      "the filter '%.*s' is not supported", (int)name->bytes,
                                      name->data);
        return glyd_jinja_fail_at(p->arena, line, GLYD_E_FORMAT, "No filter named '%.*s'.",
                                  (int)name->bytes, name->data);
    }
    if (glyd_jinja_at_op(p, '('))
        GLYD_TRY(parse_arguments(p, &n->call));
    *out = n;
    return GLYD_OK;
}

glyd_status glyd_jinja_parse_filters(jinja_parser *p, jinja_node *input, bool bare,
                                     jinja_node **out)
{
    *out = input;
    while (bare || glyd_jinja_skip_op(p, '|')) {
        bare = false;
        GLYD_TRY(parse_filter(p, *out, out));
    }
    return GLYD_OK;
}

/* Whether an argument without parentheses follows a test's name: `x is divisibleby 3`. */
static bool at_test_argument(const jinja_parser *p)
{
    const jinja_token *t = jinja_peek(p);
    if (t->kind == JINJA_T_NAME)
        return !glyd_jinja_at_name(p, "else") && !glyd_jinja_at_name(p, "or") &&
               !glyd_jinja_at_name(p, "and");
    return t->kind == JINJA_T_STRING || t->kind == JINJA_T_INT || t->kind == JINJA_T_REAL ||
           (t->kind == JINJA_T_OPERATOR && (t->op == '[' || t->op == '{'));
}

static glyd_status parse_test(jinja_parser *p, jinja_node *input, int line, jinja_node **out)
{
    bool negated = glyd_jinja_skip_name(p, "not");
    const jinja_string *name;
    GLYD_TRY(glyd_jinja_expect_name(p, &name));
    jinja_node *n;
    GLYD_TRY(pair(p, JINJA_N_TEST, line, 0, input, NULL, &n));
    n->fn.test = glyd_jinja_test_find(name);
    if (!n->fn.test)
        return glyd_jinja_fail_at(p->arena, line, GLYD_E_FORMAT, "No test named '%.*s'.",
                                  (int)name->bytes, name->data);
    if (glyd_jinja_at_op(p, '(')) {
        GLYD_TRY(parse_arguments(p, &n->call));
    } else if (at_test_argument(p)) {
        if (glyd_jinja_at_name(p, "is"))
            return glyd_jinja_fail_at(p->arena, line, GLYD_E_FORMAT,
                                      "You cannot chain multiple tests with is");
        jinja_node *argument;
        GLYD_TRY(glyd_jinja_enter(p));
        GLYD_TRY(parse_primary(p, &argument));
        GLYD_TRY(parse_postfix(p, &argument));
        p->depth--;
        n->call = glyd_jinja_zalloc(p->arena, sizeof *n->call);
        if (!n->call)
            return p->arena->status;
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &n->call->positional, argument));
    }
    *out = n;
    return negated ? pair(p, JINJA_N_NOT, line, 0, n, NULL, out) : GLYD_OK;
}

static glyd_status parse_filters_and_tests(jinja_parser *p, jinja_node **node)
{
    for (;;) {
        int line = jinja_peek(p)->line;
        if (glyd_jinja_skip_op(p, '|'))
            GLYD_TRY(parse_filter(p, *node, node));
        else if (glyd_jinja_skip_name(p, "is"))
            GLYD_TRY(parse_test(p, *node, line, node));
        else if (glyd_jinja_at_op(p, '('))
            GLYD_TRY(parse_call(p, *node, node));
        else
            return GLYD_OK;
    }
}

static glyd_status parse_unary(jinja_parser *p, bool with_filters, jinja_node **out)
{
    GLYD_TRY(glyd_jinja_enter(p));
    int line = jinja_peek(p)->line;
    if (glyd_jinja_at_op(p, '-') || glyd_jinja_at_op(p, '+')) {
        int op = glyd_jinja_next(p)->op;
        jinja_node *operand;
        GLYD_TRY(parse_unary(p, false, &operand));
        GLYD_TRY(pair(p, JINJA_N_UNARY, line, op, operand, NULL, out));
    } else {
        GLYD_TRY(parse_primary(p, out));
    }
    GLYD_TRY(parse_postfix(p, out));
    if (with_filters)
        GLYD_TRY(parse_filters_and_tests(p, out));
    p->depth--;
    return GLYD_OK;
}

/* Levels of left-associative operators, tightest first. `~` sits between and is a list. */
enum { LEVEL_POWER, LEVEL_TIMES, LEVEL_CONCAT, LEVEL_PLUS };

static bool op_at_level(int op, int level)
{
    switch (op) {
    case JINJA_OP('*', '*'):
        return level == LEVEL_POWER;
    case '*':
    case '/':
    case '%':
    case JINJA_OP('/', '/'):
        return level == LEVEL_TIMES;
    case '~':
        return level == LEVEL_CONCAT;
    case '+':
    case '-':
        return level == LEVEL_PLUS;
    default:
        return false;
    }
}

static glyd_status parse_binary(jinja_parser *p, int level, jinja_node **out)
{
    if (level < LEVEL_POWER)
        return parse_unary(p, true, out);
    GLYD_TRY(parse_binary(p, level - 1, out));
    jinja_node *concat = NULL;
    while (jinja_peek(p)->kind == JINJA_T_OPERATOR && op_at_level(jinja_peek(p)->op, level)) {
        const jinja_token *t = glyd_jinja_next(p);
        jinja_node *right;
        GLYD_TRY(parse_binary(p, level - 1, &right));
        if (level != LEVEL_CONCAT) {
            GLYD_TRY(pair(p, JINJA_N_BINARY, t->line, t->op, *out, right, out));
            continue;
        }
        if (!concat) {
            GLYD_TRY(new_node(p, JINJA_N_CONCAT, t->line, &concat));
            GLYD_TRY(glyd_jinja_nodes_add(p->arena, &concat->nodes, *out));
            *out = concat;
        }
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &concat->nodes, right));
    }
    return GLYD_OK;
}

/* The comparison at the cursor, passed over; 0 where there is none. */
static int skip_comparison(jinja_parser *p)
{
    const jinja_token *t = jinja_peek(p);
    if (t->kind == JINJA_T_OPERATOR) {
        switch (t->op) {
        case JINJA_OP('=', '='):
        case JINJA_OP('!', '='):
        case JINJA_OP('<', '='):
        case JINJA_OP('>', '='):
        case '<':
        case '>':
            glyd_jinja_next(p);
            return t->op;
        default:
            return 0;
        }
    }
    if (glyd_jinja_skip_name(p, "in"))
        return JINJA_OP_IN;
    if (glyd_jinja_at_name(p, "not") && t[1].kind == JINJA_T_NAME &&
        glyd_jinja_string_is(t[1].value.as.string, "in")) {
        p->at += 2;
        return JINJA_OP_NOT_IN;
    }
    return 0;
}

static glyd_status parse_comparison(jinja_parser *p, jinja_node **out)
{
    GLYD_TRY(parse_binary(p, LEVEL_PLUS, out));
    jinja_node *chain = NULL;
    for (;;) {
        int line = jinja_peek(p)->line;
        int op = skip_comparison(p);
        if (!op)
            return GLYD_OK;
        if (!chain) {
            GLYD_TRY(pair(p, JINJA_N_COMPARE, line, 0, *out, NULL, &chain));
            *out = chain;
        }
        jinja_node *operand, *wrap;
        GLYD_TRY(parse_binary(p, LEVEL_PLUS, &operand));
        GLYD_TRY(pair(p, JINJA_N_COMPARE, line, op, operand, NULL, &wrap));
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &chain->nodes, wrap));
    }
}

static glyd_status parse_not(jinja_parser *p, jinja_node **out)
{
    int line = jinja_peek(p)->line, nots = 0;
    while (glyd_jinja_skip_name(p, "not"))
        nots++;
    GLYD_TRY(parse_comparison(p, out));
    if (nots > 1) { /* not not x: twice is enough to give its truth */
        GLYD_TRY(pair(p, JINJA_N_NOT, line, 0, *out, NULL, out));
        nots = nots % 2 ? 0 : 1;
    }
    return nots ? pair(p, JINJA_N_NOT, line, 0, *out, NULL, out) : GLYD_OK;
}

static glyd_status parse_and(jinja_parser *p, jinja_node **out)
{
    GLYD_TRY(parse_not(p, out));
    for (;;) {
        int line = jinja_peek(p)->line;
        if (!glyd_jinja_skip_name(p, "and"))
            return GLYD_OK;
        jinja_node *right;
        GLYD_TRY(parse_not(p, &right));
        GLYD_TRY(pair(p, JINJA_N_AND, line, 0, *out, right, out));
    }
}

static glyd_status parse_or(jinja_parser *p, jinja_node **out)
{
    GLYD_TRY(parse_and(p, out));
    for (;;) {
        int line = jinja_peek(p)->line;
        if (!glyd_jinja_skip_name(p, "or"))
            return GLYD_OK;
        jinja_node *right;
        GLYD_TRY(parse_and(p, &right));
        GLYD_TRY(pair(p, JINJA_N_OR, line, 0, *out, right, out));
    }
}

glyd_status glyd_jinja_parse_expr(jinja_parser *p, jinja_node **out)
{
    GLYD_TRY(glyd_jinja_enter(p));
    GLYD_TRY(parse_or(p, out));
    for (;;) {
        int line = jinja_peek(p)->line;
        if (!glyd_jinja_skip_name(p, "if"))
            break;
        jinja_node *n;
        GLYD_TRY(pair(p, JINJA_N_IF_ELSE, line, 0, NULL, *out, &n));
        GLYD_TRY(parse_or(p, &n->a));
        if (glyd_jinja_skip_name(p, "else"))
            GLYD_TRY(glyd_jinja_parse_expr(p, &n->c));
        *out = n;
    }
    p->depth--;
    return GLYD_OK;
}

static bool at_tuple_end(const jinja_parser *p)
{
    jinja_token_kind kind = jinja_peek(p)->kind;
    return kind == JINJA_T_PRINT_END || kind == JINJA_T_BLOCK_END || glyd_jinja_at_op(p, ')');
}

glyd_status glyd_jinja_parse_tuple(jinja_parser *p, jinja_tuple_mode mode, jinja_node **out)
{
    int line = jinja_peek(p)->line;
    jinja_node *tuple = NULL, *item = NULL;
    for (bool first = true;; first = false) {
        if (at_tuple_end(p) || (mode == JINJA_TUPLE_NO_IF && glyd_jinja_at_name(p, "recursive")))
            break;
        if (mode == JINJA_TUPLE_NO_IF)
            GLYD_TRY(parse_or(p, &item));
        else
            GLYD_TRY(glyd_jinja_parse_expr(p, &item));
        if (first && !glyd_jinja_at_op(p, ',')) {
            *out = item;
            return GLYD_OK;
        }
        if (!tuple)
            GLYD_TRY(new_node(p, JINJA_N_TUPLE, line, &tuple));
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &tuple->nodes, item));
        if (!glyd_jinja_skip_op(p, ','))
            break;
    }
    if (!tuple) {
        if (mode != JINJA_TUPLE_PARENS)
            return glyd_jinja_unexpected(p, "an expression");
        GLYD_TRY(new_node(p, JINJA_N_TUPLE, line, &tuple));
    }
    *out = tuple;
    return GLYD_OK;
}

static glyd_status parse_target_item(jinja_parser *p, bool ns, jinja_node **out)
{
    int line = jinja_peek(p)->line;
    if (glyd_jinja_skip_op(p, '(')) {
        GLYD_TRY(glyd_jinja_enter(p));
        GLYD_TRY(glyd_jinja_parse_target(p, ns, out));
        p->depth--;
        return glyd_jinja_expect_op(p, ')');
    }
    const jinja_string *name;
    GLYD_TRY(glyd_jinja_expect_name(p, &name));
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (glyd_jinja_string_is(name, constants[i]))
            return glyd_jinja_fail_at(p->arena, line, GLYD_E_FORMAT, "can't assign to '%s'",
                                      constants[i]);
    }
    if (!ns || !glyd_jinja_skip_op(p, '.')) {
        GLYD_TRY(new_node(p, JINJA_N_NAME, line, out));
        (*out)->name = name;
        return GLYD_OK;
    }
    jinja_node *space;
    GLYD_TRY(new_node(p, JINJA_N_NAME, line, &space));
    space->name = name;
    GLYD_TRY(pair(p, JINJA_N_NS_REF, line, 0, NULL, space, out));
    return glyd_jinja_expect_name(p, &(*out)->name);
}

glyd_status glyd_jinja_parse_target(jinja_parser *p, bool ns, jinja_node **out)
{
    int line = jinja_peek(p)->line;
    GLYD_TRY(parse_target_item(p, ns, out));
    if (!glyd_jinja_at_op(p, ','))
        return GLYD_OK;
    jinja_node *tuple;
    GLYD_TRY(new_node(p, JINJA_N_TUPLE, line, &tuple));
    GLYD_TRY(glyd_jinja_nodes_add(p->arena, &tuple->nodes, *out));
    while (glyd_jinja_skip_op(p, ',')) {
        if (jinja_peek(p)->kind != JINJA_T_NAME || glyd_jinja_at_name(p, "in")) {
            if (!glyd_jinja_at_op(p, '('))
                break;
        }
        jinja_node *item;
        GLYD_TRY(parse_target_item(p, ns, &item));
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &tuple->nodes, item));
    }
    *out = tuple;
    return GLYD_OK;
}
