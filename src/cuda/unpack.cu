/* unpack.cu - packed matrices back to bf16, whole rows or gathered ones, and streams to codes.
 *
 * A warp takes a run of a tile's blocks and turns each block into 16 rows of 128 bytes through its
 * own part of shared memory, so that rows are written in pieces of 16 bytes. A block's loads are
 * under way while the one before it is decoded. For mma12 a run is as long as makes the warps of a
 * whole GPU end together.
 *
 * Thread to data   lane 4g + t decodes rows g and g + 8; it writes 16-byte chunk `lane % 8` of rows
 *                  `lane / 8`, + 4, + 8, + 12.
 * Shared memory    mma: a ring of stream words a warp, and the lookup; then 16 rows of ROW_PITCH
 *                  bytes a warp.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/linear.h"
#include "cuda/stream.cuh"

static constexpr int WARPS = 4;
static constexpr int SM_CTAS = 5;        /* on an SM at once */
static constexpr int RUN_BLOCKS_MIN = 4; /* mma12: blocks of a warp */
static constexpr int RUN_BLOCKS_MAX = 32;
static constexpr int ROW_PITCH = GLYD_BLOCK_COLS * 2 + 16; /* rows g start 4 banks apart */
/* The lookup, wherever in shared memory its alignment puts it, the rings, and scratch. */
static constexpr size_t STREAM_BYTES =
    2 * LOOKUP_BYTES - 1024 + WARPS * WORDS_BYTES + GLYD_GPU_LOOKUP_SCRATCH_BYTES;

/* Where these are, as shared addresses. */
typedef struct stream_parts {
    uint32_t lookup, rings, scratch;
} stream_parts;

static __device__ __forceinline__ stream_parts stream_parts_of(uint8_t *shared)
{
    stream_parts p;
    p.lookup = (shared_address(shared) + LOOKUP_BYTES - 1) & ~(LOOKUP_BYTES - 1);
    p.rings = p.lookup + LOOKUP_BYTES;
    p.scratch = p.rings + WARPS * WORDS_BYTES;
    return p;
}

/* Open run `index` of a tile; the warps' rings are at `rings`. */
template <int N>
static __device__ __forceinline__ void warp_run_open(stream_run<N> *r, word_ring *words,
                                                     const packed_arrays &w, int tile, int index,
                                                     uint32_t rings, int lane)
{
    int runs = (w.blocks + w.run_blocks - 1) / w.run_blocks;
    words->ring = rings + threadIdx.x / 32 * WORDS_BYTES;
    words->lane = lane;
    words_start(words, w.codes, w.entries[(int64_t)tile * runs + index],
                w.entries[(int64_t)w.tiles * runs]);
    run_open(r, words, 0);
}

typedef struct unpack_args {
    packed_arrays w;
    const int32_t *ids; /* rows to gather, or NULL */
    int64_t row0, rows; /* of the matrix; or 0 and the number of ids */
    uint16_t *out;
    int64_t stride;
    int tile0, tiles, runs, run_blocks;
} unpack_args;

/* What a warp writes: rows [first, end) of its tile, the first one at `out`. */
typedef struct row_range {
    int tile, first, end;
    uint16_t *out;
} row_range;

static __device__ __forceinline__ row_range unpack_rows(const unpack_args &p, int64_t task)
{
    row_range r;
    if (p.ids) {
        int id = p.ids[task];
        bool there = id >= 0 && id < p.w.rows;
        r.tile = there ? id / GLYD_TILE_ROWS : -1;
        r.first = there ? id % GLYD_TILE_ROWS : 0;
        r.end = r.first + 1;
        r.out = p.out + task * p.stride;
    } else {
        r.tile = p.tile0 + (int)task;
        int64_t top = (int64_t)r.tile * GLYD_TILE_ROWS;
        r.first = (int)max(p.row0 - top, (int64_t)0);
        r.end = (int)min(p.row0 + p.rows - top, (int64_t)GLYD_TILE_ROWS);
        r.out = p.out + (top + r.first - p.row0) * p.stride;
    }
    return r;
}

/* Write a block's rows from the warp's part of shared memory; NULL writes zeros. */
static __device__ __forceinline__ void unpack_write(const unpack_args &p, const row_range &r,
                                                    int block, const uint8_t *rows, int lane)
{
    int col = block * GLYD_BLOCK_COLS + lane % 8 * 8, n = min(8, p.w.cols - col);
    bool wide = (((uintptr_t)p.out | (uintptr_t)p.stride * 2) & 15) == 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = lane / 8 + 4 * i;
        if (row < r.first || row >= r.end)
            continue;
        uint16_t *to = r.out + (row - r.first) * p.stride + col;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (rows)
            v = *(const uint4 *)(rows + row * ROW_PITCH + lane % 8 * 16);
        if (wide && n == 8) {
            *(uint4 *)to = v;
        } else {
            const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int k = 0; k < 8; k++) {
                if (k < n)
                    to[k] = (uint16_t)(word[k / 2] >> 16 * (k & 1));
            }
        }
    }
}

