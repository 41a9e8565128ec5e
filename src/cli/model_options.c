/* model_options.c - options of the commands that run a model.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/model_options.h"
#include "cli/report.h"
#include <string.h>

enum { THREADS_MAX = 1024 };

static bool read_backend(const glyd_args *args, glyd_backend_kind *backend)
{
    const char *name = args->value[GLYD_OPTION_BACKEND];
    if (!name || strcmp(name, "auto") == 0)
        *backend = GLYD_BACKEND_AUTO;
    else if (strcmp(name, "cpu") == 0)
        *backend = GLYD_BACKEND_CPU;
    else {
        glyd_message("--backend %s: %s", name,
                     strcmp(name, "cuda") == 0   ? "it is not built yet; auto and cpu are"
                     : strcmp(name, "vllm") == 0 ? "it serves: glyd serve MODEL --backend vllm"
                                                 : "auto or cpu is needed");
        return false;
    }
    return true;
}

static bool read_layout(const glyd_args *args, glyd_engine_options *options, glyd_layout *layout)
{
    const char *name = args->value[GLYD_OPTION_HOLD];
    if (!name || strcmp(name, "auto") == 0)
        return true;
    if (glyd_layout_from_name(name, layout) != GLYD_OK) {
        glyd_message("--layout %s: auto, mma, mma12 or bf16 is needed", name);
        return false;
    }
    options->layout = layout;
    return true;
}

bool glyd_model_args(const glyd_command *command, const glyd_args *args,
                     glyd_engine_options *options, glyd_layout *layout)
{
    int64_t n_threads = 0;
    if (!glyd_args_int(command, args, GLYD_OPTION_THREADS, 1, THREADS_MAX, &n_threads) ||
        !read_backend(args, &options->backend) || !read_layout(args, options, layout))
        return false;
    options->n_threads = (int)n_threads;
    return true;
}
