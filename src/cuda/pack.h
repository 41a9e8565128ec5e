/* pack.h - packing on the GPU: what its kernels count, and the choices made from that on the host.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_PACK_H
#define GLYD_CUDA_PACK_H

#include "codec/bases.h"
#include "codec/prefix.h"
#include "glyd/glyd_gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the kernels count over all rows. */
typedef struct glyd_pack_totals {
    uint64_t in_window;                                 /* mma12: weights that are no escapes */
    uint64_t exponents[256];                            /* mma: of what the surveys' bins hold */
    uint64_t codes[GLYD_BASES_ROUNDS + 1][GLYD_WINDOW]; /* mma: under the bases of each round */
    uint64_t pairs[GLYD_PAIRS];                         /* mma: under the last bases */
    uint64_t units; /* mma: of GLYD_RUN_ALIGN bytes, all runs' */
} glyd_pack_totals;

/* mma: what is written for each pair, and how. */
typedef struct glyd_pack_code {
    glyd_prefix prefix;
    uint8_t instead[GLYD_PAIRS]; /* the pair that is written for a pair */
    uint8_t table[GLYD_TABLE_BYTES];
} glyd_pack_code;

/* Fill *m with the layout and the bytes of each array (data NULL), those of mma's `codes` aside,
 * and *code where the layout is mma. The layout comes back GLYD_LAYOUT_BF16 where packing would not
 * make the matrix smaller: what glyd_pack decides from the same counts. */
void glyd_gpu_pack_choose(glyd_layout layout, int64_t rows, int64_t cols,
                          const glyd_pack_totals *totals, glyd_pack_code *code, glyd_matrix *m);

/* The same once totals->units are known: the bytes of `codes`, and the last decision. */
void glyd_gpu_pack_close(const glyd_pack_totals *totals, glyd_matrix *m);

/* Everything that the two calls refuse; `m` is NULL for the first. */
GLYD_MUST_CHECK glyd_status glyd_gpu_pack_check(const glyd_gpu_pack_args *args,
                                                const glyd_matrix *m, glyd_error *err);

/* What the workspace holds, as offsets. */
typedef struct glyd_pack_places {
    size_t totals, code, bases, surveys, escapes, units, bytes;
} glyd_pack_places;

glyd_pack_places glyd_gpu_pack_places(glyd_layout layout, int64_t rows, int64_t cols);

#ifdef __cplusplus
}
#endif
#endif
