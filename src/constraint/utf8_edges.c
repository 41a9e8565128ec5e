/* utf8_edges.c - characters as the bytes of UTF-8.
 *
 * A range is cut until each piece is a product of byte ranges: all its characters have the same
 * length, and where two differ in one byte, all later bytes run over everything.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "constraint/lower.h"

typedef struct cutter {
    glyd_grammar *grammar;
    glyd_buf *edges;
    uint32_t next;
    uint32_t
        any[4]; /* state that reads this many arbitrary later bytes; UINT32_MAX: not yet made */
} cutter;

static int encode(uint32_t point, uint8_t bytes[4])
{
    if (point < 0x80) {
        bytes[0] = (uint8_t)point;
        return 1;
    }
    int n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, point >>= 6)
        bytes[i] = (uint8_t)(0x80 | (point & 0x3F));
    bytes[0] = (uint8_t)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | point);
    return n;
}

/* The state that reads n arbitrary later bytes and goes on. */
static glyd_status any_state(cutter *c, int n, uint32_t *state)
{
    if (n == 0) {
        *state = c->next;
        return GLYD_OK;
    }
    if (c->any[n] == UINT32_MAX) {
        uint32_t after = 0;
        GLYD_TRY(any_state(c, n - 1, &after));
        glyd_edge edge = {after, 0x80, 0xBF};
        GLYD_TRY(glyd_grammar_add_state(c->grammar, GLYD_STATE_BYTES, &edge, 1, &c->any[n]));
    }
    *state = c->any[n];
    return GLYD_OK;
}

static glyd_status add_piece(cutter *c, uint32_t first, uint32_t last)
{
    uint8_t low[4], high[4];
    int n = encode(first, low);
    uint32_t target = c->next;
    encode(last, high);
    int rest = n;
    while (rest > 1 && low[rest - 1] == 0x80 && high[rest - 1] == 0xBF)
        rest--;
    GLYD_TRY(any_state(c, n - rest, &target));
    for (int i = rest - 1; i > 0; i--) {
        glyd_edge edge = {target, low[i], high[i]};
        GLYD_TRY(glyd_grammar_add_state(c->grammar, GLYD_STATE_BYTES, &edge, 1, &target));
    }
    glyd_edge edge = {target, low[0], high[0]};
    return glyd_buf_append(c->edges, &edge, sizeof edge);
}

static glyd_status cut(cutter *c, uint32_t first, uint32_t last)
{
    static const uint32_t length_ends[] = {0x7F, 0x7FF, 0xFFFF};
    for (int i = 0; i < 3; i++) {
        if (first <= length_ends[i] && last > length_ends[i]) {
            GLYD_TRY(cut(c, first, length_ends[i]));
            return cut(c, length_ends[i] + 1, last);
        }
    }
    for (int bits = 6; last >= 0x80 && bits <= 18; bits += 6) {
        uint32_t low = ((uint32_t)1 << bits) - 1;
        if ((first | low) == (last | low))
            break;
        if (first & low) {
            GLYD_TRY(cut(c, first, first | low));
            return cut(c, (first | low) + 1, last);
        }
        if ((last & low) != low) {
            GLYD_TRY(cut(c, first, (last & ~low) - 1));
            return cut(c, last & ~low, last);
        }
    }
    return add_piece(c, first, last);
}

glyd_status glyd_utf8_edges(glyd_grammar *grammar, const glyd_range *ranges, size_t n,
                            uint32_t next, glyd_buf *edges)
{
    enum { SURROGATE_FIRST = 0xD800, SURROGATE_LAST = 0xDFFF };
    cutter c = {grammar, edges, next, {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < n; i++) {
        uint32_t first = ranges[i].first, last = ranges[i].last;
        if (first < SURROGATE_FIRST)
            GLYD_TRY(cut(&c, first, last < SURROGATE_FIRST ? last : SURROGATE_FIRST - 1));
        if (last > SURROGATE_LAST)
            GLYD_TRY(cut(&c, first > SURROGATE_LAST ? first : SURROGATE_LAST + 1, last));
    }
    return GLYD_OK;
}