/* Where kernels may overlap: those before may still read what is written now. */
static __device__ __forceinline__ void wait_to_write(void)
{
#if __CUDA_ARCH__ >= 900
    grid_wait();
#endif
}

/* A block as it lies: sign and mantissa, and mma12's codes. */
typedef struct block_words {
    uint4 sm0, sm1, codes;
} block_words;

template <bool CODES>
static __device__ __forceinline__ block_words block_load(const packed_arrays &w, int tile,
                                                         int block, int lane)
{
    block_words b = {};
    int64_t at = (int64_t)tile * w.blocks + block;
    const uint4 *sm = (const uint4 *)w.sm + at * (GLYD_BLOCK_SM_WORDS / 4) + lane;
    b.sm0 = load_once(sm);
    b.sm1 = load_once(sm + 32);
    if (CODES)
        b.codes = load_once((const uint4 *)w.codes + at * (GLYD_BLOCK_CODE_WORDS / 4) + lane);
    return b;
}

/* N: streams of a lane, 0 for mma12. */
template <int N>
static __global__ void __launch_bounds__(WARPS * 32, SM_CTAS) unpack_kernel(const unpack_args p)
{
    extern __shared__ __align__(16) uint8_t shared[];
    uint8_t *rows = shared + (N ? STREAM_BYTES : 0) + threadIdx.x / 32 * GLYD_TILE_ROWS * ROW_PITCH;
    stream_parts parts = stream_parts_of(shared);
    uint32_t lookup = 0;
    if constexpr (N > 0)
        lookup = lookup_make(parts.lookup, parts.scratch, table_ask(p.w.table, (int)threadIdx.x),
                             (int)threadIdx.x, WARPS * 32);
    int lane = (int)threadIdx.x % 32;
    int64_t task = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
#if __CUDA_ARCH__ >= 900
    grid_let_next();
#endif
    if (task >= (int64_t)p.tiles * p.runs)
        return;
    if (p.ids)
        wait_to_write(); /* the ids may come from the kernel before */
    int run = (int)(task % p.runs), block = run * p.run_blocks;
    int end = min(block + p.run_blocks, p.w.blocks);
    row_range r = unpack_rows(p, task / p.runs);
    if (r.tile < 0) { /* an id, so it has waited */
        for (; block < end; block++)
            unpack_write(p, r, block, NULL, lane);
        return;
    }
    tile_bases base = bases_of(p.w, r.tile, lane);
    escape_window escapes = escapes_from(p.w, r.tile, block, lane);
    word_ring words = {};
    stream_run<N ? N : 1> streams = {};
    if constexpr (N > 0)
        warp_run_open(&streams, &words, p.w, r.tile, run, parts.rings, lane);
    block_words next = block_load<N == 0>(p.w, r.tile, block, lane);
    wait_to_write();
    for (; block < end; block++) {
        block_words now = next;
        if (block + 1 < end)
            next = block_load<N == 0>(p.w, r.tile, block + 1, lane);
        if constexpr (N > 0) {
            words_keep(&words, streams.next, run_read(streams));
            now.codes = run_block(&streams, words, lookup, block + 1 == end);
        }
        uint32_t a[GLYD_FRAGMENT_REGISTERS];
        fragment_decode(a, now.sm0, now.sm1, now.codes, base);
        escapes_put(p.w, a, &escapes, r.tile, block, lane);
#pragma unroll
        for (int i = 0; i < GLYD_FRAGMENT_REGISTERS; i++) {
            int row = lane / 4 + (i & 1) * 8;
            int word = (i / 4 * GLYD_GROUP_COLS + (i & 2) * 4) / 2 + lane % 4;
            *(uint32_t *)(rows + row * ROW_PITCH + word * 4) = a[i];
        }
        __syncwarp(); /* the rows are there */
        unpack_write(p, r, block, rows, lane);
        __syncwarp(); /* and read */
    }
    if constexpr (N > 0)
        copy_async_wait<0>();
}

template <int N>
static __global__ void __launch_bounds__(WARPS * 32)
    expand_kernel(const packed_arrays w, uint4 *codes)
{
    extern __shared__ __align__(16) uint8_t shared[];
    stream_parts parts = stream_parts_of(shared);
    uint32_t lookup = lookup_make(parts.lookup, parts.scratch, table_ask(w.table, (int)threadIdx.x),
                                  (int)threadIdx.x, WARPS * 32);
    int lane = (int)threadIdx.x % 32, runs = (w.blocks + w.run_blocks - 1) / w.run_blocks;
    int64_t task = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (task >= (int64_t)w.tiles * runs)
        return;
    int tile = (int)(task / runs), run = (int)(task % runs), block = run * w.run_blocks;
    int end = min(block + w.run_blocks, w.blocks);
    word_ring words;
    stream_run<N> streams = {};
    warp_run_open(&streams, &words, w, tile, run, parts.rings, lane);
    uint4 *to = codes + ((int64_t)tile * w.blocks + block) * (GLYD_BLOCK_CODE_WORDS / 4) + lane;
    for (; block < end; block++, to += GLYD_BLOCK_CODE_WORDS / 4) {
        words_keep(&words, streams.next, run_read(streams));
        *to = run_block(&streams, words, lookup, block + 1 == end);
    }
    copy_async_wait<0>();
}

