/* pattern.h - regular expressions as nodes.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CONSTRAINT_PATTERN_H
#define GLYD_CONSTRAINT_PATTERN_H

#include "constraint/ir.h"

typedef enum glyd_pattern_use {
    GLYD_PATTERN_TEXT,        /* all of a text */
    GLYD_PATTERN_JSON_WHOLE,  /* all of a JSON string, between its quotes */
    GLYD_PATTERN_JSON_SEARCH, /* somewhere in a JSON string */
} glyd_pattern_use;

/* Errors: E_FORMAT, E_UNSUPPORTED, E_LIMIT; the text has the offset. Running out of memory shows in
 * the builder. */
GLYD_MUST_CHECK glyd_status glyd_pattern_parse(glyd_ir *ir, glyd_span pattern, glyd_pattern_use use,
                                               glyd_node *node, glyd_error *err);

#endif
