/* vocabulary.c - token bytes and the tries over them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "constraint/vocabulary.h"
#include "base/buf.h"
#include "base/error.h"
#include "constraint/ir.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { ROWS = GLYD_PLAIN_CHARS_MAX };

typedef struct entry {
    glyd_span bytes;
    int32_t id;
} entry;

glyd_span glyd_vocabulary_token(const glyd_vocabulary *vocabulary, int32_t id)
{
    const uint32_t *ends = (const uint32_t *)(const void *)vocabulary->ends.data;
    uint32_t start = id == 0 ? 0 : ends[id - 1];
    return (glyd_span){vocabulary->text.data + start, ends[id] - start};
}

void glyd_vocabulary_add_plain(const glyd_vocabulary *vocabulary, int32_t n, uint64_t *mask)
{
    if (n < 1)
        return;
    size_t row = (size_t)(n < ROWS ? n : ROWS) - 1;
    const uint64_t *short_ones = vocabulary->plain_masks + row * vocabulary->n_words;
    const glyd_long_token *longer = (const glyd_long_token *)(const void *)vocabulary->longer.data;
    for (size_t i = 0; i < vocabulary->n_words; i++)
        mask[i] |= short_ones[i];
    for (size_t i = 0; n > ROWS && i < vocabulary->longer.bytes / sizeof *longer; i++)
        if (longer[i].chars <= n)
            mask[longer[i].id / 64] |= (uint64_t)1 << longer[i].id % 64;
}

/* --- bytes of tokens --- */

/* The byte that a character of the byte-level alphabet stands for; -1 for any other. Bytes that are
 * printable in Latin-1 stand for themselves, the others follow from U+0100 on in their order. */
static int alphabet_byte(utf8proc_int32_t point)
{
    int n = 0x100;
    for (int b = 0; b < 256; b++) {
        bool is_self = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        if (point == (is_self ? b : n))
            return b;
        n += !is_self;
    }
    return -1;
}

static bool append_alphabet(glyd_span token, const int16_t *byte_of, glyd_buf *out,
                            glyd_status *status)
{
    size_t start = out->bytes;
    for (size_t i = 0; i < token.bytes;) {
        utf8proc_int32_t point;
        utf8proc_ssize_t n =
            utf8proc_iterate(token.data + i, (utf8proc_ssize_t)(token.bytes - i), &point);
        int byte = n > 0 && point < 0x200 ? byte_of[point] : -1;
        if (byte < 0) {
            out->bytes = start;
            return false;
        }
        *status = glyd_buf_append(out, &(uint8_t){(uint8_t)byte}, 1);
        if (*status != GLYD_OK)
            return false;
        i += (size_t)n;
    }
    return true;
}

