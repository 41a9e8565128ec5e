/* bpe.h - a vocabulary, and byte-pair encoding of pieces with it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEXT_BPE_H
#define GLYD_TEXT_BPE_H

#include "glyd/base.h"
#include "text/text.h"
#include <stdbool.h>

enum { GLYD_ID_MAX = 1 << 24 }; /* ids are smaller than this; tables grow with the largest id */

enum {
    GLYD_UNKNOWN_DROPS = -1, /* unknown characters give nothing */
    GLYD_UNKNOWN_FAILS = -2  /* the token for them is not in the vocabulary */
};

typedef struct glyd_bpe_token {
    uint32_t at, bytes;             /* in `text` */
    uint32_t shown_at, shown_bytes; /* what decoding starts from: the same, except as below */
    bool is_used;                   /* the id has a token */
    bool is_model;                  /* of the model's vocabulary, not only an added token */
    bool is_special;
    bool is_skipped; /* decoding without special tokens skips it */
} glyd_bpe_token;

/* An entry of the table from text to id; the hash spares most looks at other tokens' texts. */
typedef struct glyd_slot {
    int32_t id; /* -1: empty */
    uint32_t hash;
} glyd_slot;

/* A pair of ids that merges: an entry of an open-addressing table, empty where rank is
 * UINT32_MAX. */
typedef struct glyd_merge {
    int32_t left, right;
    uint32_t rank;
    int32_t id; /* what the pair becomes */
} glyd_merge;

typedef struct glyd_bpe {
    glyd_buf text; /* all tokens, one after another */
    glyd_bpe_token *tokens;
    int32_t n_ids; /* one more than the largest id */
    int32_t n_ids_capacity;
    glyd_slot *slots; /* text to id, by open addressing */
    size_t n_slots;   /* a power of two */
    size_t n_tokens;
    glyd_merge *merges;
    size_t n_merge_slots;       /* a power of two; 0: no merges */
    int32_t id_of_point[0x400]; /* ids of one-character tokens; -1: none */
    int32_t id_of_byte[256];    /* ids of <0x00> ... <0xFF>; -1: none */
    int32_t unknown;            /* the token of unknown characters, or one of the below */
    bool fuse_unknown, byte_fallback, ignore_merges;
} glyd_bpe;

/* Begin an empty vocabulary with room for n_tokens. */
GLYD_MUST_CHECK glyd_status glyd_bpe_init(glyd_bpe *bpe, size_t n_tokens);
void glyd_bpe_deinit(glyd_bpe *bpe);

/* Add a token under an id that has none. Errors: E_FORMAT (id or text taken, id out of range),
 * E_LIMIT (hash collisions by design), E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_bpe_add(glyd_bpe *bpe, const char *text, size_t bytes, int64_t id,
                                         glyd_error *err);

/* Let decoding start from another text: an added token that is matched after normalising shows its
 * normalised form, and is then skipped only if that form is a special token too. */
GLYD_MUST_CHECK glyd_status glyd_bpe_show(glyd_bpe *bpe, int32_t id, glyd_span text);

/* The id of a token; -1 where there is none. */
int32_t glyd_bpe_find(const glyd_bpe *bpe, const uint8_t *text, size_t bytes);

/* Once the model's tokens are in: make room for n merges, add them, best first. A pair that is
 * there already gets the new rank. Errors: E_FORMAT (not in the vocabulary), E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_bpe_merges_init(glyd_bpe *bpe, size_t n);
GLYD_MUST_CHECK glyd_status glyd_bpe_merges_add(glyd_bpe *bpe, glyd_span left, glyd_span right,
                                                uint32_t rank, glyd_buf *scratch, glyd_error *err);

/* Fill the tables that are derived from the vocabulary. */
void glyd_bpe_finish(glyd_bpe *bpe);

/* What encoding needs; zero-initialise. */
typedef struct glyd_bpe_work {
    glyd_buf symbols, links, heap;
} glyd_bpe_work;

void glyd_bpe_work_deinit(glyd_bpe_work *work);

/* Append the ids of a piece of valid UTF-8. Errors: E_FORMAT (GLYD_UNKNOWN_FAILS), E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_bpe_encode(const glyd_bpe *bpe, const uint8_t *piece, size_t bytes,
                                            glyd_bpe_work *work, glyd_ids *ids);

GLYD_MUST_CHECK glyd_status glyd_ids_append(glyd_ids *ids, const int32_t *data, size_t n);

#endif
