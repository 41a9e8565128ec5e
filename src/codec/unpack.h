/* unpack.h - glyd_unpack with inner loops of the caller's choice, for tests and benchmarks.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_UNPACK_H
#define GLYD_CODEC_UNPACK_H

#include "codec/variants.h"

GLYD_MUST_CHECK glyd_status glyd_unpack_with(const glyd_variants *variants, const glyd_matrix *m,
                                             int64_t row0, int64_t rows, uint16_t *bf16,
                                             int64_t stride, glyd_pool *pool, glyd_error *err);

#endif
