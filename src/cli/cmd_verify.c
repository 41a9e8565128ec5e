/* cmd_verify.c - glyd verify SAVE
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/cmd_save.h"
#include "cli/commands.h"
#include "cli/report.h"

static int run(const glyd_args *args)
{
    glyd_bar bar;
    glyd_save_options options;
    if (!glyd_save_args(&glyd_cmd_verify, args, "verifying", &bar, &options))
        return GLYD_EXIT_USAGE;
    glyd_save_report report;
    glyd_error error;
    glyd_status status = glyd_save_verify(args->operand[0], &options, &report, &error);
    double seconds = glyd_bar_end(&bar);
    if (status != GLYD_OK)
        return glyd_exit_of_error(&error);
    if (report.n_left_out)
        glyd_message("note: files in %s that are not part of the save: %llu", args->operand[0],
                     (unsigned long long)report.n_left_out);
    return glyd_save_print(args, NULL, &report, seconds);
}

const glyd_command glyd_cmd_verify = {
    .name = "verify",
    .operands = "SAVE",
    .summary = "decode every tensor of a save and compare its SHA-256\n\n"
               "Every other file is compared too. The first thing that is wrong is named, and "
               "exit code 3\nsays so.",
    .n_operands = 1,
    .bit = GLYD_FOR_VERIFY,
    .run = run,
};
