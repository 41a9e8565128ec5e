/* folder.h - a model folder with its tensors: a Hugging Face checkpoint or a glyd save.
 *
 * Opening maps the weight files and reads headers (and a save's manifest) only; no weight is
 * touched. A link inside the folder must lead to a file of the folder itself or, in the Hugging
 * Face cache, to the same repository's blobs; any other is refused by name.
 *
 * Ownership  tensors, names and spans live until glyd_folder_close.
 * Threads    reading from any number of threads.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SAVE_FOLDER_H
#define GLYD_SAVE_FOLDER_H

#include "base/fs.h"
#include "base/map.h"
#include "glyd/codec.h"
#include "save/safetensors.h"

#define GLYD_SINGLE_FILE "model.safetensors"
#define GLYD_INDEX_FILE  "model.safetensors.index.json"

typedef struct glyd_tensor {
    const char *name;
    glyd_dtype dtype; /* of the tensor as the checkpoint has it: BF16 where it is packed */
    glyd_shape shape;
    size_t shard;
    bool is_packed;
    glyd_span data;     /* the tensor's own bytes; empty where it is packed */
    glyd_matrix matrix; /* where it is packed: views of the shard, not yet through glyd_check */
    glyd_span crc;      /* where it is packed: checksums of the arrays' pieces */
} glyd_tensor;

typedef struct glyd_shard {
    char *file; /* name in the folder */
    glyd_map map;
    glyd_safetensors st;
} glyd_shard;

struct glyd_manifest;

typedef struct glyd_folder {
    char *path;
    glyd_shard *shard;
    size_t n_shards;
    glyd_tensor *tensor; /* in the order of the checkpoint's files and of their bytes */
    size_t n_tensors;
    const glyd_tensor **by_name;    /* n_tensors, sorted */
    struct glyd_manifest *manifest; /* NULL: a checkpoint */
} glyd_folder;

/* Errors: E_NOTFOUND where `path` is not a folder. */
GLYD_MUST_CHECK glyd_status glyd_folder_exists(const char *path, glyd_error *err);

/* Errors: E_NOTFOUND (no folder, no weights), E_UNSUPPORTED (another weight format, a save of
 * another tool), E_FORMAT, E_CORRUPT. */
GLYD_MUST_CHECK glyd_status glyd_folder_open(const char *path, glyd_folder **folder,
                                             glyd_error *err);
void glyd_folder_close(glyd_folder *folder); /* NULL is allowed */

/* NULL where there is no tensor of that name. */
const glyd_tensor *glyd_folder_tensor(const glyd_folder *folder, const char *name);

/* Whether a tensor holds bf16 values; E_UNSUPPORTED says what to do where it does not. */
GLYD_MUST_CHECK glyd_status glyd_tensor_need_bf16(const glyd_tensor *tensor, glyd_error *err);

/* A name that a file or a manifest gives for another file: a plain name of that folder, not a path,
 * not hidden. */
bool glyd_is_plain_name(const char *name);

#endif
