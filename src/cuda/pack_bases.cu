/* pack_bases.cu - packing on the GPU, the rows: surveys and bases, as src/codec/bases.c chooses
 * them.
 *
 * A CTA surveys a row: its exponents are counted in shared memory, and each of the 241 windows is
 * summed by a thread. mma12 takes the fullest window. For mma all rows are then lined up in rounds,
 * a kernel each; a warp has a row, lane i of it the survey's bin i and window i. Rounds after the
 * one that changes nothing change nothing either, so that all of them are run and none is waited
 * for.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/pack_kernels.h"

static constexpr int THREADS = 256;
static constexpr int WARPS = THREADS / 32;
static constexpr int EXPONENTS = 256;
static constexpr int WINDOWS = EXPONENTS - GLYD_WINDOW + 1;
static constexpr int ROUND_CTAS = 1024; /* at most: each adds its counts to the totals once */
static constexpr uint32_t ALL = 0xffffffffu;

typedef unsigned long long count64; /* what atomicAdd takes for a uint64_t */

/* The fullest of the windows over count[256], the lowest of those, as in_window << 8 | 255 - base.
 * All threads of the CTA. */
template <typename T>
static __device__ __forceinline__ count64 fullest_window(const T *count, count64 *fullest)
{
    int window = (int)threadIdx.x;
    if (window == 0)
        *fullest = 0;
    __syncthreads(); /* the counts and the zero are there */
    if (window < WINDOWS) {
        count64 sum = 0;
        for (int i = 0; i < GLYD_WINDOW; i++)
            sum += count[window + i];
        atomicMax(fullest, sum << 8 | (count64)(255 - window));
    }
    __syncthreads();
    return *fullest;
}

static __device__ __forceinline__ int clamped(int v, int low, int high)
{
    return min(max(v, low), high);
}

template <bool MMA> static __global__ void __launch_bounds__(THREADS) survey_kernel(pack_job job)
{
    __shared__ uint32_t count[EXPONENTS];
    __shared__ count64 fullest;
    int thread = (int)threadIdx.x;
    const uint16_t *row = job.bf16 + (int64_t)blockIdx.x * job.stride;
    count[thread] = 0;
    __syncthreads();
    for (int64_t c = thread; c < job.cols; c += THREADS)
        atomicAdd(&count[row[c] >> 7 & 255], 1u);
    __syncthreads();
    count64 best = fullest_window(count, &fullest);
    int base = 255 - (int)(best & 255);
    if constexpr (MMA) {
        if (thread >= GLYD_SURVEY_BINS)
            return;
        /* The bins reach 8 to either side of the window that holds most. */
        int origin =
            clamped(base - (GLYD_SURVEY_BINS - GLYD_WINDOW) / 2, 0, GLYD_SURVEY_ORIGIN_MAX);
        uint32_t mine = count[origin + thread], inside = __reduce_add_sync(ALL, mine);
        glyd_survey *survey = job.surveys + blockIdx.x;
        survey->count[thread] = mine;
        if (thread == 0) {
            survey->outside = (uint32_t)job.cols - inside;
            survey->origin = (uint8_t)origin;
        }
    } else if (thread == 0) {
        job.bases[blockIdx.x] = (uint8_t)base;
        atomicAdd((count64 *)&job.totals->in_window, best >> 8);
    }
}

/* Add up the exponents of all surveys. */
static __global__ void __launch_bounds__(THREADS) exponents_kernel(pack_job job)
{
    __shared__ count64 count[EXPONENTS];
    int lane = (int)threadIdx.x % 32;
    count[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; r < job.rows;
         r += (int64_t)gridDim.x * WARPS)
        atomicAdd(&count[job.surveys[r].origin + lane], (count64)job.surveys[r].count[lane]);
    __syncthreads();
    if (count[threadIdx.x])
        atomicAdd((count64 *)&job.totals->exponents[threadIdx.x], count[threadIdx.x]);
}

