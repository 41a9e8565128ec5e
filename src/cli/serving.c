/* serving.c - what the commands share that answer others over HTTP.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "cli/serving.h"
#include "glyd/save.h"
#include <stdlib.h>
#include <sys/resource.h>

enum { SEQUENCES_USUAL = 4 };

/* What a served model may take: of the memory that is available, the rest is for others. */
static const double memory_share = 0.8;

const char *glyd_serving_key(const glyd_args *args)
{
    static const char *const variables[] = {"GLYD_API_KEY", "VLLM_API_KEY"};
    const char *key = args->value[GLYD_OPTION_API_KEY];
    for (size_t i = 0; !key && i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        key = value && value[0] ? value : NULL;
    }
    return key;
}

glyd_status glyd_serving_choose(glyd_engine_options *options, const char **why, glyd_error *err)
{
    enum { CONTEXT_LEAST = 2048 };
    bool any_context = options->context == 0;
    glyd_save_plan machine = {0};
    glyd_plan plan;
    *why = any_context ? "the model's" : "as asked";
    if (options->n_sequences == 0)
        options->n_sequences = SEQUENCES_USUAL;
    glyd_status status = glyd_save_plan_make(options->folder, 0, &machine, err);
    if (status == GLYD_OK)
        status = glyd_engine_plan(options, &plan, err);
    if (status == GLYD_OK && any_context && plan.context_model > plan.context) {
        options->context = plan.context_model;
        status = glyd_engine_plan(options, &plan, err);
    }
    double memory = memory_share * (double)machine.memory_available; /* 0: not known */
    if (status != GLYD_OK || memory <= 0 || (double)plan.total_bytes <= memory)
        return status;
    double room = memory - (double)(plan.total_bytes - plan.kv_bytes);
    int64_t tokens = room > 0 ? (int64_t)(room / (double)plan.kv_token_bytes) : 0;
    if (tokens < plan.context && any_context && tokens >= CONTEXT_LEAST) {
        options->context = (int)tokens;
        *why = "what fits memory";
    }
    int context = options->context ? options->context : plan.context;
    options->kv_tokens =
        tokens > context ? tokens : context; /* the engine says if it is too much */
    return GLYD_OK;
}

glyd_status glyd_serving_beside(glyd_engine_options *options, glyd_error *err)
{
    glyd_save_plan machine = {0};
    glyd_plan plan;
    options->n_sequences = SEQUENCES_USUAL;
    options->queue_max = GLYD_SERVING_QUEUE_MAX;
    glyd_status status = glyd_save_plan_make(options->folder, 0, &machine, err);
    if (status == GLYD_OK)
        status = glyd_engine_plan(options, &plan, err);
    if (status != GLYD_OK)
        return status;
    double memory = memory_share * (double)machine.memory_available; /* 0: not known */
    options->kv_tokens = 2 * (int64_t)plan.context;
    status = glyd_engine_plan(options, &plan, err);
    if (status == GLYD_OK && memory > 0 && (double)plan.total_bytes > memory)
        options->kv_tokens = plan.context;
    return status;
}

/* Each connection takes a descriptor: allow as many as the system does. */
void glyd_serving_raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* fewer connections, if it may not */
    }
}
