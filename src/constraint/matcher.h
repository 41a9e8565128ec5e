/* matcher.h - where a text is in a grammar, found byte by byte.
 *
 * A place is a set of (state, stack) pairs. Places are numbered as they are met and remember where
 * each byte leads, so that a place that was met before costs a look at a table. All memory is taken
 * at the start; when it is full, everything but the current place is forgotten.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CONSTRAINT_MATCHER_H
#define GLYD_CONSTRAINT_MATCHER_H

#include "constraint/grammar.h"

enum {
    GLYD_PLACE_NONE = 0,   /* the text does not match */
    GLYD_PAIRS_MAX = 4096, /* in a place */
};

#define GLYD_STATE_END UINT32_MAX /* a pair's state where the text may end */

typedef struct glyd_pair {
    uint32_t state; /* a BYTES state, or GLYD_STATE_END */
    uint32_t stack; /* a frame; 0: none */
} glyd_pair;

typedef struct glyd_frame {
    uint32_t below; /* the frame under it */
    uint32_t back;  /* the state that a call returns to, or the loop with the top bit set */
    int32_t round;  /* rounds of the loop that are done */
    uint32_t depth;
} glyd_frame;

typedef struct glyd_place {
    uint32_t at, n; /* pairs */
    uint32_t hash;
    int32_t mask; /* slot of a kept mask; -1: none */
} glyd_place;

typedef struct glyd_matcher glyd_matcher;

GLYD_MUST_CHECK glyd_status glyd_matcher_create(const glyd_grammar *grammar,
                                                glyd_matcher **matcher);
void glyd_matcher_free(glyd_matcher *matcher);

/* The place at the start of a text. E_LIMIT as below. */
GLYD_MUST_CHECK glyd_status glyd_matcher_start(glyd_matcher *matcher, uint32_t *place);

/* Where a byte leads from a place: GLYD_PLACE_NONE where it does not match.
 * Errors: E_LIMIT (too deep, too many pairs), E_NOMEM (full: call glyd_matcher_forget, begin anew
 * from the place it gives). */
GLYD_MUST_CHECK glyd_status glyd_matcher_step(glyd_matcher *matcher, uint32_t place, uint8_t byte,
                                              uint32_t *next);

/* Forget all places but one, which gets a new number. */
GLYD_MUST_CHECK glyd_status glyd_matcher_forget(glyd_matcher *matcher, uint32_t *place);

/* Whether the text may end at a place, and whether it may go on. */
bool glyd_matcher_may_end(const glyd_matcher *matcher, uint32_t place);
bool glyd_matcher_may_go_on(const glyd_matcher *matcher, uint32_t place);

/* How many characters of a JSON string may come next whatever they are: INT32_MAX for any number,
 * 0 outside such strings. `rest` is the place without the pairs that say so. Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_matcher_chars(glyd_matcher *matcher, uint32_t place,
                                               int32_t *chars, uint32_t *rest);

/* A place with the same next tokens, the same one for many: `margin` is the most characters of such
 * a string that a token reads, and rounds of a loop further than that from its bounds are one.
 * Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_matcher_like(glyd_matcher *matcher, uint32_t place, int32_t margin,
                                              uint32_t *like);

/* Pairs looked at so far: the measure of what steps that were not known have cost. */
uint64_t glyd_matcher_work(const glyd_matcher *matcher);

glyd_place *glyd_matcher_place(const glyd_matcher *matcher, uint32_t place);

/* Table of known steps: the row of a place has n_classes entries, UINT32_MAX where not known. */
const uint32_t *glyd_matcher_steps(const glyd_matcher *matcher);

#endif
