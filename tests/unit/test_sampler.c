/* test_sampler.c - each sampling option against a plain computation with the C library's exp.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/sampler.h"
#include "test.h"
#include <math.h>

enum { VOCAB = 97, CASES = 4000 };

static glyd_candidate candidates[VOCAB];
static float weights[VOCAB], adjusted[VOCAB];
static int32_t counts[VOCAB];
static const glyd_sampler_work work = {candidates, weights, adjusted, counts};
static const glyd_sampling plain = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};

typedef struct ranked {
    double logit, weight;
    int32_t id;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_id(const void *a, const void *b)
{
    return ((const ranked *)a)->id - ((const ranked *)b)->id;
}

/* splitmix64, as sampler.h documents it: state seed + draw * constant, stepped once. */
static double uniform(uint64_t seed, uint64_t draw)
{
    uint64_t state = seed + draw * 0x9E3779B97F4A7C15ULL;
    uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return ldexp((double)((z ^ (z >> 31)) >> 11), -53);
}

static double sum_of(const ranked *r, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += r[i].weight;
    return sum;
}

/* The id, or -1 where rounding could decide between two. */
static int32_t expected(const glyd_sampling *s, const float *logits, const bool *seen,
                        uint64_t draw)
{
    ranked r[VOCAB];
    for (int i = 0; i < VOCAB; i++) {
        float x = logits[i];
        if (seen[i])
            x = x < 0 ? x * (float)s->repetition_penalty : x / (float)s->repetition_penalty;
        r[i] = (ranked){.logit = x, .id = i};
    }
    qsort(r, VOCAB, sizeof *r, by_rank);
    if (s->temperature == 0)
        return r[0].id;
    for (int i = 0; i < VOCAB; i++)
        r[i].weight = exp((r[i].logit - r[0].logit) / s->temperature);
    int n = s->top_k > 0 && s->top_k < VOCAB ? s->top_k : VOCAB, kept = 0;
    double total = sum_of(r, n), sum = 0;
    for (; kept < n && sum < s->top_p * total && r[kept].weight >= s->min_p; kept++) {
        sum += r[kept].weight;
        if (s->top_p < 1 && fabs(sum - s->top_p * total) < 1e-5 * total)
            return -1;
    }
    if (kept < n && fabs(r[kept].weight - s->min_p) < 1e-5)
        return -1;
    if (s->top_k == 0 && s->top_p >= 1 && s->min_p <= 0)
        qsort(r, VOCAB, sizeof *r, by_id); /* nothing is to be cut: drawn in order of ids */
    double u = uniform(s->seed, draw) * sum_of(r, kept);
    for (int i = 0; i < kept; i++) {
        u -= r[i].weight;
        if (fabs(u) < 1e-5 * total)
            return -1;
        if (u < 0)
            return r[i].id;
    }
    return -1;
}

static int32_t draw_plain(const glyd_sampling *s, const float *logits, int vocab, uint64_t draw)
{
    return glyd_sample(s, logits, vocab, &(glyd_draw){.index = draw}, &work);
}

static void check_cases(const glyd_sampling *options)
{
    uint64_t state = 77;
    int n_checked = 0, n_ids = 0;
    bool drawn[VOCAB] = {false};
    for (int c = 0; c < CASES; c++) {
        float logits[VOCAB];
        bool seen[VOCAB];
        int32_t prompt[2 * VOCAB];
        int n_prompt = 0;
        for (int i = 0; i < VOCAB; i++) {
            logits[i] = (float)(test_random(&state) % 64) / 8.0F - 4.0F; /* many ties */
            seen[i] = test_random(&state) % 4 == 0;
            for (int j = 0; seen[i] && j < 1 + i % 2; j++) /* how often does not matter */
                prompt[n_prompt++] = i;
        }
        glyd_sampling s = *options;
        s.seed = test_random(&state);
        uint64_t draw = test_random(&state) % 1000;
        int32_t want = expected(&s, logits, seen, draw);
        if (want < 0)
            continue;
        n_checked++;
        int32_t id = glyd_sample(
            &s, logits, VOCAB,
            &(glyd_draw){.ids = prompt, .n_prompt = n_prompt / 2, .n_ids = n_prompt, .index = draw},
            &work);
        assert_int_equal(id, want);
        n_ids += !drawn[id];
        drawn[id] = true;
    }
    assert_true(n_checked > CASES / 2);
    assert_true(n_ids > VOCAB / 2);
}

static void test_options(void **state)
{
    (void)state;
    glyd_sampling s = plain;
    check_cases(&s);
    s.temperature = 0;
    check_cases(&s);
    s.temperature = 0.3;
    check_cases(&s);
    s.temperature = 1.7;
    check_cases(&s);
    s = plain, s.top_k = 1;
    check_cases(&s);
    s.top_k = 7;
    check_cases(&s);
    s.top_k = 1000;
    check_cases(&s);
    s = plain, s.top_p = 0.01;
    check_cases(&s);
    s.top_p = 0.8;
    check_cases(&s);
    s = plain, s.min_p = 0.2;
    check_cases(&s);
    s = plain, s.repetition_penalty = 1.3;
    check_cases(&s);
    s.repetition_penalty = 0.7;
    check_cases(&s);
    s = (glyd_sampling){
        .temperature = 0.8, .top_k = 20, .top_p = 0.9, .min_p = 0.05, .repetition_penalty = 1.1};
    check_cases(&s);
}

