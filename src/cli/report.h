/* report.h - what the program says: one line of error, sizes in GB, JSON.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CLI_REPORT_H
#define GLYD_CLI_REPORT_H

#include "glyd/status.h"
#include <jansson.h>
#include <stdint.h>

/* "glyd: TEXT" on stderr, one line. */
void glyd_message(const char *format, ...) GLYD_PRINTF(1, 2);

/* Print an error and give the exit code that belongs to it. */
int glyd_exit_of_error(const glyd_error *error);

enum { GLYD_SIZE_TEXT_BYTES = 32 };
/* Bytes as GB of 10^9 with three digits that count, such as "0.269 GB". Returns text. */
const char *glyd_size_text(uint64_t bytes, char text[GLYD_SIZE_TEXT_BYTES]);

/* Print a JSON object on stdout and free it; NULL: out of memory. Returns the exit code. */
int glyd_json_print(json_t *object);

#endif
