/* cmd_serve.c - glyd serve MODEL: the OpenAI API, for other programs.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/report.h"
#include "cli/serve_vllm.h"
#include "cli/serving.h"
#include "server/server.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    PARALLEL_MAX = 1024,
    DRAIN_S = 30,
};

static bool read_engine(const glyd_args *args, glyd_engine_options *options, glyd_layout *layout)
{
    const glyd_command *command = &glyd_cmd_serve;
    int64_t context = 0, parallel = 0, queue = GLYD_SERVING_QUEUE_MAX;
    if (!glyd_model_args(command, args, options, layout) ||
        !glyd_args_int(command, args, GLYD_OPTION_SERVE_CONTEXT, 1, INT32_MAX, &context) ||
        !glyd_args_int(command, args, GLYD_OPTION_PARALLEL, 1, PARALLEL_MAX, &parallel) ||
        !glyd_args_int(command, args, GLYD_OPTION_QUEUE, 1, 1 << 20, &queue))
        return false;
    options->context = (int)context;
    options->n_sequences = (int)parallel; /* 0: still to be chosen */
    options->queue_max = (int)queue;
    return true;
}

static void write_log(void *arg, const char *line)
{
    (void)arg;
    char at[32] = "";
    time_t now = time(NULL);
    struct tm tm;
    if (localtime_r(&now, &tm))
        strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S", &tm);
    fprintf(stderr, "%s %s\n", at, line);
}

static bool read_server(const glyd_args *args, glyd_server_options *options)
{
    int64_t port = options->port;
    if (!glyd_args_int(&glyd_cmd_serve, args, GLYD_OPTION_PORT, 0, 65535, &port))
        return false;
    options->port = (int)port;
    if (args->value[GLYD_OPTION_HOST])
        options->host = args->value[GLYD_OPTION_HOST];
    options->api_key = glyd_serving_key(args);
    options->served_names = args->value[GLYD_OPTION_SERVED_NAME];
    options->allowed_origins = args->value[GLYD_OPTION_ORIGINS];
    options->allowed_hosts = args->value[GLYD_OPTION_HOSTS];
    options->tool_format = args->value[GLYD_OPTION_TOOL_PARSER];
    options->reasoning_format = args->value[GLYD_OPTION_REASONING_PARSER];
    options->log_prompts = args->value[GLYD_OPTION_LOG_PROMPTS] != NULL;
    if (!args->value[GLYD_OPTION_QUIET_LOG])
        options->log = write_log;
    return true;
}

static void print_settings(const char *model, const glyd_server_info *server,
                           const glyd_engine_info *engine, const char *why)
{
    const glyd_plan *plan = &engine->plan;
    char weights[GLYD_SIZE_TEXT_BYTES], kv[GLYD_SIZE_TEXT_BYTES];
    fprintf(stderr,
            "%s: %s, %s %.2f bits, weights %s, context %d (%s), %d at once (KV %s, %lld tokens), "
            "tool calls %s, reasoning %s%s, %s, %d thread%s, %s\n",
            model, engine->family, glyd_layout_name(plan->layout), glyd_plan_bits(plan),
            glyd_size_text(plan->weight_bytes, weights), plan->context, why, plan->n_sequences,
            glyd_size_text(plan->kv_bytes, kv), (long long)plan->kv_tokens, server->tool_format,
            server->reasoning_format, server->has_template ? "" : ", no chat template",
            engine->backend, engine->n_threads, engine->n_threads == 1 ? "" : "s", server->address);
}

/* Wait for Ctrl-C or SIGTERM. All threads were started with these blocked. */
static void wait_for_end(const sigset_t *signals)
{
    int number;
    while (sigwait(signals, &number) != 0)
        ;
}

/* A second Ctrl-C while answers are being finished ends them. */
static void *cut_short(void *arg)
{
    const sigset_t *signals = arg;
    wait_for_end(signals);
    _Exit(GLYD_EXIT_FAILED);
}

static int serve(const glyd_server_options *options, glyd_engine *engine, const char *why,
                 int drain_s, sigset_t *signals)
{
    glyd_server *server = NULL;
    glyd_error error;
    if (glyd_server_start(options, engine, &server, &error) != GLYD_OK)
        return glyd_exit_of_error(&error);
    print_settings(options->folder, glyd_server_describe(server), glyd_engine_describe(engine),
                   why);
    wait_for_end(signals);
    pthread_t impatient;
    bool is_started = pthread_create(&impatient, NULL, cut_short, signals) == 0;
    fprintf(stderr, "finishing what runs, at most %d s; Ctrl-C again ends at once\n", drain_s);
    int n_cut = glyd_server_stop(server, drain_s);
    if (is_started) {
        pthread_cancel(impatient);
        pthread_join(impatient, NULL);
    }
    if (n_cut > 0)
        glyd_message("%d answer%s cut off after %d s", n_cut, n_cut == 1 ? " was" : "s were",
                     drain_s);
    return GLYD_EXIT_DONE;
}

static int run(const glyd_args *args)
{
    const char *folder = args->operand[0], *why;
    glyd_engine_options options = glyd_engine_options_default(folder);
    glyd_server_options server = glyd_server_options_default(folder);
    glyd_engine *engine = NULL;
    glyd_layout layout;
    glyd_error error;
    sigset_t signals;
    int64_t drain_s = DRAIN_S;
    if (glyd_serve_wants_vllm(args))
        return glyd_serve_vllm(&glyd_cmd_serve, args, glyd_serving_key(args));
    if (args->n_rest > 0) {
        glyd_message("%s: options of an engine follow -- only with --backend vllm", args->rest[0]);
        return GLYD_EXIT_USAGE;
    }
    if (!read_engine(args, &options, &layout) || !read_server(args, &server) ||
        !glyd_args_int(&glyd_cmd_serve, args, GLYD_OPTION_DRAIN, 0, 86400, &drain_s))
        return GLYD_EXIT_USAGE;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    glyd_serving_raise_file_limit();
    if (glyd_serving_choose(&options, &why, &error) != GLYD_OK ||
        glyd_engine_open(&options, &engine, &error) != GLYD_OK)
        return glyd_exit_of_error(&error);
    int code = serve(&server, engine, why, (int)drain_s, &signals);
    glyd_engine_close(engine);
    return code;
}

const glyd_command glyd_cmd_serve = {
    .name = "serve",
    .operands = "MODEL",
    .summary =
        "answer other programs: the OpenAI API over HTTP\n\n"
        "MODEL is a bf16 Hugging Face model folder or a glyd save. The API is at\n"
        "http://127.0.0.1:8000/v1; docs/SERVER.md lists what it answers. Ctrl-C ends it.\n"
        "With --backend vllm the server is vLLM's, and its options follow -- (docs/VLLM.md).",
    .n_operands = 1,
    .bit = GLYD_FOR_SERVE,
    .run = run,
};
