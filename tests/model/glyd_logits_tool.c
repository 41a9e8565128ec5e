/* glyd_logits_tool.c - what the model tests ask of the engine.
 *
 *     logits_tool logits FOLDER THREADS CHUNK       float32 logits of every position to stdout
 *     logits_tool hash FOLDER THREADS CHUNK         their SHA-256, a line a prompt
 *     logits_tool greedy FOLDER THREADS CHUNK N     N greedy tokens, a line a prompt
 *     logits_tool together FOLDER THREADS CHUNK N   the same with all prompts at once
 *     logits_tool logprobs FOLDER THREADS CHUNK N   index, id, log-probability, rank and the TOP
 *                                                   likeliest with theirs, a line a token, of
 *                                                   prompts and of N greedy tokens
 *     logits_tool pack FOLDER OUT LAYOUT
 *
 * Prompts are lines of token ids on stdin. Stop ids are drawn on past.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/logits.h"
#include "glyd/save.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPTS_MAX = 64, IDS_MAX = 65536, TOP = 5 };

typedef struct prompt {
    int32_t *ids;
    int n_ids;
    int32_t *answer;
    int n_answer;
    glyd_ticket *ticket;
} prompt;

/* Read a line of ids; false at the end of the input. */
static bool read_prompt(prompt *p)
{
    *p = (prompt){.ids = malloc(IDS_MAX * sizeof *p->ids)};
    int c = ' ', digits = 0;
    int32_t id = 0;
    while (p->ids && (c = getchar()) != EOF) {
        if (c >= '0' && c <= '9') {
            id = id * 10 + (c - '0');
            digits++;
            continue;
        }
        if (digits > 0 && p->n_ids < IDS_MAX)
            p->ids[p->n_ids++] = id;
        digits = id = 0;
        if (c == '\n')
            break;
    }
    if (p->n_ids > 0)
        return true;
    free(p->ids);
    return false;
}

static int fail(const glyd_error *err)
{
    fprintf(stderr, "logits_tool: %s\n", err->text);
    return 1;
}

static glyd_status write_logits(void *arg, const float *logits, int n, int vocab)
{
    size_t count = (size_t)n * (size_t)vocab;
    return fwrite(logits, sizeof *logits, count, arg) == count ? GLYD_OK : GLYD_E_IO;
}

static void keep_token(void *arg, const glyd_token *token)
{
    prompt *p = arg;
    p->answer[p->n_answer++] = token->id;
}

static int answer(glyd_engine *engine, prompt *prompts, int n, int n_tokens, bool together)
{
    glyd_error err;
    glyd_result result;
    for (int i = 0; i < n; i++) {
        prompt *p = &prompts[i];
        p->answer = calloc((size_t)n_tokens, sizeof *p->answer);
        glyd_request request = glyd_request_default(engine);
        request.ids = p->ids;
        request.n_ids = p->n_ids;
        request.tokens_max = n_tokens;
        request.sampling = (glyd_sampling){.top_p = 1, .repetition_penalty = 1};
        request.ignore_stop = true;
        request.arg = p;
        request.on_token = keep_token;
        if (!p->answer || glyd_engine_submit(engine, &request, &p->ticket, &err) != GLYD_OK)
            return fail(&err);
        if (!together)
            glyd_ticket_wait(p->ticket, NULL);
    }
    for (int i = 0; i < n; i++) {
        glyd_ticket_wait(prompts[i].ticket, &result);
        glyd_ticket_free(prompts[i].ticket);
        if (result.finish == GLYD_FINISH_ERROR)
            return fail(&result.error);
        for (int j = 0; j < prompts[i].n_answer; j++)
            printf("%d%c", prompts[i].answer[j], j + 1 < prompts[i].n_answer ? ' ' : '\n');
        free(prompts[i].answer);
    }
    return 0;
}

