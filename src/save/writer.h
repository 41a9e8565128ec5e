/* writer.h - writing one safetensors file, arrays first, header last.
 *
 * Room for the header is kept at the start of the file and filled in when all offsets are known, so
 * nothing is held back in memory. The data begins at a multiple of 64 bytes.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SAVE_WRITER_H
#define GLYD_SAVE_WRITER_H

#include "base/fs.h"
#include "base/sha256.h"
#include "save/safetensors.h"

typedef struct glyd_writer {
    glyd_out out;
    json_t *header;
    uint64_t header_bytes; /* the room for it */
    uint64_t at;           /* bytes of data so far */
} glyd_writer;

/* Bytes that a header takes at most for one more entry of this name. */
GLYD_MUST_CHECK glyd_status glyd_writer_entry_bytes(const char *name, int n_dims, uint64_t *bytes);

/* Create the file. `entries_bytes`: the sum over all entries to come. Free with glyd_writer_drop
 * whatever happens. */
GLYD_MUST_CHECK glyd_status glyd_writer_open(glyd_writer *writer, const char *path,
                                             uint64_t entries_bytes, glyd_error *err);

/* Append a tensor. Its place is where the one before ended. */
GLYD_MUST_CHECK glyd_status glyd_writer_add(glyd_writer *writer, const char *name, glyd_dtype dtype,
                                            const glyd_shape *shape, glyd_span data,
                                            glyd_error *err);

/* Write the header, flush and close. Gives the file's size and the SHA-256 of length and header. */
GLYD_MUST_CHECK glyd_status glyd_writer_commit(glyd_writer *writer, uint64_t *file_bytes,
                                               char header_sha256[GLYD_SHA256_HEX_BYTES],
                                               glyd_error *err);
void glyd_writer_drop(glyd_writer *writer);

#endif
