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

/* Choose all bases for one shared prefix code, and the code that is given to escapes. */
void glyd_bases_align(const glyd_survey *surveys, int64_t rows, uint8_t *bases, int *fill);

#endif
