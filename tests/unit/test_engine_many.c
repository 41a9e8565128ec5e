/* test_engine_many.c - many requests at once: every answer is the answer alone, whatever is shared,
 * preempted or cancelled; what the prefix cache finds; a full queue; figures; a drain.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _DEFAULT_SOURCE
#include "tiny_engine.h"
#include <pthread.h>
#include <semaphore.h>

enum { SEQUENCES = 16, REQUESTS = 80, PAGE = 32 };

static glyd_engine_options options_for(int n_sequences, int64_t kv_tokens, bool caches)
{
    glyd_engine_options options = glyd_engine_options_default(tiny_folder);
    options.n_threads = 1;
    options.n_sequences = n_sequences;
    options.kv_tokens = kv_tokens;
    options.no_prefix_cache = !caches;
    return options;
}

static glyd_engine *open_with(const glyd_engine_options *options)
{
    glyd_engine *engine;
    glyd_error err;
    if (glyd_engine_open(options, &engine, &err) != GLYD_OK)
        fail_msg("%s", err.text);
    return engine;
}

static void ask(glyd_engine *engine, const glyd_request *request, answer *a)
{
    glyd_error err;
    if (glyd_engine_submit(engine, request, &a->ticket, &err) != GLYD_OK)
        fail_msg("%s", err.text);
}

static glyd_stats stats_of(const glyd_engine *engine)
{
    glyd_stats stats;
    glyd_engine_stats(engine, &stats);
    return stats;
}

/* --- a callback that stops the engine's thread --- */

typedef struct gate {
    answer a;
    const glyd_engine *engine;
    int stop_at, stop_again; /* tokens */
    int64_t n_steps_ended;   /* steps of the engine when it finished */
    sem_t reached, open;
} gate;

static void wait_at_gate(void *arg, const glyd_token *token)
{
    gate *g = arg;
    keep_token(&g->a, token);
    if (g->a.n == g->stop_at || g->a.n == g->stop_again) {
        sem_post(&g->reached);
        sem_wait(&g->open);
    }
}

static void finish_gate(void *arg, const glyd_result *result)
{
    gate *g = arg;
    keep_finish(&g->a, result);
    g->n_steps_ended = stats_of(g->engine).n_steps;
}

/* Submit a request that stops the engine's thread at its second token, and wait until it has. */
static void close_gate(glyd_engine *engine, gate *g, const int32_t *ids, int n_ids)
{
    *g = (gate){.engine = engine, .stop_at = 2, .stop_again = 5};
    sem_init(&g->reached, 0, 0);
    sem_init(&g->open, 0, 0);
    glyd_request r = request_for(engine, ids, n_ids, NULL);
    r.tokens_max = 110;
    r.arg = g;
    r.on_token = wait_at_gate;
    r.on_finish = finish_gate;
    ask(engine, &r, &g->a);
    sem_wait(&g->reached);
}

static void open_gate(gate *g) /* for good */
{
    sem_post(&g->open);
    sem_post(&g->open);
}

/* Let the engine's thread go on until the request stops it again, at its fifth token. */
static void move_gate(gate *g)
{
    sem_post(&g->open);
    sem_wait(&g->reached);
}

/* --- many --- */

typedef struct conversation {
    int32_t ids[TINY_CONTEXT];
    int n_ids, tokens_max, cancel_at;
    glyd_sampling sampling;
} conversation;

/* One of five beginnings, cut anywhere, and then something of its own. */
static void make_conversation(conversation *c, uint64_t *random)
{
    uint64_t beginning = 1 + test_random(random) % 5;
    int n_common = (int)(test_random(random) % 60), n_own = (int)(test_random(random) % 12);
    for (int i = 0; i < n_common; i++)
        c->ids[i] = (int32_t)(test_random(&beginning) % TINY_VOCAB);
    for (int i = 0; i <= n_own; i++)
        c->ids[n_common + i] = (int32_t)(test_random(random) % TINY_VOCAB);
    c->n_ids = n_common + n_own + 1;
    c->tokens_max = 1 + (int)(test_random(random) % 100);
    if (c->tokens_max > TINY_CONTEXT - c->n_ids)
        c->tokens_max = TINY_CONTEXT - c->n_ids;
    c->cancel_at = test_random(random) % 4 == 0 ? 1 + (int)(test_random(random) % 20) : 0;
    c->sampling = (glyd_sampling){.top_p = 1, .repetition_penalty = 1};
    if (test_random(random) % 3 == 0)
        c->sampling = (glyd_sampling){.temperature = 1,
                                      .top_p = 0.9,
                                      .repetition_penalty = 1.1,
                                      .presence_penalty = 0.3,
                                      .frequency_penalty = 0.2,
                                      .seed = test_random(random)};
}

