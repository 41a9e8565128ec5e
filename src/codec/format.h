/* format.h - the geometry of the packed matrix: one place for every size, index and field.
 *
 * docs/FORMAT.md section 1 says what these mean. C and CUDA C++ alike; integers only, no state.
 *
 *   matrix = tiles of 16 rows > blocks of 64 columns > k16 groups j > lanes l = 4g + t
 *   lane l of group j holds registers r = 0..3 (row g + 8 (r & 1), columns 2t + 8 (r >> 1) + h)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_FORMAT_H
#define GLYD_CODEC_FORMAT_H

#include "glyd/codec.h"
#include <stdint.h>

#ifdef __CUDACC__
#define GLYD_INLINE static inline __host__ __device__
#else
#define GLYD_INLINE static inline
#endif

enum {
    GLYD_LANES = 32,
    GLYD_GROUP_COLS = 16,
    GLYD_BLOCK_GROUPS = 4,
    GLYD_BLOCK_WEIGHTS = GLYD_TILE_ROWS * GLYD_BLOCK_COLS,
    GLYD_BLOCK_SM_WORDS = 256,   /* uint32 words of the sm plane */
    GLYD_BLOCK_CODE_WORDS = 128, /* uint32 words of an mma12 code plane */
    GLYD_BLOCK_SM_BYTES = 4 * GLYD_BLOCK_SM_WORDS,
    GLYD_BLOCK_CODE_BYTES = 4 * GLYD_BLOCK_CODE_WORDS,
    GLYD_STREAMS_MAX = 64, /* mma: of a run; GLYD_LANES of them in narrow matrices */
    GLYD_WIDE_BLOCKS = 32, /* mma: blocks of a tile from which on it is wide */
    /* mma: a stream is dealt a word when it holds this or less, */
    GLYD_REFILL_BITS = 62,
    GLYD_REFILL_END_BITS = 30,  /* in a run's last block, */
    GLYD_REFILL_LAST_BITS = 21, /* and before its last step: what a step may not do with */
    GLYD_BASE_MAX = 240,        /* base + code stays an exponent: at most 255 */
    GLYD_WINDOW = 16,           /* exponents that a row's codes reach */
    GLYD_RUN_BLOCKS = 16,       /* what the encoder writes */
    GLYD_RUN_BLOCKS_MAX = 64,   /* what decoders must take */
    GLYD_RUN_ALIGN = 16,        /* bytes; `entries` count these */
    GLYD_TABLE_COUNTS = 16,     /* uint16 counts of codes by length */
    GLYD_TABLE_SYMBOLS_OFFSET = 32,
    GLYD_TABLE_BYTES = 320, /* 32 + 256, padded */
    GLYD_LOOKUP_ENTRIES = 1 << GLYD_CODE_BITS_MAX,
};

/* Masks of an sm word: register 2q as it lies, register 2q + 1 after its halves' bytes are
 * exchanged. */
#define GLYD_SM_MASK 0x807f807fU

GLYD_INLINE int64_t glyd_tiles_of(int64_t rows)
{
    return (rows + GLYD_TILE_ROWS - 1) / GLYD_TILE_ROWS;
}

GLYD_INLINE int64_t glyd_blocks_of(int64_t cols)
{
    return (cols + GLYD_BLOCK_COLS - 1) / GLYD_BLOCK_COLS;
}

/* Runs of a tile. */
GLYD_INLINE int64_t glyd_runs_of(int64_t blocks, int run_blocks)
{
    return (blocks + run_blocks - 1) / run_blocks;
}

/* mma: streams of a run, in a matrix with so many blocks a tile. */
GLYD_INLINE int glyd_run_streams(int64_t blocks)
{
    return blocks >= GLYD_WIDE_BLOCKS ? GLYD_STREAMS_MAX : GLYD_LANES;
}

/* Steps of a block: in each, every stream takes two pairs. */
GLYD_INLINE int glyd_block_steps(int streams)
{
    return 2 * GLYD_LANES * GLYD_BLOCK_GROUPS / streams;
}

/* The group of the pairs that step `step` takes, and the registers: lane `stream % 32`'s two of a
 * row where there are 64 streams, else two of both its rows. */
GLYD_INLINE int glyd_step_group(int streams, int step)
{
    return streams == GLYD_LANES ? step / 2 : step;
}

GLYD_INLINE int glyd_step_register(int streams, int stream, int step, int second)
{
    return streams == GLYD_LANES ? 2 * (step & 1) + second : stream / GLYD_LANES + 2 * second;
}

