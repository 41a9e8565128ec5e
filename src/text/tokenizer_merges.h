/* tokenizer_merges.h - the merges of tokenizer.json, read without a tree.
 *
 * A file of today lists 280,000 merges; as JSON values they cost most of the time to open it. So
 * the list is cut out of the text before the rest is parsed, and read straight into the table.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEXT_TOKENIZER_MERGES_H
#define GLYD_TEXT_TOKENIZER_MERGES_H

#include "glyd/base.h"
#include <stdbool.h>

typedef struct glyd_merge_list {
    glyd_span text; /* from after [ to after ]; data is NULL where there is none to cut */
    size_t at;      /* where the next entry begins */
} glyd_merge_list;

/* Find `"model": {.. "merges": [..]}` in a text that need not be JSON. Where the list is anything
 * but plain pairs in valid UTF-8 it is not taken, and the JSON parser will say what is wrong. */
void glyd_merges_find(glyd_span json, glyd_merge_list *list, size_t *n);

/* The next pair, in `scratch`; *found is false at the end. */
GLYD_MUST_CHECK glyd_status glyd_merges_next(glyd_merge_list *list, glyd_buf *scratch, bool *found,
                                             glyd_span *left, glyd_span *right);

#endif
