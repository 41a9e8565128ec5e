/* config.c - which kernel, cut up how: a search over the few shapes there are, by a rough model.
 *
 * The model counts clock cycles of an SM. It need not be right, only order the candidates as
 * measurements do; docs/SPEED.md has them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/config.h"
#include <stdbool.h>

enum {
    BLOCK_BYTES = (GLYD_BLOCK_SM_WORDS + GLYD_BLOCK_CODE_WORDS) * 4,
    X_ROW_BYTES = GLYD_BLOCK_COLS * 2,
    SM_REGISTERS = 65536,
    GPU_BYTES_A_CYCLE = 2300,    /* of memory, all SMs together */
    L2_BYTES_A_CYCLE = 5500,     /* of the second-level cache, all SMs together */
    SM_BYTES_A_CYCLE = 22,       /* what one SM can take in */
    FEW_ISSUE_CYCLES = 32,       /* FEW: of an SM's four schedulers, a block's instructions */
    DECODE_BLOCK_CYCLES = 1100,  /* a warp's that decodes a stream, from one block to the next */
    DECODE_ISSUE_CYCLES = 106,   /* of an SM's four schedulers, a block's decoding */
    EXPAND_CYCLES = 112,         /* of an SM, to decode a block beforehand, */
    EXPAND_LAUNCH_CYCLES = 7000, /* and to begin and end that */
    FEW_LAUNCH_CYCLES = 3000,    /* filling the ring and writing results, a round of CTAs */
    STREAM_LAUNCH_CYCLES = 6000, /* the same where the kernel decodes streams */
    FEW_CTA_CYCLES = 200,        /* each CTA more an SM */
    MANY_LAUNCH_CYCLES = 5000,
    WALK_LAUNCH_CYCLES = 4000,
    WALK_TILE_CYCLES = 800, /* what is left of writing results and starting the next tile */
    WARPGROUP_ROWS = 64,
    HERE_BLOCK_CYCLES = 1085, /* a multiplying warp's that decodes its streams, */
    HERE_ISSUE_CYCLES = 121,  /* and of an SM's four schedulers */
    FEW_TOKENS_MAX = 32,
    /* The lookup is aligned to its size, and shared memory starts at 1 KB. */
    LOOKUP_BYTES = GLYD_LOOKUP_ENTRIES * 4,
    STREAM_FIXED_BYTES = 2 * LOOKUP_BYTES - 1024 + GLYD_GPU_LOOKUP_SCRATCH_BYTES,
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Cycles in which `bytes` reach one SM while `active` SMs take in as much. */
static int64_t load_cycles(int64_t bytes, int64_t active)
{
    int64_t share = GPU_BYTES_A_CYCLE / active;
    return bytes / (share < SM_BYTES_A_CYCLE ? share : SM_BYTES_A_CYCLE);
}

/* Deepest ring of `stage_bytes` that `per_sm` CTAs of an SM can have beside `fixed_bytes`. */
static int ring_stages(int64_t stage_bytes, int64_t fixed_bytes, int per_sm)
{
    int64_t room = GLYD_GPU_SHARED_SM / per_sm - 1024 - fixed_bytes;
    if (room > GLYD_GPU_SHARED_MAX - fixed_bytes)
        room = GLYD_GPU_SHARED_MAX - fixed_bytes;
    int64_t stages = room / stage_bytes, most = GLYD_GPU_BARRIER_BYTES / 16;
    return (int)(stages < most ? stages : most);
}

/* A multiplying warp's cycles from one block to the next. */
static int few_block_cycles(int token_tile)
{
    return token_tile == 8 ? 310 : token_tile == 16 ? 340 : 395;
}

static int few_token_tile(int64_t tokens)
{
    return tokens <= 8 ? 8 : tokens <= 16 ? 16 : 32;
}

/* Fill *config for `warps` warps a CTA, `tiles` tiles of it, and `per_sm` CTAs an SM. The ring
 * holds `block_bytes` of each block; `fixed_bytes` of shared memory go to what is neither ring nor
 * sums. False: it does not fit. */
