/* pack.h - glyd_pack with the choices that its callers do not see, for tests and benchmarks.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_PACK_H
#define GLYD_CODEC_PACK_H

#include "codec/variants.h"

typedef struct glyd_pack_choice {
    glyd_layout layout;
    int run_blocks; /* 1 .. GLYD_RUN_BLOCKS_MAX */
    const glyd_variants *variants;
} glyd_pack_choice;

GLYD_MUST_CHECK glyd_status glyd_pack_with(const glyd_pack_choice *choice, const uint16_t *bf16,
                                           int64_t rows, int64_t cols, int64_t stride,
                                           glyd_pool *pool, glyd_buf *out, glyd_matrix *m,
                                           glyd_error *err);

#endif
