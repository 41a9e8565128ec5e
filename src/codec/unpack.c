/* unpack.c - packed rows back to bf16, tile by tile.
 *
 * A tile decodes on its own: each block, then its escapes are put in place. Tiles are the threads'
 * tasks; they share nothing but what they read.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/unpack.h"
#include "base/error.h"
#include "codec/check.h"
#include "codec/load.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

typedef struct unpack_job {
    const glyd_matrix *m;
    const glyd_variants *variants;
    const glyd_lookup *lookup; /* mma only */
    int64_t row0, rows;        /* of the matrix */
    uint16_t *bf16;
    int64_t stride;
    bool strict;               /* check streams */
    _Atomic int64_t first_bad; /* strict: the lowest tile with a bad stream, or one past the last */
} unpack_job;

/* Put the exponents of one block's escapes in place, from *next on. */
static void patch_block(const uint8_t *escapes, uint32_t *next, uint32_t end, int64_t block,
                        uint16_t *bf16, int64_t stride)
{
    for (; *next < end; ++*next) {
        uint32_t escape = glyd_load_u32(escapes, *next);
        if (glyd_escape_block(escape) != block)
            return;
        int position = glyd_escape_position(escape);
        uint16_t *weight =
            bf16 + glyd_position_row(position) * stride + glyd_position_col(position);
        *weight = (uint16_t)((*weight & 0x807f) | glyd_escape_exponent(escape) << 7);
    }
}

/* False: the stream is bad, and the tile noted. */
static bool expand(unpack_job *job, int64_t tile, int64_t run, uint32_t *codes)
{
    if (job->strict) {
        if (glyd_check_run(job->variants, job->m, job->lookup, tile, run, codes, NULL) == GLYD_OK)
            return true;
        int64_t first = atomic_load(&job->first_bad);
        while (tile < first && !atomic_compare_exchange_weak(&job->first_bad, &first, tile))
            ;
        return false;
    }
    glyd_run r = glyd_stream_run(job->m, tile, run);
    uint64_t left;
    GLYD_ASSERT(job->variants->decode(r.words, r.n_words, job->lookup, r.blocks, r.streams, codes,
                                      &left) >= 0);
    return true;
}

/* Decode a block whose rows and columns are all wanted straight to its place, others by way of a
 * square. */
static void unpack_block(const unpack_job *job, int64_t tile, int64_t block, const uint8_t *sm,
                         const uint8_t *codes, uint32_t *next, uint32_t end)
{
    const glyd_matrix *m = job->m;
    const uint8_t *bases = m->array[GLYD_ARRAY_BASES].data + tile * GLYD_TILE_ROWS;
    const uint8_t *escapes = m->array[GLYD_ARRAY_ESCAPES].data;
    int64_t row = tile * GLYD_TILE_ROWS - job->row0, col = block * GLYD_BLOCK_COLS;
    int64_t cols = m->cols - col < GLYD_BLOCK_COLS ? m->cols - col : GLYD_BLOCK_COLS;
    if (row >= 0 && row + GLYD_TILE_ROWS <= job->rows && cols == GLYD_BLOCK_COLS) {
        uint16_t *to = job->bf16 + row * job->stride + col;
        job->variants->join(sm, codes, bases, to, job->stride);
        patch_block(escapes, next, end, block, to, job->stride);
        return;
    }
    uint16_t square[GLYD_BLOCK_WEIGHTS];
    job->variants->join(sm, codes, bases, square, GLYD_BLOCK_COLS);
    patch_block(escapes, next, end, block, square, GLYD_BLOCK_COLS);
    for (int r = 0; r < GLYD_TILE_ROWS; r++) {
        if (row + r >= 0 && row + r < job->rows)
            memcpy(job->bf16 + (row + r) * job->stride + col, square + r * GLYD_BLOCK_COLS,
                   (size_t)cols * 2);
    }
}

