/* buf.h - filling a glyd_buf.
 *
 * Every function leaves the buffer as it was when it fails (E_NOMEM).
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_BASE_BUF_H
#define GLYD_BASE_BUF_H

#include "glyd/base.h"

/* Make room for `bytes` more bytes after those in use. */
GLYD_MUST_CHECK glyd_status glyd_buf_reserve(glyd_buf *buf, size_t bytes);

/* Set the size in use; new bytes are not initialised. */
GLYD_MUST_CHECK glyd_status glyd_buf_resize(glyd_buf *buf, size_t bytes);

GLYD_MUST_CHECK glyd_status glyd_buf_append(glyd_buf *buf, const void *data, size_t bytes);

/* Append text without its terminator. */
GLYD_MUST_CHECK glyd_status glyd_buf_print(glyd_buf *buf, const char *format, ...)
    GLYD_PRINTF(2, 3);

/* Zero-terminate without counting the terminator, and return the text; NULL when out of memory. */
char *glyd_buf_text(glyd_buf *buf);

#endif
