/* test_engine.c - the public engine on a tiny model: requests, limits, finishes, invariance, plan.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _DEFAULT_SOURCE
#include "tiny_engine.h"
#include <pthread.h>

enum { PROMPTS = 6 };

static char damaged_folder[] = "/tmp/glyd_test_engine_XXXXXX";

static void test_together_is_alone(void **state)
{
    (void)state;
    static const struct {
        int n_threads, chunk, n_sequences;
        int64_t kv_tokens;
    } ways[] = {
        {1, 64, PROMPTS, 0},          {2, 3, 2, 0}, {3, 1, 4, 0}, {1, 200, 4, TINY_CONTEXT},
        {2, 16, 3, 2 * TINY_CONTEXT},
    };
    answer want[PROMPTS], have[PROMPTS];
    for (int i = 0; i < PROMPTS; i++)
        alone(i, &want[i]);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        glyd_engine *engine = open_engine(ways[way].n_threads, ways[way].chunk,
                                          ways[way].n_sequences, ways[way].kv_tokens);
        for (int i = 0; i < PROMPTS; i++)
            submit(engine, i, &have[i]);
        for (int i = 0; i < PROMPTS; i++) {
            finish(&have[i]);
            assert_same(&have[i], &want[i]);
        }
        glyd_engine_close(engine);
    }
}

static void test_reuse_is_fresh(void **state)
{
    (void)state;
    answer first, second, fresh;
    int32_t ids[TINY_CONTEXT];
    int n_ids;
    glyd_error err;
    glyd_engine *engine = open_engine(1, 64, 1, 0);
    submit(engine, 2, &first);
    finish(&first);
    assert_int_equal(first.result.n_reused, 0);
    make_prompt(2, ids, &n_ids);
    memcpy(ids + n_ids, first.ids, 20 * sizeof *ids); /* as a conversation goes on */
    ids[n_ids + 20] = 7;
    for (int i = 0; i < 2; i++) {
        answer *a = i ? &fresh : &second;
        *a = (answer){0};
        glyd_request r = request_for(engine, ids, n_ids + 21, a);
        assert_ok(glyd_engine_submit(engine, &r, &a->ticket, &err));
        finish(a);
        assert_int_equal(a->result.n_reused, i ? 0 : n_ids + 20 + (first.ids[20] == 7));
        glyd_engine_close(engine);
        if (!i)
            engine = open_engine(1, 64, 1, 0);
    }
    assert_same(&second, &fresh);
}

static void test_hash(void **state)
{
    (void)state;
    char want[GLYD_LOGITS_HASH_BYTES], have[GLYD_LOGITS_HASH_BYTES];
    int32_t ids[TINY_CONTEXT];
    int n_ids;
    glyd_error err;
    make_prompt(5, ids, &n_ids);
    glyd_engine *engine = open_engine(1, 64, 1, 0);
    assert_ok(glyd_engine_logits_hash(engine, ids, n_ids, want, &err));
    assert_int_equal(strlen(want), 64);
    ids[0]++;
    assert_ok(glyd_engine_logits_hash(engine, ids, n_ids, have, &err));
    assert_string_not_equal(want, have);
    ids[0]--;
    glyd_engine_close(engine);
    for (int chunk = 1; chunk < 30; chunk += 7) {
        engine = open_engine(2, chunk, 3, 0);
        for (int i = 0; i < 2; i++) {
            assert_ok(glyd_engine_logits_hash(engine, ids, n_ids, have, &err));
            assert_string_equal(want, have);
        }
        glyd_engine_close(engine);
    }
}

static void test_finishes(void **state)
{
    (void)state;
    answer a, want;
    int32_t ids[TINY_CONTEXT];
    int n_ids;
    glyd_error err;
    alone(4, &want);
    glyd_engine *engine = open_engine(1, 64, 1, 0);
    make_prompt(4, ids, &n_ids);

    /* A stop id of the request: the first one that the answer has. */
    a = (answer){0};
    int32_t stops[2] = {63, want.ids[5]};
    int n_before = 0;
    while (want.ids[n_before] != stops[0] && want.ids[n_before] != stops[1])
        n_before++;
    glyd_request r = request_for(engine, ids, n_ids, &a);
    r.stop_ids = stops;
    r.n_stop_ids = 2;
    assert_ok(glyd_engine_submit(engine, &r, &a.ticket, &err));
    finish(&a);
    assert_int_equal(a.result.finish, GLYD_FINISH_STOP);
    assert_int_equal(a.result.stop_id, want.ids[n_before]);
    assert_int_equal(a.n, n_before);

    /* The context. */
    a = (answer){0};
    r = request_for(engine, ids, n_ids, &a);
    r.tokens_max = -1;
    assert_ok(glyd_engine_submit(engine, &r, &a.ticket, &err));
    finish(&a);
    assert_int_equal(a.result.finish, GLYD_FINISH_CONTEXT);
    assert_int_equal(a.n, TINY_CONTEXT - n_ids);

    /* A prompt of all but one token leaves room for one. */
    int32_t longest[TINY_CONTEXT] = {0};
    a = (answer){0};
    r = request_for(engine, longest, TINY_CONTEXT - 1, &a);
    assert_ok(glyd_engine_submit(engine, &r, &a.ticket, &err));
    finish(&a);
    assert_int_equal(a.result.finish, GLYD_FINISH_CONTEXT);
    assert_int_equal(a.n, 1);
    glyd_engine_close(engine);
    assert_string_equal(glyd_finish_name(GLYD_FINISH_STOP), "stop");
    assert_string_equal(glyd_finish_name(GLYD_FINISH_ERROR), "error");
}

