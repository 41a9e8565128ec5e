/* error.c - status texts, error texts, and the end of a program that has a bug.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *glyd_status_text(glyd_status status)
{
    switch (status) {
#define CASE(name, value, text)                                                                    \
    case GLYD_##name:                                                                              \
        return text;
        GLYD_STATUS_LIST(CASE)
#undef CASE
    }
    return "unknown status";
}

const char *glyd_version(void)
{
    return GLYD_VERSION;
}

static void one_line(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
    }
}

glyd_status glyd_error_set(glyd_error *err, glyd_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        one_line(err->text);
        err->status = status;
    }
    return status;
}

glyd_status glyd_error_prefix(glyd_error *err, glyd_status status, const char *format, ...)
{
    if (err && err->status == status) {
        char text[2 * GLYD_ERROR_TEXT_BYTES + 4];
        va_list args;
        va_start(args, format);
        vsnprintf(text, GLYD_ERROR_TEXT_BYTES, format, args);
        va_end(args);
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, ": %.*s", GLYD_ERROR_TEXT_BYTES - 1, err->text);
        one_line(text);
        memcpy(err->text, text, sizeof err->text);
        err->text[sizeof err->text - 1] = 0;
    }
    return status;
}

_Noreturn void glyd_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "glyd: bug at %s:%d: %s\n", file, line, expression);
    abort();
}
