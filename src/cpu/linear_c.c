/* linear_c.c - the kernels of products in plain C: the portable variant.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/load.h"
#include "cpu/linear_kernel.h"
#include <math.h>
#include <string.h>

enum { STEP_FLOATS = 2 * SLOTS };

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void lay_lanes(const float *x, int64_t cols, int64_t blocks, float *panel)
{
    memset(panel, 0, (size_t)blocks * GLYD_BLOCK_COLS * sizeof *panel);
    for (int64_t k = 0; k < cols; k++) {
        int in_step = (int)(k % STEP_COLS);
        panel[k - in_step + (in_step & 1) * SLOTS + lane_of_slot(in_step / 2)] = x[k];
    }
}

static void lay_slots(const float *x, int64_t cols, int64_t blocks, float *panel)
{
    memset(panel, 0, (size_t)blocks * GLYD_BLOCK_COLS * sizeof *panel);
    for (int64_t k = 0; k < cols; k++) {
        int in_step = (int)(k % STEP_COLS);
        panel[k - in_step + (in_step & 1) * SLOTS + in_step / 2] = x[k];
    }
}

/* Two weights of a row, from sign and mantissa and the codes at bits 0 and 16. */
static void put_pair(uint16_t *to, uint32_t sm, uint32_t codes, uint32_t base)
{
    uint32_t pair = (sm & GLYD_SM_MASK) | ((codes & 0x000f000f) + base * 0x00010001) << 7;
    memcpy(to, &pair, sizeof pair);
}

static void decode(const packed_run *run, uint16_t *pairs)
{
    for (int64_t block = 0; block < run->blocks; block++, pairs += GLYD_BLOCK_WEIGHTS) {
        const uint8_t *sm = run->sm + block * GLYD_BLOCK_SM_WORDS * 4;
        const uint8_t *codes = run->codes + block * GLYD_BLOCK_CODE_WORDS * 4;
        for (int l = 0; l < GLYD_LANES; l++)
            for (int j = 0; j < GLYD_BLOCK_GROUPS; j++)
                for (int q = 0; q < 2; q++) {
                    uint32_t low = glyd_load_u32(sm, glyd_sm_word(l, j, q));
                    uint32_t high = (low >> 8 & 0x00ff00ff) | (low & 0x00ff00ff) << 8;
                    uint32_t code = glyd_load_u32(codes, glyd_code_word(l, j)) >> 8 * q;
                    int r = 2 * q, row = l / 4;
                    put_pair(pairs + pair_of_position(glyd_position(l, j, r, 0)), low, code,
                             run->bases[row]);
                    put_pair(pairs + pair_of_position(glyd_position(l, j, r + 1, 0)), high,
                             code >> 4, run->bases[row + 8]);
                }
    }
}

/* Pairs of row `row` in half a block. */
static const uint16_t *pairs_of(const uint16_t *pairs, int row, int half)
{
    return pairs + (row % 8) * 128 + half * 64 + row / 8 * 32;
}

static void lay_pairs(const uint16_t *pairs, int64_t blocks, float *panel, int64_t panel_blocks)
{
    for (int64_t step = 0; step < blocks * BLOCK_STEPS; step++)
        for (int r = 0; r < GLYD_TILE_ROWS; r++) {
            const uint16_t *from =
                pairs_of(pairs + step / 2 * GLYD_BLOCK_WEIGHTS, r, (int)(step % 2));
            float *to = panel + r * panel_blocks * GLYD_BLOCK_COLS + step * STEP_FLOATS;
            for (int i = 0; i < STEP_FLOATS; i++)
                to[i % 2 * SLOTS + i / 2] = float_from_bits((uint32_t)from[i] << 16);
        }
}

