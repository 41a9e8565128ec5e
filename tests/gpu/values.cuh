/* values.cuh - what the checks on a GPU share: values of every kind, device memory, a way out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TESTS_VALUES_CUH
#define GLYD_TESTS_VALUES_CUH

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum input_kind {
    INPUT_ORDINARY,
    INPUT_WIDE,
    INPUT_CANCELLING,
    INPUT_NONFINITE,
    INPUT_DENORMAL,
    INPUT_ESCAPES,
    INPUT_KINDS,
} input_kind;

static const char *const input_names[INPUT_KINDS] = {
    "ordinary", "wide", "cancelling", "nonfinite", "denormal", "escapes",
};

static uint64_t random_state = 88172645463325252u;

static uint32_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(2);
}

static void check_cuda(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        die(what, cudaGetErrorString(error));
}

static void *device_alloc(size_t bytes)
{
    void *p;
    check_cuda(cudaMalloc(&p, bytes ? bytes : 16), "memory");
    return p;
}

static inline void *device_copy(const void *from, size_t bytes)
{
    void *p = device_alloc(bytes);
    check_cuda(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice), "copy");
    return p;
}

static uint16_t bf16_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float gaussian(void)
{
    float u = ((float)random_bits() + 0.5f) / 4294967296.0f;
    float v = (float)random_bits() / 4294967296.0f;
    return sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
}

/* A weight of row `row`; X is made the same way with its own deviation. */
static uint16_t make_value(input_kind kind, int64_t row, int64_t col, float deviation)
{
    uint16_t v = bf16_of(gaussian() * deviation * (float)(1 + row % 5));
    switch (kind) {
    case INPUT_WIDE: /* any finite exponent around one, so that sums stay finite */
        return (uint16_t)((v & 0x807f) | (97 + random_bits() % 60) << 7);
    case INPUT_CANCELLING:
        return (uint16_t)(col & 1 ? 0xbf80 : 0x3f80) ^ (uint16_t)(random_bits() % 3 == 0);
    case INPUT_NONFINITE:
        return random_bits() % 997 == 0 ? (uint16_t)(0x7f80 | (random_bits() & 0x807f)) : v;
    case INPUT_DENORMAL:
        return random_bits() % 3 == 0 ? (uint16_t)(random_bits() & 0x807f) : v;
    case INPUT_ESCAPES: /* one in sixteen far outside any window */
        return random_bits() % 16 == 0 ? (uint16_t)((v & 0x807f) | (random_bits() % 250) << 7) : v;
    default:
        return v;
    }
}

#endif
