/* tokenizer_added.c - finding added tokens in a text: the leftmost, and of those the longest.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include <stdlib.h>

enum { NO_TOKEN = -1 };

static uint32_t new_node(glyd_trie *trie, uint8_t byte)
{
    if (trie->n == trie->capacity) {
        uint32_t capacity = trie->capacity * 2 + 256;
        glyd_trie_node *grown = realloc(trie->nodes, (size_t)capacity * sizeof *grown);
        if (!grown)
            return 0;
        trie->nodes = grown;
        trie->capacity = capacity;
    }
    trie->nodes[trie->n] = (glyd_trie_node){0, 0, NO_TOKEN, byte};
    return trie->n++;
}

static uint32_t find_child(const glyd_trie *trie, uint32_t node, uint8_t byte)
{
    if (node == 0)
        return trie->first[byte];
    uint32_t child = trie->nodes[node].child;
    while (child != 0 && trie->nodes[child].byte != byte)
        child = trie->nodes[child].sibling;
    return child;
}

glyd_status glyd_trie_add(glyd_trie *trie, const uint8_t *text, size_t bytes, int32_t token)
{
    uint32_t node = 0;
    if (trie->n == 0) {
        new_node(trie, 0); /* the root is node 0 */
        if (trie->n == 0)
            return GLYD_E_NOMEM;
    }
    for (size_t i = 0; i < bytes; i++) {
        uint32_t child = find_child(trie, node, text[i]);
        if (child == 0) {
            child = new_node(trie, text[i]);
            if (child == 0)
                return GLYD_E_NOMEM;
            trie->nodes[child].sibling = trie->nodes[node].child;
            trie->nodes[node].child = child;
            if (node == 0)
                trie->first[text[i]] = child;
        }
        node = child;
    }
    /* Of two tokens that normalise to one text, the first stands. */
    if (node != 0 && trie->nodes[node].token == NO_TOKEN)
        trie->nodes[node].token = token;
    return GLYD_OK;
}

void glyd_trie_deinit(glyd_trie *trie)
{
    free(trie->nodes);
    *trie = (glyd_trie){0};
}

/* The longest token that begins at `at`; its end goes to *end. */
static int32_t longest_at(const glyd_trie *trie, const uint8_t *text, size_t bytes, size_t at,
                          size_t *end)
{
    int32_t token = NO_TOKEN;
    uint32_t node = 0;
    while (at < bytes && (node = find_child(trie, node, text[at])) != 0) {
        at++;
        if (trie->nodes[node].token != NO_TOKEN) {
            token = trie->nodes[node].token;
            *end = at;
        }
    }
    return token;
}

/* The point of the character that ends at `end` > 0, and where it begins. */
static uint32_t point_before(const uint8_t *text, size_t end, size_t *first)
{
    uint32_t point = 0;
    *first = end - 1;
    while (*first > 0 && end - *first < 4 && (text[*first] & 0xc0) == 0x80)
        --*first;
    int length = glyd_utf8_decode(text + *first, end - *first, &point);
    GLYD_ASSERT(length > 0);
    return point;
}

static bool is_single_word(const uint8_t *text, size_t bytes, size_t first, size_t end)
{
    size_t unused;
    uint32_t point;
    if (first > 0 && glyd_unicode_is_word(point_before(text, first, &unused)))
        return false;
    return end == bytes || glyd_utf8_decode(text + end, bytes - end, &point) == 0 ||
           !glyd_unicode_is_word(point);
}

static size_t spaces_before(const uint8_t *text, size_t first, size_t stop)
{
    size_t start;
    while (first > stop && glyd_unicode_is_space(point_before(text, first, &start)))
        first = start;
    return first;
}

static size_t spaces_after(const uint8_t *text, size_t bytes, size_t end)
{
    uint32_t point;
    while (end < bytes) {
        int length = glyd_utf8_decode(text + end, bytes - end, &point);
        if (length == 0 || !glyd_unicode_is_space(point))
            break;
        end += (size_t)length;
    }
    return end;
}

static glyd_status add_cut(glyd_buf *cuts, size_t first, size_t end, int32_t token)
{
    glyd_cut cut = {first, end, token};
    return glyd_buf_append(cuts, &cut, sizeof cut);
}

glyd_status glyd_added_cut(const glyd_tokenizer *tokenizer, const glyd_trie *trie,
                           bool parse_special, const uint8_t *text, size_t bytes, glyd_buf *cuts)
{
    size_t at = 0;   /* where to look for the next token */
    size_t done = 0; /* the end of what the cuts cover */
    while (trie->n > 0 && at < bytes) {
        size_t first = at, end = 0;
        int32_t i_token =
            trie->first[text[at]] ? longest_at(trie, text, bytes, at, &end) : NO_TOKEN;
        if (i_token == NO_TOKEN) {
            at++;
            continue;
        }
        at = end;
        const glyd_added_token *token = &tokenizer->added[i_token];
        if ((token->special && !parse_special) ||
            (token->single_word && !is_single_word(text, bytes, first, end)))
            continue;
        if (token->lstrip)
            first = first > done ? spaces_before(text, first, done) : done;
        if (token->rstrip)
            end = spaces_after(text, bytes, end);
        if (done < first)
            GLYD_TRY(add_cut(cuts, done, first, NO_TOKEN));
        GLYD_TRY(add_cut(cuts, first, end, i_token));
        done = end;
    }
    return done < bytes ? add_cut(cuts, done, bytes, NO_TOKEN) : GLYD_OK;
}
