/* parser.c - parsing statements: tokens to a tree of nodes.
 *
 * What Jinja has and chat templates have no use for (include, import, extends, block, autoescape)
 * is refused by name.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "jinja/ast.h"
#include <stdio.h>

const jinja_token *glyd_jinja_next(jinja_parser *p)
{
    const jinja_token *t = jinja_peek(p);
    if (t->kind != JINJA_T_END)
        p->at++;
    return t;
}

bool glyd_jinja_at_name(const jinja_parser *p, const char *word)
{
    const jinja_token *t = jinja_peek(p);
    return t->kind == JINJA_T_NAME && glyd_jinja_string_is(t->value.as.string, word);
}

bool glyd_jinja_at_op(const jinja_parser *p, int op)
{
    const jinja_token *t = jinja_peek(p);
    return t->kind == JINJA_T_OPERATOR && t->op == op;
}

bool glyd_jinja_skip_name(jinja_parser *p, const char *word)
{
    bool there = glyd_jinja_at_name(p, word);
    p->at += there;
    return there;
}

bool glyd_jinja_skip_op(jinja_parser *p, int op)
{
    bool there = glyd_jinja_at_op(p, op);
    p->at += there;
    return there;
}

glyd_status glyd_jinja_unexpected(jinja_parser *p, const char *wanted)
{
    const jinja_token *t = jinja_peek(p);
    char got[96] = "";
    switch (t->kind) {
    case JINJA_T_END:
        if (p->open_tag)
            return glyd_jinja_fail_at(p->arena, t->line, GLYD_E_FORMAT,
                                      "the template ends before %s; '%s' is still open", wanted,
                                      p->open_tag);
        snprintf(got, sizeof got, "the end of the template");
        break;
    case JINJA_T_BLOCK_END:
    case JINJA_T_PRINT_END:
        snprintf(got, sizeof got, "the end of the tag");
        break;
    case JINJA_T_OPERATOR:
        snprintf(got, sizeof got, "'%c%c'", t->op & 0xFF, t->op > 0xFF ? t->op >> 8 : '\'');
        if (t->op <= 0xFF)
            got[3] = 0;
        break;
    case JINJA_T_NAME:
    case JINJA_T_STRING:
    case JINJA_T_DATA:
        snprintf(got, sizeof got, "'%.*s'",
                 (int)(t->value.as.string->bytes < 64 ? t->value.as.string->bytes : 64),
                 t->value.as.string->data);
        break;
    default:
        snprintf(got, sizeof got, "a %s", t->kind == JINJA_T_BLOCK_BEGIN ? "tag" : "number");
    }
    return glyd_jinja_fail_at(p->arena, t->line, GLYD_E_FORMAT, "expected %s, got %s", wanted, got);
}

glyd_status glyd_jinja_expect_op(jinja_parser *p, int op)
{
    if (glyd_jinja_skip_op(p, op))
        return GLYD_OK;
    char wanted[8] = {'\'', (char)(op & 0xFF), '\''};
    return glyd_jinja_unexpected(p, wanted);
}

glyd_status glyd_jinja_expect_name(jinja_parser *p, const jinja_string **name)
{
    if (jinja_peek(p)->kind != JINJA_T_NAME)
        return glyd_jinja_unexpected(p, "a name");
    *name = glyd_jinja_next(p)->value.as.string;
    return GLYD_OK;
}

static glyd_status expect(jinja_parser *p, jinja_token_kind kind, const char *wanted)
{
    if (jinja_peek(p)->kind != kind)
        return glyd_jinja_unexpected(p, wanted);
    glyd_jinja_next(p);
    return GLYD_OK;
}

glyd_status glyd_jinja_enter(jinja_parser *p)
{
    if (++p->depth > JINJA_NESTING_MAX)
        return glyd_jinja_fail_at(p->arena, jinja_peek(p)->line, GLYD_E_LIMIT,
                                  "expressions or blocks nest deeper than the limit of %d",
                                  JINJA_NESTING_MAX);
    return GLYD_OK;
}

jinja_node *glyd_jinja_node_new(jinja_parser *p, jinja_node_kind kind, int line)
{
    jinja_node *n = glyd_jinja_zalloc(p->arena, sizeof *n);
    if (n) {
        n->kind = kind;
        n->line = line;
    }
    return n;
}

glyd_status glyd_jinja_nodes_add(jinja_arena *arena, jinja_nodes *nodes, jinja_node *node)
{
    if (nodes->n == nodes->capacity) {
        size_t capacity = nodes->capacity ? 2 * nodes->capacity : 4;
        jinja_node **items = glyd_jinja_grow(arena, nodes->items, nodes->capacity * sizeof *items,
                                             capacity * sizeof *items);
        if (!items)
            return arena->status;
        nodes->items = items;
        nodes->capacity = capacity;
    }
    nodes->items[nodes->n++] = node;
    return GLYD_OK;
}

glyd_status glyd_jinja_names_add(jinja_arena *arena, jinja_names *names, const jinja_string *name)
{
    if (names->n == names->capacity) {
        size_t capacity = names->capacity ? 2 * names->capacity : 8;
        const jinja_string **items = glyd_jinja_grow(
            arena, names->items, names->capacity * sizeof *items, capacity * sizeof *items);
        if (!items)
            return arena->status;
        names->items = items;
        names->capacity = capacity;
    }
    names->items[names->n++] = name;
    return GLYD_OK;
}

static glyd_status parse_until(jinja_parser *p, const char *const *ends, jinja_nodes *body);

/* The rest of a tag, then statements up to {% ENDS[i] ... with the cursor on that word. */
static glyd_status parse_body(jinja_parser *p, const char *tag, const char *const *ends,
                              jinja_nodes *body)
{
    const char *outer = p->open_tag;
    glyd_jinja_skip_op(p, ':');
    GLYD_TRY(expect(p, JINJA_T_BLOCK_END, "the end of the tag"));
    p->open_tag = tag;
    GLYD_TRY(glyd_jinja_enter(p));
    GLYD_TRY(parse_until(p, ends, body));
    p->depth--;
    p->open_tag = outer;
    return GLYD_OK;
}

