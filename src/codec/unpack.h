/* unpack.h - glyd_unpack with inner loops of the caller's choice, and one that trusts no stream.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_UNPACK_H
#define GLYD_CODEC_UNPACK_H

#include "codec/variants.h"

GLYD_MUST_CHECK glyd_status glyd_unpack_with(const glyd_variants *variants, const glyd_matrix *m,
                                             int64_t row0, int64_t rows, uint16_t *bf16,
                                             int64_t stride, glyd_pool *pool, glyd_error *err);

/* As glyd_unpack of a matrix that has passed glyd_check_frame: streams are checked as they are
 * decoded. Errors also: E_CORRUPT naming the tile; what was written is then worth nothing. */
GLYD_MUST_CHECK glyd_status glyd_unpack_strict(const glyd_matrix *m, int64_t row0, int64_t rows,
                                               uint16_t *bf16, int64_t stride, glyd_pool *pool,
                                               glyd_error *err);

#endif
