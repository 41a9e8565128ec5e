/* pack.cu - packing on the GPU: pairs counted, runs measured, arrays written.
 *
 * A warp takes a run of a tile's blocks. It loads a block in fragment order and splits it into sign
 * and mantissa, codes, and a mask of escapes: 32 weights a lane, whose positions in the block
 * follow one another, so that the escapes before a lane's are those of the lanes before.
 *
 * glyd_gpu_pack_survey  bases (pack_bases.cu); mma: pairs, and the code on the host; escapes and
 * words of each run, and where they begin glyd_gpu_pack       everything is written at its place
 *
 * Thread to data   lane 4g + t: rows g and g + 8 of the tile, as A registers of m16n8k16 hold them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/pack_kernels.h"
#include "cuda/pack_stream.cuh"

static constexpr int WARPS = 8;
static constexpr int THREADS = WARPS * 32;
static constexpr int SCAN_THREADS = 1024;
static constexpr uint32_t ALL = 0xffffffffu;
static constexpr int REGISTERS = GLYD_FRAGMENT_REGISTERS;

typedef unsigned long long count64; /* what atomicAdd takes for a uint64_t */

/* The task of a warp: blocks [first, end) of a tile. */
typedef struct pack_run {
    int64_t task, tile;
    int first, end;
    int base[2]; /* of the lane's rows g and g + 8 */
} pack_run;

/* False past the last task. */
static __device__ __forceinline__ bool run_of(const pack_job &job, pack_run *run)
{
    int g = (int)threadIdx.x % 32 / 4;
    run->task = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (run->task >= job.tasks)
        return false;
    run->tile = run->task / job.runs;
    run->first = (int)(run->task % job.runs) * GLYD_RUN_BLOCKS;
    run->end = min(run->first + GLYD_RUN_BLOCKS, job.blocks);
    run->base[0] = job.bases[run->tile * GLYD_TILE_ROWS + g];
    run->base[1] = job.bases[run->tile * GLYD_TILE_ROWS + g + 8];
    return true;
}

/* Two weights of a row, the first one low. Beyond the edge their sign and mantissa are 0 and their
 * exponent is the base. */
static __device__ __forceinline__ uint32_t load_pair(const pack_job &job, int64_t row, int64_t col,
                                                     int base)
{
    const uint16_t *from = job.bf16 + row * job.stride + col;
    uint32_t low = (uint32_t)base << 7, high = low;
    if (job.wide && row < job.rows && col + 1 < job.cols)
        return *(const uint32_t *)from;
    if (row < job.rows && col < job.cols)
        low = from[0];
    if (row < job.rows && col + 1 < job.cols)
        high = from[1];
    return low | high << 16;
}

/* The lane's registers of a block. */
static __device__ __forceinline__ void load_block(uint32_t *a, const pack_job &job,
                                                  const pack_run &run, int block, int lane)
{
#pragma unroll
    for (int i = 0; i < REGISTERS; i++) {
        int64_t row = run.tile * GLYD_TILE_ROWS + lane / 4 + 8 * (i & 1);
        int64_t col =
            (int64_t)block * GLYD_BLOCK_COLS + i / 4 * GLYD_GROUP_COLS + (i & 2) * 4 + lane % 4 * 2;
        a[i] = load_pair(job, row, col, run.base[i & 1]);
    }
}

static __device__ __forceinline__ int exponent_of(uint32_t pair, int half)
{
    return (int)(pair >> (16 * half + 7) & 255);
}

/* The codes of two weights of a row, as a pair: `fill` for escapes. */
static __device__ __forceinline__ uint32_t pair_of(uint32_t weights, int base, int fill)
{
    int first = exponent_of(weights, 0) - base, second = exponent_of(weights, 1) - base;
    first = (unsigned)first < GLYD_WINDOW ? first : fill;
    second = (unsigned)second < GLYD_WINDOW ? second : fill;
    return (uint32_t)(first | second << 4);
}

