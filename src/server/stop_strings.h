/* stop_strings.h - find the first stop string in a text that comes in pieces.
 *
 * Text is held back only while it could be the beginning of a stop string, so that none of one is
 * ever sent, and nothing is held that need not be.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_STOP_STRINGS_H
#define GLYD_SERVER_STOP_STRINGS_H

#include "glyd/base.h"

enum {
    GLYD_STOP_STRINGS_MAX = 16,
    GLYD_STOP_STRING_BYTES_MAX = 4096,
};

typedef struct glyd_stop_strings {
    glyd_span text[GLYD_STOP_STRINGS_MAX]; /* borrowed, none empty */
    int n;
} glyd_stop_strings;

typedef struct glyd_stop_match {
    int which;    /* the stop string that is found; -1: none is */
    size_t begin; /* found: where it begins; else how many bytes can be part of none */
    size_t end;   /* found: where it ends; else as `begin` */
} glyd_stop_match;

/* Look at `text`, whose first `n_seen` bytes were looked at before. Of several stop strings the one
 * that ends first is found, as a model that writes them byte by byte would end at it. */
glyd_stop_match glyd_stop_strings_find(const glyd_stop_strings *stops, glyd_span text,
                                       size_t n_seen);

#endif