static int hex_digit(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static int fallback_byte(glyd_span token)
{
    if (token.bytes != 6 || memcmp(token.data, "<0x", 3) != 0 || token.data[5] != '>')
        return -1;
    int high = hex_digit(token.data[3]), low = hex_digit(token.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static bool has_replacement(glyd_span text)
{
    for (size_t i = 0; i + 3 <= text.bytes; i++)
        if (memcmp(text.data + i, "\xEF\xBF\xBD", 3) == 0)
            return true;
    return false;
}

typedef struct reader {
    const glyd_tokenizer *tokenizer;
    glyd_detok *detok;
    int32_t first; /* an id with text, put before each token, for what differs at the start */
    glyd_buf before, after;
    int16_t byte_of[0x200];
    glyd_error *err;
} reader;

static glyd_status decode(reader *r, int32_t id, glyd_buf *out)
{
    out->bytes = 0;
    if (r->first >= 0)
        GLYD_TRY(glyd_detok_push(r->detok, r->first, out, r->err));
    if (id >= 0)
        GLYD_TRY(glyd_detok_push(r->detok, id, out, r->err));
    return glyd_detok_finish(r->detok, out, r->err);
}

/* What a token adds to a text. Only where that is part of a character, decoding cannot tell; then
 * the token is spelled in the byte-level alphabet or as a byte. */
static glyd_status append_token(reader *r, int32_t id, glyd_buf *text)
{
    glyd_span token = glyd_tokenizer_token(r->tokenizer, id);
    if (token.bytes == 0)
        return GLYD_OK;
    if (glyd_tokenizer_is_special(r->tokenizer, id)) {
        uint8_t bytes[4] = {GLYD_TOKEN_BYTE, (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
        return glyd_buf_append(text, bytes, sizeof bytes);
    }
    GLYD_TRY(decode(r, id, &r->after));
    glyd_span added = {r->after.data + r->before.bytes, r->after.bytes - r->before.bytes};
    if (r->after.bytes < r->before.bytes)
        return GLYD_OK;
    if (has_replacement(added)) {
        glyd_status status = GLYD_OK;
        size_t start = text->bytes;
        int byte = fallback_byte(token);
        if (byte >= 0 && byte != GLYD_TOKEN_BYTE)
            return glyd_buf_append(text, &(uint8_t){(uint8_t)byte}, 1);
        if (byte >= 0)
            return GLYD_OK; /* no text has it, and it would be taken for a special token */
        if (append_alphabet(token, r->byte_of, text, &status)) {
            if (memchr(text->data + start, GLYD_TOKEN_BYTE, text->bytes - start))
                text->bytes = start;
            return GLYD_OK;
        }
        GLYD_TRY(status);
    }
    if (added.bytes == 0)
        return GLYD_OK;
    return glyd_buf_append(text, added.data, added.bytes);
}

static glyd_status read_tokens(reader *r, glyd_vocabulary *v)
{
    glyd_ids ids = {0};
    GLYD_TRY(glyd_detok_create(r->tokenizer, 0, &r->detok, r->err));
    glyd_status status = glyd_tokenizer_encode(r->tokenizer, "a", 1, 0, &ids, r->err);
    r->first = status == GLYD_OK && ids.n > 0 ? ids.data[ids.n - 1] : -1;
    glyd_ids_free(&ids);
    GLYD_TRY(status);
    GLYD_TRY(decode(r, -1, &r->before));
    for (int32_t id = 0; id < v->n; id++) {
        GLYD_TRY(append_token(r, id, &v->text));
        uint32_t end = (uint32_t)v->text.bytes;
        GLYD_TRY(glyd_buf_append(&v->ends, &end, sizeof end));
    }
    return GLYD_OK;
}

/* --- tries --- */

static int by_bytes(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    size_t n = x->bytes.bytes < y->bytes.bytes ? x->bytes.bytes : y->bytes.bytes;
    int order = memcmp(x->bytes.data, y->bytes.data, n);
    if (order == 0)
        order = x->bytes.bytes < y->bytes.bytes ? -1 : x->bytes.bytes > y->bytes.bytes;
    return order ? order : x->id < y->id ? -1 : x->id > y->id;
}

static glyd_trie_node *node_at(glyd_trie *trie, uint32_t i)
{
    return (glyd_trie_node *)(void *)trie->nodes.data + i;
}

/* Every node deeper than `depth` on the way to the last token is complete. */
static void close_nodes(glyd_trie *trie, const uint32_t *open, size_t from, size_t depth)
{
    for (size_t d = from; d > depth; d--)
        node_at(trie, open[d - 1])->skip = trie->n;
}

static glyd_status build_trie(glyd_trie *trie, const entry *entries, size_t n)
{
    uint32_t open[GLYD_TOKEN_BYTES_MAX];
    size_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        glyd_span bytes = entries[i].bytes;
        size_t same = 0;
        if (i > 0)
            while (same < depth && same < bytes.bytes &&
                   entries[i - 1].bytes.data[same] == bytes.data[same])
                same++;
        close_nodes(trie, open, depth, same);
        for (depth = same; depth < bytes.bytes; depth++) {
            glyd_trie_node node = {
                .ids = (uint32_t)i, .depth = (uint16_t)(depth + 1), .byte = bytes.data[depth]};
            open[depth] = trie->n++;
            GLYD_TRY(glyd_buf_append(&trie->nodes, &node, sizeof node));
        }
        glyd_trie_node *end = node_at(trie, open[depth - 1]);
        if (end->n_ids == UINT16_MAX)
            return GLYD_E_LIMIT;
        end->n_ids++;
        GLYD_TRY(glyd_buf_append(&trie->ids, &entries[i].id, sizeof entries[i].id));
    }
    close_nodes(trie, open, depth, 0);
    return GLYD_OK;
}

/* Characters of a plain token; 0 where it is not plain. */
static int plain_chars(glyd_span token)
{
    int n = 0;
    for (size_t i = 0; i < token.bytes; n++) {
        utf8proc_int32_t point;
        utf8proc_ssize_t bytes =
            utf8proc_iterate(token.data + i, (utf8proc_ssize_t)(token.bytes - i), &point);
        if (bytes <= 0 || point < 0x20 || point == '"' || point == '\\')
            return 0;
        i += (size_t)bytes;
    }
    return n;
}

/* How much of a token can be within a JSON string: up to a quote that no backslash is before, or a
 * control character. */
static int32_t quoted_bytes(glyd_span token)
{
    size_t n = 0;
    while (n < token.bytes && token.data[n] >= 0x20 && token.data[n] != '"')
        n += token.data[n] == '\\' ? 2 : 1;
    return (int32_t)(n < token.bytes ? n : token.bytes);
}

static glyd_status add_plain(glyd_vocabulary *v, int32_t id, int chars)
{
    glyd_long_token token = {id, chars};
    for (int row = chars - 1; row < ROWS; row++)
        v->plain_masks[(size_t)row * v->n_words + (size_t)id / 64] |= (uint64_t)1 << id % 64;
    return chars > ROWS ? glyd_buf_append(&v->longer, &token, sizeof token) : GLYD_OK;
}

static glyd_status build(glyd_vocabulary *v, entry *plain, entry *other)
{
    size_t n_plain = 0, n_other = 0;
    for (int32_t id = 0; id < v->n; id++) {
        entry e = {glyd_vocabulary_token(v, id), id};
        if (e.bytes.bytes == 0 || e.bytes.bytes > GLYD_TOKEN_BYTES_MAX)
            continue;
        int chars = plain_chars(e.bytes);
        if (chars > 0) {
            plain[n_plain++] = e;
            GLYD_TRY(add_plain(v, id, chars));
            continue;
        }
        other[n_other++] = e;
        if (quoted_bytes(e.bytes) > v->quoted_bytes_max)
            v->quoted_bytes_max = quoted_bytes(e.bytes);
    }
    if (n_plain)
        qsort(plain, n_plain, sizeof *plain, by_bytes);
    if (n_other)
        qsort(other, n_other, sizeof *other, by_bytes);
    GLYD_TRY(build_trie(&v->plain, plain, n_plain));
    return build_trie(&v->other, other, n_other);
}

/* With text and ends in place. */
static glyd_status finish(glyd_vocabulary *v)
{
    v->n_words = ((size_t)v->n + 63) / 64;
    v->plain_masks = calloc(ROWS * v->n_words + 1, sizeof *v->plain_masks);
    entry *plain = malloc(((size_t)v->n + 1) * sizeof *plain);
    entry *other = malloc(((size_t)v->n + 1) * sizeof *other);
    glyd_status status = v->plain_masks && plain && other ? build(v, plain, other) : GLYD_E_NOMEM;
    free(plain);
    free(other);
    return status;
}

static glyd_status end_create(glyd_vocabulary *v, glyd_status status, glyd_vocabulary **vocabulary,
                              glyd_error *err)
{
    if (status == GLYD_OK)
        status = finish(v);
    if (status == GLYD_OK) {
        *vocabulary = v;
        return GLYD_OK;
    }
    glyd_vocabulary_free(v);
    GLYD_FAIL(err, status, "the tokens' bytes: %s", glyd_status_text(status));
}

glyd_status glyd_vocabulary_create(const glyd_tokenizer *tokenizer, glyd_vocabulary **vocabulary,
                                   glyd_error *err)
{
    glyd_vocabulary *v = calloc(1, sizeof *v);
    reader *r = calloc(1, sizeof *r);
    glyd_status status = v && r ? GLYD_OK : GLYD_E_NOMEM;
    if (status == GLYD_OK) {
        v->n = glyd_tokenizer_vocab_size(tokenizer);
        *r = (reader){.tokenizer = tokenizer, .err = err};
        for (int i = 0; i < 0x200; i++)
            r->byte_of[i] = (int16_t)alphabet_byte(i);
        status = v->n < 1 << 24 ? read_tokens(r, v) : GLYD_E_LIMIT;
        glyd_detok_free(r->detok);
        glyd_buf_free(&r->before);
        glyd_buf_free(&r->after);
    }
    free(r);
    return end_create(v, status, vocabulary, err);
}

glyd_status glyd_vocabulary_from_bytes(const glyd_span *tokens, int32_t n,
                                       glyd_vocabulary **vocabulary, glyd_error *err)
{
    glyd_vocabulary *v = calloc(1, sizeof *v);
    glyd_status status = v ? GLYD_OK : GLYD_E_NOMEM;
    if (v)
        v->n = n;
    for (int32_t i = 0; status == GLYD_OK && i < n; i++) {
        /* A text that cannot be, left out so that it is not taken for a special token. */
        bool is_text =
            tokens[i].bytes == 0 || !memchr(tokens[i].data, GLYD_TOKEN_BYTE, tokens[i].bytes);
        if (is_text && tokens[i].bytes)
            status = glyd_buf_append(&v->text, tokens[i].data, tokens[i].bytes);
        uint32_t end = (uint32_t)v->text.bytes;
        if (status == GLYD_OK)
            status = glyd_buf_append(&v->ends, &end, sizeof end);
    }
    return end_create(v, status, vocabulary, err);
}

void glyd_vocabulary_free(glyd_vocabulary *vocabulary)
{
    if (!vocabulary)
        return;
    glyd_buf_free(&vocabulary->text);
    glyd_buf_free(&vocabulary->ends);
    glyd_buf_free(&vocabulary->plain.nodes);
    glyd_buf_free(&vocabulary->plain.ids);
    glyd_buf_free(&vocabulary->other.nodes);
    glyd_buf_free(&vocabulary->other.ids);
    glyd_buf_free(&vocabulary->longer);
    free(vocabulary->plain_masks);
    free(vocabulary);
}