/* The cheapest window of the survey whose bin `lane` holds `mine`: 0 to 16. */
static __device__ __forceinline__ int cheapest_window(uint32_t mine, uint32_t outside,
                                                      const uint32_t *cost, int lane)
{
    const int last = GLYD_SURVEY_BINS - GLYD_WINDOW;
    int window = min(lane, last);
    uint64_t sum = 0;
    uint32_t inside = 0, all = __reduce_add_sync(ALL, mine);
    for (int code = 0; code < GLYD_WINDOW; code++) {
        uint32_t n = __shfl_sync(ALL, mine, window + code);
        sum += (uint64_t)n * cost[code];
        inside += n;
    }
    sum += (uint64_t)(outside + all - inside) * cost[GLYD_WINDOW];
    uint64_t best = sum << 8 | (uint64_t)window; /* a row's cost has 36 bits at most */
    for (int i = 16; i > 0; i /= 2) {
        uint64_t other = __shfl_xor_sync(ALL, best, i);
        best = other < best ? other : best;
    }
    return (int)(best & 255);
}

/* Choose every row's base anew and count the codes under it: round 0 from the one base that leaves
 * fewest escapes in all, the others from the costs that the round before leaves. */
static __global__ void __launch_bounds__(THREADS) round_kernel(pack_job job, int round)
{
    __shared__ uint32_t cost[GLYD_WINDOW + 1];
    __shared__ count64 fullest, count[GLYD_WINDOW];
    int lane = (int)threadIdx.x % 32, common = 0;
    if (threadIdx.x < GLYD_WINDOW)
        count[threadIdx.x] = 0;
    if (round == 0)
        common = 255 - (int)(fullest_window(job.totals->exponents, &fullest) & 255);
    else if (threadIdx.x == 0)
        glyd_bases_cost(job.totals->codes[round - 1], cost);
    __syncthreads(); /* costs and zeros are there */
    count64 sum = 0;
    for (int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; r < job.rows;
         r += (int64_t)gridDim.x * WARPS) {
        const glyd_survey *survey = job.surveys + r;
        uint32_t mine = survey->count[lane];
        int window = clamped(common - survey->origin, 0, GLYD_SURVEY_BINS - GLYD_WINDOW);
        if (round > 0)
            window = cheapest_window(mine, survey->outside, cost, lane);
        uint32_t n = __shfl_sync(ALL, mine, (window + lane) % GLYD_SURVEY_BINS);
        sum += lane < GLYD_WINDOW ? n : 0;
        if (lane == 0)
            job.bases[r] = (uint8_t)(survey->origin + window);
    }
    if (lane < GLYD_WINDOW)
        atomicAdd(&count[lane], sum);
    __syncthreads();
    if (threadIdx.x < GLYD_WINDOW)
        atomicAdd((count64 *)&job.totals->codes[round][threadIdx.x], count[threadIdx.x]);
}

glyd_status glyd_k_pack_bases(const pack_job *job, bool mma, cudaStream_t stream, glyd_error *err)
{
    size_t bytes = (size_t)glyd_pad_bytes(glyd_tiles_of(job->rows) * GLYD_TILE_ROWS);
    GLYD_TRY(
        cuda_status(cudaMemsetAsync(job->totals, 0, sizeof *job->totals, stream), "pack", err));
    GLYD_TRY(cuda_status(cudaMemsetAsync(job->bases, 0, bytes, stream), "pack", err));
    if (!mma) {
        survey_kernel<false><<<(unsigned)job->rows, THREADS, 0, stream>>>(*job);
        return cuda_status(cudaGetLastError(), "pack", err);
    }
    int64_t ctas = (job->rows + WARPS - 1) / WARPS;
    unsigned grid = (unsigned)(ctas < ROUND_CTAS ? ctas : ROUND_CTAS);
    survey_kernel<true><<<(unsigned)job->rows, THREADS, 0, stream>>>(*job);
    exponents_kernel<<<grid, THREADS, 0, stream>>>(*job);
    for (int round = 0; round <= GLYD_BASES_ROUNDS; round++)
        round_kernel<<<grid, THREADS, 0, stream>>>(*job, round);
    return cuda_status(cudaGetLastError(), "pack", err);
}