/* Which of the two weights are escapes when `pair` is written for them: bits 0 and 1. */
static __device__ __forceinline__ uint32_t escapes_of(uint32_t weights, int base, uint32_t pair)
{
    return (uint32_t)(exponent_of(weights, 0) != base + (int)(pair & 15)) |
           (uint32_t)(exponent_of(weights, 1) != base + (int)(pair >> 4)) << 1;
}

/* What a CTA has at hand for layout mma. */
typedef struct pack_shared {
    uint16_t code[GLYD_PAIRS];
    uint8_t bits[GLYD_PAIRS], instead[GLYD_PAIRS];
    int fill;
} pack_shared;

template <bool MMA>
static __device__ __forceinline__ void shared_load(pack_shared *s, const pack_job &job)
{
    if (!MMA)
        return;
    int i = (int)threadIdx.x;
    if (i < GLYD_PAIRS) {
        s->code[i] = job.code->prefix.code[i];
        s->bits[i] = job.code->prefix.bits[i];
        s->instead[i] = job.code->instead[i];
    }
    if (i == 0)
        s->fill = glyd_bases_fill(job.totals->codes[GLYD_BASES_ROUNDS]);
    __syncthreads(); /* it is there */
}

/* The pairs that are written for the lane's registers, and the mask of its escapes by position. */
template <bool MMA>
static __device__ __forceinline__ uint32_t code_block(uint32_t *pair, const uint32_t *a,
                                                      const pack_run &run, const pack_shared &s)
{
    uint32_t escapes = 0;
#pragma unroll
    for (int i = 0; i < REGISTERS; i++) {
        int base = run.base[i & 1];
        pair[i] = pair_of(a[i], base, MMA ? s.fill : 0);
        if (MMA)
            pair[i] = s.instead[pair[i]];
        escapes |= escapes_of(a[i], base, pair[i]) << 2 * i;
    }
    return escapes;
}

/* The bits of step `step` of a block, of each of the lane's N streams, and how many there are. */
template <int N>
static __device__ __forceinline__ void step_bits(uint32_t *bits, int *n, const uint32_t *pair,
                                                 int step, const pack_shared &s)
{
    constexpr int streams = N * GLYD_LANES;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const uint32_t *of = pair + 4 * glyd_step_group(streams, step);
        uint32_t first = of[glyd_step_register(streams, k * GLYD_LANES, step, 0)];
        uint32_t second = of[glyd_step_register(streams, k * GLYD_LANES, step, 1)];
        bits[k] = (uint32_t)s.code[first] | (uint32_t)s.code[second] << s.bits[first];
        n[k] = s.bits[first] + s.bits[second];
    }
}

