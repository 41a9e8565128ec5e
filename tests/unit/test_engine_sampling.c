/* test_engine_sampling.c - what a request may ask of its tokens: log-probabilities, biases,
 * constraints, a least length; and logits that are no numbers, which end their sequence alone.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _DEFAULT_SOURCE
#include "engine/logits.h"
#include "tiny_engine.h"
#include "tiny_model.h"
#include <math.h>
#include <semaphore.h>

enum { PROMPT = 70, TOKENS = 20, TOP = 5 };

/* --- log-probabilities --- */

typedef struct described {
    answer a;
    sem_t *start; /* waited for at the first token; NULL: not */
    int n_prompt; /* tokens of the prompt told of; they are in token[1] and so on, */
    glyd_token token[TINY_CONTEXT];
    glyd_token_logprob top[TINY_CONTEXT][GLYD_REQUEST_LOGPROBS_MAX];
} described;

static void describe(described *d, int at, const glyd_token *token)
{
    assert_true(token->n_top <= GLYD_REQUEST_LOGPROBS_MAX);
    d->token[at] = *token;
    memcpy(d->top[at], token->top, (size_t)token->n_top * sizeof *token->top);
    d->token[at].top = d->top[at];
}

static void describe_prompt(void *arg, int index, const glyd_token *token)
{
    described *d = arg;
    assert_int_equal(index, ++d->n_prompt);
    assert_int_equal(d->a.n, 0);
    describe(d, index, token);
}

static void describe_answer(void *arg, const glyd_token *token)
{
    described *d = arg;
    if (d->start && d->a.n == 0)
        sem_wait(d->start);
    describe(d, PROMPT + d->a.n, token); /* behind those of the prompt */
    keep_token(&d->a, token);
}

static void describe_end(void *arg, const glyd_result *result)
{
    keep_finish(&((described *)arg)->a, result);
}

static glyd_status copy_logits(void *arg, const float *logits, int n, int vocab)
{
    float **at = arg;
    memcpy(*at, logits, (size_t)n * (size_t)vocab * sizeof *logits);
    *at += (size_t)n * (size_t)vocab;
    return GLYD_OK;
}

static glyd_request describing(const glyd_engine *engine, const int32_t *ids, described *d)
{
    glyd_request r = request_for(engine, ids, PROMPT, NULL);
    *d = (described){.n_prompt = 0};
    r.tokens_max = TOKENS;
    r.n_logprobs = r.n_prompt_logprobs = TOP;
    r.arg = d;
    r.on_prompt_token = describe_prompt;
    r.on_token = describe_answer;
    r.on_finish = describe_end;
    return r;
}

static void check_described(const glyd_token *have, const float *logits, int32_t id)
{
    double sum = 0;
    int rank = 1;
    for (int i = 0; i < TINY_VOCAB; i++) {
        sum += exp((double)logits[i]);
        rank += logits[i] > logits[id];
    }
    assert_int_equal(have->id, id);
    assert_int_equal(have->rank, rank);
    assert_true(fabs(have->logprob - (logits[id] - log(sum))) < 1e-12);
    assert_int_equal(have->n_top, TOP);
    for (int i = 0; i < TOP; i++) {
        const glyd_token_logprob *top = &have->top[i];
        int n_before = 0;
        for (int j = 0; j < TINY_VOCAB; j++)
            n_before += logits[j] > logits[top->id];
        assert_int_equal(n_before, i);
        assert_true(fabs(top->logprob - (logits[top->id] - log(sum))) < 1e-12);
    }
}

static void test_logprobs(void **state)
{
    (void)state;
    static float logits[TINY_CONTEXT * TINY_VOCAB];
    static described plain, shaped;
    int32_t ids[TINY_CONTEXT];
    uint64_t seed = 9;
    float *at = logits;
    glyd_error err;
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (int32_t)(test_random(&seed) % TINY_VOCAB);
    glyd_engine *engine = open_engine(1, 7, 2, 0);
    glyd_request r = describing(engine, ids, &plain);
    assert_ok(glyd_engine_submit(engine, &r, &plain.a.ticket, &err));
    finish(&plain.a);
    assert_int_equal(plain.n_prompt, PROMPT - 1);
    assert_int_equal(plain.a.n, TOKENS);
    memcpy(ids + PROMPT, plain.a.ids, TOKENS * sizeof *ids);
    assert_ok(glyd_engine_logits(engine, ids, PROMPT + TOKENS, copy_logits, &at, &err));
    for (int i = 1; i < PROMPT + TOKENS; i++)
        check_described(&plain.token[i], logits + (i - 1) * (int64_t)TINY_VOCAB, ids[i]);

    /* Of the model's own logits, whatever is done to draw from them; and read anew, though cached.
     */
    const glyd_logit_bias bias = {ids[PROMPT], 50};
    r = describing(engine, ids, &shaped);
    r.logit_bias = &bias;
    r.n_logit_bias = 1;
    r.sampling.temperature = 0.7;
    r.tokens_max = 1;
    assert_ok(glyd_engine_submit(engine, &r, &shaped.a.ticket, &err));
    finish(&shaped.a);
    assert_int_equal(shaped.a.result.n_reused, 0);
    assert_int_equal(shaped.n_prompt, PROMPT - 1);
    for (int i = 1; i <= PROMPT; i++)
        check_described(&shaped.token[i], logits + (i - 1) * (int64_t)TINY_VOCAB, ids[i]);
    glyd_engine_close(engine);
}

