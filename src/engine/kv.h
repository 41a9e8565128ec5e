/* kv.h - the pages of the KV cache: which are free, and which belong to a sequence.
 *
 * A page holds the keys and values of a fixed number of positions in every layer. The pool is
 * planned at load. A sequence takes the pages that it may need when it starts, so a sequence that
 * runs never waits for one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_KV_H
#define GLYD_ENGINE_KV_H

#include "glyd/base.h"

typedef struct glyd_kv_pool {
    int32_t *free; /* a stack of page numbers */
    int n_free, n_pages, page_tokens;
} glyd_kv_pool;

typedef struct glyd_kv_table {
    int32_t *pages; /* room for a whole context; page of position p: pages[p / page_tokens] */
    int n_pages;
} glyd_kv_table;

GLYD_MUST_CHECK glyd_status glyd_kv_pool_init(glyd_kv_pool *pool, int n_pages, int page_tokens);
void glyd_kv_pool_deinit(glyd_kv_pool *pool);

int glyd_kv_pages_for(const glyd_kv_pool *pool, int64_t n_tokens);

/* Grow or shrink a table to n_pages. Returns 0, changing nothing, where the pool has too few. */
int glyd_kv_table_resize(glyd_kv_pool *pool, glyd_kv_table *table, int n_pages);

#endif
