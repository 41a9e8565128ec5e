/* linear.c - products with a weight as it is held: tiles as tasks, runs, escapes and results.
 *
 * The caller's x is laid out once as panels (linear_kernel.h), then every tile of 16 rows of every
 * part is a piece of work of its own. With one token, weights are decoded in registers and used at
 * once; with more, a part of a tile is laid out as floats that stay in cache while all tokens use
 * it. Streams of layout mma are expanded a run at a time to what mma12 holds. Blocks with escapes
 * are decoded to pairs in memory, patched there, and multiplied from there.
 *
 * None of it changes the order of a sum.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/linear.h"
#include "codec/load.h"
#include "codec/stream.h"
#include "cpu/linear_kernel.h"
#include <stdbool.h>
#include <string.h>

enum {
    PANEL_BLOCKS = 12,    /* most blocks of a panel of weights: 48 KiB of floats */
    PAIRS_BLOCKS = 4,     /* blocks decoded at a time: 8 KiB of pairs */
    TOKENS_MAX = 128,     /* tokens that share one decoding: their sums are 128 KiB */
    LAY_TOKENS = 16,      /* tokens laid out by a task */
    TASKS_A_THREAD = 8,   /* enough to even out threads that are slower for a while */
    TASK_BYTES = 1 << 18, /* of bf16; less would cost more in handing out than it evens out */
};

typedef struct product {
    const linear_kernels *kernels;
    const glyd_linear_part *parts;
    const float *x;
    int64_t x_stride, n_tokens, cols, blocks;
    float *x_lanes, *x_slots; /* panels; a row has 64 * blocks floats */
    uint8_t *workers;         /* worker_bytes each */
    size_t worker_bytes;
    int64_t tiles, tiles_a_task; /* of all parts, one after another */
} product;

/* A worker's scratch. */
typedef struct desk {
    float *panel;    /* weights for many tokens */
    float *slots;    /* sums of up to TOKENS_MAX tokens */
    uint16_t *pairs; /* decoded weights */
    uint32_t *codes; /* an expanded run */
} desk;

