/* manifest.h - glyd.json, the manifest of a save (docs/FORMAT.md, section 2).
 *
 * Parsing checks everything that can be checked without the other files: the format's name, the
 * manifest's own SHA-256, and that tensors, arrays and the checkpoint's headers agree.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SAVE_MANIFEST_H
#define GLYD_SAVE_MANIFEST_H

#include "base/sha256.h"
#include "save/folder.h"

#define GLYD_MANIFEST_FILE   "glyd.json"
#define GLYD_MANIFEST_FORMAT "glyd-1"

enum {
    GLYD_MANIFEST_BYTES_MAX = 256 << 20,
    GLYD_CRC_PIECE_BYTES = 16384, /* of an array, under one checksum */
};

typedef struct glyd_manifest_shard {
    const char *file;
    uint64_t bytes;
    const char *header_sha256; /* of the length and the header */
} glyd_manifest_shard;

typedef struct glyd_manifest_tensor {
    const char *name;
    glyd_dtype dtype;
    glyd_shape shape;
    const char *sha256;  /* of the tensor's bytes in the checkpoint */
    const char *same_as; /* the tensor that holds the same bytes, or NULL */
    bool is_packed;
    glyd_layout layout; /* where it is packed */
    int run_blocks;
    size_t shard;
    uint64_t array_bytes[GLYD_ARRAYS], crc_bytes;
} glyd_manifest_tensor;

typedef struct glyd_manifest_file {
    const char *file;
    uint64_t bytes;
    const char *sha256;
} glyd_manifest_file;

/* A weight file of the checkpoint: its header, from which unpack writes it again. */
typedef struct glyd_manifest_weights {
    const char *file;
    glyd_safetensors header;
} glyd_manifest_weights;

typedef struct glyd_manifest {
    json_t *root; /* owns the strings */
    const char *layout;
    glyd_manifest_shard *shard;
    size_t n_shards;
    glyd_manifest_tensor *tensor; /* in the order of the checkpoint's files and of their bytes */
    size_t n_tensors;
    glyd_manifest_weights *weights;
    size_t n_weights;
    glyd_manifest_file *file;
    size_t n_files;
} glyd_manifest;

/* Errors: E_FORMAT (no manifest, or another tool's), E_MISMATCH (changed since), E_CORRUPT. */
GLYD_MUST_CHECK glyd_status glyd_manifest_parse(glyd_span text, glyd_manifest **manifest,
                                                glyd_error *err);
void glyd_manifest_free(glyd_manifest *manifest); /* NULL is allowed */

/* Turn a manifest without its last member, "sha256", into the text of glyd.json: one tensor, shard
 * and file a line. */
GLYD_MUST_CHECK glyd_status glyd_manifest_write(const json_t *root, glyd_buf *text,
                                                glyd_error *err);

/* Fill a folder that has a manifest: parse it, map the shards, and check them against it. */
GLYD_MUST_CHECK glyd_status glyd_folder_open_save(glyd_folder *folder, glyd_error *err);

/* E_FORMAT where a folder is no save. */
GLYD_MUST_CHECK glyd_status glyd_folder_need_save(const glyd_folder *folder, glyd_error *err);

/* Map one more weight file of a folder. */
GLYD_MUST_CHECK glyd_status glyd_folder_add_shard(glyd_folder *folder, const char *file,
                                                  glyd_error *err);

/* Make glyd_folder_tensor work, once all tensors are there. */
GLYD_MUST_CHECK glyd_status glyd_folder_index_names(glyd_folder *folder, glyd_error *err);

/* Checksums of an array's pieces are found and made the same way by pack and verify. */
static inline uint64_t glyd_crc_pieces(uint64_t array_bytes)
{
    return (array_bytes + GLYD_CRC_PIECE_BYTES - 1) / GLYD_CRC_PIECE_BYTES;
}

#endif
