/* prefix.h - the prefix code of layout `mma`: chosen from counts, written as a table.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_PREFIX_H
#define GLYD_CODEC_PREFIX_H

#include "codec/format.h"

typedef struct glyd_prefix {
    uint16_t code[GLYD_PAIRS]; /* as streams hold it: the first bit lowest */
    uint8_t bits[GLYD_PAIRS];  /* 0: the symbol has no code */
} glyd_prefix;

/* Find the pairs that are too rare for a code, and what is written instead of each pair: itself
 * for most. A code of the greatest length takes 1 / 2048 of the code space, log2(e) / 2048 bits of
 * every pair, however seldom it is used: below that, a pair's half is made an escape (code `fill`),
 * or both halves are. Pairs in `keep` are not touched. Changes the counts to those of what is
 * written; returns how many escapes that makes. */
uint64_t glyd_prefix_prune(uint64_t count[GLYD_PAIRS], const uint8_t keep[GLYD_PAIRS], int fill,
                           uint8_t instead[GLYD_PAIRS]);

/* The cheapest complete code of at most GLYD_CODE_BITS_MAX bits for these counts. Symbols that do
 * not occur get none, but for the lowest ones where fewer than two occur. */
void glyd_prefix_init(glyd_prefix *prefix, const uint64_t count[GLYD_PAIRS]);

void glyd_prefix_write(const glyd_prefix *prefix, uint8_t table[GLYD_TABLE_BYTES]);

/* The low n bits of a code, in the other order. */
static inline uint32_t glyd_prefix_reverse(uint32_t code, int n)
{
    uint32_t reversed = 0;
    for (int i = 0; i < n; i++)
        reversed |= (code >> i & 1) << (n - 1 - i);
    return reversed;
}

#endif
