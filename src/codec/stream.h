/* stream.h - decoding the streams of layout `mma`: a run's words to an mma12 code plane.
 *
 * A product kernel builds the lookup once a matrix, expands a run into scratch and goes on as if
 * the matrix were mma12. The matrix must have passed glyd_check.
 * Threads    no state; a lookup may be shared.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_STREAM_H
#define GLYD_CODEC_STREAM_H

#include "codec/format.h"

/* What the next 11 bits of a lane begin with: code(h=0) | bits << 8 | code(h=1) << 16, so that
 * `entry & GLYD_LOOKUP_CODES`, shifted left by 4r, is the pair's part of an mma12 code word. */
typedef struct glyd_lookup {
    _Alignas(64) uint32_t entry[GLYD_LOOKUP_ENTRIES];
} glyd_lookup;

enum { GLYD_LOOKUP_CODES = 0x000f000f, GLYD_LOOKUP_BITS_SHIFT = 8 };

/* Build the lookup of a matrix's `table` array. Errors: E_CORRUPT where the code is not complete,
 * or a symbol comes twice. */
GLYD_MUST_CHECK glyd_status glyd_lookup_init(glyd_lookup *lookup, glyd_span table, glyd_error *err);

/* Expand run `run` of tile `tile` into `codes`: GLYD_BLOCK_CODE_WORDS words a block, blocks in
 * order; room for run_blocks blocks. Returns the number of blocks, run_blocks but for a tile's
 * last run. */
int glyd_stream_expand(const glyd_matrix *m, const glyd_lookup *lookup, int64_t tile, int64_t run,
                       uint32_t *codes);

/* The words of a run, and how many blocks they hold. Its entries are trusted. */
typedef struct glyd_run {
    const uint8_t *words;
    int64_t n_words;
    int blocks, streams;
} glyd_run;

glyd_run glyd_stream_run(const glyd_matrix *m, int64_t tile, int64_t run);

#endif
