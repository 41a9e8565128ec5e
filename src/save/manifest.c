/* manifest.c - reading and writing glyd.json.
 *
 * The last member of the manifest is the SHA-256 of all the text before it, so a changed manifest
 * is found before anything it says is believed.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "save/manifest.h"
#include "base/buf.h"
#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char WHERE[] = GLYD_MANIFEST_FILE;
static const char DIGEST_KEY[] = "\"sha256\": \"";
static const char DIGEST_END[] = "\"}\n";
static const char AS_IS[] = "as_is";

enum {
    DIGEST_BYTES = 64,
    TAIL_BYTES = sizeof DIGEST_KEY - 1 + DIGEST_BYTES + sizeof DIGEST_END - 1,
    SHARDS_MAX = 99999, /* five digits in a shard's name */
    RUN_BLOCKS_MAX = 16384,
};

/* --- reading --- */

static glyd_status check_digest(glyd_span text, glyd_error *err)
{
    char hex[GLYD_SHA256_HEX_BYTES];
    bool whole = false;
    if (text.bytes > TAIL_BYTES) {
        const uint8_t *tail = text.data + text.bytes - TAIL_BYTES;
        if (glyd_sha256_of(text.data, text.bytes - TAIL_BYTES, hex) != GLYD_OK)
            GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the checksum of %s", WHERE);
        whole = memcmp(tail, DIGEST_KEY, sizeof DIGEST_KEY - 1) == 0 &&
                memcmp(tail + sizeof DIGEST_KEY - 1, hex, DIGEST_BYTES) == 0 &&
                memcmp(text.data + text.bytes - (sizeof DIGEST_END - 1), DIGEST_END,
                       sizeof DIGEST_END - 1) == 0;
    }
    if (!whole)
        GLYD_FAIL(err, GLYD_E_MISMATCH, "%s was changed or cut: its own checksum does not match",
                  WHERE);
    return GLYD_OK;
}

static glyd_status check_format(const json_t *root, glyd_error *err)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s names no format: this is no glyd save", WHERE);
    if (strcmp(format, GLYD_MANIFEST_FORMAT) != 0)
        GLYD_FAIL(err, GLYD_E_FORMAT,
                  "this save has the format %s, made by another tool; %s is read here: pack the "
                  "bf16 checkpoint again with glyd pack",
                  format, GLYD_MANIFEST_FORMAT);
    return GLYD_OK;
}

static glyd_status read_digest(const json_t *object, const char *key, const char **digest,
                               glyd_error *err)
{
    GLYD_TRY(glyd_json_text(object, key, WHERE, digest, err));
    if (strlen(*digest) != DIGEST_BYTES || strspn(*digest, "0123456789abcdef") != DIGEST_BYTES)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"%s\" is no SHA-256", WHERE, key);
    return GLYD_OK;
}

static glyd_status read_file_name(const json_t *object, const char **name, glyd_error *err)
{
    GLYD_TRY(glyd_json_text(object, "file", WHERE, name, err));
    if (!glyd_is_plain_name(*name))
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"%s\" is not the name of a file in the folder", WHERE,
                  *name);
    return GLYD_OK;
}

static glyd_status read_bytes(const json_t *object, const char *key, uint64_t *bytes,
                              glyd_error *err)
{
    int64_t n = 0;
    GLYD_TRY(glyd_json_int(object, key, 0, INT64_MAX, WHERE, &n, err));
    *bytes = (uint64_t)n;
    return GLYD_OK;
}

/* An array member, and zeroed room for its elements. */
static glyd_status read_list(const json_t *root, const char *key, size_t n_max, size_t element,
                             const json_t **list, void *room, glyd_error *err)
{
    *list = json_object_get(root, key);
    if (!json_is_array(*list))
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"%s\" must be a list", WHERE, key);
    size_t n = json_array_size(*list);
    if (n > n_max)
        GLYD_FAIL(err, GLYD_E_LIMIT, "%s: %zu %s are too many", WHERE, n, key);
    void *data = calloc(n + 1, element);
    if (!data)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the %s of %s", key, WHERE);
    memcpy(room, &data, sizeof data);
    return GLYD_OK;
}

static glyd_status read_shards(glyd_manifest *m, glyd_error *err)
{
    const json_t *list, *json;
    GLYD_TRY(read_list(m->root, "shards", SHARDS_MAX, sizeof *m->shard, &list, &m->shard, err));
    size_t i;
    json_array_foreach(list, i, json)
    {
        glyd_manifest_shard *shard = &m->shard[m->n_shards];
        GLYD_TRY(read_file_name(json, &shard->file, err));
        GLYD_TRY(read_bytes(json, "bytes", &shard->bytes, err));
        GLYD_TRY(read_digest(json, "header_sha256", &shard->header_sha256, err));
        for (size_t k = 0; k < m->n_shards; k++) {
            if (strcmp(m->shard[k].file, shard->file) == 0)
                GLYD_FAIL(err, GLYD_E_FORMAT, "%s: shard %s is listed twice", WHERE, shard->file);
        }
        m->n_shards++;
    }
    return GLYD_OK;
}

