/* commands.h - the commands, one file each.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CLI_COMMANDS_H
#define GLYD_CLI_COMMANDS_H

#include "cli/options.h"

extern const glyd_command glyd_cmd_pack, glyd_cmd_verify, glyd_cmd_unpack, glyd_cmd_plan,
    glyd_cmd_run, glyd_cmd_serve, glyd_cmd_bench;

#endif
