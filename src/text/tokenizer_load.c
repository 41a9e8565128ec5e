/* tokenizer_load.c - from tokenizer.json to a tokenizer: the vocabulary, the added tokens, and the
 * steps (tokenizer_steps.c). What is not built is refused by name.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer.h"
#include "text/tokenizer_merges.h"
#include "text/tokenizer_steps.h"
#include <stdlib.h>
#include <string.h>

/* --- model --- */
static glyd_status refuse_option(const json_t *model, const char *key, glyd_error *err)
{
    const json_t *value = json_object_get(model, key);
    bool is_off = !value || json_is_null(value) ||
                  (json_is_string(value) && json_string_length(value) == 0) ||
                  (json_is_number(value) && json_number_value(value) == 0);
    if (!is_off)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "model: \"%s\" is not supported", key);
    return GLYD_OK;
}

static glyd_status load_vocab(glyd_bpe *bpe, const json_t *vocab, glyd_error *err)
{
    const char *text;
    size_t bytes;
    json_t *id;
    if (!json_is_object(vocab))
        GLYD_FAIL(err, GLYD_E_FORMAT, "model: \"vocab\" must be an object");
    glyd_status status = glyd_bpe_init(bpe, json_object_size(vocab));
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "the vocabulary has %zu tokens", json_object_size(vocab));
    json_t *members = (json_t *)(uintptr_t)vocab; /* jansson iterates over non-const objects */
    json_object_keylen_foreach(members, text, bytes, id)
    {
        if (!json_is_integer(id))
            GLYD_FAIL(err, GLYD_E_FORMAT, "model: the id of token \"%s\" is not an integer", text);
        GLYD_TRY(glyd_bpe_add(bpe, text, bytes, json_integer_value(id), err));
    }
    glyd_bpe_finish(bpe);
    return GLYD_OK;
}

/* "a b" or ["a", "b"]; *left is NULL for a line that says nothing. */
static glyd_status read_merge(const json_t *merge, size_t i, glyd_span *left, glyd_span *right,
                              glyd_error *err)
{
    const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
    if (json_array_size(merge) == 2 && json_is_string(a) && json_is_string(b)) {
        *left = (glyd_span){(const uint8_t *)json_string_value(a), json_string_length(a)};
        *right = (glyd_span){(const uint8_t *)json_string_value(b), json_string_length(b)};
        return GLYD_OK;
    }
    const char *text = json_string_value(merge);
    const char *space = text ? strchr(text, ' ') : NULL;
    *left = (glyd_span){NULL, 0};
    if (text && strncmp(text, "#version", 8) == 0)
        return GLYD_OK;
    if (!space || strchr(space + 1, ' '))
        GLYD_FAIL(err, GLYD_E_FORMAT, "model: merge %zu is not a pair", i);
    *left = (glyd_span){(const uint8_t *)text, (size_t)(space - text)};
    *right = (glyd_span){(const uint8_t *)space + 1, strlen(space + 1)};
    return GLYD_OK;
}

static glyd_status load_merges(glyd_bpe *bpe, const json_t *merges, glyd_error *err)
{
    if (!json_is_array(merges))
        GLYD_FAIL(err, GLYD_E_FORMAT, "model: \"merges\" must be an array");
    size_t n = json_array_size(merges);
    uint32_t rank = 0;
    glyd_buf scratch = {0};
    glyd_status status = glyd_bpe_merges_init(bpe, n);
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "there are %zu merges", n);
    for (size_t i = 0; status == GLYD_OK && i < n; i++) {
        glyd_span left, right = {NULL, 0};
        status = read_merge(json_array_get(merges, i), i, &left, &right, err);
        if (status == GLYD_OK && left.data)
            status = glyd_bpe_merges_add(bpe, left, right, rank++, &scratch, err);
    }
    glyd_buf_free(&scratch);
    return status;
}

/* The merges that were cut out of the text. */
static glyd_status load_merge_list(glyd_bpe *bpe, glyd_merge_list list, size_t n, glyd_error *err)
{
    glyd_buf scratch[2] = {{0}, {0}};
    uint32_t rank = 0;
    glyd_status status = glyd_bpe_merges_init(bpe, n);
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "there are %zu merges", n);
    for (bool found = true; found;) {
        glyd_span left, right;
        status = glyd_merges_next(&list, &scratch[0], &found, &left, &right);
        if (status != GLYD_OK)
            glyd_error_set(err, status, "out of memory");
        else if (found)
            status = glyd_bpe_merges_add(bpe, left, right, rank++, &scratch[1], err);
        found = found && status == GLYD_OK;
    }
    glyd_buf_free(&scratch[0]);
    glyd_buf_free(&scratch[1]);
    return status;
}

