/* test_ops.c - operations between products: every variant against plain C bit for bit, and plain C
 * against a computation in double.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/ops.h"
#include "test.h"
#include <math.h>
#include <stdbool.h>

enum { N_MAX = 600, POSITIONS = 150, PAGES = 8, GUARD = 16 };

static const int sizes[] = {1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 576};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static float random_float(uint64_t *state)
{
    return (float)((double)(int64_t)test_random(state) * 0x1p-62);
}

/* Ordinary values, then wide ones, then ones that overflow exp. */
static void fill(float *x, int n, int kind, uint64_t *state)
{
    static const float scale[] = {1, 30, 300};
    for (int i = 0; i < n; i++)
        x[i] = random_float(state) * scale[kind];
}

static void assert_bits(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("element %d: %.9g is not %.9g", i, (double)a[i], (double)b[i]);
}

typedef struct rows {
    float x[N_MAX + GUARD], y[N_MAX + GUARD];
} rows;

static void make_rows(rows *r, int n, int kind, uint64_t seed)
{
    memset(r, 0xa5, sizeof *r);
    fill(r->x, n, kind, &seed);
    fill(r->y, n, kind, &seed);
}

static void run_op(const glyd_ops *ops, int op, rows *r, int n)
{
    switch (op) {
    case 0:
        ops->rmsnorm(r->x, r->y, r->x, n, 1e-5F);
        break;
    case 1:
        ops->add(r->x, r->y, n);
        break;
    case 2:
        ops->silu_mul(r->x, r->y, n);
        break;
    case 3:
        ops->exp(r->x, n);
        break;
    default:
        ops->rope(r->x, r->y, n / 2 * 2);
        break;
    }
}

static void test_variants(void **state)
{
    (void)state;
    static rows want, have;
    for (int op = 0; op < 5; op++)
        for (int s = 0; s < N_SIZES; s++)
            for (int kind = 0; kind < 3; kind++)
                for (int v = 0; v <= (int)glyd_cpu_variant(); v++) {
                    make_rows(&want, sizes[s], kind, 9 + (uint64_t)s);
                    make_rows(&have, sizes[s], kind, 9 + (uint64_t)s);
                    run_op(&glyd_ops_c, op, &want, sizes[s]);
                    run_op(glyd_ops_of((glyd_variant)v), op, &have, sizes[s]);
                    assert_bits(have.x, want.x, sizes[s]);
                    assert_memory_equal(have.x + sizes[s], want.x + sizes[s],
                                        GUARD * sizeof(float));
                    assert_memory_equal(have.y, want.y, sizeof have.y);
                }
}

static void test_exp_is_accurate(void **state)
{
    (void)state;
    uint64_t random = 4;
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        float x = random_float(&random) * 43, y = x;
        glyd_ops_of(glyd_cpu_variant())->exp(&y, 1);
        double exact = exp(x), unit = ldexp(1, ilogb(exact) - 23);
        worst = fmax(worst, fabs(y - exact) / unit);
    }
    assert_true(worst < 2);
    float odd[] = {0, -INFINITY, INFINITY, NAN};
    glyd_ops_c.exp(odd, 4);
    assert_true(odd[0] == 1 && odd[1] > 0 && odd[1] < 1e-37F && odd[2] > 1e38F && isnan(odd[3]));
}

static void test_norm_and_silu_are_right(void **state)
{
    (void)state;
    static rows r;
    static double want[N_MAX];
    make_rows(&r, 576, 0, 3);
    double squares = 0;
    for (int i = 0; i < 576; i++)
        squares += (double)r.x[i] * r.x[i];
    for (int i = 0; i < 576; i++)
        want[i] = r.x[i] / sqrt(squares / 576 + 1e-5) * r.y[i];
    glyd_ops_c.rmsnorm(r.x, r.y, r.x, 576, 1e-5F);
    for (int i = 0; i < 576; i++)
        assert_true(fabs(r.x[i] - want[i]) < 1e-6 * (1 + fabs(want[i])));
    make_rows(&r, 576, 1, 3);
    for (int i = 0; i < 576; i++)
        want[i] = r.x[i] / (1 + exp(-(double)r.x[i])) * r.y[i];
    glyd_ops_c.silu_mul(r.x, r.y, 576);
    for (int i = 0; i < 576; i++)
        assert_true(fabs(r.x[i] - want[i]) < 1e-5 * (1 + fabs(want[i])));
}

/* --- attention --- */

typedef struct scene {
    int head_dim, group, n_tokens, position, window;
    float q[64 * 256], out[64 * 256], k[POSITIONS * 256], v[POSITIONS * 256];
    float pages[PAGES * 32 * 512];
    int32_t table[PAGES];
} scene;

static scene scenes[2];

