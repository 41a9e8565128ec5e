/* test_codec_fault.c - each allocation of a pack made to fail in turn: said so, and nothing leaks.
 *
 * failing_malloc.h has how; under sanitizers this test has nothing to test.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/pack.h"
#include "codec_values.h"
#include "failing_malloc.h"

static void test_failed_allocations(void **state)
{
    (void)state;
    enum { ROWS = 40, COLS = 700 };
    static uint16_t bf16[ROWS * COLS];
    if (!OWN_MALLOC)
        skip();
    for (int kind = VALUES_ORDINARY; kind <= VALUES_NOISE; kind += VALUES_NOISE) {
        values_fill((values)kind, 1, bf16, ROWS, COLS, COLS);
        for (int layout = GLYD_LAYOUT_BF16; layout <= GLYD_LAYOUT_MMA; layout++) {
            glyd_status status = GLYD_E_NOMEM;
            int tries = 0;
            for (; status != GLYD_OK; tries++) {
                glyd_buf out = {0};
                glyd_matrix m;
                glyd_error err = {0};
                long live = n_live;
                n_failed = 0;
                fail_at = tries;
                status =
                    glyd_pack((glyd_layout)layout, bf16, ROWS, COLS, COLS, NULL, &out, &m, &err);
                fail_at = -1;
                assert_int_equal(n_failed, status != GLYD_OK);
                if (status != GLYD_OK) {
                    assert_int_equal(status, GLYD_E_NOMEM);
                    assert_non_null(strstr(err.text, "out of memory for packing"));
                }
                glyd_buf_free(&out);
                assert_int_equal(n_live, live);
            }
            assert_in_range(tries, 2, 12); /* some failed, then none did */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failed_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
