/* ir.h - a grammar as it is built: nodes over bytes and characters, and rules.
 *
 * Rules may be recursive. Building never fails in the middle: a builder that runs out of memory or
 * over a limit keeps the first error in `status` and hands out GLYD_NODE_NEVER from then on; who
 * made it looks once, at the end. A node may be used in several places.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CONSTRAINT_IR_H
#define GLYD_CONSTRAINT_IR_H

#include "constraint/grammar.h"

typedef uint32_t glyd_node; /* an index into nodes */

enum {
    GLYD_NODE_NEVER = 0, /* matches nothing */
    GLYD_NODE_EMPTY = 1, /* matches the empty text */
    GLYD_CODE_POINT_MAX = 0x10FFFF,
    GLYD_IR_NODES_MAX = 1 << 20,
    GLYD_TOKEN_BYTE = 0xFF, /* starts a special token; no text has this byte */
};

typedef enum glyd_node_kind {
    GLYD_IR_NEVER,
    GLYD_IR_EMPTY,
    GLYD_IR_BYTES,  /* n bytes from `at` */
    GLYD_IR_CLASS,  /* one character of n ranges from `at` */
    GLYD_IR_CHARS,  /* min to max characters of a JSON string, escapes of any kind included */
    GLYD_IR_UNTIL,  /* any text up to the first n bytes from `at`, and those */
    GLYD_IR_SEQ,    /* n nodes from `at` */
    GLYD_IR_ALT,    /* one of n nodes from `at` */
    GLYD_IR_REPEAT, /* node `at`, min to max times; max < 0: any number */
    GLYD_IR_RULE,   /* rule number `at` */
} glyd_node_kind;

typedef struct glyd_range {
    uint32_t first, last; /* characters, both included */
} glyd_range;

typedef struct glyd_ir_node {
    uint8_t kind;
    bool is_json;       /* CLASS: written as in a JSON string, with the escapes that JSON needs */
    bool is_productive; /* some text matches; set by glyd_ir_analyse */
    bool is_nullable;   /* the empty text matches; the same */
    uint32_t at, n;
    int32_t min, max;
} glyd_ir_node;

typedef struct glyd_ir {
    glyd_buf nodes;  /* glyd_ir_node */
    glyd_buf kids;   /* glyd_node */
    glyd_buf bytes;  /* uint8_t */
    glyd_buf ranges; /* glyd_range */
    glyd_buf rules;  /* glyd_node: the body of each */
    glyd_status status;
} glyd_ir;

void glyd_ir_init(glyd_ir *ir);
void glyd_ir_free(glyd_ir *ir);

glyd_node glyd_ir_bytes(glyd_ir *ir, const void *bytes, size_t n);
glyd_node glyd_ir_text(glyd_ir *ir, const char *text);
/* Ranges in any order, overlapping or not; none: NEVER. */
glyd_node glyd_ir_class(glyd_ir *ir, const glyd_range *ranges, size_t n, bool is_json);
glyd_node glyd_ir_chars(glyd_ir *ir, int32_t min, int32_t max);
glyd_node glyd_ir_until(glyd_ir *ir, glyd_span text);
glyd_node glyd_ir_token(glyd_ir *ir, int32_t id);
glyd_node glyd_ir_seq(glyd_ir *ir, const glyd_node *kids, size_t n);
glyd_node glyd_ir_alt(glyd_ir *ir, const glyd_node *kids, size_t n);
glyd_node glyd_ir_repeat(glyd_ir *ir, glyd_node kid, int32_t min, int32_t max);
/* One of several texts, common starts shared. Sorts `texts`. */
glyd_node glyd_ir_choice(glyd_ir *ir, glyd_span *texts, size_t n);

/* A rule, matching nothing until it is set; and a node that calls it. */
uint32_t glyd_ir_new_rule(glyd_ir *ir);
void glyd_ir_set_rule(glyd_ir *ir, uint32_t rule, glyd_node body);
glyd_node glyd_ir_rule(glyd_ir *ir, uint32_t rule);
/* A rule with this body, as a node. */
glyd_node glyd_ir_shared(glyd_ir *ir, glyd_node body);

#define GLYD_IR_SEQ(ir, ...)                                                                       \
    glyd_ir_seq((ir), (const glyd_node[]){__VA_ARGS__},                                            \
                sizeof((const glyd_node[]){__VA_ARGS__}) / sizeof(glyd_node))
#define GLYD_IR_ALT(ir, ...)                                                                       \
    glyd_ir_alt((ir), (const glyd_node[]){__VA_ARGS__},                                            \
                sizeof((const glyd_node[]){__VA_ARGS__}) / sizeof(glyd_node))

static inline glyd_ir_node *glyd_ir_at(const glyd_ir *ir, glyd_node node)
{
    return (glyd_ir_node *)(void *)ir->nodes.data + node;
}

static inline const glyd_node *glyd_ir_kids(const glyd_ir *ir, const glyd_ir_node *node)
{
    return (const glyd_node *)(const void *)ir->kids.data + node->at;
}

/* Make the automaton of a node. Errors: E_FORMAT (no text matches), E_LIMIT, E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_ir_lower(glyd_ir *ir, glyd_node root, glyd_grammar *grammar,
                                          glyd_error *err);

/* Put ranges in order, join those that touch, and return how many are left. */
size_t glyd_ranges_normalise(glyd_range *ranges, size_t n);
/* All other characters, surrogates aside: at most n + 1 ranges into `out`, from normal ranges. */
size_t glyd_ranges_invert(const glyd_range *ranges, size_t n, glyd_range *out);

#endif
