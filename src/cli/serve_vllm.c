/* serve_vllm.c - glyd serve --backend vllm.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "cli/serve_vllm.h"
#include "cli/report.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIXED_MAX = 32 };

/* Those that are the same there. */
static const struct {
    glyd_option option;
    const char *name;
} passed[] = {
    {GLYD_OPTION_HOST, "--host"},
    {GLYD_OPTION_PORT, "--port"},
    {GLYD_OPTION_SERVE_CONTEXT, "--context"},
    {GLYD_OPTION_SERVED_NAME, "--served-model-name"},
    {GLYD_OPTION_PARALLEL, "--parallel"},
    {GLYD_OPTION_HOLD, "--layout"},
};

/* Those that are about glyd's own server. */
static const struct {
    glyd_option option;
    const char *name;
} refused[] = {
    {GLYD_OPTION_THREADS, "--threads"},
    {GLYD_OPTION_QUEUE, "--queue"},
    {GLYD_OPTION_DRAIN, "--drain"},
    {GLYD_OPTION_ORIGINS, "--allowed-origins"},
    {GLYD_OPTION_HOSTS, "--allowed-hosts"},
    {GLYD_OPTION_TOOL_PARSER, "--tool-call-parser"},
    {GLYD_OPTION_REASONING_PARSER, "--reasoning-parser"},
    {GLYD_OPTION_LOG_PROMPTS, "--log-prompts"},
    {GLYD_OPTION_QUIET_LOG, "--quiet"},
};

bool glyd_serve_wants_vllm(const glyd_args *args)
{
    const char *backend = args->value[GLYD_OPTION_BACKEND];
    return backend && strcmp(backend, "vllm") == 0;
}

/* Numbers are checked here, so that a slip is told as it is for glyd's own server. */
static bool check(const glyd_command *command, const glyd_args *args)
{
    int64_t number = 0;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (args->value[refused[i].option]) {
            glyd_message("%s: not with --backend vllm; vLLM's own options may follow --",
                         refused[i].name);
            return false;
        }
    }
    return glyd_args_int(command, args, GLYD_OPTION_PORT, 1, 65535, &number) &&
           glyd_args_int(command, args, GLYD_OPTION_SERVE_CONTEXT, 1, INT32_MAX, &number) &&
           glyd_args_int(command, args, GLYD_OPTION_PARALLEL, 1, INT32_MAX, &number);
}

int glyd_serve_vllm(const glyd_command *command, const glyd_args *args, const char *api_key)
{
    if (!check(command, args))
        return GLYD_EXIT_USAGE;
    const char *python = getenv("GLYD_PYTHON");
    python = python && python[0] ? python : "python3";
    const char **argv = calloc((size_t)args->n_rest + FIXED_MAX, sizeof *argv);
    if (!argv || (api_key && setenv("VLLM_API_KEY", api_key, 1) != 0)) {
        free(argv);
        glyd_message("out of memory");
        return GLYD_EXIT_FAILED;
    }
    int n = 0;
    argv[n++] = python;
    argv[n++] = "-m";
    argv[n++] = "glyd.vllm.serve";
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        if (args->value[passed[i].option]) {
            argv[n++] = passed[i].name;
            argv[n++] = args->value[passed[i].option];
        }
    }
    argv[n++] = args->operand[0];
    argv[n++] = "--";
    for (int i = 0; i < args->n_rest; i++)
        argv[n++] = args->rest[i];
    execvp(python, (char *const *)argv);
    glyd_message("%s: %s; GLYD_PYTHON names the Python that vLLM and glyd are installed for",
                 python, strerror(errno));
    free(argv);
    return GLYD_EXIT_FAILED;
}
