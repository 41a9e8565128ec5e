/* plan_cache.c - the orders of sums that are tried, and the table of those that were found.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/plan_cache.h"
#include <stdlib.h>

enum { FIRST_SLOTS = 64, INTERLEAVED_MAX = 8 };

/* Besides 64, what slices of cuBLAS might be rounded up to. */
static const int other_aligns[] = {16, 32, 128, 256};

int glyd_plan_scheme_fits(glyd_plan_scheme scheme, int64_t cols)
{
    int64_t begin, end, step;
    if (scheme.parts < 1)
        return 0;
    glyd_plan_part(scheme, cols, scheme.parts - 1, &begin, &end, &step);
    return begin < end;
}

int glyd_plan_scheme_is_plan(glyd_plan_scheme scheme)
{
    return scheme.parts >= 1 && scheme.parts <= GLYD_GPU_SLICES_MAX &&
           (scheme.align == GLYD_BLOCK_COLS || scheme.parts == 1);
}

int glyd_plan_scheme_candidate(int i, glyd_plan_scheme *scheme)
{
    if (i < GLYD_GPU_SLICES_MAX) {
        *scheme = (glyd_plan_scheme){i + 1, GLYD_BLOCK_COLS};
        return 1;
    }
    i -= GLYD_GPU_SLICES_MAX;
    if (i <= INTERLEAVED_MAX - 2) {
        *scheme = (glyd_plan_scheme){i + 2, 0};
        return 1;
    }
    i -= INTERLEAVED_MAX - 1;
    int per = GLYD_GPU_SLICES_MAX - 1, n = (int)(sizeof other_aligns / sizeof *other_aligns);
    if (i >= n * per)
        return 0;
    *scheme = (glyd_plan_scheme){i % per + 2, other_aligns[i / per]};
    return 1;
}

void glyd_plan_cache_free(glyd_plan_cache *cache)
{
    free(cache->slots);
    *cache = (glyd_plan_cache){0};
}

static size_t hash(const glyd_plan_key *key)
{
    uint64_t h = (uint64_t)key->rows * 0x9e3779b97f4a7c15U;
    h = (h ^ h >> 29 ^ (uint64_t)key->cols) * 0xbf58476d1ce4e5b9U;
    h = (h ^ h >> 32 ^ (uint64_t)key->tokens << 1 ^ (uint64_t)(key->has_bias != 0)) *
        0x94d049bb133111ebU;
    return (size_t)(h ^ h >> 31);
}

static int is_same(const glyd_plan_key *a, const glyd_plan_key *b)
{
    return a->rows == b->rows && a->cols == b->cols && a->tokens == b->tokens &&
           !a->has_bias == !b->has_bias;
}

/* The key's slot, or the free one where it belongs. There is always a free one. */
static glyd_plan_entry *slot_of(const glyd_plan_cache *cache, const glyd_plan_key *key)
{
    size_t i = hash(key);
    for (;; i++) {
        glyd_plan_entry *slot = &cache->slots[i & (cache->n_slots - 1)];
        if (slot->key.tokens == 0 || is_same(&slot->key, key))
            return slot;
    }
}

int glyd_plan_cache_find(const glyd_plan_cache *cache, const glyd_plan_key *key,
                         glyd_plan_scheme *scheme)
{
    const glyd_plan_entry *slot = cache->n_slots ? slot_of(cache, key) : NULL;
    if (!slot || slot->key.tokens == 0)
        return 0;
    *scheme = slot->scheme;
    return 1;
}

static glyd_status grow(glyd_plan_cache *cache)
{
    glyd_plan_cache more = {.n_slots = cache->n_slots ? 2 * cache->n_slots : FIRST_SLOTS};
    more.slots = calloc(more.n_slots, sizeof *more.slots);
    if (!more.slots)
        return GLYD_E_NOMEM;
    for (size_t i = 0; i < cache->n_slots; i++) {
        if (cache->slots[i].key.tokens)
            *slot_of(&more, &cache->slots[i].key) = cache->slots[i];
    }
    more.n_used = cache->n_used;
    free(cache->slots);
    *cache = more;
    return GLYD_OK;
}

glyd_status glyd_plan_cache_add(glyd_plan_cache *cache, const glyd_plan_key *key,
                                glyd_plan_scheme scheme)
{
    if (cache->n_used + 1 > cache->n_slots / 2) {
        glyd_status status = grow(cache);
        if (status != GLYD_OK)
            return status;
    }
    glyd_plan_entry *slot = slot_of(cache, key);
    cache->n_used += slot->key.tokens == 0;
    *slot = (glyd_plan_entry){*key, scheme};
    return GLYD_OK;
}
