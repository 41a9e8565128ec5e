/* plan_cache.h - how cuBLAS sums a product, as far as it is known, and a table of what was found.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_PLAN_CACHE_H
#define GLYD_CUDA_PLAN_CACHE_H

#include "codec/format.h"
#include "glyd/glyd_gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct glyd_plan_key {
    int64_t rows, cols, tokens;
    int has_bias;
} glyd_plan_key;

/* An order of sums. Its parts are chains of k16 steps, their sums are added in order.
 *   align > 0    part s is a slice of K: ceil(K / parts) columns, rounded up to `align`
 *   align == 0   part s has the k16 groups s, s + parts, s + 2 parts, ...
 *   parts == 0   none that was tried */
typedef struct glyd_plan_scheme {
    int parts, align;
} glyd_plan_scheme;

/* Columns [*begin, *end) of a part, `*step` from one k16 group to the next. */
GLYD_INLINE void glyd_plan_part(glyd_plan_scheme scheme, int64_t cols, int part, int64_t *begin,
                                int64_t *end, int64_t *step)
{
    if (scheme.align == 0) {
        *begin = 16 * (int64_t)part;
        *end = cols;
        *step = 16 * (int64_t)scheme.parts;
        return;
    }
    int64_t size = (cols + scheme.parts - 1) / scheme.parts;
    size = (size + scheme.align - 1) / scheme.align * scheme.align;
    *begin = part * size;
    *end = *begin + size < cols ? *begin + size : cols;
    *step = 16;
}

/* Whether every part has columns: what does not is the same as a scheme of fewer parts. */
int glyd_plan_scheme_fits(glyd_plan_scheme scheme, int64_t cols);

/* Whether a product of this library can have that order. */
int glyd_plan_scheme_is_plan(glyd_plan_scheme scheme);

/* Scheme i of those that are tried where cuBLAS's heuristic does not tell the order; 0 past the
 * last. */
int glyd_plan_scheme_candidate(int i, glyd_plan_scheme *scheme);

/* A table of schemes by key. Zero-initialise. */
typedef struct glyd_plan_entry {
    glyd_plan_key key;
    glyd_plan_scheme scheme;
} glyd_plan_entry;

typedef struct glyd_plan_cache {
    glyd_plan_entry *slots; /* tokens == 0: free */
    size_t n_slots, n_used; /* n_slots: 0 or a power of two */
} glyd_plan_cache;

void glyd_plan_cache_free(glyd_plan_cache *cache);

/* Returns whether the key is there. */
int glyd_plan_cache_find(const glyd_plan_cache *cache, const glyd_plan_key *key,
                         glyd_plan_scheme *scheme);

/* Add what is not there yet. Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_plan_cache_add(glyd_plan_cache *cache, const glyd_plan_key *key,
                                                glyd_plan_scheme scheme);

#ifdef __cplusplus
}
#endif
#endif