/* Bit for bit the same beside others that take its pages away, and with a cache that has them. */
static void test_logprobs_under_load(void **state)
{
    (void)state;
    enum { N = 8 };
    static described want, have[N];
    int32_t ids[TINY_CONTEXT];
    uint64_t seed = 9;
    glyd_error err;
    glyd_stats stats;
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (int32_t)(test_random(&seed) % TINY_VOCAB);
    glyd_engine *engine = open_engine(1, 64, 1, 0);
    glyd_request r = describing(engine, ids, &want);
    r.tokens_max = 60;
    assert_ok(glyd_engine_submit(engine, &r, &want.a.ticket, &err));
    finish(&want.a);
    glyd_engine_close(engine);
    sem_t start;
    sem_init(&start, 0, 0);
    engine = open_engine(2, 16, N, TINY_CONTEXT);
    for (int i = 0; i < N; i++) {
        r = describing(engine, ids, &have[i]);
        r.tokens_max = 60;
        if (i % 2 == 0)
            r.n_prompt_logprobs = -1;
        if (i == 0)
            have[i].start = &start;
        assert_ok(glyd_engine_submit(engine, &r, &have[i].a.ticket, &err));
    }
    sem_post(&start);
    for (int i = 0; i < N; i++) {
        finish(&have[i].a);
        assert_int_equal(have[i].n_prompt, i % 2 == 0 ? 0 : PROMPT - 1);
        assert_same(&have[i].a, &want.a);
        for (int j = i % 2 == 0 ? PROMPT : 1; j < PROMPT + 60; j++) {
            assert_true(have[i].token[j].logprob == want.token[j].logprob);
            assert_memory_equal(have[i].top[j], want.top[j], TOP * sizeof want.top[j][0]);
        }
    }
    glyd_engine_stats(engine, &stats);
    assert_true(stats.n_preemptions > 0);
    assert_true(stats.prefix_hits > 0);
    glyd_engine_close(engine);
}

/* --- what may come next --- */

typedef struct constrained {
    answer a;
    int n_asked, fail_at, nothing_at;
    uint64_t allowed[TINY_VOCAB / 64];
} constrained;

static bool allow(void *arg, uint64_t *allowed)
{
    constrained *c = arg;
    assert_int_equal(c->n_asked, c->a.n); /* before each draw, after the token before */
    c->n_asked++;
    assert_true(allowed[0] == UINT64_MAX);
    memcpy(allowed, c->allowed, sizeof c->allowed);
    if (c->n_asked == c->nothing_at)
        allowed[0] = 0;
    return c->n_asked != c->fail_at;
}

static void keep_constrained(void *arg, const glyd_token *token)
{
    keep_token(&((constrained *)arg)->a, token);
}

static void finish_constrained(void *arg, const glyd_result *result)
{
    keep_finish(&((constrained *)arg)->a, result);
}

static void run_constrained(glyd_engine *engine, double temperature, constrained *c)
{
    int32_t ids[2] = {5, 6};
    glyd_error err;
    glyd_request r = request_for(engine, ids, 2, NULL);
    r.arg = c;
    r.sampling.temperature = temperature;
    r.on_token = keep_constrained;
    r.on_finish = finish_constrained;
    r.allow = allow;
    r.ignore_stop = false;
    assert_ok(glyd_engine_submit(engine, &r, &c->a.ticket, &err));
    finish(&c->a);
}

