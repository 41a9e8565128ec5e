/* bpe.c - a vocabulary, and byte-pair encoding of pieces with it.
 *
 * A piece starts as one symbol a character; then the pair of neighbours with the lowest rank
 * merges (the leftmost of several) until no pair is in the table. Short pieces scan the ranks in
 * an array. Long ones keep the pairs in a heap and the symbols in a linked list, so that the work
 * is n log n; entries of pairs that are no more are left in the heap and skipped when they come up.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/bpe.h"
#include "base/buf.h"
#include "base/error.h"
#include "text/unicode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHORT_MAX = 32,   /* symbols of a short piece */
    PROBES_MAX = 2000 /* a table that needs more was made to collide */
};

#define NO_RANK UINT32_MAX

typedef struct link {
    int32_t previous, next; /* -1 at the ends; previous is DEAD for a symbol merged away */
} link;

enum { DEAD = -2 };

typedef struct candidate {
    uint32_t rank, at; /* the order of merging: by rank, then from the left */
    int32_t left, right, id;
} candidate;

/* --- ids --- */
glyd_status glyd_ids_append(glyd_ids *ids, const int32_t *data, size_t n)
{
    if (n > ids->capacity - ids->n) {
        if (n > SIZE_MAX / 8 - ids->n)
            return GLYD_E_NOMEM;
        size_t capacity = ids->n + n + ids->capacity / 2 + 16;
        int32_t *grown = realloc(ids->data, capacity * sizeof *grown);
        if (!grown)
            return GLYD_E_NOMEM;
        ids->data = grown;
        ids->capacity = capacity;
    }
    if (n)
        memcpy(ids->data + ids->n, data, n * sizeof *data);
    ids->n += n;
    return GLYD_OK;
}

void glyd_ids_free(glyd_ids *ids)
{
    if (!ids)
        return;
    free(ids->data);
    *ids = (glyd_ids){0};
}

/* --- vocabulary --- */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static uint64_t hash_text(const uint8_t *text, size_t bytes)
{
    uint64_t hash = bytes, word = 0;
    for (; bytes >= sizeof word; bytes -= sizeof word, text += sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = mix(hash ^ word);
    }
    word = 0;
    if (bytes)
        memcpy(&word, text, bytes);
    return mix(hash ^ word);
}

static size_t power_of_two(size_t n)
{
    size_t power = 16;
    while (power < n)
        power *= 2;
    return power;
}

glyd_status glyd_bpe_init(glyd_bpe *bpe, size_t n_tokens)
{
    if (n_tokens > GLYD_ID_MAX)
        return GLYD_E_LIMIT;
    bpe->n_slots = power_of_two(2 * n_tokens + 2);
    bpe->slots = malloc(bpe->n_slots * sizeof *bpe->slots);
    bpe->n_ids_capacity = (int32_t)n_tokens + 16;
    bpe->tokens = calloc((size_t)bpe->n_ids_capacity, sizeof *bpe->tokens);
    bpe->unknown = GLYD_UNKNOWN_DROPS;
    if (!bpe->slots || !bpe->tokens)
        return GLYD_E_NOMEM;
    memset(bpe->slots, 0xff, bpe->n_slots * sizeof *bpe->slots);
    return GLYD_OK;
}

void glyd_bpe_deinit(glyd_bpe *bpe)
{
    glyd_buf_free(&bpe->text);
    free(bpe->tokens);
    free(bpe->slots);
    free(bpe->merges);
    *bpe = (glyd_bpe){0};
}

/* The slot that holds a text, or the empty one where it belongs; n_slots after too many probes. */
static size_t find_slot(const glyd_bpe *bpe, const uint8_t *text, size_t bytes, uint32_t *hash)
{
    uint64_t wide = hash_text(text, bytes);
    size_t slot = wide & (bpe->n_slots - 1);
    *hash = (uint32_t)(wide >> 32);
    for (int i = 0; i < PROBES_MAX; i++) {
        const glyd_slot *s = &bpe->slots[slot];
        if (s->id < 0)
            return slot;
        const glyd_bpe_token *token = &bpe->tokens[s->id];
        if (s->hash == *hash && token->bytes == bytes &&
            memcmp(bpe->text.data + token->at, text, bytes) == 0)
            return slot;
        slot = (slot + 1) & (bpe->n_slots - 1);
    }
    return bpe->n_slots;
}

int32_t glyd_bpe_find(const glyd_bpe *bpe, const uint8_t *text, size_t bytes)
{
    uint32_t hash;
    size_t slot = bytes ? find_slot(bpe, text, bytes, &hash) : bpe->n_slots;
    return slot < bpe->n_slots ? bpe->slots[slot].id : -1;
}

