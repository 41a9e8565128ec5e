/* tiny_engine.h - an engine on the tiny model, prompts for it, and a place for each answer.
 *
 * For one source file of a test program: the folder it works on is a static.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TINY_ENGINE_H
#define GLYD_TINY_ENGINE_H

#include "glyd/engine.h"
#include "tiny_llama.h"
#include <unistd.h>

enum { ANSWER = 40 };

static char tiny_folder[] = "/tmp/glyd_test_engine_XXXXXX";

typedef struct answer {
    int32_t ids[TINY_CONTEXT];
    int n;
    glyd_ticket *ticket; /* cancelled at cancel_at tokens where that is not 0 */
    int cancel_at;
    int n_finished;
    glyd_result result;
} answer;

static inline void keep_token(void *arg, const glyd_token *token)
{
    answer *a = arg;
    a->ids[a->n++] = token->id;
    if (a->n == a->cancel_at)
        glyd_ticket_cancel(a->ticket);
}

static inline void keep_finish(void *arg, const glyd_result *result)
{
    answer *a = arg;
    a->n_finished++;
    a->result = *result;
}

static inline glyd_engine *open_engine(int n_threads, int chunk, int n_sequences, int64_t kv_tokens)
{
    glyd_engine_options options = glyd_engine_options_default(tiny_folder);
    glyd_engine *engine;
    glyd_error err;
    options.n_threads = n_threads;
    options.chunk_tokens = chunk;
    options.n_sequences = n_sequences;
    options.kv_tokens = kv_tokens;
    if (glyd_engine_open(&options, &engine, &err) != GLYD_OK)
        fail_msg("%s", err.text);
    return engine;
}

static inline void make_prompt(int index, int32_t *ids, int *n_ids)
{
    uint64_t state = 1000 + (uint64_t)index;
    *n_ids = 1 + index * 17;
    for (int i = 0; i < *n_ids; i++)
        ids[i] = (int32_t)(test_random(&state) % TINY_VOCAB);
}

static inline glyd_request request_for(const glyd_engine *engine, const int32_t *ids, int n_ids,
                                       answer *a)
{
    glyd_request r = glyd_request_default(engine);
    r.ids = ids;
    r.n_ids = n_ids;
    r.tokens_max = ANSWER;
    r.ignore_stop = true;
    r.arg = a;
    r.on_token = keep_token;
    r.on_finish = keep_finish;
    return r;
}

/* Prompt `index`; odd ones are drawn, even ones greedy. */
static inline void submit(glyd_engine *engine, int index, answer *a)
{
    int32_t ids[TINY_CONTEXT];
    int n_ids;
    glyd_error err;
    *a = (answer){0};
    make_prompt(index, ids, &n_ids);
    glyd_request r = request_for(engine, ids, n_ids, a);
    if (index % 2 == 1)
        r.sampling = (glyd_sampling){.temperature = 0.9,
                                     .top_k = 30,
                                     .top_p = 0.95,
                                     .repetition_penalty = 1.1,
                                     .seed = (uint64_t)index};
    if (glyd_engine_submit(engine, &r, &a->ticket, &err) != GLYD_OK)
        fail_msg("%s", err.text);
}

static inline void finish(answer *a)
{
    glyd_result result;
    glyd_ticket_wait(a->ticket, &result);
    glyd_ticket_free(a->ticket);
    assert_int_equal(a->n_finished, 1);
    assert_int_equal(a->result.finish, result.finish);
    assert_int_equal(result.n_tokens, a->n);
}

static inline void alone(int index, answer *a)
{
    glyd_engine *engine = open_engine(1, 64, 1, 0);
    submit(engine, index, a);
    finish(a);
    assert_int_equal(a->result.finish, GLYD_FINISH_LENGTH);
    assert_int_equal(a->n, ANSWER);
    glyd_engine_close(engine);
}

static inline void assert_same(const answer *a, const answer *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
}

static inline int tiny_folder_make(void **state)
{
    (void)state;
    if (!mkdtemp(tiny_folder))
        return -1;
    tiny_make(tiny_folder, false);
    return 0;
}

static inline int tiny_folder_remove(const char *folder)
{
    const char *names[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        char path[256];
        tiny_path(path, sizeof path, folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

#endif
