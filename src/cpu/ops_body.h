/* ops_body.h - the operations of ops.h, compiled once for each instruction set.
 *
 * Included by ops_c.c, ops_avx2.c and ops_avx512.c after defining OPS_TABLE, the name of the table.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/attention_body.h"
#include "cpu/ops.h"
#include "cpu/vec.h"

static void rmsnorm(const float *x, const float *weight, float *y, int64_t n, float eps)
{
    int64_t whole = n / VEC * VEC;
    vec squares = vec_set(0);
    for (int64_t i = 0; i < whole; i += VEC)
        squares = vec_fma(vec_load(x + i), vec_load(x + i), squares);
    if (whole < n) {
        vec tail = vec_load_first(x + whole, n - whole);
        squares = vec_fma(tail, tail, squares);
    }
    float inverse = 1.0F / sqrtf(vec_sum(squares) / (float)n + eps);
    vec scale = vec_set(inverse);
    for (int64_t i = 0; i < whole; i += VEC)
        vec_store(y + i, vec_mul(vec_mul(vec_load(x + i), scale), vec_load(weight + i)));
    for (int64_t i = whole; i < n; i++)
        y[i] = x[i] * inverse * weight[i];
}

static void add(float *x, const float *y, int64_t n)
{
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC)
        vec_store(x + i, vec_add(vec_load(x + i), vec_load(y + i)));
    for (; i < n; i++)
        x[i] += y[i];
}

static vec silu(vec x)
{
    vec negative = vec_sub(vec_set(0), x);
    return vec_div(x, vec_add(vec_set(1), vec_exp(negative)));
}

static void silu_mul(float *gate, const float *up, int64_t n)
{
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC)
        vec_store(gate + i, vec_mul(silu(vec_load(gate + i)), vec_load(up + i)));
    if (i < n)
        vec_store_first(
            gate + i, n - i,
            vec_mul(silu(vec_load_first(gate + i, n - i)), vec_load_first(up + i, n - i)));
}

static void exp_all(float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC)
        vec_store(x + i, vec_exp(vec_load(x + i)));
    if (i < n)
        vec_store_first(x + i, n - i, vec_exp(vec_load_first(x + i, n - i)));
}

static void rope(float *x, const float *turn, int64_t n)
{
    int64_t half = n / 2, i = 0;
    const float *cosine = turn, *sine = turn + half;
    float *low = x, *high = x + half;
    for (; i + VEC <= half; i += VEC) {
        vec a = vec_load(low + i), b = vec_load(high + i);
        vec c = vec_load(cosine + i), s = vec_load(sine + i);
        vec_store(low + i, vec_sub(vec_mul(a, c), vec_mul(b, s)));
        vec_store(high + i, vec_add(vec_mul(b, c), vec_mul(a, s)));
    }
    for (; i < half; i++) {
        float a = low[i], b = high[i];
        low[i] = a * cosine[i] - b * sine[i];
        high[i] = b * cosine[i] + a * sine[i];
    }
}

const glyd_ops OPS_TABLE = {
    .rmsnorm = rmsnorm,
    .add = add,
    .silu_mul = silu_mul,
    .exp = exp_all,
    .rope = rope,
    .attention = attention,
};
