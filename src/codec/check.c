/* check.c - hostile bytes end here.
 *
 * First what the shape decides and what is small: sizes, bases, indexes, entries, the prefix code.
 * Then tile by tile, on all threads: escapes, streams and padding. A tile that fails is looked at
 * once more when all are done, the first one if there are several, for the text: so the result
 * does not depend on the threads.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/check.h"
#include "base/error.h"
#include "codec/load.h"
#include <stdatomic.h>
#include <stdbool.h>

typedef struct check_job {
    const glyd_matrix *m;
    const glyd_variants *variants;
    glyd_lookup lookup; /* mma only */
    int64_t tiles, blocks;
    bool streams;              /* mma: decode and check them too */
    _Atomic int64_t first_bad; /* the lowest tile that failed; `tiles` if none */
} check_job;

static int is_zero(const uint8_t *from, const uint8_t *end)
{
    uint8_t any = 0;
    while (from < end)
        any |= *from++;
    return any == 0;
}

static glyd_status check_sizes(const glyd_matrix *m, glyd_error *err)
{
    GLYD_NEED(glyd_layout_name(m->layout), err, "no layout has the number %d", (int)m->layout);
    GLYD_NEED(m->rows >= 0 && m->rows <= GLYD_ROWS_MAX && m->cols >= 0 && m->cols <= GLYD_COLS_MAX,
              err, "a matrix of %lld x %lld: at most %d x %d are possible", (long long)m->rows,
              (long long)m->cols, GLYD_ROWS_MAX, GLYD_COLS_MAX);
    int is_mma = m->layout == GLYD_LAYOUT_MMA;
    GLYD_NEED(is_mma ? m->run_blocks >= 1 && m->run_blocks <= GLYD_RUN_BLOCKS_MAX
                     : m->run_blocks == 0,
              err, "runs of %d blocks in layout %s", m->run_blocks, glyd_layout_name(m->layout));
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        int64_t bytes = glyd_array_bytes(m->layout, (glyd_array)i, m->rows, m->cols, m->run_blocks);
        const char *name = glyd_array_name((glyd_array)i);
        GLYD_NEED(bytes < 0 || m->array[i].bytes == (size_t)bytes, err,
                  "%s: %zu bytes where %lld belong", name, m->array[i].bytes, (long long)bytes);
        GLYD_NEED(bytes >= 0 || m->array[i].bytes % GLYD_ARRAY_ALIGN == 0, err,
                  "%s: %zu bytes, no multiple of %d", name, m->array[i].bytes, GLYD_ARRAY_ALIGN);
    }
    return GLYD_OK;
}

/* Nothing but zeros from `bytes` to the end of an array. */
static glyd_status check_padding(const glyd_matrix *m, glyd_array array, int64_t bytes,
                                 glyd_error *err)
{
    const glyd_span *span = &m->array[array];
    if (span->bytes == 0) /* its data may be NULL */
        return GLYD_OK;
    GLYD_NEED(is_zero(span->data + bytes, span->data + span->bytes), err,
              "%s: padding that is not zero", glyd_array_name(array));
    return GLYD_OK;
}

static glyd_status check_bases(const glyd_matrix *m, glyd_error *err)
{
    const uint8_t *bases = m->array[GLYD_ARRAY_BASES].data;
    for (int64_t row = 0; row < m->rows; row++)
        GLYD_NEED(bases[row] <= GLYD_BASE_MAX, err, "bases: %d in row %lld, where %d is the most",
                  bases[row], (long long)row, GLYD_BASE_MAX);
    return check_padding(m, GLYD_ARRAY_BASES, m->rows, err);
}

