/* expand.c - a matrix of layout `mma` as the `mma12` that it is underneath.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "codec/format.h"
#include "codec/stream.h"

typedef struct expand_job {
    const glyd_matrix *m;
    const glyd_lookup *lookup;
    int64_t blocks, runs;
    uint32_t *codes;
} expand_job;

size_t glyd_expand_bytes(const glyd_matrix *m)
{
    if (m->layout != GLYD_LAYOUT_MMA)
        return 0;
    return (size_t)(glyd_tiles_of(m->rows) * glyd_blocks_of(m->cols)) * GLYD_BLOCK_CODE_BYTES;
}

static void expand_tile(void *arg, int64_t tile, int worker)
{
    (void)worker;
    const expand_job *job = arg;
    uint32_t *codes = job->codes + tile * job->blocks * GLYD_BLOCK_CODE_WORDS;
    for (int64_t run = 0; run < job->runs; run++)
        codes += glyd_stream_expand(job->m, job->lookup, tile, run, codes) * GLYD_BLOCK_CODE_WORDS;
}

glyd_status glyd_expand(const glyd_matrix *m, uint8_t *codes, glyd_pool *pool, glyd_matrix *out,
                        glyd_error *err)
{
    *out = *m;
    if (m->layout != GLYD_LAYOUT_MMA)
        return GLYD_OK;
    glyd_lookup lookup;
    GLYD_TRY(glyd_lookup_init(&lookup, m->array[GLYD_ARRAY_TABLE], err));
    int64_t blocks = glyd_blocks_of(m->cols);
    expand_job job = {.m = m,
                      .lookup = &lookup,
                      .blocks = blocks,
                      .runs = glyd_runs_of(blocks, m->run_blocks),
                      .codes = (uint32_t *)(void *)codes};
    glyd_pool_run(pool, glyd_tiles_of(m->rows), expand_tile, &job);
    out->layout = GLYD_LAYOUT_MMA12;
    out->run_blocks = 0;
    out->array[GLYD_ARRAY_CODES] = (glyd_span){codes, glyd_expand_bytes(m)};
    out->array[GLYD_ARRAY_ENTRIES] = out->array[GLYD_ARRAY_TABLE] = (glyd_span){NULL, 0};
    return GLYD_OK;
}
