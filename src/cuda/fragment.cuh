/* fragment.cuh - from the arrays of a block to the A registers of m16n8k16.
 *
 * Lane 4g + t of a warp holds, for each k16 group j of a block, registers a[4j + r]: rows g (r
 * even) and g + 8 (r odd). A register is two bf16; their signs and mantissas come from an sm word,
 * their exponents are code + base. docs/FORMAT.md section 1 has the bit tables.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_FRAGMENT_CUH
#define GLYD_CUDA_FRAGMENT_CUH

#include "codec/format.h"
#include "cuda/ptx.cuh"

enum { GLYD_FRAGMENT_REGISTERS = 16 };

/* The arrays of a matrix as kernels take them. */
typedef struct packed_arrays {
    const uint8_t *sm, *codes, *bases;
    const uint32_t *escape_index, *escapes, *entries;
    const uint8_t *table;
    int rows, cols, tiles, blocks, run_blocks;
} packed_arrays;

/* What a lane knows of its tile: the bases of its two rows, in both halves at the exponent. */
typedef struct tile_bases {
    uint32_t low, high; /* rows g and g + 8 */
    uint32_t sm_mask;   /* GLYD_SM_MASK in a register: with a constant, bits_of takes two steps */
} tile_bases;

static __device__ __forceinline__ tile_bases bases_from(uint32_t low, uint32_t high)
{
    tile_bases b = {low * 0x00800080u, high * 0x00800080u, GLYD_SM_MASK};
    keep(b.sm_mask);
    asm volatile("" : "+r"(b.low), "+r"(b.high)); /* the compiler would multiply for each weight */
    return b;
}

static __device__ __forceinline__ tile_bases bases_of(const packed_arrays &m, int tile, int lane)
{
    const uint8_t *bases = m.bases + (int64_t)tile * GLYD_TILE_ROWS + (lane >> 2);
    return bases_from(bases[0], bases[8]);
}

/* a * b + c as one instruction; written out, the product would become a shift and an addition. */
static __device__ __forceinline__ uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("mad.lo.u32 %0,%1,%2,%3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* The bits of `mask` from a, the others from b: one instruction. */
static __device__ __forceinline__ uint32_t bits_of(uint32_t mask, uint32_t a, uint32_t b)
{
    uint32_t d;
    asm("lop3.b32 %0,%1,%2,%3,0xe4;" : "=r"(d) : "r"(a), "r"(b), "r"(mask));
    return d;
}

/* The four registers of a k16 group from the lane's two sm words and its code word. Multiplications
 * stand for left shifts: they go to another pipe than the logic. */
static __device__ __forceinline__ void fragment_group(uint32_t *a, uint32_t first, uint32_t second,
                                                      uint32_t c, tile_bases base)
{
    uint32_t c5 = c >> 5;
    uint32_t first_odd = __byte_perm(first, 0, 0x2301);
    uint32_t second_odd = __byte_perm(second, 0, 0x2301);
    uint32_t e0 = multiply_add(c & 0x000f000fu, 128, base.low);
    uint32_t e1 = multiply_add(c & 0x00f000f0u, 8, base.high);
    uint32_t e2 = multiply_add(c5 & 0x00780078u, 16, base.low);
    uint32_t e3 = (c5 & 0x07800780u) + base.high;
    a[0] = (first & GLYD_SM_MASK) | e0;
    a[1] = (first_odd & GLYD_SM_MASK) | e1;
    a[2] = (second & GLYD_SM_MASK) | e2;
    a[3] = (second_odd & GLYD_SM_MASK) | e3;
}

/* The 16 registers of a block from the lane's 8 sm words and 4 code words. */
static __device__ __forceinline__ void fragment_decode(uint32_t *a, uint4 sm0, uint4 sm1,
                                                       uint4 codes, tile_bases base)
{
    const uint32_t sm[8] = {sm0.x, sm0.y, sm0.z, sm0.w, sm1.x, sm1.y, sm1.z, sm1.w};
    const uint32_t code[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int j = 0; j < GLYD_BLOCK_GROUPS; j++)
        fragment_group(a + 4 * j, sm[2 * j], sm[2 * j + 1], code[j], base);
}

/* The next 32 escapes of a tile, one a lane: ascending, so a block's are a range of lanes. What is
 * rarely needed is read again when it is: registers are short where this is used. */
typedef struct escape_window {
    uint32_t at;   /* this window's first escape */
    uint32_t mine; /* this lane's */
    int block;     /* its block; past the tile's end a number that no block has */
} escape_window;

static __device__ __forceinline__ void escapes_load(const packed_arrays &m, escape_window *w,
                                                    int tile, int lane)
{
    uint32_t i = w->at + (uint32_t)lane;
    bool there = i < m.escape_index[tile + 1];
    w->mine = there ? __ldg(m.escapes + i) : 0;
    w->block = there ? glyd_escape_block(w->mine) : 1 << 30;
}

/* The window at the first escape of a tile whose block is not before `block`. */
static __device__ __forceinline__ escape_window escapes_from(const packed_arrays &m, int tile,
                                                             int block, int lane)
{
    escape_window w;
    w.at = m.escape_index[tile];
    for (;;) {
        escapes_load(m, &w, tile, lane);
        if (!__all_sync(0xffffffffu, w.block < block))
            return w;
        w.at += GLYD_LANES;
    }
}

/* Put one escape's exponent into the register that holds its weight. */
static __device__ __forceinline__ void escape_put(uint32_t *a, uint32_t escape, int lane)
{
    int position = glyd_escape_position(escape);
    if (position >> 5 != lane)
        return;
    int shift = 16 * (position & 1) + 7, at = position >> 1 & 15;
#pragma unroll
    for (int i = 0; i < GLYD_FRAGMENT_REGISTERS; i++) {
        if (i == at)
            a[i] = (a[i] & ~(0xffu << shift)) | (uint32_t)glyd_escape_exponent(escape) << shift;
    }
}

/* Put a block's escapes in place. Blocks of a tile come in ascending order. */
static __device__ __forceinline__ void escapes_put(const packed_arrays &m, uint32_t *a,
                                                   escape_window *w, int tile, int block, int lane)
{
    uint32_t mask = __ballot_sync(0xffffffffu, w->block == block);
    while (mask) {
        bool last = mask >> 31;
        for (; mask; mask &= mask - 1)
            escape_put(a, __shfl_sync(0xffffffffu, w->mine, __ffs((int)mask) - 1), lane);
        if (!last)
            break;
        w->at += GLYD_LANES;
        escapes_load(m, w, tile, lane);
        mask = __ballot_sync(0xffffffffu, w->block == block);
    }
}

#endif
