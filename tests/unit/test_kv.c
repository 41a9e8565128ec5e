/* test_kv.c - pages of the KV cache: none lost, none given twice, and what the prefix cache hands
 * out is what the same tokens would have computed.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/kv.h"
#include "test.h"
#include <stdbool.h>

enum { PAGES = 24, PAGE_TOKENS = 4, TABLES = 4, LENGTH = 40, TABLE_PAGES = LENGTH / PAGE_TOKENS };

typedef struct sequence {
    int32_t ids[LENGTH];
    int n; /* tokens in the cache; -1: none is running */
    int32_t pages[TABLE_PAGES];
    glyd_kv_table table;
} sequence;

/* Stands for keys and values: a hash of all tokens up to a position. */
static uint64_t content[PAGES][PAGE_TOKENS];

static uint64_t content_at(const int32_t *ids, int position)
{
    uint64_t x = 99;
    for (int i = 0; i <= position; i++)
        x = (x ^ (uint64_t)ids[i]) * 0x9E3779B97F4A7C15ULL + 1;
    return x;
}

static void check_content(const sequence *q)
{
    for (int i = 0; i < q->n; i++)
        assert_true(content[q->pages[i / PAGE_TOKENS]][i % PAGE_TOKENS] == content_at(q->ids, i));
}

static void check_pool(const glyd_kv_pool *pool, const sequence *all, int n)
{
    int refs[PAGES] = {0}, n_unused = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < all[i].table.n_pages; j++)
            refs[all[i].pages[j]]++;
    for (int i = pool->oldest; i >= 0; i = pool->pages[i].newer) {
        assert_int_equal(refs[i], 0);
        n_unused++;
    }
    assert_int_equal(n_unused, pool->n_unused);
    for (int i = 0; i < PAGES; i++) {
        assert_int_equal(pool->pages[i].n_refs, refs[i]);
        n_unused += refs[i] > 0;
    }
    assert_int_equal(n_unused, PAGES);
}

/* Write tokens up to n; returns false where the pool has no page for them. */
static bool extend(glyd_kv_pool *pool, sequence *q, int n, bool registers)
{
    if (!glyd_kv_table_grow(pool, &q->table, glyd_kv_pages_for(pool, n)))
        return false;
    for (; q->n < n; q->n++)
        content[q->pages[q->n / PAGE_TOKENS]][q->n % PAGE_TOKENS] = content_at(q->ids, q->n);
    if (registers)
        glyd_kv_table_register(pool, &q->table, q->ids, q->n);
    return true;
}

/* Begin a sequence of q->ids with what the cache has of its first n; returns how much that was. */
static int begin(glyd_kv_pool *pool, sequence *q, int n)
{
    int partial, n_more;
    q->table = (glyd_kv_table){.pages = q->pages};
    q->n = glyd_kv_table_match(pool, &q->table, q->ids, n, &partial, &n_more);
    assert_int_equal(q->n, PAGE_TOKENS * q->table.n_pages);
    check_content(q);
    if (partial >= 0) {
        assert_true(n_more > 0);
        for (int i = 0; i < n_more; i++)
            assert_true(content[partial][i] == content_at(q->ids, q->n + i));
        glyd_kv_page_hold(pool, partial);
        int at = q->table.n_pages;
        bool is_copy = glyd_kv_table_grow(pool, &q->table, at + 1);
        if (is_copy) {
            assert_true(q->pages[at] != partial);
            memcpy(content[q->pages[at]], content[partial], sizeof content[0]);
        }
        bool is_own = !is_copy && glyd_kv_table_adopt(pool, &q->table, partial);
        if (is_copy || is_own)
            q->n += n_more;
        if (!is_own)
            glyd_kv_page_drop(pool, partial);
        check_content(q);
    }
    return q->n;
}

static void test_content_is_the_tokens(void **state)
{
    (void)state;
    glyd_kv_pool pool;
    sequence all[TABLES] = {0};
    uint64_t random = 8;
    long n_found = 0, n_partial = 0, n_refused = 0, n_forgotten = 0;
    assert_ok(glyd_kv_pool_init(&pool, PAGES, PAGE_TOKENS));
    for (int i = 0; i < TABLES; i++)
        all[i] = (sequence){.n = -1, .table = {.pages = all[i].pages}};
    for (int step = 0; step < 100000; step++) {
        sequence *q = &all[test_random(&random) % TABLES];
        if (q->n < 0) {
            /* Few different beginnings, so that many are shared. */
            for (int i = 0; i < LENGTH; i++)
                q->ids[i] = test_random(&random) % 8 == 0;
            int n = begin(&pool, q, (int)(test_random(&random) % LENGTH));
            n_found += n >= PAGE_TOKENS;
            n_partial += n % PAGE_TOKENS != 0;
        } else if (test_random(&random) % 4 != 0) {
            int n = q->n + (int)(test_random(&random) % 7);
            bool fits = extend(&pool, q, n < LENGTH ? n : LENGTH, test_random(&random) % 4 != 0);
            n_refused += !fits;
            check_content(q);
        } else {
            bool is_wrong = test_random(&random) % 16 == 0;
            if (is_wrong) {
                glyd_kv_table_forget(&pool, &q->table);
                for (int i = q->table.n_registered; i < q->table.n_pages; i++)
                    memset(content[q->pages[i]], 0xAA, sizeof content[0]);
                n_forgotten++;
            }
            glyd_kv_table_release(&pool, &q->table, q->ids, is_wrong ? 0 : q->n);
            q->n = -1;
        }
        check_pool(&pool, all, TABLES);
    }
    assert_true(n_found > 1000 && n_partial > 1000 && n_refused > 100 && n_forgotten > 100);
    glyd_kv_pool_deinit(&pool);
}

