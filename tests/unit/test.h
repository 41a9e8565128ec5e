/* test.h - what every unit test includes: cmocka with its prerequisites, and a few helpers.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEST_H
#define GLYD_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "glyd/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define assert_ok(call) assert_int_equal((call), GLYD_OK)

/* xorshift64*: the same numbers on every machine. */
static inline uint64_t test_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1DULL;
}

#endif
