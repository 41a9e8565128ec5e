/* pack_choose.c - packing on the GPU, the host's part: array sizes, the prefix code, what is
 * refused.
 *
 * Counts come from the kernels of pack_bases.cu and pack.cu; what follows from them must be what
 * src/codec/pack.c makes of the same weights.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "cuda/pack.h"
#include <string.h>

enum { PLACE_ALIGN = 256 };

static size_t place(size_t *at, int64_t bytes)
{
    size_t here = *at;
    *at += ((size_t)bytes + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
    return here;
}

glyd_pack_places glyd_gpu_pack_places(glyd_layout layout, int64_t rows, int64_t cols)
{
    int mma = layout == GLYD_LAYOUT_MMA;
    int64_t tiles = glyd_tiles_of(rows);
    int64_t tasks = tiles * glyd_runs_of(glyd_blocks_of(cols), GLYD_RUN_BLOCKS);
    size_t at = 0;
    glyd_pack_places p;
    p.totals = place(&at, sizeof(glyd_pack_totals));
    p.code = place(&at, mma ? (int64_t)sizeof(glyd_pack_code) : 0);
    p.bases = place(&at, glyd_pad_bytes(tiles * GLYD_TILE_ROWS));
    p.surveys = place(&at, mma ? rows * (int64_t)sizeof(glyd_survey) : 0);
    p.escapes = place(&at, (tasks + 1) * 4);
    p.units = place(&at, mma ? (tasks + 1) * 4 : 0);
    p.bytes = at;
    return p;
}

size_t glyd_gpu_pack_workspace(glyd_layout layout, int64_t rows, int64_t cols)
{
    if ((layout != GLYD_LAYOUT_MMA12 && layout != GLYD_LAYOUT_MMA) || rows < 1 || cols < 1 ||
        rows > GLYD_ROWS_MAX || cols > GLYD_COLS_MAX)
        return 0;
    return glyd_gpu_pack_places(layout, rows, cols).bytes;
}

static int64_t sum_bytes(const glyd_matrix *m)
{
    int64_t sum = 0;
    for (int i = 0; i < GLYD_ARRAYS; i++)
        sum += (int64_t)m->array[i].bytes;
    return sum;
}

static int is_smaller(const glyd_matrix *m)
{
    return sum_bytes(m) < m->rows * m->cols * 2;
}

/* The matrix as it is, in one array. */
static void stay_bf16(glyd_matrix *m)
{
    size_t bytes = (size_t)(m->rows * m->cols) * 2;
    *m = (glyd_matrix){.layout = GLYD_LAYOUT_BF16, .rows = m->rows, .cols = m->cols};
    m->array[GLYD_ARRAY_SM].bytes = bytes;
}

/* The bytes that the codes take, rounded down, and how many escapes the pruning makes. */
static int64_t choose_code(int64_t rows, int64_t cols, const glyd_pack_totals *totals,
                           glyd_pack_code *code, int64_t *escapes)
{
    uint64_t pairs[GLYD_PAIRS], bits = 0;
    memcpy(pairs, totals->pairs, sizeof pairs);
    /* A weight beyond the edge is no escape: its pairs, of which it is all or the second half,
     * stay. */
    uint8_t keep[GLYD_PAIRS] = {0};
    keep[0] = rows % GLYD_TILE_ROWS != 0 || cols % GLYD_BLOCK_COLS != 0;
    for (int first = 0; first < GLYD_WINDOW && cols % 2; first++)
        keep[first] = 1;
    int fill = glyd_bases_fill(totals->codes[GLYD_BASES_ROUNDS]);
    *escapes = (int64_t)glyd_prefix_prune(pairs, keep, fill, code->instead);
    glyd_prefix_init(&code->prefix, pairs);
    glyd_prefix_write(&code->prefix, code->table);
    for (int s = 0; s < GLYD_PAIRS; s++)
        bits += pairs[s] * code->prefix.bits[s];
    return (int64_t)(bits / 8);
}

