/* pack.c - bf16 rows to a packed matrix.
 *
 * Passes over the weights, a tile a task:
 *   1. survey: each row's exponents are counted, and bases chosen (bases.h);
 *   2. mma: pairs are counted under those bases, and the prefix code chosen (prefix.h);
 *   3. write: sm, escapes, and codes: mma12 in place; mma into a slot a tile, a batch of tiles at a
 *      time, and from there one after the other to where they belong.
 * Everything but the streams of `mma` has a size known before it is written, so `out` is reserved
 * once: [sm, bases, escape_index, escapes, entries, table, codes], codes last.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/pack.h"
#include "base/buf.h"
#include "base/error.h"
#include "codec/bases.h"
#include "codec/encode.h"
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_BYTES = 16 << 20, /* of slots for streams; one tile at least */
    BATCH_TILES_MAX = 256,
};

/* What a worker needs for itself. */
typedef struct pack_worker {
    uint64_t pairs[GLYD_PAIRS];
    glyd_encoder encoder;
    uint32_t codes[GLYD_RUN_BLOCKS_MAX * GLYD_BLOCK_CODE_WORDS];
    uint32_t sm[GLYD_BLOCK_SM_WORDS]; /* pass 2 has no use for them */
} pack_worker;

typedef struct pack_job {
    glyd_pack_choice choice;
    const uint16_t *bf16;
    int64_t rows, cols, stride;
    int64_t tiles, blocks, runs;
    glyd_survey *surveys; /* a row each */
    uint8_t *bases;       /* tiles * 16, zero beyond the rows */
    uint32_t *index;      /* tiles + 1: each tile's first escape */
    int fill;             /* the code of escapes */
    pack_worker *workers;
    glyd_prefix prefix;
    int64_t tile0, batch_tiles; /* the batch that pass 3 is at */
    uint8_t *slots;             /* mma: batch_tiles of slot_bytes */
    int64_t slot_bytes;
    int64_t *run_bytes; /* mma: of each run of the batch */
    int64_t bytes[GLYD_ARRAYS];
    uint8_t *array[GLYD_ARRAYS]; /* in `out` */
} pack_job;

/* A block as 16 x 64 values: in place, or, where it is cut by the matrix's edge, copied to `square`
 * and filled up with values of sign 0, mantissa 0 and code 0. */
static const uint16_t *load_block(const pack_job *job, int64_t tile, int64_t block,
                                  const uint8_t *bases, uint16_t *square, int64_t *stride)
{
    int64_t row = tile * GLYD_TILE_ROWS, col = block * GLYD_BLOCK_COLS;
    const uint16_t *from = job->bf16 + row * job->stride + col;
    if (row + GLYD_TILE_ROWS <= job->rows && col + GLYD_BLOCK_COLS <= job->cols) {
        *stride = job->stride;
        return from;
    }
    for (int r = 0; r < GLYD_TILE_ROWS; r++) {
        uint16_t *to = square + r * GLYD_BLOCK_COLS;
        int64_t n = row + r >= job->rows ? 0 : job->cols - col;
        n = n < GLYD_BLOCK_COLS ? n : GLYD_BLOCK_COLS;
        for (int c = 0; c < GLYD_BLOCK_COLS; c++)
            to[c] = (uint16_t)(bases[r] << 7);
        if (n > 0)
            memcpy(to, from + r * job->stride, (size_t)n * sizeof *to);
    }
    *stride = GLYD_BLOCK_COLS;
    return square;
}

static void survey_tile(void *arg, int64_t tile, int worker)
{
    (void)worker;
    const pack_job *job = arg;
    for (int64_t row = tile * GLYD_TILE_ROWS; row < (tile + 1) * GLYD_TILE_ROWS; row++) {
        if (row < job->rows)
            glyd_survey_row(&job->surveys[row], job->bf16 + row * job->stride, job->cols);
    }
}