static void *cancel_soon(void *arg)
{
    usleep(2000);
    glyd_ticket_cancel(arg);
    return NULL;
}

static void test_cancel(void **state)
{
    (void)state;
    answer a = {.cancel_at = 3}, b, c;
    int32_t ids[1] = {5};
    glyd_error err;
    glyd_engine *engine = open_engine(1, 64, 1, 0);

    /* From the callback: no token comes after it. */
    glyd_request r = request_for(engine, ids, 1, &a);
    pthread_t thread;
    assert_ok(glyd_engine_submit(engine, &r, &a.ticket, &err));
    finish(&a);
    assert_int_equal(a.result.finish, GLYD_FINISH_CANCELLED);
    assert_int_equal(a.n, 3);

    /* From another thread, running and waiting; then the engine goes on. */
    a = (answer){0}, b = (answer){0};
    r = request_for(engine, ids, 1, &a);
    r.tokens_max = -1;
    assert_ok(glyd_engine_submit(engine, &r, &a.ticket, &err));
    r.arg = &b;
    assert_ok(glyd_engine_submit(engine, &r, &b.ticket, &err));
    glyd_ticket_cancel(b.ticket);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, a.ticket), 0);
    glyd_ticket_wait(a.ticket, NULL);
    pthread_join(thread, NULL);
    finish(&b);
    assert_int_equal(b.result.finish, GLYD_FINISH_CANCELLED);
    finish(&a);
    alone(0, &a);
    submit(engine, 0, &b);
    finish(&b);
    assert_same(&a, &b);

    /* By closing: tickets live on. */
    c = (answer){0};
    r.arg = &c;
    assert_ok(glyd_engine_submit(engine, &r, &c.ticket, &err));
    glyd_engine_close(engine);
    finish(&c);
    assert_true(c.result.finish == GLYD_FINISH_CANCELLED || c.n == TINY_CONTEXT - 1);
}

static void refuse(glyd_engine *engine, const glyd_request *r, glyd_status status, const char *a,
                   const char *b)
{
    glyd_ticket *ticket;
    glyd_error err;
    assert_int_equal(glyd_engine_submit(engine, r, &ticket, &err), status);
    assert_non_null(strstr(err.text, a));
    assert_non_null(strstr(err.text, b));
}

static void test_refused_requests(void **state)
{
    (void)state;
    int32_t ids[300] = {0};
    char hex[GLYD_LOGITS_HASH_BYTES];
    glyd_error err;
    glyd_engine *engine = open_engine(1, 64, 1, 0);
    glyd_request r = glyd_request_default(engine);
    r.ids = ids;
    r.n_ids = 200;
    refuse(engine, &r, GLYD_E_LIMIT, "200", "160");
    r.n_ids = TINY_CONTEXT;
    refuse(engine, &r, GLYD_E_LIMIT, "160", "context");
    r.n_ids = 0;
    refuse(engine, &r, GLYD_E_ARG, "empty", "prompt");
    r.n_ids = 3;
    ids[2] = TINY_VOCAB;
    refuse(engine, &r, GLYD_E_ARG, "64", "vocabulary");
    ids[2] = -1;
    refuse(engine, &r, GLYD_E_ARG, "-1", "token 2");
    ids[2] = 0;
    r.sampling.top_p = 0;
    refuse(engine, &r, GLYD_E_ARG, "top-p", "0");
    r.sampling.top_p = 1;
    r.tokens_max = -2;
    refuse(engine, &r, GLYD_E_ARG, "-2", "tokens");
    assert_int_equal(glyd_engine_logits_hash(engine, ids, 161, hex, &err), GLYD_E_LIMIT);
    glyd_engine_close(engine);
}

static void refuse_open(glyd_engine_options options, glyd_status status, const char *text)
{
    glyd_engine *engine;
    glyd_plan plan;
    glyd_error err, plan_err;
    assert_int_equal(glyd_engine_open(&options, &engine, &err), status);
    assert_null(engine);
    assert_non_null(strstr(err.text, text));
    assert_int_equal(glyd_engine_plan(&options, &plan, &plan_err), status);
    assert_string_equal(err.text, plan_err.text);
}

