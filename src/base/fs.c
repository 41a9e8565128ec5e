/* fs.c - folders, links, and writing files so that nothing half-written keeps its final name.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "base/fs.h"
#include "base/error.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One chunk of a write: large enough to cost nothing, small enough that a signal gets through. */
enum { WRITE_BYTES_MAX = 64 << 20 };

static glyd_status status_of_errno(int e)
{
    switch (e) {
    case EEXIST:
    case ENOTEMPTY:
        return GLYD_E_EXISTS;
    case ENOENT:
    case ENOTDIR:
        return GLYD_E_NOTFOUND;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return GLYD_E_NOSPACE;
    case ENOMEM:
        return GLYD_E_NOMEM;
    default:
        return GLYD_E_IO;
    }
}

static glyd_status fail_errno(glyd_error *err, const char *what, const char *path)
{
    int e = errno;
    return glyd_error_set(err, status_of_errno(e), "cannot %s %s: %s", what, path, strerror(e));
}

glyd_fs_kind glyd_fs_kind_of(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return GLYD_FS_NONE;
    return S_ISREG(st.st_mode)   ? GLYD_FS_FILE
           : S_ISDIR(st.st_mode) ? GLYD_FS_FOLDER
                                 : GLYD_FS_OTHER;
}

bool glyd_fs_is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

glyd_status glyd_fs_join(char path[GLYD_PATH_BYTES], const char *folder, const char *name,
                         glyd_error *err)
{
    int n = snprintf(path, GLYD_PATH_BYTES, "%s/%s", folder, name);
    if (n < 0 || n >= GLYD_PATH_BYTES)
        GLYD_FAIL(err, GLYD_E_LIMIT, "the path %.100s.../%.100s is too long", folder, name);
    return GLYD_OK;
}

glyd_status glyd_fs_real(const char *path, char real[GLYD_PATH_BYTES], glyd_error *err)
{
    char *found = realpath(path, NULL);
    if (!found)
        return fail_errno(err, "find", path);
    size_t n = strlen(found);
    if (n < GLYD_PATH_BYTES)
        memcpy(real, found, n + 1);
    free(found);
    if (n >= GLYD_PATH_BYTES)
        GLYD_FAIL(err, GLYD_E_LIMIT, "the path of %.200s is too long", path);
    return GLYD_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static glyd_status add_name(glyd_fs_names *names, size_t *capacity, const char *name)
{
    if (names->n == *capacity) {
        size_t more = *capacity ? 2 * *capacity : 32;
        char **grown = realloc(names->name, more * sizeof *grown);
        if (!grown)
            return GLYD_E_NOMEM;
        names->name = grown;
        *capacity = more;
    }
    names->name[names->n] = strdup(name);
    if (!names->name[names->n])
        return GLYD_E_NOMEM;
    names->n++;
    return GLYD_OK;
}

/* Whether `path` is a file somewhere below `folder`. */
static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* REPO/snapshots/REVISION -> REPO/blobs, the layout of the Hugging Face cache. */
static bool cache_blobs(const char *folder, char blobs[GLYD_PATH_BYTES])
{
    const char *revision = strrchr(folder, '/');
    static const char middle[] = "/snapshots";
    size_t n = revision ? (size_t)(revision - folder) : 0;
    if (n < sizeof middle || memcmp(revision - (sizeof middle - 1), middle, sizeof middle - 1) != 0)
        return false;
    n -= sizeof middle - 1;
    memcpy(blobs, folder, n);
    memcpy(blobs + n, "/blobs", sizeof "/blobs");
    return true;
}

static glyd_status check_link(const char *folder, const char *name, const char *path,
                              glyd_error *err)
{
    char real_folder[GLYD_PATH_BYTES], real[GLYD_PATH_BYTES], blobs[GLYD_PATH_BYTES];
    if (glyd_fs_kind_of(path) == GLYD_FS_NONE)
        GLYD_FAIL(err, GLYD_E_FORMAT,
                  "%s is a link that leads to nothing: download the model again", path);
    GLYD_TRY(glyd_fs_real(folder, real_folder, err));
    GLYD_TRY(glyd_fs_real(path, real, err));
    if (is_below(real, real_folder) || (cache_blobs(real_folder, blobs) && is_below(real, blobs)))
        return GLYD_OK;
    GLYD_FAIL(err, GLYD_E_FORMAT,
              "%s is a link to %s, outside of the model folder: put the file itself there", name,
              real);
}

glyd_status glyd_fs_member(const char *folder, const char *name, char path[GLYD_PATH_BYTES],
                           glyd_error *err)
{
    GLYD_TRY(glyd_fs_join(path, folder, name, err));
    if (glyd_fs_is_link(path))
        return check_link(folder, name, path, err);
    if (glyd_fs_kind_of(path) == GLYD_FS_NONE)
        GLYD_FAIL(err, GLYD_E_NOTFOUND, "%s has no %s", folder, name);
    return GLYD_OK;
}

glyd_status glyd_fs_list(const char *folder, glyd_fs_names *names, glyd_error *err)
{
    *names = (glyd_fs_names){0};
    DIR *dir = opendir(folder);
    if (!dir)
        return fail_errno(err, "list", folder);
    size_t capacity = 0;
    glyd_status status = GLYD_OK;
    for (struct dirent *entry; status == GLYD_OK && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = add_name(names, &capacity, entry->d_name);
    }
    closedir(dir);
    if (status != GLYD_OK) {
        glyd_fs_names_free(names);
        GLYD_FAIL(err, status, "out of memory for the names in %s", folder);
    }
    if (names->n > 1)
        qsort(names->name, names->n, sizeof *names->name, by_name);
    return GLYD_OK;
}

void glyd_fs_names_free(glyd_fs_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->name[i]);
    free(names->name);
    *names = (glyd_fs_names){0};
}

