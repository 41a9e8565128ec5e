/* regex.h - the regular expressions of tokenizer.json, which are Oniguruma's, by PCRE2.
 *
 * A translator rewrites the pattern so that PCRE2 finds what Oniguruma 6.9 with Unicode 16 finds,
 * and refuses by name what it does not know to be the same. A compiled pattern is read-only; each
 * scan owns what matching needs.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEXT_REGEX_H
#define GLYD_TEXT_REGEX_H

#include "glyd/base.h"
#include <stdbool.h>

typedef struct glyd_regex glyd_regex;

/* Errors: E_UNSUPPORTED (names the construct), E_FORMAT, E_LIMIT, E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_regex_compile(const char *pattern, size_t bytes,
                                               glyd_regex **regex, glyd_error *err);

/* A pattern that finds these very bytes (at least one). */
GLYD_MUST_CHECK glyd_status glyd_regex_literal(const char *text, size_t bytes, glyd_regex **regex,
                                               glyd_error *err);
void glyd_regex_free(glyd_regex *regex); /* NULL is allowed */

/* The matches of a pattern in one text after another. The work that a scan may do in all is
 * proportional to the text it is given. */
typedef struct glyd_scan glyd_scan;

GLYD_MUST_CHECK glyd_status glyd_scan_create(const glyd_regex *regex, glyd_scan **scan);
void glyd_scan_free(glyd_scan *scan); /* NULL is allowed */

/* Begin with a text, which must be valid UTF-8 and stay while it is scanned. */
void glyd_scan_start(glyd_scan *scan, const uint8_t *text, size_t bytes);

/* The next match from left to right. No empty match directly follows another match.
 * Errors: E_LIMIT, E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_scan_next(glyd_scan *scan, bool *found, size_t *first, size_t *end,
                                           glyd_error *err);

/* For the tests: the pattern as PCRE2 gets it. */
GLYD_MUST_CHECK glyd_status glyd_regex_translate(const char *pattern, size_t bytes, glyd_buf *out,
                                                 glyd_error *err);

#endif
