/* pack.c - a checkpoint to a save, one tensor at a time.
 *
 * 1. Tensors are dealt to shards before anything is packed, by their size in the checkpoint, so the
 *    shards' names are known from the start.
 * 2. In a shard the packed arrays come first, all of them multiples of 64 bytes, then the tensors
 *    that stay as they are: those of a multiple of 64 bytes, then the others by the size of their
 *    elements. So every array is aligned and there is no hole.
 * 3. The manifest is written last: a folder without one is no save.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "save/pack.h"
#include "base/buf.h"
#include "base/error.h"
#include "save/check_tensor.h"
#include "save/manifest.h"
#include "save/pack_tensor.h"
#include "save/staging.h"
#include "save/writer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t SHARD_BYTES = 5000000000; /* packed, 3.4 to 3.8 GB */

static const char A_COPY[] = "a copy of another tensor";

enum {
    SHARD_NAME_BYTES = 64,
    COMPARE_BYTES = 1 << 20,
    ARRAY_NAME_BYTES = 16,
    SHARDS_MAX = 99999,
};

typedef struct packing {
    const glyd_folder *in;
    const glyd_tensor_role *role;
    const glyd_save_options *options;
    glyd_save_report *report;
    glyd_layout layout;
    glyd_staging staging;
    glyd_pool *pool;
    glyd_writer writer;
    glyd_packed packed;
    size_t *shard_of; /* by tensor; tensors that are copies have none */
    const char **why; /* by tensor: why it stays as it is; NULL: it is packed */
    json_t **entry;   /* by tensor: its line in the manifest */
    json_t *shards, *files, *left_out;
    size_t n_shards;
    uint64_t bytes_done;
} packing;

static glyd_status no_memory(const packing *p, glyd_error *err)
{
    GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for packing %s", p->in->path);
}

static glyd_status report_progress(packing *p, uint64_t bytes, glyd_error *err)
{
    p->bytes_done += bytes;
    const glyd_save_options *o = p->options;
    if (o->progress &&
        o->progress(o->progress_arg, p->bytes_done, p->report->bytes_checkpoint) != 0)
        GLYD_FAIL(err, GLYD_E_CANCELLED, "cancelled: nothing was saved");
    return GLYD_OK;
}

/* --- what to do with each tensor --- */

static const char *why_as_is(const glyd_tensor *t)
{
    if (t->dtype != GLYD_DTYPE_BF16)
        return "not bf16";
    if (t->shape.n_dims != 2)
        return "not a matrix";
    if (t->shape.dim[0] > GLYD_ROWS_MAX || t->shape.dim[1] > GLYD_COLS_MAX)
        return "too large for the layout";
    if (t->data.bytes == 0)
        return "empty";
    if ((uintptr_t)t->data.data % 2 != 0)
        return "at an odd byte of its file";
    return NULL;
}

static bool is_copy(const packing *p, size_t i)
{
    const glyd_tensor *t = &p->in->tensor[i], *twin = p->role[i].twin;
    if (!twin || twin->dtype != t->dtype || !glyd_shape_equal(&twin->shape, &t->shape))
        return false;
    bool same = true;
    for (size_t at = 0; same && at < t->data.bytes; at += COMPARE_BYTES) {
        size_t n = t->data.bytes - at < COMPARE_BYTES ? t->data.bytes - at : COMPARE_BYTES;
        same = memcmp(t->data.data + at, twin->data.data + at, n) == 0;
    }
    glyd_tensor_drop(p->in, t);
    glyd_tensor_drop(p->in, twin);
    return same;
}

static glyd_status deal_tensors(packing *p, glyd_error *err)
{
    uint64_t limit = p->options->shard_bytes ? p->options->shard_bytes : SHARD_BYTES, in_shard = 0;
    p->n_shards = 1;
    for (size_t i = 0; i < p->in->n_tensors; i++) {
        const glyd_tensor *t = &p->in->tensor[i];
        p->report->bytes_checkpoint += t->data.bytes;
        p->why[i] = is_copy(p, i) ? A_COPY : why_as_is(t);
        if (p->why[i] == A_COPY)
            continue;
        p->report->n_weights += glyd_shape_elements(&t->shape);
        if (in_shard > 0 && in_shard + t->data.bytes > limit) {
            p->n_shards++;
            in_shard = 0;
        }
        in_shard += t->data.bytes;
        p->shard_of[i] = p->n_shards - 1;
    }
    p->report->n_tensors = p->in->n_tensors;
    if (p->n_shards > SHARDS_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT, "%zu shards are too many: choose larger ones", p->n_shards);
    return GLYD_OK;
}

