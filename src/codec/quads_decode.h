/* quads_decode.h - the loop over a run's lanes; each variant brings its own way to place digits.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_QUADS_DECODE_H
#define GLYD_CODEC_QUADS_DECODE_H

#include "codec/load.h"
#include "codec/quads.h"

/* 64 bits of a record from bit `at` on, 57 of them of use; zeros past its end. */
static inline uint64_t glyd_quads_bits(const uint8_t *record, int64_t bytes, int64_t at)
{
    int64_t byte = at >> 3;
    uint64_t bits = 0;
    if (byte + 8 <= bytes)
        memcpy(&bits, record + byte, 8);
    else if (byte < bytes)
        memcpy(&bits, record + byte, (size_t)(bytes - byte));
    return bits >> (at & 7);
}

/* Bits of a record before its digits; more than there are where it ends before them. */
static inline int64_t glyd_quads_head(const uint8_t *record)
{
    return GLYD_QUAD_HEAD_BITS + GLYD_QUAD_ESCAPE_BITS * (int64_t)glyd_load_u16(record, 0);
}

/* Digits of 3 bits, a byte each, to codes: 7 stands for 10. */
static inline uint64_t glyd_quads_codes_of(uint64_t digits)
{
    uint64_t seven = (digits + 0x0101010101010101U) >> 3 & 0x0101010101010101U;
    return digits + 3 * seven;
}

/* Index of quad k of a lane. */
static inline uint32_t glyd_quads_index(uint64_t word, uint32_t rest, int k)
{
    return k < 7 ? (uint32_t)(word >> 9 * k) & 511 : (uint32_t)(word >> 63) << 8 | rest;
}

/* Decode a run; `deposit(bits, marks)` puts the low bits, in order, to where `marks` has ones. */
#define GLYD_QUADS_DECODE(deposit)                                                                 \
    int64_t at = glyd_quads_head(record);                                                          \
    for (int block = 0; block < blocks; block++, index += GLYD_QUAD_INDEX_BYTES) {                 \
        for (int lane = 0; lane < GLYD_LANES; lane++, codes += GLYD_BLOCK_GROUPS) {                \
            uint64_t word, row[2][2], bits = glyd_quads_bits(record, bytes, at);                   \
            memcpy(&word, index + 8 * lane, sizeof word);                                          \
            uint32_t rest = index[8 * GLYD_LANES + lane];                                          \
            int used = 0;                                                                          \
            for (int k = 0; k < 8; k += 2) {                                                       \
                uint32_t a = glyd_quads_index(word, rest, k);                                      \
                uint32_t b = glyd_quads_index(word, rest, k + 1);                                  \
                uint64_t marks = q->marks[a] | (uint64_t)q->marks[b] << 32;                        \
                uint64_t digits = deposit(bits >> used, marks);                                    \
                row[k / 4][k / 2 % 2] =                                                            \
                    (q->codes[a] | (uint64_t)q->codes[b] << 32) | glyd_quads_codes_of(digits);     \
                used += 3 * (q->digits[a] + q->digits[b]);                                         \
            }                                                                                      \
            at += used;                                                                            \
            uint64_t both[2] = {row[0][0] | row[1][0] << 4, row[0][1] | row[1][1] << 4};           \
            memcpy(codes, both, sizeof both);                                                      \
        }                                                                                          \
    }                                                                                              \
    return at

#endif