static glyd_status parse_to_end(jinja_parser *p, const char *tag, const char *end,
                                jinja_nodes *body)
{
    const char *const ends[] = {end, NULL};
    GLYD_TRY(parse_body(p, tag, ends, body));
    glyd_jinja_next(p);
    return GLYD_OK;
}

static glyd_status parse_set(jinja_parser *p, jinja_node *n)
{
    GLYD_TRY(glyd_jinja_parse_target(p, true, &n->a));
    if (glyd_jinja_skip_op(p, '='))
        return glyd_jinja_parse_tuple(p, JINJA_TUPLE_FULL, &n->b);
    n->kind = JINJA_N_SET_BLOCK;
    GLYD_TRY(glyd_jinja_parse_filters(p, NULL, false, &n->b));
    return parse_to_end(p, "set", "endset", &n->body);
}

static glyd_status parse_for(jinja_parser *p, jinja_node *n)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    GLYD_TRY(glyd_jinja_parse_target(p, false, &n->a));
    if (!glyd_jinja_skip_name(p, "in"))
        return glyd_jinja_unexpected(p, "'in'");
    GLYD_TRY(glyd_jinja_parse_tuple(p, JINJA_TUPLE_NO_IF, &n->b));
    if (glyd_jinja_skip_name(p, "if"))
        GLYD_TRY(glyd_jinja_parse_expr(p, &n->c));
    n->op = glyd_jinja_skip_name(p, "recursive");
    p->loops++;
    GLYD_TRY(parse_body(p, "for", ends, &n->body));
    p->loops--;
    if (glyd_jinja_skip_name(p, "endfor"))
        return GLYD_OK;
    glyd_jinja_next(p);
    return parse_to_end(p, "for", "endfor", &n->orelse);
}

static glyd_status parse_if(jinja_parser *p, jinja_node *n)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jinja_node *branch = n;
    for (;;) {
        GLYD_TRY(glyd_jinja_parse_tuple(p, JINJA_TUPLE_NO_IF, &branch->a));
        GLYD_TRY(parse_body(p, "if", ends, &branch->body));
        int line = jinja_peek(p)->line;
        if (glyd_jinja_skip_name(p, "endif"))
            return GLYD_OK;
        if (glyd_jinja_skip_name(p, "else"))
            return parse_to_end(p, "if", "endif", &n->orelse);
        glyd_jinja_next(p); /* elif */
        branch = glyd_jinja_node_new(p, JINJA_N_IF, line);
        if (!branch)
            return p->arena->status;
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &n->nodes, branch));
    }
}

