/* bases.h - which window of exponents each row gets: the encoder's choice, no part of the format.
 *
 * Integers only, and no order of rows matters, so that any packer can make the same bytes.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_BASES_H
#define GLYD_CODEC_BASES_H

#include "codec/format.h"

enum {
    GLYD_SURVEY_BINS = 32,                           /* exponents that a survey counts */
    GLYD_SURVEY_ORIGIN_MAX = 256 - GLYD_SURVEY_BINS, /* the highest first one */
    GLYD_BASES_ROUNDS = 12,                          /* of lining up, at most */
    GLYD_BASES_ESCAPE_BITS = 32,                     /* that an escape costs more than any code */
    GLYD_BASES_FRACTION_BITS = 8,                    /* costs are in 1/256 bits */
};

/* What is known of a row's exponents. */
typedef struct glyd_survey {
    uint32_t count[GLYD_SURVEY_BINS]; /* of exponents origin, origin + 1, ... */
    uint32_t outside;                 /* exponents that no bin counts */
    uint8_t origin;
} glyd_survey;

/* Survey n weights, n > 0. */
void glyd_survey_row(glyd_survey *survey, const uint16_t *bf16, int64_t n);

/* The base that leaves fewest escapes; the lowest of those. */
int glyd_base_fewest(const glyd_survey *survey);

/* Weights of the row that are escapes under a base. */
uint32_t glyd_base_escapes(const glyd_survey *survey, int base);

/* log2(x) in 1/256 bits, rounded down, by squaring: x > 0. */
GLYD_INLINE uint32_t glyd_bases_log2(uint64_t x)
{
    uint32_t log = 0;
    int shift = 0;
    while (x >> shift > 1)
        shift++;
    uint64_t mantissa = shift > 31 ? x >> (shift - 31) : x << (31 - shift); /* in [2^31, 2^32) */
    log = (uint32_t)shift;
    for (int i = 0; i < GLYD_BASES_FRACTION_BITS; i++) {
        mantissa = mantissa * mantissa >> 31;
        uint32_t bit = (uint32_t)(mantissa >> 32);
        mantissa >>= bit;
        log = log << 1 | bit;
    }
    return log;
}

/* The cost of each code by how often it comes, and of an escape in cost[GLYD_WINDOW]. */
GLYD_INLINE void glyd_bases_cost(const uint64_t count[GLYD_WINDOW], uint32_t cost[GLYD_WINDOW + 1])
{
    uint64_t total = 0;
    for (int code = 0; code < GLYD_WINDOW; code++)
        total += count[code] + 1; /* one more: a code that does not come yet has a cost too */
    uint32_t cheapest = UINT32_MAX;
    for (int code = 0; code < GLYD_WINDOW; code++) {
        cost[code] = glyd_bases_log2(total) - glyd_bases_log2(count[code] + 1);
        cheapest = cost[code] < cheapest ? cost[code] : cheapest;
    }
    cost[GLYD_WINDOW] = cheapest + (GLYD_BASES_ESCAPE_BITS << GLYD_BASES_FRACTION_BITS);
}

/* The code that is given to escapes: the likeliest, the lowest of those. */
GLYD_INLINE int glyd_bases_fill(const uint64_t count[GLYD_WINDOW])
{
    int fill = 0;
    for (int code = 1; code < GLYD_WINDOW; code++)
        fill = count[code] > count[fill] ? code : fill;
    return fill;
}

/* Choose all bases for one shared prefix code, and the code that is given to escapes. */
void glyd_bases_align(const glyd_survey *surveys, int64_t rows, uint8_t *bases, int *fill);

#endif
