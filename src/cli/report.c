/* report.c - what the program says.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/report.h"
#include "cli/options.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void glyd_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("glyd: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

int glyd_exit_of_error(const glyd_error *error)
{
    glyd_message("%s", error->text);
    switch (error->status) {
    case GLYD_E_CORRUPT:
    case GLYD_E_FORMAT:
    case GLYD_E_MISMATCH:
        return GLYD_EXIT_CORRUPT;
    default:
        return GLYD_EXIT_FAILED;
    }
}

const char *glyd_size_text(uint64_t bytes, char text[GLYD_SIZE_TEXT_BYTES])
{
    double size = (double)bytes / 1e9;
    int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    for (double limit = 0.9995; decimals < 9 && size > 0 && size < limit; limit /= 10)
        decimals++;
    snprintf(text, GLYD_SIZE_TEXT_BYTES, "%.*f GB", decimals, size);
    return text;
}

int glyd_json_print(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(object);
    if (!text) {
        glyd_message("out of memory");
        return GLYD_EXIT_FAILED;
    }
    puts(text);
    free(text);
    return GLYD_EXIT_DONE;
}
