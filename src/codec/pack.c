/* pack.c - bf16 rows to a packed matrix.
 *
 * Passes over the weights, a tile a task:
 *   1. survey: each row's exponents are counted, and bases chosen (bases.h);
 *   2. mma: pairs are counted under those bases, and the prefix code chosen (prefix.h);
 *   3. write: mma12 in place; of mma the streams and escapes into a slot a tile, a batch of tiles
 * at a time, and from there one after the other to where they belong. Everything but the streams of
 * `mma` has a size known before it is written, so `out` is reserved once: [sm, bases, escape_index,
 * escapes, entries, table, codes], codes last.
 *
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
    BATCH_BYTES = 16 << 20, /* of slots; a tile a worker at least */
    BATCH_TILES_MAX = 256,
};

/* What a worker needs for itself. */
typedef struct pack_worker {
    uint64_t pairs[GLYD_PAIRS];
    glyd_encoder encoder;
    uint32_t codes[GLYD_RUN_BLOCKS_MAX * GLYD_BLOCK_CODE_WORDS];
    uint32_t sm[GLYD_BLOCK_SM_WORDS]; /* pass 2 has no use for them */
} pack_worker;

/* Where a tile of layout mma is written before its place is known. */
typedef struct pack_slot {
    uint32_t *escapes;
    uint32_t n_escapes;
    uint8_t *stream;
    int64_t *run_bytes;
} pack_slot;

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
    uint8_t instead[GLYD_PAIRS]; /* mma: the pairs that are written for these */
    int64_t tile0, batch_tiles;  /* the batch that pass 3 is at */
    pack_slot *slots;            /* mma: a tile of the batch each */
    uint8_t *slot_data;          /* what the slots point into */
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

/* Write other pairs for those without a code. Returns whether there were any. */
static int prune_block(uint32_t *codes, const uint8_t instead[GLYD_PAIRS])
{
    int changed = 0;
    for (int i = 0; i < GLYD_BLOCK_CODE_WORDS; i++) {
        uint32_t word = 0;
        for (int r = 0; r < 4; r++) {
            uint32_t pair = codes[i] >> 4 * r;
            uint32_t other = instead[(pair & 15) | (pair >> 12 & 0xf0)];
            word |= ((other & 15) | (other & 0xf0) << 12) << 4 * r;
        }
        changed |= word != codes[i];
        codes[i] = word;
    }
    return changed;
}

/* List a block's escapes: the weights whose exponent is not what their code says. */
static uint32_t *put_escapes(uint32_t *to, const uint16_t *bf16, int64_t stride, int64_t block,
                             const uint8_t *bases, const uint32_t *codes)
{
    for (int position = 0; position < GLYD_BLOCK_WEIGHTS; position++) {
        int row = glyd_position_row(position), col = glyd_position_col(position);
        int shift = 16 * (position & 1) + 4 * (position >> 1 & 3);
        int code = (int)(codes[position >> 3] >> shift & 15);
        int exponent = bf16[row * stride + col] >> 7 & 255;
        if (exponent != bases[row] + code)
            *to++ = glyd_escape_make(block, position, exponent);
    }
    return to;
}

static void write_mma12_tile(void *arg, int64_t tile, int worker)
{
    (void)worker;
    const pack_job *job = arg;
    const uint8_t *bases = job->bases + tile * GLYD_TILE_ROWS;
    int64_t first = tile * job->blocks;
    uint32_t *sm = words_of(job, GLYD_ARRAY_SM) + first * GLYD_BLOCK_SM_WORDS;
    uint32_t *codes = words_of(job, GLYD_ARRAY_CODES) + first * GLYD_BLOCK_CODE_WORDS;
    uint32_t *escape = words_of(job, GLYD_ARRAY_ESCAPES) + job->index[tile];
    uint16_t square[GLYD_BLOCK_WEIGHTS];
    for (int64_t block = 0; block < job->blocks; block++) {
        int64_t stride;
        const uint16_t *from = load_block(job, tile, block, bases, square, &stride);
        if (job->choice.variants->split(from, stride, bases, job->fill, sm, codes))
            escape = put_escapes(escape, from, stride, block, bases, codes);
        sm += GLYD_BLOCK_SM_WORDS;
        codes += GLYD_BLOCK_CODE_WORDS;
    }
    GLYD_ASSERT(escape == words_of(job, GLYD_ARRAY_ESCAPES) + job->index[tile + 1]);
}

