/* kv.c - the pages of the KV cache.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/kv.h"
#include <stdlib.h>

glyd_status glyd_kv_pool_init(glyd_kv_pool *pool, int n_pages, int page_tokens)
{
    *pool = (glyd_kv_pool){.n_free = n_pages, .n_pages = n_pages, .page_tokens = page_tokens};
    pool->free = malloc((size_t)n_pages * sizeof *pool->free);
    if (!pool->free)
        return GLYD_E_NOMEM;
    for (int i = 0; i < n_pages; i++)
        pool->free[i] = n_pages - 1 - i; /* the first pages first: the rest stays untouched */
    return GLYD_OK;
}

void glyd_kv_pool_deinit(glyd_kv_pool *pool)
{
    free(pool->free);
    *pool = (glyd_kv_pool){0};
}

int glyd_kv_pages_for(const glyd_kv_pool *pool, int64_t n_tokens)
{
    return (int)((n_tokens + pool->page_tokens - 1) / pool->page_tokens);
}

int glyd_kv_table_resize(glyd_kv_pool *pool, glyd_kv_table *table, int n_pages)
{
    if (n_pages - table->n_pages > pool->n_free)
        return 0;
    while (table->n_pages < n_pages)
        table->pages[table->n_pages++] = pool->free[--pool->n_free];
    while (table->n_pages > n_pages)
        pool->free[pool->n_free++] = table->pages[--table->n_pages];
    return 1;
}
