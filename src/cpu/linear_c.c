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

/* Two weights of a row from sign and mantissa and the codes at bits 0 and 16. */
static void put_pair(uint32_t sm, uint32_t codes, uint32_t base, float *even)
{
    uint32_t pair = (sm & GLYD_SM_MASK) | ((codes & 0x000f000f) + base * 0x00010001) << 7;
    even[0] = float_from_bits(pair << 16);
    even[SLOTS] = float_from_bits(pair & 0xffff0000);
}

static void decode_packed(const packed_run *run, float *w)
{
    int64_t row_floats = run->blocks * GLYD_BLOCK_COLS;
    for (int64_t block = 0; block < run->blocks; block++) {
        const uint8_t *sm = run->sm + block * GLYD_BLOCK_SM_WORDS * 4;
        const uint8_t *codes = run->codes + block * GLYD_BLOCK_CODE_WORDS * 4;
        for (int l = 0; l < GLYD_LANES; l++)
            for (int j = 0; j < GLYD_BLOCK_GROUPS; j++)
                for (int q = 0; q < 2; q++) {
                    uint32_t low = glyd_load_u32(sm, glyd_sm_word(l, j, q));
                    uint32_t high = (low >> 8 & 0x00ff00ff) | (low & 0x00ff00ff) << 8;
                    uint32_t code = glyd_load_u32(codes, glyd_code_word(l, j)) >> 8 * q;
                    int g = l / 4, lane = 4 * (l % 4) + 2 * (j % 2) + q;
                    float *to =
                        w + g * row_floats + block * GLYD_BLOCK_COLS + j / 2 * STEP_FLOATS + lane;
                    put_pair(low, code, run->bases[g], to);
                    put_pair(high, code >> 4, run->bases[g + 8], to + 8 * row_floats);
                }
    }
}

static void decode_bf16(const bf16_run *run, float *w)
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

static void multiply_panel(const float *w, int64_t blocks, const float *x, int64_t x_group,
                           int64_t x_token, int64_t n_tokens, float *slots)
{
    (void)x_group;
    int64_t row_floats = blocks * GLYD_BLOCK_COLS;
    for (int64_t i = 0; i < n_tokens; i++)
        for (int r = 0; r < GLYD_TILE_ROWS; r++) {
            float *sum = slots + i * TILE_SLOTS + r * SLOTS;
            for (int64_t k = 0; k < row_floats; k++)
                sum[k % SLOTS] = fmaf(w[r * row_floats + k], x[i * x_token + k], sum[k % SLOTS]);
        }
}

static void multiply_packed(const packed_run *run, const float *x, int64_t x_group, float *slots)
{
    for (int64_t block = 0; block < run->blocks; block++) {
        packed_run one = {.sm = run->sm + block * GLYD_BLOCK_SM_WORDS * 4,
                          .codes = run->codes + block * GLYD_BLOCK_CODE_WORDS * 4,
                          .bases = run->bases,
                          .blocks = 1};
        float w[GLYD_BLOCK_WEIGHTS];
        decode_packed(&one, w);
        multiply_panel(w, 1, x + block * GLYD_BLOCK_COLS, x_group, 0, 1, slots);
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
    .multiply_bf16 = multiply_bf16,
    .decode_packed = decode_packed,
    .decode_bf16 = decode_bf16,
    .multiply_panel = multiply_panel,
    .add_slots = add_slots,
};
