/* linear_kernel.h - what a CPU variant supplies to products: one table of functions.
 *
 * Lanes. A packed block holds the words of a row pair (g, g + 8) and of half a block (32 columns)
 * in 64 bytes, in the order lane = 4t + 2 (j & 1) + q. Kernels keep the sixteen slots of linear.h
 * in that order, so that a weight's word is multiplied where it lies; slot w = 8 (j & 1) + 4q + t
 * is lane 4 (w % 4) + w / 4, and the other way round alike (a 4 x 4 transposition).
 *
 * Panels. x, and weights decoded for many tokens, are laid out so that a dot product is one run of
 * whole vectors: lanes are cut into 16 / width groups; a row of a panel is, for each group, for
 * each step (32 columns), the `width` even columns and then the `width` odd ones. A panel of
 * `steps` steps has 32 * steps floats a row.
 *
 * Pairs. Where weights have escapes to be put in place, a block is first decoded to bf16 pairs as
 * they lie: [g][half][row g, row g + 8][lane][column parity], 16 bits each, in block order.
 *
 * Sums. Partial sums are slots[row][16], rows of one tile, in lane order: 256 floats.
 * Weights and codes come from a mapped file: their pointers need no alignment.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CPU_LINEAR_KERNEL_H
#define GLYD_CPU_LINEAR_KERNEL_H

#include "base/cpu.h"
#include "codec/format.h"
#include "cpu/linear.h"
#include <stdbool.h>

enum {
    SLOTS = 16,
    STEP_COLS = 32,                      /* columns of a step: two of each slot */
    BLOCK_STEPS = 2,                     /* steps of a block */
    TILE_SLOTS = GLYD_TILE_ROWS * SLOTS, /* partial sums of a tile for one token */
    PREFETCH_BYTES = 6144,               /* how far ahead of use weights are asked for */
};

/* A run of packed blocks of one tile. */
typedef struct packed_run {
    const uint8_t *sm;    /* GLYD_BLOCK_SM_WORDS words a block */
    const uint8_t *codes; /* GLYD_BLOCK_CODE_WORDS words a block */
    const uint8_t *bases; /* 16 bytes */
    int64_t blocks;
} packed_run;

/* Up to 16 consecutive rows of a bf16 matrix, from one column on. */
typedef struct bf16_run {
    const uint8_t *w; /* first row, first column */
    int64_t row_bytes;
    int rows;
    int64_t cols;   /* columns there are; those up to 64 * blocks read as +0 */
    int64_t blocks; /* columns to multiply, in blocks */
} bf16_run;

typedef struct linear_kernels {
    int width; /* lanes of a group: 8 or 16 */

    /* Lay out one token's x as a panel row of `blocks` blocks, columns from `cols` on as +0: in
     * lane order, and in slot order (what multiply_bf16 takes). */
    void (*lay_lanes)(const float *x, int64_t cols, int64_t blocks, float *panel);
    void (*lay_slots)(const float *x, int64_t cols, int64_t blocks, float *panel);

    /* Continue a tile's sums for one token: from packed blocks without escapes, from decoded pairs,
     * from bf16 rows. `x` is the panel at the run's first step, `x_group` the floats from one group
     * of lanes to the next. */
    void (*multiply_packed)(const packed_run *run, const float *x, int64_t x_group, float *slots);
    void (*multiply_pairs)(const uint16_t *pairs, int64_t blocks, const float *x, int64_t x_group,
                           float *slots);
    void (*multiply_bf16)(const bf16_run *run, const float *x, int64_t x_group, float *slots);

    /* Decode a run to pairs: 1,024 a block. */
    void (*decode)(const packed_run *run, uint16_t *pairs);

    /* Lay out decoded pairs, or bf16 rows, as `blocks` blocks of a panel of 16 rows, group
     * outermost: panel[group][row][step][parity][width], `panel_blocks` blocks in a row. Rows that
     * a bf16 run lacks become +0. */
    void (*lay_pairs)(const uint16_t *pairs, int64_t blocks, float *panel, int64_t panel_blocks);
    void (*lay_bf16)(const bf16_run *run, float *panel);

    /* Start (`is_first`) or continue the sums of n_tokens tokens from a panel of `blocks` blocks of
     * weights: token i's x at x + i * x_token, its sums at slots + i * TILE_SLOTS. */
    void (*multiply_panel)(const float *panel, int64_t blocks, const float *x, int64_t x_group,
                           int64_t x_token, int64_t n_tokens, bool is_first, float *slots);

    /* The tree of linear.h over each row's slots: sums[16]. */
    void (*add_slots)(const float *slots, float *sums);
} linear_kernels;

extern const linear_kernels glyd_linear_kernels_c;
extern const linear_kernels glyd_linear_kernels_avx2;
extern const linear_kernels glyd_linear_kernels_avx512;

/* glyd_linear by a given variant's kernels: for tests and benchmarks. */
void glyd_linear_by(glyd_variant variant, const glyd_linear_part *parts, int n_parts,
                    const float *x, int64_t x_stride, int64_t n_tokens, void *scratch,
                    glyd_pool *pool);

/* Index among a block's pairs of the weight at a position (codec/format.h), by its bits
 * g g g t t half j q high parity. */
static inline int pair_of_position(int position)
{
    return (position & 0x381) | (position << 2 & 0x40) | (position << 4 & 0x20) |
           (position >> 2 & 0x18) | (position >> 1 & 6);
}

static inline int lane_of_slot(int slot)
{
    return (slot & 3) << 2 | slot >> 2;
}

#endif
