/* encode.h - writing one run of layout `mma`.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_ENCODE_H
#define GLYD_CODEC_ENCODE_H

#include "codec/prefix.h"

enum {
    GLYD_RUN_STEPS_MAX = GLYD_RUN_BLOCKS_MAX * 8,
    /* A stream may be dealt three words more than its codes fill. */
    GLYD_STREAM_WORDS_MAX = GLYD_RUN_STEPS_MAX * 2 * GLYD_CODE_BITS_MAX / 32 + 4,
};

/* What encoding a run needs beside its input and output. */
typedef struct glyd_encoder {
    uint32_t words[GLYD_STREAMS_MAX][GLYD_STREAM_WORDS_MAX];
    uint8_t bits[GLYD_RUN_STEPS_MAX][GLYD_STREAMS_MAX];
} glyd_encoder;

/* The most bytes that a run of so many blocks takes, a multiple of 16. */
static inline int64_t glyd_encode_bound(int64_t blocks)
{
    int64_t words = blocks * 16 * GLYD_CODE_BITS_MAX + 3 * GLYD_STREAMS_MAX;
    return (words * 4 + GLYD_RUN_ALIGN - 1) / GLYD_RUN_ALIGN * GLYD_RUN_ALIGN;
}

/* Encode `blocks` blocks of mma12 code words to `streams` streams; every pair has a code. Returns
 * the bytes written, zero padding to a multiple of 16 counted. */
int64_t glyd_encode_run(glyd_encoder *encoder, const glyd_prefix *prefix, const uint32_t *codes,
                        int blocks, int streams, uint8_t *out);

#endif