/* Count the pairs under the chosen bases. */
static __global__ void __launch_bounds__(THREADS) pairs_kernel(pack_job job)
{
    __shared__ uint32_t count[GLYD_PAIRS];
    __shared__ int fill;
    int lane = (int)threadIdx.x % 32;
    static_assert(THREADS == GLYD_PAIRS, "a thread a pair");
    count[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        fill = glyd_bases_fill(job.totals->codes[GLYD_BASES_ROUNDS]);
    __syncthreads(); /* zeros and fill are there */
    pack_run run;
    if (run_of(job, &run)) {
        for (int block = run.first; block < run.end; block++) {
            uint32_t a[REGISTERS];
            load_block(a, job, run, block, lane);
#pragma unroll
            for (int i = 0; i < REGISTERS; i++)
                atomicAdd(&count[pair_of(a[i], run.base[i & 1], fill)], 1u);
        }
    }
    __syncthreads();
    if (count[threadIdx.x])
        atomicAdd((count64 *)&job.totals->pairs[threadIdx.x], (count64)count[threadIdx.x]);
}

/* Each run's escapes and, for mma, units of its words. N: streams of a lane, 0 for mma12. */
template <int N> static __global__ void __launch_bounds__(THREADS) measure_kernel(pack_job job)
{
    constexpr bool MMA = N > 0;
    constexpr int EACH = N ? N : 1, STEPS = 2 * GLYD_BLOCK_GROUPS / EACH;
    __shared__ pack_shared s;
    shared_load<MMA>(&s, job);
    pack_run run;
    if (!run_of(job, &run))
        return;
    int lane = (int)threadIdx.x % 32, held[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++)
        held[k] = 32 * RUN_FIRST_WORDS;
    int step = 0, steps = (run.end - run.first) * STEPS;
    uint32_t escapes = 0, words = RUN_FIRST_WORDS * EACH;
    for (int block = run.first; block < run.end; block++) {
        uint32_t a[REGISTERS], pair[REGISTERS];
        load_block(a, job, run, block, lane);
        escapes += (uint32_t)__popc(code_block<MMA>(pair, a, run, s));
        if constexpr (MMA) {
#pragma unroll
            for (int i = 0; i < STEPS; i++, step++) {
                uint32_t bits[EACH];
                int n[EACH];
                step_bits<EACH>(bits, n, pair, i, s);
#pragma unroll
                for (int k = 0; k < EACH; k++)
                    words += run_deals(&held[k], n[k], step, steps, EACH * GLYD_LANES) ? 1 : 0;
            }
        }
    }
    escapes = __reduce_add_sync(ALL, escapes);
    words = __reduce_add_sync(ALL, words);
    if (lane == 0) {
        job.escapes[run.task] = escapes;
        if (MMA)
            job.units[run.task] = run_units(words);
    }
}

/* Add up v over the CTA's threads, those after this one left out; *sum gets all of them. */
static __device__ __forceinline__ count64 scan(count64 v, count64 *shared, count64 *sum)
{
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int i = 1; i < 32; i *= 2) {
        count64 before = __shfl_up_sync(ALL, v, i);
        v += lane >= i ? before : 0;
    }
    __syncthreads(); /* the last sums have been read */
    if (lane == 31)
        shared[warp] = v;
    __syncthreads();
    count64 all = 0;
    for (int w = 0; w < SCAN_THREADS / 32; w++) {
        v += w < warp ? shared[w] : 0;
        all += shared[w];
    }
    *sum = all;
    return v;
}

/* Turn n counts into the sums of those before each, and write the sum of all behind them. */
static __global__ void __launch_bounds__(SCAN_THREADS)
    scan_kernel(uint32_t *counts, int64_t n, uint64_t *total)
{
    __shared__ count64 shared[SCAN_THREADS / 32];
    count64 before = 0;
    for (int64_t at = 0; at < n; at += SCAN_THREADS) {
        int64_t i = at + threadIdx.x;
        count64 mine = i < n ? counts[i] : 0, sum;
        count64 up_to = scan(mine, shared, &sum);
        if (i < n)
            counts[i] = (uint32_t)(before + up_to - mine);
        before += sum;
    }
    if (threadIdx.x == 0) {
        counts[n] = (uint32_t)before;
        if (total)
            *total = before;
    }
}

/* Where the arrays go. */
typedef struct pack_out {
    uint4 *sm;
    uint8_t *codes;
    uint32_t *escape_index, *escapes, *entries;
    uint64_t codes_bytes, escapes_bytes; /* what the data decide */
} pack_out;

/* Whether the caller's arrays hold what the task writes of its own size. */
static __device__ __forceinline__ bool out_fits(const pack_out &out, const pack_job &job,
                                                int64_t task, bool mma)
{
    bool fits = (uint64_t)job.escapes[task + 1] * 4 <= out.escapes_bytes;
    if (mma)
        fits = fits && (uint64_t)job.units[task + 1] * GLYD_RUN_ALIGN <= out.codes_bytes;
    return fits;
}