/* Count a block's pairs. */
static void count_block(uint64_t pairs[GLYD_PAIRS], const uint32_t *codes)
{
    uint16_t count[4][GLYD_PAIRS] = {{0}}; /* four, as like pairs come close together */
    for (int i = 0; i < GLYD_BLOCK_CODE_WORDS; i++) {
        for (int r = 0; r < 4; r++) {
            uint32_t pair = codes[i] >> 4 * r;
            count[r][(pair & 15) | (pair >> 12 & 0xf0)]++;
        }
    }
    for (int s = 0; s < GLYD_PAIRS; s++)
        pairs[s] += (uint64_t)count[0][s] + count[1][s] + count[2][s] + count[3][s];
}

static void count_tile(void *arg, int64_t tile, int worker)
{
    const pack_job *job = arg;
    pack_worker *own = &job->workers[worker];
    const uint8_t *bases = job->bases + tile * GLYD_TILE_ROWS;
    uint16_t square[GLYD_BLOCK_WEIGHTS];
    for (int64_t block = 0; block < job->blocks; block++) {
        int64_t stride;
        const uint16_t *from = load_block(job, tile, block, bases, square, &stride);
        job->choice.variants->split(from, stride, bases, job->fill, own->sm, own->codes);
        count_block(own->pairs, own->codes);
    }
}

/* Arrays are aligned to 64 bytes in `out`. */
static uint32_t *words_of(const pack_job *job, glyd_array array)
{
    return (uint32_t *)(void *)job->array[array];
}

/* List a block's escapes. */
static uint32_t *put_escapes(uint32_t *to, const uint16_t *bf16, int64_t stride, int64_t block,
                             const uint8_t *bases)
{
    for (int position = 0; position < GLYD_BLOCK_WEIGHTS; position++) {
        int row = glyd_position_row(position), col = glyd_position_col(position);
        int exponent = bf16[row * stride + col] >> 7 & 255;
        if (exponent < bases[row] || exponent >= bases[row] + GLYD_WINDOW)
            *to++ = glyd_escape_make(block, position, exponent);
    }
    return to;
}

static void write_tile(void *arg, int64_t task, int worker)
{
    const pack_job *job = arg;
    pack_worker *own = &job->workers[worker];
    int64_t tile = job->tile0 + task;
    int run_blocks = job->choice.run_blocks, is_mma = job->choice.layout == GLYD_LAYOUT_MMA;
    const uint8_t *bases = job->bases + tile * GLYD_TILE_ROWS;
    uint32_t *sm = words_of(job, GLYD_ARRAY_SM) + tile * job->blocks * GLYD_BLOCK_SM_WORDS;
    uint32_t *escape = words_of(job, GLYD_ARRAY_ESCAPES) + job->index[tile];
    uint8_t *stream = is_mma ? job->slots + task * job->slot_bytes : NULL;
    uint16_t square[GLYD_BLOCK_WEIGHTS];
    for (int64_t block = 0; block < job->blocks; block++, sm += GLYD_BLOCK_SM_WORDS) {
        int64_t stride;
        const uint16_t *from = load_block(job, tile, block, bases, square, &stride);
        int in_run = (int)(block % run_blocks);
        uint32_t *codes = is_mma ? own->codes + in_run * GLYD_BLOCK_CODE_WORDS
                                 : words_of(job, GLYD_ARRAY_CODES) +
                                       (tile * job->blocks + block) * GLYD_BLOCK_CODE_WORDS;
        if (job->choice.variants->split(from, stride, bases, job->fill, sm, codes))
            escape = put_escapes(escape, from, stride, block, bases);
        if (is_mma && (in_run + 1 == run_blocks || block + 1 == job->blocks)) {
            int64_t bytes =
                glyd_encode_run(&own->encoder, &job->prefix, own->codes, in_run + 1, stream);
            job->run_bytes[task * job->runs + block / run_blocks] = bytes;
            stream += bytes;
        }
    }
    GLYD_ASSERT(escape == words_of(job, GLYD_ARRAY_ESCAPES) + job->index[tile + 1]);
}

/* Bases of all rows, and from them where each tile's escapes begin. Returns their number, of which
 * the index holds 32 bits: the caller looks. */