static void test_constraint(void **state)
{
    (void)state;
    glyd_engine *engine = open_engine(1, 64, 1, 0);
    for (int i = 0; i < 2; i++) {
        constrained c = {.allowed = {0xF0F0F0F0F0F0F0F0}};
        run_constrained(engine, i, &c);
        assert_int_equal(c.a.result.finish, GLYD_FINISH_LENGTH); /* TINY_STOP is not allowed */
        assert_int_equal(c.n_asked, ANSWER);
        for (int j = 0; j < c.a.n; j++)
            assert_true(c.allowed[0] >> c.a.ids[j] & 1);
    }
    constrained ends = {.allowed = {(uint64_t)1 << TINY_STOP}};
    run_constrained(engine, 1, &ends);
    assert_int_equal(ends.a.result.finish, GLYD_FINISH_STOP);
    assert_int_equal(ends.a.n, 0);

    constrained stuck = {.allowed = {0xF0}, .nothing_at = 4};
    run_constrained(engine, 0, &stuck);
    assert_int_equal(stuck.a.result.finish, GLYD_FINISH_ERROR);
    assert_int_equal(stuck.a.result.error.status, GLYD_E_LIMIT);
    assert_non_null(strstr(stuck.a.result.error.text, "no token is allowed"));
    assert_int_equal(stuck.a.n, 3);

    constrained broken = {.allowed = {0xF0}, .fail_at = 3};
    run_constrained(engine, 0, &broken);
    assert_int_equal(broken.a.result.finish, GLYD_FINISH_ERROR);
    assert_int_equal(broken.a.n, 2);
    glyd_engine_close(engine);
}

static void run_request(glyd_engine *engine, const glyd_request *request, answer *a)
{
    glyd_error err;
    if (glyd_engine_submit(engine, request, &a->ticket, &err) != GLYD_OK)
        fail_msg("%s", err.text);
    finish(a);
}

static void test_bias(void **state)
{
    (void)state;
    int32_t ids[2] = {5, 6};
    answer plain = {0}, without = {0}, always = {0};
    glyd_engine *engine = open_engine(1, 64, 1, 0);
    glyd_request r = request_for(engine, ids, 2, &plain);
    run_request(engine, &r, &plain);
    glyd_logit_bias bias[2] = {{plain.ids[0], -60}, {plain.ids[0], -40}};
    r = request_for(engine, ids, 2, &without);
    r.logit_bias = bias;
    r.n_logit_bias = 2;
    run_request(engine, &r, &without);
    for (int i = 0; i < without.n; i++)
        assert_int_not_equal(without.ids[i], plain.ids[0]);
    bias[0] = (glyd_logit_bias){9, 100};
    r = request_for(engine, ids, 2, &always);
    r.logit_bias = bias;
    r.n_logit_bias = 1;
    r.sampling.temperature = 1;
    run_request(engine, &r, &always);
    for (int i = 0; i < always.n; i++)
        assert_int_equal(always.ids[i], 9);
    glyd_engine_close(engine);
}

static void test_tokens_min_and_max(void **state)
{
    (void)state;
    int32_t ids[2] = {5, 6};
    answer plain = {0}, stopped = {0}, longer = {0}, none = {0}, again = {0};
    glyd_engine *engine = open_engine(1, 64, 1, 0);
    glyd_request r = request_for(engine, ids, 2, &plain);
    run_request(engine, &r, &plain);
    const int32_t stop = plain.ids[0];
    r = request_for(engine, ids, 2, &stopped);
    r.stop_ids = &stop;
    r.n_stop_ids = 1;
    run_request(engine, &r, &stopped);
    assert_int_equal(stopped.n, 0);
    assert_int_equal(stopped.result.stop_id, stop);
    r.arg = &longer;
    r.tokens_min = 7;
    run_request(engine, &r, &longer);
    assert_true(longer.n >= 7);
    for (int i = 0; i < 7; i++)
        assert_int_not_equal(longer.ids[i], stop);

    /* No token: the prompt is read, a whole context of it if need be, and in the cache. */
    static int32_t whole[TINY_CONTEXT];
    r = request_for(engine, whole, TINY_CONTEXT, &none);
    r.tokens_max = 0;
    run_request(engine, &r, &none);
    assert_int_equal(none.result.finish, GLYD_FINISH_LENGTH);
    assert_int_equal(none.n, 0);
    r = request_for(engine, whole, TINY_CONTEXT - 1, &again);
    run_request(engine, &r, &again);
    assert_int_equal(again.result.n_reused, TINY_CONTEXT - 2);
    glyd_engine_close(engine);
}

static void refuse(glyd_engine *engine, const glyd_request *r, const char *text)
{
    glyd_ticket *ticket;
    glyd_error err;
    assert_int_equal(glyd_engine_submit(engine, r, &ticket, &err), GLYD_E_ARG);
    assert_non_null(strstr(err.text, text));
}

