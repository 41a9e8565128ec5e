/* kv.c - the pages of the KV cache, and the prefix cache over them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/kv.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

/* --- the pool --- */

static int buckets_for(int n_pages)
{
    int n = 1;
    while (n < n_pages && n < 1 << 30)
        n *= 2;
    return n;
}

size_t glyd_kv_pool_bytes(int n_pages, int page_tokens)
{
    size_t page = sizeof(glyd_kv_page) + (size_t)page_tokens * sizeof(int32_t);
    return (size_t)n_pages * page + (size_t)buckets_for(n_pages) * sizeof(int32_t);
}

/* Put a page at the end of the unused ones, or where `first` is set before them all. */
static void add_unused(glyd_kv_pool *pool, int page, int first)
{
    glyd_kv_page *p = &pool->pages[page];
    p->older = first ? NONE : pool->newest;
    p->newer = first ? pool->oldest : NONE;
    if (p->older != NONE)
        pool->pages[p->older].newer = page;
    else
        pool->oldest = page;
    if (p->newer != NONE)
        pool->pages[p->newer].older = page;
    else
        pool->newest = page;
    pool->n_unused++;
}

static void remove_unused(glyd_kv_pool *pool, int page)
{
    const glyd_kv_page *p = &pool->pages[page];
    if (p->older != NONE)
        pool->pages[p->older].newer = p->newer;
    else
        pool->oldest = p->newer;
    if (p->newer != NONE)
        pool->pages[p->newer].older = p->older;
    else
        pool->newest = p->older;
    pool->n_unused--;
}

glyd_status glyd_kv_pool_init(glyd_kv_pool *pool, int n_pages, int page_tokens)
{
    *pool = (glyd_kv_pool){.n_pages = n_pages,
                           .page_tokens = page_tokens,
                           .n_buckets = buckets_for(n_pages),
                           .oldest = NONE,
                           .newest = NONE};
    pool->pages = calloc((size_t)n_pages, sizeof *pool->pages);
    pool->ids = calloc((size_t)n_pages * (size_t)page_tokens, sizeof *pool->ids);
    pool->buckets = malloc((size_t)pool->n_buckets * sizeof *pool->buckets);
    if (!pool->pages || !pool->ids || !pool->buckets) {
        glyd_kv_pool_deinit(pool);
        return GLYD_E_NOMEM;
    }
    for (int i = 0; i < pool->n_buckets; i++)
        pool->buckets[i] = NONE;
    for (int i = 0; i < n_pages; i++)
        add_unused(pool, i, 0);
    return GLYD_OK;
}

void glyd_kv_pool_deinit(glyd_kv_pool *pool)
{
    free(pool->pages);
    free(pool->ids);
    free(pool->buckets);
    *pool = (glyd_kv_pool){0};
}

int glyd_kv_pages_for(const glyd_kv_pool *pool, int64_t n_tokens)
{
    return (int)((n_tokens + pool->page_tokens - 1) / pool->page_tokens);
}

static int32_t *ids_of(const glyd_kv_pool *pool, int page)
{
    return pool->ids + (int64_t)page * pool->page_tokens;
}

/* --- registered pages --- */

/* All pages that begin alike are in one bucket, so that a page of which only the beginning fits is
 * found too. */
static int32_t *bucket_of(const glyd_kv_pool *pool, uint64_t parent, int32_t first_id)
{
    uint64_t x = (parent + 1) * 0x9E3779B97F4A7C15U ^ (uint64_t)(uint32_t)first_id;
    x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9U;
    return &pool->buckets[(x ^ x >> 29) & (uint64_t)(pool->n_buckets - 1)];
}

static void unregister(glyd_kv_pool *pool, int page)
{
    glyd_kv_page *p = &pool->pages[page];
    if (p->n_ids == 0)
        return;
    int32_t *link = bucket_of(pool, p->parent, ids_of(pool, page)[0]);
    while (*link != page)
        link = &pool->pages[*link].chained;
    *link = p->chained;
    p->n_ids = 0;
}

static void enter(glyd_kv_pool *pool, int page, uint64_t parent, const int32_t *ids, int n_ids)
{
    glyd_kv_page *p = &pool->pages[page];
    int32_t *link = bucket_of(pool, parent, ids[0]);
    GLYD_ASSERT(p->n_ids == 0);
    memcpy(ids_of(pool, page), ids, (size_t)n_ids * sizeof *ids);
    p->n_ids = n_ids;
    p->parent = parent;
    p->serial = ++pool->serial;
    p->chained = *link;
    *link = page;
}

