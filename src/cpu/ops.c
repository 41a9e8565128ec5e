/* ops.c - choosing the table of operations, and what all variants share.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/ops.h"
#include "base/error.h"
#include <string.h>

enum { LANES = 16 };

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

int64_t glyd_kv_head_floats(int head_dim)
{
    return GLYD_KV_PAGE * (head_dim + round_up(head_dim, LANES));
}

int64_t glyd_attention_scratch(int64_t n_positions)
{
    return 4 * round_up(n_positions, LANES);
}

const glyd_ops *glyd_ops_of(glyd_variant variant)
{
#if defined(__x86_64__)
    if (variant == GLYD_VARIANT_AVX512)
        return &glyd_ops_avx512;
    if (variant == GLYD_VARIANT_AVX2)
        return &glyd_ops_avx2;
#endif
    GLYD_ASSERT(variant == GLYD_VARIANT_C);
    return &glyd_ops_c;
}

void glyd_kv_store(float *head, int slot, int head_dim, const float *key, const float *value)
{
    float *keys = head + (int64_t)(slot / LANES) * head_dim * LANES + slot % LANES;
    for (int d = 0; d < head_dim; d++)
        keys[(int64_t)d * LANES] = key[d];
    float *values = head + (int64_t)GLYD_KV_PAGE * head_dim + slot * round_up(head_dim, LANES);
    memcpy(values, value, (size_t)head_dim * sizeof *value);
}
