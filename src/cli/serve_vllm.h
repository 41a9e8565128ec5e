/* serve_vllm.h - glyd serve --backend vllm: the server is vLLM's, with glyd as its plugin.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CLI_SERVE_VLLM_H
#define GLYD_CLI_SERVE_VLLM_H

#include "cli/options.h"

/* Whether it is asked for. */
bool glyd_serve_wants_vllm(const glyd_args *args);

/* Become `python3 -m glyd.vllm.serve` (another Python: the variable GLYD_PYTHON), which works the
 * settings out and becomes `vllm serve`. Returns an exit code where that fails. `api_key`: or
 * NULL; it goes into the environment, since command lines can be read by all. */
int glyd_serve_vllm(const glyd_command *command, const glyd_args *args, const char *api_key);

#endif
