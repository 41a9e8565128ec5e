/* vocabulary.h - the tokens of a vocabulary as two tries.
 *
 * A trie is an array of nodes in the order of a walk: a node is followed by its first child, and
 * says how many nodes to skip to pass by all below it. Plain tokens are whole characters that a
 * JSON string holds as they are; where any string may go on, all of them are allowed at once and
 * only the others need a walk.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CONSTRAINT_VOCABULARY_H
#define GLYD_CONSTRAINT_VOCABULARY_H

#include "constraint/constraint.h"

enum {
    GLYD_TOKEN_BYTES_MAX = 512, /* longer tokens never match */
    GLYD_PLAIN_CHARS_MAX = 32,  /* plain tokens are counted apart up to this many characters */
};

typedef struct glyd_trie_node {
    uint32_t skip;  /* the next node that is not below this one */
    uint32_t ids;   /* where the tokens that end here start in `ids` */
    uint16_t n_ids; /* how many */
    uint16_t depth; /* bytes read with this one, from 1 */
    uint8_t byte;
} glyd_trie_node;

typedef struct glyd_trie {
    glyd_buf nodes; /* glyd_trie_node */
    glyd_buf ids;   /* int32_t */
    uint32_t n;     /* nodes */
} glyd_trie;

typedef struct glyd_long_token {
    int32_t id, chars;
} glyd_long_token;

struct glyd_vocabulary {
    int32_t n;       /* one more than the largest id */
    size_t n_words;  /* of a mask: 64 ids each */
    glyd_buf text;   /* all tokens, one after another */
    glyd_buf ends;   /* uint32_t: where token i ends in `text`; it starts where i - 1 ends */
    glyd_trie plain; /* plain tokens */
    glyd_trie other;
    uint64_t *plain_masks;    /* of plain tokens: row k has those of at most k + 1 characters */
    glyd_buf longer;          /* glyd_long_token: plain tokens of more than the rows tell apart */
    int32_t quoted_bytes_max; /* the most bytes of another token that can be within a string */
};

glyd_span glyd_vocabulary_token(const glyd_vocabulary *vocabulary, int32_t id);

/* Add the plain tokens of at most n characters to a mask. */
void glyd_vocabulary_add_plain(const glyd_vocabulary *vocabulary, int32_t n, uint64_t *mask);

#endif
