/* quads_avx2.c - decoding quads with the instruction that deposits bits.
 *
 * A lane's digits, 48 bits at most, are one load; two quads are one deposit.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/quads_decode.h"
#include <immintrin.h>

int64_t glyd_quads_decode_bmi2(const glyd_quads *q, const uint8_t *index, const uint8_t *record,
                               int64_t bytes, int blocks, uint32_t *codes)
{
    GLYD_QUADS_DECODE(_pdep_u64);
}
