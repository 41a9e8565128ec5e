/* codec_values.h - weights for the codec's tests, ordinary and adversarial.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_VALUES_H
#define GLYD_CODEC_VALUES_H

#include "test.h"

typedef enum values {
    VALUES_ORDINARY, /* geometric exponents, rows of different scale */
    VALUES_ESCAPES,  /* ordinary, three in a hundred with any exponent */
    VALUES_ZERO,     /* all +0 */
    VALUES_MINUS,    /* all -0 */
    VALUES_ONE,      /* all the same */
    VALUES_TWO,      /* two exponents, the second one time in eight */
    VALUES_NAN,      /* NaNs with payloads, and infinities */
    VALUES_DENORMAL, /* exponent 0 */
    VALUES_ENDS,     /* rows at the lowest, middle and highest exponents */
    VALUES_FLAT,     /* 16 exponents, all as likely */
    VALUES_SKEWED,   /* Fibonacci-like counts: codes of the greatest length */
    VALUES_NOISE,    /* 16 random bits */
    VALUES_KINDS,
} values;

static const char *const values_names[VALUES_KINDS] = {
    "ordinary", "escapes",  "zero", "minus", "one",    "two",
    "nan",      "denormal", "ends", "flat",  "skewed", "noise",
};

/* 0 half of the time, 1 a quarter, and so on to 40. */
static inline int values_halving(uint64_t *state)
{
    uint64_t bits = test_random(state) | 1ULL << 40;
    return __builtin_ctzll(bits);
}

static inline uint16_t values_one(values kind, int64_t row, uint64_t *state)
{
    uint64_t random = test_random(state) >> 11;
    int sm = (int)(random & 0x807f), e = (int)(random >> 16 & 255);
    switch (kind) {
    case VALUES_ESCAPES:
        if (random >> 24 & 31)
            e = 122 - (int)(row % 5) - values_halving(state);
        break;
    case VALUES_ZERO:
        return 0;
    case VALUES_MINUS:
        return 0x8000;
    case VALUES_ONE:
        return 0x3f80;
    case VALUES_TWO:
        e = (random >> 24 & 7) == 0 ? 121 : 120;
        break;
    case VALUES_NAN:
        e = 255;
        break;
    case VALUES_DENORMAL:
        e = 0;
        break;
    case VALUES_ENDS:
        e = (int)(row % 3 == 0 ? e & 15 : row % 3 == 1 ? 120 + (e & 7) : 240 + (e & 15));
        break;
    case VALUES_FLAT:
        e = 100 + (e & 15);
        break;
    case VALUES_SKEWED:
        e = 120 - values_halving(state) / 2 - values_halving(state) / 3;
        break;
    case VALUES_NOISE:
        break;
    default:
        e = 122 - (int)(row % 5) - values_halving(state);
        break;
    }
    return (uint16_t)(sm | (e < 0 ? 0 : e) << 7);
}

static inline void values_fill(values kind, uint64_t seed, uint16_t *to, int64_t rows, int64_t cols,
                               int64_t stride)
{
    uint64_t state = seed * 2 + 1;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t col = 0; col < cols; col++)
            to[row * stride + col] = values_one(kind, row, &state);
    }
}

#endif