static void unpack_tile(void *arg, int64_t task, int worker)
{
    (void)worker;
    unpack_job *job = arg;
    const glyd_matrix *m = job->m;
    int64_t tile = job->row0 / GLYD_TILE_ROWS + task, blocks = glyd_blocks_of(m->cols);
    const uint8_t *sm = m->array[GLYD_ARRAY_SM].data + tile * blocks * GLYD_BLOCK_SM_BYTES;
    const uint8_t *index = m->array[GLYD_ARRAY_ESCAPE_INDEX].data;
    uint32_t next = glyd_load_u32(index, tile), end = glyd_load_u32(index, tile + 1);
    uint32_t run_codes[GLYD_RUN_BLOCKS_MAX * GLYD_BLOCK_CODE_WORDS];
    for (int64_t block = 0; block < blocks; block++, sm += GLYD_BLOCK_SM_BYTES) {
        const uint8_t *codes;
        if (m->layout == GLYD_LAYOUT_MMA) {
            int64_t in_run = block % m->run_blocks;
            if (in_run == 0 && !expand(job, tile, block / m->run_blocks, run_codes))
                return;
            codes = (const uint8_t *)(run_codes + in_run * GLYD_BLOCK_CODE_WORDS);
        } else {
            codes =
                m->array[GLYD_ARRAY_CODES].data + (tile * blocks + block) * GLYD_BLOCK_CODE_BYTES;
        }
        unpack_block(job, tile, block, sm, codes, &next, end);
    }
}

static void copy_row(void *arg, int64_t task, int worker)
{
    (void)worker;
    const unpack_job *job = arg;
    size_t bytes = (size_t)job->m->cols * 2;
    memcpy(job->bf16 + task * job->stride,
           job->m->array[GLYD_ARRAY_SM].data + (size_t)(job->row0 + task) * bytes, bytes);
}

/* The error of a tile's first bad run. */
static glyd_status bad_tile(const unpack_job *job, int64_t tile, glyd_error *err)
{
    uint32_t codes[GLYD_RUN_BLOCKS_MAX * GLYD_BLOCK_CODE_WORDS];
    int64_t runs = glyd_runs_of(glyd_blocks_of(job->m->cols), job->m->run_blocks);
    glyd_status status = GLYD_OK;
    for (int64_t run = 0; run < runs && status == GLYD_OK; run++)
        status = glyd_check_run(job->variants, job->m, job->lookup, tile, run, codes, err);
    return glyd_error_prefix(err, status, "tile %lld", (long long)tile);
}

static glyd_status unpack(const glyd_variants *variants, bool strict, const glyd_matrix *m,
                          int64_t row0, int64_t rows, uint16_t *bf16, int64_t stride,
                          glyd_pool *pool, glyd_error *err)
{
    if (row0 < 0 || rows < 0 || row0 > m->rows || rows > m->rows - row0)
        GLYD_FAIL(err, GLYD_E_ARG, "%lld rows from row %lld on, of a matrix of %lld rows",
                  (long long)rows, (long long)row0, (long long)m->rows);
    if (stride < m->cols)
        GLYD_FAIL(err, GLYD_E_ARG, "a stride of %lld for %lld columns", (long long)stride,
                  (long long)m->cols);
    if (rows == 0 || m->cols == 0)
        return GLYD_OK;
    unpack_job job = {.m = m,
                      .variants = variants,
                      .row0 = row0,
                      .rows = rows,
                      .bf16 = bf16,
                      .stride = stride,
                      .strict = strict};
    if (m->layout == GLYD_LAYOUT_BF16) {
        glyd_pool_run(pool, rows, copy_row, &job);
        return GLYD_OK;
    }
    glyd_lookup lookup;
    if (m->layout == GLYD_LAYOUT_MMA) {
        GLYD_TRY(glyd_lookup_init(&lookup, m->array[GLYD_ARRAY_TABLE], err));
        job.lookup = &lookup;
    }
    int64_t tile0 = row0 / GLYD_TILE_ROWS, end = glyd_tiles_of(row0 + rows);
    atomic_store(&job.first_bad, end);
    glyd_pool_run(pool, end - tile0, unpack_tile, &job);
    int64_t bad = atomic_load(&job.first_bad);
    return bad == end ? GLYD_OK : bad_tile(&job, bad, err);
}

glyd_status glyd_unpack_with(const glyd_variants *variants, const glyd_matrix *m, int64_t row0,
                             int64_t rows, uint16_t *bf16, int64_t stride, glyd_pool *pool,
                             glyd_error *err)
{
    return unpack(variants, false, m, row0, rows, bf16, stride, pool, err);
}

glyd_status glyd_unpack_strict(const glyd_matrix *m, int64_t row0, int64_t rows, uint16_t *bf16,
                               int64_t stride, glyd_pool *pool, glyd_error *err)
{
    return unpack(glyd_variants_best(), true, m, row0, rows, bf16, stride, pool, err);
}

glyd_status glyd_unpack(const glyd_matrix *m, int64_t row0, int64_t rows, uint16_t *bf16,
                        int64_t stride, glyd_pool *pool, glyd_error *err)
{
    return unpack(glyd_variants_best(), false, m, row0, rows, bf16, stride, pool, err);
}