static void submit_conversation(glyd_engine *engine, const conversation *c, answer *a)
{
    glyd_request r = request_for(engine, c->ids, c->n_ids, a);
    r.tokens_max = c->tokens_max;
    r.sampling = c->sampling;
    ask(engine, &r, a);
}

static void check_answer(const conversation *c, const answer *have, const answer *want)
{
    assert_true(have->n <= want->n);
    assert_memory_equal(have->ids, want->ids, (size_t)have->n * sizeof *have->ids);
    if (have->result.finish == GLYD_FINISH_CANCELLED)
        assert_true(c->cancel_at > 0);
    else
        assert_int_equal(have->n, want->n);
}

static void run_many(const glyd_engine_options *options, const conversation *all,
                     const answer *want, glyd_stats *stats)
{
    static answer have[REQUESTS];
    const int32_t ids[3] = {1, 2, 3};
    uint64_t random = 4;
    gate g;
    glyd_engine *engine = open_with(options);
    close_gate(engine, &g, ids, 3); /* so that the first ones do run together */
    for (int i = 0; i < REQUESTS; i++) {
        if (i == SEQUENCES)
            open_gate(&g);
        have[i] = (answer){.cancel_at = all[i].cancel_at};
        submit_conversation(engine, &all[i], &have[i]);
        if (test_random(&random) % 16 == 0)
            usleep((useconds_t)(test_random(&random) % 1000));
        if (all[i].cancel_at == 1) /* wherever it is */
            glyd_ticket_cancel(have[i].ticket);
    }
    for (int i = 0; i < REQUESTS; i++) {
        finish(&have[i]);
        check_answer(&all[i], &have[i], &want[i]);
    }
    finish(&g.a);
    *stats = stats_of(engine);
    assert_int_equal(stats->n_running, 0);
    assert_int_equal(stats->n_waiting, 0);
    assert_int_equal(stats->kv_pages_used, 0);
    glyd_engine_close(engine);
}

static void test_every_answer_is_the_answer_alone(void **state)
{
    (void)state;
    static conversation all[REQUESTS];
    static answer want[REQUESTS];
    uint64_t random = 11;
    glyd_engine_options one = options_for(1, 0, false);
    glyd_engine *engine = open_with(&one);
    for (int i = 0; i < REQUESTS; i++) {
        make_conversation(&all[i], &random);
        want[i] = (answer){0};
        submit_conversation(engine, &all[i], &want[i]);
        finish(&want[i]);
        assert_int_equal(want[i].n, all[i].tokens_max);
        assert_int_equal(want[i].result.n_reused, 0);
    }
    glyd_engine_close(engine);

    const struct {
        int64_t kv_tokens;
        bool caches;
        int n_threads, chunk;
    } ways[] = {
        {0, true, 1, 64},
        {TINY_CONTEXT + 2 * PAGE, true, 1, 64},
        {TINY_CONTEXT, true, 2, 7},
        {2 * TINY_CONTEXT, false, 1, 24},
    };
    int64_t n_preemptions = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        glyd_stats stats;
        glyd_engine_options options = options_for(SEQUENCES, ways[i].kv_tokens, ways[i].caches);
        options.n_threads = ways[i].n_threads;
        options.chunk_tokens = ways[i].chunk;
        run_many(&options, all, want, &stats);
        n_preemptions += stats.n_preemptions;
        assert_true(ways[i].caches ? stats.prefix_hits > 100 : stats.prefix_hits == 0);
    }
    assert_true(n_preemptions >= 5);
}

/* --- what the prefix cache finds --- */

static int ask_for(glyd_engine *engine, const int32_t *ids, int n_ids, answer *a)
{
    *a = (answer){0};
    glyd_request r = request_for(engine, ids, n_ids, a);
    r.tokens_max = 6;
    ask(engine, &r, a);
    finish(a);
    return a->result.n_reused;
}

static void random_ids(int32_t *ids, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(test_random(&seed) % TINY_VOCAB);
}

/* The same prompt where nothing is cached. */
static void check_fresh(const int32_t *ids, int n_ids, const answer *have)
{
    answer want;
    glyd_engine_options options = options_for(1, 0, false);
    glyd_engine *engine = open_with(&options);
    assert_int_equal(ask_for(engine, ids, n_ids, &want), 0);
    assert_same(have, &want);
    glyd_engine_close(engine);
}

