/* unicode.h - the character data that tokenizers depend on, at the versions they depend on.
 *
 * The reference tokenizer mixes versions of Unicode: its regular expressions know 16.0, its
 * normalisation forms 9.0. PCRE2 and utf8proc bring 14.0 or newer of their own; the tables here
 * make up the difference, so that ids do not depend on which version a machine has.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEXT_UNICODE_H
#define GLYD_TEXT_UNICODE_H

#include "glyd/base.h"
#include <stdbool.h>

typedef struct glyd_unicode_range {
    uint32_t first, last;
    char category[3]; /* general category, such as "Lu" */
} glyd_unicode_range;

/* Points that Unicode 16.0 put into another category than 14.0, in order. */
const glyd_unicode_range *glyd_unicode_added(size_t *n);

/* Whether the point takes part in normalisation, but only since after Unicode 9.0. */
bool glyd_unicode_is_normalised_since_9(uint32_t point);

bool glyd_unicode_is_space(uint32_t point); /* property White_Space */
bool glyd_unicode_is_word(uint32_t point);  /* \w of the Unicode regular expression guidelines */

/* The number of bytes of the valid UTF-8 character that starts at `s`, with n >= 1 bytes left, and
 * its point; 0 where none starts. */
int glyd_utf8_decode(const uint8_t *s, size_t n, uint32_t *point);

/* Write a point, which must be a Unicode scalar value; return 1 to 4. */
int glyd_utf8_encode(uint32_t point, char out[4]);

/* How many of the n >= 1 bytes at `s` make the longest prefix of a character (at least 1): what
 * one replacement character stands for where no character starts. `*whole` is false where more
 * bytes could complete it. */
int glyd_utf8_broken(const uint8_t *s, size_t n, bool *whole);

/* The length of the longest valid prefix. */
size_t glyd_utf8_valid(const uint8_t *s, size_t n);

/* Append `s`, each broken sequence replaced by U+FFFD, as Python's errors="replace" does. */
GLYD_MUST_CHECK glyd_status glyd_utf8_append_clean(glyd_buf *out, const uint8_t *s, size_t n);

#endif
