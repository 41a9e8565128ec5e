/* test_kv.c - pages of the KV cache: no page twice, none lost, a pool that runs out.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/kv.h"
#include "test.h"
#include <stdbool.h>

enum { PAGES = 20, TABLES = 4 };

static void check(const glyd_kv_pool *pool, const glyd_kv_table *tables)
{
    bool used[PAGES] = {false};
    int n = pool->n_free;
    for (int i = 0; i < pool->n_free; i++) {
        assert_false(used[pool->free[i]]);
        used[pool->free[i]] = true;
    }
    for (int t = 0; t < TABLES; t++) {
        n += tables[t].n_pages;
        for (int i = 0; i < tables[t].n_pages; i++) {
            assert_false(used[tables[t].pages[i]]);
            used[tables[t].pages[i]] = true;
        }
    }
    assert_int_equal(n, PAGES);
}

static void test_pages(void **state)
{
    (void)state;
    glyd_kv_pool pool;
    int32_t pages[TABLES][PAGES];
    glyd_kv_table tables[TABLES];
    uint64_t random = 8;
    int n_refused = 0;
    assert_ok(glyd_kv_pool_init(&pool, PAGES, 32));
    for (int t = 0; t < TABLES; t++)
        tables[t] = (glyd_kv_table){pages[t], 0};
    for (int i = 0; i < 5000; i++) {
        glyd_kv_table *t = &tables[test_random(&random) % TABLES];
        int n = (int)(test_random(&random) % (PAGES + 1)), before = t->n_pages;
        bool fits = n - before <= pool.n_free;
        assert_int_equal(glyd_kv_table_resize(&pool, t, n), fits);
        assert_int_equal(t->n_pages, fits ? n : before);
        n_refused += !fits;
        check(&pool, tables);
    }
    assert_true(n_refused > 100);
    glyd_kv_pool_deinit(&pool);
}

static void test_pages_for(void **state)
{
    (void)state;
    glyd_kv_pool pool;
    assert_ok(glyd_kv_pool_init(&pool, PAGES, 32));
    assert_int_equal(glyd_kv_pages_for(&pool, 0), 0);
    assert_int_equal(glyd_kv_pages_for(&pool, 1), 1);
    assert_int_equal(glyd_kv_pages_for(&pool, 32), 1);
    assert_int_equal(glyd_kv_pages_for(&pool, 33), 2);
    glyd_kv_pool_deinit(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_pages_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