static void test_refused_options(void **state)
{
    (void)state;
    const glyd_engine_options usual = glyd_engine_options_default(tiny_folder);
    glyd_engine_options o = usual;
    o.context = 161, refuse_open(o, GLYD_E_LIMIT, "161");
    o.context = -1, refuse_open(o, GLYD_E_ARG, "context");
    o = usual, o.n_sequences = 0, refuse_open(o, GLYD_E_ARG, "sequences");
    o = usual, o.chunk_tokens = 0, refuse_open(o, GLYD_E_ARG, "chunk");
    const glyd_layout unknown = (glyd_layout)55;
    o = usual, o.layout = &unknown, refuse_open(o, GLYD_E_ARG, "no layout 55");
    o = usual, o.n_threads = -1, refuse_open(o, GLYD_E_ARG, "threads");
    o = usual, o.kv_tokens = 100, refuse_open(o, GLYD_E_LIMIT, "100");
    o = usual, o.backend = GLYD_BACKEND_CUDA, refuse_open(o, GLYD_E_UNSUPPORTED, "backend");
    o = usual, o.folder = "/nowhere", refuse_open(o, GLYD_E_NOTFOUND, "/nowhere");
}

static void test_plan(void **state)
{
    (void)state;
    glyd_engine_options o = glyd_engine_options_default(tiny_folder);
    glyd_plan plan, more;
    glyd_error err;
    long n_weights = 0;
    tiny_tensor t[TINY_TENSORS];
    for (int i = 0, n = tiny_tensors(t); i < n; i++)
        n_weights += tiny_count(&t[i]);
    assert_ok(glyd_engine_plan(&o, &plan, &err));
    assert_int_equal(plan.layout, GLYD_LAYOUT_BF16);
    assert_int_equal(plan.n_weights, n_weights);
    assert_int_equal(plan.weight_bytes, 2 * n_weights);
    assert_int_equal(plan.context, TINY_CONTEXT);
    assert_int_equal(plan.context_model, TINY_CONTEXT);
    assert_int_equal(plan.kv_tokens, TINY_CONTEXT);
    /* A key of 8 floats and a value of 8, kept as 16, of 2 heads in 2 layers. */
    assert_int_equal(plan.kv_token_bytes, 2 * 2 * (8 + 16) * 4);
    assert_int_equal(plan.kv_bytes, plan.kv_token_bytes * TINY_CONTEXT);
    assert_int_equal(plan.total_bytes, plan.weight_bytes + plan.kv_bytes + plan.scratch_bytes);
    o.n_sequences = 3;
    o.context = 50; /* two pages */
    assert_ok(glyd_engine_plan(&o, &more, &err));
    assert_int_equal(more.context, 50);
    assert_int_equal(more.kv_tokens, 3 * 64);
    assert_int_equal(more.kv_bytes, 3 * 64 * more.kv_token_bytes);

    glyd_engine *engine = open_engine(1, 64, 1, 0);
    const glyd_engine_info *info = glyd_engine_describe(engine);
    assert_int_equal(info->plan.kv_bytes, plan.kv_bytes);
    assert_string_equal(info->family, "llama");
    assert_int_equal(info->vocab, TINY_VOCAB);
    assert_int_equal(info->n_threads, 1);
    assert_int_equal(info->n_stop_ids, 1);
    assert_int_equal(info->stop_ids[0], TINY_STOP);
    glyd_engine_close(engine);
}

static void test_damaged_weights(void **state)
{
    (void)state;
    glyd_engine_options o = glyd_engine_options_default(damaged_folder);
    glyd_engine *engine;
    glyd_error err;
    answer a = {0};
    int32_t ids[2] = {3, 4};
    assert_ok(glyd_engine_open(&o, &engine, &err));
    glyd_request r = request_for(engine, ids, 2, &a);
    assert_ok(glyd_engine_submit(engine, &r, &a.ticket, &err));
    finish(&a);
    assert_int_equal(a.result.finish, GLYD_FINISH_ERROR);
    assert_int_equal(a.result.error.status, GLYD_E_CORRUPT);
    assert_non_null(strstr(a.result.error.text, "glyd verify"));
    glyd_engine_close(engine);
}

static int make_folders(void **state)
{
    if (!mkdtemp(damaged_folder))
        return -1;
    tiny_make(damaged_folder, true);
    return tiny_folder_make(state);
}

static int remove_folders(void **state)
{
    (void)state;
    return tiny_folder_remove(damaged_folder) | tiny_folder_remove(tiny_folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_is_alone),
        cmocka_unit_test(test_reuse_is_fresh),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_finishes),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_refused_requests),
        cmocka_unit_test(test_refused_options),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_damaged_weights),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
