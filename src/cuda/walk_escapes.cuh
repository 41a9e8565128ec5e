/* walk_escapes.cuh - escapes where warps wait for each other at each block (linear_walk.cu).
 *
 * What one warp is late, a warpgroup is. So all lanes of a warp know its tile's next escape, and
 * what it does to their registers, long before its block comes: a comparison says whether it is
 * there, and 16 predicated instructions put it in place.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_WALK_ESCAPES_CUH
#define GLYD_CUDA_WALK_ESCAPES_CUH

#include "cuda/fragment.cuh"

typedef struct walk_escape {
    const uint32_t *escapes;
    uint32_t end;           /* the tile's escapes end before this one */
    uint32_t at;            /* this lane's: index, and */
    uint32_t mine;          /* the escape; 32 neighbours are a window */
    int next;               /* the lane that has the escape after the next one */
    int block;              /* the next one's; past the tile's end a number that no block has */
    uint32_t others, value; /* bits of the register that stay, and those that replace the others */
    uint32_t place;         /* a bit of 16: which register */
} walk_escape;

static __device__ __forceinline__ void walk_escape_load(walk_escape *e)
{
    e->mine = e->at < e->end ? __ldg(e->escapes + e->at) : 0;
}

/* Make the escape of lane `next` the next one. */
static __device__ __forceinline__ void walk_escape_advance(walk_escape *e, int lane)
{
    if (e->next == GLYD_LANES) {
        e->next = 0;
        e->at += GLYD_LANES;
        walk_escape_load(e);
    }
    uint32_t escape = __shfl_sync(0xffffffffu, e->mine, e->next);
    bool there = e->at - (uint32_t)lane + (uint32_t)e->next < e->end;
    int position = glyd_escape_position(escape), shift = 16 * (position & 1) + 7;
    bool here = position >> 5 == lane;
    e->block = there ? glyd_escape_block(escape) : 1 << 30;
    e->others = here ? ~(0xffu << shift) : ~0u;
    e->value = here ? (uint32_t)glyd_escape_exponent(escape) << shift : 0;
    e->place = 1u << (position >> 1 & 15);
    e->next++;
}

/* The first of a tile's escapes [begin, end) whose block is not before `block`. */
static __device__ __forceinline__ walk_escape walk_escape_first(const packed_arrays &m,
                                                                uint32_t begin, uint32_t end,
                                                                int block, int lane)
{
    walk_escape e;
    e.escapes = m.escapes;
    e.end = end;
    e.at = begin + (uint32_t)lane;
    uint32_t ready;
    for (;; e.at += GLYD_LANES) {
        walk_escape_load(&e);
        bool before = e.at < e.end && glyd_escape_block(e.mine) < block;
        ready = __ballot_sync(0xffffffffu, !before);
        if (ready)
            break;
    }
    e.next = __ffs((int)ready) - 1;
    walk_escape_advance(&e, lane);
    return e;
}

/* Put the next escape into its block, `a`, and go on to the one after. */
static __device__ __forceinline__ void walk_escape_put(walk_escape *e, uint32_t *a, int lane)
{
#pragma unroll
    for (int i = 0; i < GLYD_FRAGMENT_REGISTERS; i++) {
        if (e->place >> i & 1)
            a[i] = (a[i] & e->others) | e->value;
    }
    walk_escape_advance(e, lane);
}

#endif