static __device__ __forceinline__ void write_sm(uint4 *sm, const uint32_t *a, int lane)
{
    uint32_t word[REGISTERS / 2];
#pragma unroll
    for (int i = 0; i < REGISTERS / 2; i++)
        word[i] = (a[2 * i] & GLYD_SM_MASK) | __byte_perm(a[2 * i + 1] & GLYD_SM_MASK, 0, 0x2301);
    sm[lane] = make_uint4(word[0], word[1], word[2], word[3]);
    sm[lane + 32] = make_uint4(word[4], word[5], word[6], word[7]);
}

static __device__ __forceinline__ uint4 code_words(const uint32_t *pair)
{
    uint32_t word[GLYD_BLOCK_GROUPS] = {};
#pragma unroll
    for (int i = 0; i < REGISTERS; i++)
        word[i / 4] |= ((pair[i] & 15) | (pair[i] >> 4) << 16) << i % 4 * 4;
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Append a block's escapes from `to` on. Returns where the next block's begin. */
static __device__ __forceinline__ uint32_t *write_escapes(uint32_t *to, const uint32_t *a,
                                                          uint32_t escapes, int block, int lane)
{
    if (!__any_sync(ALL, escapes != 0))
        return to;
    uint32_t mine = (uint32_t)__popc(escapes), up_to = mine;
    for (int i = 1; i < 32; i *= 2) {
        uint32_t before = __shfl_up_sync(ALL, up_to, i);
        up_to += lane >= i ? before : 0;
    }
    uint32_t *at = to + (up_to - mine);
#pragma unroll
    for (int i = 0; i < 2 * REGISTERS; i++) {
        if (escapes >> i & 1)
            *at++ = glyd_escape_make(block, lane << 5 | i, exponent_of(a[i / 2], i & 1));
    }
    return to + __shfl_sync(ALL, up_to, 31);
}

/* The last task writes what ends the lists, too. */
static __device__ __forceinline__ void write_index(const pack_out &out, const pack_job &job,
                                                   const pack_run &run, bool mma)
{
    if (run.first == 0)
        out.escape_index[run.tile] = job.escapes[run.task];
    if (mma)
        out.entries[run.task] = job.units[run.task];
    if (run.task + 1 == job.tasks) {
        out.escape_index[run.tile + 1] = job.escapes[job.tasks];
        if (mma)
            out.entries[job.tasks] = job.units[job.tasks];
    }
}

template <int N>
static __global__ void __launch_bounds__(THREADS) write_kernel(pack_job job, pack_out out)
{
    constexpr bool MMA = N > 0;
    constexpr int EACH = N ? N : 1, STEPS = 2 * GLYD_BLOCK_GROUPS / EACH;
    __shared__ pack_shared s;
    shared_load<MMA>(&s, job);
    pack_run run;
    if (!run_of(job, &run) || !out_fits(out, job, run.task, MMA))
        return;
    int lane = (int)threadIdx.x % 32;
    if (lane == 0)
        write_index(out, job, run, MMA);
    uint32_t *escape = out.escapes + job.escapes[run.task];
    run_writer<EACH> writer;
    if constexpr (MMA) {
        uint8_t *stream = out.codes + (int64_t)job.units[run.task] * GLYD_RUN_ALIGN;
        run_write_open(&writer, (uint32_t *)stream, run.end - run.first, lane);
    }
    for (int block = run.first; block < run.end; block++) {
        int64_t at = run.tile * job.blocks + block;
        uint32_t a[REGISTERS], pair[REGISTERS];
        load_block(a, job, run, block, lane);
        uint32_t escapes = code_block<MMA>(pair, a, run, s);
        write_sm(out.sm + at * (GLYD_BLOCK_SM_WORDS / 4), a, lane);
        if constexpr (MMA) {
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                uint32_t bits[EACH];
                int n[EACH];
                step_bits<EACH>(bits, n, pair, i, s);
                run_write_step(&writer, bits, n, lane);
            }
        } else {
            uint4 *codes = (uint4 *)out.codes + at * (GLYD_BLOCK_CODE_WORDS / 4);
            codes[lane] = code_words(pair);
        }
        escape = write_escapes(escape, a, escapes, block, lane);
    }
    if constexpr (MMA)
        run_write_close(&writer, lane);
}

