/* unpack.c - the checkpoint that a save was made from, byte for byte.
 *
 * The manifest keeps the headers of the checkpoint's files; the tensors follow in the order of
 * their offsets. Everything is checked on its way out, so what gets its name was verified.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "glyd/save.h"
#include "save/check_tensor.h"
#include "save/manifest.h"
#include "save/pack_tensor.h"
#include "save/staging.h"
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_BYTES = 8 << 20 }; /* decoded at once, by all threads */

typedef struct unpacking {
    const glyd_folder *folder;
    const glyd_save_options *options;
    glyd_staging staging;
    glyd_pool *pool;
    glyd_out out;
    glyd_sha256 hash;
    uint64_t bytes_done, bytes_total;
    glyd_status status; /* of the last piece that was written */
    glyd_error *err;
} unpacking;

static int write_bytes(void *arg, glyd_span bytes)
{
    unpacking *u = arg;
    if (glyd_sha256_update(&u->hash, bytes.data, bytes.bytes) != GLYD_OK)
        u->status = glyd_error_set(u->err, GLYD_E_NOMEM, "out of memory for a checksum");
    else
        u->status = glyd_out_write(&u->out, bytes.data, bytes.bytes, u->err);
    u->bytes_done += bytes.bytes;
    const glyd_save_options *o = u->options;
    if (u->status == GLYD_OK && o->progress &&
        o->progress(o->progress_arg, u->bytes_done, u->bytes_total) != 0)
        u->status = glyd_error_set(u->err, GLYD_E_CANCELLED, "cancelled: nothing was written");
    return u->status != GLYD_OK;
}

static int64_t rows_at_once(int64_t cols)
{
    int64_t tiles = SCRATCH_BYTES / (2 * GLYD_TILE_ROWS * (cols > 0 ? cols : 1));
    return GLYD_TILE_ROWS * (tiles > 0 ? tiles : 1);
}

static glyd_status write_tensor(unpacking *u, size_t i)
{
    const glyd_tensor *t = &u->folder->tensor[i];
    const glyd_manifest_tensor *said = &u->folder->manifest->tensor[i];
    uint16_t *scratch = NULL;
    int64_t rows = 0;
    GLYD_TRY(glyd_tensor_check_arrays(t, u->pool, u->err));
    if (t->is_packed) {
        rows = rows_at_once(t->matrix.cols);
        rows = rows < t->matrix.rows ? rows : t->matrix.rows;
        scratch = malloc((size_t)(rows * t->matrix.cols * 2) + 1);
    }
    if ((t->is_packed && !scratch) || glyd_sha256_start(&u->hash) != GLYD_OK) {
        free(scratch);
        GLYD_FAIL(u->err, GLYD_E_NOMEM, "out of memory for tensor %s", t->name);
    }
    u->status = GLYD_OK;
    glyd_status status = glyd_tensor_read(t, rows, scratch, u->pool, write_bytes, u, u->err);
    free(scratch);
    if (status == GLYD_OK)
        status = u->status;
    char hex[GLYD_SHA256_HEX_BYTES];
    if (status == GLYD_OK)
        status = glyd_sha256_finish(&u->hash, hex);
    glyd_sha256_drop(&u->hash);
    GLYD_TRY(status);
    if (strcmp(hex, said->sha256) != 0)
        GLYD_FAIL(u->err, GLYD_E_MISMATCH,
                  "tensor %s is damaged: its weights do not have the "
                  "SHA-256 that was saved",
                  t->name);
    glyd_tensor_drop(u->folder, t);
    return GLYD_OK;
}

static glyd_status write_weights(unpacking *u, const glyd_manifest_weights *w, size_t first)
{
    char path[GLYD_PATH_BYTES];
    GLYD_TRY(glyd_fs_join(path, u->staging.partial, w->file, u->err));
    GLYD_TRY(glyd_out_create(path, &u->out, u->err));
    uint8_t length[GLYD_SAFETENSORS_LENGTH_BYTES];
    for (int i = 0; i < GLYD_SAFETENSORS_LENGTH_BYTES; i++)
        length[i] = (uint8_t)((uint64_t)w->header.header.bytes >> (8 * i));
    GLYD_TRY(glyd_out_write(&u->out, length, sizeof length, u->err));
    GLYD_TRY(glyd_out_write(&u->out, w->header.header.data, w->header.header.bytes, u->err));
    for (size_t i = 0; i < w->header.n_tensors; i++)
        GLYD_TRY(write_tensor(u, first + i));
    return glyd_out_commit(&u->out, u->err);
}

static glyd_status copy_file(unpacking *u, const glyd_manifest_file *said)
{
    char path[GLYD_PATH_BYTES], sha256[GLYD_SHA256_HEX_BYTES];
    uint64_t bytes = 0;
    GLYD_TRY(glyd_fs_member(u->folder->path, said->file, path, u->err));
    GLYD_TRY(glyd_staging_copy(&u->staging, path, said->file, &bytes, sha256, u->err));
    if (bytes != said->bytes || strcmp(sha256, said->sha256) != 0)
        GLYD_FAIL(u->err, GLYD_E_MISMATCH, "%s was changed since the model was packed", said->file);
    return GLYD_OK;
}

static glyd_status unpack_all(unpacking *u, const char *out, glyd_save_report *report)
{
    const glyd_manifest *m = u->folder->manifest;
    GLYD_TRY(glyd_folder_need_save(u->folder, u->err));
    glyd_report_save(u->folder, report);
    u->bytes_total = report->bytes_checkpoint;
    GLYD_TRY(glyd_staging_open(&u->staging, u->folder->path, out, u->err));
    size_t first = 0;
    for (size_t i = 0; i < m->n_weights; i++) {
        GLYD_TRY(write_weights(u, &m->weights[i], first));
        first += m->weights[i].header.n_tensors;
    }
    for (size_t i = 0; i < m->n_files; i++)
        GLYD_TRY(copy_file(u, &m->file[i]));
    return glyd_staging_publish(&u->staging, u->err);
}

glyd_status glyd_save_unpack(const char *save, const char *out, const glyd_save_options *options,
                             glyd_save_report *report, glyd_error *err)
{
    const glyd_save_options defaults = {0};
    glyd_save_report unasked;
    report = report ? report : &unasked;
    *report = (glyd_save_report){0};
    unpacking u = {.options = options ? options : &defaults, .out = {.fd = -1}, .err = err};
    glyd_folder *folder = NULL;
    glyd_status status = glyd_folder_open(save, &folder, err);
    u.folder = folder;
    if (status == GLYD_OK)
        status =
            glyd_pool_create(&(glyd_pool_options){.n_threads = u.options->n_threads}, &u.pool, err);
    if (status == GLYD_OK)
        status = unpack_all(&u, out, report);
    glyd_sha256_drop(&u.hash);
    glyd_out_drop(&u.out);
    glyd_staging_drop(&u.staging);
    glyd_pool_free(u.pool);
    glyd_folder_close(folder);
    return status;
}
