/* buf.c - a growable byte buffer, aligned to 64 bytes so that vector code may load from it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

glyd_status glyd_buf_reserve(glyd_buf *buf, size_t bytes)
{
    if (bytes > SIZE_MAX - ALIGN - buf->bytes)
        return GLYD_E_NOMEM;
    size_t need = buf->bytes + bytes;
    if (need <= buf->capacity)
        return GLYD_OK;
    size_t capacity = buf->capacity < SIZE_MAX / 4 ? buf->capacity + buf->capacity / 2 : need;
    if (capacity < need)
        capacity = need;
    capacity = (capacity + ALIGN - 1) / ALIGN * ALIGN;
    uint8_t *data = aligned_alloc(ALIGN, capacity);
    if (!data)
        return GLYD_E_NOMEM;
    if (buf->bytes)
        memcpy(data, buf->data, buf->bytes);
    free(buf->data);
    buf->data = data;
    buf->capacity = capacity;
    return GLYD_OK;
}

glyd_status glyd_buf_resize(glyd_buf *buf, size_t bytes)
{
    if (bytes > buf->bytes) {
        glyd_status status = glyd_buf_reserve(buf, bytes - buf->bytes);
        if (status != GLYD_OK)
            return status;
    }
    buf->bytes = bytes;
    return GLYD_OK;
}

glyd_status glyd_buf_append(glyd_buf *buf, const void *data, size_t bytes)
{
    glyd_status status = glyd_buf_reserve(buf, bytes);
    if (status != GLYD_OK)
        return status;
    if (bytes)
        memcpy(buf->data + buf->bytes, data, bytes);
    buf->bytes += bytes;
    return GLYD_OK;
}

glyd_status glyd_buf_print(glyd_buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    glyd_status status = n < 0 ? GLYD_E_ARG : glyd_buf_reserve(buf, (size_t)n + 1);
    if (status == GLYD_OK) {
        vsnprintf((char *)buf->data + buf->bytes, (size_t)n + 1, format, again);
        buf->bytes += (size_t)n;
    }
    va_end(again);
    return status;
}

char *glyd_buf_text(glyd_buf *buf)
{
    if (glyd_buf_reserve(buf, 1) != GLYD_OK)
        return NULL;
    buf->data[buf->bytes] = 0;
    return (char *)buf->data;
}

void glyd_buf_free(glyd_buf *buf)
{
    if (!buf)
        return;
    free(buf->data);
    *buf = (glyd_buf){0};
}
