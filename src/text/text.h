/* text.h - between text and token ids: tokenizer.json, encode, decode, and the streaming decoder.
 *
 * Ids equal those of the `tokenizers` package for every text, or the file is refused by name when
 * it is opened. Built: BPE (byte level or byte fallback), the normalisers NFC, NFD, NFKC, NFKD,
 * Replace and Prepend, the pre-tokenizers Split, Digits, ByteLevel and Metaspace, the decoders
 * ByteLevel, ByteFallback, Fuse, Replace, Strip and Metaspace, the post-processors ByteLevel and
 * TemplateProcessing, Sequences of all of these, and added tokens. A file's `truncation` and
 * `padding` are not applied.
 *
 * Text in    any bytes; each broken UTF-8 sequence counts as one U+FFFD, as with Python's
 *            errors="replace". At most GLYD_TEXT_BYTES_MAX.
 * Text out   always valid UTF-8.
 * Threads    a tokenizer is read-only once open: any number of threads may use it. A decoder
 *            belongs to one thread at a time and must not outlive its tokenizer.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEXT_TEXT_H
#define GLYD_TEXT_TEXT_H

#include "glyd/base.h"
#include "text/template.h"
#include <stdbool.h>

#define GLYD_TEXT_BYTES_MAX ((size_t)256 << 20) /* of a text, and of a tokenizer.json */

typedef struct glyd_tokenizer glyd_tokenizer;

/* Token ids on the heap. Zero-initialise, pass to functions that append, free once. */
typedef struct glyd_ids {
    int32_t *data;
    size_t n;
    size_t capacity;
} glyd_ids;

void glyd_ids_free(glyd_ids *ids); /* also resets it to empty; NULL is allowed */

/* Open FOLDER/tokenizer.json, or parse the text of one.
 * Errors: E_NOTFOUND, E_IO, E_FORMAT, E_LIMIT, E_UNSUPPORTED (names the block), E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_tokenizer_open(const char *folder, glyd_tokenizer **tokenizer,
                                                glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_tokenizer_parse(glyd_span json, glyd_tokenizer **tokenizer,
                                                 glyd_error *err);
void glyd_tokenizer_close(glyd_tokenizer *tokenizer); /* NULL is allowed */

/* One more than the largest id. */
int32_t glyd_tokenizer_vocab_size(const glyd_tokenizer *tokenizer);

/* The id of a token written out, such as "<|im_end|>"; -1 where there is none. */
int32_t glyd_tokenizer_id(const glyd_tokenizer *tokenizer, const char *token);

/* A token as the file writes it (for a byte-level model not plain text); empty where the id has
 * none. Borrowed. */
glyd_span glyd_tokenizer_token(const glyd_tokenizer *tokenizer, int32_t id);

/* Whether the file marks the token as special. */
bool glyd_tokenizer_is_special(const glyd_tokenizer *tokenizer, int32_t id);

typedef enum glyd_encode_flags {
    GLYD_ENCODE_ADD_SPECIAL = 1,  /* put the post-processor's tokens (BOS, EOS) around the text */
    GLYD_ENCODE_PARSE_SPECIAL = 2 /* a special token written out in the text becomes its id */
} glyd_encode_flags;

/* Append the ids of a text. A rendered chat template is encoded with PARSE_SPECIAL alone, a user's
 * plain text with neither. On failure `ids` is as it was.
 * Errors: E_LIMIT (too long, or a pattern that takes too many steps), E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_tokenizer_encode(const glyd_tokenizer *tokenizer, const char *text,
                                                  size_t bytes, unsigned flags, glyd_ids *ids,
                                                  glyd_error *err);

typedef enum glyd_decode_flags {
    GLYD_DECODE_SKIP_SPECIAL = 1 /* special tokens give no text */
} glyd_decode_flags;

/* Append the text of ids. Ids that have no token give nothing. Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_tokenizer_decode(const glyd_tokenizer *tokenizer,
                                                  const int32_t *ids, size_t n, unsigned flags,
                                                  glyd_buf *text, glyd_error *err);

/* The same, an id at a time: `push` appends the text that is certain so far and never splits a
 * character, `finish` the rest. All together equal the text of glyd_tokenizer_decode. After
 * `finish` the decoder starts anew. */
typedef struct glyd_detok glyd_detok;

GLYD_MUST_CHECK glyd_status glyd_detok_create(const glyd_tokenizer *tokenizer, unsigned flags,
                                              glyd_detok **detok, glyd_error *err);
void glyd_detok_free(glyd_detok *detok); /* NULL is allowed */
GLYD_MUST_CHECK glyd_status glyd_detok_push(glyd_detok *detok, int32_t id, glyd_buf *text,
                                            glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_detok_finish(glyd_detok *detok, glyd_buf *text, glyd_error *err);

#endif