static void make_scene(scene *s, int head_dim, int group, int n_tokens, int position, int window)
{
    uint64_t random = 21 + (uint64_t)position;
    memset(s, 0xff, sizeof *s); /* not a number wherever nothing is stored */
    s->head_dim = head_dim;
    s->group = group;
    s->n_tokens = n_tokens;
    s->position = position;
    s->window = window;
    fill(s->q, n_tokens * group * head_dim, 0, &random);
    fill(s->k, POSITIONS * head_dim, 0, &random);
    fill(s->v, POSITIONS * head_dim, 0, &random);
    for (int i = 0; i < PAGES; i++)
        s->table[i] = i * 3 % PAGES; /* pages in no order */
    for (int p = 0; p < position + n_tokens; p++)
        glyd_kv_store(s->pages + s->table[p / GLYD_KV_PAGE] * glyd_kv_head_floats(head_dim),
                      p % GLYD_KV_PAGE, head_dim, s->k + p * head_dim, s->v + p * head_dim);
}

static void run_scene(const glyd_ops *ops, scene *s)
{
    static float scratch[4 * 160 + GUARD];
    assert_true(glyd_attention_scratch(POSITIONS) <= 4 * 160);
    glyd_attention a = {
        .shape = {1, s->head_dim},
        .group = s->group,
        .window = s->window,
        .scale = 1 / sqrtf((float)s->head_dim),
        .q = s->q,
        .out = s->out,
        .stride = (int64_t)s->group * s->head_dim,
        .n_tokens = s->n_tokens,
        .position = s->position,
        .pages = s->pages,
        .page_stride = glyd_kv_head_floats(s->head_dim),
        .page_table = s->table,
        .scratch = scratch,
    };
    ops->attention(&a);
}

static void check_scene(const scene *s)
{
    for (int row = 0; row < s->n_tokens * s->group; row++) {
        int last = s->position + row / s->group;
        int first = s->window && last >= s->window ? last - s->window + 1 : 0;
        double w[POSITIONS], largest = -INFINITY, total = 0;
        for (int p = first; p <= last; p++) {
            w[p] = 0;
            for (int d = 0; d < s->head_dim; d++)
                w[p] += (double)s->q[row * s->head_dim + d] * s->k[p * s->head_dim + d];
            w[p] /= sqrt(s->head_dim);
            largest = fmax(largest, w[p]);
        }
        for (int p = first; p <= last; p++)
            total += w[p] = exp(w[p] - largest);
        for (int d = 0; d < s->head_dim; d++) {
            double want = 0;
            for (int p = first; p <= last; p++)
                want += w[p] / total * s->v[p * s->head_dim + d];
            assert_true(fabs(s->out[row * s->head_dim + d] - want) < 1e-5);
        }
    }
}

static void test_attention(void **state)
{
    (void)state;
    static const int head_dims[] = {2, 8, 16, 40, 64, 100, 128, 256};
    static const struct {
        int group, n_tokens, position, window;
    } ways[] = {{1, 1, 0, 0},  {3, 1, 31, 0}, {1, 1, 140, 0}, {4, 16, 5, 0},
                {7, 2, 64, 0}, {2, 9, 60, 7}, {1, 16, 0, 1},  {3, 5, 100, 64}};
    for (size_t h = 0; h < sizeof head_dims / sizeof *head_dims; h++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            for (int i = 0; i < 2; i++)
                make_scene(&scenes[i], head_dims[h], ways[w].group, ways[w].n_tokens,
                           ways[w].position, ways[w].window);
            run_scene(&glyd_ops_c, &scenes[0]);
            check_scene(&scenes[0]);
            for (int v = 0; v <= (int)glyd_cpu_variant(); v++) {
                run_scene(glyd_ops_of((glyd_variant)v), &scenes[1]);
                assert_memory_equal(scenes[0].out, scenes[1].out, sizeof scenes[0].out);
            }
        }
}

/* A token alone, and the same token in a run, are the same bits. */
static void test_attention_of_a_run_is_that_of_a_token(void **state)
{
    (void)state;
    const glyd_ops *ops = glyd_ops_of(glyd_cpu_variant());
    make_scene(&scenes[0], 40, 3, 16, 50, 0);
    run_scene(ops, &scenes[0]);
    for (int i = 0; i < 16; i++) {
        scenes[1] = scenes[0];
        memmove(scenes[1].q, scenes[0].q + i * 120, 120 * sizeof(float));
        scenes[1].n_tokens = 1;
        scenes[1].position = 50 + i;
        run_scene(ops, &scenes[1]);
        assert_memory_equal(scenes[1].out, scenes[0].out + i * 120, 120 * sizeof(float));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_exp_is_accurate),
        cmocka_unit_test(test_norm_and_silu_are_right),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_of_a_run_is_that_of_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
