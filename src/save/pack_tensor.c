/* pack_tensor.c - one matrix packed, decoded again and compared, with its checksums.
 *
 * While the workers decode and compare chunks of rows, one of them takes the SHA-256 of the bf16
 * bytes and the checksums of the packed ones.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "save/pack_tensor.h"
#include "base/buf.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "save/manifest.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BYTES = 1 << 20,       /* decoded at once by a thread: it stays in its cache */
    CHUNKS_BYTES_MAX = 32 << 20, /* by all threads together */
    TASK_SHA256 = 0,
    TASK_CRC = 1,
    TASK_CHUNKS = 2, /* the first of the chunks */
};

int64_t glyd_chunk_rows(int64_t cols, int n_threads)
{
    int64_t bytes = CHUNKS_BYTES_MAX / n_threads;
    if (bytes > CHUNK_BYTES)
        bytes = CHUNK_BYTES;
    int64_t tiles = bytes / (2 * GLYD_TILE_ROWS * (cols > 0 ? cols : 1));
    return GLYD_TILE_ROWS * (tiles > 0 ? tiles : 1);
}

glyd_status glyd_crc_make(const glyd_matrix *matrix, glyd_buf *crc)
{
    crc->bytes = 0;
    for (int a = 0; a < GLYD_ARRAYS; a++) {
        glyd_span array = matrix->array[a];
        for (size_t at = 0; at < array.bytes; at += GLYD_CRC_PIECE_BYTES) {
            size_t n = array.bytes - at < GLYD_CRC_PIECE_BYTES ? array.bytes - at
                                                               : (size_t)GLYD_CRC_PIECE_BYTES;
            uint32_t value = glyd_crc32c(array.data + at, n);
            uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                                (uint8_t)(value >> 24)};
            GLYD_TRY(glyd_buf_append(crc, bytes, sizeof bytes));
        }
    }
    static const uint8_t zeros[GLYD_ARRAY_ALIGN];
    size_t over = crc->bytes % GLYD_ARRAY_ALIGN;
    return over ? glyd_buf_append(crc, zeros, GLYD_ARRAY_ALIGN - over) : GLYD_OK;
}

typedef struct checking {
    const glyd_tensor *tensor;
    glyd_packed *packed;
    int64_t chunk_rows;
    uint16_t *scratch; /* chunk_rows * cols a worker */
    atomic_int status;
    _Atomic int64_t bad_row; /* -1: none */
} checking;

static void compare_chunk(checking *c, int64_t row0, uint16_t *scratch)
{
    const glyd_matrix *m = &c->packed->matrix;
    int64_t rows = m->rows - row0 < c->chunk_rows ? m->rows - row0 : c->chunk_rows;
    glyd_status status = glyd_unpack(m, row0, rows, scratch, m->cols, NULL, NULL);
    const uint8_t *want = c->tensor->data.data + row0 * m->cols * 2;
    if (status != GLYD_OK)
        atomic_store(&c->status, status);
    else if (memcmp(want, scratch, (size_t)(rows * m->cols * 2)) != 0)
        atomic_store(&c->bad_row, row0);
}

static void check_task(void *arg, int64_t task, int worker)
{
    checking *c = arg;
    glyd_status status = GLYD_OK;
    if (task == TASK_SHA256)
        status = glyd_sha256_of(c->tensor->data.data, c->tensor->data.bytes, c->packed->sha256);
    else if (task == TASK_CRC)
        status = glyd_crc_make(&c->packed->matrix, &c->packed->crc);
    else
        compare_chunk(c, (task - TASK_CHUNKS) * c->chunk_rows,
                      c->scratch + worker * c->chunk_rows * c->packed->matrix.cols);
    if (status != GLYD_OK)
        atomic_store(&c->status, status);
}

static glyd_status check_packed(const glyd_tensor *tensor, glyd_pool *pool, glyd_packed *packed,
                                glyd_error *err)
{
    const glyd_matrix *m = &packed->matrix;
    glyd_status status = glyd_check(m, pool, err);
    if (status != GLYD_OK)
        return glyd_error_prefix(err, status, "tensor %s, as it was just packed", tensor->name);
    checking c = {.tensor = tensor,
                  .packed = packed,
                  .chunk_rows = glyd_chunk_rows(m->cols, glyd_pool_size(pool)),
                  .bad_row = -1};
    c.scratch = malloc((size_t)(c.chunk_rows * m->cols * 2 * glyd_pool_size(pool)));
    if (!c.scratch)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for checking tensor %s", tensor->name);
    int64_t n_chunks = (m->rows + c.chunk_rows - 1) / c.chunk_rows;
    glyd_pool_run(pool, TASK_CHUNKS + n_chunks, check_task, &c);
    free(c.scratch);
    if (atomic_load(&c.status) != GLYD_OK)
        GLYD_FAIL(err, (glyd_status)atomic_load(&c.status), "cannot check tensor %s: %s",
                  tensor->name, glyd_status_text((glyd_status)atomic_load(&c.status)));
    GLYD_NEED(atomic_load(&c.bad_row) < 0, err,
              "tensor %s does not come back as it was from row %lld on: this is a fault of the "
              "machine's memory or of glyd; nothing was saved",
              tensor->name, (long long)atomic_load(&c.bad_row));
    return GLYD_OK;
}

glyd_status glyd_pack_tensor(const glyd_tensor *tensor, glyd_layout layout, glyd_pool *pool,
                             glyd_packed *packed, glyd_error *err)
{
    int64_t rows = tensor->shape.dim[0], cols = tensor->shape.dim[1];
    const uint16_t *bf16 = (const uint16_t *)(const void *)tensor->data.data;
    glyd_status status =
        glyd_pack(layout, bf16, rows, cols, cols, pool, &packed->arrays, &packed->matrix, err);
    if (status != GLYD_OK)
        return glyd_error_prefix(err, status, "tensor %s", tensor->name);
    if (packed->matrix.layout == GLYD_LAYOUT_BF16)
        return GLYD_OK;
    return check_packed(tensor, pool, packed, err);
}

void glyd_packed_free(glyd_packed *packed)
{
    glyd_buf_free(&packed->arrays);
    glyd_buf_free(&packed->crc);
}
