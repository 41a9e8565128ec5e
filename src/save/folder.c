/* folder.c - a model folder with its tensors: finding, mapping and indexing the weight files.
 *
 * A checkpoint's weights are model.safetensors, or the shards that model.safetensors.index.json
 * names. Where both are there the single file counts, as for transformers.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "save/folder.h"
#include "base/error.h"
#include "save/manifest.h"
#include <stdlib.h>
#include <string.h>

enum { INDEX_BYTES_MAX = 256 << 20 };

bool glyd_is_plain_name(const char *name)
{
    return name[0] != 0 && name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\');
}

static glyd_status no_memory(const char *path, glyd_error *err)
{
    GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the tensors of %s", path);
}

glyd_status glyd_folder_add_shard(glyd_folder *folder, const char *file, glyd_error *err)
{
    glyd_shard *grown = realloc(folder->shard, (folder->n_shards + 1) * sizeof *folder->shard);
    if (!grown)
        return no_memory(folder->path, err);
    folder->shard = grown;
    glyd_shard *shard = &grown[folder->n_shards];
    *shard = (glyd_shard){.file = strdup(file)};
    if (!shard->file)
        return no_memory(folder->path, err);
    folder->n_shards++;

    char path[GLYD_PATH_BYTES];
    GLYD_TRY(glyd_fs_member(folder->path, file, path, err));
    GLYD_TRY(glyd_map_open(path, &shard->map, err));
    return glyd_safetensors_parse(shard->map.span, file, &shard->st, err);
}

static glyd_status collect_tensors(glyd_folder *folder, glyd_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < folder->n_shards; i++)
        n += folder->shard[i].st.n_tensors;
    folder->tensor = calloc(n + 1, sizeof *folder->tensor);
    if (!folder->tensor)
        return no_memory(folder->path, err);
    for (size_t i = 0; i < folder->n_shards; i++) {
        const glyd_safetensors *st = &folder->shard[i].st;
        for (size_t k = 0; k < st->n_tensors; k++) {
            const glyd_safetensors_entry *e = &st->tensor[k];
            folder->tensor[folder->n_tensors++] = (glyd_tensor){
                .name = e->name,
                .dtype = e->dtype,
                .shape = e->shape,
                .shard = i,
                .data = {st->data.data + e->begin, (size_t)(e->end - e->begin)},
            };
        }
    }
    return GLYD_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const glyd_tensor *const *)a)->name, (*(const glyd_tensor *const *)b)->name);
}

glyd_status glyd_folder_index_names(glyd_folder *folder, glyd_error *err)
{
    folder->by_name = calloc(folder->n_tensors + 1, sizeof(*folder->by_name));
    if (!folder->by_name)
        return no_memory(folder->path, err);
    for (size_t i = 0; i < folder->n_tensors; i++)
        folder->by_name[i] = &folder->tensor[i];
    if (folder->n_tensors > 1)
        qsort(folder->by_name, folder->n_tensors, sizeof(*folder->by_name), by_name);
    for (size_t i = 1; i < folder->n_tensors; i++) {
        const glyd_tensor *a = folder->by_name[i - 1], *b = folder->by_name[i];
        if (strcmp(a->name, b->name) != 0)
            continue;
        GLYD_NEED(!folder->manifest, err, "%s lists tensor %s twice", GLYD_MANIFEST_FILE, a->name);
        GLYD_FAIL(err, GLYD_E_CORRUPT, "tensor %s is in both %s and %s", a->name,
                  folder->shard[a->shard].file, folder->shard[b->shard].file);
    }
    return GLYD_OK;
}

const glyd_tensor *glyd_folder_tensor(const glyd_folder *folder, const char *name)
{
    size_t low = 0, high = folder->n_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, folder->by_name[middle]->name);
        if (order == 0)
            return folder->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* The index's map and the shards must name the same tensors in the same files. */
static glyd_status check_index(const glyd_folder *folder, const json_t *map, glyd_error *err)
{
    for (size_t i = 0; i < folder->n_tensors; i++) {
        const glyd_tensor *t = &folder->tensor[i];
        const char *file = json_string_value(json_object_get(map, t->name));
        const char *shard = folder->shard[t->shard].file;
        GLYD_NEED(file && strcmp(file, shard) == 0, err, "%s holds tensor %s, which %s puts %s%s",
                  shard, t->name, GLYD_INDEX_FILE, file ? "into " : "nowhere", file ? file : "");
    }
    const char *name;
    json_t *file;
    json_object_foreach((json_t *)(uintptr_t)map, name, file)
    {
        GLYD_NEED(glyd_folder_tensor(folder, name), err, "%s lacks tensor %s, which %s puts there",
                  json_string_value(file), name, GLYD_INDEX_FILE);
    }
    return GLYD_OK;
}

static bool has_shard(const glyd_folder *folder, const char *file)
{
    for (size_t i = 0; i < folder->n_shards; i++) {
        if (strcmp(folder->shard[i].file, file) == 0)
            return true;
    }
    return false;
}

static int shards_by_name(const void *a, const void *b)
{
    return strcmp(((const glyd_shard *)a)->file, ((const glyd_shard *)b)->file);
}