static glyd_status parse_with(jinja_parser *p, jinja_node *n)
{
    while (jinja_peek(p)->kind != JINJA_T_BLOCK_END) {
        jinja_node *target, *value;
        if (n->nodes.n)
            GLYD_TRY(glyd_jinja_expect_op(p, ','));
        GLYD_TRY(glyd_jinja_parse_target(p, false, &target));
        GLYD_TRY(glyd_jinja_expect_op(p, '='));
        GLYD_TRY(glyd_jinja_parse_expr(p, &value));
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &n->nodes, target));
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &n->nodes, value));
    }
    return parse_to_end(p, "with", "endwith", &n->body);
}

static glyd_status parse_signature(jinja_parser *p, jinja_macro_node *macro)
{
    GLYD_TRY(glyd_jinja_expect_op(p, '('));
    while (!glyd_jinja_at_op(p, ')')) {
        const jinja_string *name;
        if (macro->params.n)
            GLYD_TRY(glyd_jinja_expect_op(p, ','));
        int line = jinja_peek(p)->line;
        GLYD_TRY(glyd_jinja_expect_name(p, &name));
        for (size_t i = 0; i < macro->params.n; i++) {
            if (macro->params.items[i] == name)
                return glyd_jinja_fail_at(p->arena, line, GLYD_E_FORMAT,
                                          "duplicate argument '%.*s'", (int)name->bytes,
                                          name->data);
        }
        GLYD_TRY(glyd_jinja_names_add(p->arena, &macro->params, name));
        if (glyd_jinja_skip_op(p, '=')) {
            jinja_node *value;
            GLYD_TRY(glyd_jinja_parse_expr(p, &value));
            GLYD_TRY(glyd_jinja_nodes_add(p->arena, &macro->defaults, value));
        } else if (macro->defaults.n) {
            return glyd_jinja_fail_at(p->arena, line, GLYD_E_FORMAT,
                                      "non-default argument follows default argument");
        }
    }
    return glyd_jinja_expect_op(p, ')');
}

/* The body of a macro, a call block or a generation block: break and continue cannot leave it. */
static glyd_status parse_macro_body(jinja_parser *p, const char *tag, const char *end,
                                    jinja_node *n)
{
    int loops = p->loops;
    jinja_macro_node *outer = p->macro;
    p->loops = 0;
    p->macro = n->macro;
    GLYD_TRY(parse_to_end(p, tag, end, &n->macro->body));
    if (outer && n->macro->name == NULL) { /* a call block sees its surroundings' caller */
        outer->wants_caller |= n->macro->wants_caller;
        outer->wants_varargs |= n->macro->wants_varargs;
        outer->wants_kwargs |= n->macro->wants_kwargs;
    }
    p->macro = outer;
    p->loops = loops;
    return GLYD_OK;
}

static glyd_status new_macro(jinja_parser *p, jinja_node *n)
{
    n->macro = glyd_jinja_zalloc(p->arena, sizeof *n->macro);
    return n->macro ? GLYD_OK : p->arena->status;
}

static glyd_status parse_macro(jinja_parser *p, jinja_node *n)
{
    GLYD_TRY(new_macro(p, n));
    GLYD_TRY(glyd_jinja_expect_name(p, &n->name));
    n->macro->name = n->name;
    GLYD_TRY(parse_signature(p, n->macro));
    return parse_macro_body(p, "macro", "endmacro", n);
}

static glyd_status parse_call_block(jinja_parser *p, jinja_node *n)
{
    GLYD_TRY(new_macro(p, n));
    if (glyd_jinja_at_op(p, '('))
        GLYD_TRY(parse_signature(p, n->macro));
    GLYD_TRY(glyd_jinja_parse_expr(p, &n->a));
    if (n->a->kind != JINJA_N_CALL)
        return glyd_jinja_fail_at(p->arena, n->line, GLYD_E_FORMAT, "expected call");
    return parse_macro_body(p, "call", "endcall", n);
}

static glyd_status parse_generation(jinja_parser *p, jinja_node *n)
{
    GLYD_TRY(new_macro(p, n));
    return parse_macro_body(p, "generation", "endgeneration", n);
}

static glyd_status parse_filter_block(jinja_parser *p, jinja_node *n)
{
    GLYD_TRY(glyd_jinja_parse_filters(p, NULL, true, &n->a));
    return parse_to_end(p, "filter", "endfilter", &n->body);
}

static glyd_status parse_print(jinja_parser *p, jinja_node *n)
{
    while (jinja_peek(p)->kind != JINJA_T_BLOCK_END) {
        jinja_node *value;
        if (n->nodes.n)
            GLYD_TRY(glyd_jinja_expect_op(p, ','));
        GLYD_TRY(glyd_jinja_parse_expr(p, &value));
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, &n->nodes, value));
    }
    return GLYD_OK;
}