static bool few_fit(const glyd_gpu_shape *s, int tiles, int64_t warps, int per_sm, int block_bytes,
                    int64_t fixed_bytes, glyd_gpu_config *config)
{
    int n = few_token_tile(s->tokens), units = tiles * s->slices;
    int64_t stage =
        (int64_t)GLYD_GPU_FEW_BLOCKS * (s->slices * n * X_ROW_BYTES + units * block_bytes);
    int64_t sums = s->slices > 1 ? (int64_t)units * n * GLYD_TILE_ROWS * 4 : 0;
    int64_t fixed = fixed_bytes + sums + GLYD_GPU_BARRIER_BYTES;
    /* All that is there: two kernels' CTAs side by side on an SM would share it unevenly. */
    int stages = ring_stages(stage, fixed, per_sm);
    if (stages < 3)
        return false;
    *config = (glyd_gpu_config){
        .kernel = GLYD_GPU_KERNEL_FEW,
        .token_tile = n,
        .tiles = tiles,
        .stages = stages,
        .threads = (int)warps * GLYD_LANES,
        .shared_bytes = (int)(stages * stage + fixed),
        .grid_rows = ceil_div(glyd_tiles_of(s->rows), tiles),
        .grid_tokens = ceil_div(s->tokens, n),
    };
    return true;
}

/* Units that an SM has at a time. */
static int64_t few_resident(const glyd_gpu_shape *s, const glyd_gpu_config *config, int per_sm)
{
    int64_t ctas = config->grid_rows * config->grid_tokens, slots = (int64_t)per_sm * s->n_sms;
    int64_t resident = ctas < slots ? ceil_div(ctas, s->n_sms) : per_sm;
    return resident * config->tiles * s->slices;
}

/* Cycles of all rounds of CTAs: `step` a block, `launch` for the first, `between` for each more. */
static int64_t few_cycles(const glyd_gpu_shape *s, const glyd_gpu_config *config, int per_sm,
                          int64_t step, int64_t launch, int64_t between)
{
    int64_t ctas = config->grid_rows * config->grid_tokens;
    int64_t rounds = ceil_div(ctas, (int64_t)per_sm * s->n_sms);
    return rounds * glyd_gpu_slice_blocks(s->cols, s->slices) * step + launch +
           (rounds - 1) * between + (per_sm - 1) * FEW_CTA_CYCLES;
}

/* Candidate of `tiles` tiles a CTA and `per_sm` CTAs an SM. Cycles, or INT64_MAX where that does
 * not fit. */
static int64_t few_try(const glyd_gpu_shape *s, int tiles, int per_sm, glyd_gpu_config *config)
{
    int n = few_token_tile(s->tokens), units = tiles * s->slices;
    int64_t registers = (units + 2) * GLYD_LANES * (n <= 16 ? 96 : 112); /* at most */
    if (units > GLYD_GPU_FEW_UNITS_MAX || registers * per_sm > SM_REGISTERS ||
        !few_fit(s, tiles, units + 2, per_sm, BLOCK_BYTES, 0, config))
        return INT64_MAX;
    int64_t ctas = config->grid_rows * config->grid_tokens;
    int64_t active = ctas < s->n_sms ? ctas : s->n_sms;
    int64_t resident = few_resident(s, config, per_sm);
    int64_t step = max64(few_block_cycles(n), resident * FEW_ISSUE_CYCLES);
    step = max64(step, load_cycles(resident * BLOCK_BYTES, active));
    /* A round's beginning hides behind the CTAs that still run beside it; but each CTA more an SM
     * is one more to start. */
    return few_cycles(s, config, per_sm, step, FEW_LAUNCH_CYCLES, FEW_LAUNCH_CYCLES / (2 * per_sm));
}

/* Cycles to decode a slice's runs and multiply by them: each decoder's runs one after another,
 * and the products of those that were decoded side by side. */
