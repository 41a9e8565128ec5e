/* grammar.h - a compiled grammar: a byte automaton with calls and counted loops.
 *
 * Where a text is in a grammar is a set of pairs (state, stack); a stack's frames say where a call
 * returns to, or which loop is in which round. States and loops are numbered.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CONSTRAINT_GRAMMAR_H
#define GLYD_CONSTRAINT_GRAMMAR_H

#include "constraint/constraint.h"

typedef enum glyd_state_kind {
    GLYD_STATE_BYTES,  /* n edges from `at`: read a byte, go on */
    GLYD_STATE_SPLIT,  /* n edges from `at`: go on at each target, reading nothing */
    GLYD_STATE_CALL,   /* push a frame that returns to state n, go on at `at` */
    GLYD_STATE_LOOP,   /* begin loop `at` */
    GLYD_STATE_RETURN, /* pop a frame */
} glyd_state_kind;

typedef struct glyd_state {
    uint32_t kind;
    uint32_t at, n;
} glyd_state;

typedef struct glyd_edge {
    uint32_t target;
    uint8_t first, last; /* bytes, both included */
} glyd_edge;

typedef struct glyd_loop {
    uint32_t body; /* ends in a RETURN; matches no empty text */
    uint32_t exit;
    int32_t min, max; /* rounds; max < 0: any number */
} glyd_loop;

struct glyd_grammar {
    glyd_buf states; /* glyd_state */
    glyd_buf edges;  /* glyd_edge */
    glyd_buf loops;  /* glyd_loop */
    uint32_t start;
    uint32_t char_start;   /* the body of loops over JSON string characters */
    uint8_t class_of[256]; /* bytes of one class are alike in every state */
    int n_classes;
};

#endif
