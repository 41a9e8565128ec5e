/* failing_malloc.h - the program's own malloc family, which counts down to the one that fails.
 *
 * For one source file of a test program. Sanitizers bring their own malloc: there OWN_MALLOC is 0,
 * nothing fails, and the test has nothing to test.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_FAILING_MALLOC_H
#define GLYD_FAILING_MALLOC_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OWN_MALLOC 0
#elif defined(__clang__)
#define OWN_MALLOC !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define OWN_MALLOC 1
#endif

#define MAYBE_UNUSED __attribute__((unused))  /* a test needs not look at all of them */
static MAYBE_UNUSED atomic_long fail_at = -1; /* allocations until one fails; negative: none does */
static MAYBE_UNUSED atomic_long n_allocated, n_failed, n_live;

#if OWN_MALLOC
/* Libraries are to use them too. */
#define SHARED __attribute__((visibility("default")))

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *block);

static bool is_time_to_fail(void)
{
    n_allocated++;
    if (fail_at < 0 || fail_at-- > 0)
        return false;
    n_failed++;
    errno = ENOMEM; /* the system's own callers look at it */
    return true;
}

static void *count_block(void *block)
{
    n_live += block != NULL;
    return block;
}

SHARED void *malloc(size_t bytes)
{
    return is_time_to_fail() ? NULL : count_block(__libc_malloc(bytes));
}

SHARED void *calloc(size_t n, size_t bytes)
{
    return is_time_to_fail() ? NULL : count_block(__libc_calloc(n, bytes));
}

SHARED void *realloc(void *block, size_t bytes)
{
    if (is_time_to_fail())
        return NULL;
    n_live += block == NULL;
    return __libc_realloc(block, bytes);
}

SHARED void *aligned_alloc(size_t align, size_t bytes)
{
    return is_time_to_fail() ? NULL : count_block(__libc_memalign(align, bytes));
}

SHARED void free(void *block)
{
    n_live -= block != NULL;
    __libc_free(block);
}
#endif

#endif
