/* variants.h - the inner loops of the codec, in plain C, AVX2 and AVX-512.
 *
 * All variants give the same bytes, on any input. A caller that wants the best one asks
 * glyd_variants_best(); tests and benchmarks walk glyd_variants_get().
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_VARIANTS_H
#define GLYD_CODEC_VARIANTS_H

#include "base/cpu.h"
#include "codec/stream.h"

typedef struct glyd_variants {
    /* Decode `blocks` blocks of a run of `streams` streams from at most n_words words into an mma12
     * code plane. Returns how many words were dealt, or -1 where n_words are not enough; *left then
     * or else receives the bits that no code used, all streams' or-ed. Trusts nothing but the
     * sizes. */
    int64_t (*decode)(const uint8_t *words, int64_t n_words, const glyd_lookup *lookup, int blocks,
                      int streams, uint32_t *codes, uint64_t *left);

    /* One block, 16 rows x 64 columns, from its sm and code words to bf16; escapes stay to be
     * patched. `bases` are the tile's 16. */
    void (*join)(const uint8_t *sm, const uint8_t *codes, const uint8_t *bases, uint16_t *bf16,
                 int64_t stride);

    /* The way back. An exponent outside its row's window gets the code `fill`; returns non-zero
     * where there was one. */
    int (*split)(const uint16_t *bf16, int64_t stride, const uint8_t *bases, int fill, uint32_t *sm,
                 uint32_t *codes);
} glyd_variants;

/* NULL where this build has no such variant; the processor is not asked. */
const glyd_variants *glyd_variants_get(glyd_variant variant);

/* The best that this processor runs. */
const glyd_variants *glyd_variants_best(void);

/* The tables behind glyd_variants_get(), one a file. */
extern const glyd_variants glyd_variants_c;
#if defined(__x86_64__)
extern const glyd_variants glyd_variants_avx2;
extern const glyd_variants glyd_variants_avx512;
#endif

#endif
