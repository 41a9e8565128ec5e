/* staging.c - a new folder that gets its name only when everything in it is on the disk.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "save/staging.h"
#include "base/error.h"
#include "base/map.h"
#include <stdio.h>
#include <string.h>

enum {
    TRIES_MAX = 100, /* leftovers of killed processes that had the same number */
    COPY_BYTES = 1 << 20,
};

/* Split "PARENT/NAME", slashes at the end left out. */
static glyd_status split_path(const char *out, char parent[GLYD_PATH_BYTES], const char **name,
                              size_t *name_bytes, glyd_error *err)
{
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/')
        n--;
    size_t start = n;
    while (start > 0 && out[start - 1] != '/')
        start--;
    *name = out + start;
    *name_bytes = n - start;
    bool dots = (*name_bytes == 1 && out[start] == '.') ||
                (*name_bytes == 2 && out[start] == '.' && out[start + 1] == '.');
    if (*name_bytes == 0 || dots || n >= GLYD_PATH_BYTES)
        GLYD_FAIL(err, GLYD_E_ARG, "\"%.300s\" is no name for a new folder", out);
    size_t parent_bytes = start;
    while (parent_bytes > 1 && out[parent_bytes - 1] == '/')
        parent_bytes--;
    memcpy(parent, start ? out : ".", start ? parent_bytes : 1);
    parent[start ? parent_bytes : 1] = 0;
    return GLYD_OK;
}

static glyd_status check_place(const char *in, const char *parent, const char *out, glyd_error *err)
{
    if (glyd_fs_kind_of(out) != GLYD_FS_NONE || glyd_fs_is_link(out))
        GLYD_FAIL(err, GLYD_E_EXISTS, "%s exists: choose a new name, or remove it first", out);
    glyd_fs_kind kind = glyd_fs_kind_of(parent);
    if (kind != GLYD_FS_FOLDER)
        GLYD_FAIL(err, GLYD_E_NOTFOUND, "cannot create %s: %s %s", out, parent,
                  kind == GLYD_FS_NONE ? "does not exist" : "is not a folder");
    char real_in[GLYD_PATH_BYTES], real_parent[GLYD_PATH_BYTES];
    GLYD_TRY(glyd_fs_real(in, real_in, err));
    GLYD_TRY(glyd_fs_real(parent, real_parent, err));
    size_t n = strlen(real_in);
    if (strncmp(real_parent, real_in, n) == 0 && (real_parent[n] == 0 || real_parent[n] == '/'))
        GLYD_FAIL(err, GLYD_E_ARG, "%s lies inside %s: choose a place outside", out, in);
    return GLYD_OK;
}

glyd_status glyd_staging_open(glyd_staging *staging, const char *in, const char *out,
                              glyd_error *err)
{
    *staging = (glyd_staging){{0}, {0}};
    char parent[GLYD_PATH_BYTES], partial[GLYD_PATH_BYTES];
    const char *name = NULL;
    size_t name_bytes = 0;
    GLYD_TRY(split_path(out, parent, &name, &name_bytes, err));
    GLYD_TRY(check_place(in, parent, out, err));
    int n = snprintf(staging->name, GLYD_PATH_BYTES, "%s/%.*s", parent, (int)name_bytes, name);
    glyd_status status = GLYD_E_EXISTS;
    for (int i = 0; status == GLYD_E_EXISTS && i < TRIES_MAX; i++) {
        int m = snprintf(partial, GLYD_PATH_BYTES, "%s/.%.*s.partial-%ld%.*d", parent,
                         (int)name_bytes, name, glyd_fs_process_id(), i > 0 ? 2 : 0, i);
        if (n >= GLYD_PATH_BYTES || m >= GLYD_PATH_BYTES)
            GLYD_FAIL(err, GLYD_E_LIMIT, "the path %.200s... is too long", out);
        status = glyd_fs_make_folder(partial, err);
    }
    if (status == GLYD_OK)
        memcpy(staging->partial, partial, sizeof partial);
    return status;
}

glyd_status glyd_staging_copy(const glyd_staging *staging, const char *path, const char *name,
                              uint64_t *bytes, char sha256[GLYD_SHA256_HEX_BYTES], glyd_error *err)
{
    glyd_map map = {{NULL, 0}};
    glyd_out out = {.fd = -1};
    glyd_sha256 hash = {NULL};
    char copy[GLYD_PATH_BYTES];
    GLYD_TRY(glyd_map_open(path, &map, err));
    glyd_status status;
    GLYD_TRY_DONE(glyd_fs_join(copy, staging->partial, name, err));
    GLYD_TRY_DONE(glyd_out_create(copy, &out, err));
    status = glyd_sha256_start(&hash);
    for (size_t at = 0; status == GLYD_OK && at < map.span.bytes; at += COPY_BYTES) {
        size_t n = map.span.bytes - at < COPY_BYTES ? map.span.bytes - at : COPY_BYTES;
        status = glyd_sha256_update(&hash, map.span.data + at, n);
        if (status == GLYD_OK)
            GLYD_TRY_DONE(glyd_out_write(&out, map.span.data + at, n, err));
        glyd_map_drop(&map, at, n);
    }
    if (status == GLYD_OK)
        status = glyd_sha256_finish(&hash, sha256);
    if (status != GLYD_OK) {
        (void)glyd_error_set(err, status, "out of memory for the checksum of %s", path);
        goto done;
    }
    *bytes = map.span.bytes;
    status = glyd_out_commit(&out, err);
done:
    glyd_sha256_drop(&hash);
    glyd_out_drop(&out);
    glyd_map_close(&map);
    return status;
}

glyd_status glyd_staging_publish(glyd_staging *staging, glyd_error *err)
{
    GLYD_TRY(glyd_fs_publish_folder(staging->partial, staging->name, err));
    staging->partial[0] = 0;
    return GLYD_OK;
}

void glyd_staging_drop(glyd_staging *staging)
{
    if (staging->partial[0])
        glyd_fs_remove_folder(staging->partial);
    staging->partial[0] = 0;
}
