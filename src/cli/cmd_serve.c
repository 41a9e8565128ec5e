/* cmd_serve.c - glyd serve MODEL: the OpenAI API, for other programs.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/report.h"
#include "glyd/save.h"
#include "server/server.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum {
    PARALLEL_MAX = 1024,
    PARALLEL_USUAL = 4,
    QUEUE_MAX = 256,
    DRAIN_S = 30,
};

/* What a served model may take: of the memory that is available, the rest is for others. */
static const double memory_share = 0.8;

static bool read_engine(const glyd_args *args, glyd_engine_options *options, glyd_layout *layout)
{
    const glyd_command *command = &glyd_cmd_serve;
    int64_t context = 0, parallel = 0, queue = QUEUE_MAX;
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

static const char *key_of(const glyd_args *args)
{
    static const char *const variables[] = {"GLYD_API_KEY", "VLLM_API_KEY"};
    const char *key = args->value[GLYD_OPTION_API_KEY];
    for (size_t i = 0; !key && i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        key = value && value[0] ? value : NULL;
    }
    return key;
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
    options->api_key = key_of(args);
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

/* What was not given: the model's whole context, and several sequences. Where memory is short they
 * share less KV cache than each could fill, and only where it cannot hold one context is that made
 * shorter. */
static glyd_status choose(glyd_engine_options *options, const char **why, glyd_error *err)
{
    enum { CONTEXT_LEAST = 2048 };
    bool any_context = options->context == 0;
    glyd_save_plan machine = {0};
    glyd_plan plan;
    *why = any_context ? "the model's" : "as asked";
    if (options->n_sequences == 0)
        options->n_sequences = PARALLEL_USUAL;
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

/* Each connection takes a descriptor: allow as many as the system does. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* fewer connections, if it may not */
    }
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
    if (!read_engine(args, &options, &layout) || !read_server(args, &server) ||
        !glyd_args_int(&glyd_cmd_serve, args, GLYD_OPTION_DRAIN, 0, 86400, &drain_s))
        return GLYD_EXIT_USAGE;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    raise_file_limit();
    if (choose(&options, &why, &error) != GLYD_OK ||
        glyd_engine_open(&options, &engine, &error) != GLYD_OK)
        return glyd_exit_of_error(&error);
    int code = serve(&server, engine, why, (int)drain_s, &signals);
    glyd_engine_close(engine);
    return code;
}

const glyd_command glyd_cmd_serve = {
    .name = "serve",
    .operands = "MODEL",
    .summary = "answer other programs: the OpenAI API over HTTP\n\n"
               "MODEL is a bf16 Hugging Face model folder or a glyd save. The API is at\n"
               "http://127.0.0.1:8000/v1; docs/SERVER.md lists what it answers. Ctrl-C ends it.",
    .n_operands = 1,
    .bit = GLYD_FOR_SERVE,
    .run = run,
};