static pack_job job_of(const glyd_gpu_pack_args *args)
{
    glyd_pack_places p = glyd_gpu_pack_places(args->layout, args->rows, args->cols);
    uint8_t *at = (uint8_t *)args->workspace;
    pack_job job = {};
    job.bf16 = args->bf16;
    job.rows = args->rows;
    job.cols = args->cols;
    job.stride = args->stride;
    job.blocks = (int)glyd_blocks_of(args->cols);
    job.runs = (int)glyd_runs_of(job.blocks, GLYD_RUN_BLOCKS);
    job.tasks = glyd_tiles_of(args->rows) * job.runs;
    job.wide = (uintptr_t)args->bf16 % 4 == 0 && args->stride % 2 == 0;
    job.totals = (glyd_pack_totals *)(at + p.totals);
    job.code = (glyd_pack_code *)(at + p.code);
    job.bases = at + p.bases;
    job.surveys = (glyd_survey *)(at + p.surveys);
    job.escapes = (uint32_t *)(at + p.escapes);
    job.units = (uint32_t *)(at + p.units);
    return job;
}

/* Fetch what has been counted so far: waits for the stream. */
static glyd_status fetch_totals(const pack_job &job, glyd_pack_totals *totals, cudaStream_t stream,
                                glyd_error *err)
{
    GLYD_TRY(cuda_status(
        cudaMemcpyAsync(totals, job.totals, sizeof *totals, cudaMemcpyDeviceToHost, stream), "pack",
        err));
    return cuda_status(cudaStreamSynchronize(stream), "pack", err);
}

static unsigned grid_of(const pack_job &job)
{
    return (unsigned)((job.tasks + WARPS - 1) / WARPS);
}

/* Whether a lane has two streams. */
static bool is_wide(const pack_job &job)
{
    return glyd_run_streams(job.blocks) == GLYD_STREAMS_MAX;
}

/* Where the escapes and words of each run begin. */
static glyd_status measure(const pack_job &job, bool mma, cudaStream_t stream, glyd_error *err)
{
    if (mma) {
        auto kernel = is_wide(job) ? measure_kernel<2> : measure_kernel<1>;
        kernel<<<grid_of(job), THREADS, 0, stream>>>(job);
        scan_kernel<<<1, SCAN_THREADS, 0, stream>>>(job.units, job.tasks, &job.totals->units);
    } else {
        measure_kernel<0><<<grid_of(job), THREADS, 0, stream>>>(job);
    }
    scan_kernel<<<1, SCAN_THREADS, 0, stream>>>(job.escapes, job.tasks, NULL);
    return cuda_status(cudaGetLastError(), "pack", err);
}

extern "C" glyd_status glyd_gpu_pack_survey(const glyd_gpu_pack_args *args, void *stream,
                                            glyd_matrix *m, glyd_error *err)
{
    GLYD_TRY(glyd_gpu_pack_check(args, NULL, err));
    if (!m)
        GLYD_FAIL(err, GLYD_E_ARG, "pack: no matrix to fill");
    bool mma = args->layout == GLYD_LAYOUT_MMA;
    cudaStream_t on = (cudaStream_t)stream;
    pack_job job = job_of(args);
    glyd_pack_totals totals;
    glyd_pack_code code;
    GLYD_TRY(glyd_k_pack_bases(&job, mma, on, err));
    if (mma)
        pairs_kernel<<<grid_of(job), THREADS, 0, on>>>(job);
    GLYD_TRY(cuda_status(cudaGetLastError(), "pack", err));
    GLYD_TRY(fetch_totals(job, &totals, on, err));
    glyd_matrix planned;
    glyd_gpu_pack_choose(args->layout, args->rows, args->cols, &totals, &code, &planned);
    if (planned.layout != GLYD_LAYOUT_BF16) {
        if (mma)
            GLYD_TRY(cuda_status(
                cudaMemcpyAsync(job.code, &code, sizeof code, cudaMemcpyHostToDevice, on), "pack",
                err));
        GLYD_TRY(measure(job, mma, on, err));
        if (mma)
            GLYD_TRY(fetch_totals(job, &totals, on, err));
        glyd_gpu_pack_close(&totals, &planned);
    }
    *m = planned;
    return GLYD_OK;
}