static int64_t stream_cycles(const glyd_gpu_shape *s, int units, int decoders)
{
    int64_t blocks = glyd_gpu_slice_blocks(s->cols, s->slices);
    int64_t runs = ceil_div(blocks, GLYD_RUN_BLOCKS);
    int64_t turns = ceil_div(runs, decoders), side = runs < decoders ? runs : decoders;
    int64_t issue = (int64_t)units * (decoders * DECODE_ISSUE_CYCLES + FEW_ISSUE_CYCLES);
    int64_t decode = max64(DECODE_BLOCK_CYCLES, issue);
    return GLYD_RUN_BLOCKS * (turns * decode + (side - 1) * few_block_cycles(8));
}

/* As few_try, where warps of the same CTA decode the streams ahead. */
static int64_t ahead_try(const glyd_gpu_shape *s, int tiles, int decoders_log2,
                         glyd_gpu_config *config)
{
    int n = few_token_tile(s->tokens), units = tiles * s->slices;
    int planes_log2 = decoders_log2 ? 4 : 3; /* a whole run ahead, or a part of one */
    int64_t decoders = units << decoders_log2, planes = decoders << planes_log2;
    int64_t warps = units + 2 + decoders;
    int64_t most = GLYD_GPU_FEW_AHEAD_WARPS_MAX - (n == 8 ? 0 : n == 16 ? 4 : 8);
    int64_t fixed =
        STREAM_FIXED_BYTES + planes * (GLYD_BLOCK_CODE_BYTES + 8) + decoders * GLYD_GPU_WORDS_BYTES;
    if (warps > most || !few_fit(s, tiles, warps, 1, GLYD_BLOCK_SM_BYTES, fixed, config))
        return INT64_MAX;
    config->codes = GLYD_GPU_CODES_AHEAD;
    config->decoders_log2 = decoders_log2;
    config->planes_log2 = planes_log2;
    int64_t ctas = config->grid_rows * config->grid_tokens;
    return ceil_div(ctas, s->n_sms) *
           (stream_cycles(s, units, 1 << decoders_log2) + STREAM_LAUNCH_CYCLES);
}

/* As few_try, where the warps that multiply decode the streams. */
static int64_t here_try(const glyd_gpu_shape *s, int tiles, int per_sm, glyd_gpu_config *config)
{
    int n = few_token_tile(s->tokens), units = tiles * s->slices;
    int most = GLYD_GPU_FEW_HERE_UNITS_MAX - (n <= 16 ? 0 : 4);
    int64_t registers = (units + 2) * GLYD_LANES * (n <= 16 ? 128 : 168);
    int64_t fixed = STREAM_FIXED_BYTES + units * GLYD_GPU_WORDS_BYTES;
    if (units > most || registers * per_sm > SM_REGISTERS ||
        !few_fit(s, tiles, units + 2, per_sm, GLYD_BLOCK_SM_BYTES, fixed, config))
        return INT64_MAX;
    config->codes = GLYD_GPU_CODES_HERE;
    int64_t issue = HERE_ISSUE_CYCLES + 2 * (n - 8);
    int64_t step = max64(HERE_BLOCK_CYCLES, few_resident(s, config, per_sm) * issue);
    return few_cycles(s, config, per_sm, step, STREAM_LAUNCH_CYCLES, STREAM_LAUNCH_CYCLES / 2);
}

/* MANY's tiles, and a CTA's cycles from one block to the next. Of 256 tokens WALK's are better
 * throughout. */
static const struct {
    int tokens, groups, block_cycles;
} many_tiles[] = {{64, 1, 400}, {64, 2, 600}, {128, 1, 520}, {128, 2, 790}, {256, 2, 1180}};