static glyd_status load_model(glyd_bpe *bpe, const json_t *model, const glyd_merge_list *list,
                              size_t n_merges, glyd_error *err)
{
    static const char *const refused[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix"};
    const char *type, *unknown;
    if (!json_is_object(model))
        GLYD_FAIL(err, GLYD_E_FORMAT, "\"model\" must be an object");
    GLYD_TRY(glyd_json_text_or(model, "type", "BPE", "model", &type, err));
    if (strcmp(type, "BPE") != 0)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "model type %s is not supported", type);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        GLYD_TRY(refuse_option(model, refused[i], err));
    GLYD_TRY(load_vocab(bpe, json_object_get(model, "vocab"), err));
    if (list->text.data)
        GLYD_TRY(load_merge_list(bpe, *list, n_merges, err));
    else
        GLYD_TRY(load_merges(bpe, json_object_get(model, "merges"), err));
    GLYD_TRY(glyd_json_bool_or(model, "fuse_unk", false, "model", &bpe->fuse_unknown, err));
    GLYD_TRY(glyd_json_bool_or(model, "byte_fallback", false, "model", &bpe->byte_fallback, err));
    GLYD_TRY(glyd_json_bool_or(model, "ignore_merges", false, "model", &bpe->ignore_merges, err));
    GLYD_TRY(glyd_json_text_or(model, "unk_token", NULL, "model", &unknown, err));
    if (unknown) {
        int32_t id = glyd_bpe_find(bpe, (const uint8_t *)unknown, strlen(unknown));
        bpe->unknown = id >= 0 ? id : GLYD_UNKNOWN_FAILS;
    }
    return GLYD_OK;
}

/* --- added tokens --- */

/* The id: the model's where it has the token, else the next free one, whatever the file says. A
 * file that says otherwise was not made by the reference, and is refused. */
static glyd_status add_token(glyd_tokenizer *t, const json_t *entry, int32_t *id_next,
                             glyd_error *err)
{
    static const char where[] = "added_tokens";
    glyd_added_token token;
    const char *content;
    int64_t id_said;
    GLYD_TRY(glyd_json_text(entry, "content", where, &content, err));
    GLYD_TRY(glyd_json_int(entry, "id", 0, GLYD_ID_MAX - 1, where, &id_said, err));
    GLYD_TRY(glyd_json_bool_or(entry, "single_word", false, where, &token.single_word, err));
    GLYD_TRY(glyd_json_bool_or(entry, "lstrip", false, where, &token.lstrip, err));
    GLYD_TRY(glyd_json_bool_or(entry, "rstrip", false, where, &token.rstrip, err));
    GLYD_TRY(glyd_json_bool_or(entry, "special", false, where, &token.special, err));
    GLYD_TRY(glyd_json_bool_or(entry, "normalized", !token.special, where, &token.normalized, err));
    size_t bytes = strlen(content);
    if (bytes == 0)
        return GLYD_OK; /* it can never be found */
    if (bytes > GLYD_ADDED_BYTES_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT, "%s: a token of %zu bytes; at most %d are supported", where,
                  bytes, GLYD_ADDED_BYTES_MAX);
    int32_t id = glyd_bpe_find(&t->bpe, (const uint8_t *)content, bytes);
    if (id < 0) {
        id = *id_next;
        GLYD_TRY(glyd_bpe_add(&t->bpe, content, bytes, id, err));
        *id_next = id + 1;
    }
    if (id != id_said)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "%s: \"%s\" has id %lld in the file but %d by its place in the vocabulary", where,
                  content, (long long)id_said, (int)id);
    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == id)
            GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"%s\" is there twice", where, content);
    token.id = id;
    t->bpe.tokens[id].is_special = t->bpe.tokens[id].is_skipped = token.special;
    t->added[t->n_added++] = token;
    return GLYD_OK;
}

/* Put the tokens that are (not) special into the tree that each belongs to. */
static glyd_status index_tokens(glyd_tokenizer *t, glyd_encode_work *work, bool special,
                                glyd_error *err)
{
    for (size_t i = 0; i < t->n_added; i++) {
        const glyd_added_token *token = &t->added[i];
        const glyd_span written = glyd_tokenizer_token(t, token->id);
        glyd_span text = written;
        if (token->special != special)
            continue;
        glyd_trie *trie = token->normalized ? &t->trie_normalized : &t->trie;
        if (token->normalized)
            GLYD_TRY(glyd_normalize(t->normalizers, t->n_normalizers, work, text, &text, err));
        if (text.bytes == 0)
            GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                      "added_tokens: a token that normalises to nothing (\"%.*s\")",
                      (int)written.bytes, (const char *)written.data);
        glyd_status status = glyd_trie_add(trie, text.data, text.bytes, (int32_t)i);
        if (status == GLYD_OK && text.data != written.data)
            status = glyd_bpe_show(&t->bpe, token->id, text);
        if (status != GLYD_OK)
            GLYD_FAIL(err, status, "out of memory for added tokens");
    }
    return GLYD_OK;
}

