/* pack_stream.cuh - one run of layout `mma`, measured and written by a warp.
 *
 * Lane l of the warp has the N streams l and l + 32. It keeps the bits that it has coded, and plays
 * the decoder along (docs/FORMAT.md): when a stream is dealt a word, the word gets its place in the
 * run; it is stored there once the bits to fill it have been coded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_PACK_STREAM_CUH
#define GLYD_CUDA_PACK_STREAM_CUH

#include "codec/format.h"

enum {
    RUN_FIRST_WORDS = 2, /* that each stream is dealt at the start of a run */
    /* Words of a stream that are dealt and not yet filled: 31 bits of the first are, and the
     * decoder then holds 62 + 32 more at most. */
    RUN_WAITING_MAX = 3,
};

/* A stream of the run that is being written. */
typedef struct stream_writer {
    uint64_t coded;                  /* bits not yet stored, */
    int n_coded;                     /* fewer than 32 between steps */
    int held;                        /* bits that the decoder holds */
    uint32_t place[RUN_WAITING_MAX]; /* of the words that wait, the oldest first */
    int waiting;
} stream_writer;

template <int N> struct run_writer {
    uint32_t *words; /* the run's */
    uint32_t next;   /* words dealt, of all streams */
    int step, steps; /* done, and of the run */
    stream_writer of[N];
};

template <int N>
static __device__ __forceinline__ void run_write_open(run_writer<N> *w, uint32_t *words, int blocks,
                                                      int lane)
{
    w->words = words;
    w->next = RUN_FIRST_WORDS * N * GLYD_LANES;
    w->step = 0;
    w->steps = blocks * glyd_block_steps(N * GLYD_LANES);
#pragma unroll
    for (int k = 0; k < N; k++) {
        stream_writer *s = &w->of[k];
        s->coded = 0;
        s->n_coded = 0;
        s->held = RUN_FIRST_WORDS * 32;
        s->waiting = RUN_FIRST_WORDS;
#pragma unroll
        for (int i = 0; i < RUN_WAITING_MAX; i++)
            s->place[i] = (uint32_t)((i * N + k) * GLYD_LANES + lane);
    }
}

/* Whether step `step` of `steps`, which takes `bits`, leaves the decoder of one of `streams` so
 * little that it is dealt a word. */
static __device__ __forceinline__ bool run_deals(int *held, int bits, int step, int steps,
                                                 int streams)
{
    *held -= bits;
    bool deal = step + 1 < steps && *held <= glyd_refill_bits(step, steps, streams);
    *held += deal ? 32 : 0;
    return deal;
}

/* Code `n[k]` bits of each stream, the two pairs of the next step. All lanes of the warp. */
template <int N>
static __device__ __forceinline__ void run_write_step(run_writer<N> *w, const uint32_t *bits,
                                                      const int *n, int lane)
{
#pragma unroll
    for (int k = 0; k < N; k++) {
        stream_writer *s = &w->of[k];
        s->coded |= (uint64_t)bits[k] << s->n_coded;
        s->n_coded += n[k];
        if (s->n_coded >= 32) {
            w->words[s->place[0]] = (uint32_t)s->coded;
            s->coded >>= 32;
            s->n_coded -= 32;
            s->waiting--;
#pragma unroll
            for (int i = 0; i + 1 < RUN_WAITING_MAX; i++)
                s->place[i] = s->place[i + 1];
        }
        bool deal = run_deals(&s->held, n[k], w->step, w->steps, N * GLYD_LANES);
        uint32_t dealt = __ballot_sync(0xffffffffu, deal);
        uint32_t place = w->next + (uint32_t)__popc(dealt & ((1u << lane) - 1));
#pragma unroll
        for (int i = 0; i < RUN_WAITING_MAX; i++)
            s->place[i] = deal && i == s->waiting ? place : s->place[i];
        s->waiting += deal;
        w->next += (uint32_t)__popc(dealt);
    }
    w->step++;
}

/* Store what still waits, and the zeros up to a multiple of GLYD_RUN_ALIGN bytes. */
template <int N> static __device__ __forceinline__ void run_write_close(run_writer<N> *w, int lane)
{
#pragma unroll
    for (int k = 0; k < N; k++) {
#pragma unroll
        for (int i = 0; i < RUN_WAITING_MAX; i++) {
            if (i < w->of[k].waiting)
                w->words[w->of[k].place[i]] = i == 0 ? (uint32_t)w->of[k].coded : 0;
        }
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