static bool is_twin(const packing *p, size_t i)
{
    return p->why[i] == A_COPY;
}

/* --- the manifest's lines --- */

static json_t *shape_json(const glyd_shape *shape)
{
    json_t *dims = json_array();
    for (int i = 0; dims && i < shape->n_dims; i++) {
        if (json_array_append_new(dims, json_integer(shape->dim[i])) != 0) {
            json_decref(dims);
            return NULL;
        }
    }
    return dims;
}

/* The members that every tensor has. */
static json_t *tensor_json(const packing *p, size_t i, const char *sha256)
{
    const glyd_tensor *t = &p->in->tensor[i];
    const glyd_tensor_role *role = &p->role[i];
    json_t *shape = shape_json(&t->shape);
    if (!shape)
        return NULL;
    json_t *json =
        json_pack("{s:s,s:s,s:o,s:s?,s:s}", "name", t->name, "dtype", glyd_dtype_name(t->dtype),
                  "shape", shape, "role", role->name, "sha256", sha256);
    if (json && role->name && role->layer >= 0 &&
        json_object_set_new(json, "layer", json_integer(role->layer)) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* Add the members of `more`, which it takes over. */
static glyd_status set_entry(packing *p, size_t i, const char *sha256, json_t *more,
                             glyd_error *err)
{
    p->entry[i] = tensor_json(p, i, sha256);
    bool good = p->entry[i] && more && json_object_update(p->entry[i], more) == 0;
    json_decref(more);
    return good ? GLYD_OK : no_memory(p, err);
}

/* --- tensors --- */

static glyd_status write_array(packing *p, const glyd_tensor *t, const char *array, glyd_span data,
                               json_t *arrays, glyd_error *err)
{
    if (data.bytes == 0)
        return GLYD_OK;
    glyd_buf name = {0};
    glyd_status status = glyd_buf_print(&name, "%s.%s", t->name, array);
    char *text = status == GLYD_OK ? glyd_buf_text(&name) : NULL;
    glyd_shape shape = {.n_dims = 1, .dim = {(int64_t)data.bytes}};
    if (!text || json_object_set_new(arrays, array, json_integer((json_int_t)data.bytes)) != 0)
        status = no_memory(p, err);
    else
        status = glyd_writer_add(&p->writer, text, GLYD_DTYPE_U8, &shape, data, err);
    glyd_buf_free(&name);
    p->report->bytes_save += data.bytes;
    return status;
}

static glyd_status write_packed(packing *p, size_t i, glyd_error *err)
{
    const glyd_matrix *m = &p->packed.matrix;
    const glyd_tensor *t = &p->in->tensor[i];
    json_t *arrays = json_object();
    glyd_status status = arrays ? GLYD_OK : no_memory(p, err);
    for (int a = 0; status == GLYD_OK && a < GLYD_ARRAYS; a++)
        status = write_array(p, t, glyd_array_name((glyd_array)a), m->array[a], arrays, err);
    glyd_span crc = {p->packed.crc.data, p->packed.crc.bytes};
    if (status == GLYD_OK)
        status = write_array(p, t, "crc", crc, arrays, err);
    if (status != GLYD_OK) {
        json_decref(arrays);
        return status;
    }
    json_t *more =
        json_pack("{s:s,s:I,s:i,s:o}", "layout", glyd_layout_name(m->layout), "shard",
                  (json_int_t)p->shard_of[i], "run_blocks", m->run_blocks, "arrays", arrays);
    p->report->n_packed++;
    return set_entry(p, i, p->packed.sha256, more, err);
}

static glyd_status pack_one(packing *p, size_t i, glyd_error *err)
{
    const glyd_tensor *t = &p->in->tensor[i];
    GLYD_TRY(glyd_pack_tensor(t, p->layout, p->pool, &p->packed, err));
    if (p->packed.matrix.layout == GLYD_LAYOUT_BF16) {
        p->why[i] = "packing would not make it smaller";
        return GLYD_OK;
    }
    GLYD_TRY(write_packed(p, i, err));
    glyd_tensor_drop(p->in, t);
    return report_progress(p, t->data.bytes, err);
}

static glyd_status store_as_is(packing *p, size_t i, glyd_error *err)
{
    const glyd_tensor *t = &p->in->tensor[i];
    char sha256[GLYD_SHA256_HEX_BYTES];
    if (glyd_sha256_of(t->data.data, t->data.bytes, sha256) != GLYD_OK)
        return no_memory(p, err);
    GLYD_TRY(glyd_writer_add(&p->writer, t->name, t->dtype, &t->shape, t->data, err));
    json_t *more = json_pack("{s:s,s:s,s:I}", "layout", "as_is", "why", p->why[i], "shard",
                             (json_int_t)p->shard_of[i]);
    GLYD_TRY(set_entry(p, i, sha256, more, err));
    p->report->bytes_save += t->data.bytes;
    glyd_tensor_drop(p->in, t);
    return report_progress(p, t->data.bytes, err);
}

/* A copy is told by its twin's checksum, which is there once all shards are. */
static glyd_status note_copies(packing *p, glyd_error *err)
{
    for (size_t i = 0; i < p->in->n_tensors; i++) {
        if (!is_twin(p, i))
            continue;
        const json_t *twin = p->entry[p->role[i].twin - p->in->tensor];
        json_t *more = json_pack("{s:s}", "same_as", p->role[i].twin->name);
        GLYD_TRY(set_entry(p, i, json_string_value(json_object_get(twin, "sha256")), more, err));
        GLYD_TRY(report_progress(p, p->in->tensor[i].data.bytes, err));
    }
    return GLYD_OK;
}

/* --- shards --- */

static glyd_status header_room(const packing *p, size_t shard, uint64_t *bytes, glyd_error *err)
{
    *bytes = 0;
    for (size_t i = 0; i < p->in->n_tensors; i++) {
        const glyd_tensor *t = &p->in->tensor[i];
        uint64_t entry = 0;
        if (p->shard_of[i] != shard || is_twin(p, i))
            continue;
        if (glyd_writer_entry_bytes(t->name, t->shape.n_dims, &entry) != GLYD_OK)
            return no_memory(p, err);
        /* A matrix may become as many arrays, each with ".array" after its name. */
        *bytes += p->why[i] ? entry : (entry + ARRAY_NAME_BYTES) * (GLYD_ARRAYS + 1);
    }
    return GLYD_OK;
}

static glyd_status fill_shard(packing *p, size_t shard, glyd_error *err)
{
    for (size_t i = 0; i < p->in->n_tensors; i++) {
        if (p->shard_of[i] == shard && !p->why[i])
            GLYD_TRY(pack_one(p, i, err));
    }
    /* Element bytes 64 stands for "any, but a multiple of the alignment in all". */
    for (int element = GLYD_ARRAY_ALIGN; element > 0; element /= 2) {
        for (size_t i = 0; i < p->in->n_tensors; i++) {
            const glyd_tensor *t = &p->in->tensor[i];
            if (p->shard_of[i] != shard || !p->why[i] || is_twin(p, i))
                continue;
            bool aligned = t->data.bytes % GLYD_ARRAY_ALIGN == 0;
            int own = aligned ? GLYD_ARRAY_ALIGN : (glyd_dtype_bits(t->dtype) + 7) / 8;
            if (own == element)
                GLYD_TRY(store_as_is(p, i, err));
        }
    }
    return GLYD_OK;
}

static glyd_status write_shard(packing *p, size_t shard, glyd_error *err)
{
    char name[SHARD_NAME_BYTES], path[GLYD_PATH_BYTES], sha256[GLYD_SHA256_HEX_BYTES];
    snprintf(name, sizeof name, "glyd-%05zu-of-%05zu.safetensors", shard + 1, p->n_shards);
    GLYD_TRY(glyd_fs_join(path, p->staging.partial, name, err));
    uint64_t room = 0, bytes = 0;
    GLYD_TRY(header_room(p, shard, &room, err));
    glyd_status status = glyd_writer_open(&p->writer, path, room, err);
    if (status == GLYD_OK)
        status = fill_shard(p, shard, err);
    if (status == GLYD_OK)
        status = glyd_writer_commit(&p->writer, &bytes, sha256, err);
    glyd_writer_drop(&p->writer);
    GLYD_TRY(status);
    json_t *json = json_pack("{s:s,s:I,s:s}", "file", name, "bytes", (json_int_t)bytes,
                             "header_sha256", sha256);
    return json_array_append_new(p->shards, json) != 0 ? no_memory(p, err) : GLYD_OK;
}

/* --- the other files --- */

static bool is_weight_file(const char *name)
{
    static const char *const endings[] = {".safetensors", ".bin",       ".pt", ".pth",
                                          ".ckpt",        ".gguf",      ".h5", ".msgpack",
                                          ".onnx",        ".index.json"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t m = strlen(endings[i]);
        if (n >= m && strcmp(name + n - m, endings[i]) == 0)
            return true;
    }
    return false;
}

/* The index belongs to the checkpoint where it is what the tensors were found by. */
static bool is_taken(const packing *p, const char *name)
{
    if (strcmp(name, GLYD_INDEX_FILE) == 0)
        return strcmp(p->in->shard[0].file, GLYD_SINGLE_FILE) != 0;
    return glyd_is_plain_name(name) && !is_weight_file(name);
}

static glyd_status copy_file(packing *p, const char *name, glyd_error *err)
{
    char path[GLYD_PATH_BYTES], sha256[GLYD_SHA256_HEX_BYTES];
    uint64_t bytes = 0;
    GLYD_TRY(glyd_fs_member(p->in->path, name, path, err));
    GLYD_TRY(glyd_staging_copy(&p->staging, path, name, &bytes, sha256, err));
    json_t *json =
        json_pack("{s:s,s:I,s:s}", "file", name, "bytes", (json_int_t)bytes, "sha256", sha256);
    if (json_array_append_new(p->files, json) != 0)
        return no_memory(p, err);
    p->report->n_files++;
    return GLYD_OK;
}

static bool is_shard(const packing *p, const char *name)
{
    for (size_t i = 0; i < p->in->n_shards; i++) {
        if (strcmp(p->in->shard[i].file, name) == 0)
            return true;
    }
    return false;
}

static glyd_status copy_files(packing *p, glyd_error *err)
{
    glyd_fs_names names;
    GLYD_TRY(glyd_fs_list(p->in->path, &names, err));
    glyd_status status = GLYD_OK;
    for (size_t i = 0; status == GLYD_OK && i < names.n; i++) {
        const char *name = names.name[i];
        char path[GLYD_PATH_BYTES];
        if (is_shard(p, name))
            continue;
        status = glyd_fs_join(path, p->in->path, name, err);
        if (status != GLYD_OK)
            break;
        glyd_fs_kind kind = glyd_fs_kind_of(path);
        bool is_file = kind == GLYD_FS_FILE || (kind == GLYD_FS_NONE && glyd_fs_is_link(path));
        if (is_file && is_taken(p, name)) {
            status = copy_file(p, name, err);
        } else if (json_array_append_new(p->left_out, json_string(name)) != 0) {
            status = no_memory(p, err);
        } else {
            p->report->n_left_out++;
        }
    }
    glyd_fs_names_free(&names);
    return status;
}

/* --- the manifest --- */

static json_t *checkpoint_json(const glyd_folder *in)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < in->n_shards; i++) {
        const glyd_span header = in->shard[i].st.header;
        json_t *json = json_pack("{s:s,s:s%}", "file", in->shard[i].file, "header",
                                 (const char *)header.data, header.bytes);
        if (json_array_append_new(list, json) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The name of a folder, and in the Hugging Face cache the repository's and the revision. */
static json_t *source_json(const char *folder)
{
    char real[GLYD_PATH_BYTES];
    if (glyd_fs_real(folder, real, NULL) != GLYD_OK)
        return NULL;
    char *name = strrchr(real, '/') + 1;
    static const char middle[] = "/snapshots", prefix[] = "models--";
    size_t n = (size_t)(name - real);
    if (n < sizeof middle || strncmp(name - sizeof middle, middle, sizeof middle - 1) != 0)
        return json_pack("{s:s,s:n}", "name", name, "revision");
    name[-(int)sizeof middle] = 0; /* the repository's folder ends where "/snapshots" began */
    char *repository = strrchr(real, '/') + 1;
    if (strncmp(repository, prefix, sizeof prefix - 1) != 0)
        return json_pack("{s:s,s:s}", "name", repository, "revision", name);
    repository += sizeof prefix - 1;
    char *dashes = strstr(repository, "--");
    if (dashes) { /* "org--name" is org/name */
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    return json_pack("{s:s,s:s}", "name", repository, "revision", name);
}

static json_t *tensors_json(const packing *p)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < p->in->n_tensors; i++) {
        if (json_array_append(list, p->entry[i]) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static glyd_status write_manifest(packing *p, glyd_error *err)
{
    glyd_buf text = {0};
    glyd_out out = {.fd = -1};
    char path[GLYD_PATH_BYTES];
    json_t *root =
        json_pack("{s:s,s:s,s:o,s:s,s:O,s:o,s:o,s:O,s:O}", "format", GLYD_MANIFEST_FORMAT,
                  "version", glyd_version(), "source", source_json(p->in->path), "layout",
                  glyd_layout_name(p->layout), "shards", p->shards, "tensors", tensors_json(p),
                  "checkpoint", checkpoint_json(p->in), "files", p->files, "left_out", p->left_out);
    glyd_status status = root ? GLYD_OK : no_memory(p, err);
    if (status == GLYD_OK)
        status = glyd_manifest_write(root, &text, err);
    if (status == GLYD_OK)
        status = glyd_fs_join(path, p->staging.partial, GLYD_MANIFEST_FILE, err);
    if (status == GLYD_OK)
        status = glyd_out_create(path, &out, err);
    if (status == GLYD_OK)
        status = glyd_out_write(&out, text.data, text.bytes, err);
    if (status == GLYD_OK)
        status = glyd_out_commit(&out, err);
    glyd_out_drop(&out);
    glyd_buf_free(&text);
    json_decref(root);
    return status;
}

static glyd_status pack_all(packing *p, const char *out, glyd_error *err)
{
    GLYD_TRY(deal_tensors(p, err));
    GLYD_TRY(glyd_staging_open(&p->staging, p->in->path, out, err));
    for (size_t i = 0; i < p->n_shards; i++)
        GLYD_TRY(write_shard(p, i, err));
    GLYD_TRY(note_copies(p, err));
    GLYD_TRY(copy_files(p, err));
    GLYD_TRY(write_manifest(p, err));
    return glyd_staging_publish(&p->staging, err);
}

glyd_status glyd_pack_folder(const glyd_folder *in, const glyd_tensor_role *role, const char *out,
                             const glyd_save_options *options, glyd_save_report *report,
                             glyd_error *err)
{
    packing p = {.in = in, .role = role, .options = options, .report = report};
    p.layout = options->layout == GLYD_LAYOUT_BF16 ? GLYD_LAYOUT_MMA : options->layout;
    snprintf(report->layout, sizeof report->layout, "%s", glyd_layout_name(p.layout));
    size_t n = in->n_tensors;
    p.shard_of = calloc(n + 1, sizeof *p.shard_of);
    p.why = calloc(n + 1, sizeof(*p.why));
    p.entry = calloc(n + 1, sizeof(*p.entry));
    p.shards = json_array();
    p.files = json_array();
    p.left_out = json_array();
    glyd_status status =
        glyd_pool_create(&(glyd_pool_options){.n_threads = options->n_threads}, &p.pool, err);
    if (status == GLYD_OK)
        status = p.shard_of && p.why && p.entry && p.shards && p.files && p.left_out
                     ? pack_all(&p, out, err)
                     : no_memory(&p, err);
    glyd_staging_drop(&p.staging);
    glyd_pool_free(p.pool);
    glyd_packed_free(&p.packed);
    for (size_t i = 0; p.entry && i < n; i++)
        json_decref(p.entry[i]);
    json_decref(p.shards);
    json_decref(p.files);
    json_decref(p.left_out);
    free(p.entry);
    free(p.why);
    free(p.shard_of);
    return status;
}
