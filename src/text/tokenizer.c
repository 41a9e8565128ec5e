/* tokenizer.c - encoding, and what a tokenizer tells about itself.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/tokenizer.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/map.h"
#include "text/unicode.h"
#include <stdlib.h>
#include <string.h>

glyd_status glyd_tokenizer_parse(glyd_span json, glyd_tokenizer **tokenizer, glyd_error *err)
{
    glyd_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    glyd_status status = glyd_tokenizer_load(t, json, err);
    if (status != GLYD_OK) {
        glyd_tokenizer_close(t);
        return status;
    }
    *tokenizer = t;
    return GLYD_OK;
}

glyd_status glyd_tokenizer_open(const char *folder, glyd_tokenizer **tokenizer, glyd_error *err)
{
    char path[GLYD_PATH_BYTES];
    glyd_buf json = {0};
    glyd_status status;
    GLYD_TRY_DONE(glyd_fs_member(folder, "tokenizer.json", path, err));
    GLYD_TRY_DONE(glyd_file_read(path, GLYD_TEXT_BYTES_MAX, &json, err));
    status = glyd_tokenizer_parse((glyd_span){json.data, json.bytes}, tokenizer, err);
    if (status != GLYD_OK)
        glyd_error_prefix(err, status, "%s", path);
done:
    glyd_buf_free(&json);
    return status;
}

void glyd_tokenizer_close(glyd_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    for (size_t i = 0; i < tokenizer->n_normalizers; i++) {
        glyd_regex_free(tokenizer->normalizers[i].regex);
        glyd_buf_free(&tokenizer->normalizers[i].content);
    }
    for (size_t i = 0; i < tokenizer->n_pretokenizers; i++)
        glyd_regex_free(tokenizer->pretokenizers[i].regex);
    for (size_t i = 0; i < tokenizer->n_decoders; i++) {
        glyd_regex_free(tokenizer->decoders[i].regex);
        glyd_buf_free(&tokenizer->decoders[i].content);
    }
    glyd_bpe_deinit(&tokenizer->bpe);
    glyd_trie_deinit(&tokenizer->trie);
    glyd_trie_deinit(&tokenizer->trie_normalized);
    glyd_ids_free(&tokenizer->before);
    glyd_ids_free(&tokenizer->after);
    free(tokenizer->added);
    free(tokenizer);
}

int32_t glyd_tokenizer_vocab_size(const glyd_tokenizer *tokenizer)
{
    return tokenizer->bpe.n_ids;
}

int32_t glyd_tokenizer_id(const glyd_tokenizer *tokenizer, const char *token)
{
    return glyd_bpe_find(&tokenizer->bpe, (const uint8_t *)token, strlen(token));
}

static const glyd_bpe_token *token_of(const glyd_tokenizer *tokenizer, int32_t id)
{
    if (id < 0 || id >= tokenizer->bpe.n_ids || !tokenizer->bpe.tokens[id].is_used)
        return NULL;
    return &tokenizer->bpe.tokens[id];
}

glyd_span glyd_tokenizer_token(const glyd_tokenizer *tokenizer, int32_t id)
{
    const glyd_bpe_token *token = token_of(tokenizer, id);
    return token ? (glyd_span){tokenizer->bpe.text.data + token->at, token->bytes}
                 : (glyd_span){NULL, 0};
}

bool glyd_tokenizer_is_special(const glyd_tokenizer *tokenizer, int32_t id)
{
    const glyd_bpe_token *token = token_of(tokenizer, id);
    return token && token->is_special;
}

void glyd_encode_work_deinit(glyd_encode_work *work)
{
    for (int i = 0; i < GLYD_STEPS_MAX; i++) {
        glyd_scan_free(work->normal_scans[i]);
        glyd_scan_free(work->piece_scans[i]);
    }
    for (int i = 0; i < 2; i++) {
        glyd_buf_free(&work->normal[i]);
        glyd_buf_free(&work->points[i]);
        glyd_buf_free(&work->text[i]);
        glyd_buf_free(&work->pieces[i]);
    }
    glyd_buf_free(&work->clean);
    glyd_buf_free(&work->cuts);
    glyd_buf_free(&work->cuts_after);
    glyd_bpe_work_deinit(&work->bpe);
}

/* --- encoding, from the inside out --- */
static glyd_status encode_plain(const glyd_tokenizer *tokenizer, glyd_encode_work *work,
                                glyd_span text, glyd_ids *ids, glyd_error *err)
{
    const glyd_piece *pieces = NULL;
    size_t n_pieces = 0;
    GLYD_TRY(glyd_pretokenize(tokenizer, work, text, &text, &pieces, &n_pieces, err));
    for (size_t i = 0; i < n_pieces; i++) {
        glyd_status status = glyd_bpe_encode(&tokenizer->bpe, text.data + pieces[i].first,
                                             pieces[i].end - pieces[i].first, &work->bpe, ids);
        if (status == GLYD_E_FORMAT)
            GLYD_FAIL(err, status,
                      "the text has a character that is not in the vocabulary, nor is "
                      "the token for such characters");
        if (status != GLYD_OK)
            GLYD_FAIL(err, status, "out of memory");
    }
    return GLYD_OK;
}

