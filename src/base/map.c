/* map.c - reading files: mapped, or whole into a buffer.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "base/map.h"
#include "base/buf.h"
#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static glyd_status open_regular(const char *path, int *fd, size_t *bytes, glyd_error *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        GLYD_FAIL(err, errno == ENOENT || errno == ENOTDIR ? GLYD_E_NOTFOUND : GLYD_E_IO,
                  "cannot open %s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(*fd);
        GLYD_FAIL(err, GLYD_E_IO, "%s is not a regular file", path);
    }
    *bytes = (size_t)st.st_size;
    return GLYD_OK;
}

glyd_status glyd_map_open(const char *path, glyd_map *map, glyd_error *err)
{
    int fd;
    size_t bytes;
    GLYD_TRY(open_regular(path, &fd, &bytes, err));
    *map = (glyd_map){{NULL, 0}};
    if (bytes > 0) {
        void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            int e = errno;
            close(fd);
            GLYD_FAIL(err, e == ENOMEM ? GLYD_E_NOMEM : GLYD_E_IO, "cannot map %s: %s", path,
                      strerror(e));
        }
        map->span = (glyd_span){data, bytes};
    }
    close(fd);
    return GLYD_OK;
}

void glyd_map_close(glyd_map *map)
{
    if (map && map->span.data)
        munmap((void *)(uintptr_t)map->span.data, map->span.bytes);
    if (map)
        *map = (glyd_map){{NULL, 0}};
}

void glyd_map_drop(const glyd_map *map, size_t offset, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (offset >= map->span.bytes)
        return;
    if (bytes > map->span.bytes - offset)
        bytes = map->span.bytes - offset;
    size_t start = offset / page * page;
    madvise((void *)((uintptr_t)map->span.data + start), offset - start + bytes, MADV_DONTNEED);
}

glyd_status glyd_file_read(const char *path, size_t bytes_max, glyd_buf *out, glyd_error *err)
{
    int fd;
    size_t bytes;
    GLYD_TRY(open_regular(path, &fd, &bytes, err));
    glyd_status status = GLYD_OK;
    if (bytes > bytes_max)
        status = glyd_error_set(err, GLYD_E_LIMIT, "%s has %zu bytes; at most %zu are read", path,
                                bytes, bytes_max);
    else if (glyd_buf_resize(out, bytes) != GLYD_OK)
        status = glyd_error_set(err, GLYD_E_NOMEM, "out of memory for %s (%zu bytes)", path, bytes);
    for (size_t done = 0; status == GLYD_OK && done < bytes;) {
        ssize_t n = read(fd, out->data + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            status = glyd_error_set(err, GLYD_E_IO, "cannot read %s: %s", path,
                                    n < 0 ? strerror(errno) : "it became shorter");
        else
            done += (size_t)n;
    }
    close(fd);
    return status;
}
