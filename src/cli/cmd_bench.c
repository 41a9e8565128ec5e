/* cmd_bench.c - glyd bench MODEL: tokens a second, for one user and for many, and of a save beside
 * the same weights as bf16.
 *
 * 1. A round reads a prompt of its own for every user, no token drawn, and then answers the same
 *    prompts, which the prefix cache has: so prompts and answers are timed apart.
 * 2. Packed and bf16 take turns, round by round, in one process: what disturbs the machine disturbs
 *    both. Figures are medians of the rounds.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "base/error.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "glyd/engine.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ENGINES = 2, /* as the backend holds a model fastest, and as bf16 */
    USERS_MAX = 256,
    TOKENS_MAX = 1 << 16,
    ROUNDS_MAX = 99,
    READ_BYTES = 1 << 28,
    READS = 5,
};

typedef struct settings {
    int n_users[2], n_cases; /* how many users, in turn */
    int n_threads, n_prompt, n_answer, n_rounds;
} settings;

typedef struct figures {
    double prompt[ROUNDS_MAX], decode[ROUNDS_MAX]; /* tokens a second, a round each */
} figures;

/* One request of a round. */
typedef struct user {
    glyd_ticket *ticket;
    double first_s, last_s;
    int n_tokens;
} user;

typedef struct bench {
    settings settings;
    glyd_engine *engine[ENGINES];
    int n_engines;
    figures of[2][ENGINES]; /* of each case and engine */
    double read_rate;       /* bytes a second */
    user users[USERS_MAX];
    int32_t *ids; /* a prompt */
} bench;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --- rounds --- */

static void note_token(void *arg, const glyd_token *token)
{
    user *u = arg;
    (void)token;
    u->last_s = now_s();
    if (u->n_tokens++ == 0)
        u->first_s = u->last_s;
}

/* Made-up ids: the same for a seed. */
static void fill_prompt(bench *b, uint32_t seed, int vocab)
{
    for (int i = 0; i < b->settings.n_prompt; i++) {
        seed = seed * 1664525U + 1013904223U;
        b->ids[i] = (int32_t)((seed >> 8) % (uint32_t)vocab);
    }
}

/* Send every user's request and wait for all. */
static glyd_status ask_all(bench *b, glyd_engine *engine, int n_users, uint32_t seed,
                           int tokens_max, glyd_error *err)
{
    glyd_status status = GLYD_OK;
    int n_sent = 0;
    for (; n_sent < n_users && status == GLYD_OK; n_sent++) {
        user *u = &b->users[n_sent];
        *u = (user){0};
        fill_prompt(b, seed * USERS_MAX + (uint32_t)n_sent, glyd_engine_describe(engine)->vocab);
        glyd_request request = glyd_request_default(engine);
        request.ids = b->ids;
        request.n_ids = b->settings.n_prompt;
        request.tokens_max = tokens_max;
        request.ignore_stop = true;
        request.sampling = (glyd_sampling){.top_p = 1, .repetition_penalty = 1};
        request.arg = u;
        request.on_token = note_token;
        status = glyd_engine_submit(engine, &request, &u->ticket, err);
    }
    for (int i = 0; i < n_sent; i++) {
        glyd_result result;
        if (!b->users[i].ticket)
            continue;
        glyd_ticket_wait(b->users[i].ticket, &result);
        glyd_ticket_free(b->users[i].ticket);
        if (result.finish == GLYD_FINISH_ERROR && status == GLYD_OK) {
            *err = result.error;
            status = err->status;
        }
    }
    return status;
}

static glyd_status run_round(bench *b, glyd_engine *engine, int n_users, uint32_t seed,
                             double *prompt, double *decode, glyd_error *err)
{
    const settings *o = &b->settings;
    double began_s = now_s();
    GLYD_TRY(ask_all(b, engine, n_users, seed, 0, err));
    *prompt = n_users * (double)o->n_prompt / (now_s() - began_s);
    GLYD_TRY(ask_all(b, engine, n_users, seed, o->n_answer, err));
    /* From when all have begun; a user's tokens before that are not counted. */
    double first_s = 0, last_s = 0;
    for (int i = 0; i < n_users; i++) {
        first_s = b->users[i].first_s > first_s ? b->users[i].first_s : first_s;
        last_s = b->users[i].last_s > last_s ? b->users[i].last_s : last_s;
    }
    *decode = n_users * (double)(o->n_answer - 1) / (last_s - first_s);
    return GLYD_OK;
}