static int64_t choose_bases(pack_job *job)
{
    if (job->choice.layout == GLYD_LAYOUT_MMA) {
        glyd_bases_align(job->surveys, job->rows, job->bases, &job->fill);
    } else {
        for (int64_t row = 0; row < job->rows; row++)
            job->bases[row] = (uint8_t)glyd_base_fewest(&job->surveys[row]);
    }
    int64_t escapes = 0;
    for (int64_t row = 0; row < job->rows; row++) {
        if (row % GLYD_TILE_ROWS == 0)
            job->index[row / GLYD_TILE_ROWS] = (uint32_t)escapes;
        escapes += glyd_base_escapes(&job->surveys[row], job->bases[row]);
    }
    job->index[job->tiles] = (uint32_t)escapes;
    return escapes;
}

/* Count all pairs and choose the code. Returns the bytes that the codes take, rounded down. */
static int64_t choose_prefix(pack_job *job, glyd_pool *pool)
{
    uint64_t pairs[GLYD_PAIRS] = {0}, bits = 0;
    glyd_pool_run(pool, job->tiles, count_tile, job);
    for (int worker = 0; worker < glyd_pool_size(pool); worker++) {
        for (int s = 0; s < GLYD_PAIRS; s++)
            pairs[s] += job->workers[worker].pairs[s];
    }
    glyd_prefix_init(&job->prefix, pairs);
    for (int s = 0; s < GLYD_PAIRS; s++)
        bits += pairs[s] * job->prefix.bits[s];
    return (int64_t)(bits / 8);
}

static int64_t sum_bytes(const pack_job *job)
{
    int64_t total = 0;
    for (int i = 0; i < GLYD_ARRAYS; i++)
        total += job->bytes[i];
    return total;
}

/* Where everything goes in `out`; what no pass writes is zero. */
static glyd_status place_arrays(pack_job *job, glyd_buf *out)
{
    static const glyd_array order[GLYD_ARRAYS] = {
        GLYD_ARRAY_SM,      GLYD_ARRAY_BASES, GLYD_ARRAY_ESCAPE_INDEX, GLYD_ARRAY_ESCAPES,
        GLYD_ARRAY_ENTRIES, GLYD_ARRAY_TABLE, GLYD_ARRAY_CODES,
    };
    out->bytes = 0;
    GLYD_TRY(glyd_buf_resize(out, (size_t)sum_bytes(job)));
    uint8_t *at = out->data;
    for (int i = 0; i < GLYD_ARRAYS; at += job->bytes[order[i++]]) {
        job->array[order[i]] = at;
        if (order[i] != GLYD_ARRAY_SM && order[i] != GLYD_ARRAY_CODES)
            memset(at, 0, (size_t)job->bytes[order[i]]);
    }
    memcpy(job->array[GLYD_ARRAY_BASES], job->bases, (size_t)job->tiles * GLYD_TILE_ROWS);
    memcpy(job->array[GLYD_ARRAY_ESCAPE_INDEX], job->index, (size_t)(job->tiles + 1) * 4);
    return GLYD_OK;
}

/* Pass 3 of layout mma. Returns the bytes of the streams, padding counted, or -1 where they are
 * more than the entries can count. */
static int64_t write_streams(pack_job *job, glyd_pool *pool)
{
    uint32_t *entry = words_of(job, GLYD_ARRAY_ENTRIES);
    uint8_t *codes = job->array[GLYD_ARRAY_CODES], *to = codes;
    for (job->tile0 = 0; job->tile0 < job->tiles; job->tile0 += job->batch_tiles) {
        int64_t left = job->tiles - job->tile0;
        int64_t n = left < job->batch_tiles ? left : job->batch_tiles;
        glyd_pool_run(pool, n, write_tile, job);
        for (int64_t task = 0; task < n; task++) {
            const uint8_t *from = job->slots + task * job->slot_bytes;
            for (int64_t run = 0; run < job->runs; run++) {
                int64_t bytes = job->run_bytes[task * job->runs + run];
                if ((to - codes) / GLYD_RUN_ALIGN > UINT32_MAX)
                    return -1;
                *entry++ = (uint32_t)((to - codes) / GLYD_RUN_ALIGN);
                memcpy(to, from, (size_t)bytes);
                from += bytes;
                to += bytes;
            }
        }
    }
    int64_t bytes = to - codes;
    if (bytes / GLYD_RUN_ALIGN > UINT32_MAX)
        return -1;
    *entry = (uint32_t)(bytes / GLYD_RUN_ALIGN);
    memset(to, 0, (size_t)(glyd_pad_bytes(bytes) - bytes));
    glyd_prefix_write(&job->prefix, job->array[GLYD_ARRAY_TABLE]);
    return glyd_pad_bytes(bytes);
}