static glyd_status parse_leave(jinja_parser *p, jinja_node *n)
{
    if (p->loops == 0)
        return glyd_jinja_fail_at(p->arena, n->line, GLYD_E_FORMAT, "'%s' outside a loop",
                                  n->kind == JINJA_N_BREAK ? "break" : "continue");
    return GLYD_OK;
}

static const struct statement {
    const char *word;
    jinja_node_kind kind;
    glyd_status (*parse)(jinja_parser *p, jinja_node *n); /* NULL: refused by name */
} statements[] = {
    {"set", JINJA_N_SET, parse_set},
    {"if", JINJA_N_IF, parse_if},
    {"for", JINJA_N_FOR, parse_for},
    {"macro", JINJA_N_MACRO, parse_macro},
    {"call", JINJA_N_CALL_BLOCK, parse_call_block},
    {"filter", JINJA_N_FILTER_BLOCK, parse_filter_block},
    {"with", JINJA_N_WITH, parse_with},
    {"print", JINJA_N_PRINT, parse_print},
    {"generation", JINJA_N_GENERATION, parse_generation},
    {"break", JINJA_N_BREAK, parse_leave},
    {"continue", JINJA_N_CONTINUE, parse_leave},
    {"block", JINJA_N_DATA, NULL},
    {"extends", JINJA_N_DATA, NULL},
    {"include", JINJA_N_DATA, NULL},
    {"import", JINJA_N_DATA, NULL},
    {"from", JINJA_N_DATA, NULL},
    {"autoescape", JINJA_N_DATA, NULL},
};

static glyd_status parse_statement(jinja_parser *p, jinja_nodes *body)
{
    int line = jinja_peek(p)->line;
    const jinja_string *word;
    GLYD_TRY(glyd_jinja_expect_name(p, &word));
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        const struct statement *s = &statements[i];
        if (!glyd_jinja_string_is(word, s->word))
            continue;
        if (!s->parse)
            return glyd_jinja_fail_at(p->arena, line, GLYD_E_UNSUPPORTED,
                                      "the tag '%s' is not supported", s->word);
        jinja_node *n = glyd_jinja_node_new(p, s->kind, line);
        if (!n)
            return p->arena->status;
        GLYD_TRY(s->parse(p, n));
        GLYD_TRY(glyd_jinja_nodes_add(p->arena, body, n));
        return expect(p, JINJA_T_BLOCK_END, "the end of the tag");
    }
    return glyd_jinja_fail_at(p->arena, line, GLYD_E_FORMAT,
                              "Encountered unknown tag '%.*s'%s%s%s.",
                              (int)(word->bytes < 64 ? word->bytes : 64), word->data,
                              p->open_tag ? "; the innermost open one is '" : "",
                              p->open_tag ? p->open_tag : "", p->open_tag ? "'" : "");
}

static glyd_status parse_output(jinja_parser *p, jinja_nodes *body)
{
    const jinja_token *t = glyd_jinja_next(p);
    bool is_data = t->kind == JINJA_T_DATA;
    jinja_node *n = glyd_jinja_node_new(p, is_data ? JINJA_N_DATA : JINJA_N_PRINT, t->line);
    if (!n)
        return p->arena->status;
    n->value = t->value;
    GLYD_TRY(glyd_jinja_nodes_add(p->arena, body, n));
    if (is_data)
        return GLYD_OK;
    jinja_node *value;
    GLYD_TRY(glyd_jinja_parse_tuple(p, JINJA_TUPLE_FULL, &value));
    GLYD_TRY(glyd_jinja_nodes_add(p->arena, &n->nodes, value));
    return expect(p, JINJA_T_PRINT_END, "'}}'");
}

static glyd_status parse_until(jinja_parser *p, const char *const *ends, jinja_nodes *body)
{
    while (jinja_peek(p)->kind != JINJA_T_END) {
        if (jinja_peek(p)->kind != JINJA_T_BLOCK_BEGIN) {
            GLYD_TRY(parse_output(p, body));
            continue;
        }
        glyd_jinja_next(p);
        for (size_t i = 0; ends && ends[i]; i++) {
            if (glyd_jinja_at_name(p, ends[i]))
                return GLYD_OK;
        }
        GLYD_TRY(parse_statement(p, body));
    }
    return ends ? glyd_jinja_unexpected(p, ends[0]) : GLYD_OK;
}

glyd_status glyd_jinja_parse(jinja_parser *p, jinja_nodes *body)
{
    return parse_until(p, NULL, body);
}
