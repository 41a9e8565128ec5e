/* writer.c - writing one safetensors file, arrays first, header last.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "save/writer.h"
#include "base/buf.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

enum {
    DATA_ALIGN = 64,
    NUMBER_BYTES = 20, /* digits of a 64-bit number */
    /* {"__metadata__":{"format":"pt"}} and the comma */
    FRAME_BYTES = 40,
    /* "":{"dtype":"F8_E4M3FNUZ","shape":[],"data_offsets":[,]}, */
    ENTRY_BYTES = 64,
};

glyd_status glyd_writer_entry_bytes(const char *name, int n_dims, uint64_t *bytes)
{
    json_t *text = json_string(name);
    size_t escaped = text ? json_dumpb(text, NULL, 0, JSON_ENCODE_ANY) : 0;
    json_decref(text);
    *bytes = escaped + ENTRY_BYTES + (uint64_t)(n_dims + 2) * (NUMBER_BYTES + 1);
    return escaped ? GLYD_OK : GLYD_E_NOMEM;
}

static glyd_status no_memory(const glyd_writer *writer, glyd_error *err)
{
    GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the header of %s", writer->out.path);
}

glyd_status glyd_writer_open(glyd_writer *writer, const char *path, uint64_t entries_bytes,
                             glyd_error *err)
{
    uint64_t start = GLYD_SAFETENSORS_LENGTH_BYTES + FRAME_BYTES + entries_bytes;
    start = (start + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;
    *writer =
        (glyd_writer){.out = {.fd = -1}, .header_bytes = start - GLYD_SAFETENSORS_LENGTH_BYTES};
    if (writer->header_bytes > GLYD_SAFETENSORS_HEADER_BYTES_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT,
                  "the header of %s would be over the format's limit: choose "
                  "smaller shards",
                  path);
    writer->header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    if (!writer->header)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the header of %s", path);
    return glyd_out_create(path, &writer->out, err);
}

static json_t *describe(glyd_dtype dtype, const glyd_shape *shape, uint64_t begin, uint64_t end)
{
    json_t *dims = json_array();
    for (int i = 0; dims && i < shape->n_dims; i++) {
        if (json_array_append_new(dims, json_integer(shape->dim[i])) != 0) {
            json_decref(dims);
            dims = NULL;
        }
    }
    if (!dims)
        return NULL;
    return json_pack("{s:s,s:o,s:[I,I]}", "dtype", glyd_dtype_name(dtype), "shape", dims,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

glyd_status glyd_writer_add(glyd_writer *writer, const char *name, glyd_dtype dtype,
                            const glyd_shape *shape, glyd_span data, glyd_error *err)
{
    if (json_object_get(writer->header, name))
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "two tensors would have the name %s in the save", name);
    json_t *entry = describe(dtype, shape, writer->at, writer->at + data.bytes);
    if (!entry || json_object_set_new(writer->header, name, entry) != 0)
        return no_memory(writer, err);
    uint64_t offset = GLYD_SAFETENSORS_LENGTH_BYTES + writer->header_bytes + writer->at;
    GLYD_TRY(glyd_out_write_at(&writer->out, offset, data.data, data.bytes, err));
    writer->at += data.bytes;
    return GLYD_OK;
}

glyd_status glyd_writer_commit(glyd_writer *writer, uint64_t *file_bytes,
                               char header_sha256[GLYD_SHA256_HEX_BYTES], glyd_error *err)
{
    glyd_buf head = {0};
    size_t bytes = GLYD_SAFETENSORS_LENGTH_BYTES + (size_t)writer->header_bytes;
    glyd_status status = glyd_buf_resize(&head, bytes);
    if (status != GLYD_OK) {
        status = no_memory(writer, err);
        goto done;
    }
    for (int i = 0; i < GLYD_SAFETENSORS_LENGTH_BYTES; i++)
        head.data[i] = (uint8_t)(writer->header_bytes >> (8 * i));
    char *text = (char *)head.data + GLYD_SAFETENSORS_LENGTH_BYTES;
    memset(text, ' ', (size_t)writer->header_bytes);
    size_t used = json_dumpb(writer->header, text, (size_t)writer->header_bytes, JSON_COMPACT);
    GLYD_ASSERT(used <= writer->header_bytes); /* the callers announced every entry */
    if (used == 0 || glyd_sha256_of(head.data, head.bytes, header_sha256) != GLYD_OK) {
        status = no_memory(writer, err);
        goto done;
    }
    GLYD_TRY_DONE(glyd_out_write_at(&writer->out, 0, head.data, head.bytes, err));
    *file_bytes = head.bytes + writer->at;
    status = glyd_out_commit(&writer->out, err);
done:
    glyd_buf_free(&head);
    return status;
}

void glyd_writer_drop(glyd_writer *writer)
{
    glyd_out_drop(&writer->out);
    json_decref(writer->header);
    writer->header = NULL;
}
