/* pack_stream.cuh - one run of layout `mma`, measured and written by a warp.
 *
 * Lane l of the warp is lane l of the run. It keeps the bits that it has coded, and plays the
 * decoder's buffer along (docs/FORMAT.md): when that is dealt a word, the word gets its place in
 * the run; it is stored there once the bits to fill it have been coded. At most two places wait.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_PACK_STREAM_CUH
#define GLYD_CUDA_PACK_STREAM_CUH

#include "codec/format.h"

/* A lane's part of the run that is being written. */
typedef struct run_writer {
    uint32_t *words;   /* the run's */
    uint32_t next;     /* words dealt, of all lanes */
    uint64_t coded;    /* bits not yet stored, */
    int n_coded;       /* fewer than 32 between steps */
    int in_buffer;     /* of the decoder */
    uint32_t place[2]; /* of the words that wait, the older first */
    int waiting;
} run_writer;

static __device__ __forceinline__ void run_write_open(run_writer *w, uint32_t *words, int lane)
{
    w->words = words;
    w->next = 2 * GLYD_LANES;
    w->coded = 0;
    w->n_coded = 0;
    w->in_buffer = 64;
    w->place[0] = (uint32_t)lane;
    w->place[1] = (uint32_t)(GLYD_LANES + lane);
    w->waiting = 2;
}

/* Whether a step that takes `bits` leaves the decoder's buffer so low that a word is dealt; `after`
 * steps of the run follow it. */
static __device__ __forceinline__ bool run_deals(int *in_buffer, int bits, int after)
{
    *in_buffer -= bits;
    bool deal = after > 0 && *in_buffer <= (after == 1 ? GLYD_REFILL_LAST_BITS : GLYD_REFILL_BITS);
    *in_buffer += deal ? 32 : 0;
    return deal;
}

/* Code `n` bits, the two pairs of a step. All lanes of the warp. */
static __device__ __forceinline__ void run_write_step(run_writer *w, uint32_t bits, int n,
                                                      int after, int lane)
{
    w->coded |= (uint64_t)bits << w->n_coded;
    w->n_coded += n;
    if (w->n_coded >= 32) {
        w->words[w->place[0]] = (uint32_t)w->coded;
        w->coded >>= 32;
        w->n_coded -= 32;
        w->place[0] = w->place[1];
        w->waiting--;
    }
    bool deal = run_deals(&w->in_buffer, n, after);
    uint32_t dealt = __ballot_sync(0xffffffffu, deal);
    if (deal) {
        uint32_t place = w->next + (uint32_t)__popc(dealt & ((1u << lane) - 1));
        if (w->waiting == 0)
            w->place[0] = place;
        else
            w->place[1] = place;
        w->waiting++;
    }
    w->next += (uint32_t)__popc(dealt);
}

/* Store what still waits, and the zeros up to a multiple of GLYD_RUN_ALIGN bytes. */
static __device__ __forceinline__ void run_write_close(run_writer *w, int lane)
{
    if (w->waiting > 0)
        w->words[w->place[0]] = (uint32_t)w->coded;
    if (w->waiting > 1)
        w->words[w->place[1]] = 0;
    if (lane < (int)(-w->next % (GLYD_RUN_ALIGN / 4)))
        w->words[w->next + (uint32_t)lane] = 0;
}

/* Units of GLYD_RUN_ALIGN bytes of a run with so many words. */
static __device__ __forceinline__ uint32_t run_units(uint32_t words)
{
    return (words + GLYD_RUN_ALIGN / 4 - 1) / (GLYD_RUN_ALIGN / 4);
}

#endif
