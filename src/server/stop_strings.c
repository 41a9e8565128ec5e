/* stop_strings.c - find the first stop string in a text that comes in pieces.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "server/stop_strings.h"
#include <string.h>

/* The longest end of `text` that a stop string begins with, and is longer than. */
static size_t held_bytes(glyd_span stop, glyd_span text)
{
    size_t n = stop.bytes - 1 < text.bytes ? stop.bytes - 1 : text.bytes;
    while (n > 0 && memcmp(text.data + text.bytes - n, stop.data, n) != 0)
        n--;
    return n;
}

glyd_stop_match glyd_stop_strings_find(const glyd_stop_strings *stops, glyd_span text,
                                       size_t n_seen)
{
    glyd_stop_match match = {.which = -1};
    size_t held = 0;
    for (int i = 0; i < stops->n; i++) {
        glyd_span stop = stops->text[i];
        size_t from = n_seen > stop.bytes - 1 ? n_seen - (stop.bytes - 1) : 0;
        const uint8_t *at = text.bytes > from
                                ? memmem(text.data + from, text.bytes - from, stop.data, stop.bytes)
                                : NULL;
        size_t begin = at ? (size_t)(at - text.data) : 0;
        if (at && (match.which < 0 || begin + stop.bytes < match.end))
            match = (glyd_stop_match){i, begin, begin + stop.bytes};
        size_t n = at ? 0 : held_bytes(stop, text);
        held = n > held ? n : held;
    }
    if (match.which < 0)
        match.begin = match.end = text.bytes - held;
    return match;
}
