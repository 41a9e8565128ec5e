/* codec.h - the packed matrix: bf16 weights held in 10.7 to 12 bits, every bit kept.
 *
 * A matrix is `rows` x `cols` bf16 values ([out_features, in_features] of a Linear). Packed, it is
 * a table of tiles of 16 rows, each a run of blocks of 16 rows x 64 columns in m16n8k16 fragment
 * order. docs/FORMAT.md specifies every byte; this header is the interface.
 *
 * Layouts
 *   bf16    row-major, as a checkpoint holds it
 *   mma12   8 bits of sign and mantissa + a 4-bit exponent code relative to the row's base
 *   mma     the same, the exponent codes entropy-coded in pairs (about 10.7 bits a weight)
 * An exponent outside its row's window of 16 is an escape: it is kept in a side list, and decoders
 * put it in place before the weight is used, so no result depends on how a weight was coded.
 *
 * Threads    no hidden state. A glyd_matrix may be read by any number of threads.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_H
#define GLYD_CODEC_H

#include "glyd/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum glyd_layout {
    GLYD_LAYOUT_BF16 = 0,
    GLYD_LAYOUT_MMA12 = 1,
    GLYD_LAYOUT_MMA = 2,
} glyd_layout;

enum {
    GLYD_TILE_ROWS = 16,        /* rows of a tile and of a block: the m of m16n8k16 */
    GLYD_BLOCK_COLS = 64,       /* columns of a block: four k16 groups */
    GLYD_COLS_MAX = 64 * 16384, /* an escape holds its block in 14 bits */
    GLYD_ROWS_MAX = 1 << 30,
    GLYD_CODE_BITS_MAX = 11, /* longest pair code of `mma`: a 2048-entry lookup table */
    GLYD_PAIRS = 256,        /* pairs of 4-bit exponent codes */
    GLYD_ARRAY_ALIGN = 64,   /* every array is zero-padded to a multiple of this */
};

/* The arrays of a matrix, in the order a save stores them. Those a layout does not use are empty.
 */
typedef enum glyd_array {
    GLYD_ARRAY_SM = 0,           /* sign and mantissa: 1,024 bytes a block; bf16: the weights */
    GLYD_ARRAY_CODES = 1,        /* mma12: 512 bytes a block; mma: the streams */
    GLYD_ARRAY_BASES = 2,        /* uint8 a row: the exponent of code 0 */
    GLYD_ARRAY_ESCAPE_INDEX = 3, /* uint32[tiles + 1]: first escape of each tile */
    GLYD_ARRAY_ESCAPES = 4,      /* uint32 each: block << 18 | position << 8 | exponent */
    GLYD_ARRAY_ENTRIES = 5,      /* mma: uint32[tiles * runs + 1], in units of 16 stream bytes */
    GLYD_ARRAY_TABLE = 6,        /* mma: code lengths and symbols, 320 bytes */
    GLYD_ARRAYS = 7,
} glyd_array;

/* A view: owns nothing. What a save holds, as it holds it. */
typedef struct glyd_matrix {
    glyd_layout layout;
    int64_t rows, cols; /* the true shape; tiles and blocks are padded to 16 and 64 */
    glyd_span array[GLYD_ARRAYS];
    int32_t run_blocks; /* mma: blocks between two entry points; 0 otherwise */
} glyd_matrix;

/* Name of an array in a save ("sm", "codes", ...) and of a layout ("mma12", ...). NULL if unknown.
 */
GLYD_API const char *glyd_array_name(glyd_array array);
GLYD_API const char *glyd_layout_name(glyd_layout layout);
GLYD_API GLYD_MUST_CHECK glyd_status glyd_layout_from_name(const char *name, glyd_layout *layout);

/* Bytes of all arrays of a matrix. */
GLYD_API size_t glyd_matrix_bytes(const glyd_matrix *m);

/* Pack rows x cols bf16 values, row r at bf16 + r * stride (in elements), into `out`, and fill *m
 * with views of it. The result is a function of the values alone: the number of threads and the
 * CPU change nothing. Where the layout would be no smaller than bf16 (random bits, tiny shapes),
 * m->layout comes back GLYD_LAYOUT_BF16 with the values copied: check it.
 * `out` is overwritten; m is valid until it is freed.
 * Errors: E_ARG (negative or too large shape, stride < cols), E_NOMEM. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_pack(glyd_layout layout, const uint16_t *bf16,
                                               int64_t rows, int64_t cols, int64_t stride,
                                               glyd_pool *pool, glyd_buf *out, glyd_matrix *m,
                                               glyd_error *err);

/* Check every size, offset, count, code and stream against the bytes there. Hostile bytes end
 * here: after GLYD_OK no decoder reads or writes outside the arrays or the output.
 * Errors: E_CORRUPT naming the array and the tile. Cost: about that of an unpack for `mma`. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_check(const glyd_matrix *m, glyd_pool *pool,
                                                glyd_error *err);

/* Decode rows [row0, row0 + rows) to bf16, row r at bf16 + (r - row0) * stride. The matrix must
 * have passed glyd_check once. Errors: E_ARG (range or stride). */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_unpack(const glyd_matrix *m, int64_t row0, int64_t rows,
                                                 uint16_t *bf16, int64_t stride, glyd_pool *pool,
                                                 glyd_error *err);

/* The same matrix in layout mma12: of an mma matrix the streams are expanded into `codes`, aligned
 * to 64 and glyd_expand_bytes(m) long, and the other arrays are shared with it; of any other layout
 * glyd_expand_bytes is 0 and *out = *m. The matrix must have passed glyd_check once. A processor
 * without bandwidth to save multiplies faster by mma12. Errors: E_CORRUPT (it was never checked).
 */
GLYD_API size_t glyd_expand_bytes(const glyd_matrix *m);
GLYD_API GLYD_MUST_CHECK glyd_status glyd_expand(const glyd_matrix *m, uint8_t *codes,
                                                 glyd_pool *pool, glyd_matrix *out,
                                                 glyd_error *err);

#ifdef __cplusplus
}
#endif
#endif
