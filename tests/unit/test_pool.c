/* test_pool.c - every task runs once, on every size of pool, run after run.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "test.h"
#include <stdatomic.h>

enum { N_TASKS = 1000 };

typedef struct counts {
    atomic_int ran[N_TASKS];
    int worker_max;
} counts;

static void count(void *arg, int64_t task, int worker)
{
    counts *c = arg;
    assert_in_range(worker, 0, c->worker_max);
    atomic_fetch_add(&c->ran[task], 1);
}

static void test_each_task_once(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        glyd_pool *pool;
        assert_ok(glyd_pool_create(&(glyd_pool_options){.n_threads = n_threads}, &pool, NULL));
        assert_int_equal(glyd_pool_size(pool), n_threads);
        static counts c;
        memset(&c, 0, sizeof c);
        c.worker_max = n_threads - 1;
        for (int run = 1; run <= 200; run++) {
            glyd_pool_run(pool, run % N_TASKS, count, &c);
            for (int i = 0; i < N_TASKS; i++)
                assert_int_equal(c.ran[i], i < run ? run - i : 0);
        }
        glyd_pool_free(pool);
    }
}

static void test_null_pool_is_this_thread(void **state)
{
    (void)state;
    static counts c;
    glyd_pool_run(NULL, N_TASKS, count, &c);
    assert_int_equal(c.ran[N_TASKS - 1], 1);
    assert_int_equal(glyd_pool_size(NULL), 1);
}

static void test_refuses_silly_sizes(void **state)
{
    (void)state;
    glyd_pool *pool;
    glyd_error err = {0};
    assert_int_equal(glyd_pool_create(&(glyd_pool_options){.n_threads = -1}, &pool, &err),
                     GLYD_E_ARG);
    assert_non_null(strstr(err.text, "-1 threads"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_task_once),
        cmocka_unit_test(test_null_pool_is_this_thread),
        cmocka_unit_test(test_refuses_silly_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