static int logits(glyd_engine *engine, const prompt *prompts, int n, bool hash)
{
    glyd_error err;
    char hex[GLYD_LOGITS_HASH_BYTES];
    for (int i = 0; i < n; i++) {
        const prompt *p = &prompts[i];
        glyd_status status =
            hash ? glyd_engine_logits_hash(engine, p->ids, p->n_ids, hex, &err)
                 : glyd_engine_logits(engine, p->ids, p->n_ids, write_logits, stdout, &err);
        if (status != GLYD_OK)
            return fail(&err);
        if (hash)
            printf("%s\n", hex);
    }
    return 0;
}

static void print_token(int index, const glyd_token *token)
{
    printf("%d %d %.17g %d", index, token->id, token->logprob, token->rank);
    for (int i = 0; i < token->n_top; i++)
        printf(" %d %.17g", token->top[i].id, token->top[i].logprob);
    printf("\n");
}

static void print_prompt_token(void *arg, int index, const glyd_token *token)
{
    (void)arg;
    print_token(index, token);
}

static void print_answer_token(void *arg, const glyd_token *token)
{
    prompt *p = arg;
    print_token(p->n_ids + p->n_answer++, token);
}

static int logprobs(glyd_engine *engine, prompt *prompts, int n, int n_tokens)
{
    glyd_error err;
    glyd_result result;
    for (int i = 0; i < n; i++) {
        prompt *p = &prompts[i];
        glyd_request request = glyd_request_default(engine);
        request.ids = p->ids;
        request.n_ids = p->n_ids;
        request.tokens_max = n_tokens;
        request.sampling.temperature = 0;
        request.n_logprobs = request.n_prompt_logprobs = TOP;
        request.ignore_stop = true;
        request.arg = p;
        request.on_prompt_token = print_prompt_token;
        request.on_token = print_answer_token;
        if (glyd_engine_submit(engine, &request, &p->ticket, &err) != GLYD_OK)
            return fail(&err);
        glyd_ticket_wait(p->ticket, &result);
        glyd_ticket_free(p->ticket);
        if (result.finish == GLYD_FINISH_ERROR)
            return fail(&result.error);
    }
    return 0;
}

static int pack(const char *folder, const char *out, const char *layout)
{
    glyd_error err;
    glyd_save_options options = {.n_threads = 1};
    if (glyd_layout_from_name(layout, &options.layout) != GLYD_OK)
        return 2;
    return glyd_save_pack(folder, out, &options, NULL, &err) == GLYD_OK ? 0 : fail(&err);
}

static int number(const char *text)
{
    return (int)strtol(text, NULL, 10);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(
            stderr,
            "usage: logits_tool logits|hash|greedy|together|logprobs FOLDER THREADS CHUNK [N]\n");
        return 2;
    }
    const char *mode = argv[1];
    if (strcmp(mode, "pack") == 0)
        return pack(argv[2], argv[3], argv[4]);
    bool together = strcmp(mode, "together") == 0;
    prompt prompts[PROMPTS_MAX];
    int n = 0, rc;
    while (n < PROMPTS_MAX && read_prompt(&prompts[n]))
        n++;
    glyd_engine_options options = glyd_engine_options_default(argv[2]);
    options.n_threads = number(argv[3]);
    options.chunk_tokens = number(argv[4]);
    if (together)
        options.n_sequences = n;
    glyd_engine *engine;
    glyd_error err;
    if (glyd_engine_open(&options, &engine, &err) != GLYD_OK)
        return fail(&err);
    if (strcmp(mode, "logits") == 0 || strcmp(mode, "hash") == 0)
        rc = logits(engine, prompts, n, mode[0] == 'h');
    else if (strcmp(mode, "logprobs") == 0)
        rc = logprobs(engine, prompts, n, argc > 5 ? number(argv[5]) : 16);
    else
        rc = answer(engine, prompts, n, argc > 5 ? number(argv[5]) : 16, together);
    glyd_engine_close(engine);
    for (int i = 0; i < n; i++)
        free(prompts[i].ids);
    return rc;
}
