/* cpu.c - which instruction-set variants this processor can run.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "base/cpu.h"
#include <sched.h>

glyd_variant glyd_cpu_variant(void)
{
#if defined(__x86_64__)
    /* The builtins also ask the operating system whether it saves the wide registers. */
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2"))
        return GLYD_VARIANT_C;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
        return GLYD_VARIANT_AVX2;
    return GLYD_VARIANT_AVX512;
#else
    return GLYD_VARIANT_C;
#endif
}

const char *glyd_variant_name(glyd_variant variant)
{
    static const char *const names[GLYD_VARIANTS] = {"c", "avx2", "avx512"};
    return (unsigned)variant < GLYD_VARIANTS ? names[variant] : "unknown";
}

int glyd_cpu_count(void)
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    (void)sched_getaffinity(0, sizeof allowed, &allowed);
    int n = CPU_COUNT(&allowed);
    return n > 0 ? n : 1;
}
