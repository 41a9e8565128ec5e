/* unpack.c - packed rows back to bf16, tile by tile.
 *
 * A tile decodes on its own: its blocks into a 16 x 64 square each, the square's escapes put in
 * place, and the rows and columns asked for copied out. Tiles are the threads' tasks.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "codec/load.h"
#include "codec/stream.h"
#include <stdlib.h>
#include <string.h>

typedef struct unpack_job {
    const glyd_matrix *m;
    const glyd_lookup *lookup;
    int64_t row0, rows; /* of the matrix */
    uint16_t *bf16;
    int64_t stride;
} unpack_job;

typedef uint16_t square[GLYD_TILE_ROWS][GLYD_BLOCK_COLS];

/* One register: two weights of a row. `sm` has sign and mantissa in both halves, `codes` the two
 * codes at bits 0 and 16. */
static inline void put_pair(uint16_t *to, uint32_t sm, uint32_t codes, uint32_t base)
{
    uint32_t pair = (sm & GLYD_SM_MASK) | ((codes & 0x000f000f) + base * 0x00010001) << 7;
    memcpy(to, &pair, sizeof pair);
}

static void unpack_block(const uint8_t *sm, const uint8_t *codes, const uint8_t *bases, square out)
{
    for (int lane = 0; lane < GLYD_LANES; lane++) {
        int row = lane >> 2, col = 2 * (lane & 3);
        for (int group = 0; group < GLYD_BLOCK_GROUPS; group++) {
            uint32_t code = glyd_load_u32(codes, glyd_code_word(lane, group));
            for (int q = 0; q < 2; q++) {
                uint32_t low = glyd_load_u32(sm, glyd_sm_word(lane, group, q));
                uint32_t high = (low >> 8 & 0x00ff00ff) | (low & 0x00ff00ff) << 8;
                int at = group * GLYD_GROUP_COLS + q * 8 + col;
                put_pair(&out[row][at], low, code >> 8 * q, bases[row]);
                put_pair(&out[row + 8][at], high, code >> (8 * q + 4), bases[row + 8]);
            }
        }
    }
}

/* Put the exponents of one block's escapes in place, from *next on. */
static void patch_block(const uint8_t *escapes, uint32_t *next, uint32_t end, int64_t block,
                        square out)
{
    for (; *next < end; ++*next) {
        uint32_t escape = glyd_load_u32(escapes, *next);
        if (glyd_escape_block(escape) != block)
            return;
        int position = glyd_escape_position(escape);
        uint16_t *weight = &out[glyd_position_row(position)][glyd_position_col(position)];
        *weight = (uint16_t)((*weight & 0x807f) | glyd_escape_exponent(escape) << 7);
    }
}

static void copy_out(const unpack_job *job, int64_t tile, int64_t block, square in)
{
    int64_t first = tile * GLYD_TILE_ROWS, col = block * GLYD_BLOCK_COLS;
    int64_t cols = job->m->cols - col < GLYD_BLOCK_COLS ? job->m->cols - col : GLYD_BLOCK_COLS;
    for (int r = 0; r < GLYD_TILE_ROWS; r++) {
        int64_t row = first + r - job->row0;
        if (row >= 0 && row < job->rows)
            memcpy(job->bf16 + row * job->stride + col, in[r], (size_t)cols * 2);
    }
}

static void unpack_tile(void *arg, int64_t task, int worker)
{
    (void)worker;
    const unpack_job *job = arg;
    const glyd_matrix *m = job->m;
    int64_t tile = job->row0 / GLYD_TILE_ROWS + task, blocks = glyd_blocks_of(m->cols);
    const uint8_t *sm = m->array[GLYD_ARRAY_SM].data + tile * blocks * GLYD_BLOCK_SM_WORDS * 4;
    const uint8_t *bases = m->array[GLYD_ARRAY_BASES].data + tile * GLYD_TILE_ROWS;
    const uint8_t *index = m->array[GLYD_ARRAY_ESCAPE_INDEX].data;
    uint32_t next = glyd_load_u32(index, tile), end = glyd_load_u32(index, tile + 1);
    uint32_t run_codes[GLYD_RUN_BLOCKS_MAX * GLYD_BLOCK_CODE_WORDS];
    for (int64_t block = 0; block < blocks; block++, sm += GLYD_BLOCK_SM_WORDS * 4) {
        const uint8_t *codes;
        if (m->layout == GLYD_LAYOUT_MMA) {
            int64_t in_run = block % m->run_blocks;
            if (in_run == 0)
                glyd_stream_expand(m, job->lookup, tile, block / m->run_blocks, run_codes);
            codes = (const uint8_t *)(run_codes + in_run * GLYD_BLOCK_CODE_WORDS);
        } else {
            codes = m->array[GLYD_ARRAY_CODES].data +
                    (tile * blocks + block) * GLYD_BLOCK_CODE_WORDS * 4;
        }
        square out;
        unpack_block(sm, codes, bases, out);
        patch_block(m->array[GLYD_ARRAY_ESCAPES].data, &next, end, block, out);
        copy_out(job, tile, block, out);
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

glyd_status glyd_unpack(const glyd_matrix *m, int64_t row0, int64_t rows, uint16_t *bf16,
                        int64_t stride, glyd_pool *pool, glyd_error *err)
{
    if (row0 < 0 || rows < 0 || row0 > m->rows || rows > m->rows - row0)
        GLYD_FAIL(err, GLYD_E_ARG, "rows %lld to %lld of a matrix of %lld rows", (long long)row0,
                  (long long)row0 + (long long)rows, (long long)m->rows);
    if (stride < m->cols)
        GLYD_FAIL(err, GLYD_E_ARG, "a stride of %lld for %lld columns", (long long)stride,
                  (long long)m->cols);
    if (rows == 0 || m->cols == 0)
        return GLYD_OK;
    unpack_job job = {.m = m, .row0 = row0, .rows = rows, .bf16 = bf16, .stride = stride};
    if (m->layout == GLYD_LAYOUT_BF16) {
        glyd_pool_run(pool, rows, copy_row, &job);
        return GLYD_OK;
    }
    glyd_lookup lookup;
    if (m->layout == GLYD_LAYOUT_MMA) {
        GLYD_TRY(glyd_lookup_init(&lookup, m->array[GLYD_ARRAY_TABLE], err));
        job.lookup = &lookup;
    }
    int64_t tile0 = row0 / GLYD_TILE_ROWS;
    glyd_pool_run(pool, glyd_tiles_of(row0 + rows) - tile0, unpack_tile, &job);
    return GLYD_OK;
}