static glyd_status allocate(pack_job *job, glyd_pool *pool)
{
    size_t tiles = (size_t)job->tiles;
    job->surveys = malloc((size_t)job->rows * sizeof *job->surveys);
    job->bases = calloc(tiles, GLYD_TILE_ROWS);
    job->index = calloc(tiles + 1, sizeof *job->index);
    job->workers = calloc((size_t)glyd_pool_size(pool), sizeof *job->workers);
    if (!job->surveys || !job->bases || !job->index || !job->workers)
        return GLYD_E_NOMEM;
    if (job->choice.layout != GLYD_LAYOUT_MMA)
        return GLYD_OK;
    job->slot_bytes = job->runs * glyd_encode_bound(job->choice.run_blocks);
    job->batch_tiles = BATCH_BYTES / job->slot_bytes;
    if (job->batch_tiles < glyd_pool_size(pool))
        job->batch_tiles = glyd_pool_size(pool);
    if (job->batch_tiles > BATCH_TILES_MAX)
        job->batch_tiles = BATCH_TILES_MAX;
    if (job->batch_tiles > job->tiles)
        job->batch_tiles = job->tiles;
    job->slots = malloc((size_t)(job->batch_tiles * job->slot_bytes));
    job->run_bytes = malloc((size_t)(job->batch_tiles * job->runs) * sizeof *job->run_bytes);
    return job->slots && job->run_bytes ? GLYD_OK : GLYD_E_NOMEM;
}

/* Pack as chosen. *packed comes back 0 where bf16 is no larger: `out` then holds nothing of use. */
static glyd_status pack_job_run(pack_job *job, glyd_pool *pool, glyd_buf *out, int *packed)
{
    int64_t limit = job->rows * job->cols * 2;
    int is_mma = job->choice.layout == GLYD_LAYOUT_MMA;
    *packed = 0;
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        int64_t bytes = glyd_array_bytes(job->choice.layout, (glyd_array)i, job->rows, job->cols,
                                         job->choice.run_blocks);
        job->bytes[i] = bytes < 0 ? 0 : bytes; /* what the data decide comes below */
    }
    if (sum_bytes(job) >= limit)
        return GLYD_OK;

    GLYD_TRY(allocate(job, pool));
    glyd_pool_run(pool, job->tiles, survey_tile, job);
    int64_t escapes = choose_bases(job);
    job->bytes[GLYD_ARRAY_ESCAPES] = glyd_pad_bytes(escapes * 4);
    if (escapes > UINT32_MAX || sum_bytes(job) >= limit)
        return GLYD_OK;
    if (is_mma) {
        int64_t bytes = choose_prefix(job, pool);
        job->bytes[GLYD_ARRAY_CODES] = bytes;
        if (sum_bytes(job) >= limit)
            return GLYD_OK;
        /* The most that the streams can take: up to 64 bits a lane are dealt but not used. */
        int64_t slack = GLYD_LANES * 8 + GLYD_RUN_ALIGN;
        job->bytes[GLYD_ARRAY_CODES] = glyd_pad_bytes(bytes + 1 + job->tiles * job->runs * slack);
    }
    GLYD_TRY(place_arrays(job, out));
    if (is_mma) {
        int64_t bytes = write_streams(job, pool);
        if (bytes < 0)
            return GLYD_OK;
        job->bytes[GLYD_ARRAY_CODES] = bytes;
        out->bytes = (size_t)sum_bytes(job); /* the streams lie last */
    } else {
        glyd_pool_run(pool, job->tiles, write_tile, job);
    }
    *packed = sum_bytes(job) < limit;
    return GLYD_OK;
}