static int64_t many_try(const glyd_gpu_shape *s, int i, glyd_gpu_config *config)
{
    int n = many_tiles[i].tokens, groups = many_tiles[i].groups;
    int blocks = n == 256 ? 1 : 2; /* of a stage */
    int64_t stage = blocks * ((int64_t)n * X_ROW_BYTES + groups * 4 * BLOCK_BYTES);
    int stages = ring_stages(stage, GLYD_GPU_BARRIER_BYTES, 1);
    *config = (glyd_gpu_config){
        .kernel = GLYD_GPU_KERNEL_MANY,
        .token_tile = n,
        .tiles = groups,
        .pair = n == 256 && s->slices == 1 && s->rows > groups * WARPGROUP_ROWS,
        .stages = stages,
        .threads = (groups + 1) * 128,
        .shared_bytes = (int)(stages * stage + GLYD_GPU_BARRIER_BYTES),
        .grid_rows = ceil_div(s->rows, groups * WARPGROUP_ROWS),
        .grid_tokens = ceil_div(s->tokens, n),
    };
    int64_t ctas = config->grid_rows * config->grid_tokens * s->slices;
    int64_t active = ctas < s->n_sms ? ctas : s->n_sms;
    int64_t bytes = groups * 4 * BLOCK_BYTES / config->grid_tokens;
    int64_t step = max64(many_tiles[i].block_cycles, load_cycles(bytes, active));
    step = max64(step, stage / blocks * active / L2_BYTES_A_CYCLE);
    return ceil_div(ctas, s->n_sms) *
           (glyd_gpu_slice_blocks(s->cols, s->slices) * step + MANY_LAUNCH_CYCLES);
}

/* WALK's. Pairs pay for tiles of 256 tokens and no slices. */
static const struct {
    int tokens, groups, pair, block_cycles;
} walk_tiles[] = {{64, 3, 0, 860}, {128, 3, 0, 1060}, {256, 2, 0, 1080}, {256, 2, 1, 1080}};

static int64_t walk_try(const glyd_gpu_shape *s, int i, glyd_gpu_config *config)
{
    int n = walk_tiles[i].tokens, groups = walk_tiles[i].groups, pair = walk_tiles[i].pair;
    if (pair && (s->slices > 1 || s->rows <= groups * WARPGROUP_ROWS))
        return INT64_MAX;
    int64_t x = (int64_t)n * X_ROW_BYTES, w = (int64_t)groups * 4 * BLOCK_BYTES;
    int64_t fixed = GLYD_GPU_BARRIER_BYTES + groups * 4 * GLYD_GPU_WALK_OUT_BYTES;
    /* Two stages of tokens are in use while others come, and one of weights, whose way is longer.
     */
    int64_t room = GLYD_GPU_SHARED_MAX - fixed, x_stages = max64(4, (room - w) / (x + w));
    int64_t w_stages = (room - x_stages * x) / w;
    x_stages = (room - w_stages * w) / x;
    *config = (glyd_gpu_config){
        .kernel = GLYD_GPU_KERNEL_WALK,
        .token_tile = n,
        .tiles = groups,
        .pair = pair,
        .stages = (int)x_stages,
        .weight_stages = (int)w_stages,
        .threads = (groups + 1) * 128,
        .shared_bytes = (int)(x_stages * x + w_stages * w + fixed),
        .grid_rows = ceil_div(s->rows, groups * WARPGROUP_ROWS),
        .grid_tokens = ceil_div(s->tokens, n),
    };
    int64_t units = ceil_div(config->grid_rows, 1 + pair) * config->grid_tokens;
    int64_t slots = max64(s->n_sms / (1 + pair), 1);
    /* Slices meet at the end of their tile: one each. */
    config->walkers = s->slices > 1 || units < slots ? units : slots;
    int64_t ctas = units * (1 + pair) * s->slices;
    int64_t active = ctas < s->n_sms ? ctas : s->n_sms;
    int64_t step = max64(walk_tiles[i].block_cycles, load_cycles(w / config->grid_tokens, active));
    step = max64(step, (w + x / (1 + pair)) * active / L2_BYTES_A_CYCLE);
    return ceil_div(ctas, s->n_sms) *
               (glyd_gpu_slice_blocks(s->cols, s->slices) * step + WALK_TILE_CYCLES) +
           WALK_LAUNCH_CYCLES;
}