void glyd_gpu_pack_choose(glyd_layout layout, int64_t rows, int64_t cols,
                          const glyd_pack_totals *totals, glyd_pack_code *code, glyd_matrix *m)
{
    int mma = layout == GLYD_LAYOUT_MMA;
    *m = (glyd_matrix){.layout = layout, .rows = rows, .cols = cols};
    m->run_blocks = mma ? GLYD_RUN_BLOCKS : 0;
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        int64_t bytes = glyd_array_bytes(layout, (glyd_array)i, rows, cols, m->run_blocks);
        m->array[i].bytes = bytes < 0 ? 0 : (size_t)bytes;
    }
    uint64_t in_window = mma ? 0 : totals->in_window;
    for (int c = 0; mma && c < GLYD_WINDOW; c++)
        in_window += totals->codes[GLYD_BASES_ROUNDS][c];
    int64_t escapes = rows * cols - (int64_t)in_window, codes = 0, more = 0;
    if (mma)
        codes = choose_code(rows, cols, totals, code, &more);
    m->array[GLYD_ARRAY_ESCAPES].bytes = (size_t)glyd_pad_bytes((escapes + more) * 4);
    if (escapes + more > UINT32_MAX || sum_bytes(m) + codes >= rows * cols * 2)
        stay_bf16(m);
}

void glyd_gpu_pack_close(const glyd_pack_totals *totals, glyd_matrix *m)
{
    if (m->layout == GLYD_LAYOUT_MMA)
        m->array[GLYD_ARRAY_CODES].bytes =
            (size_t)glyd_pad_bytes((int64_t)totals->units * GLYD_RUN_ALIGN);
    if (m->layout != GLYD_LAYOUT_BF16 && (totals->units > UINT32_MAX || !is_smaller(m)))
        stay_bf16(m);
}

/* What a plan says of a matrix, with arrays of the caller's. */
static glyd_status check_arrays(const glyd_gpu_pack_args *args, const glyd_matrix *m,
                                glyd_error *err)
{
    if (m->rows != args->rows || m->cols != args->cols ||
        (m->layout != args->layout && m->layout != GLYD_LAYOUT_BF16))
        GLYD_FAIL(err, GLYD_E_ARG, "pack: the matrix is not the one that was planned");
    if (m->layout != GLYD_LAYOUT_BF16)
        return glyd_gpu_matrix_check(m, err);
    const glyd_span *sm = &m->array[GLYD_ARRAY_SM];
    if (!sm->data || sm->bytes != (size_t)(m->rows * m->cols) * 2)
        GLYD_FAIL(err, GLYD_E_ARG, "pack: %zu bytes at %p for the weights as they are", sm->bytes,
                  (const void *)sm->data);
    return GLYD_OK;
}

glyd_status glyd_gpu_pack_check(const glyd_gpu_pack_args *args, const glyd_matrix *m,
                                glyd_error *err)
{
    if (!args)
        GLYD_FAIL(err, GLYD_E_ARG, "pack: NULL");
    if (args->layout != GLYD_LAYOUT_MMA12 && args->layout != GLYD_LAYOUT_MMA)
        GLYD_FAIL(err, GLYD_E_ARG, "pack: layout %d is not one to pack to", (int)args->layout);
    size_t need = glyd_gpu_pack_workspace(args->layout, args->rows, args->cols);
    if (!need)
        GLYD_FAIL(err, GLYD_E_ARG, "pack: a matrix of %lld x %lld: 1 x 1 to %d x %d can be packed",
                  (long long)args->rows, (long long)args->cols, GLYD_ROWS_MAX, GLYD_COLS_MAX);
    if (args->stride < args->cols || args->stride > INT64_MAX / 2 / args->rows)
        GLYD_FAIL(err, GLYD_E_ARG, "pack: a stride of %lld for %lld columns",
                  (long long)args->stride, (long long)args->cols);
    if (!args->bf16 || (uintptr_t)args->bf16 % sizeof(uint16_t))
        GLYD_FAIL(err, GLYD_E_ARG, "pack: weights at %p", (const void *)args->bf16);
    if (!args->workspace || (uintptr_t)args->workspace % PLACE_ALIGN ||
        args->workspace_bytes < need)
        GLYD_FAIL(err, GLYD_E_ARG, "pack: a workspace of %zu bytes at %p, where %zu are needed",
                  args->workspace_bytes, args->workspace, need);
    return m ? check_arrays(args, m, err) : GLYD_OK;
}
