/* cmd_unpack.c - glyd unpack SAVE OUT
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/cmd_save.h"
#include "cli/commands.h"
#include "cli/report.h"

static int run(const glyd_args *args)
{
    glyd_bar bar;
    glyd_save_options options;
    if (!glyd_save_args(&glyd_cmd_unpack, args, "unpacking", &bar, &options))
        return GLYD_EXIT_USAGE;
    glyd_save_report report;
    glyd_error error;
    glyd_status status =
        glyd_save_unpack(args->operand[0], args->operand[1], &options, &report, &error);
    double seconds = glyd_bar_end(&bar);
    if (status != GLYD_OK)
        return glyd_exit_of_error(&error);
    return glyd_save_print(args, args->operand[1], &report, seconds);
}

const glyd_command glyd_cmd_unpack = {
    .name = "unpack",
    .operands = "SAVE OUT",
    .summary = "write the bf16 checkpoint that a save was made from\n\n"
               "OUT is a new folder: the weight files byte for byte as they were, and the files "
               "beside them.",
    .n_operands = 2,
    .bit = GLYD_FOR_UNPACK,
    .run = run,
};