/* Zero the end of an array: what no kernel writes of it. */
static glyd_status zero_end(const glyd_matrix *m, glyd_array array, cudaStream_t stream,
                            glyd_error *err)
{
    size_t bytes = m->array[array].bytes, most = GLYD_ARRAY_ALIGN;
    size_t n = bytes < most ? bytes : most;
    if (!bytes)
        return GLYD_OK;
    uint8_t *end = (uint8_t *)m->array[array].data + bytes;
    return cuda_status(cudaMemsetAsync(end - n, 0, n, stream), "pack", err);
}

extern "C" glyd_status glyd_gpu_pack(const glyd_gpu_pack_args *args, const glyd_matrix *m,
                                     void *stream, glyd_error *err)
{
    if (!m)
        GLYD_FAIL(err, GLYD_E_ARG, "pack: no matrix to write");
    GLYD_TRY(glyd_gpu_pack_check(args, m, err));
    cudaStream_t on = (cudaStream_t)stream;
    pack_job job = job_of(args);
    uint8_t *at[GLYD_ARRAYS];
    for (int i = 0; i < GLYD_ARRAYS; i++)
        at[i] = (uint8_t *)m->array[i].data;
    if (m->layout == GLYD_LAYOUT_BF16)
        return cuda_status(cudaMemcpy2DAsync(at[GLYD_ARRAY_SM], (size_t)args->cols * 2, args->bf16,
                                             (size_t)args->stride * 2, (size_t)args->cols * 2,
                                             (size_t)args->rows, cudaMemcpyDeviceToDevice, on),
                           "pack", err);
    const glyd_array padded[] = {GLYD_ARRAY_ESCAPE_INDEX, GLYD_ARRAY_ESCAPES, GLYD_ARRAY_ENTRIES,
                                 GLYD_ARRAY_CODES};
    for (int i = 0; i < 4; i++)
        GLYD_TRY(zero_end(m, padded[i], on, err));
    GLYD_TRY(
        cuda_status(cudaMemcpyAsync(at[GLYD_ARRAY_BASES], job.bases,
                                    m->array[GLYD_ARRAY_BASES].bytes, cudaMemcpyDeviceToDevice, on),
                    "pack", err));
    pack_out out = {};
    out.sm = (uint4 *)at[GLYD_ARRAY_SM];
    out.codes = at[GLYD_ARRAY_CODES];
    out.escape_index = (uint32_t *)at[GLYD_ARRAY_ESCAPE_INDEX];
    out.escapes = (uint32_t *)at[GLYD_ARRAY_ESCAPES];
    out.entries = (uint32_t *)at[GLYD_ARRAY_ENTRIES];
    out.codes_bytes = m->array[GLYD_ARRAY_CODES].bytes;
    out.escapes_bytes = m->array[GLYD_ARRAY_ESCAPES].bytes;
    if (m->layout == GLYD_LAYOUT_MMA) {
        GLYD_TRY(cuda_status(cudaMemcpyAsync(at[GLYD_ARRAY_TABLE], job.code->table,
                                             GLYD_TABLE_BYTES, cudaMemcpyDeviceToDevice, on),
                             "pack", err));
        auto kernel = is_wide(job) ? write_kernel<2> : write_kernel<1>;
        kernel<<<grid_of(job), THREADS, 0, on>>>(job, out);
    } else {
        write_kernel<0><<<grid_of(job), THREADS, 0, on>>>(job, out);
    }
    return cuda_status(cudaGetLastError(), "pack", err);
}