/* After step `step` of a run's `steps`, streams that hold so many bits or fewer are dealt a word.
 */
GLYD_INLINE int glyd_refill_bits(int step, int steps, int streams)
{
    if (step + 2 == steps)
        return GLYD_REFILL_LAST_BITS;
    return step + glyd_block_steps(streams) >= steps ? GLYD_REFILL_END_BITS : GLYD_REFILL_BITS;
}

GLYD_INLINE int64_t glyd_pad_bytes(int64_t bytes)
{
    return (bytes + GLYD_ARRAY_ALIGN - 1) / GLYD_ARRAY_ALIGN * GLYD_ARRAY_ALIGN;
}

/* Word of a block's sm plane that holds registers 2q and 2q + 1. */
GLYD_INLINE int glyd_sm_word(int lane, int group, int q)
{
    return (group >> 1) * 128 + lane * 4 + (group & 1) * 2 + q;
}

/* Word of a block's mma12 code plane: four registers, the code of (r, h) from bit 16h + 4r. */
GLYD_INLINE int glyd_code_word(int lane, int group)
{
    return lane * 4 + group;
}

/* A weight's position in its block, and back to its row and column there. */
GLYD_INLINE int glyd_position(int lane, int group, int reg, int half)
{
    return lane << 5 | group << 3 | reg << 1 | half;
}

GLYD_INLINE int glyd_position_row(int position)
{
    return (position >> 7 & 7) | (position >> 1 & 1) << 3;
}

GLYD_INLINE int glyd_position_col(int position)
{
    return (position >> 3 & 3) * 16 | (position >> 2 & 1) << 3 | (position >> 5 & 3) * 2 |
           (position & 1);
}

GLYD_INLINE int glyd_position_at(int row, int col)
{
    return glyd_position((row & 7) << 2 | (col >> 1 & 3), col >> 4, (col >> 3 & 1) << 1 | row >> 3,
                         col & 1);
}

/* Fields of an escape. */
GLYD_INLINE uint32_t glyd_escape_make(int64_t block, int position, int exponent)
{
    return (uint32_t)block << 18 | (uint32_t)position << 8 | (uint32_t)exponent;
}

GLYD_INLINE int glyd_escape_block(uint32_t escape)
{
    return (int)(escape >> 18);
}

GLYD_INLINE int glyd_escape_position(uint32_t escape)
{
    return (int)(escape >> 8 & 1023);
}

GLYD_INLINE int glyd_escape_exponent(uint32_t escape)
{
    return (int)(escape & 255);
}

/* Bytes of an array, its padding counted, where layout and shape decide them; -1 for those whose
 * data decides (the streams of `mma`, the escapes). Shapes within GLYD_ROWS_MAX x GLYD_COLS_MAX do
 * not overflow. The one array of `bf16` is the checkpoint's own bytes, without padding. */
GLYD_INLINE int64_t glyd_array_bytes(glyd_layout layout, glyd_array array, int64_t rows,
                                     int64_t cols, int run_blocks)
{
    int64_t tiles = glyd_tiles_of(rows), blocks = glyd_blocks_of(cols);
    if (layout == GLYD_LAYOUT_BF16)
        return array == GLYD_ARRAY_SM ? rows * cols * 2 : 0;
    switch (array) {
    case GLYD_ARRAY_SM:
        return tiles * blocks * GLYD_BLOCK_SM_BYTES;
    case GLYD_ARRAY_CODES:
        return layout == GLYD_LAYOUT_MMA ? -1 : tiles * blocks * GLYD_BLOCK_CODE_BYTES;
    case GLYD_ARRAY_BASES:
        return glyd_pad_bytes(tiles * GLYD_TILE_ROWS);
    case GLYD_ARRAY_ESCAPE_INDEX:
        return glyd_pad_bytes((tiles + 1) * 4);
    case GLYD_ARRAY_ESCAPES:
        return -1;
    case GLYD_ARRAY_ENTRIES:
        return layout == GLYD_LAYOUT_MMA
                   ? glyd_pad_bytes((tiles * glyd_runs_of(blocks, run_blocks) + 1) * 4)
                   : 0;
    case GLYD_ARRAY_TABLE:
        return layout == GLYD_LAYOUT_MMA ? GLYD_TABLE_BYTES : 0;
    default:
        return 0;
    }
}

#endif