static glyd_status append_ids(glyd_ids *ids, const int32_t *data, size_t n, glyd_error *err)
{
    if (glyd_ids_append(ids, data, n) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    return GLYD_OK;
}

/* Text in which the tokens that are found before normalising have been cut out. */
static glyd_status encode_raw(const glyd_tokenizer *tokenizer, glyd_encode_work *work,
                              glyd_span text, bool parse_special, glyd_ids *ids, glyd_error *err)
{
    glyd_span normal;
    GLYD_TRY(
        glyd_normalize(tokenizer->normalizers, tokenizer->n_normalizers, work, text, &normal, err));
    work->cuts_after.bytes = 0;
    if (glyd_added_cut(tokenizer, &tokenizer->trie_normalized, parse_special, normal.data,
                       normal.bytes, &work->cuts_after) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    const glyd_cut *cuts = (const glyd_cut *)(void *)work->cuts_after.data;
    for (size_t i = 0; i < work->cuts_after.bytes / sizeof *cuts; i++) {
        glyd_span part = {normal.data + cuts[i].first, cuts[i].end - cuts[i].first};
        work->is_start = work->is_start && i == 0;
        if (cuts[i].token >= 0)
            GLYD_TRY(append_ids(ids, &tokenizer->added[cuts[i].token].id, 1, err));
        else
            GLYD_TRY(encode_plain(tokenizer, work, part, ids, err));
    }
    return GLYD_OK;
}

static glyd_status encode(const glyd_tokenizer *tokenizer, glyd_encode_work *work, glyd_span text,
                          unsigned flags, glyd_ids *ids, glyd_error *err)
{
    bool parse_special = (flags & GLYD_ENCODE_PARSE_SPECIAL) != 0;
    bool add_special = (flags & GLYD_ENCODE_ADD_SPECIAL) != 0;
    if (glyd_utf8_valid(text.data, text.bytes) < text.bytes) {
        if (glyd_utf8_append_clean(&work->clean, text.data, text.bytes) != GLYD_OK)
            GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
        text = (glyd_span){work->clean.data, work->clean.bytes};
    }
    if (glyd_added_cut(tokenizer, &tokenizer->trie, parse_special, text.data, text.bytes,
                       &work->cuts) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    const glyd_cut *cuts = (const glyd_cut *)(void *)work->cuts.data;
    if (add_special)
        GLYD_TRY(append_ids(ids, tokenizer->before.data, tokenizer->before.n, err));
    for (size_t i = 0; i < work->cuts.bytes / sizeof *cuts; i++) {
        glyd_span part = {text.data + cuts[i].first, cuts[i].end - cuts[i].first};
        work->is_start = i == 0;
        if (cuts[i].token >= 0)
            GLYD_TRY(append_ids(ids, &tokenizer->added[cuts[i].token].id, 1, err));
        else
            GLYD_TRY(encode_raw(tokenizer, work, part, parse_special, ids, err));
    }
    if (add_special)
        GLYD_TRY(append_ids(ids, tokenizer->after.data, tokenizer->after.n, err));
    return GLYD_OK;
}

glyd_status glyd_tokenizer_encode(const glyd_tokenizer *tokenizer, const char *text, size_t bytes,
                                  unsigned flags, glyd_ids *ids, glyd_error *err)
{
    if (bytes > GLYD_TEXT_BYTES_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT, "the text has %zu bytes; at most %zu are encoded", bytes,
                  GLYD_TEXT_BYTES_MAX);
    glyd_encode_work work = {0};
    size_t n = ids->n;
    glyd_span span = {(const uint8_t *)(bytes ? text : ""), bytes};
    glyd_status status = encode(tokenizer, &work, span, flags, ids, err);
    if (status != GLYD_OK)
        ids->n = n;
    glyd_encode_work_deinit(&work);
    return status;
}
