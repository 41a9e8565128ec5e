/* quads.h - exponent codes as quads and digits: a code that decodes without a chain.
 *
 * Four weights of a lane, two registers of a row and group, are a quad: byte y of a quad is
 * register `row half + 2 (y & 1)`, half y >> 1. A weight's code is its exponent less its row's
 * base, 0..10. Codes 6..9 may be constants of a pattern; any but 7..9 may be a digit of 3 bits, 7
 * standing for code 10. A quad is an index of 9 bits into 512 patterns, at a fixed place; its
 * digits follow those of the quads before it in the run's record. So where a lane's digits begin is
 * a sum of counts, and nothing else depends on what came before. docs/FORMAT.md, "Quads".
 *
 *   index    of a block, 288 bytes: a uint64 a lane, quad k = 4 (row half) + group from bit 9k on,
 *            of quad 7 only the highest bit, in bit 63; then a byte a lane with its others
 *   record   of a run of 4 blocks (a tile's last run may be shorter), in bits from the low end: 16
 *            for the number of escapes; of each escape 20 (block in the run << 18 | position << 8 |
 *            exponent), ascending; the digits, by block, lane, row half, group and byte; zeros up
 * to a multiple of 32
 *
 * Threads    no state; a table may be shared.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_QUADS_H
#define GLYD_CODEC_QUADS_H

#include "codec/format.h"

enum {
    GLYD_QUAD_PATTERNS = 512,
    GLYD_QUAD_SYMBOLS = 5,       /* of a byte: codes 9, 8, 7, 6, and a digit */
    GLYD_QUAD_TUPLES = 625,      /* of four symbols, the first one highest */
    GLYD_QUAD_INDEX_BYTES = 288, /* of a block */
    GLYD_QUAD_CODES = 11,        /* exponents from a row's base on that have a code */
    GLYD_QUAD_BASE_MAX = 245,    /* base + code stays an exponent */
    GLYD_QUAD_FILL = 8,          /* the code of escapes and beyond the edge: no digit */
    GLYD_QUAD_DIGITS_MAX = 8,    /* of a lane's 16 weights of a row */
    GLYD_QUAD_RUN_BLOCKS = 4,
    GLYD_QUAD_ESCAPE_BITS = 20,
    GLYD_QUAD_HEAD_BITS = 16,
    GLYD_QUAD_ESCAPES_MAX = GLYD_QUAD_RUN_BLOCKS * GLYD_BLOCK_WEIGHTS,
    /* The most bytes of a record: 20 bits a weight, which is then no digit. */
    GLYD_QUAD_RECORD_MAX = (16 + 20 * GLYD_QUAD_ESCAPES_MAX + 31) / 32 * 4,
};

/* What the 512 patterns say, byte by byte as a quad's registers lie, and how to find them. */
typedef struct glyd_quads {
    uint32_t codes[GLYD_QUAD_PATTERNS]; /* of constants; 0 where there is a digit */
    uint32_t marks[GLYD_QUAD_PATTERNS]; /* 7 in each digit's byte */
    uint8_t digits[GLYD_QUAD_PATTERNS]; /* their number */
    uint16_t index[GLYD_QUAD_TUPLES];   /* what is written for a tuple */
} glyd_quads;

void glyd_quads_init(glyd_quads *q);

/* Make a block's code words (of an mma12 plane) ones that can be written: a code of 11 or more
 * becomes GLYD_QUAD_FILL, and so does the last digit of a quad as long as its lane's row would have
 * more than 8. Returns whether there were any: those weights are escapes then. */
int glyd_quads_limit(const glyd_quads *q, uint32_t codes[GLYD_BLOCK_CODE_WORDS]);

/* Digits of a block whose codes can be written. */
int glyd_quads_count(const glyd_quads *q, const uint32_t codes[GLYD_BLOCK_CODE_WORDS]);

/* Bytes of the record of a run with so many digits and escapes. */
GLYD_INLINE int64_t glyd_quads_record_bytes(int64_t digits, int64_t n_escapes)
{
    return (GLYD_QUAD_HEAD_BITS + GLYD_QUAD_ESCAPE_BITS * n_escapes + 3 * digits + 31) / 32 * 4;
}

/* Write a run of `blocks` blocks of code words that can be written, and its escapes
 * (glyd_escape_make, ascending, the run's first block a multiple of 4). `record` has
 * glyd_quads_record_bytes. */
void glyd_quads_encode(const glyd_quads *q, const uint32_t *codes, int blocks,
                       const uint32_t *escapes, int n_escapes, uint8_t *index, uint8_t *record);

/* Read a record's escapes as glyd_escape_make makes them, the run's first block being `block`; room
 * for GLYD_QUAD_ESCAPES_MAX. Returns their number, or -1 where the record ends before them. */
int glyd_quads_escapes(const uint8_t *record, int64_t bytes, int64_t block, uint32_t *escapes);

/* Decode a run to `blocks` x GLYD_BLOCK_CODE_WORDS code words, as plain C does and with the
 * instruction that deposits bits (BMI2). Nothing is read past `bytes`, of which there are
 * 4 or more: a digit that would be is 0. Returns the bits of the record up to the last digit: more
 * than there are where it ends too early. */
int64_t glyd_quads_decode_c(const glyd_quads *q, const uint8_t *index, const uint8_t *record,
                            int64_t bytes, int blocks, uint32_t *codes);
#if defined(__x86_64__)
int64_t glyd_quads_decode_bmi2(const glyd_quads *q, const uint8_t *index, const uint8_t *record,
                               int64_t bytes, int blocks, uint32_t *codes);
#endif

#endif