extern "C" glyd_status glyd_k_expand(const glyd_matrix *m, uint8_t *codes, cudaStream_t stream,
                                     glyd_error *err)
{
    packed_arrays w = arrays_of(m, m->array[GLYD_ARRAY_CODES].data);
    int64_t tasks = (int64_t)w.tiles * glyd_runs_of(w.blocks, w.run_blocks);
    auto kernel = glyd_run_streams(w.blocks) == GLYD_LANES ? expand_kernel<1> : expand_kernel<2>;
    kernel<<<(unsigned)((tasks + WARPS - 1) / WARPS), WARPS * 32, STREAM_BYTES, stream>>>(
        w, (uint4 *)codes);
    return cuda_status(cudaGetLastError(), "expand", err);
}

/* Blocks of a warp for mma12: runs that fill whole rounds of the warps that run at once. Starting
 * one costs about as much as two blocks. */
static int plane_run_blocks(int64_t tiles, int blocks, int n_sms)
{
    int64_t warps = (int64_t)n_sms * SM_CTAS * WARPS, best_cost = INT64_MAX;
    int best = RUN_BLOCKS_MIN;
    for (int run = RUN_BLOCKS_MIN; run <= RUN_BLOCKS_MAX; run++) {
        int64_t tasks = tiles * glyd_runs_of(blocks, run);
        int64_t cost = (tasks + warps - 1) / warps * (run + 2);
        if (cost < best_cost) {
            best_cost = cost;
            best = run;
        }
    }
    return best;
}

static glyd_status unpack_launch(const glyd_matrix *m, unpack_args *p, cudaStream_t stream,
                                 glyd_error *err)
{
    bool streams = m->layout == GLYD_LAYOUT_MMA;
    int n_sms, capability;
    GLYD_TRY(device_of("unpack", &n_sms, &capability, err));
    p->w = arrays_of(m, m->array[GLYD_ARRAY_CODES].data);
    p->run_blocks = streams ? m->run_blocks : plane_run_blocks(p->tiles, p->w.blocks, n_sms);
    p->runs = (int)glyd_runs_of(p->w.blocks, p->run_blocks);
    int64_t tasks = (int64_t)p->tiles * p->runs;
    size_t bytes = (size_t)(WARPS * GLYD_TILE_ROWS * ROW_PITCH) + (streams ? STREAM_BYTES : 0);
    auto kernel = unpack_kernel<0>;
    if (streams) {
        kernel = glyd_run_streams(p->w.blocks) == GLYD_LANES ? unpack_kernel<1> : unpack_kernel<2>;
        GLYD_TRY(cuda_status(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
            "unpack", err));
    }
    cudaLaunchAttribute early = launch_early();
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3((unsigned)((tasks + WARPS - 1) / WARPS));
    launch.blockDim = dim3(WARPS * 32);
    launch.dynamicSmemBytes = bytes;
    launch.stream = stream;
    launch.attrs = &early;
    launch.numAttrs = capability >= 90 ? 1 : 0;
    return cuda_status(cudaLaunchKernelEx(&launch, kernel, *p), "unpack", err);
}

extern "C" glyd_status glyd_gpu_unpack(const glyd_matrix *m, int64_t row0, int64_t rows,
                                       uint16_t *bf16, int64_t stride, void *stream,
                                       glyd_error *err)
{
    GLYD_TRY(glyd_gpu_rows_check(m, row0, rows, bf16, stride, err));
    if (rows == 0 || m->cols == 0)
        return GLYD_OK;
    unpack_args p = {};
    p.row0 = row0;
    p.rows = rows;
    p.out = bf16;
    p.stride = stride;
    p.tile0 = (int)(row0 / GLYD_TILE_ROWS);
    p.tiles = (int)(glyd_tiles_of(row0 + rows) - p.tile0);
    return unpack_launch(m, &p, (cudaStream_t)stream, err);
}

extern "C" glyd_status glyd_gpu_embed(const glyd_matrix *m, const int32_t *ids, int64_t n_ids,
                                      uint16_t *out, int64_t stride, void *stream, glyd_error *err)
{
    GLYD_TRY(glyd_gpu_rows_check(m, 0, 0, out, stride, err));
    if (n_ids < 0 || n_ids > GLYD_ROWS_MAX || (n_ids && (!ids || !out)))
        GLYD_FAIL(err, GLYD_E_ARG, "embed: %lld ids at %p", (long long)n_ids, (const void *)ids);
    if (n_ids == 0 || m->cols == 0)
        return GLYD_OK;
    unpack_args p = {};
    p.ids = ids;
    p.rows = n_ids;
    p.out = out;
    p.stride = stride;
    p.tiles = (int)n_ids;
    return unpack_launch(m, &p, (cudaStream_t)stream, err);
}