/* n + 1 ascending numbers from 0 on, the last one the end of what array `of` holds, in units. */
static glyd_status check_index(const glyd_matrix *m, glyd_array array, int64_t n, glyd_array of,
                               int64_t unit, glyd_error *err)
{
    const uint8_t *index = m->array[array].data;
    const char *name = glyd_array_name(array);
    GLYD_NEED(glyd_load_u32(index, 0) == 0, err, "%s: does not start at 0", name);
    for (int64_t i = 0; i < n; i++)
        GLYD_NEED(glyd_load_u32(index, i) <= glyd_load_u32(index, i + 1), err,
                  "%s: %u comes after %u at %lld", name, glyd_load_u32(index, i + 1),
                  glyd_load_u32(index, i), (long long)i);
    int64_t bytes = glyd_load_u32(index, n) * unit;
    GLYD_NEED((size_t)glyd_pad_bytes(bytes) == m->array[of].bytes, err,
              "%s: ends at %lld, but %s has %zu bytes", name, (long long)bytes, glyd_array_name(of),
              m->array[of].bytes);
    GLYD_TRY(check_padding(m, array, (n + 1) * 4, err));
    return check_padding(m, of, bytes, err);
}

static glyd_status check_escapes(const check_job *job, int64_t tile, glyd_error *err)
{
    const glyd_matrix *m = job->m;
    const uint8_t *index = m->array[GLYD_ARRAY_ESCAPE_INDEX].data;
    const uint8_t *escapes = m->array[GLYD_ARRAY_ESCAPES].data;
    int64_t first = glyd_load_u32(index, tile), end = glyd_load_u32(index, tile + 1), before = -1;
    for (int64_t i = first; i < end; i++) {
        uint32_t escape = glyd_load_u32(escapes, i);
        int64_t place = escape >> 8;
        int position = glyd_escape_position(escape);
        int64_t row = tile * GLYD_TILE_ROWS + glyd_position_row(position);
        int64_t col =
            (int64_t)glyd_escape_block(escape) * GLYD_BLOCK_COLS + glyd_position_col(position);
        GLYD_NEED(row < m->rows && col < m->cols, err, "escapes: number %lld is outside the matrix",
                  (long long)i);
        GLYD_NEED(place > before, err, "escapes: number %lld is out of order", (long long)i);
        before = place;
    }
    return GLYD_OK;
}

/* Weights beyond the matrix's edge have sign, mantissa and code 0: a product multiplies them by
 * zero, and would make NaN of an infinity. */
static glyd_status check_edge(const glyd_variants *variants, const glyd_matrix *m, int64_t tile,
                              int64_t block, const uint8_t *codes, glyd_error *err)
{
    int64_t rows = m->rows - tile * GLYD_TILE_ROWS, cols = m->cols - block * GLYD_BLOCK_COLS;
    if (rows >= GLYD_TILE_ROWS && cols >= GLYD_BLOCK_COLS)
        return GLYD_OK;
    static const uint8_t zero_bases[GLYD_TILE_ROWS];
    uint16_t square[GLYD_BLOCK_WEIGHTS]; /* with bases 0: zero where all three are */
    const uint8_t *sm = m->array[GLYD_ARRAY_SM].data +
                        (tile * glyd_blocks_of(m->cols) + block) * GLYD_BLOCK_SM_BYTES;
    variants->join(sm, codes, zero_bases, square, GLYD_BLOCK_COLS);
    for (int row = 0; row < GLYD_TILE_ROWS; row++) {
        for (int col = 0; col < GLYD_BLOCK_COLS; col++)
            GLYD_NEED((row < rows && col < cols) || square[row * GLYD_BLOCK_COLS + col] == 0, err,
                      "block %lld has a weight beyond the matrix's edge", (long long)block);
    }
    return GLYD_OK;
}