glyd_status glyd_out_create(const char *path, glyd_out *out, glyd_error *err)
{
    out->fd = -1;
    size_t n = strlen(path);
    if (n >= sizeof out->path)
        GLYD_FAIL(err, GLYD_E_LIMIT, "the path %.200s... is too long", path);
    memcpy(out->path, path, n + 1);
    out->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return out->fd < 0 ? fail_errno(err, "create", path) : GLYD_OK;
}

/* offset < 0: at the file's own position. */
static glyd_status write_all(glyd_out *out, int64_t offset, const void *data, size_t bytes,
                             glyd_error *err)
{
    const uint8_t *p = data;
    while (bytes > 0) {
        size_t chunk = bytes < WRITE_BYTES_MAX ? bytes : WRITE_BYTES_MAX;
        ssize_t n = offset < 0 ? write(out->fd, p, chunk) : pwrite(out->fd, p, chunk, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail_errno(err, "write", out->path);
        p += n;
        bytes -= (size_t)n;
        if (offset >= 0)
            offset += n;
    }
    return GLYD_OK;
}

glyd_status glyd_out_write(glyd_out *out, const void *data, size_t bytes, glyd_error *err)
{
    return write_all(out, -1, data, bytes, err);
}

glyd_status glyd_out_write_at(glyd_out *out, uint64_t offset, const void *data, size_t bytes,
                              glyd_error *err)
{
    return write_all(out, (int64_t)offset, data, bytes, err);
}

glyd_status glyd_out_commit(glyd_out *out, glyd_error *err)
{
    glyd_status status = fsync(out->fd) != 0 ? fail_errno(err, "write", out->path) : GLYD_OK;
    if (close(out->fd) != 0 && status == GLYD_OK)
        status = fail_errno(err, "write", out->path);
    out->fd = -1;
    return status;
}

void glyd_out_drop(glyd_out *out)
{
    if (out->fd >= 0)
        close(out->fd);
    out->fd = -1;
}

glyd_status glyd_fs_make_folder(const char *path, glyd_error *err)
{
    return mkdir(path, 0777) != 0 ? fail_errno(err, "create", path) : GLYD_OK;
}

/* Not every file system can flush a folder; those that cannot say EINVAL and need none. */
static glyd_status flush_folder(const char *path, glyd_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "open", path);
    glyd_status status = GLYD_OK;
    if (fsync(fd) != 0 && errno != EINVAL)
        status = fail_errno(err, "write", path);
    close(fd);
    return status;
}

glyd_status glyd_fs_publish_folder(const char *path, const char *name, glyd_error *err)
{
    GLYD_TRY(flush_folder(path, err));
    if (renameat2(AT_FDCWD, path, AT_FDCWD, name, RENAME_NOREPLACE) != 0) {
        if (errno != EINVAL && errno != ENOSYS)
            return fail_errno(err, "create", name);
        /* A file system without the flag: rename() replaces an empty folder only. */
        if (glyd_fs_kind_of(name) != GLYD_FS_NONE)
            GLYD_FAIL(err, GLYD_E_EXISTS, "cannot create %s: it exists", name);
        if (rename(path, name) != 0)
            return fail_errno(err, "create", name);
    }
    char parent[GLYD_PATH_BYTES];
    GLYD_TRY(glyd_fs_join(parent, name, "..", err));
    return flush_folder(parent, err);
}

void glyd_fs_remove_folder(const char *path)
{
    glyd_fs_names names;
    if (glyd_fs_list(path, &names, NULL) != GLYD_OK)
        return;
    char file[GLYD_PATH_BYTES];
    for (size_t i = 0; i < names.n; i++) {
        if (glyd_fs_join(file, path, names.name[i], NULL) == GLYD_OK)
            unlink(file);
    }
    glyd_fs_names_free(&names);
    rmdir(path);
}

long glyd_fs_process_id(void)
{
    return (long)getpid();
}

/* The first number of a small text file, after `label` where there is one. */
static bool read_number(const char *path, const char *label, uint64_t *value)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    char line[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        const char *text = line;
        if (label) {
            if (strncmp(line, label, strlen(label)) != 0)
                continue;
            text += strlen(label);
        }
        char *end;
        *value = strtoull(text, &end, 10);
        found = end != text;
    }
    fclose(file);
    return found;
}

uint64_t glyd_fs_memory_available(void)
{
    uint64_t available = 0, limit = 0, used = 0, inactive = 0;
    if (read_number("/proc/meminfo", "MemAvailable:", &available))
        available *= 1024;
    /* The group's file cache counts as used, but what of it is inactive can be freed. */
    if (read_number("/sys/fs/cgroup/memory.max", NULL, &limit) &&
        read_number("/sys/fs/cgroup/memory.current", NULL, &used)) {
        if (read_number("/sys/fs/cgroup/memory.stat", "inactive_file ", &inactive))
            used = used > inactive ? used - inactive : 0;
        uint64_t left = limit > used ? limit - used : 0;
        available = available == 0 || left < available ? left : available;
    }
    return available;
}
