/* schema.h - from JSON Schema to nodes; what its parts share.
 *
 * Each schema becomes a rule of its own, found again by its address, so that recursion by $ref
 * closes. The place in the document is kept as a JSON pointer for errors.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CONSTRAINT_SCHEMA_H
#define GLYD_CONSTRAINT_SCHEMA_H

#include "constraint/ir.h"

enum {
    GLYD_COMPARED_MAX = 10000000, /* for a whole schema */
    GLYD_NUMBER_DIGITS_MAX = 32,  /* before the point, and after it */
    GLYD_BOUND_DIGITS_MAX = 15,   /* of a number with bounds: what a double always tells apart */
};

/* The types of JSON, as bits. An integer is a number; NUMBER alone stands for both. */
typedef enum glyd_json_types {
    GLYD_TYPE_NULL = 1,
    GLYD_TYPE_BOOLEAN = 2,
    GLYD_TYPE_INTEGER = 4,
    GLYD_TYPE_NUMBER = 8,
    GLYD_TYPE_STRING = 16,
    GLYD_TYPE_ARRAY = 32,
    GLYD_TYPE_OBJECT = 64,
    GLYD_TYPE_ALL = 127,
} glyd_json_types;

/* Nodes that any schema may use; one set for a whole grammar. */
typedef struct glyd_json_nodes {
    glyd_node space, string, integer, number, boolean, null, value, object, array, digits;
} glyd_json_nodes;

void glyd_json_nodes_make(glyd_ir *ir, int whitespace_max, glyd_json_nodes *nodes);

typedef struct glyd_schema_rule {
    const json_t *schema; /* NULL: empty */
    uint32_t rule;
} glyd_schema_rule;

typedef struct glyd_schema {
    glyd_ir *ir;
    const glyd_json_nodes *json;
    const json_t *root;
    json_t *kept;   /* an array: schemas made by merging, which must keep their addresses */
    glyd_buf rules; /* glyd_schema_rule: a hash table */
    size_t n_rules;
    glyd_buf path; /* JSON pointer */
    int depth;
    int64_t compared; /* values and names, when schemas were put together or told apart */
    glyd_error *err;
} glyd_schema;

/* Errors: as glyd_grammar_create. */
GLYD_MUST_CHECK glyd_status glyd_schema_compile(glyd_ir *ir, const glyd_json_nodes *json,
                                                const json_t *root, glyd_node *node,
                                                glyd_error *err);

/* One schema within it, with "/KEY" or "/KEY/NAME" added to the path (either may be NULL). */
GLYD_MUST_CHECK glyd_status glyd_schema_node(glyd_schema *s, const json_t *schema, const char *key,
                                             const char *name, glyd_node *node);

/* Fail with the pointer of a keyword of the current schema before the text. */
GLYD_MUST_CHECK glyd_status glyd_schema_refuse(glyd_schema *s, glyd_status status,
                                               const char *keyword, const char *format, ...)
    GLYD_PRINTF(4, 5);

/* A count that a keyword gives; `absent` where it is not there. */
GLYD_MUST_CHECK glyd_status glyd_schema_count(glyd_schema *s, const json_t *schema,
                                              const char *keyword, int32_t absent, int32_t *count);

/* What `type` says, or what the other keywords are about where it is absent. */
GLYD_MUST_CHECK glyd_status glyd_schema_types(glyd_schema *s, const json_t *schema,
                                              unsigned *types);
/* The types that a value has. */
unsigned glyd_schema_value_types(const json_t *value);

/* The schema that a $ref names. Errors: E_UNSUPPORTED (another document), E_FORMAT. */
GLYD_MUST_CHECK glyd_status glyd_schema_resolve(glyd_schema *s, const json_t *ref,
                                                const json_t **target);

/* One keyword that nothing depends on. */
bool glyd_schema_is_annotation(const char *keyword);

/* Of one type each. */
GLYD_MUST_CHECK glyd_status glyd_schema_object(glyd_schema *s, const json_t *schema,
                                               glyd_node *node);
GLYD_MUST_CHECK glyd_status glyd_schema_array(glyd_schema *s, const json_t *schema,
                                              glyd_node *node);
GLYD_MUST_CHECK glyd_status glyd_schema_string(glyd_schema *s, const json_t *schema,
                                               glyd_node *node);
GLYD_MUST_CHECK glyd_status glyd_schema_number(glyd_schema *s, const json_t *schema,
                                               bool is_integer, glyd_node *node);

/* A text as a JSON string with the escapes it needs, quotes included, onto `out`. */
GLYD_MUST_CHECK glyd_status glyd_json_quote(const char *text, size_t bytes, glyd_buf *out);

/* A copy of an object or a list with the same members; NULL when out of memory, also where jansson
 * leaves a member out and does not say so. */
json_t *glyd_schema_copy(const json_t *value);

/* A new schema that says what two say; owned by `s`. Errors: E_UNSUPPORTED where none does. */
GLYD_MUST_CHECK glyd_status glyd_schema_merge(glyd_schema *s, const json_t *a, const json_t *b,
                                              const json_t **merged);

/* Whether no value is valid for both; false where that cannot be told. */
bool glyd_schema_are_disjoint(glyd_schema *s, const json_t *a, const json_t *b);

#endif