static glyd_status copy_rows(const pack_job *job, glyd_buf *out, glyd_matrix *m)
{
    size_t row_bytes = (size_t)job->cols * 2;
    out->bytes = 0;
    GLYD_TRY(glyd_buf_resize(out, (size_t)job->rows * row_bytes));
    for (int64_t row = 0; row < job->rows && row_bytes; row++)
        memcpy(out->data + (size_t)row * row_bytes, job->bf16 + row * job->stride, row_bytes);
    *m = (glyd_matrix){.layout = GLYD_LAYOUT_BF16, .rows = job->rows, .cols = job->cols};
    m->array[GLYD_ARRAY_SM] = (glyd_span){out->data, out->bytes};
    return GLYD_OK;
}

static glyd_status check_shape(const glyd_pack_choice *choice, int64_t rows, int64_t cols,
                               int64_t stride, glyd_error *err)
{
    if (!glyd_layout_name(choice->layout))
        GLYD_FAIL(err, GLYD_E_ARG, "no layout has the number %d", (int)choice->layout);
    if (rows < 0 || rows > GLYD_ROWS_MAX || cols < 0 || cols > GLYD_COLS_MAX)
        GLYD_FAIL(err, GLYD_E_ARG, "a matrix of %lld x %lld: at most %d x %d can be packed",
                  (long long)rows, (long long)cols, GLYD_ROWS_MAX, GLYD_COLS_MAX);
    if (stride < cols)
        GLYD_FAIL(err, GLYD_E_ARG, "a stride of %lld for %lld columns", (long long)stride,
                  (long long)cols);
    if (choice->run_blocks < 1 || choice->run_blocks > GLYD_RUN_BLOCKS_MAX)
        GLYD_FAIL(err, GLYD_E_ARG, "runs of %d blocks: 1 to %d are possible", choice->run_blocks,
                  GLYD_RUN_BLOCKS_MAX);
    return GLYD_OK;
}

glyd_status glyd_pack_with(const glyd_pack_choice *choice, const uint16_t *bf16, int64_t rows,
                           int64_t cols, int64_t stride, glyd_pool *pool, glyd_buf *out,
                           glyd_matrix *m, glyd_error *err)
{
    GLYD_TRY(check_shape(choice, rows, cols, stride, err));
    int64_t blocks = glyd_blocks_of(cols);
    pack_job job = {
        .choice = *choice,
        .bf16 = bf16,
        .rows = rows,
        .cols = cols,
        .stride = stride,
        .tiles = glyd_tiles_of(rows),
        .blocks = blocks,
        .runs = glyd_runs_of(blocks, choice->run_blocks),
    };
    int packed = 0;
    glyd_status status = GLYD_OK;
    if (choice->layout != GLYD_LAYOUT_BF16)
        GLYD_TRY_DONE(pack_job_run(&job, pool, out, &packed));
    if (!packed) {
        GLYD_TRY_DONE(copy_rows(&job, out, m));
        goto done;
    }
    *m = (glyd_matrix){.layout = choice->layout, .rows = rows, .cols = cols};
    m->run_blocks = choice->layout == GLYD_LAYOUT_MMA ? choice->run_blocks : 0;
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        if (job.bytes[i])
            m->array[i] = (glyd_span){job.array[i], (size_t)job.bytes[i]};
    }
done:
    free(job.surveys);
    free(job.bases);
    free(job.index);
    free(job.workers);
    free(job.slots);
    free(job.run_bytes);
    if (status == GLYD_E_NOMEM)
        glyd_error_set(err, status, "out of memory for packing a matrix of %lld x %lld",
                       (long long)rows, (long long)cols);
    return status;
}

glyd_status glyd_pack(glyd_layout layout, const uint16_t *bf16, int64_t rows, int64_t cols,
                      int64_t stride, glyd_pool *pool, glyd_buf *out, glyd_matrix *m,
                      glyd_error *err)
{
    glyd_pack_choice choice = {
        .layout = layout,
        .run_blocks = GLYD_RUN_BLOCKS,
        .variants = glyd_variants_best(),
    };
    return glyd_pack_with(&choice, bf16, rows, cols, stride, pool, out, m, err);
}
