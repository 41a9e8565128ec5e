/* vec.h - sixteen floats, in whichever instruction set the including file is compiled for.
 *
 * Kernels are written once over this type and compiled three times (ops_c.c, ops_avx2.c,
 * ops_avx512.c). Each operation here is one IEEE operation a lane, correctly rounded, so the three
 * give the same bits; what order a sum takes is then a property of the kernel's text alone.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CPU_VEC_H
#define GLYD_CPU_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum { VEC = 16 };

#if defined(__AVX512F__)

typedef __m512 vec;

static inline vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void vec_store(float *p, vec a)
{
    _mm512_storeu_ps(p, a);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c, rounded once. */
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* a > b ? a : b, so b where either is not a number. */
static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

/* a < b ? a : b. */
static inline vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

/* The low bits of each float, moved to its exponent: see vec_exp. */
static inline vec vec_shift_23(vec a)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23));
}

/* Add the bits of two vectors as integers. */
static inline vec vec_add_bits(vec a, vec b)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}

#elif defined(__AVX2__)

typedef struct vec {
    __m256 lo, hi;
} vec;

static inline vec vec_set(float x)
{
    __m256 v = _mm256_set1_ps(x);
    return (vec){v, v};
}

static inline vec vec_load(const float *p)
{
    return (vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline void vec_store(float *p, vec a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}

static inline vec vec_add(vec a, vec b)
{
    return (vec){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}

static inline vec vec_sub(vec a, vec b)
{
    return (vec){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}

static inline vec vec_mul(vec a, vec b)
{
    return (vec){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}

static inline vec vec_div(vec a, vec b)
{
    return (vec){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return (vec){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

static inline vec vec_max(vec a, vec b)
{
    return (vec){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}

static inline vec vec_min(vec a, vec b)
{
    return (vec){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

static inline __m256 shift_23(__m256 a)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23));
}

static inline vec vec_shift_23(vec a)
{
    return (vec){shift_23(a.lo), shift_23(a.hi)};
}

static inline __m256 add_bits(__m256 a, __m256 b)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

static inline vec vec_add_bits(vec a, vec b)
{
    return (vec){add_bits(a.lo, b.lo), add_bits(a.hi, b.hi)};
}

#else

typedef struct vec {
    float lane[VEC];
} vec;

#define VEC_LANES(expression)                                                                      \
    vec r;                                                                                         \
    for (int i = 0; i < VEC; i++)                                                                  \
        r.lane[i] = (expression);                                                                  \
    return r

static inline uint32_t float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline vec vec_set(float x)
{
    VEC_LANES(x);
}

static inline vec vec_load(const float *p)
{
    VEC_LANES(p[i]);
}

static inline void vec_store(float *p, vec a)
{
    memcpy(p, a.lane, sizeof a.lane);
}

static inline vec vec_add(vec a, vec b)
{
    VEC_LANES(a.lane[i] + b.lane[i]);
}

static inline vec vec_sub(vec a, vec b)
{
    VEC_LANES(a.lane[i] - b.lane[i]);
}

static inline vec vec_mul(vec a, vec b)
{
    VEC_LANES(a.lane[i] * b.lane[i]);
}

static inline vec vec_div(vec a, vec b)
{
    VEC_LANES(a.lane[i] / b.lane[i]);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    VEC_LANES(fmaf(a.lane[i], b.lane[i], c.lane[i]));
}

static inline vec vec_max(vec a, vec b)
{
    VEC_LANES(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}

static inline vec vec_min(vec a, vec b)
{
    VEC_LANES(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}

static inline vec vec_shift_23(vec a)
{
    VEC_LANES(float_from_bits(float_bits(a.lane[i]) << 23));
}

static inline vec vec_add_bits(vec a, vec b)
{
    VEC_LANES(float_from_bits(float_bits(a.lane[i]) + float_bits(b.lane[i])));
}

#undef VEC_LANES
#endif

/* The first n < 16 floats at p; the other lanes are zero. */
static inline vec vec_load_first(const float *p, int64_t n)
{
    float lane[VEC] = {0};
    memcpy(lane, p, (size_t)n * sizeof *lane);
    return vec_load(lane);
}

static inline void vec_store_first(float *p, int64_t n, vec a)
{
    float lane[VEC];
    vec_store(lane, a);
    memcpy(p, lane, (size_t)n * sizeof *lane);
}

/* The sum of the lanes by halving: lane i takes lane i + 8, then i + 4, i + 2, i + 1. */
static inline float vec_sum(vec a)
{
    float lane[VEC];
    vec_store(lane, a);
    for (int half = VEC / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* The largest lane. */
static inline float vec_largest(vec a)
{
    float lane[VEC];
    vec_store(lane, a);
    for (int half = VEC / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
    return lane[0];
}

/* e^x with an error below 2 units in the last place, from one fixed polynomial, so that results
 * depend neither on the C library nor on the vector's width. x is held to [-87.3, 88.3], where
 * e^x is a normal number; not-a-number stays so.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series to r^7 (the rest is below 6e-9);
 * 2^n by moving n into the exponent. Adding 1.5 * 2^23 rounds to an integer and leaves it in the
 * low bits of the sum. ln 2 is split so that n * ln2_high is exact. */
static inline vec vec_exp(vec x)
{
    const float log2_e = 0x1.715476p+0F, ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
    const float round = 0x1.8p+23F;
    x = vec_max(vec_set(-87.3F), x);
    x = vec_min(vec_set(88.3F), x);
    vec shifted = vec_fma(x, vec_set(log2_e), vec_set(round));
    vec n = vec_sub(shifted, vec_set(round));
    vec r = vec_fma(n, vec_set(-ln2_high), x);
    r = vec_fma(n, vec_set(-ln2_low), r);
    vec p = vec_set(1.0F / 5040);
    p = vec_fma(p, r, vec_set(1.0F / 720));
    p = vec_fma(p, r, vec_set(1.0F / 120));
    p = vec_fma(p, r, vec_set(1.0F / 24));
    p = vec_fma(p, r, vec_set(1.0F / 6));
    p = vec_fma(p, r, vec_set(0.5F));
    p = vec_fma(p, r, vec_set(1.0F));
    p = vec_fma(p, r, vec_set(1.0F));
    return vec_mul(p, vec_add_bits(vec_shift_23(shifted), vec_set(1.0F)));
}

#endif
