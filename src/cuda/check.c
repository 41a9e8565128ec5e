/* check.c - what the GPU library refuses before anything is launched.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "cuda/config.h"

enum { ARRAY_ALIGN = 16, WORKSPACE_ALIGN = 256 };

static const char *const array_names[GLYD_ARRAYS] = {
    "sm", "codes", "bases", "escape_index", "escapes", "entries", "table",
};

static int is_aligned(const void *p, uintptr_t to)
{
    return (uintptr_t)p % to == 0;
}

glyd_status glyd_gpu_matrix_check(const glyd_matrix *m, glyd_error *err)
{
    if (!m)
        GLYD_FAIL(err, GLYD_E_ARG, "matrix: NULL");
    if (m->rows < 0 || m->rows > GLYD_ROWS_MAX || m->cols < 0 || m->cols > GLYD_COLS_MAX)
        GLYD_FAIL(err, GLYD_E_ARG, "matrix: %lld x %lld is no shape", (long long)m->rows,
                  (long long)m->cols);
    if (m->layout != GLYD_LAYOUT_MMA12 && m->layout != GLYD_LAYOUT_MMA)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "matrix: layout %d has no kernels here", (int)m->layout);
    if (m->layout == GLYD_LAYOUT_MMA && (m->run_blocks < 1 || m->run_blocks > GLYD_RUN_BLOCKS_MAX))
        GLYD_FAIL(err, GLYD_E_ARG, "matrix: runs of %d blocks", (int)m->run_blocks);
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        const glyd_span *a = &m->array[i];
        int64_t want = glyd_array_bytes(m->layout, (glyd_array)i, m->rows, m->cols, m->run_blocks);
        if (want >= 0 && a->bytes != (size_t)want)
            GLYD_FAIL(err, GLYD_E_ARG, "matrix: %s has %zu bytes where %lld belong", array_names[i],
                      a->bytes, (long long)want);
        if (a->bytes && (!a->data || !is_aligned(a->data, ARRAY_ALIGN)))
            GLYD_FAIL(err, GLYD_E_ARG, "matrix: %s at %p, which is not a multiple of %d",
                      array_names[i], (const void *)a->data, ARRAY_ALIGN);
        if (want < 0 && (a->bytes % GLYD_ARRAY_ALIGN || a->bytes > (size_t)1 << 46))
            GLYD_FAIL(err, GLYD_E_ARG, "matrix: %s has %zu bytes, not a multiple of %d",
                      array_names[i], a->bytes, GLYD_ARRAY_ALIGN);
    }
    return GLYD_OK;
}

glyd_status glyd_gpu_capability_check(int major, int minor, glyd_error *err)
{
    if (major < 8)
        GLYD_FAIL(err, GLYD_E_NODEVICE, "a GPU of capability %d.%d, where 8.0 is the least", major,
                  minor);
    return GLYD_OK;
}

glyd_status glyd_gpu_rows_check(const glyd_matrix *m, int64_t row0, int64_t rows, const void *out,
                                int64_t stride, glyd_error *err)
{
    GLYD_TRY(glyd_gpu_matrix_check(m, err));
    if (row0 < 0 || rows < 0 || row0 > m->rows || rows > m->rows - row0)
        GLYD_FAIL(err, GLYD_E_ARG, "rows %lld and %lld more of a matrix of %lld", (long long)row0,
                  (long long)rows, (long long)m->rows);
    if (stride < m->cols)
        GLYD_FAIL(err, GLYD_E_ARG, "output rows %lld apart for %lld columns", (long long)stride,
                  (long long)m->cols);
    if ((rows && !out) || !is_aligned(out, sizeof(uint16_t)))
        GLYD_FAIL(err, GLYD_E_ARG, "output at %p", out);
    return GLYD_OK;
}

static glyd_status check_plan(const glyd_gpu_linear_args *args, glyd_error *err)
{
    int64_t cols = args->weight->cols;
    int slices = args->plan.slices;
    if (slices < 1 || slices > GLYD_GPU_SLICES_MAX)
        GLYD_FAIL(err, GLYD_E_ARG, "plan: %d slices, where 1 to %d are possible", slices,
                  GLYD_GPU_SLICES_MAX);
    if (slices > 1 && (slices - 1) * glyd_gpu_slice_blocks(cols, slices) >= glyd_blocks_of(cols))
        GLYD_FAIL(err, GLYD_E_ARG, "plan: %d slices of %lld columns leave the last one empty",
                  slices, (long long)cols);
    return GLYD_OK;
}

glyd_status glyd_gpu_linear_check(const glyd_gpu_linear_args *args, glyd_error *err)
{
    if (!args)
        GLYD_FAIL(err, GLYD_E_ARG, "linear: NULL");
    GLYD_TRY(glyd_gpu_matrix_check(args->weight, err));
    GLYD_TRY(check_plan(args, err));
    if (args->tokens < 0 || args->tokens > GLYD_GPU_TOKENS_MAX ||
        args->tokens * args->weight->rows > (int64_t)1 << 42)
        GLYD_FAIL(err, GLYD_E_ARG, "linear: %lld tokens for %lld rows", (long long)args->tokens,
                  (long long)args->weight->rows);
    if (args->tokens == 0)
        return GLYD_OK;
    if (args->x_stride < args->weight->cols || args->x_stride % 8 || args->x_stride >= 1LL << 38)
        GLYD_FAIL(err, GLYD_E_ARG, "linear: x_stride %lld for %lld columns, in multiples of 8",
                  (long long)args->x_stride, (long long)args->weight->cols);
    if (args->y_stride < args->weight->rows)
        GLYD_FAIL(err, GLYD_E_ARG, "linear: y_stride %lld for %lld rows", (long long)args->y_stride,
                  (long long)args->weight->rows);
    if (!args->x || !is_aligned(args->x, 16) || !args->y || !is_aligned(args->y, 2) ||
        !is_aligned(args->bias, 2))
        GLYD_FAIL(err, GLYD_E_ARG, "linear: x at %p (16-byte aligned), bias at %p, y at %p",
                  (const void *)args->x, (const void *)args->bias, (const void *)args->y);
    size_t need = glyd_gpu_linear_workspace(args->weight, args->tokens);
    if (need && (!args->workspace || args->workspace_bytes < need ||
                 !is_aligned(args->workspace, WORKSPACE_ALIGN)))
        GLYD_FAIL(err, GLYD_E_ARG, "linear: a workspace of %zu bytes at %p, where %zu are needed",
                  args->workspace_bytes, args->workspace, need);
    return GLYD_OK;
}

size_t glyd_gpu_linear_workspace(const glyd_matrix *weight, int64_t tokens)
{
    if (!weight || weight->layout != GLYD_LAYOUT_MMA || tokens <= 0)
        return 0;
    return (size_t)glyd_array_bytes(GLYD_LAYOUT_MMA12, GLYD_ARRAY_CODES, weight->rows, weight->cols,
                                    0);
}
