/* test_gpu_fault.c - each allocation of the table of plans made to fail in turn: said so, what was
 * there stays, and nothing leaks.
 *
 * failing_malloc.h has how; under sanitizers this test has nothing to test.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/plan_cache.h"
#include "failing_malloc.h"
#include "test.h"

static void test_failed_allocations(void **state)
{
    (void)state;
    if (!OWN_MALLOC)
        skip();
    enum { TOKENS = 200 };
    glyd_plan_cache cache = {0};
    glyd_plan_scheme scheme;
    glyd_plan_key key = {4096, 4096, 1, 0};
    long live = n_live, failures = 0;
    for (; key.tokens <= TOKENS; key.tokens++) {
        size_t used = cache.n_used;
        n_failed = 0;
        fail_at = 0;
        glyd_status status = glyd_plan_cache_add(&cache, &key, (glyd_plan_scheme){1, 64});
        fail_at = -1;
        assert_int_equal(status, n_failed ? GLYD_E_NOMEM : GLYD_OK);
        failures += n_failed;
        if (status == GLYD_OK)
            continue;
        assert_int_equal(cache.n_used, used);
        assert_false(glyd_plan_cache_find(&cache, &key, &scheme));
        assert_ok(glyd_plan_cache_add(&cache, &key, (glyd_plan_scheme){1, 64}));
    }
    assert_int_equal(cache.n_used, TOKENS);
    assert_in_range(failures, 3, 8);
    glyd_plan_cache_free(&cache);
    assert_int_equal(n_live, live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failed_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