static glyd_status open_indexed(glyd_folder *folder, const char *index, glyd_error *err)
{
    json_t *root;
    GLYD_TRY(glyd_json_read(index, INDEX_BYTES_MAX, &root, err));
    const json_t *map = json_object_get(root, "weight_map");
    glyd_status status = GLYD_OK;
    if (!json_is_object(map) || json_object_size(map) == 0)
        status = glyd_error_set(err, GLYD_E_FORMAT, "%s has no weight_map", index);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, name, value)
    {
        const char *file = json_string_value(value);
        if (status != GLYD_OK)
            break;
        if (!file || !glyd_is_plain_name(file))
            status = glyd_error_set(err, GLYD_E_FORMAT,
                                    "%s: the file of tensor %s must be a name in the folder",
                                    GLYD_INDEX_FILE, name);
        else if (!has_shard(folder, file))
            status = glyd_folder_add_shard(folder, file, err);
    }
    if (status == GLYD_OK && folder->n_shards > 1)
        qsort(folder->shard, folder->n_shards, sizeof *folder->shard, shards_by_name);
    if (status == GLYD_OK)
        status = collect_tensors(folder, err);
    if (status == GLYD_OK)
        status = glyd_folder_index_names(folder, err);
    if (status == GLYD_OK)
        status = check_index(folder, map, err);
    json_decref(root);
    return status;
}

static bool ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n >= m && strcmp(name + n - m, ending) == 0;
}

static glyd_status no_weights(const char *path, glyd_error *err)
{
    static const char *const others[] = {".gguf", ".bin", ".pth",    ".pt",
                                         ".ckpt", ".h5",  ".msgpack"};
    glyd_fs_names names;
    GLYD_TRY(glyd_fs_list(path, &names, err));
    glyd_status status = GLYD_OK;
    for (size_t i = 0; status == GLYD_OK && i < names.n; i++) {
        for (size_t k = 0; status == GLYD_OK && k < sizeof others / sizeof *others; k++) {
            if (ends_with(names.name[i], others[k]))
                status = glyd_error_set(
                    err, GLYD_E_UNSUPPORTED,
                    "%s holds %s, but weights are read from safetensors only: load the model with "
                    "transformers and save_pretrained() it",
                    path, names.name[i]);
        }
    }
    if (status == GLYD_OK)
        status =
            glyd_error_set(err, GLYD_E_NOTFOUND, "%s has no weights: neither %s nor %s is there",
                           path, GLYD_SINGLE_FILE, GLYD_INDEX_FILE);
    glyd_fs_names_free(&names);
    return status;
}

static glyd_status open_checkpoint(glyd_folder *folder, glyd_error *err)
{
    char path[GLYD_PATH_BYTES];
    GLYD_TRY(glyd_fs_join(path, folder->path, GLYD_SINGLE_FILE, err));
    if (glyd_fs_kind_of(path) != GLYD_FS_NONE || glyd_fs_is_link(path)) {
        GLYD_TRY(glyd_folder_add_shard(folder, GLYD_SINGLE_FILE, err));
        GLYD_TRY(collect_tensors(folder, err));
        return glyd_folder_index_names(folder, err);
    }
    if (glyd_fs_member(folder->path, GLYD_INDEX_FILE, path, NULL) == GLYD_E_NOTFOUND)
        return no_weights(folder->path, err);
    GLYD_TRY(glyd_fs_member(folder->path, GLYD_INDEX_FILE, path, err));
    return open_indexed(folder, path, err);
}

glyd_status glyd_folder_exists(const char *path, glyd_error *err)
{
    glyd_fs_kind kind = glyd_fs_kind_of(path);
    if (kind == GLYD_FS_NONE)
        GLYD_FAIL(err, GLYD_E_NOTFOUND, "there is no folder %s", path);
    if (kind != GLYD_FS_FOLDER)
        GLYD_FAIL(err, GLYD_E_NOTFOUND, "%s is not a folder: give a model's folder", path);
    return GLYD_OK;
}

glyd_status glyd_tensor_need_bf16(const glyd_tensor *t, glyd_error *err)
{
    switch (t->dtype) {
    case GLYD_DTYPE_BF16:
        return GLYD_OK;
    case GLYD_DTYPE_F16:
    case GLYD_DTYPE_F32:
    case GLYD_DTYPE_F64:
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "tensor %s is %s, and glyd holds bf16 weights: convert the checkpoint, which "
                  "rounds it (transformers: from_pretrained(FOLDER, "
                  "dtype=\"bfloat16\").save_pretrained(NEW))",
                  t->name, glyd_dtype_name(t->dtype));
    default:
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "tensor %s is %s, and glyd holds bf16 weights: take the bf16 checkpoint that "
                  "this one was made from",
                  t->name, glyd_dtype_name(t->dtype));
    }
}

glyd_status glyd_folder_open(const char *path, glyd_folder **out, glyd_error *err)
{
    *out = NULL;
    GLYD_TRY(glyd_folder_exists(path, err));
    glyd_folder *folder = calloc(1, sizeof *folder);
    if (folder)
        folder->path = strdup(path);
    if (!folder || !folder->path) {
        glyd_folder_close(folder);
        return no_memory(path, err);
    }
    char manifest[GLYD_PATH_BYTES];
    glyd_status status = glyd_fs_join(manifest, path, GLYD_MANIFEST_FILE, err);
    if (status == GLYD_OK)
        status = glyd_fs_kind_of(manifest) == GLYD_FS_NONE ? open_checkpoint(folder, err)
                                                           : glyd_folder_open_save(folder, err);
    if (status != GLYD_OK) {
        glyd_folder_close(folder);
        return status;
    }
    *out = folder;
    return GLYD_OK;
}

void glyd_folder_close(glyd_folder *folder)
{
    if (!folder)
        return;
    for (size_t i = 0; i < folder->n_shards; i++) {
        free(folder->shard[i].file);
        glyd_safetensors_free(&folder->shard[i].st);
        glyd_map_close(&folder->shard[i].map);
    }
    free(folder->shard);
    free(folder->tensor);
    free(folder->by_name);
    glyd_manifest_free(folder->manifest);
    free(folder->path);
    free(folder);
}
