/* blocks.h - an answer as a row of blocks: reasoning, text, calls; one is open at a time.
 *
 * What /v1/responses (output items) and /v1/messages (content blocks) have in common.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_BLOCKS_H
#define GLYD_SERVER_BLOCKS_H

#include "server/generation.h"

typedef enum glyd_block_kind {
    GLYD_BLOCK_TEXT,
    GLYD_BLOCK_REASONING,
    GLYD_BLOCK_CALL,
} glyd_block_kind;

typedef struct glyd_blocks glyd_blocks;

/* How an endpoint writes blocks. A block's `text` is whole when it closes. */
typedef struct glyd_block_writer {
    void (*open)(glyd_blocks *b);
    void (*delta)(glyd_blocks *b, const glyd_buf *text); /* since the last delta */
    json_t *(*close)(glyd_blocks *b);                    /* the finished block; NULL: no memory */
} glyd_block_writer;

/* In a sequence's state. Zero but for `writer` and `sequence`; free with glyd_blocks_drop. */
struct glyd_blocks {
    const glyd_block_writer *writer;
    glyd_sequence *sequence;
    json_t *done; /* array of finished blocks; owned */
    bool is_open;
    glyd_block_kind kind; /* of the open block, */
    int index;            /* and its place */
    char call_id[GLYD_CALL_ID_BYTES];
    json_t *name; /* of a call */
    glyd_buf text, unsent;
    bool has_failed; /* no memory */
};

void glyd_blocks_take(glyd_blocks *b, const glyd_answer_event *event);
void glyd_blocks_flush(glyd_blocks *b); /* send what is unsent */
void glyd_blocks_end(glyd_blocks *b);   /* close; an answer without blocks gets an empty text */
void glyd_blocks_drop(glyd_blocks *b);

/* For glyd_writer.flush: the same, and an error where memory ran out. */
void glyd_blocks_flush_or_fail(glyd_blocks *b);

#endif
