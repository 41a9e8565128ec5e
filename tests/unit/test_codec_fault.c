/* test_codec_fault.c - each allocation of a pack made to fail in turn: said so, and nothing leaks.
 *
 * The program's own malloc family counts down to the one that fails. Sanitizers bring their own,
 * so there this test has nothing to test.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/pack.h"
#include "codec_values.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OWN_MALLOC 0
#elif defined(__clang__)
#define OWN_MALLOC !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define OWN_MALLOC 1
#endif

static long fail_at = -1; /* allocations until one fails; negative: none does */
static long n_failed, n_live;

#if OWN_MALLOC
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *block);

static int is_time_to_fail(void)
{
    if (fail_at < 0 || fail_at-- > 0)
        return 0;
    n_failed++;
    return 1;
}

static void *count_block(void *block)
{
    n_live += block != NULL;
    return block;
}

void *malloc(size_t bytes)
{
    return is_time_to_fail() ? NULL : count_block(__libc_malloc(bytes));
}

void *calloc(size_t n, size_t bytes)
{
    return is_time_to_fail() ? NULL : count_block(__libc_calloc(n, bytes));
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return is_time_to_fail() ? NULL : count_block(__libc_memalign(align, bytes));
}

void free(void *block)
{
    n_live -= block != NULL;
    __libc_free(block);
}
#endif

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