static void test_conversations_are_read_once(void **state)
{
    (void)state;
    int32_t a[TINY_CONTEXT], b[TINY_CONTEXT];
    answer first, other;
    glyd_engine_options options = options_for(1, 4 * TINY_CONTEXT, true);
    glyd_engine *engine = open_with(&options);
    random_ids(a, TINY_CONTEXT, 5);
    random_ids(b, TINY_CONTEXT, 6);

    /* Append: prompt, answer, next question. The last token of an answer has not run. */
    assert_int_equal(ask_for(engine, a, 50, &first), 0);
    memcpy(a + 50, first.ids, 6 * sizeof *a);
    a[55] = (a[55] + 1) % TINY_VOCAB;
    assert_int_equal(ask_for(engine, a, 70, &other), 55);
    check_fresh(a, 70, &other);

    /* Another chat between two turns of the first. */
    assert_int_equal(ask_for(engine, b, 60, &other), 0);
    assert_int_equal(ask_for(engine, a, 90, &other), 70);
    check_fresh(a, 90, &other);
    assert_int_equal(ask_for(engine, b, 80, &other), 60);

    /* The last message edited: all before it. */
    a[80] = (a[80] + 1) % TINY_VOCAB;
    assert_int_equal(ask_for(engine, a, 95, &other), 80);
    check_fresh(a, 95, &other);

    /* A tool's round trip: call and result appended, then the same prompt again. */
    assert_int_equal(ask_for(engine, a, 120, &other), 95);
    assert_int_equal(ask_for(engine, a, 120, &other), 119);
    check_fresh(a, 120, &other);
    glyd_stats stats = stats_of(engine);
    assert_int_equal(stats.prefix_hits, 55 + 70 + 60 + 80 + 95 + 119);
    assert_int_equal(stats.prefix_queries, 50 + 70 + 60 + 90 + 80 + 95 + 120 + 120);
    assert_int_equal(stats.prompt_tokens, stats.prefix_queries);
    assert_int_equal(stats.answer_tokens, 8 * 6);
    glyd_engine_close(engine);
}

/* --- beside others --- */

static void test_running_sequences_share(void **state)
{
    (void)state;
    int32_t ids[TINY_CONTEXT];
    answer second = {0};
    gate g;
    glyd_engine_options options = options_for(2, 0, true);
    glyd_engine *engine = open_with(&options);
    random_ids(ids, TINY_CONTEXT, 5);
    close_gate(engine, &g, ids, 70);
    assert_int_equal(stats_of(engine).kv_pages_used, 3);
    ids[69] = (ids[69] + 1) % TINY_VOCAB;
    glyd_request r = request_for(engine, ids, 70, &second);
    r.tokens_max = 1;
    ask(engine, &r, &second);
    open_gate(&g);
    finish(&second);
    assert_int_equal(second.result.n_reused, 2 * PAGE);
    finish(&g.a);
    glyd_engine_close(engine);
}

static void test_a_full_queue(void **state)
{
    (void)state;
    int32_t ids[3] = {1, 2, 3};
    answer waiting[3] = {{.n = 0}};
    glyd_ticket *ticket;
    glyd_error err;
    gate g;
    glyd_engine_options options = options_for(1, 0, true);
    options.queue_max = 2;
    glyd_engine *engine = open_with(&options);
    close_gate(engine, &g, ids, 3);
    for (int i = 0; i < 2; i++) {
        glyd_request r = request_for(engine, ids, 3, &waiting[i]);
        ask(engine, &r, &waiting[i]);
    }
    glyd_request r = request_for(engine, ids, 3, &waiting[2]);
    assert_int_equal(glyd_engine_submit(engine, &r, &ticket, &err), GLYD_E_BUSY);
    assert_non_null(strstr(err.text, "try again"));
    glyd_stats stats = stats_of(engine);
    assert_int_equal(stats.n_running, 1);
    assert_int_equal(stats.n_waiting, 2);
    open_gate(&g);
    finish(&waiting[0]);
    assert_true(waiting[0].result.queue_s > 0);
    ask(engine, &r, &waiting[2]); /* there is room again */
    finish(&waiting[1]);
    finish(&waiting[2]);
    finish(&g.a);
    assert_int_equal(waiting[2].result.finish, GLYD_FINISH_LENGTH);
    glyd_engine_close(engine);
}

/* Two that cannot both have all the pages they need: the one that came first never waits. */
static void test_the_first_goes_on(void **state)
{
    (void)state;
    int32_t ids[2][40];
    answer second = {0};
    gate first;
    glyd_engine_options options = options_for(2, TINY_CONTEXT, true);
    glyd_engine *engine = open_with(&options);
    random_ids(ids[0], 40, 1);
    random_ids(ids[1], 40, 2);
    close_gate(engine, &first, ids[0], 40);
    glyd_request r = request_for(engine, ids[1], 40, &second);
    r.tokens_max = 110;
    ask(engine, &r, &second);
    int64_t n_steps = stats_of(engine).n_steps;
    open_gate(&first);
    finish(&first.a);
    finish(&second);
    glyd_stats stats = stats_of(engine);
    assert_int_equal(first.a.n, 110);
    assert_int_equal(second.n, 110);
    assert_int_equal(stats.n_preemptions, 1);
    assert_int_equal(first.n_steps_ended - n_steps, 108); /* one for each token that was left */
    glyd_engine_close(engine);
}

