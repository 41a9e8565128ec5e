/* linear.c - products with weights: bf16, in plain C.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/linear.h"
#include <math.h>
#include <string.h>

typedef struct product {
    const glyd_linear_part *parts;
    int n_parts;
    const float *x;
    int64_t x_stride, n_tokens;
} product;

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float sum_slots(const float *a)
{
    float s[4];
    for (int i = 0; i < 4; i++)
        s[i] = (a[4 * i] + a[4 * i + 2]) + (a[4 * i + 1] + a[4 * i + 3]);
    return (s[0] + s[2]) + (s[1] + s[3]);
}

static void multiply_row(const uint16_t *w, const float *x, int64_t cols, float slots[16])
{
    memset(slots, 0, 16 * sizeof *slots);
    int64_t padded = (cols + GLYD_BLOCK_COLS - 1) / GLYD_BLOCK_COLS * GLYD_BLOCK_COLS;
    for (int64_t k = 0; k < padded; k++) {
        float weight = k < cols ? float_from_bits((uint32_t)w[k] << 16) : 0;
        float *slot = &slots[k % 32 / 2];
        *slot = fmaf(weight, k < cols ? x[k] : 0, *slot);
    }
}

static void multiply_tile(void *arg, int64_t task, int worker)
{
    const product *p = arg;
    (void)worker;
    const glyd_linear_part *part = p->parts;
    int64_t row = task * GLYD_TILE_ROWS;
    while (row >= (part->weight->matrix.rows + 15) / 16 * 16) {
        row -= (part->weight->matrix.rows + 15) / 16 * 16;
        part++;
    }
    const glyd_matrix *m = &part->weight->matrix;
    const uint16_t *w = (const uint16_t *)m->array[GLYD_ARRAY_SM].data;
    for (int64_t end = row + 16 < m->rows ? row + 16 : m->rows; row < end; row++)
        for (int64_t i = 0; i < p->n_tokens; i++) {
            float slots[16];
            multiply_row(w + row * m->cols, p->x + i * p->x_stride, m->cols, slots);
            float y = sum_slots(slots);
            if (part->bias)
                y += part->bias[row];
            part->y[i * part->y_stride + row] = y == y ? y : float_from_bits(0x7fc00000);
        }
}

size_t glyd_linear_lookup_bytes(const glyd_matrix *m)
{
    (void)m;
    return 0;
}

glyd_status glyd_linear_weight_init(glyd_linear_weight *w, const glyd_matrix *m, void *lookup,
                                    glyd_error *err)
{
    (void)err;
    *w = (glyd_linear_weight){.matrix = *m, .lookup = lookup};
    return GLYD_OK;
}

size_t glyd_linear_scratch_bytes(int64_t cols, int64_t n_tokens, int n_threads)
{
    (void)cols;
    (void)n_tokens;
    (void)n_threads;
    return 64;
}

void glyd_linear(const glyd_linear_part *parts, int n_parts, const float *x, int64_t x_stride,
                 int64_t n_tokens, void *scratch, glyd_pool *pool)
{
    (void)scratch;
    product p = {parts, n_parts, x, x_stride, n_tokens};
    int64_t tiles = 0;
    for (int i = 0; i < n_parts; i++)
        tiles += (parts[i].weight->matrix.rows + 15) / 16;
    glyd_pool_run(pool, tiles, multiply_tile, &p);
}