static void write_mma_tile(void *arg, int64_t task, int worker)
{
    const pack_job *job = arg;
    pack_worker *own = &job->workers[worker];
    pack_slot *slot = &job->slots[task];
    int64_t tile = job->tile0 + task;
    int run_blocks = job->choice.run_blocks;
    const uint8_t *bases = job->bases + tile * GLYD_TILE_ROWS;
    uint32_t *sm = words_of(job, GLYD_ARRAY_SM) + tile * job->blocks * GLYD_BLOCK_SM_WORDS;
    uint32_t *escape = slot->escapes;
    uint8_t *stream = slot->stream;
    uint16_t square[GLYD_BLOCK_WEIGHTS];
    for (int64_t block = 0; block < job->blocks; block++, sm += GLYD_BLOCK_SM_WORDS) {
        int64_t stride;
        const uint16_t *from = load_block(job, tile, block, bases, square, &stride);
        int in_run = (int)(block % run_blocks);
        uint32_t *codes = own->codes + in_run * GLYD_BLOCK_CODE_WORDS;
        int escaped = job->choice.variants->split(from, stride, bases, job->fill, sm, codes);
        if (prune_block(codes, job->instead) || escaped)
            escape = put_escapes(escape, from, stride, block, bases, codes);
        if (in_run + 1 == run_blocks || block + 1 == job->blocks) {
            int64_t bytes = glyd_encode_run(&own->encoder, &job->prefix, own->codes, in_run + 1,
                                            glyd_run_streams(job->blocks), stream);
            slot->run_bytes[block / run_blocks] = bytes;
            stream += bytes;
        }
    }
    slot->n_escapes = (uint32_t)(escape - slot->escapes);
}

/* Bases of all rows, and where each tile's escapes begin if no more are made. Returns their number,
 * of which the index holds 32 bits: the caller looks. */
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

/* Count all pairs, prune them and choose the code. Returns the bytes that the codes take, rounded
 * down, and how many escapes the pruning makes. */
