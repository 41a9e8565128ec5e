/* glyd_cancel_tool.c - how long a request goes on after it was cancelled, in milliseconds.
 *
 *     cancel_tool FOLDER THREADS ROUNDS
 *
 * A line a phase: its name, then the time of each round from glyd_ticket_cancel to on_finish.
 *   prompt             a long prompt is being read, alone
 *   prompt-beside      the same beside an answer
 *   answer             an answer is being made, alone
 *   answer-beside      the same beside a long prompt
 *   queue              a request waits while a long prompt is read
 * SPDX-License-Identifier: Apache-2.0
 */
#define _DEFAULT_SOURCE
#include "base/clock.h"
#include "glyd/engine.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A step of CHUNK tokens takes more than the 100 ms, a layer of it a small part of them. */
enum { LONG = 4000, SHORT = 4, WAIT_MS = 150, CHUNK = 128 };

typedef struct reply {
    atomic_int n_tokens;
    double finished_s;
    glyd_ticket *ticket;
    glyd_result result;
} reply;

static void count_token(void *arg, const glyd_token *token)
{
    (void)token;
    atomic_fetch_add(&((reply *)arg)->n_tokens, 1);
}

static void note_end(void *arg, const glyd_result *result)
{
    (void)result;
    ((reply *)arg)->finished_s = glyd_clock_s();
}

static void submit(glyd_engine *engine, int n_ids, uint32_t seed, reply *r)
{
    static int32_t ids[LONG];
    glyd_error err;
    *r = (reply){.finished_s = 0};
    for (int i = 0; i < n_ids; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (int32_t)((seed >> 8) % (uint32_t)glyd_engine_describe(engine)->vocab);
    }
    glyd_request request = glyd_request_default(engine);
    request.ids = ids;
    request.n_ids = n_ids;
    request.ignore_stop = true;
    request.arg = r;
    request.on_token = count_token;
    request.on_finish = note_end;
    if (glyd_engine_submit(engine, &request, &r->ticket, &err) != GLYD_OK) {
        fprintf(stderr, "cancel_tool: %s\n", err.text);
        exit(1);
    }
}

/* Cancel, and return how long it then took. */
static double cancel_ms(reply *r)
{
    double began_s = glyd_clock_s();
    glyd_ticket_cancel(r->ticket);
    glyd_ticket_wait(r->ticket, &r->result);
    glyd_ticket_free(r->ticket);
    if (r->result.finish != GLYD_FINISH_CANCELLED) {
        fprintf(stderr, "cancel_tool: it finished before it was cancelled\n");
        exit(1);
    }
    return 1e3 * (r->finished_s - began_s);
}

static void wait_for_tokens(reply *r, int n)
{
    while (atomic_load(&r->n_tokens) < n)
        usleep(1000);
}

/* Of a request that a long prompt, an answer or nothing runs beside. */
static double measure(glyd_engine *engine, int n_ids, int n_beside, int n_in_queue, uint32_t seed)
{
    reply r, beside, queued;
    if (n_beside > 0)
        submit(engine, n_beside, seed + 1, &beside);
    if (n_beside == SHORT)
        wait_for_tokens(&beside, 2);
    submit(engine, n_ids, seed, &r);
    if (n_ids == SHORT)
        wait_for_tokens(&r, 2);
    usleep(WAIT_MS * 1000);
    double ms;
    if (n_in_queue > 0) {
        submit(engine, n_in_queue, seed + 2, &queued);
        usleep(WAIT_MS * 100);
        ms = cancel_ms(&queued);
        (void)cancel_ms(&r);
    } else {
        ms = cancel_ms(&r);
    }
    if (n_beside > 0)
        (void)cancel_ms(&beside);
    return ms;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int n_sequences, n_ids, n_beside, n_in_queue;
    } phases[] = {
        {"prompt", 2, LONG, 0, 0},    {"prompt-beside", 2, LONG, SHORT, 0},
        {"answer", 2, SHORT, 0, 0},   {"answer-beside", 2, SHORT, LONG, 0},
        {"queue", 1, LONG, 0, SHORT},
    };
    if (argc != 4) {
        fprintf(stderr, "usage: cancel_tool FOLDER THREADS ROUNDS\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        glyd_engine_options options = glyd_engine_options_default(argv[1]);
        glyd_engine *engine;
        glyd_error err;
        options.n_threads = (int)strtol(argv[2], NULL, 10);
        options.n_sequences = phases[i].n_sequences;
        options.chunk_tokens = CHUNK;
        if (glyd_engine_open(&options, &engine, &err) != GLYD_OK) {
            fprintf(stderr, "cancel_tool: %s\n", err.text);
            return 1;
        }
        printf("%s", phases[i].name);
        for (int round = 0; round < (int)strtol(argv[3], NULL, 10); round++)
            printf(" %.2f", measure(engine, phases[i].n_ids, phases[i].n_beside,
                                    phases[i].n_in_queue, 1000u * (uint32_t)round));
        printf("\n");
        glyd_engine_close(engine);
    }
    return 0;
}