/* A cancel is seen before another step begins, in the queue, in a prompt and in an answer. */
static void test_cancelled_within_a_step(void **state)
{
    (void)state;
    static int32_t long_prompt[TINY_CONTEXT - 5];
    int32_t ids[3] = {1, 2, 3};
    answer queued = {0}, reading = {0};
    gate g;
    glyd_engine_options options = options_for(2, 0, true);
    options.chunk_tokens = 2;
    glyd_engine *engine = open_with(&options);
    close_gate(engine, &g, ids, 3);
    glyd_request r = request_for(engine, long_prompt, TINY_CONTEXT - 5, &reading);
    ask(engine, &r, &reading);
    move_gate(&g); /* the prompt has begun, and takes many more steps */
    r = request_for(engine, ids, 3, &queued);
    ask(engine, &r, &queued);
    int64_t n_steps = stats_of(engine).n_steps;
    glyd_ticket_cancel(reading.ticket);
    glyd_ticket_cancel(queued.ticket);
    glyd_ticket_cancel(g.a.ticket);
    open_gate(&g);
    finish(&reading);
    finish(&queued);
    finish(&g.a);
    assert_int_equal(stats_of(engine).n_steps, n_steps);
    assert_int_equal(reading.result.finish, GLYD_FINISH_CANCELLED);
    assert_int_equal(reading.n, 0);
    assert_int_equal(queued.result.finish, GLYD_FINISH_CANCELLED);
    assert_int_equal(queued.n, 0);
    assert_int_equal(g.a.result.finish, GLYD_FINISH_CANCELLED);
    assert_int_equal(g.a.n, 5);
    glyd_engine_close(engine);
}

static void test_drain_waits(void **state)
{
    (void)state;
    int32_t ids[3] = {1, 2, 3};
    answer a[4] = {{.n = 0}};
    glyd_ticket *ticket;
    glyd_error err;
    glyd_engine_options options = options_for(2, 0, true);
    glyd_engine *engine = open_with(&options);
    for (int i = 0; i < 4; i++) {
        glyd_request r = request_for(engine, ids, 3, &a[i]);
        ask(engine, &r, &a[i]);
    }
    assert_int_equal(glyd_engine_drain(engine, 600), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(a[i].n_finished, 1);
        finish(&a[i]);
        assert_int_equal(a[i].result.finish, GLYD_FINISH_LENGTH);
    }
    glyd_request r = request_for(engine, ids, 3, &a[0]);
    assert_int_equal(glyd_engine_submit(engine, &r, &ticket, &err), GLYD_E_CANCELLED);
    assert_int_equal(glyd_engine_drain(engine, 0), 0);
    glyd_engine_close(engine);
}

static void *open_gate_soon(void *arg)
{
    usleep(100000);
    open_gate(arg);
    return NULL;
}

static void test_drain_cuts_off(void **state)
{
    (void)state;
    int32_t ids[3] = {1, 2, 3};
    answer a[3] = {{.n = 0}};
    gate g;
    pthread_t thread;
    glyd_engine_options options = options_for(2, 0, true);
    glyd_engine *engine = open_with(&options);
    close_gate(engine, &g, ids, 3);
    for (int i = 0; i < 3; i++) {
        glyd_request r = request_for(engine, ids, 3, &a[i]);
        ask(engine, &r, &a[i]);
    }
    glyd_ticket_cancel(a[0].ticket); /* by its owner: not counted */
    assert_int_equal(pthread_create(&thread, NULL, open_gate_soon, &g), 0);
    assert_int_equal(glyd_engine_drain(engine, 0.01), 3);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) {
        finish(&a[i]);
        assert_int_equal(a[i].result.finish, GLYD_FINISH_CANCELLED);
    }
    finish(&g.a);
    assert_int_equal(g.a.result.finish, GLYD_FINISH_CANCELLED);
    assert_int_equal(g.a.n, 2);
    glyd_engine_close(engine);
}

static int remove_folder(void **state)
{
    (void)state;
    return tiny_folder_remove(tiny_folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_answer_is_the_answer_alone),
        cmocka_unit_test(test_conversations_are_read_once),
        cmocka_unit_test(test_running_sequences_share),
        cmocka_unit_test(test_a_full_queue),
        cmocka_unit_test(test_the_first_goes_on),
        cmocka_unit_test(test_cancelled_within_a_step),
        cmocka_unit_test(test_drain_waits),
        cmocka_unit_test(test_drain_cuts_off),
    };
    return cmocka_run_group_tests(tests, tiny_folder_make, remove_folder);
}