static void fill(sequence *q, int32_t first, int n)
{
    *q = (sequence){.n = 0, .table = {.pages = q->pages}};
    for (int i = 0; i < n; i++)
        q->ids[i] = first + i;
}

static void test_what_is_found(void **state)
{
    (void)state;
    glyd_kv_pool pool;
    sequence a, b;
    assert_ok(glyd_kv_pool_init(&pool, PAGES, PAGE_TOKENS));
    fill(&a, 0, LENGTH);
    fill(&b, 0, LENGTH);
    assert_int_equal(begin(&pool, &a, LENGTH), 0);
    assert_true(extend(&pool, &a, 10, true));

    /* Beside a sequence that runs: its full pages, shared. */
    assert_int_equal(begin(&pool, &b, LENGTH), 8);
    assert_int_equal(a.pages[1], b.pages[1]);
    glyd_kv_table_release(&pool, &b.table, b.ids, 8);

    /* After it: all of it, as far as the ids are the same. */
    glyd_kv_table_release(&pool, &a.table, a.ids, 10);
    assert_int_equal(pool.n_unused, PAGES);
    assert_int_equal(begin(&pool, &b, LENGTH), 10);
    glyd_kv_table_release(&pool, &b.table, b.ids, 10);
    assert_int_equal(begin(&pool, &b, 6), 6);
    glyd_kv_table_release(&pool, &b.table, b.ids, 6);
    b.ids[5] = 77;
    assert_int_equal(begin(&pool, &b, LENGTH), 5);
    glyd_kv_table_release(&pool, &b.table, b.ids, 5);
    b.ids[0] = 77;
    assert_int_equal(begin(&pool, &b, LENGTH), 0);

    /* The same ids elsewhere are something else. */
    fill(&b, 4, LENGTH);
    assert_int_equal(begin(&pool, &b, LENGTH), 0);
    glyd_kv_pool_deinit(&pool);
}

static void test_the_same_page_is_kept_once(void **state)
{
    (void)state;
    glyd_kv_pool pool;
    sequence a, b;
    assert_ok(glyd_kv_pool_init(&pool, PAGES, PAGE_TOKENS));
    fill(&a, 0, LENGTH);
    fill(&b, 0, LENGTH);
    (void)begin(&pool, &a, LENGTH);
    (void)begin(&pool, &b, LENGTH);
    assert_true(extend(&pool, &a, 9, false) && extend(&pool, &b, 9, false));
    assert_int_equal(pool.n_unused, PAGES - 6);
    glyd_kv_table_register(&pool, &a.table, a.ids, a.n);
    glyd_kv_table_register(&pool, &b.table, b.ids, b.n);
    assert_int_equal(pool.n_unused, PAGES - 4);
    assert_int_equal(a.pages[0], b.pages[0]);
    assert_int_equal(a.pages[1], b.pages[1]);
    assert_true(a.pages[2] != b.pages[2]);
    check_content(&b);
    glyd_kv_pool_deinit(&pool);
}

static void test_the_longest_unused_goes_first(void **state)
{
    (void)state;
    glyd_kv_pool pool;
    sequence a, b;
    assert_ok(glyd_kv_pool_init(&pool, PAGES, PAGE_TOKENS));
    fill(&a, 100, LENGTH);
    fill(&b, 200, LENGTH);
    (void)begin(&pool, &a, LENGTH);
    assert_true(extend(&pool, &a, 16, true));
    glyd_kv_table_release(&pool, &a.table, a.ids, a.n);
    (void)begin(&pool, &b, LENGTH);
    assert_true(extend(&pool, &b, 16, true));
    glyd_kv_table_release(&pool, &b.table, b.ids, b.n);

    /* Pages that hold nothing, then the end of the older sequence. */
    int32_t many[PAGES];
    glyd_kv_table table = {.pages = many};
    assert_true(glyd_kv_table_grow(&pool, &table, PAGES - 8));
    assert_int_equal(begin(&pool, &a, LENGTH), 16);
    glyd_kv_table_release(&pool, &a.table, a.ids, 0);
    assert_int_equal(begin(&pool, &b, LENGTH), 16);
    glyd_kv_table_release(&pool, &b.table, b.ids, 0);
    assert_true(glyd_kv_table_grow(&pool, &table, PAGES - 5));
    assert_int_equal(begin(&pool, &a, LENGTH), 4);
    glyd_kv_table_release(&pool, &a.table, a.ids, 0);
    assert_int_equal(begin(&pool, &b, LENGTH), 16);
    assert_false(glyd_kv_table_grow(&pool, &table, PAGES));
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
        cmocka_unit_test(test_content_is_the_tokens),
        cmocka_unit_test(test_what_is_found),
        cmocka_unit_test(test_the_same_page_is_kept_once),
        cmocka_unit_test(test_the_longest_unused_goes_first),
        cmocka_unit_test(test_pages_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
