/* lower.h - between the steps that make an automaton of nodes.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CONSTRAINT_LOWER_H
#define GLYD_CONSTRAINT_LOWER_H

#include "constraint/ir.h"

/* Set is_productive and is_nullable of every node. Errors: E_LIMIT. */
GLYD_MUST_CHECK glyd_status glyd_ir_analyse(glyd_ir *ir, glyd_error *err);

static inline glyd_node glyd_ir_body(const glyd_ir *ir, uint32_t rule)
{
    return ((const glyd_node *)(const void *)ir->rules.data)[rule];
}

/* Append edges that read one character of the ranges as UTF-8 and go on at `next`, for a state that
 * the caller makes; states for later bytes go into `grammar`. `edges` holds glyd_edge.
 * Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_utf8_edges(glyd_grammar *grammar, const glyd_range *ranges,
                                            size_t n, uint32_t next, glyd_buf *edges);

/* Append a state with these edges. Errors: E_NOMEM, E_LIMIT (too many states). */
GLYD_MUST_CHECK glyd_status glyd_grammar_add_state(glyd_grammar *grammar, glyd_state_kind kind,
                                                   const glyd_edge *edges, size_t n,
                                                   uint32_t *state);
#endif
