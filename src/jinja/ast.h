/* ast.h - a compiled template: tokens, nodes, and the tables of filters and tests.
 *
 * The lexer turns the text into an array of tokens, the parser turns those into a tree. Both work
 * in the template's arena, so every node lives as long as the template. Names are interned: two
 * nodes that say `message` point at one jinja_string, and scopes compare pointers.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_JINJA_AST_H
#define GLYD_JINJA_AST_H

#include "jinja/value.h"

typedef enum jinja_token_kind {
    JINJA_T_END, /* of the template */
    JINJA_T_DATA,
    JINJA_T_BLOCK_BEGIN,
    JINJA_T_BLOCK_END,
    JINJA_T_PRINT_BEGIN,
    JINJA_T_PRINT_END,
    JINJA_T_NAME,
    JINJA_T_STRING,
    JINJA_T_INT,
    JINJA_T_REAL,
    JINJA_T_OPERATOR, /* `op` holds its characters, see JINJA_OP */
} jinja_token_kind;

/* An operator's one or two characters as one number, so that `case JINJA_OP('*', '*')` reads. */
#define JINJA_OP(a, b) ((a) | (b) << 8)

typedef struct jinja_token {
    jinja_token_kind kind;
    int line;
    int op;
    jinja_value value; /* STRING, INT, REAL; NAME and DATA hold their text as a string */
} jinja_token;

typedef struct jinja_tokens {
    jinja_token *items;
    size_t n, capacity;
} jinja_tokens;

/* Interned names, in order of appearance. */
typedef struct jinja_names {
    const jinja_string **items;
    size_t n, capacity;
} jinja_names;

typedef enum jinja_node_kind {
    /* expressions */
    JINJA_N_CONST,   /* value */
    JINJA_N_NAME,    /* name */
    JINJA_N_MEMBER,  /* a.name */
    JINJA_N_INDEX,   /* a[b] */
    JINJA_N_SLICE,   /* a[b:c:d] with NULL for what is absent */
    JINJA_N_CALL,    /* a(args) */
    JINJA_N_FILTER,  /* a|filter(args); a is NULL for the input of a filter block */
    JINJA_N_TEST,    /* a is test(args) */
    JINJA_N_IF_ELSE, /* b if a else c; c may be NULL */
    JINJA_N_AND,
    JINJA_N_OR,
    JINJA_N_NOT,
    JINJA_N_COMPARE, /* a, then (op, operand) pairs in nodes */
    JINJA_N_BINARY,  /* a op b */
    JINJA_N_UNARY,   /* op a */
    JINJA_N_CONCAT,  /* nodes joined by ~ */
    JINJA_N_LIST,    /* nodes */
    JINJA_N_TUPLE,   /* nodes */
    JINJA_N_DICT,    /* nodes: key, value, key, value... */
    JINJA_N_NS_REF,  /* a target: b.name of a namespace */
    /* statements */
    JINJA_N_DATA,         /* value */
    JINJA_N_PRINT,        /* nodes */
    JINJA_N_SET,          /* target a = b */
    JINJA_N_SET_BLOCK,    /* target a = filter b (or NULL) of body */
    JINJA_N_FOR,          /* for a in b if c: body, else orelse; op is 1 where recursive */
    JINJA_N_IF,           /* a: body; nodes: the elifs, IF nodes each; orelse */
    JINJA_N_WITH,         /* nodes: target, value, ...; body */
    JINJA_N_MACRO,        /* name, macro, body */
    JINJA_N_CALL_BLOCK,   /* macro for caller(), call a, body */
    JINJA_N_FILTER_BLOCK, /* filter chain a over body */
    JINJA_N_GENERATION,   /* body, in a scope of its own */
    JINJA_N_BREAK,
    JINJA_N_CONTINUE,
} jinja_node_kind;

typedef struct jinja_node jinja_node;

typedef struct jinja_nodes {
    jinja_node **items;
    size_t n, capacity;
} jinja_nodes;

/* Arguments of a call: positional ones in nodes, then named, *a and **k. */
typedef struct jinja_call_node {
    jinja_nodes positional;
    jinja_nodes named;
    jinja_names names; /* of `named`, same length */
    jinja_node *star, *star_star;
} jinja_call_node;

typedef struct jinja_macro_node {
    const jinja_string *name; /* NULL: a call block's body */
    jinja_names params;
    jinja_nodes defaults;                           /* of the last defaults.n params */
    bool wants_caller, wants_varargs, wants_kwargs; /* which special names the body mentions */
    jinja_nodes body;
} jinja_macro_node;