static glyd_status run_rounds(bench *b, glyd_error *err)
{
    double ignored;
    uint32_t seed = 1;
    for (int i = 0; i < b->n_engines; i++) /* pages are faulted in */
        GLYD_TRY(run_round(b, b->engine[i], 1, seed++, &ignored, &ignored, err));
    for (int c = 0; c < b->settings.n_cases; c++)
        for (int round = 0; round < b->settings.n_rounds; round++, seed++)
            for (int i = 0; i < b->n_engines; i++) {
                figures *f = &b->of[c][i];
                GLYD_TRY(run_round(b, b->engine[i], b->settings.n_users[c], seed, &f->prompt[round],
                                   &f->decode[round], err));
            }
    return GLYD_OK;
}

/* --- how fast memory is read --- */

typedef struct read_job {
    const uint64_t *words;
    int64_t n_each;
    atomic_ullong sum; /* so that the reads are not left out */
} read_job;

static void read_part(void *arg, int64_t task, int worker)
{
    read_job *job = arg;
    const uint64_t *words = job->words + task * job->n_each;
    uint64_t sum[8] = {0};
    (void)worker;
    for (int64_t i = 0; i < job->n_each; i += 8)
        for (int j = 0; j < 8; j++)
            sum[j] += words[i + j];
    for (int j = 0; j < 8; j++)
        atomic_fetch_add(&job->sum, sum[j]);
}

/* Bytes a second that all threads together read, the best of a few times. */
static glyd_status measure_reads(int n_threads, double *rate, glyd_error *err)
{
    glyd_pool *pool;
    const glyd_pool_options pool_options = {.n_threads = n_threads};
    const int64_t n_tasks = 64;
    GLYD_TRY(glyd_pool_create(&pool_options, &pool, err));
    uint64_t *words = malloc(READ_BYTES);
    if (!words) {
        glyd_pool_free(pool);
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for a test of %d bytes", READ_BYTES);
    }
    memset(words, 1, READ_BYTES);
    read_job job = {.words = words, .n_each = READ_BYTES / 8 / n_tasks};
    *rate = 0;
    for (int i = 0; i < READS; i++) {
        double began_s = now_s();
        glyd_pool_run(pool, n_tasks, read_part, &job);
        double now = READ_BYTES / (now_s() - began_s);
        *rate = now > *rate ? now : *rate;
    }
    free(words);
    glyd_pool_free(pool);
    return GLYD_OK;
}

/* --- the result --- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int n)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, (size_t)n * sizeof *values);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static int print_json(const bench *b)
{
    const settings *o = &b->settings;
    const glyd_engine_info *info = glyd_engine_describe(b->engine[0]);
    json_t *results = json_array();
    for (int c = 0; results && c < o->n_cases; c++)
        for (int i = 0; results && i < b->n_engines; i++) {
            const glyd_plan *plan = &glyd_engine_describe(b->engine[i])->plan;
            json_t *row = json_pack(
                "{s:i,s:s,s:I,s:f,s:f}", "parallel", o->n_users[c], "layout",
                glyd_layout_name(plan->layout), "weight_bytes", (json_int_t)plan->weight_bytes,
                "prompt_tokens_a_second", median(b->of[c][i].prompt, o->n_rounds),
                "decode_tokens_a_second", median(b->of[c][i].decode, o->n_rounds));
            if (json_array_append_new(results, row) != 0) {
                json_decref(results);
                results = NULL;
            }
        }
    return glyd_json_print(json_pack(
        "{s:s,s:s,s:i,s:i,s:i,s:i,s:f,s:o}", "family", info->family, "backend", info->backend,
        "threads", info->n_threads, "prompt_tokens", o->n_prompt, "answer_tokens", o->n_answer,
        "rounds", o->n_rounds, "read_bytes_a_second", b->read_rate, "results", results));
}

static void print_text(const bench *b, const char *model)
{
    const settings *o = &b->settings;
    const glyd_engine_info *info = glyd_engine_describe(b->engine[0]);
    char weights[GLYD_SIZE_TEXT_BYTES];
    printf("%s: %s, %s, %d thread%s; prompts of %d tokens, answers of %d, median of %d\n", model,
           info->family, info->backend, info->n_threads, info->n_threads == 1 ? "" : "s",
           o->n_prompt, o->n_answer, o->n_rounds);
    printf("parallel  layout  weights   prompt tokens/s  answer tokens/s  reads GB/s\n");
    for (int c = 0; c < o->n_cases; c++) {
        double prompt[ENGINES], decode[ENGINES];
        for (int i = 0; i < b->n_engines; i++) {
            const glyd_plan *plan = &glyd_engine_describe(b->engine[i])->plan;
            prompt[i] = median(b->of[c][i].prompt, o->n_rounds);
            decode[i] = median(b->of[c][i].decode, o->n_rounds);
            double steps = decode[i] / o->n_users[c]; /* each reads the weights once */
            printf("%8d  %-6s  %s  %15.2f  %15.2f  %10.2f\n", o->n_users[c],
                   glyd_layout_name(plan->layout), glyd_size_text(plan->weight_bytes, weights),
                   prompt[i], decode[i], 1e-9 * steps * (double)plan->weight_bytes);
        }
        if (b->n_engines == ENGINES)
            printf("%8d  packed against bf16  %12.2fx  %14.2fx\n", o->n_users[c],
                   prompt[0] / prompt[1], decode[0] / decode[1]);
    }
    printf("memory is read at %.2f GB/s\n", 1e-9 * b->read_rate);
}