static void lay_bf16(const bf16_run *run, float *w)
{
    int64_t row_floats = run->blocks * GLYD_BLOCK_COLS;
    memset(w, 0, (size_t)(GLYD_TILE_ROWS * row_floats) * sizeof *w);
    int64_t cols = run->cols < row_floats ? run->cols : row_floats;
    for (int r = 0; r < run->rows; r++)
        for (int64_t k = 0; k < cols; k++) {
            uint16_t bits;
            memcpy(&bits, run->w + r * run->row_bytes + 2 * k, sizeof bits);
            int in_step = (int)(k % STEP_COLS);
            w[r * row_floats + k - in_step + (in_step & 1) * SLOTS + lane_of_slot(in_step / 2)] =
                float_from_bits((uint32_t)bits << 16);
        }
}

static void multiply_panel(const float *panel, int64_t blocks, const float *x, int64_t x_group,
                           int64_t x_token, int64_t n_tokens, bool is_first, float *slots)
{
    (void)x_group;
    int64_t row_floats = blocks * GLYD_BLOCK_COLS;
    if (is_first)
        memset(slots, 0, (size_t)n_tokens * TILE_SLOTS * sizeof *slots);
    for (int64_t i = 0; i < n_tokens; i++)
        for (int r = 0; r < GLYD_TILE_ROWS; r++) {
            const float *w = panel + r * row_floats, *from = x + i * x_token;
            float *sum = slots + i * TILE_SLOTS + r * SLOTS;
            for (int64_t k = 0; k < row_floats; k++)
                sum[k % SLOTS] = fmaf(w[k], from[k], sum[k % SLOTS]);
        }
}

static void multiply_pairs(const uint16_t *pairs, int64_t blocks, const float *x, int64_t x_group,
                           float *slots)
{
    for (int64_t block = 0; block < blocks; block++) {
        float panel[GLYD_BLOCK_WEIGHTS];
        lay_pairs(pairs + block * GLYD_BLOCK_WEIGHTS, 1, panel, 1);
        multiply_panel(panel, 1, x + block * GLYD_BLOCK_COLS, x_group, 0, 1, false, slots);
    }
}

static void multiply_packed(const packed_run *run, const float *x, int64_t x_group, float *slots)
{
    packed_run one = *run;
    one.blocks = 1;
    for (int64_t block = 0; block < run->blocks; block++) {
        uint16_t pairs[GLYD_BLOCK_WEIGHTS];
        decode(&one, pairs);
        multiply_pairs(pairs, 1, x + block * GLYD_BLOCK_COLS, x_group, slots);
        one.sm += GLYD_BLOCK_SM_WORDS * 4;
        one.codes += GLYD_BLOCK_CODE_WORDS * 4;
    }
}

static void multiply_bf16(const bf16_run *run, const float *x, int64_t x_group, float *slots)
{
    (void)x_group;
    for (int r = 0; r < run->rows; r++)
        for (int64_t k = 0; k < run->blocks * GLYD_BLOCK_COLS; k++) {
            uint16_t bits = 0;
            if (k < run->cols)
                memcpy(&bits, run->w + r * run->row_bytes + 2 * k, sizeof bits);
            int slot = (int)(k % STEP_COLS) / 2;
            float *sum = &slots[r * SLOTS + lane_of_slot(slot)];
            int64_t at = k / STEP_COLS * STEP_FLOATS + (k & 1) * SLOTS + slot;
            *sum = fmaf(float_from_bits((uint32_t)bits << 16), x[at], *sum);
        }
}

static void add_slots(const float *slots, float *sums)
{
    for (int r = 0; r < GLYD_TILE_ROWS; r++, slots += SLOTS) {
        float s[4];
        for (int i = 0; i < 4; i++)
            s[i] = (slots[i] + slots[i + 8]) + (slots[i + 4] + slots[i + 12]);
        sums[r] = (s[0] + s[2]) + (s[1] + s[3]);
    }
}

const linear_kernels glyd_linear_kernels_c = {
    .width = SLOTS,
    .lay_lanes = lay_lanes,
    .lay_slots = lay_slots,
    .multiply_packed = multiply_packed,
    .multiply_pairs = multiply_pairs,
    .multiply_bf16 = multiply_bf16,
    .decode = decode,
    .lay_pairs = lay_pairs,
    .lay_bf16 = lay_bf16,
    .multiply_panel = multiply_panel,
    .add_slots = add_slots,
};
