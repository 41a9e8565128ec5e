/* open_save.c - a save's tensors: the manifest and the shards' headers held against each other.
 *
 * After it every array of the manifest is a view of a mapped shard, of the size the manifest says,
 * and the shards hold nothing else.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "save/manifest.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 4096 };

/* How many of a shard's tensors the manifest accounts for. */
typedef struct usage {
    size_t *n_used; /* by shard */
} usage;

static glyd_status take_entry(const glyd_folder *folder, size_t shard, const char *name,
                              uint64_t bytes, glyd_dtype dtype, usage *use, glyd_span *span,
                              glyd_error *err)
{
    const glyd_shard *s = &folder->shard[shard];
    const glyd_safetensors_entry *e = glyd_safetensors_find(&s->st, name);
    GLYD_NEED(e, err, "%s lacks %s, which %s says is there", s->file, name, GLYD_MANIFEST_FILE);
    GLYD_NEED(e->dtype == dtype && e->end - e->begin == bytes, err,
              "%s: %s has %llu bytes of %s; %s says %llu of %s", s->file, name,
              (unsigned long long)(e->end - e->begin), glyd_dtype_name(e->dtype),
              GLYD_MANIFEST_FILE, (unsigned long long)bytes, glyd_dtype_name(dtype));
    *span = (glyd_span){s->st.data.data + e->begin, (size_t)(e->end - e->begin)};
    use->n_used[shard]++;
    return GLYD_OK;
}

static glyd_status take_array(const glyd_folder *folder, const glyd_manifest_tensor *from,
                              const char *array, uint64_t bytes, usage *use, glyd_span *span,
                              glyd_error *err)
{
    char name[NAME_BYTES_MAX];
    if (bytes == 0)
        return GLYD_OK;
    int n = snprintf(name, sizeof name, "%s.%s", from->name, array);
    GLYD_NEED(n > 0 && n < (int)sizeof name, err, "%s: the name of a tensor is too long",
              GLYD_MANIFEST_FILE);
    GLYD_TRY(take_entry(folder, from->shard, name, bytes, GLYD_DTYPE_U8, use, span, err));
    GLYD_NEED((uintptr_t)span->data % GLYD_ARRAY_ALIGN == 0, err,
              "%s: %s does not begin at a multiple of %d bytes", folder->shard[from->shard].file,
              name, GLYD_ARRAY_ALIGN);
    return GLYD_OK;
}

static glyd_status fill_tensor(const glyd_folder *folder, const glyd_manifest_tensor *from,
                               glyd_tensor *t, usage *use, glyd_error *err)
{
    *t = (glyd_tensor){.name = from->name,
                       .dtype = from->dtype,
                       .shape = from->shape,
                       .shard = from->shard,
                       .is_packed = from->is_packed};
    if (from->same_as)
        return GLYD_OK; /* filled when all others are */
    if (!from->is_packed) {
        uint64_t bytes = 0;
        GLYD_TRY(glyd_shape_bytes(&t->shape, t->dtype, GLYD_MANIFEST_FILE, t->name, &bytes, err));
        return take_entry(folder, from->shard, from->name, bytes, from->dtype, use, &t->data, err);
    }
    t->matrix = (glyd_matrix){.layout = from->layout,
                              .rows = from->shape.dim[0],
                              .cols = from->shape.dim[1],
                              .run_blocks = from->run_blocks};
    for (int a = 0; a < GLYD_ARRAYS; a++)
        GLYD_TRY(take_array(folder, from, glyd_array_name((glyd_array)a), from->array_bytes[a], use,
                            &t->matrix.array[a], err));
    return take_array(folder, from, "crc", from->crc_bytes, use, &t->crc, err);
}

