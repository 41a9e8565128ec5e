/* matrix.c - names of layouts and arrays, and the size of a matrix.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "glyd/codec.h"
#include <string.h>

static const char *const ARRAY_NAMES[GLYD_ARRAYS] = {
    [GLYD_ARRAY_SM] = "sm",           [GLYD_ARRAY_CODES] = "codes",
    [GLYD_ARRAY_BASES] = "bases",     [GLYD_ARRAY_ESCAPE_INDEX] = "escape_index",
    [GLYD_ARRAY_ESCAPES] = "escapes", [GLYD_ARRAY_ENTRIES] = "entries",
    [GLYD_ARRAY_TABLE] = "table",
};

static const char *const LAYOUT_NAMES[] = {
    [GLYD_LAYOUT_BF16] = "bf16",
    [GLYD_LAYOUT_MMA12] = "mma12",
    [GLYD_LAYOUT_MMA] = "mma",
};

enum { N_LAYOUTS = sizeof LAYOUT_NAMES / sizeof *LAYOUT_NAMES };

const char *glyd_array_name(glyd_array array)
{
    return (int)array >= 0 && (int)array < GLYD_ARRAYS ? ARRAY_NAMES[array] : NULL;
}

const char *glyd_layout_name(glyd_layout layout)
{
    return (int)layout >= 0 && (int)layout < N_LAYOUTS ? LAYOUT_NAMES[layout] : NULL;
}

glyd_status glyd_layout_from_name(const char *name, glyd_layout *layout)
{
    for (int i = 0; name && i < N_LAYOUTS; i++) {
        if (strcmp(name, LAYOUT_NAMES[i]) == 0) {
            *layout = (glyd_layout)i;
            return GLYD_OK;
        }
    }
    return GLYD_E_UNSUPPORTED;
}

size_t glyd_matrix_bytes(const glyd_matrix *m)
{
    size_t bytes = 0;
    for (int i = 0; i < GLYD_ARRAYS; i++)
        bytes += m->array[i].bytes;
    return bytes;
}
