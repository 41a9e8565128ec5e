/* tokenizer.h - what a tokenizer is made of; shared by the files that build and use it.
 *
 * tokenizer_load.c fills a glyd_tokenizer from JSON and nothing changes it afterwards. Encoding
 * goes down this page: added tokens are cut out, the rest is normalised, cut into pieces, and each
 * piece becomes ids. Decoding runs the decoder steps.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEXT_TOKENIZER_H
#define GLYD_TEXT_TOKENIZER_H

#include "text/bpe.h"
#include "text/regex.h"
#include "text/text.h"

enum {
    GLYD_STEPS_MAX = 32,         /* of a Sequence */
    GLYD_BYTE_POINTS = 256 + 68, /* the byte-level alphabet uses the points below this */
    GLYD_ADDED_BYTES_MAX = 1024  /* of an added token */
};

/* --- added tokens --- */
typedef struct glyd_added_token {
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} glyd_added_token;

/* A prefix tree: each node names its first child and its next sibling, 0 for none. */
typedef struct glyd_trie_node {
    uint32_t child, sibling;
    int32_t token; /* index into the added tokens; -1: none ends here */
    uint8_t byte;
} glyd_trie_node;

typedef struct glyd_trie {
    glyd_trie_node *nodes; /* node 0 is the root; NULL: an empty tree */
    uint32_t n, capacity;
    uint32_t first[256]; /* the root's children by byte, 0 for none */
} glyd_trie;

GLYD_MUST_CHECK glyd_status glyd_trie_add(glyd_trie *trie, const uint8_t *text, size_t bytes,
                                          int32_t token);
void glyd_trie_deinit(glyd_trie *trie);

/* A run of text, or (token >= 0) an added token that was found in it. */
typedef struct glyd_cut {
    size_t first, end;
    int32_t token;
} glyd_cut;

/* Append the cuts of a text, in order, to an array of glyd_cut. With parse_special false, special
 * tokens stay text. */
GLYD_MUST_CHECK glyd_status glyd_added_cut(const glyd_tokenizer *tokenizer, const glyd_trie *trie,
                                           bool parse_special, const uint8_t *text, size_t bytes,
                                           glyd_buf *cuts);

/* --- normalisers --- */
typedef enum glyd_form { GLYD_NFC, GLYD_NFD, GLYD_NFKC, GLYD_NFKD } glyd_form;

typedef struct glyd_normalizer {
    enum { GLYD_NORMAL_FORM, GLYD_NORMAL_REPLACE, GLYD_NORMAL_PREPEND } kind;
    glyd_form form;
    glyd_regex *regex; /* REPLACE: what */
    glyd_buf content;  /* REPLACE: by what; PREPEND: what */
} glyd_normalizer;

/* --- pre-tokenizers --- */
typedef enum glyd_behavior {
    GLYD_REMOVED,
    GLYD_ISOLATED,
    GLYD_MERGED_WITH_PREVIOUS,
    GLYD_MERGED_WITH_NEXT,
    GLYD_CONTIGUOUS
} glyd_behavior;

typedef struct glyd_pretokenizer {
    enum {
        GLYD_PIECE_SPLIT, /* cut pieces at the matches of a pattern */
        GLYD_PIECE_SPACE, /* put a space before each piece that does not begin with one */
        GLYD_PIECE_META,  /* spaces become `mark`, and one may be put before the piece */
        GLYD_PIECE_BYTES  /* write each byte as a character of the byte-level alphabet */
    } kind;
    glyd_regex *regex;
    glyd_behavior behavior;
    bool invert;
    enum { GLYD_PREPEND_NEVER, GLYD_PREPEND_FIRST, GLYD_PREPEND_ALWAYS } prepend;
    char mark[5]; /* META: one character, usually U+2581 */
} glyd_pretokenizer;

/* --- decoders --- */
typedef struct glyd_decoder {
    enum {
        GLYD_DECODE_BYTES,         /* the byte-level alphabet back to bytes */
        GLYD_DECODE_BYTE_FALLBACK, /* <0xE2> to its byte */
        GLYD_DECODE_REPLACE,
        GLYD_DECODE_STRIP,
        GLYD_DECODE_META /* `point` to a space; in the first token, to nothing */
    } kind;
    bool is_fused; /* the steps before made one text of all tokens */
    glyd_regex *regex;
    glyd_buf content;
    uint32_t point;      /* STRIP, META: the character */
    int64_t start, stop; /* STRIP: at most how many of them at either end */
    bool keeps_first;    /* META: the first token is like the others */
} glyd_decoder;

struct glyd_tokenizer {
    glyd_bpe bpe;
    glyd_added_token *added;
    size_t n_added;
    glyd_trie trie, trie_normalized; /* tokens found before and after normalising */
    glyd_normalizer normalizers[GLYD_STEPS_MAX];
    size_t n_normalizers;
    glyd_pretokenizer pretokenizers[GLYD_STEPS_MAX];
    size_t n_pretokenizers;
    glyd_decoder decoders[GLYD_STEPS_MAX];
    size_t n_decoders;
    bool join_with_spaces;  /* there is no decoder */
    glyd_ids before, after; /* the post-processor's tokens */
    uint16_t point_of_byte[256];
    int16_t byte_of_point[GLYD_BYTE_POINTS]; /* -1: not of the alphabet */
};

typedef struct glyd_piece {
    uint32_t first, end; /* in the bytes of `text` */
} glyd_piece;

/* Everything that encoding one text needs besides the tokenizer. */
typedef struct glyd_encode_work {
    glyd_scan *normal_scans[GLYD_STEPS_MAX];
    glyd_scan *piece_scans[GLYD_STEPS_MAX];
    bool is_start;             /* what is being encoded begins the whole text */
    glyd_buf clean;            /* the text made valid */
    glyd_buf cuts, cuts_after; /* before and after normalising */
    glyd_buf normal[2];        /* the outputs of normalisers, in turn */
    glyd_buf points[2];        /* code points being normalised */
    glyd_buf text[2];          /* the outputs of pre-tokenizers, in turn */
    glyd_buf pieces[2];
    glyd_bpe_work bpe;
} glyd_encode_work;

/* Normalise a text. The result is the text itself or lies in the work's buffers. */
GLYD_MUST_CHECK glyd_status glyd_normalize(const glyd_normalizer *normalizers, size_t n,
                                           glyd_encode_work *work, glyd_span text, glyd_span *out,
                                           glyd_error *err);

/* Cut a text into pieces; both lie in the work's buffers, or the text is as it was. */
GLYD_MUST_CHECK glyd_status glyd_pretokenize(const glyd_tokenizer *tokenizer,
                                             glyd_encode_work *work, glyd_span text, glyd_span *out,
                                             const glyd_piece **pieces, size_t *n_pieces,
                                             glyd_error *err);

/* Replace every match: append the new text to `out`. */
GLYD_MUST_CHECK glyd_status glyd_replace(glyd_scan *scan, glyd_span text, glyd_span by,
                                         glyd_buf *out, glyd_error *err);

void glyd_encode_work_deinit(glyd_encode_work *work);

/* Fill a zeroed tokenizer; the caller closes it whatever the result. */
GLYD_MUST_CHECK glyd_status glyd_tokenizer_load(glyd_tokenizer *tokenizer, glyd_span json,
                                                glyd_error *err);

#endif
