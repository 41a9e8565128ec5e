/* check.h - the parts of glyd_check, for a caller that decodes everything right after it.
 *
 * Checking the streams of layout mma is decoding them. glyd_check_frame leaves that out, and
 * glyd_unpack_strict (unpack.h) makes up for it while it decodes for good.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_CHECK_H
#define GLYD_CODEC_CHECK_H

#include "codec/variants.h"

/* glyd_check without the streams. Where the layout is mma, nothing but glyd_unpack_strict may
 * follow. */
GLYD_MUST_CHECK glyd_status glyd_check_frame(const glyd_matrix *m, glyd_pool *pool,
                                             glyd_error *err);

/* Decode a run into `codes` and check it as glyd_check does. Its entries are trusted. */
GLYD_MUST_CHECK glyd_status glyd_check_run(
    const glyd_variants *variants, const glyd_matrix *m, const glyd_lookup *lookup, int64_t tile,
    int64_t run, uint32_t codes[GLYD_RUN_BLOCKS_MAX * GLYD_BLOCK_CODE_WORDS], glyd_error *err);

#endif