static int64_t choose_prefix(pack_job *job, glyd_pool *pool, int64_t *escapes)
{
    uint64_t pairs[GLYD_PAIRS] = {0}, bits = 0;
    glyd_pool_run(pool, job->tiles, count_tile, job);
    for (int worker = 0; worker < glyd_pool_size(pool); worker++) {
        for (int s = 0; s < GLYD_PAIRS; s++)
            pairs[s] += job->workers[worker].pairs[s];
    }
    /* A weight beyond the edge is no escape: its pairs, of which it is all or the second half,
     * stay.
     */
    uint8_t keep[GLYD_PAIRS] = {0};
    keep[0] = job->rows % GLYD_TILE_ROWS != 0 || job->cols % GLYD_BLOCK_COLS != 0;
    for (int first = 0; first < GLYD_WINDOW && job->cols % 2; first++)
        keep[first] = 1;
    *escapes = (int64_t)glyd_prefix_prune(pairs, keep, job->fill, job->instead);
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

/* Append a tile's slot to the arrays. Returns 0 where the entries cannot count so far. */
static int append_slot(pack_job *job, int64_t tile, const pack_slot *slot, int64_t *at)
{
    uint32_t *index = words_of(job, GLYD_ARRAY_ESCAPE_INDEX) + tile;
    uint32_t *entry = words_of(job, GLYD_ARRAY_ENTRIES) + tile * job->runs;
    memcpy(words_of(job, GLYD_ARRAY_ESCAPES) + index[0], slot->escapes,
           (size_t)slot->n_escapes * sizeof *slot->escapes);
    index[1] = index[0] + slot->n_escapes;
    const uint8_t *from = slot->stream;
    for (int64_t run = 0; run < job->runs; run++) {
        memcpy(job->array[GLYD_ARRAY_CODES] + *at, from, (size_t)slot->run_bytes[run]);
        from += slot->run_bytes[run];
        *at += slot->run_bytes[run];
        if (*at / GLYD_RUN_ALIGN > UINT32_MAX)
            return 0;
        entry[run + 1] = (uint32_t)(*at / GLYD_RUN_ALIGN);
    }
    return 1;
}

/* Pass 3 of layout mma. Returns the bytes of the streams, padding counted, or -1 where they are
 * more than the entries can count. */
static int64_t write_mma(pack_job *job, glyd_pool *pool)
{
    int64_t bytes = 0;
    for (job->tile0 = 0; job->tile0 < job->tiles; job->tile0 += job->batch_tiles) {
        int64_t left = job->tiles - job->tile0;
        int64_t n = left < job->batch_tiles ? left : job->batch_tiles;
        glyd_pool_run(pool, n, write_mma_tile, job);
        for (int64_t task = 0; task < n; task++) {
            if (!append_slot(job, job->tile0 + task, &job->slots[task], &bytes))
                return -1;
        }
    }
    memset(job->array[GLYD_ARRAY_CODES] + bytes, 0, (size_t)(glyd_pad_bytes(bytes) - bytes));
    glyd_prefix_write(&job->prefix, job->array[GLYD_ARRAY_TABLE]);
    return glyd_pad_bytes(bytes);
}

static glyd_status allocate_slots(pack_job *job, glyd_pool *pool)
{
    int64_t escapes = job->blocks * GLYD_BLOCK_WEIGHTS * (int64_t)sizeof(uint32_t);
    int64_t stream = job->runs * glyd_encode_bound(job->choice.run_blocks);
    int64_t run_bytes = job->runs * (int64_t)sizeof(int64_t);
    int64_t slot_bytes = run_bytes + stream + escapes, n = BATCH_BYTES / slot_bytes;
    n = n < glyd_pool_size(pool) ? glyd_pool_size(pool) : n;
    n = n < BATCH_TILES_MAX ? n : BATCH_TILES_MAX;
    job->batch_tiles = n < job->tiles ? n : job->tiles;
    job->slots = malloc((size_t)job->batch_tiles * sizeof *job->slots);
    job->slot_data = malloc((size_t)(job->batch_tiles * slot_bytes));
    if (!job->slots || !job->slot_data)
        return GLYD_E_NOMEM;
    uint8_t *at = job->slot_data;
    for (int64_t i = 0; i < job->batch_tiles; i++, at += slot_bytes) {
        job->slots[i] = (pack_slot){
            .run_bytes = (int64_t *)(void *)at,
            .escapes = (uint32_t *)(void *)(at + run_bytes),
            .stream = at + run_bytes + escapes,
        };
    }
    return GLYD_OK;
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
    return job->choice.layout == GLYD_LAYOUT_MMA ? allocate_slots(job, pool) : GLYD_OK;
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
        int64_t more;
        int64_t bytes = choose_prefix(job, pool, &more);
        job->bytes[GLYD_ARRAY_ESCAPES] = glyd_pad_bytes((escapes + more) * 4);
        job->bytes[GLYD_ARRAY_CODES] = bytes;
        if (escapes + more > UINT32_MAX || sum_bytes(job) >= limit)
            return GLYD_OK;
        /* The most that the streams can take: up to 96 bits a stream are dealt but not used. */
        int64_t slack = GLYD_STREAMS_MAX * 12 + GLYD_RUN_ALIGN;
        job->bytes[GLYD_ARRAY_CODES] = glyd_pad_bytes(bytes + 1 + job->tiles * job->runs * slack);
    }
    GLYD_TRY(place_arrays(job, out));
    if (is_mma) {
        int64_t bytes = write_mma(job, pool);
        if (bytes < 0)
            return GLYD_OK;
        job->bytes[GLYD_ARRAY_CODES] = bytes;
        out->bytes = (size_t)sum_bytes(job); /* the streams lie last */
    } else {
        glyd_pool_run(pool, job->tiles, write_mma12_tile, job);
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
    free(job.slot_data);
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