static glyd_status read_arrays(const json_t *arrays, glyd_manifest_tensor *t, glyd_error *err)
{
    if (!json_is_object(arrays))
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: tensor %s has no arrays", WHERE, t->name);
    size_t n_known = 0;
    for (int a = 0; a <= GLYD_ARRAYS; a++) {
        const char *name = a < GLYD_ARRAYS ? glyd_array_name((glyd_array)a) : "crc";
        uint64_t *bytes = a < GLYD_ARRAYS ? &t->array_bytes[a] : &t->crc_bytes;
        if (!json_object_get(arrays, name))
            continue;
        GLYD_TRY(read_bytes(arrays, name, bytes, err));
        if (*bytes == 0 || *bytes % GLYD_ARRAY_ALIGN != 0)
            GLYD_FAIL(err, GLYD_E_CORRUPT,
                      "%s: array %s of tensor %s has %llu bytes, not a "
                      "multiple of %d",
                      WHERE, name, t->name, (unsigned long long)*bytes, GLYD_ARRAY_ALIGN);
        n_known++;
    }
    if (n_known != json_object_size(arrays))
        GLYD_FAIL(err, GLYD_E_CORRUPT, "%s: tensor %s has an unknown array", WHERE, t->name);
    uint64_t n_pieces = 0;
    for (int a = 0; a < GLYD_ARRAYS; a++)
        n_pieces += glyd_crc_pieces(t->array_bytes[a]);
    uint64_t crc_bytes =
        (n_pieces * 4 + GLYD_ARRAY_ALIGN - 1) / GLYD_ARRAY_ALIGN * GLYD_ARRAY_ALIGN;
    GLYD_NEED(t->crc_bytes == crc_bytes, err,
              "%s: tensor %s has %llu bytes of checksums; its arrays need %llu", WHERE, t->name,
              (unsigned long long)t->crc_bytes, (unsigned long long)crc_bytes);
    return GLYD_OK;
}

static glyd_status read_layout(const json_t *json, glyd_manifest_tensor *t, size_t n_shards,
                               glyd_error *err)
{
    int64_t shard = 0, run_blocks = 0;
    const char *layout = "";
    GLYD_TRY(glyd_json_int(json, "shard", 0, (int64_t)n_shards - 1, WHERE, &shard, err));
    t->shard = (size_t)shard;
    GLYD_TRY(glyd_json_text(json, "layout", WHERE, &layout, err));
    if (strcmp(layout, AS_IS) == 0)
        return GLYD_OK;
    if (glyd_layout_from_name(layout, &t->layout) != GLYD_OK || t->layout == GLYD_LAYOUT_BF16)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: tensor %s has the unknown layout %s", WHERE, t->name,
                  layout);
    const int64_t *dim = t->shape.dim;
    GLYD_NEED(t->dtype == GLYD_DTYPE_BF16 && t->shape.n_dims == 2 && dim[0] >= 1 && dim[1] >= 1 &&
                  dim[0] <= GLYD_ROWS_MAX && dim[1] <= GLYD_COLS_MAX,
              err, "%s: tensor %s cannot be packed with its dtype and shape", WHERE, t->name);
    GLYD_TRY(glyd_json_int_or(json, "run_blocks", 0, RUN_BLOCKS_MAX, 0, WHERE, &run_blocks, err));
    t->run_blocks = (int)run_blocks;
    t->is_packed = true;
    return read_arrays(json_object_get(json, "arrays"), t, err);
}

static glyd_status read_tensor(const json_t *json, glyd_manifest_tensor *t, size_t n_shards,
                               glyd_error *err)
{
    GLYD_TRY(glyd_json_text(json, "name", WHERE, &t->name, err));
    const char *dtype = "";
    GLYD_TRY(glyd_json_text(json, "dtype", WHERE, &dtype, err));
    if (glyd_dtype_from_name(dtype, &t->dtype) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: tensor %s has the unknown dtype %s", WHERE, t->name,
                  dtype);
    GLYD_TRY(glyd_shape_from_json(json_object_get(json, "shape"), WHERE, t->name, &t->shape, err));
    GLYD_TRY(read_digest(json, "sha256", &t->sha256, err));
    GLYD_TRY(glyd_json_text_or(json, "same_as", NULL, WHERE, &t->same_as, err));
    return t->same_as ? GLYD_OK : read_layout(json, t, n_shards, err);
}

static glyd_status read_tensors(glyd_manifest *m, glyd_error *err)
{
    const json_t *list, *json;
    GLYD_TRY(read_list(m->root, "tensors", SIZE_MAX, sizeof *m->tensor, &list, &m->tensor, err));
    size_t i;
    json_array_foreach(list, i, json)
    {
        GLYD_TRY(read_tensor(json, &m->tensor[i], m->n_shards, err));
        m->n_tensors++;
    }
    return GLYD_OK;
}