glyd_status glyd_check_run(const glyd_variants *variants, const glyd_matrix *m,
                           const glyd_lookup *lookup, int64_t tile, int64_t run,
                           uint32_t codes[GLYD_RUN_BLOCKS_MAX * GLYD_BLOCK_CODE_WORDS],
                           glyd_error *err)
{
    glyd_run r = glyd_stream_run(m, tile, run);
    uint64_t left;
    int64_t dealt = variants->decode(r.words, r.n_words, lookup, r.blocks, r.streams, codes, &left);
    GLYD_NEED(dealt >= 0, err, "codes: run %lld ends early", (long long)run);
    GLYD_NEED(left == 0, err, "codes: run %lld has bits after its last code", (long long)run);
    GLYD_NEED(r.n_words - dealt < GLYD_RUN_ALIGN / 4 &&
                  is_zero(r.words + dealt * 4, r.words + r.n_words * 4),
              err, "codes: run %lld is longer than its codes", (long long)run);
    for (int i = 0; i < r.blocks; i++)
        GLYD_TRY(check_edge(variants, m, tile, run * m->run_blocks + i,
                            (const uint8_t *)(codes + i * GLYD_BLOCK_CODE_WORDS), err));
    return GLYD_OK;
}

static glyd_status check_tile(const check_job *job, int64_t tile, glyd_error *err)
{
    const glyd_matrix *m = job->m;
    GLYD_TRY(check_escapes(job, tile, err));
    if (m->layout == GLYD_LAYOUT_MMA) {
        uint32_t run_codes[GLYD_RUN_BLOCKS_MAX * GLYD_BLOCK_CODE_WORDS];
        int64_t runs = job->streams ? glyd_runs_of(job->blocks, m->run_blocks) : 0;
        for (int64_t run = 0; run < runs; run++)
            GLYD_TRY(glyd_check_run(job->variants, m, &job->lookup, tile, run, run_codes, err));
        return GLYD_OK;
    }
    const uint8_t *codes =
        m->array[GLYD_ARRAY_CODES].data + tile * job->blocks * GLYD_BLOCK_CODE_BYTES;
    for (int64_t block = 0; block < job->blocks; block++)
        GLYD_TRY(
            check_edge(job->variants, m, tile, block, codes + block * GLYD_BLOCK_CODE_BYTES, err));
    return GLYD_OK;
}

static void check_task(void *arg, int64_t tile, int worker)
{
    (void)worker;
    check_job *job = arg;
    if (check_tile(job, tile, NULL) == GLYD_OK)
        return;
    int64_t first = atomic_load(&job->first_bad);
    while (tile < first && !atomic_compare_exchange_weak(&job->first_bad, &first, tile))
        ;
}

static glyd_status check(const glyd_matrix *m, bool streams, glyd_pool *pool, glyd_error *err)
{
    GLYD_TRY(check_sizes(m, err));
    if (m->layout == GLYD_LAYOUT_BF16)
        return GLYD_OK;
    check_job job = {
        .m = m,
        .variants = glyd_variants_best(),
        .tiles = glyd_tiles_of(m->rows),
        .blocks = glyd_blocks_of(m->cols),
        .streams = streams,
    };
    atomic_store(&job.first_bad, job.tiles);
    GLYD_TRY(check_bases(m, err));
    GLYD_TRY(check_index(m, GLYD_ARRAY_ESCAPE_INDEX, job.tiles, GLYD_ARRAY_ESCAPES, 4, err));
    if (m->layout == GLYD_LAYOUT_MMA) {
        GLYD_TRY(glyd_lookup_init(&job.lookup, m->array[GLYD_ARRAY_TABLE], err));
        GLYD_TRY(check_index(m, GLYD_ARRAY_ENTRIES,
                             job.tiles * glyd_runs_of(job.blocks, m->run_blocks), GLYD_ARRAY_CODES,
                             GLYD_RUN_ALIGN, err));
    }
    glyd_pool_run(pool, job.tiles, check_task, &job);
    int64_t bad = atomic_load(&job.first_bad);
    if (bad == job.tiles)
        return GLYD_OK;
    return glyd_error_prefix(err, check_tile(&job, bad, err), "tile %lld", (long long)bad);
}

glyd_status glyd_check(const glyd_matrix *m, glyd_pool *pool, glyd_error *err)
{
    return check(m, true, pool, err);
}

glyd_status glyd_check_frame(const glyd_matrix *m, glyd_pool *pool, glyd_error *err)
{
    return check(m, false, pool, err);
}
