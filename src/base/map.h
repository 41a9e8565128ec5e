/* map.h - a file mapped for reading.
 *
 * The mapping is private and read-only. A file that another program cuts short while it is mapped
 * makes reads fail with SIGBUS, as with every mapped file.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_BASE_MAP_H
#define GLYD_BASE_MAP_H

#include "glyd/base.h"

typedef struct glyd_map {
    glyd_span span;
} glyd_map;

/* Map the whole of a regular file; an empty file gives an empty span.
 * Errors: E_NOTFOUND, E_IO (not a regular file, not readable); the text names the path. */
GLYD_MUST_CHECK glyd_status glyd_map_open(const char *path, glyd_map *map, glyd_error *err);
void glyd_map_close(glyd_map *map);

/* Tell the system that bytes are needed no more; they stay readable. */
void glyd_map_drop(const glyd_map *map, size_t offset, size_t bytes);

/* Read a whole file of at most `bytes_max` bytes into `out`. Errors also: E_LIMIT. */
GLYD_MUST_CHECK glyd_status glyd_file_read(const char *path, size_t bytes_max, glyd_buf *out,
                                           glyd_error *err);

#endif
