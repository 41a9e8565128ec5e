/* check_tensor.c - whether a tensor of a save still is what it was.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "save/check_tensor.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "save/manifest.h"
#include <stdio.h>
#include <string.h>

enum { AS_IS_BYTES = 1 << 20 };

static void drop_span(const glyd_map *map, glyd_span span)
{
    if (span.bytes)
        glyd_map_drop(map, (size_t)(span.data - map->span.data), span.bytes);
}

void glyd_tensor_drop(const glyd_folder *folder, const glyd_tensor *t)
{
    const glyd_map *map = &folder->shard[t->shard].map;
    drop_span(map, t->data);
    for (int a = 0; a < GLYD_ARRAYS; a++)
        drop_span(map, t->matrix.array[a]);
}

uint64_t glyd_tensor_bytes(const glyd_tensor *t)
{
    return t->is_packed ? (uint64_t)t->matrix.rows * (uint64_t)t->matrix.cols * 2 : t->data.bytes;
}

uint64_t glyd_tensor_stored_bytes(const glyd_tensor *t)
{
    return t->is_packed ? glyd_matrix_bytes(&t->matrix) + t->crc.bytes : t->data.bytes;
}

bool glyd_tensor_is_copy(const glyd_folder *folder, size_t index)
{
    return folder->manifest && folder->manifest->tensor[index].same_as;
}

void glyd_report_save(const glyd_folder *folder, glyd_save_report *report)
{
    for (size_t i = 0; i < folder->n_tensors; i++) {
        const glyd_tensor *t = &folder->tensor[i];
        report->bytes_checkpoint += glyd_tensor_bytes(t);
        if (glyd_tensor_is_copy(folder, i))
            continue;
        report->n_weights += glyd_shape_elements(&t->shape);
        report->bytes_save += glyd_tensor_stored_bytes(t);
        report->n_packed += t->is_packed;
    }
    report->n_tensors = folder->n_tensors;
    report->n_files = folder->manifest->n_files;
    snprintf(report->layout, sizeof report->layout, "%s", folder->manifest->layout);
}

static uint32_t read_crc(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Bytes of a block in the two arrays that have a fixed place for each. 0: not so. */
static size_t block_bytes(const glyd_matrix *m, int array)
{
    size_t weights = (size_t)GLYD_TILE_ROWS * GLYD_BLOCK_COLS;
    if (array == GLYD_ARRAY_SM)
        return weights;
    return array == GLYD_ARRAY_CODES && m->layout == GLYD_LAYOUT_MMA12 ? weights / 2 : 0;
}

static glyd_status fail_piece(const glyd_tensor *t, int array, size_t at, size_t bytes,
                              uint32_t want, uint32_t have, glyd_error *err)
{
    const glyd_matrix *m = &t->matrix;
    char place[160] = "";
    int64_t bit = glyd_crc32c_flipped_bit(want, have, bytes);
    size_t first = bit < 0 ? at : at + (size_t)bit / 8, last = bit < 0 ? at + bytes - 1 : first;
    size_t block = block_bytes(m, array);
    int64_t blocks = (m->cols + GLYD_BLOCK_COLS - 1) / GLYD_BLOCK_COLS;
    if (block && first / block == last / block)
        snprintf(place, sizeof place,
                 ", in block %lld of tile %lld (rows from %lld, columns from "
                 "%lld)",
                 (long long)((int64_t)(first / block) % blocks),
                 (long long)((int64_t)(first / block) / blocks),
                 (long long)((int64_t)(first / block) / blocks * GLYD_TILE_ROWS),
                 (long long)((int64_t)(first / block) % blocks * GLYD_BLOCK_COLS));
    else if (block)
        snprintf(place, sizeof place, ", in tiles %lld to %lld",
                 (long long)((int64_t)(first / block) / blocks),
                 (long long)((int64_t)(last / block) / blocks));
    if (bit >= 0)
        GLYD_FAIL(err, GLYD_E_MISMATCH,
                  "tensor %s is damaged: one bit of byte %zu of its array %s "
                  "is flipped%s",
                  t->name, first, glyd_array_name((glyd_array)array), place);
    GLYD_FAIL(err, GLYD_E_MISMATCH,
              "tensor %s is damaged: bytes %zu to %zu of its array %s are not "
              "what was saved%s",
              t->name, first, last, glyd_array_name((glyd_array)array), place);
}

static glyd_status check_pieces(const glyd_tensor *t, glyd_error *err)
{
    const uint8_t *crc = t->crc.data, *end = crc + t->crc.bytes;
    for (int a = 0; a < GLYD_ARRAYS; a++) {
        glyd_span array = t->matrix.array[a];
        for (size_t at = 0; at < array.bytes; at += GLYD_CRC_PIECE_BYTES, crc += 4) {
            size_t n = array.bytes - at < GLYD_CRC_PIECE_BYTES ? array.bytes - at
                                                               : (size_t)GLYD_CRC_PIECE_BYTES;
            uint32_t have = glyd_crc32c(array.data + at, n), want = read_crc(crc);
            if (have != want)
                return fail_piece(t, a, at, n, want, have, err);
        }
    }
    for (; crc < end; crc++) {
        if (*crc != 0)
            GLYD_FAIL(err, GLYD_E_MISMATCH,
                      "tensor %s is damaged: its checksums end in bytes that "
                      "are not zero",
                      t->name);
    }
    return GLYD_OK;
}

glyd_status glyd_tensor_check_arrays(const glyd_tensor *t, glyd_pool *pool, glyd_error *err)
{
    if (!t->is_packed)
        return GLYD_OK;
    GLYD_TRY(check_pieces(t, err));
    glyd_status status = glyd_check(&t->matrix, pool, err);
    return status == GLYD_OK ? status : glyd_error_prefix(err, status, "tensor %s", t->name);
}

glyd_status glyd_tensor_read(const glyd_tensor *t, int64_t chunk_rows, uint16_t *scratch,
                             glyd_pool *pool, glyd_take_fn take, void *arg, glyd_error *err)
{
    if (!t->is_packed) {
        for (size_t at = 0; at < t->data.bytes; at += AS_IS_BYTES) {
            size_t n = t->data.bytes - at < AS_IS_BYTES ? t->data.bytes - at : AS_IS_BYTES;
            if (take(arg, (glyd_span){t->data.data + at, n}) != 0)
                return GLYD_OK;
        }
        return GLYD_OK;
    }
    const glyd_matrix *m = &t->matrix;
    for (int64_t row = 0; row < m->rows; row += chunk_rows) {
        int64_t rows = m->rows - row < chunk_rows ? m->rows - row : chunk_rows;
        glyd_status status = glyd_unpack(m, row, rows, scratch, m->cols, pool, err);
        if (status != GLYD_OK)
            return glyd_error_prefix(err, status, "tensor %s", t->name);
        if (take(arg, (glyd_span){(const uint8_t *)scratch, (size_t)(rows * m->cols * 2)}) != 0)
            return GLYD_OK;
    }
    return GLYD_OK;
}
