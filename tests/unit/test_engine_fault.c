/* test_engine_fault.c - allocations of an engine made to fail one by one: said so, and nothing
 * leaks; and while tokens run, nothing is allocated at all.
 *
 * failing_malloc.h has how; under sanitizers this test has nothing to test.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "failing_malloc.h"
#include "tiny_llama.h"

#include "glyd/engine.h"
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

static char folder[] = "/tmp/glyd_test_engine_fault_XXXXXX";

static glyd_status open_engine(glyd_engine **engine, glyd_error *err)
{
    glyd_engine_options options = glyd_engine_options_default(folder);
    options.n_threads = 2;
    options.n_sequences = 2;
    options.chunk_tokens = 5;
    options.kv_tokens = TINY_CONTEXT;
    return glyd_engine_open(&options, engine, err);
}

/* Each allocation of open in turn. One inside jansson may end as another status, or change nothing
 * that the engine looks at. */
static void test_open(void **state)
{
    (void)state;
    if (!OWN_MALLOC)
        skip();
    int n_out_of_memory = 0;
    for (long k = 0;; k++) {
        glyd_engine *engine;
        glyd_error err = {0};
        n_failed = 0;
        long live = n_live;
        fail_at = k;
        glyd_status status = open_engine(&engine, &err);
        fail_at = -1;
        if (status == GLYD_OK) {
            glyd_engine_close(engine);
        } else {
            assert_null(engine);
            assert_int_equal(err.status, status);
            assert_true(strlen(err.text) > 0);
            n_out_of_memory += status == GLYD_E_NOMEM;
        }
        /* The system keeps a stack and its book-keeping of a thread for the next one. */
        assert_true(k < 2 || n_live <= live + 1);
        if (n_failed == 0)
            break;
    }
    assert_true(n_out_of_memory > 50);
}

static void test_submit(void **state)
{
    (void)state;
    if (!OWN_MALLOC)
        skip();
    glyd_engine *engine;
    glyd_ticket *ticket;
    glyd_error err;
    char hex[GLYD_LOGITS_HASH_BYTES];
    int32_t id = 3;
    assert_ok(open_engine(&engine, &err));
    glyd_request request = glyd_request_default(engine);
    request.ids = &id;
    request.n_ids = 1;
    /* libcrypto does not get over a failure in its first use. */
    assert_ok(glyd_engine_logits_hash(engine, &id, 1, hex, &err));
    fail_at = 0;
    assert_int_equal(glyd_engine_submit(engine, &request, &ticket, &err), GLYD_E_NOMEM);
    int n_out_of_memory = 0;
    for (long k = 0; k < 8; k++) { /* libcrypto does without some of them */
        fail_at = k;
        glyd_status status = glyd_engine_logits_hash(engine, &id, 1, hex, &err);
        assert_true(status == GLYD_OK || status == GLYD_E_NOMEM);
        n_out_of_memory += status == GLYD_E_NOMEM;
    }
    assert_true(n_out_of_memory >= 2);
    fail_at = -1;
    assert_ok(glyd_engine_logits_hash(engine, &id, 1, hex, &err));
    glyd_engine_close(engine);
}

typedef struct tokens {
    long n_first, n_last; /* allocations of the program until the first and the last token */
    int n;
    sem_t *start; /* waited for at the first token; NULL: not */
} tokens;

static void on_token(void *arg, const glyd_token *token)
{
    tokens *t = arg;
    (void)token;
    if (t->start && t->n == 0)
        sem_wait(t->start);
    t->n_last = n_allocated;
    if (t->n++ == 0)
        t->n_first = n_allocated;
}

static void on_prompt_token(void *arg, int index, const glyd_token *token)
{
    (void)index;
    on_token(arg, token);
}

static bool allow_most(void *arg, uint64_t *allowed)
{
    (void)arg;
    allowed[0] &= ~(uint64_t)8;
    return true;
}

/* Of one request that asks for all there is, beside one whose pages it wants. */
static void test_nothing_is_allocated_while_tokens_run(void **state)
{
    (void)state;
    if (!OWN_MALLOC)
        skip();
    glyd_engine *engine;
    glyd_ticket *tickets[2];
    glyd_error err;
    glyd_stats stats;
    sem_t start;
    tokens t[2] = {{.start = &start}, {.start = NULL}};
    int32_t ids[30] = {1, 2, 3};
    const glyd_logit_bias bias = {5, 1};
    sem_init(&start, 0, 0);
    assert_ok(open_engine(&engine, &err));
    for (int i = 0; i < 2; i++) {
        glyd_request request = glyd_request_default(engine);
        request.ids = ids;
        request.n_ids = i ? 30 : 3;
        request.ignore_stop = true;
        request.sampling.temperature = 1;
        request.sampling.top_p = 0.9;
        request.sampling.frequency_penalty = 0.1;
        request.arg = &t[i];
        request.on_token = on_token;
        if (i) {
            request.sampling.repetition_penalty = 1.1;
            request.n_logprobs = request.n_prompt_logprobs = 20;
            request.logit_bias = &bias;
            request.n_logit_bias = 1;
            request.on_prompt_token = on_prompt_token;
            request.allow = allow_most;
        }
        assert_ok(glyd_engine_submit(engine, &request, &tickets[i], &err));
    }
    long n_submitted = n_allocated;
    sem_post(&start);
    for (int i = 0; i < 2; i++) {
        glyd_ticket_wait(tickets[i], NULL);
        glyd_ticket_free(tickets[i]);
        assert_true(t[i].n > 100);
        assert_true(t[i].n_last <= n_submitted);
    }
    assert_int_equal(t[1].n_last, n_submitted);
    glyd_engine_stats(engine, &stats);
    assert_true(stats.n_preemptions > 0);
    glyd_engine_close(engine);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    tiny_make(folder, false);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    const char *names[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        char path[256];
        tiny_path(path, sizeof path, folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_submit),
        cmocka_unit_test(test_nothing_is_allocated_while_tokens_run),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
