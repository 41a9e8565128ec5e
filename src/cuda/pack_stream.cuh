/* pack_stream.cuh - one run of layout `mma`, measured and written by a warp.
 *
 * Lane l of the warp is lane l of the run. It keeps the bits that it has coded, and plays the
 * decoder's buffer along (docs/FORMAT.md): when that is dealt a word, the word gets its place in
 * the run; it is stored there once the bits to fill it have been coded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_PACK_STREAM_CUH
#define GLYD_CUDA_PACK_STREAM_CUH

#include "codec/format.h"

static constexpr int RUN_WAITING_MAX = 2; /* words of a lane that are dealt and not yet filled */

/* Words that each lane is dealt at the start of a run. */
static __device__ __forceinline__ int run_first_words(int blocks)
{
    (void)blocks;
    return 2;
}

/* After step `step` of a run's `steps`, lanes that hold so many bits or fewer are dealt a word. */
static __device__ __forceinline__ int run_refill_bits(int step, int steps)
{
    return step + 2 == steps ? GLYD_REFILL_LAST_BITS : GLYD_REFILL_BITS;
}

/* A lane's part of the run that is being written. */
typedef struct run_writer {
    uint32_t *words;                 /* the run's */
    uint32_t next;                   /* words dealt, of all lanes */
    uint64_t coded;                  /* bits not yet stored, */
    int n_coded;                     /* fewer than 32 between steps */
    int in_buffer;                   /* of the decoder */
    int step, steps;                 /* done, and of the run */
    uint32_t place[RUN_WAITING_MAX]; /* of the words that wait, the oldest first */
    int waiting;
} run_writer;

static __device__ __forceinline__ void run_write_open(run_writer *w, uint32_t *words, int blocks,
                                                      int lane)
{
    w->words = words;
    w->next = (uint32_t)(run_first_words(blocks) * GLYD_LANES);
    w->coded = 0;
    w->n_coded = 0;
    w->in_buffer = run_first_words(blocks) * 32;
    w->step = 0;
    w->steps = blocks * GLYD_BLOCK_STEPS;
    w->waiting = run_first_words(blocks);
#pragma unroll
    for (int i = 0; i < RUN_WAITING_MAX; i++)
        w->place[i] = (uint32_t)(i * GLYD_LANES + lane);
}

/* Whether step `step` of `steps`, which takes `bits`, leaves the decoder's buffer so low that the
 * lane is dealt a word. */
static __device__ __forceinline__ bool run_deals(int *in_buffer, int bits, int step, int steps)
{
    *in_buffer -= bits;
    bool deal = step + 1 < steps && *in_buffer <= run_refill_bits(step, steps);
    *in_buffer += deal ? 32 : 0;
    return deal;
}

/* Code `n` bits, the two pairs of the next step. All lanes of the warp. */
static __device__ __forceinline__ void run_write_step(run_writer *w, uint32_t bits, int n, int lane)
{
    w->coded |= (uint64_t)bits << w->n_coded;
    w->n_coded += n;
    if (w->n_coded >= 32) {
        w->words[w->place[0]] = (uint32_t)w->coded;
        w->coded >>= 32;
        w->n_coded -= 32;
        w->waiting--;
#pragma unroll
        for (int i = 0; i + 1 < RUN_WAITING_MAX; i++)
            w->place[i] = w->place[i + 1];
    }
    bool deal = run_deals(&w->in_buffer, n, w->step++, w->steps);
    uint32_t dealt = __ballot_sync(0xffffffffu, deal);
    uint32_t place = w->next + (uint32_t)__popc(dealt & ((1u << lane) - 1));
#pragma unroll
    for (int i = 0; i < RUN_WAITING_MAX; i++)
        w->place[i] = deal && i == w->waiting ? place : w->place[i];
    w->waiting += deal;
    w->next += (uint32_t)__popc(dealt);
}

/* Store what still waits, and the zeros up to a multiple of GLYD_RUN_ALIGN bytes. */
static __device__ __forceinline__ void run_write_close(run_writer *w, int lane)
{
#pragma unroll
    for (int i = 0; i < RUN_WAITING_MAX; i++) {
        if (i < w->waiting)
            w->words[w->place[i]] = i == 0 ? (uint32_t)w->coded : 0;
    }
    if (lane < (int)(-w->next % (GLYD_RUN_ALIGN / 4)))
        w->words[w->next + (uint32_t)lane] = 0;
}

/* Units of GLYD_RUN_ALIGN bytes of a run with so many words. */
static __device__ __forceinline__ uint32_t run_units(uint32_t words)
{
    return (words + GLYD_RUN_ALIGN / 4 - 1) / (GLYD_RUN_ALIGN / 4);
}

#endif