static glyd_status load_added(glyd_tokenizer *t, const json_t *tokens, glyd_error *err)
{
    enum { N_MAX = 100 * 1000 };
    if (!tokens || json_is_null(tokens))
        return GLYD_OK;
    size_t n = json_array_size(tokens);
    if (!json_is_array(tokens) || n > N_MAX)
        GLYD_FAIL(err, GLYD_E_FORMAT, "\"added_tokens\" must be an array of at most %d tokens",
                  N_MAX);
    t->added = calloc(n ? n : 1, sizeof *t->added);
    if (!t->added)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    int32_t id_next = (int32_t)t->bpe.n_tokens;
    for (size_t i = 0; i < n; i++)
        GLYD_TRY(add_token(t, json_array_get(tokens, i), &id_next, err));
    glyd_encode_work work = {0};
    glyd_status status = index_tokens(t, &work, true, err);
    if (status == GLYD_OK)
        status = index_tokens(t, &work, false, err);
    glyd_encode_work_deinit(&work);
    return status;
}

/* The byte-level alphabet: printable characters of Latin-1 stand for themselves, the other bytes,
 * in order, for the points from 256 on. */
static void fill_alphabet(glyd_tokenizer *t)
{
    uint16_t other = 256;
    memset(t->byte_of_point, 0xff, sizeof t->byte_of_point);
    for (int byte = 0; byte < 256; byte++) {
        bool is_printable =
            (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        t->point_of_byte[byte] = is_printable ? (uint16_t)byte : other++;
        t->byte_of_point[t->point_of_byte[byte]] = (int16_t)byte;
    }
}

static glyd_status load_parts(glyd_tokenizer *t, const json_t *root, const glyd_merge_list *list,
                              size_t n_merges, glyd_error *err)
{
    if (!json_is_object(root))
        GLYD_FAIL(err, GLYD_E_FORMAT, "tokenizer.json must be an object");
    GLYD_TRY(load_model(&t->bpe, json_object_get(root, "model"), list, n_merges, err));
    GLYD_TRY(glyd_load_normalizer(t, json_object_get(root, "normalizer"), err));
    GLYD_TRY(load_added(t, json_object_get(root, "added_tokens"), err));
    GLYD_TRY(glyd_load_pretokenizer(t, json_object_get(root, "pre_tokenizer"), err));
    GLYD_TRY(glyd_load_postprocessor(t, json_object_get(root, "post_processor"), err));
    return glyd_load_decoder(t, json_object_get(root, "decoder"), err);
}

glyd_status glyd_tokenizer_load(glyd_tokenizer *tokenizer, glyd_span json, glyd_error *err)
{
    json_t *root = NULL;
    glyd_buf rest = {0};
    glyd_merge_list list;
    size_t n_merges;
    if (json.bytes > GLYD_TEXT_BYTES_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT, "tokenizer.json has %zu bytes; at most %zu are read",
                  json.bytes, GLYD_TEXT_BYTES_MAX);
    fill_alphabet(tokenizer);
    glyd_merges_find(json, &list, &n_merges);
    glyd_status status = GLYD_OK;
    if (list.text.data) {
        /* The text without the list's inside: up to [, and from ] on. */
        const uint8_t *close = list.text.data + list.text.bytes - 1;
        status = glyd_buf_append(&rest, json.data, (size_t)(list.text.data - json.data));
        if (status == GLYD_OK)
            status = glyd_buf_append(&rest, close, (size_t)(json.data + json.bytes - close));
        if (status != GLYD_OK) {
            glyd_error_set(err, status, "out of memory");
            goto done;
        }
        /* An error is reported by its place in the whole text, so that is parsed again then. */
        status = glyd_json_parse((glyd_span){rest.data, rest.bytes}, "", &root, NULL);
        if (status == GLYD_E_NOMEM) {
            glyd_error_set(err, status, "out of memory for tokenizer.json");
            goto done;
        }
        if (!root)
            list.text.data = NULL;
    }
    if (!root)
        GLYD_TRY_DONE(glyd_json_parse(json, "tokenizer.json", &root, err));
    status = load_parts(tokenizer, root, &list, n_merges, err);
done:
    json_decref(root);
    glyd_buf_free(&rest);
    return status;
}
