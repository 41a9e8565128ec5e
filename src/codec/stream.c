/* stream.c - the plain-C decoder of layout `mma`, which the vector variants are held to.
 *
 * A lane's bit buffer holds more than 32 bits before each step, and a step takes at most 22, so
 * one look at each buffer after a step is enough.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/stream.h"
#include "base/error.h"
#include "codec/load.h"
#include <string.h>

/* A canonical code counts upwards from its first bit; streams hold the first bit lowest. */
static uint32_t reverse_bits(uint32_t code, int n)
{
    uint32_t reversed = 0;
    for (int i = 0; i < n; i++)
        reversed |= (code >> i & 1) << (n - 1 - i);
    return reversed;
}

glyd_status glyd_lookup_init(glyd_lookup *lookup, glyd_span table, glyd_error *err)
{
    GLYD_NEED(table.bytes == GLYD_TABLE_BYTES, err, "table: %zu bytes where %d belong", table.bytes,
              GLYD_TABLE_BYTES);
    int n_symbols = 0;
    uint32_t filled = 0; /* entries of the lookup; 2048 when the code is complete */
    for (int n = 0; n < GLYD_TABLE_COUNTS; n++) {
        int count = glyd_load_u16(table.data, n);
        GLYD_NEED(count == 0 || (n >= 1 && n <= GLYD_CODE_BITS_MAX), err,
                  "table: codes of %d bits, where 1 to %d are possible", n, GLYD_CODE_BITS_MAX);
        GLYD_NEED(count <= GLYD_PAIRS, err, "table: %d codes of %d bits", count, n);
        n_symbols += count;
        if (count)
            filled += (uint32_t)count << (GLYD_CODE_BITS_MAX - n);
    }
    GLYD_NEED(n_symbols <= GLYD_PAIRS && filled == GLYD_LOOKUP_ENTRIES, err,
              "table: the code is not complete (%d symbols fill %u of %d)", n_symbols, filled,
              GLYD_LOOKUP_ENTRIES);

    const uint8_t *symbols = table.data + GLYD_TABLE_SYMBOLS_OFFSET;
    uint8_t seen[GLYD_PAIRS] = {0};
    uint32_t code = 0;
    int next = 0;
    for (int n = 1; n <= GLYD_CODE_BITS_MAX; n++, code <<= 1) {
        for (int i = glyd_load_u16(table.data, n); i > 0; i--, code++) {
            uint32_t symbol = symbols[next++];
            GLYD_NEED(!seen[symbol]++, err, "table: symbol %u has two codes", symbol);
            uint32_t entry =
                (symbol & 15) | (uint32_t)n << GLYD_LOOKUP_BITS_SHIFT | (symbol >> 4) << 16;
            for (uint32_t at = reverse_bits(code, n); at < GLYD_LOOKUP_ENTRIES; at += 1U << n)
                lookup->entry[at] = entry;
        }
    }
    for (int i = GLYD_TABLE_SYMBOLS_OFFSET + next; i < GLYD_TABLE_BYTES; i++)
        GLYD_NEED(table.data[i] == 0, err, "table: byte %d is not zero", i);
    return GLYD_OK;
}

typedef struct lane {
    uint64_t buffer;
    int bits;
} lane;

/* Take one pair from the low end of the lane's buffer. */
static inline uint32_t take(lane *l, const glyd_lookup *lookup)
{
    uint32_t entry = lookup->entry[l->buffer & (GLYD_LOOKUP_ENTRIES - 1)];
    int n = (int)(entry >> GLYD_LOOKUP_BITS_SHIFT & 15);
    l->buffer >>= n;
    l->bits -= n;
    return entry & GLYD_LOOKUP_CODES;
}

int64_t glyd_stream_decode(const uint8_t *words, int64_t n_words, const glyd_lookup *lookup,
                           int blocks, uint32_t *codes, uint64_t *left)
{
    lane lanes[GLYD_LANES];
    int64_t next = 2 * GLYD_LANES;
    if (n_words < next)
        return -1;
    for (int l = 0; l < GLYD_LANES; l++) {
        uint64_t high = glyd_load_u32(words, GLYD_LANES + l);
        lanes[l] = (lane){.buffer = high << 32 | glyd_load_u32(words, l), .bits = 64};
    }
    int steps = blocks * GLYD_BLOCK_STEPS;
    for (int step = 0; step < steps; step++) {
        int half = step & 1;
        uint32_t *to = codes + step / GLYD_BLOCK_STEPS * GLYD_BLOCK_CODE_WORDS +
                       glyd_code_word(0, step / 2 % GLYD_BLOCK_GROUPS);
        for (int l = 0; l < GLYD_LANES; l++, to += GLYD_BLOCK_GROUPS) {
            uint32_t pairs = take(&lanes[l], lookup);
            pairs |= take(&lanes[l], lookup) << 4;
            *to = half ? *to | pairs << 8 : pairs;
        }
        if (step + 1 == steps)
            break;
        for (int l = 0; l < GLYD_LANES; l++) {
            if (lanes[l].bits > 32)
                continue;
            if (next == n_words)
                return -1;
            lanes[l].buffer |= (uint64_t)glyd_load_u32(words, next++) << lanes[l].bits;
            lanes[l].bits += 32;
        }
    }
    *left = 0;
    for (int l = 0; l < GLYD_LANES; l++)
        *left |= lanes[l].buffer;
    return next;
}

int glyd_stream_expand(const glyd_matrix *m, const glyd_lookup *lookup, int64_t tile, int64_t run,
                       uint32_t *codes)
{
    int64_t blocks = glyd_blocks_of(m->cols);
    int64_t entry = tile * glyd_runs_of(blocks, m->run_blocks) + run;
    const uint8_t *entries = m->array[GLYD_ARRAY_ENTRIES].data;
    int64_t first = glyd_load_u32(entries, entry), end = glyd_load_u32(entries, entry + 1);
    int64_t rest = blocks - run * m->run_blocks;
    int n = rest < m->run_blocks ? (int)rest : m->run_blocks;
    uint64_t left;
    int64_t dealt = glyd_stream_decode(m->array[GLYD_ARRAY_CODES].data + first * GLYD_RUN_ALIGN,
                                       (end - first) * GLYD_RUN_ALIGN / 4, lookup, n, codes, &left);
    GLYD_ASSERT(dealt >= 0); /* glyd_check saw to it */
    return n;
}