/* The registered page after `parent` that has most of the ids that follow, and how many. */
static int find_page(const glyd_kv_pool *pool, uint64_t parent, const int32_t *ids, int n_ids,
                     int *n_common)
{
    int best = NONE;
    *n_common = 0;
    if (n_ids == 0)
        return best;
    for (int i = *bucket_of(pool, parent, ids[0]); i != NONE; i = pool->pages[i].chained) {
        const glyd_kv_page *p = &pool->pages[i];
        const int32_t *own = ids_of(pool, i);
        int most = p->n_ids < n_ids ? p->n_ids : n_ids, n = 0;
        while (p->parent == parent && n < most && own[n] == ids[n])
            n++;
        if (n > *n_common) {
            *n_common = n;
            best = i;
        }
    }
    return best;
}

/* --- holding pages --- */

void glyd_kv_page_hold(glyd_kv_pool *pool, int page)
{
    if (pool->pages[page].n_refs++ == 0)
        remove_unused(pool, page);
}

void glyd_kv_page_drop(glyd_kv_pool *pool, int page)
{
    glyd_kv_page *p = &pool->pages[page];
    GLYD_ASSERT(p->n_refs > 0);
    if (--p->n_refs == 0)
        add_unused(pool, page, p->n_ids == 0);
}

int glyd_kv_table_grow(glyd_kv_pool *pool, glyd_kv_table *table, int n_pages)
{
    if (n_pages - table->n_pages > pool->n_unused)
        return 0;
    while (table->n_pages < n_pages) {
        int page = pool->oldest;
        unregister(pool, page);
        glyd_kv_page_hold(pool, page);
        table->pages[table->n_pages++] = page;
    }
    return 1;
}

int glyd_kv_table_adopt(glyd_kv_pool *pool, glyd_kv_table *table, int page)
{
    if (pool->pages[page].n_refs > 1)
        return 0;
    unregister(pool, page);
    table->pages[table->n_pages++] = page;
    return 1;
}

int glyd_kv_table_match(glyd_kv_pool *pool, glyd_kv_table *table, const int32_t *ids, int n_ids,
                        int *partial, int *n_more)
{
    int n = 0;
    GLYD_ASSERT(table->n_pages == 0);
    *table = (glyd_kv_table){.pages = table->pages};
    while ((*partial = find_page(pool, table->parent, ids + n, n_ids - n, n_more)) != NONE &&
           *n_more == pool->page_tokens) {
        glyd_kv_page_hold(pool, *partial);
        table->pages[table->n_pages++] = *partial;
        table->n_registered++;
        table->parent = pool->pages[*partial].serial;
        n += pool->page_tokens;
    }
    return n;
}

void glyd_kv_table_register(glyd_kv_pool *pool, glyd_kv_table *table, const int32_t *ids, int n_ids)
{
    int n_full = n_ids / pool->page_tokens, n_common;
    for (int i = table->n_registered; i < n_full; i++) {
        const int32_t *own = ids + (int64_t)i * pool->page_tokens;
        int there = find_page(pool, table->parent, own, pool->page_tokens, &n_common);
        if (n_common == pool->page_tokens) {
            glyd_kv_page_hold(pool, there);
            glyd_kv_page_drop(pool, table->pages[i]);
            table->pages[i] = there;
        } else {
            enter(pool, table->pages[i], table->parent, own, pool->page_tokens);
        }
        table->parent = pool->pages[table->pages[i]].serial;
        table->n_registered++;
    }
}

void glyd_kv_table_release(glyd_kv_pool *pool, glyd_kv_table *table, const int32_t *ids, int n_ids)
{
    int n_left = n_ids % pool->page_tokens, n_common;
    if (n_ids > 0)
        glyd_kv_table_register(pool, table, ids, n_ids);
    if (n_left > 0) {
        const int32_t *last = ids + (n_ids - n_left);
        (void)find_page(pool, table->parent, last, n_left, &n_common);
        if (n_common < n_left)
            enter(pool, table->pages[table->n_registered], table->parent, last, n_left);
    }
    /* The last first: a page without the one before it cannot be found. */
    while (table->n_pages > 0)
        glyd_kv_page_drop(pool, table->pages[--table->n_pages]);
    *table = (glyd_kv_table){.pages = table->pages};
}

void glyd_kv_table_forget(glyd_kv_pool *pool, const glyd_kv_table *table)
{
    for (int i = 0; i < table->n_registered; i++)
        unregister(pool, table->pages[i]);
}