/* The checkpoint's headers, one after the other, must list the tensors exactly. */
static glyd_status read_weights(glyd_manifest *m, glyd_error *err)
{
    const json_t *list, *json;
    GLYD_TRY(
        read_list(m->root, "checkpoint", SHARDS_MAX, sizeof *m->weights, &list, &m->weights, err));
    size_t i, n = 0;
    json_array_foreach(list, i, json)
    {
        glyd_manifest_weights *w = &m->weights[i];
        GLYD_TRY(read_file_name(json, &w->file, err));
        const char *text = "";
        GLYD_TRY(glyd_json_text(json, "header", WHERE, &text, err));
        uint64_t data_bytes = 0;
        GLYD_TRY(glyd_safetensors_parse_header(
            (glyd_span){(const uint8_t *)text, json_string_length(json_object_get(json, "header"))},
            w->file, &w->header, &data_bytes, err));
        m->n_weights++;
        for (size_t k = 0; k < w->header.n_tensors; k++, n++) {
            const glyd_safetensors_entry *e = &w->header.tensor[k];
            GLYD_NEED(n < m->n_tensors && strcmp(m->tensor[n].name, e->name) == 0 &&
                          m->tensor[n].dtype == e->dtype &&
                          glyd_shape_equal(&m->tensor[n].shape, &e->shape),
                      err, "%s: tensor %s of %s is not in the list of tensors as its header has it",
                      WHERE, e->name, w->file);
        }
    }
    GLYD_NEED(n == m->n_tensors, err, "%s: tensor %s is in no file of the checkpoint", WHERE,
              m->tensor[n].name);
    return GLYD_OK;
}

static glyd_status read_files(glyd_manifest *m, glyd_error *err)
{
    const json_t *list, *json;
    GLYD_TRY(read_list(m->root, "files", SIZE_MAX, sizeof *m->file, &list, &m->file, err));
    size_t i;
    json_array_foreach(list, i, json)
    {
        GLYD_TRY(read_file_name(json, &m->file[i].file, err));
        GLYD_TRY(read_bytes(json, "bytes", &m->file[i].bytes, err));
        GLYD_TRY(read_digest(json, "sha256", &m->file[i].sha256, err));
        m->n_files++;
    }
    return GLYD_OK;
}

glyd_status glyd_manifest_parse(glyd_span text, glyd_manifest **out, glyd_error *err)
{
    *out = NULL;
    glyd_manifest *m = calloc(1, sizeof *m);
    if (!m)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for %s", WHERE);
    glyd_status status = glyd_json_parse(text, WHERE, &m->root, err);
    if (status == GLYD_OK)
        status = check_format(m->root, err);
    if (status == GLYD_OK)
        status = check_digest(text, err);
    if (status == GLYD_OK)
        status = glyd_json_text(m->root, "layout", WHERE, &m->layout, err);
    if (status == GLYD_OK)
        status = read_shards(m, err);
    if (status == GLYD_OK)
        status = read_tensors(m, err);
    if (status == GLYD_OK)
        status = read_weights(m, err);
    if (status == GLYD_OK)
        status = read_files(m, err);
    if (status != GLYD_OK) {
        glyd_manifest_free(m);
        return status;
    }
    *out = m;
    return GLYD_OK;
}

void glyd_manifest_free(glyd_manifest *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_weights; i++)
        glyd_safetensors_free(&m->weights[i].header);
    free(m->weights);
    free(m->shard);
    free(m->tensor);
    free(m->file);
    json_decref(m->root);
    free(m);
}

/* --- writing --- */

static glyd_status append_json(glyd_buf *text, const json_t *value)
{
    char *dump = json_dumps(value, JSON_ENCODE_ANY);
    if (!dump)
        return GLYD_E_NOMEM;
    glyd_status status = glyd_buf_append(text, dump, strlen(dump));
    free(dump);
    return status;
}

static glyd_status append_list(glyd_buf *text, const json_t *list)
{
    GLYD_TRY(glyd_buf_print(text, "["));
    size_t i;
    const json_t *value;
    json_array_foreach(list, i, value)
    {
        GLYD_TRY(glyd_buf_print(text, i ? ",\n" : "\n"));
        GLYD_TRY(append_json(text, value));
    }
    return glyd_buf_print(text, "\n]");
}

static glyd_status append_members(glyd_buf *text, const json_t *root)
{
    GLYD_TRY(glyd_buf_print(text, "{\n"));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        GLYD_TRY(glyd_buf_print(text, "\"%s\": ", key)); /* keys are the writer's own words */
        GLYD_TRY(json_is_array(value) ? append_list(text, value) : append_json(text, value));
        GLYD_TRY(glyd_buf_print(text, ",\n"));
    }
    char hex[GLYD_SHA256_HEX_BYTES];
    GLYD_TRY(glyd_sha256_of(text->data, text->bytes, hex));
    return glyd_buf_print(text, "%s%s%s", DIGEST_KEY, hex, DIGEST_END);
}

glyd_status glyd_manifest_write(const json_t *root, glyd_buf *text, glyd_error *err)
{
    glyd_status status = append_members(text, root);
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "out of memory for %s", WHERE);
    return GLYD_OK;
}