static void test_refused(void **state)
{
    (void)state;
    int32_t ids[2] = {5, 6};
    glyd_logit_bias bias = {TINY_VOCAB, 1};
    glyd_engine *engine = open_engine(1, 64, 1, 0);
    const glyd_request usual = request_for(engine, ids, 2, NULL);
    glyd_request r = usual;
    r.n_logprobs = 21, refuse(engine, &r, "21");
    r = usual, r.n_prompt_logprobs = -2, refuse(engine, &r, "-2");
    r = usual, r.tokens_min = 41, refuse(engine, &r, "41");
    r = usual, r.tokens_min = -1, refuse(engine, &r, "-1");
    r = usual, r.logit_bias = &bias, r.n_logit_bias = 1, refuse(engine, &r, "64");
    bias = (glyd_logit_bias){3, NAN}, refuse(engine, &r, "finite");
    r.n_logit_bias = 1025, refuse(engine, &r, "1025");
    r = usual, r.sampling.presence_penalty = NAN, refuse(engine, &r, "presence");
    r = usual, r.sampling.frequency_penalty = 101, refuse(engine, &r, "frequency");
    glyd_engine_close(engine);
}

/* --- logits that are no numbers --- */

/* Make one id's row of the embedding, the file's first tensor, something that is no number. */
static void damage_row(const char *folder, int id, int hidden)
{
    char path[256];
    uint64_t header_bytes;
    tiny_path(path, sizeof path, folder, "model.safetensors");
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fread(&header_bytes, sizeof header_bytes, 1, f), 1);
    assert_int_equal(fseek(f, (long)(8 + header_bytes) + 2L * id * hidden, SEEK_SET), 0);
    for (int i = 0; i < hidden; i++) {
        uint16_t value = 0x7fc0;
        assert_int_equal(fwrite(&value, sizeof value, 1, f), 1);
    }
    assert_int_equal(fclose(f), 0);
}

static void test_no_number_ends_one_sequence(void **state)
{
    (void)state;
    char room[64], folder[80];
    int32_t good[40] = {1, 2, 3}, bad[40] = {1, 2, 3};
    answer first = {0}, beside = {0}, damaged = {0}, again = {0};
    glyd_engine *engine;
    glyd_error err;
    tiny_room(room);
    snprintf(folder, sizeof folder, "%s/model", room);
    tiny_write(folder, TINY_CONFIG("llama", ""));
    damage_row(folder, 200, 64);
    glyd_engine_options options = glyd_engine_options_default(folder);
    options.n_sequences = 2;
    bad[35] = 200;
    const glyd_logit_bias never = {200, -1000};
    assert_ok(glyd_engine_open(&options, &engine, &err));
    answer *all[] = {&first, &damaged, &beside, &again};
    for (int i = 0; i < 4; i++) {
        glyd_request r = request_for(engine, i == 1 ? bad : good, 40, all[i]);
        r.logit_bias = &never;
        r.n_logit_bias = 1;
        assert_ok(glyd_engine_submit(engine, &r, &all[i]->ticket, &err));
        if (i == 0)
            glyd_ticket_wait(first.ticket, NULL);
    }
    for (int i = 0; i < 4; i++)
        finish(all[i]);
    assert_int_equal(damaged.result.finish, GLYD_FINISH_ERROR);
    assert_int_equal(damaged.result.error.status, GLYD_E_CORRUPT);
    assert_non_null(strstr(damaged.result.error.text, "glyd verify"));
    assert_int_equal(damaged.n, 0);
    assert_int_equal(first.n, ANSWER);
    assert_same(&beside, &first);
    assert_same(&again, &first);

    /* What it left in the cache is not found again. */
    bad[0] = 200;
    for (int i = 0; i < 2; i++) {
        answer repeated = {0};
        glyd_request r = request_for(engine, bad, 40, &repeated);
        assert_ok(glyd_engine_submit(engine, &r, &repeated.ticket, &err));
        finish(&repeated);
        assert_int_equal(repeated.result.finish, GLYD_FINISH_ERROR);
        assert_int_equal(repeated.result.n_reused, 0);
    }
    glyd_engine_close(engine);
    const char *names[] = {"config.json", "model.safetensors", "tokenizer.json"};
    for (int i = 0; i < 3; i++) {
        char path[256];
        tiny_path(path, sizeof path, folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    rmdir(room);
}

static int remove_folder(void **state)
{
    (void)state;
    return tiny_folder_remove(tiny_folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_logprobs_under_load),
        cmocka_unit_test(test_constraint),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_tokens_min_and_max),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_number_ends_one_sequence),
    };
    return cmocka_run_group_tests(tests, tiny_folder_make, remove_folder);
}