enum {
    N_MANY = sizeof many_tiles / sizeof *many_tiles,
    N_WALK = sizeof walk_tiles / sizeof *walk_tiles,
    FEW_PER_SM = 4,
    N_FEW = GLYD_GPU_FEW_UNITS_MAX * FEW_PER_SM,
    AHEAD_DECODERS = 2, /* 1 or 2; 4 were slower throughout */
    N_AHEAD = GLYD_GPU_FEW_UNITS_MAX * AHEAD_DECODERS,
    HERE_PER_SM = 2,
    N_HERE = GLYD_GPU_FEW_HERE_UNITS_MAX * HERE_PER_SM,
    N_CANDIDATES = N_MANY + N_WALK + N_FEW + N_AHEAD + N_HERE,
};

/* Candidate i's cycles; INT64_MAX where it does not fit, -1 past the last. */
static int64_t candidate(const glyd_gpu_shape *s, int i, glyd_gpu_config *config)
{
    bool streams = s->layout == GLYD_LAYOUT_MMA;
    *config = (glyd_gpu_config){
        .kernel = GLYD_GPU_KERNEL_PLAIN,
        .token_tile = 16,
        .expand = streams,
    };
    if (s->capability != 90 || i >= N_CANDIDATES)
        return -1;
    int64_t cycles = INT64_MAX;
    bool here = streams && s->run_blocks == GLYD_RUN_BLOCKS && s->tokens <= FEW_TOKENS_MAX &&
                glyd_run_streams(glyd_blocks_of(s->cols)) == GLYD_STREAMS_MAX;
    if (i < N_MANY) {
        if (s->slices <= GLYD_GPU_CLUSTER_MAX)
            cycles = many_try(s, i, config);
    } else if ((i -= N_MANY) < N_WALK) {
        if (s->slices <= GLYD_GPU_CLUSTER_MAX)
            cycles = walk_try(s, i, config);
    } else if ((i -= N_WALK) < N_FEW) {
        if (s->tokens <= FEW_TOKENS_MAX)
            cycles = few_try(s, i / FEW_PER_SM + 1, i % FEW_PER_SM + 1, config);
    } else if ((i -= N_FEW) < N_AHEAD) {
        if (here && (s->slices == 1 || glyd_gpu_slice_blocks(s->cols, s->slices) % 2 == 0))
            return ahead_try(s, i / AHEAD_DECODERS + 1, i % AHEAD_DECODERS, config);
    } else {
        i -= N_AHEAD;
        if (here)
            return here_try(s, i / HERE_PER_SM + 1, i % HERE_PER_SM + 1, config);
    }
    config->expand = streams;
    if (streams && cycles < INT64_MAX)
        cycles += EXPAND_CYCLES * glyd_tiles_of(s->rows) * glyd_blocks_of(s->cols) / s->n_sms +
                  EXPAND_LAUNCH_CYCLES;
    return cycles;
}

int glyd_gpu_config_candidate(const glyd_gpu_shape *shape, int i, glyd_gpu_config *config)
{
    return candidate(shape, i, config) >= 0;
}

void glyd_gpu_config_for(const glyd_gpu_shape *shape, glyd_gpu_config *config)
{
    int64_t best = INT64_MAX, cycles;
    glyd_gpu_config tried;
    (void)candidate(shape, N_CANDIDATES, config); /* the plain kernel */
    for (int i = 0; (cycles = candidate(shape, i, &tried)) >= 0; i++) {
        if (cycles < best) {
            best = cycles;
            *config = tried;
        }
    }
}

glyd_gpu_plan glyd_gpu_plan_fixed(int64_t rows, int64_t cols)
{
    int slices = 1;
    while (slices < GLYD_GPU_CLUSTER_MAX && glyd_tiles_of(rows) * slices < 1024 &&
           glyd_blocks_of(cols) / (2 * slices) >= GLYD_RUN_BLOCKS)
        slices *= 2;
    return (glyd_gpu_plan){slices};
}