/* A tensor with the same bytes as another takes that one's place in the shards. */
static glyd_status fill_copies(glyd_folder *folder, glyd_error *err)
{
    const glyd_manifest *m = folder->manifest;
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (!m->tensor[i].same_as)
            continue;
        const glyd_tensor *other = glyd_folder_tensor(folder, m->tensor[i].same_as);
        const glyd_manifest_tensor *from = other ? &m->tensor[other - folder->tensor] : NULL;
        glyd_tensor *t = &folder->tensor[i];
        GLYD_NEED(from && !from->same_as && from->dtype == t->dtype &&
                      glyd_shape_equal(&from->shape, &t->shape) &&
                      strcmp(from->sha256, m->tensor[i].sha256) == 0,
                  err, "%s: tensor %s cannot be the same as %s", GLYD_MANIFEST_FILE, t->name,
                  m->tensor[i].same_as);
        const char *name = t->name;
        *t = *other;
        t->name = name;
    }
    return GLYD_OK;
}

static glyd_status check_shard(const glyd_shard *shard, const glyd_manifest_shard *said,
                               glyd_error *err)
{
    GLYD_NEED(shard->map.span.bytes == said->bytes, err, "%s has %zu bytes; %s says %llu",
              shard->file, shard->map.span.bytes, GLYD_MANIFEST_FILE,
              (unsigned long long)said->bytes);
    char hex[GLYD_SHA256_HEX_BYTES];
    if (glyd_sha256_of(shard->map.span.data, GLYD_SAFETENSORS_LENGTH_BYTES + shard->st.header.bytes,
                       hex) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the checksum of %s", shard->file);
    if (strcmp(hex, said->header_sha256) != 0)
        GLYD_FAIL(err, GLYD_E_MISMATCH,
                  "the header of %s was changed, or another save's shard has "
                  "taken its place",
                  shard->file);
    return GLYD_OK;
}

static glyd_status open_shards(glyd_folder *folder, glyd_error *err)
{
    const glyd_manifest *m = folder->manifest;
    for (size_t i = 0; i < m->n_shards; i++) {
        GLYD_TRY(glyd_folder_add_shard(folder, m->shard[i].file, err));
        GLYD_TRY(check_shard(&folder->shard[i], &m->shard[i], err));
    }
    return GLYD_OK;
}

static glyd_status fill_tensors(glyd_folder *folder, usage *use, glyd_error *err)
{
    const glyd_manifest *m = folder->manifest;
    for (size_t i = 0; i < m->n_tensors; i++) {
        GLYD_TRY(fill_tensor(folder, &m->tensor[i], &folder->tensor[i], use, err));
        folder->n_tensors++;
    }
    for (size_t i = 0; i < folder->n_shards; i++)
        GLYD_NEED(use->n_used[i] == folder->shard[i].st.n_tensors, err,
                  "%s holds arrays that %s does not list", folder->shard[i].file,
                  GLYD_MANIFEST_FILE);
    GLYD_TRY(glyd_folder_index_names(folder, err));
    return fill_copies(folder, err);
}

static glyd_status read_manifest(glyd_folder *folder, glyd_error *err)
{
    char path[GLYD_PATH_BYTES];
    glyd_buf text = {0};
    GLYD_TRY(glyd_fs_member(folder->path, GLYD_MANIFEST_FILE, path, err));
    glyd_status status = glyd_file_read(path, GLYD_MANIFEST_BYTES_MAX, &text, err);
    if (status == GLYD_OK)
        status = glyd_manifest_parse((glyd_span){text.data, text.bytes}, &folder->manifest, err);
    glyd_buf_free(&text);
    return status;
}

glyd_status glyd_folder_open_save(glyd_folder *folder, glyd_error *err)
{
    GLYD_TRY(read_manifest(folder, err));
    GLYD_TRY(open_shards(folder, err));
    usage use = {calloc(folder->n_shards + 1, sizeof(size_t))};
    folder->tensor = calloc(folder->manifest->n_tensors + 1, sizeof *folder->tensor);
    glyd_status status = GLYD_E_NOMEM;
    if (use.n_used && folder->tensor)
        status = fill_tensors(folder, &use, err);
    else
        (void)glyd_error_set(err, status, "out of memory for the tensors of %s", folder->path);
    free(use.n_used);
    return status;
}

glyd_status glyd_folder_need_save(const glyd_folder *folder, glyd_error *err)
{
    if (!folder->manifest)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s is no glyd save: it has no %s", folder->path,
                  GLYD_MANIFEST_FILE);
    return GLYD_OK;
}