typedef struct jinja_filter jinja_filter; /* run.h */
typedef struct jinja_test jinja_test;

struct jinja_node {
    jinja_node_kind kind;
    int line;
    int op; /* an operator: JINJA_OP, or one of the words below */
    jinja_value value;
    const jinja_string *name;
    jinja_node *a, *b, *c, *d;
    jinja_nodes nodes, body, orelse;
    jinja_call_node *call;
    jinja_macro_node *macro;
    union {
        const jinja_filter *filter;
        const jinja_test *test;
    } fn;
};

enum { JINJA_OP_IN = 1, JINJA_OP_NOT_IN = 2 };

/* Expressions and blocks may nest this deep; real templates stay below 20. */
enum { JINJA_NESTING_MAX = 150 };

typedef struct jinja_parser {
    jinja_arena *arena;
    jinja_tokens tokens;
    size_t at;
    int depth;
    int loops; /* how many for loops of this macro are open: break and continue need one */
    jinja_names names;
    const char *open_tag;    /* the innermost tag that waits for its end, for messages */
    jinja_macro_node *macro; /* the one being read, to note special names in */
} jinja_parser;

/* Fail with "chat template, line N: ...", also recording the status in the arena. */
glyd_status glyd_jinja_fail_at(jinja_arena *arena, int line, glyd_status status, const char *format,
                               ...) GLYD_PRINTF(4, 5);

/* The text must be valid UTF-8 and live as long as the arena. Newlines are normalised as Jinja
 * does, which may copy it. Errors: E_FORMAT with the line. */
GLYD_MUST_CHECK glyd_status glyd_jinja_lex(jinja_parser *p, const char *text, size_t bytes);

/* Parse all tokens. Errors: E_FORMAT, E_UNSUPPORTED (by name), E_LIMIT (nesting). */
GLYD_MUST_CHECK glyd_status glyd_jinja_parse(jinja_parser *p, jinja_nodes *body);

/* --- between parser.c (statements) and expr.c (expressions) --- */

typedef enum jinja_tuple_mode {
    JINJA_TUPLE_FULL,   /* commas make a tuple, a ternary is allowed */
    JINJA_TUPLE_NO_IF,  /* without ternary at the top: the head of `if` and `for` */
    JINJA_TUPLE_PARENS, /* inside parentheses: may be empty */
} jinja_tuple_mode;

GLYD_MUST_CHECK glyd_status glyd_jinja_parse_expr(jinja_parser *p, jinja_node **out);
GLYD_MUST_CHECK glyd_status glyd_jinja_parse_tuple(jinja_parser *p, jinja_tuple_mode mode,
                                                   jinja_node **out);
/* A target of set, for or with: a name, a tuple of targets, or with `ns` a namespace member. */
GLYD_MUST_CHECK glyd_status glyd_jinja_parse_target(jinja_parser *p, bool ns, jinja_node **out);
/* |filter|filter... over `input`, which is NULL where the input is a block's text. With `bare`
 * the first filter has no bar before it. */
GLYD_MUST_CHECK glyd_status glyd_jinja_parse_filters(jinja_parser *p, jinja_node *input, bool bare,
                                                     jinja_node **out);

static inline const jinja_token *jinja_peek(const jinja_parser *p)
{
    return &p->tokens.items[p->at];
}

const jinja_token *glyd_jinja_next(jinja_parser *p); /* stays on the last token */
bool glyd_jinja_at_name(const jinja_parser *p, const char *word);
bool glyd_jinja_at_op(const jinja_parser *p, int op);
bool glyd_jinja_skip_name(jinja_parser *p, const char *word);
bool glyd_jinja_skip_op(jinja_parser *p, int op);
GLYD_MUST_CHECK glyd_status glyd_jinja_expect_op(jinja_parser *p, int op);
GLYD_MUST_CHECK glyd_status glyd_jinja_expect_name(jinja_parser *p, const jinja_string **name);
glyd_status glyd_jinja_unexpected(jinja_parser *p, const char *wanted);
GLYD_MUST_CHECK glyd_status glyd_jinja_enter(jinja_parser *p); /* one level deeper, or E_LIMIT */

jinja_node *glyd_jinja_node_new(jinja_parser *p, jinja_node_kind kind, int line);
GLYD_MUST_CHECK glyd_status glyd_jinja_nodes_add(jinja_arena *arena, jinja_nodes *nodes,
                                                 jinja_node *node);
GLYD_MUST_CHECK glyd_status glyd_jinja_names_add(jinja_arena *arena, jinja_names *names,
                                                 const jinja_string *name);

#endif
