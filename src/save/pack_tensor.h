/* pack_tensor.h - one matrix packed, decoded again and compared, with its checksums.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SAVE_PACK_TENSOR_H
#define GLYD_SAVE_PACK_TENSOR_H

#include "base/sha256.h"
#include "save/folder.h"

typedef struct glyd_packed {
    glyd_matrix matrix;                 /* layout bf16 where packing would not make it smaller */
    glyd_buf arrays;                    /* what the matrix views; reused from tensor to tensor */
    glyd_buf crc;                       /* a checksum for each piece of each array, padded */
    char sha256[GLYD_SHA256_HEX_BYTES]; /* of the bf16 bytes */
} glyd_packed;

/* Pack a two-dimensional bf16 tensor. Errors: E_CORRUPT where it does not come back bit for bit. */
GLYD_MUST_CHECK glyd_status glyd_pack_tensor(const glyd_tensor *tensor, glyd_layout layout,
                                             glyd_pool *pool, glyd_packed *packed, glyd_error *err);
void glyd_packed_free(glyd_packed *packed);

/* Rows to decode at once: whole tiles, a megabyte or so, less with many threads. */
int64_t glyd_chunk_rows(int64_t cols, int n_threads);

/* The checksums of a matrix's arrays, piece by piece, into `crc` (padded with zeros). */
GLYD_MUST_CHECK glyd_status glyd_crc_make(const glyd_matrix *matrix, glyd_buf *crc);

#endif
