/* model_options.h - options of the commands that run a model.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CLI_MODEL_OPTIONS_H
#define GLYD_CLI_MODEL_OPTIONS_H

#include "cli/options.h"
#include "glyd/engine.h"

/* Read --threads, --backend and --layout. `layout` is where options->layout points if one is asked
 * for. False: a message was printed. */
bool glyd_model_args(const glyd_command *command, const glyd_args *args,
                     glyd_engine_options *options, glyd_layout *layout);

#endif
