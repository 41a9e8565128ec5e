/* stream.c - the lookup of a prefix code, and runs of a matrix's streams.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/stream.h"
#include "base/error.h"
#include "codec/load.h"
#include "codec/prefix.h"
#include "codec/variants.h"
#include <string.h>

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
            for (uint32_t at = glyd_prefix_reverse(code, n); at < GLYD_LOOKUP_ENTRIES;
                 at += 1U << n)
                lookup->entry[at] = entry;
        }
    }
    for (int i = GLYD_TABLE_SYMBOLS_OFFSET + next; i < GLYD_TABLE_BYTES; i++)
        GLYD_NEED(table.data[i] == 0, err, "table: byte %d is not zero", i);
    return GLYD_OK;
}

glyd_run glyd_stream_run(const glyd_matrix *m, int64_t tile, int64_t run)
{
    int64_t blocks = glyd_blocks_of(m->cols), rest = blocks - run * m->run_blocks;
    int64_t at = tile * glyd_runs_of(blocks, m->run_blocks) + run;
    const uint8_t *entries = m->array[GLYD_ARRAY_ENTRIES].data;
    int64_t first = glyd_load_u32(entries, at), end = glyd_load_u32(entries, at + 1);
    return (glyd_run){
        .words = m->array[GLYD_ARRAY_CODES].data + first * GLYD_RUN_ALIGN,
        .n_words = (end - first) * (GLYD_RUN_ALIGN / 4),
        .blocks = rest < m->run_blocks ? (int)rest : m->run_blocks,
        .streams = glyd_run_streams(blocks),
    };
}

int glyd_stream_expand(const glyd_matrix *m, const glyd_lookup *lookup, int64_t tile, int64_t run,
                       uint32_t *codes)
{
    glyd_run r = glyd_stream_run(m, tile, run);
    uint64_t left;
    int64_t dealt =
        glyd_variants_best()->decode(r.words, r.n_words, lookup, r.blocks, r.streams, codes, &left);
    GLYD_ASSERT(dealt >= 0); /* glyd_check saw to it */
    return r.blocks;
}