/* A packed tile being walked from its first block on. */
typedef struct packed_tile {
    const glyd_linear_weight *weight;
    int64_t tile, block;
    packed_run rest;     /* blocks from `block` on whose codes are at hand */
    uint32_t next, last; /* escapes still to come */
    uint32_t *codes;
} packed_tile;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t pad_line(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t panel_bytes(int64_t blocks, int64_t n_tokens)
{
    return n_tokens == 1
               ? 0
               : (size_t)smaller(blocks, PANEL_BLOCKS) * GLYD_BLOCK_WEIGHTS * sizeof(float);
}

static size_t slots_bytes(int64_t n_tokens)
{
    return (size_t)smaller(n_tokens, TOKENS_MAX) * TILE_SLOTS * sizeof(float);
}

static size_t pairs_bytes(int64_t blocks)
{
    return (size_t)smaller(blocks, PAIRS_BLOCKS) * GLYD_BLOCK_WEIGHTS * sizeof(uint16_t);
}

static size_t codes_bytes(int64_t blocks)
{
    return (size_t)smaller(blocks, GLYD_RUN_BLOCKS_MAX) * GLYD_BLOCK_CODE_WORDS * sizeof(uint32_t);
}

static size_t desk_bytes(int64_t blocks, int64_t n_tokens)
{
    return panel_bytes(blocks, n_tokens) + slots_bytes(n_tokens) + pairs_bytes(blocks) +
           codes_bytes(blocks);
}

static desk desk_of(const product *p, int worker)
{
    uint8_t *panel = p->workers + (size_t)worker * p->worker_bytes;
    uint8_t *slots = panel + panel_bytes(p->blocks, p->n_tokens);
    uint8_t *pairs = slots + slots_bytes(p->n_tokens);
    uint8_t *codes = pairs + pairs_bytes(p->blocks);
    return (desk){.panel = (float *)panel,
                  .slots = (float *)slots,
                  .pairs = (uint16_t *)pairs,
                  .codes = (uint32_t *)codes};
}

/* Floats from one group of lanes to the next in a row of `blocks` blocks. */
static int64_t group_floats(const product *p, int64_t blocks)
{
    return blocks * GLYD_BLOCK_COLS * p->kernels->width / SLOTS;
}

/* --- walking a packed tile ------------------------------------------------------------------ */

static packed_tile open_tile(const glyd_linear_weight *weight, int64_t tile, uint32_t *codes)
{
    const glyd_matrix *m = &weight->matrix;
    int64_t blocks = glyd_blocks_of(m->cols);
    const uint8_t *index = m->array[GLYD_ARRAY_ESCAPE_INDEX].data;
    packed_tile t = {.weight = weight,
                     .tile = tile,
                     .next = glyd_load_u32(index, tile),
                     .last = glyd_load_u32(index, tile + 1),
                     .codes = codes};
    t.rest.sm = m->array[GLYD_ARRAY_SM].data + tile * blocks * GLYD_BLOCK_SM_WORDS * 4;
    t.rest.bases = m->array[GLYD_ARRAY_BASES].data + tile * GLYD_TILE_ROWS;
    if (m->layout == GLYD_LAYOUT_MMA12) {
        t.rest.codes = m->array[GLYD_ARRAY_CODES].data + tile * blocks * GLYD_BLOCK_CODE_WORDS * 4;
        t.rest.blocks = blocks;
    }
    return t;
}

/* The next blocks, at most `most` of them and at least one. */
static packed_run take_blocks(packed_tile *t, int64_t most)
{
    const glyd_matrix *m = &t->weight->matrix;
    if (t->rest.blocks == 0) {
        t->rest.codes = (const uint8_t *)t->codes;
        t->rest.blocks =
            glyd_stream_expand(m, t->weight->lookup, t->tile, t->block / m->run_blocks, t->codes);
    }
    packed_run run = t->rest;
    run.blocks = smaller(run.blocks, most);
    t->block += run.blocks;
    t->rest.sm += run.blocks * GLYD_BLOCK_SM_WORDS * 4;
    t->rest.codes += run.blocks * GLYD_BLOCK_CODE_WORDS * 4;
    t->rest.blocks -= run.blocks;
    return run;
}

/* Blocks from t->block on that have no escape. */
static int64_t blocks_without_escape(const packed_tile *t, int64_t blocks)
{
    if (t->next == t->last)
        return blocks - t->block;
    const uint8_t *escapes = t->weight->matrix.array[GLYD_ARRAY_ESCAPES].data;
    return glyd_escape_block(glyd_load_u32(escapes, t->next)) - t->block;
}

/* Decode a run that take_blocks gave, its escapes in place. */
static void decode_run(const product *p, packed_tile *t, const packed_run *run, uint16_t *pairs)
{
    p->kernels->decode(run, pairs);
    const uint8_t *escapes = t->weight->matrix.array[GLYD_ARRAY_ESCAPES].data;
    int64_t first = t->block - run->blocks;
    for (; t->next < t->last; t->next++) {
        uint32_t escape = glyd_load_u32(escapes, t->next);
        if (glyd_escape_block(escape) >= t->block)
            return;
        uint16_t *weight = pairs + (glyd_escape_block(escape) - first) * GLYD_BLOCK_WEIGHTS +
                           pair_of_position(glyd_escape_position(escape));
        *weight = (uint16_t)((*weight & 0x807f) | glyd_escape_exponent(escape) << 7);
    }
}

/* --- a tile's sums -------------------------------------------------------------------------- */

static bf16_run rows_of_tile(const glyd_matrix *m, int64_t tile)
{
    int64_t row = tile * GLYD_TILE_ROWS;
    return (bf16_run){.w = m->array[GLYD_ARRAY_SM].data + row * m->cols * 2,
                      .row_bytes = m->cols * 2,
                      .rows = (int)smaller(m->rows - row, GLYD_TILE_ROWS),
                      .cols = m->cols,
                      .blocks = glyd_blocks_of(m->cols)};
}

static void sum_one_token(const product *p, const glyd_linear_weight *weight, int64_t tile,
                          const desk *d)
{
    const linear_kernels *k = p->kernels;
    int64_t x_group = group_floats(p, p->blocks);
    if (weight->matrix.layout == GLYD_LAYOUT_BF16) {
        bf16_run run = rows_of_tile(&weight->matrix, tile);
        k->multiply_bf16(&run, p->x_slots, x_group, d->slots);
        return;
    }
    packed_tile t = open_tile(weight, tile, d->codes);
    while (t.block < p->blocks) {
        const float *x = p->x_lanes + group_floats(p, t.block);
        int64_t plain = blocks_without_escape(&t, p->blocks);
        bool is_plain = plain >= smaller(p->blocks - t.block, PAIRS_BLOCKS);
        packed_run run = take_blocks(&t, is_plain ? plain : PAIRS_BLOCKS);
        if (is_plain) {
            k->multiply_packed(&run, x, x_group, d->slots);
        } else {
            decode_run(p, &t, &run, d->pairs);
            k->multiply_pairs(d->pairs, run.blocks, x, x_group, d->slots);
        }
    }
}

/* The next blocks of a packed tile to a panel. */
static void lay_blocks(const product *p, packed_tile *t, int64_t blocks, const desk *d)
{
    for (int64_t done = 0; done < blocks;) {
        packed_run run = take_blocks(t, smaller(blocks - done, PAIRS_BLOCKS));
        decode_run(p, t, &run, d->pairs);
        p->kernels->lay_pairs(d->pairs, run.blocks, d->panel + group_floats(p, done), blocks);
        done += run.blocks;
    }
}

static void sum_tokens(const product *p, const glyd_linear_weight *weight, int64_t tile,
                       int64_t token, int64_t n_tokens, const desk *d)
{
    int64_t x_token = p->blocks * GLYD_BLOCK_COLS, x_group = group_floats(p, p->blocks);
    const float *x = p->x_lanes + token * x_token;
    bool is_bf16 = weight->matrix.layout == GLYD_LAYOUT_BF16;
    bf16_run rows = {0};
    packed_tile packed = {0};
    if (is_bf16)
        rows = rows_of_tile(&weight->matrix, tile);
    else
        packed = open_tile(weight, tile, d->codes);
    int64_t panels = (p->blocks + PANEL_BLOCKS - 1) / PANEL_BLOCKS;
    for (int64_t i = 0; i < panels; i++) {
        int64_t block = p->blocks * i / panels, n = p->blocks * (i + 1) / panels - block;
        if (is_bf16) {
            rows.blocks = n;
            p->kernels->lay_bf16(&rows, d->panel);
            rows.w += n * GLYD_BLOCK_COLS * 2;
            rows.cols -= n * GLYD_BLOCK_COLS;
        } else {
            lay_blocks(p, &packed, n, d);
        }
        p->kernels->multiply_panel(d->panel, n, x + group_floats(p, block), x_group, x_token,
                                   n_tokens, i == 0, d->slots);
    }
}

/* Add up the slots and the bias, and store the results of a tile's rows. */
static void store_results(const product *p, const glyd_linear_part *part, int64_t tile,
                          int64_t token, int64_t n_tokens, const float *slots)
{
    int64_t row = tile * GLYD_TILE_ROWS;
    int rows = (int)smaller(part->weight->matrix.rows - row, GLYD_TILE_ROWS);
    float bias[GLYD_TILE_ROWS] = {0}, nan;
    if (part->bias)
        memcpy(bias, part->bias + row, (size_t)rows * sizeof *bias);
    memcpy(&nan, &(uint32_t){0x7fc00000}, sizeof nan);
    for (int64_t i = 0; i < n_tokens; i++, slots += TILE_SLOTS) {
        float y[GLYD_TILE_ROWS];
        p->kernels->add_slots(slots, y);
        if (part->bias)
            for (int r = 0; r < GLYD_TILE_ROWS; r++)
                y[r] += bias[r];
        for (int r = 0; r < GLYD_TILE_ROWS; r++)
            y[r] = y[r] == y[r] ? y[r] : nan;
        float *to = part->y + (token + i) * part->y_stride + row;
        if (rows == GLYD_TILE_ROWS)
            memcpy(to, y, sizeof y);
        else
            memcpy(to, y, (size_t)rows * sizeof *y);
    }
}

static void multiply_tile(const product *p, const glyd_linear_part *part, int64_t tile,
                          const desk *d)
{
    for (int64_t token = 0, n; token < p->n_tokens; token += n) {
        n = smaller(p->n_tokens - token, TOKENS_MAX);
        if (p->n_tokens == 1 || p->blocks == 0)
            memset(d->slots, 0, (size_t)n * TILE_SLOTS * sizeof *d->slots);
        if (p->n_tokens == 1)
            sum_one_token(p, part->weight, tile, d);
        else
            sum_tokens(p, part->weight, tile, token, n, d);
        store_results(p, part, tile, token, n, d->slots);
    }
}

/* --- tasks ---------------------------------------------------------------------------------- */

static void multiply_task(void *arg, int64_t task, int worker)
{
    const product *p = arg;
    desk d = desk_of(p, worker);
    const glyd_linear_part *part = p->parts;
    int64_t tile = task * p->tiles_a_task;
    for (int64_t left = smaller(p->tiles_a_task, p->tiles - tile); left > 0; left--, tile++) {
        for (int64_t tiles; tile >= (tiles = glyd_tiles_of(part->weight->matrix.rows)); part++)
            tile -= tiles;
        multiply_tile(p, part, tile, &d);
    }
}

static void lay_task(void *arg, int64_t task, int worker)
{
    (void)worker;
    const product *p = arg;
    int64_t end = smaller((task + 1) * LAY_TOKENS, p->n_tokens);
    for (int64_t i = task * LAY_TOKENS; i < end; i++)
        p->kernels->lay_lanes(p->x + i * p->x_stride, p->cols, p->blocks,
                              p->x_lanes + i * p->blocks * GLYD_BLOCK_COLS);
}

/* One token with bf16 weights takes x in slot order; everything else takes it in lane order. */
static void lay_x(const product *p, int n_parts, glyd_pool *pool)
{
    bool has_bf16 = false, has_packed = false;
    for (int i = 0; i < n_parts; i++) {
        if (p->parts[i].weight->matrix.layout == GLYD_LAYOUT_BF16)
            has_bf16 = true;
        else
            has_packed = true;
    }
    if (p->n_tokens > 1 || has_packed)
        glyd_pool_run(pool, (p->n_tokens + LAY_TOKENS - 1) / LAY_TOKENS, lay_task, (void *)p);
    if (p->n_tokens == 1 && has_bf16)
        p->kernels->lay_slots(p->x, p->cols, p->blocks, p->x_slots);
}

static const linear_kernels *kernels_of(glyd_variant variant)
{
#if defined(__x86_64__)
    if (variant == GLYD_VARIANT_AVX512)
        return &glyd_linear_kernels_avx512;
    if (variant == GLYD_VARIANT_AVX2)
        return &glyd_linear_kernels_avx2;
#endif
    (void)variant;
    return &glyd_linear_kernels_c;
}

void glyd_linear_by(glyd_variant variant, const glyd_linear_part *parts, int n_parts,
                    const float *x, int64_t x_stride, int64_t n_tokens, void *scratch,
                    glyd_pool *pool)
{
    if (n_parts == 0 || n_tokens == 0)
        return;
    int64_t cols = parts[0].weight->matrix.cols, blocks = glyd_blocks_of(cols), tiles = 0;
    for (int i = 0; i < n_parts; i++)
        tiles += glyd_tiles_of(parts[i].weight->matrix.rows);
    int64_t a_task = tiles / (glyd_pool_size(pool) * TASKS_A_THREAD);
    a_task = smaller(a_task, TASK_BYTES / (GLYD_BLOCK_WEIGHTS * 2 * (blocks + 1)));
    float *x_lanes = scratch;
    product p = {
        .kernels = kernels_of(variant),
        .parts = parts,
        .x = x,
        .x_stride = x_stride,
        .n_tokens = n_tokens,
        .cols = cols,
        .blocks = blocks,
        .x_lanes = x_lanes,
        .x_slots = n_tokens == 1 ? x_lanes + blocks * GLYD_BLOCK_COLS : NULL,
        .workers = (uint8_t *)(x_lanes + (n_tokens == 1 ? 2 : n_tokens) * blocks * GLYD_BLOCK_COLS),
        .worker_bytes = desk_bytes(blocks, n_tokens),
        .tiles = tiles,
        .tiles_a_task = a_task ? a_task : 1,
    };
    lay_x(&p, n_parts, pool);
    glyd_pool_run(pool, (tiles + p.tiles_a_task - 1) / p.tiles_a_task, multiply_task, &p);
}

/* --- the interface -------------------------------------------------------------------------- */

size_t glyd_linear_lookup_bytes(const glyd_matrix *m)
{
    return m->layout == GLYD_LAYOUT_MMA ? sizeof(glyd_lookup) : 0;
}

glyd_status glyd_linear_weight_init(glyd_linear_weight *w, const glyd_matrix *m, void *lookup,
                                    glyd_error *err)
{
    *w = (glyd_linear_weight){.matrix = *m, .lookup = lookup};
    if (m->layout != GLYD_LAYOUT_MMA)
        return GLYD_OK;
    return glyd_lookup_init(lookup, m->array[GLYD_ARRAY_TABLE], err);
}

/* Grows with each argument, so that scratch for the largest product serves every other. */
size_t glyd_linear_scratch_bytes(int64_t cols, int64_t n_tokens, int n_threads)
{
    int64_t blocks = glyd_blocks_of(cols), rows = n_tokens > 2 ? n_tokens : 2;
    size_t desks = (size_t)n_threads * desk_bytes(blocks, n_tokens);
    return pad_line((size_t)(rows * blocks * GLYD_BLOCK_COLS) * sizeof(float) + desks) + 64;
}

void glyd_linear(const glyd_linear_part *parts, int n_parts, const float *x, int64_t x_stride,
                 int64_t n_tokens, void *scratch, glyd_pool *pool)
{
    glyd_linear_by(glyd_cpu_variant(), parts, n_parts, x, x_stride, n_tokens, scratch, pool);
}
