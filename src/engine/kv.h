/* kv.h - the pages of the KV cache: which are free, whose the others are, and what they hold.
 *
 * A page holds the keys and values of a fixed number of positions in every layer. The pool is
 * planned at load.
 *
 * Prefix cache. A page whose ids are known is registered: under the page before it, and with its
 * own ids. So a chain of registered pages stands for one beginning of a prompt, and a sequence that
 * begins the same way takes the chain over instead of computing it again. Full pages are shared and
 * never written again; of any other page a sequence takes a copy. A page that nobody refers to
 * keeps what it holds until it is given out anew: pages never used first, then the longest unused.
 * Keys are not hashes: the page before is known by a number never given twice, and ids are
 * compared, so a collision cannot give wrong results.
 *
 * Threads    one thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_KV_H
#define GLYD_ENGINE_KV_H

#include "glyd/base.h"

/* Links are page numbers, -1 where there is none. */
typedef struct glyd_kv_page {
    int n_refs;
    int older, newer; /* in the list of unused pages */
    int n_ids;        /* registered with; 0: not registered */
    int32_t chained;  /* the next registered page of its bucket */
    uint64_t parent;  /* serial of the page before; 0: it is the first of a prompt */
    uint64_t serial;  /* its own; never given twice */
} glyd_kv_page;

typedef struct glyd_kv_pool {
    glyd_kv_page *pages;
    int32_t *ids;       /* n_pages x page_tokens: of the registered pages */
    int32_t *buckets;   /* the registered pages by parent and first id */
    int oldest, newest; /* of the unused pages; the oldest is given out next */
    int n_unused, n_pages, page_tokens, n_buckets;
    uint64_t serial; /* given last */
} glyd_kv_pool;

/* The pages of one sequence; of these the first n_registered are in the prefix cache. */
typedef struct glyd_kv_table {
    int32_t *pages; /* room for a whole context; page of position p: pages[p / page_tokens] */
    int n_pages, n_registered;
    uint64_t parent; /* serial of the last registered one */
} glyd_kv_table;

GLYD_MUST_CHECK glyd_status glyd_kv_pool_init(glyd_kv_pool *pool, int n_pages, int page_tokens);
void glyd_kv_pool_deinit(glyd_kv_pool *pool);
size_t glyd_kv_pool_bytes(int n_pages, int page_tokens);

int glyd_kv_pages_for(const glyd_kv_pool *pool, int64_t n_tokens);

/* Make a table at least n_pages long. Returns 0, changing nothing, where too few are unused. */
int glyd_kv_table_grow(glyd_kv_pool *pool, glyd_kv_table *table, int n_pages);

/* Take over the longest registered beginning of ids[0..n_ids) into an empty table. Returns the
 * tokens of the full pages that the table then has. Where a page has `*n_more` > 0 of the ids that
 * follow, it is *partial, and the caller may copy it; otherwise *partial is -1. */
int glyd_kv_table_match(glyd_kv_pool *pool, glyd_kv_table *table, const int32_t *ids, int n_ids,
                        int *partial, int *n_more);

/* Register the full pages among the first n_ids tokens, ids[0..n_ids). Where the same page is
 * registered already, the table takes that one and gives up its own. */
void glyd_kv_table_register(glyd_kv_pool *pool, glyd_kv_table *table, const int32_t *ids,
                            int n_ids);

/* Register all of ids[0..n_ids), a last page that is not full included, and give up all pages.
 * With n_ids 0 only what is registered already is kept. */
void glyd_kv_table_release(glyd_kv_pool *pool, glyd_kv_table *table, const int32_t *ids, int n_ids);

/* What the table's pages hold may be wrong: nobody is to find them any more. */
void glyd_kv_table_forget(glyd_kv_pool *pool, const glyd_kv_table *table);

/* A page that is not to be given out, and its return. */
void glyd_kv_page_hold(glyd_kv_pool *pool, int page);
void glyd_kv_page_drop(glyd_kv_pool *pool, int page);

/* Make a page that the caller holds the table's next one, to be written to. Returns 0, changing
 * nothing, where others hold it too. */
int glyd_kv_table_adopt(glyd_kv_pool *pool, glyd_kv_table *table, int page);

#endif
