/* bench_decode.c - tokens a second of the engine, for a prompt and for the answer.
 *
 *   bench_decode FOLDER [--threads N] [--prompt N] [--tokens N] [--rounds N]
 *
 * Each round is a request with a prompt of its own (made-up ids, so that nothing is reused) and a
 * greedy answer that no stop id ends. Prints lines `id value unit`, medians of the rounds. With one
 * thread there are also figures a second of processor time: what the clock would say if nothing
 * else ran on the core.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "glyd/engine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 101, PROMPT_MAX = 4096 };

typedef struct options {
    const char *folder;
    int threads, prompt, tokens, rounds;
} options;

static void fail(const char *what)
{
    fprintf(stderr, "bench_decode: %s\n", what);
    exit(1);
}

static options parse(int argc, char **argv)
{
    options o = {.threads = 1, .prompt = 64, .tokens = 64, .rounds = 1};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (name[0] != '-') {
            o.folder = name;
            continue;
        }
        int value = i + 1 < argc ? (int)strtol(argv[++i], NULL, 10) : 0;
        if (!strcmp(name, "--threads"))
            o.threads = value;
        else if (!strcmp(name, "--prompt"))
            o.prompt = value;
        else if (!strcmp(name, "--tokens"))
            o.tokens = value;
        else if (!strcmp(name, "--rounds"))
            o.rounds = value;
        else
            fail("options: --threads N, --prompt N, --tokens N, --rounds N");
    }
    if (!o.folder || o.threads < 1 || o.prompt < 1 || o.prompt > PROMPT_MAX || o.tokens < 2 ||
        o.rounds < 1 || o.rounds > ROUNDS_MAX)
        fail("a folder is needed, and at least 1 thread, 1 prompt token, 2 tokens, 1 round");
    return o;
}

/* Processor time at the request's start, its first token and its last. */
typedef struct timing {
    clock_t start, first, last;
    int n_tokens;
} timing;

static void note_token(void *arg, const glyd_token *token)
{
    (void)token;
    timing *t = arg;
    t->last = clock();
    if (t->n_tokens++ == 0)
        t->first = t->last;
}

static glyd_result run_round(glyd_engine *engine, const options *o, int round, timing *t)
{
    static int32_t ids[PROMPT_MAX];
    uint32_t state = 12345u + (uint32_t)round;
    for (int i = 0; i < o->prompt; i++) {
        state = state * 1664525u + 1013904223u;
        ids[i] = (int32_t)((state >> 8) % (uint32_t)glyd_engine_describe(engine)->vocab);
    }
    glyd_request request = glyd_request_default(engine);
    request.ids = ids;
    request.n_ids = o->prompt;
    request.tokens_max = o->tokens;
    request.ignore_stop = true;
    request.sampling.temperature = 0;
    request.on_token = note_token;
    request.arg = t;
    *t = (timing){.start = clock()};
    glyd_ticket *ticket;
    glyd_result result;
    glyd_error err;
    if (glyd_engine_submit(engine, &request, &ticket, &err) != GLYD_OK)
        fail(err.text);
    glyd_ticket_wait(ticket, &result);
    glyd_ticket_free(ticket);
    if (result.finish == GLYD_FINISH_ERROR)
        fail(result.error.text);
    if (result.n_tokens != o->tokens)
        fail("the answer is shorter than asked for");
    return result;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

int main(int argc, char **argv)
{
    options o = parse(argc, argv);
    glyd_engine_options engine_options = glyd_engine_options_default(o.folder);
    engine_options.backend = GLYD_BACKEND_CPU;
    engine_options.n_threads = o.threads;
    engine_options.context = o.prompt + o.tokens + 1;
    glyd_engine *engine;
    glyd_error err;
    if (glyd_engine_open(&engine_options, &engine, &err) != GLYD_OK)
        fail(err.text);
    double prompt[ROUNDS_MAX], decode[ROUNDS_MAX], cpu_prompt[ROUNDS_MAX], cpu_decode[ROUNDS_MAX];
    timing t;
    (void)run_round(engine, &o, -1, &t); /* faults pages in */
    for (int round = 0; round < o.rounds; round++) {
        glyd_result r = run_round(engine, &o, round, &t);
        prompt[round] = o.prompt / r.prompt_s;
        decode[round] = (r.n_tokens - 1) / r.decode_s;
        cpu_prompt[round] = o.prompt * (double)CLOCKS_PER_SEC / (double)(t.first - t.start);
        cpu_decode[round] = (o.tokens - 1) * (double)CLOCKS_PER_SEC / (double)(t.last - t.first);
    }
    const glyd_engine_info *info = glyd_engine_describe(engine);
    printf("backend %s, %s weights\n", info->backend, glyd_layout_name(info->plan.layout));
    printf("run.prompt.t%d %.2f tokens/s\n", o.threads, median(prompt, o.rounds));
    printf("run.decode.t%d %.2f tokens/s\n", o.threads, median(decode, o.rounds));
    if (o.threads == 1) {
        printf("cpu.prompt.t1 %.2f tokens/s\n", median(cpu_prompt, o.rounds));
        printf("cpu.decode.t1 %.2f tokens/s\n", median(cpu_decode, o.rounds));
    }
    glyd_engine_close(engine);
    return 0;
}