static void test_frequencies(void **state)
{
    (void)state;
    float logits[4] = {0, 1, 2, -1};
    int count[4] = {0}, n = 100000;
    glyd_sampling s = plain;
    for (int i = 0; i < n; i++)
        count[draw_plain(&s, logits, 4, (uint64_t)i)]++;
    double sum = exp(0) + exp(1) + exp(2) + exp(-1);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(count[i] / (double)n - exp(logits[i]) / sum) < 0.006);
}

static void test_ties_take_the_lowest_id(void **state)
{
    (void)state;
    float logits[5] = {1, 3, 3, 3, 0};
    glyd_sampling s = {.top_p = 1, .repetition_penalty = 1};
    assert_int_equal(draw_plain(&s, logits, 5, 0), 1);
    s.temperature = 1, s.top_k = 1;
    for (uint64_t draw = 0; draw < 50; draw++)
        assert_int_equal(draw_plain(&s, logits, 5, draw), 1);
}

static void test_odd_logits(void **state)
{
    (void)state;
    glyd_sampling s = plain;
    float some[4] = {NAN, -INFINITY, 2, NAN};
    float none[3] = {NAN, -INFINITY, NAN};
    float infinite[3] = {1, INFINITY, INFINITY};
    for (uint64_t draw = 0; draw < 50; draw++) {
        assert_int_equal(draw_plain(&s, some, 4, draw), 2);
        assert_int_equal(draw_plain(&s, none, 3, draw), -1);
        assert_true(draw_plain(&s, infinite, 3, draw) > 0);
    }
    s.temperature = 0;
    assert_int_equal(draw_plain(&s, some, 4, 0), 2);
    assert_int_equal(draw_plain(&s, none, 3, 0), -1);
}

/* Values computed by hand; `adjusted` is what the draw was made from. */
static void test_what_is_added_and_taken(void **state)
{
    (void)state;
    const float logits[6] = {1, 2, 3, -2, 0.5F, 4};
    const int32_t ids[] = {3, 5, 3, 2, 2, 0}; /* the answer begins at the third */
    const glyd_logit_bias bias[] = {{4, 2}, {1, -0.5F}, {4, 1.5F}};
    const uint64_t allowed[1] = {0x1F};
    glyd_draw d = {.ids = ids, .n_prompt = 2, .n_ids = 6};
    glyd_sampling s = {.top_p = 1, .repetition_penalty = 1};

    s.presence_penalty = 0.5, s.frequency_penalty = 0.25;
    assert_int_equal(glyd_sample(&s, logits, 6, &d, &work), 5); /* the prompt's ids do not count */
    const float penalised[6] = {0.25F, 2, 2, -2.75F, 0.5F, 4};
    assert_memory_equal(adjusted, penalised, sizeof penalised);

    /* Bias first, then repetition, then the others; what is not allowed stays out. */
    s.repetition_penalty = 2;
    d.bias = bias, d.n_bias = 3;
    d.allowed = allowed;
    assert_int_equal(glyd_sample(&s, logits, 6, &d, &work), 4);
    const float all[6] = {-0.25F, 1.5F, 0.5F, -4.75F, 4, -INFINITY};
    assert_memory_equal(adjusted, all, sizeof all);

    s = (glyd_sampling){.top_p = 1, .repetition_penalty = 1, .presence_penalty = -3};
    d = (glyd_draw){.ids = ids, .n_prompt = 2, .n_ids = 6};
    assert_int_equal(glyd_sample(&s, logits, 6, &d, &work), 2);
    for (int i = 0; i < VOCAB; i++)
        assert_int_equal(counts[i], 0);

    const uint64_t none[1] = {0};
    d.allowed = none;
    assert_int_equal(glyd_sample(&s, logits, 6, &d, &work), -1);
}

static void refuse(glyd_sampling s, const char *word)
{
    glyd_error err;
    assert_int_equal(glyd_sampling_check(&s, &err), GLYD_E_ARG);
    assert_non_null(strstr(err.text, word));
}

static void test_ranges(void **state)
{
    (void)state;
    glyd_sampling s = plain;
    assert_ok(glyd_sampling_check(&s, NULL));
    s.temperature = -0.1, refuse(s, "temperature");
    s.temperature = NAN, refuse(s, "temperature");
    s = plain, s.top_k = -1, refuse(s, "top-k");
    s = plain, s.top_p = 0, refuse(s, "top-p");
    s = plain, s.top_p = 1.5, refuse(s, "top-p");
    s = plain, s.min_p = -1, refuse(s, "min-p");
    s = plain, s.repetition_penalty = 0, refuse(s, "repetition");
    s = plain, s.presence_penalty = 200, refuse(s, "presence");
    s = plain, s.frequency_penalty = NAN, refuse(s, "frequency");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),    cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_odd_logits), cmocka_unit_test(test_ties_take_the_lowest_id),
        cmocka_unit_test(test_ranges),     cmocka_unit_test(test_what_is_added_and_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
