/* cmd_save.h - what pack, verify and unpack share: options in, a report out.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CLI_CMD_SAVE_H
#define GLYD_CLI_CMD_SAVE_H

#include "cli/options.h"
#include "cli/progress.h"
#include "glyd/save.h"

/* Set the threads and start the bar. False: a message was printed. */
bool glyd_save_args(const glyd_command *command, const glyd_args *args, const char *verb,
                    glyd_bar *bar, glyd_save_options *options);

/* Print what was done, as text or JSON. `out` may be NULL. Returns the exit code. */
int glyd_save_print(const glyd_args *args, const char *out, const glyd_save_report *report,
                    double seconds);

#endif
