/* fs.h - folders, links, and writing files so that nothing half-written keeps its final name.
 *
 * A new file or folder is made under a temporary name, made durable, and renamed; a name that
 * exists is never replaced.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_BASE_FS_H
#define GLYD_BASE_FS_H

#include "glyd/base.h"
#include <stdbool.h>

enum { GLYD_PATH_BYTES = 4096 };

typedef enum glyd_fs_kind {
    GLYD_FS_NONE, /* nothing there, or not reachable */
    GLYD_FS_FILE,
    GLYD_FS_FOLDER,
    GLYD_FS_OTHER,
} glyd_fs_kind;

/* What a path leads to, links followed. */
glyd_fs_kind glyd_fs_kind_of(const char *path);
bool glyd_fs_is_link(const char *path);

/* "FOLDER/NAME" into path. Errors: E_LIMIT where it does not fit. */
GLYD_MUST_CHECK glyd_status glyd_fs_join(char path[GLYD_PATH_BYTES], const char *folder,
                                         const char *name, glyd_error *err);

/* The absolute path without links. Errors: E_NOTFOUND, E_IO. */
GLYD_MUST_CHECK glyd_status glyd_fs_real(const char *path, char real[GLYD_PATH_BYTES],
                                         glyd_error *err);

/* The path of a file of a model folder, which nothing else may lead out of: a link must stay below
 * the folder, or lead to the blobs of the Hugging Face cache that the folder is in.
 * Errors: E_NOTFOUND (no such file), E_FORMAT (a link to elsewhere, or to nothing), E_LIMIT. */
GLYD_MUST_CHECK glyd_status glyd_fs_member(const char *folder, const char *name,
                                           char path[GLYD_PATH_BYTES], glyd_error *err);

/* Names in a folder in byte order, "." and ".." left out. Free with glyd_fs_names_free. */
typedef struct glyd_fs_names {
    char **name;
    size_t n;
} glyd_fs_names;

GLYD_MUST_CHECK glyd_status glyd_fs_list(const char *folder, glyd_fs_names *names, glyd_error *err);
void glyd_fs_names_free(glyd_fs_names *names);

/* A file being written. */
typedef struct glyd_out {
    int fd; /* -1: closed */
    char path[GLYD_PATH_BYTES];
} glyd_out;

/* Create a file that must not exist. Errors: E_EXISTS, E_IO, E_NOSPACE. */
GLYD_MUST_CHECK glyd_status glyd_out_create(const char *path, glyd_out *out, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_out_write(glyd_out *out, const void *data, size_t bytes,
                                           glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_out_write_at(glyd_out *out, uint64_t offset, const void *data,
                                              size_t bytes, glyd_error *err);
/* Flush to the disk and close. */
GLYD_MUST_CHECK glyd_status glyd_out_commit(glyd_out *out, glyd_error *err);
void glyd_out_drop(glyd_out *out); /* close without a flush; closed already is allowed */

/* Make a folder that must not exist. Errors: E_EXISTS, E_IO, E_NOSPACE. */
GLYD_MUST_CHECK glyd_status glyd_fs_make_folder(const char *path, glyd_error *err);

/* Flush a folder's entries, then give it its final name, which must be free. */
GLYD_MUST_CHECK glyd_status glyd_fs_publish_folder(const char *path, const char *name,
                                                   glyd_error *err);

/* Remove a folder and the files in it, as far as possible; folders inside stay, and so it. */
void glyd_fs_remove_folder(const char *path);

/* A number that no other running process has. */
long glyd_fs_process_id(void);

/* Memory that this process could still take: what is free or easily freed, and no more than its
 * control group allows. 0 where the system does not say. */
uint64_t glyd_fs_memory_available(void);

#endif
