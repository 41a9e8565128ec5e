/* fuzz_matrix.c - bytes as a packed matrix: what the check lets pass decodes; and bytes as weights:
 * what is packed comes back.
 *
 * Input: one byte that says which, then
 *   0: layout, run_blocks, rows u16, cols u16, a u16 length of each array, the arrays. The sizes
 *      that a shape decides are not read: arrays are cut or filled with zeros to them, so that most
 *      inputs reach the streams.
 *   1: layout, cols u16, weights.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/check.h"
#include "codec/pack.h"
#include "codec/unpack.h"
#include "glyd/codec.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { WEIGHTS_MAX = 1 << 18 };

typedef struct reader {
    const uint8_t *at;
    size_t left;
} reader;

static int take(reader *r, int n)
{
    int value = 0;
    for (int i = 0; i < n && r->left; i++, r->left--)
        value |= *r->at++ << 8 * i;
    return value;
}

static void require(int condition)
{
    if (!condition)
        abort();
}

/* All rows, and rows from the middle of a tile on, with every variant: the same bits. */
static void unpack_all(const glyd_matrix *m, uint16_t *first, uint16_t *second)
{
    size_t n = (size_t)(m->rows * m->cols);
    for (int v = 0; v <= (int)glyd_cpu_variant(); v++) {
        uint16_t *to = v ? second : first;
        const glyd_variants *variants = glyd_variants_get((glyd_variant)v);
        require(glyd_unpack_with(variants, m, 0, m->rows, to, m->cols, NULL, NULL) == GLYD_OK);
        require(memcmp(first, to, n * 2) == 0);
    }
    int64_t half = m->rows / 2;
    require(glyd_unpack(m, half, m->rows - half, second, m->cols, NULL, NULL) == GLYD_OK);
    require(memcmp(second, first + half * m->cols, (size_t)((m->rows - half) * m->cols) * 2) == 0);
}

static void try_matrix(reader r)
{
    glyd_matrix m = {.layout = (glyd_layout)take(&r, 1)};
    m.run_blocks = take(&r, 1);
    m.rows = take(&r, 2);
    m.cols = take(&r, 2);
    if (m.rows * m.cols > WEIGHTS_MAX)
        return;
    int length[GLYD_ARRAYS];
    uint8_t *array[GLYD_ARRAYS] = {0};
    for (int i = 0; i < GLYD_ARRAYS; i++)
        length[i] = take(&r, 2);
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        int64_t want = glyd_layout_name(m.layout) && m.run_blocks > 0
                           ? glyd_array_bytes(m.layout, (glyd_array)i, m.rows, m.cols, m.run_blocks)
                           : 0;
        size_t size = want < 0 ? (size_t)length[i] : (size_t)want;
        size_t have = (size_t)length[i] < r.left ? (size_t)length[i] : r.left;
        array[i] = calloc(1, size + 1);
        require(array[i] != NULL);
        if (have)
            memcpy(array[i], r.at, have < size ? have : size);
        r.at += have;
        r.left -= have;
        m.array[i] = (glyd_span){array[i], size};
    }
    uint16_t *weights = malloc((size_t)(m.rows * m.cols) * 4 + 4);
    require(weights != NULL);
    glyd_error err;
    bool good = glyd_check(&m, NULL, &err) == GLYD_OK;
    if (good)
        unpack_all(&m, weights, weights + m.rows * m.cols);
    bool good_strictly = glyd_check_frame(&m, NULL, &err) == GLYD_OK &&
                         glyd_unpack_strict(&m, 0, m.rows, weights, m.cols, NULL, &err) == GLYD_OK;
    require(good == good_strictly);
    free(weights);
    for (int i = 0; i < GLYD_ARRAYS; i++)
        free(array[i]);
}

static void try_weights(reader r)
{
    glyd_layout layout = (glyd_layout)(take(&r, 1) % 3);
    int64_t cols = take(&r, 2) % 1024 + 1, rows = (int64_t)(r.left / 2) / cols;
    if (rows * cols > WEIGHTS_MAX)
        return;
    size_t bytes = (size_t)(rows * cols) * 2;
    uint16_t *bf16 = malloc(bytes + 2), *back = malloc(2 * bytes + 2);
    require(bf16 && back);
    memcpy(bf16, r.at, bytes);
    glyd_buf out = {0};
    glyd_matrix m;
    require(glyd_pack(layout, bf16, rows, cols, cols, NULL, &out, &m, NULL) == GLYD_OK);
    require(glyd_matrix_bytes(&m) <= bytes);
    require(glyd_check(&m, NULL, NULL) == GLYD_OK);
    unpack_all(&m, back, back + rows * cols);
    require(memcmp(bf16, back, bytes) == 0);
    glyd_buf_free(&out);
    free(bf16);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    reader r = {data, bytes};
    if (take(&r, 1) & 1)
        try_weights(r);
    else
        try_matrix(r);
    return 0;
}
