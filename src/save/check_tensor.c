/* check_tensor.c - whether a tensor of a save still is what it was.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "save/check_tensor.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "codec/check.h"
#include "codec/format.h"
#include "codec/unpack.h"
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

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

enum { PLACE_BYTES = 128 };

/* The run of a stream's byte. Nothing is taken for granted of the entries, which may be damaged. */
static int64_t run_of(const glyd_matrix *m, size_t byte)
{
    glyd_span entries = m->array[GLYD_ARRAY_ENTRIES];
    int64_t run = -1, n = (int64_t)(entries.bytes / 4);
    while (run + 1 < n && (size_t)read_u32(entries.data + 4 * (run + 1)) * GLYD_RUN_ALIGN <= byte)
        run++;
    return run;
}

/* Which weights the bytes from `first` to `last` of an array belong to; "" where it says nothing.
 */
static void describe_place(const glyd_matrix *m, int array, size_t first, size_t last,
                           char place[PLACE_BYTES])
{
    int64_t blocks = glyd_blocks_of(m->cols), from = -1, to = -1, columns = -1;
    place[0] = 0;
    if (array == GLYD_ARRAY_SM || (array == GLYD_ARRAY_CODES && m->layout == GLYD_LAYOUT_MMA12)) {
        size_t bytes = array == GLYD_ARRAY_SM ? GLYD_BLOCK_SM_BYTES : GLYD_BLOCK_CODE_BYTES;
        from = (int64_t)(first / bytes) / blocks;
        to = (int64_t)(last / bytes) / blocks;
        columns = first / bytes == last / bytes
                      ? (int64_t)(first / bytes) % blocks * GLYD_BLOCK_COLS
                      : -1;
    } else if (array == GLYD_ARRAY_CODES && m->run_blocks > 0) {
        int64_t runs = glyd_runs_of(blocks, m->run_blocks);
        int64_t run = run_of(m, first), run_last = run_of(m, last);
        from = run < 0 ? -1 : run / runs;
        to = run_last / runs;
        columns = run == run_last ? run % runs * m->run_blocks * GLYD_BLOCK_COLS : -1;
    } else if (array == GLYD_ARRAY_BASES) {
        from = (int64_t)(first / GLYD_TILE_ROWS);
        to = (int64_t)(last / GLYD_TILE_ROWS);
    }
    if (from < 0 || from >= glyd_tiles_of(m->rows))
        return;
    if (from != to)
        snprintf(place, PLACE_BYTES, ", in tiles %lld to %lld", (long long)from, (long long)to);
    else if (columns < 0)
        snprintf(place, PLACE_BYTES, ", in tile %lld", (long long)from);
    else
        snprintf(place, PLACE_BYTES,
                 ", in tile %lld, block %lld (rows from %lld, columns from %lld)", (long long)from,
                 (long long)(columns / GLYD_BLOCK_COLS), (long long)(from * GLYD_TILE_ROWS),
                 (long long)columns);
}

static glyd_status fail_piece(const glyd_tensor *t, int array, size_t at, size_t bytes,
                              uint32_t want, uint32_t have, glyd_error *err)
{
    char place[PLACE_BYTES];
    const char *name = glyd_array_name((glyd_array)array);
    int64_t bit = glyd_crc32c_flipped_bit(want, have, bytes);
    size_t first = bit < 0 ? at : at + (size_t)bit / 8, last = bit < 0 ? at + bytes - 1 : first;
    describe_place(&t->matrix, array, first, last, place);
    if (bit >= 0)
        GLYD_FAIL(err, GLYD_E_MISMATCH,
                  "tensor %s is damaged: one bit of byte %zu of its array %s is flipped%s", t->name,
                  first, name, place);
    GLYD_FAIL(err, GLYD_E_MISMATCH,
              "tensor %s is damaged: bytes %zu to %zu of its array %s are not what was saved%s",
              t->name, first, last, name, place);
}

static glyd_status check_pieces(const glyd_tensor *t, glyd_error *err)
{
    const uint8_t *crc = t->crc.data, *end = crc + t->crc.bytes;
    for (int a = 0; a < GLYD_ARRAYS; a++) {
        glyd_span array = t->matrix.array[a];
        for (size_t at = 0; at < array.bytes; at += GLYD_CRC_PIECE_BYTES, crc += 4) {
            size_t n = array.bytes - at < GLYD_CRC_PIECE_BYTES ? array.bytes - at
                                                               : (size_t)GLYD_CRC_PIECE_BYTES;
            uint32_t have = glyd_crc32c(array.data + at, n), want = read_u32(crc);
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
    glyd_status status = glyd_check_frame(&t->matrix, pool, err);
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
        glyd_status status = glyd_unpack_strict(m, row, rows, scratch, m->cols, pool, err);
        if (status != GLYD_OK)
            return glyd_error_prefix(err, status, "tensor %s", t->name);
        if (take(arg, (glyd_span){(const uint8_t *)scratch, (size_t)(rows * m->cols * 2)}) != 0)
            return GLYD_OK;
    }
    return GLYD_OK;
}