static glyd_status grow_ids(glyd_bpe *bpe, int32_t id)
{
    if (id >= bpe->n_ids_capacity) {
        int32_t capacity = id < GLYD_ID_MAX / 2 ? 2 * id + 16 : GLYD_ID_MAX;
        glyd_bpe_token *grown = realloc(bpe->tokens, (size_t)capacity * sizeof *grown);
        if (!grown)
            return GLYD_E_NOMEM;
        memset(grown + bpe->n_ids_capacity, 0,
               (size_t)(capacity - bpe->n_ids_capacity) * sizeof *grown);
        bpe->tokens = grown;
        bpe->n_ids_capacity = capacity;
    }
    if (id >= bpe->n_ids)
        bpe->n_ids = id + 1;
    return GLYD_OK;
}

glyd_status glyd_bpe_add(glyd_bpe *bpe, const char *text, size_t bytes, int64_t id, glyd_error *err)
{
    if (id < 0 || id >= GLYD_ID_MAX)
        GLYD_FAIL(err, GLYD_E_FORMAT, "token \"%s\" has id %lld; ids are from 0 to %d", text,
                  (long long)id, GLYD_ID_MAX - 1);
    if (bytes == 0)
        GLYD_FAIL(err, GLYD_E_FORMAT, "the token with id %lld is empty", (long long)id);
    if (bpe->n_tokens + 1 >= bpe->n_slots || bpe->text.bytes + bytes > UINT32_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT, "too many tokens");
    uint32_t hash;
    size_t slot = find_slot(bpe, (const uint8_t *)text, bytes, &hash);
    if (slot == bpe->n_slots)
        GLYD_FAIL(err, GLYD_E_LIMIT, "the vocabulary does not hash");
    if (bpe->slots[slot].id >= 0)
        GLYD_FAIL(err, GLYD_E_FORMAT, "token \"%s\" is there twice", text);
    if (grow_ids(bpe, (int32_t)id) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    glyd_bpe_token *token = &bpe->tokens[id];
    if (token->is_used)
        GLYD_FAIL(err, GLYD_E_FORMAT, "token \"%s\" has id %lld, which another token has", text,
                  (long long)id);
    size_t at = bpe->text.bytes;
    if (glyd_buf_append(&bpe->text, text, bytes) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    *token = (glyd_bpe_token){.at = (uint32_t)at,
                              .bytes = (uint32_t)bytes,
                              .shown_at = (uint32_t)at,
                              .shown_bytes = (uint32_t)bytes,
                              .is_used = true};
    bpe->slots[slot] = (glyd_slot){(int32_t)id, hash};
    bpe->n_tokens++;
    return GLYD_OK;
}

glyd_status glyd_bpe_show(glyd_bpe *bpe, int32_t id, glyd_span text)
{
    glyd_bpe_token *token = &bpe->tokens[id];
    if (text.bytes > UINT32_MAX - bpe->text.bytes)
        return GLYD_E_LIMIT;
    token->shown_at = (uint32_t)bpe->text.bytes;
    token->shown_bytes = (uint32_t)text.bytes;
    GLYD_TRY(glyd_buf_append(&bpe->text, text.data, text.bytes));
    int32_t same = glyd_bpe_find(bpe, text.data, text.bytes);
    token->is_skipped = same >= 0 && bpe->tokens[same].is_special;
    return GLYD_OK;
}

/* --- merges --- */
static size_t merge_slot(const glyd_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    /* One multiplication is enough: ids are small, and the high bits see all of the key. */
    size_t slot = (size_t)(key * 0x9e3779b97f4a7c15u >> 24) & (bpe->n_merge_slots - 1);
    while (bpe->merges[slot].rank != NO_RANK &&
           (bpe->merges[slot].left != left || bpe->merges[slot].right != right))
        slot = (slot + 1) & (bpe->n_merge_slots - 1);
    return slot;
}

glyd_status glyd_bpe_merges_init(glyd_bpe *bpe, size_t n)
{
    if (n > 4 * (size_t)GLYD_ID_MAX)
        return GLYD_E_LIMIT;
    bpe->n_merge_slots = power_of_two(2 * n + 2);
    bpe->merges = malloc(bpe->n_merge_slots * sizeof *bpe->merges);
    if (!bpe->merges)
        return GLYD_E_NOMEM;
    memset(bpe->merges, 0xff, bpe->n_merge_slots * sizeof *bpe->merges);
    return GLYD_OK;
}

glyd_status glyd_bpe_merges_add(glyd_bpe *bpe, glyd_span left, glyd_span right, uint32_t rank,
                                glyd_buf *scratch, glyd_error *err)
{
    scratch->bytes = 0;
    if (glyd_buf_append(scratch, left.data, left.bytes) != GLYD_OK ||
        glyd_buf_append(scratch, right.data, right.bytes) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    int32_t a = glyd_bpe_find(bpe, left.data, left.bytes);
    int32_t b = glyd_bpe_find(bpe, right.data, right.bytes);
    int32_t id = glyd_bpe_find(bpe, scratch->data, scratch->bytes);
    if (a < 0 || b < 0 || id < 0)
        GLYD_FAIL(err, GLYD_E_FORMAT,
                  "merge %u joins \"%.*s\" and \"%.*s\", which is not all in the vocabulary",
                  (unsigned)rank, (int)left.bytes, (const char *)left.data, (int)right.bytes,
                  (const char *)right.data);
    bpe->merges[merge_slot(bpe, a, b)] = (glyd_merge){a, b, rank, id};
    return GLYD_OK;
}

static const glyd_merge *find_merge(const glyd_bpe *bpe, int32_t left, int32_t right)
{
    return &bpe->merges[merge_slot(bpe, left, right)];
}

void glyd_bpe_finish(glyd_bpe *bpe)
{
    for (int32_t id = 0; id < bpe->n_ids; id++)
        bpe->tokens[id].is_model = bpe->tokens[id].is_used;
    for (uint32_t point = 0; point < sizeof bpe->id_of_point / sizeof *bpe->id_of_point; point++) {
        char text[4];
        int bytes = glyd_utf8_encode(point, text);
        bpe->id_of_point[point] = glyd_bpe_find(bpe, (const uint8_t *)text, (size_t)bytes);
    }
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        bpe->id_of_byte[byte] = glyd_bpe_find(bpe, (const uint8_t *)text, 6);
    }
}

/* --- encoding --- */
static int32_t find_model(const glyd_bpe *bpe, const uint8_t *text, size_t bytes)
{
    int32_t id = glyd_bpe_find(bpe, text, bytes);
    return id >= 0 && bpe->tokens[id].is_model ? id : -1;
}

static size_t byte_symbols(const glyd_bpe *bpe, const uint8_t *text, size_t bytes, int32_t *symbols)
{
    for (size_t i = 0; i < bytes; i++) {
        symbols[i] = bpe->id_of_byte[text[i]];
        if (symbols[i] < 0)
            return 0;
    }
    return bytes;
}

/* The piece as one symbol a character; at most `bytes` of them, SIZE_MAX on failure. An unknown
 * token is written when the next known character comes, after the bytes in between: so does the
 * reference. */
static size_t first_symbols(const glyd_bpe *bpe, const uint8_t *piece, size_t bytes,
                            int32_t *symbols)
{
    size_t n = 0;
    bool is_pending = false;
    for (size_t i = 0; i < bytes;) {
        uint32_t point = 0;
        int length = glyd_utf8_decode(piece + i, bytes - i, &point);
        GLYD_ASSERT(length > 0);
        int32_t id = point < sizeof bpe->id_of_point / sizeof *bpe->id_of_point
                         ? bpe->id_of_point[point]
                         : find_model(bpe, piece + i, (size_t)length);
        if (id >= 0) {
            if (is_pending)
                symbols[n++] = bpe->unknown;
            is_pending = false;
            symbols[n++] = id;
        } else {
            size_t added =
                bpe->byte_fallback ? byte_symbols(bpe, piece + i, (size_t)length, symbols + n) : 0;
            n += added;
            if (added == 0 && bpe->unknown == GLYD_UNKNOWN_FAILS)
                return SIZE_MAX;
            if (added == 0 && bpe->unknown >= 0) {
                if (is_pending && !bpe->fuse_unknown)
                    symbols[n++] = bpe->unknown;
                is_pending = true;
            }
        }
        i += (size_t)length;
    }
    if (is_pending)
        symbols[n++] = bpe->unknown;
    return n;
}

static size_t merge_short(const glyd_bpe *bpe, int32_t *symbols, size_t n)
{
    const glyd_merge *merge[SHORT_MAX];
    for (size_t i = 0; i + 1 < n; i++)
        merge[i] = find_merge(bpe, symbols[i], symbols[i + 1]);
    for (;;) {
        size_t best = 0;
        uint32_t rank = NO_RANK;
        for (size_t i = 0; i + 1 < n; i++)
            if (merge[i]->rank < rank) {
                rank = merge[i]->rank;
                best = i;
            }
        if (rank == NO_RANK)
            return n;
        symbols[best] = merge[best]->id;
        n--;
        memmove(symbols + best + 1, symbols + best + 2, (n - best - 1) * sizeof *symbols);
        if (best + 1 < n) {
            memmove(merge + best, merge + best + 1, (n - best - 1) * sizeof *merge);
            merge[best] = find_merge(bpe, symbols[best], symbols[best + 1]);
        }
        if (best > 0)
            merge[best - 1] = find_merge(bpe, symbols[best - 1], symbols[best]);
    }
}

static bool is_before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static glyd_status heap_push(glyd_buf *heap, const candidate *added)
{
    GLYD_TRY(glyd_buf_append(heap, added, sizeof *added));
    candidate *c = (candidate *)(void *)heap->data;
    size_t at = heap->bytes / sizeof *c - 1;
    while (at > 0 && is_before(added, &c[(at - 1) / 2])) {
        c[at] = c[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    c[at] = *added;
    return GLYD_OK;
}

static candidate heap_pop(glyd_buf *heap)
{
    candidate *c = (candidate *)(void *)heap->data;
    candidate top = c[0];
    heap->bytes -= sizeof *c;
    size_t n = heap->bytes / sizeof *c, at = 0;
    const candidate moved = c[n];
    for (size_t child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && is_before(&c[child + 1], &c[child]))
            child++;
        if (!is_before(&c[child], &moved))
            break;
        c[at] = c[child];
        at = child;
    }
    if (n > 0)
        c[at] = moved;
    return top;
}

static glyd_status push_pair(const glyd_bpe *bpe, glyd_buf *heap, const int32_t *symbols,
                             int32_t left, int32_t right)
{
    const glyd_merge *merge = find_merge(bpe, symbols[left], symbols[right]);
    if (merge->rank == NO_RANK)
        return GLYD_OK;
    candidate c = {merge->rank, (uint32_t)left, symbols[left], symbols[right], merge->id};
    return heap_push(heap, &c);
}

static glyd_status merge_long(const glyd_bpe *bpe, int32_t *symbols, size_t *n_symbols,
                              glyd_bpe_work *work)
{
    int32_t n = (int32_t)*n_symbols;
    work->heap.bytes = 0;
    GLYD_TRY(glyd_buf_resize(&work->links, (size_t)n * sizeof(link)));
    link *links = (link *)(void *)work->links.data;
    for (int32_t i = 0; i < n; i++)
        links[i] = (link){i - 1, i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i + 1 < n; i++)
        GLYD_TRY(push_pair(bpe, &work->heap, symbols, i, i + 1));
    while (work->heap.bytes > 0) {
        candidate c = heap_pop(&work->heap);
        int32_t left = (int32_t)c.at, right = links[left].next;
        if (links[left].previous == DEAD || right < 0 || symbols[left] != c.left ||
            symbols[right] != c.right)
            continue;
        symbols[left] = c.id;
        links[left].next = links[right].next;
        links[right].previous = DEAD;
        if (links[left].next >= 0) {
            links[links[left].next].previous = left;
            GLYD_TRY(push_pair(bpe, &work->heap, symbols, left, links[left].next));
        }
        if (links[left].previous >= 0)
            GLYD_TRY(push_pair(bpe, &work->heap, symbols, links[left].previous, left));
    }
    size_t kept = 0;
    for (int32_t i = 0; i >= 0; i = links[i].next)
        symbols[kept++] = symbols[i];
    *n_symbols = kept;
    return GLYD_OK;
}

glyd_status glyd_bpe_encode(const glyd_bpe *bpe, const uint8_t *piece, size_t bytes,
                            glyd_bpe_work *work, glyd_ids *ids)
{
    if (bpe->ignore_merges) {
        int32_t id = find_model(bpe, piece, bytes);
        if (id >= 0)
            return glyd_ids_append(ids, &id, 1);
    }
    int32_t few[SHORT_MAX];
    int32_t *symbols = few;
    if (bytes > SHORT_MAX) {
        GLYD_TRY(glyd_buf_resize(&work->symbols, bytes * sizeof *symbols));
        symbols = (int32_t *)(void *)work->symbols.data;
    }
    size_t n = first_symbols(bpe, piece, bytes, symbols);
    if (n == SIZE_MAX)
        return GLYD_E_FORMAT;
    if (n > 1 && n <= SHORT_MAX)
        n = merge_short(bpe, symbols, n);
    else if (n > 1)
        GLYD_TRY(merge_long(bpe, symbols, &n, work));
    return glyd_ids_append(ids, symbols, n);
}

void glyd_bpe_work_deinit(glyd_bpe_work *work)
{
    glyd_buf_free(&work->symbols);
    glyd_buf_free(&work->links);
    glyd_buf_free(&work->heap);
}