/* --- the command --- */

static bool read_options(const glyd_args *args, settings *o)
{
    int64_t n_threads = 0, n_users = 0, n_prompt = 256, n_answer = 64, n_rounds = 3;
    const glyd_command *command = &glyd_cmd_bench;
    if (!glyd_args_int(command, args, GLYD_OPTION_THREADS, 1, 1024, &n_threads) ||
        !glyd_args_int(command, args, GLYD_OPTION_USERS, 1, USERS_MAX, &n_users) ||
        !glyd_args_int(command, args, GLYD_OPTION_PROMPT_TOKENS, 1, TOKENS_MAX, &n_prompt) ||
        !glyd_args_int(command, args, GLYD_OPTION_ANSWER_TOKENS, 2, TOKENS_MAX, &n_answer) ||
        !glyd_args_int(command, args, GLYD_OPTION_ROUNDS, 1, ROUNDS_MAX, &n_rounds))
        return false;
    *o = (settings){.n_users = {1, 8},
                    .n_cases = 2,
                    .n_threads = (int)n_threads,
                    .n_prompt = (int)n_prompt,
                    .n_answer = (int)n_answer,
                    .n_rounds = (int)n_rounds};
    if (n_users > 0) {
        o->n_users[0] = (int)n_users;
        o->n_cases = 1;
    }
    return true;
}

/* Open the model as it is held fastest and, where that is packed and there is memory, as bf16. */
static glyd_status open_engines(bench *b, const char *folder, glyd_error *err)
{
    const glyd_layout bf16 = GLYD_LAYOUT_BF16;
    const settings *o = &b->settings;
    glyd_engine_options options = glyd_engine_options_default(folder);
    options.n_threads = o->n_threads;
    options.n_sequences = o->n_users[o->n_cases - 1];
    options.context = o->n_prompt + o->n_answer;
    GLYD_TRY(glyd_engine_open(&options, &b->engine[b->n_engines], err));
    b->n_engines++;
    if (glyd_engine_describe(b->engine[0])->plan.layout == GLYD_LAYOUT_BF16)
        return GLYD_OK;
    options.layout = &bf16;
    glyd_status status = glyd_engine_open(&options, &b->engine[b->n_engines], err);
    if (status == GLYD_E_NOMEM) {
        glyd_message("no comparison with bf16: %s", err->text);
        return GLYD_OK;
    }
    b->n_engines += status == GLYD_OK;
    return status;
}

static glyd_status measure(bench *b, const char *folder, glyd_error *err)
{
    b->ids = calloc((size_t)b->settings.n_prompt, sizeof *b->ids);
    if (!b->ids)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for a prompt");
    GLYD_TRY(open_engines(b, folder, err));
    GLYD_TRY(measure_reads(b->settings.n_threads, &b->read_rate, err));
    return run_rounds(b, err);
}

static int run(const glyd_args *args)
{
    glyd_error error = {0};
    settings o;
    if (!read_options(args, &o))
        return GLYD_EXIT_USAGE;
    bench *b = calloc(1, sizeof *b);
    if (!b) {
        glyd_message("out of memory");
        return GLYD_EXIT_FAILED;
    }
    b->settings = o;
    int code = GLYD_EXIT_DONE;
    if (measure(b, args->operand[0], &error) != GLYD_OK)
        code = glyd_exit_of_error(&error);
    else if (args->value[GLYD_OPTION_JSON])
        code = print_json(b);
    else
        print_text(b, args->operand[0]);
    for (int i = 0; i < b->n_engines; i++)
        glyd_engine_close(b->engine[i]);
    free(b->ids);
    free(b);
    return code;
}

const glyd_command glyd_cmd_bench = {
    .name = "bench",
    .operands = "MODEL",
    .summary = "tokens a second, packed against bf16\n\n"
               "MODEL is a bf16 model folder or a glyd save. Of a save the same weights are timed "
               "as bf16\ntoo, unpacked in memory, in turn with the packed ones. Prompts are made "
               "up.",
    .n_operands = 1,
    .bit = GLYD_FOR_BENCH,
    .run = run,
};
