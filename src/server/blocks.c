/* blocks.c - an answer as a row of blocks.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/blocks.h"
#include "base/buf.h"
#include "server/reply.h"
#include "server/turn.h"

static bool is_stream(const glyd_blocks *b)
{
    return b->sequence->generation->params.stream;
}

void glyd_blocks_flush(glyd_blocks *b)
{
    if (b->is_open && is_stream(b) && b->unsent.bytes > 0)
        b->writer->delta(b, &b->unsent);
    b->unsent.bytes = 0;
}

static void close_block(glyd_blocks *b)
{
    if (!b->is_open)
        return;
    glyd_blocks_flush(b);
    if (!glyd_array_add(b->done, b->writer->close(b)))
        b->has_failed = true;
    b->is_open = false;
    b->index++;
    b->text.bytes = 0;
    json_decref(b->name);
    b->name = NULL;
}

static void open_block(glyd_blocks *b, glyd_block_kind kind, const glyd_answer_event *event)
{
    close_block(b);
    if (!b->done)
        b->done = json_array();
    b->kind = kind;
    b->is_open = true;
    if (kind == GLYD_BLOCK_CALL) {
        glyd_turn_call_id(b->sequence->generation->x->server, b->call_id);
        b->name = json_stringn((const char *)event->text.data, event->text.bytes);
        b->has_failed = b->has_failed || !b->name;
    }
    if (is_stream(b))
        b->writer->open(b);
}

void glyd_blocks_take(glyd_blocks *b, const glyd_answer_event *event)
{
    glyd_block_kind kind = event->kind == GLYD_ANSWER_CONTENT     ? GLYD_BLOCK_TEXT
                           : event->kind == GLYD_ANSWER_REASONING ? GLYD_BLOCK_REASONING
                                                                  : GLYD_BLOCK_CALL;
    if (kind == GLYD_BLOCK_REASONING && b->sequence->generation->params.hides_reasoning)
        return;
    if (event->kind == GLYD_ANSWER_CALL_END) {
        close_block(b);
        return;
    }
    if (event->kind == GLYD_ANSWER_CALL_BEGIN) {
        open_block(b, kind, event);
        return;
    }
    if (!b->is_open || b->kind != kind)
        open_block(b, kind, event);
    if (glyd_buf_append(&b->text, event->text.data, event->text.bytes) != GLYD_OK ||
        glyd_buf_append(&b->unsent, event->text.data, event->text.bytes) != GLYD_OK)
        b->has_failed = true;
}

void glyd_blocks_end(glyd_blocks *b)
{
    if (!b->is_open && b->index == 0)
        open_block(b, GLYD_BLOCK_TEXT, NULL);
    close_block(b);
}

void glyd_blocks_drop(glyd_blocks *b)
{
    json_decref(b->done);
    json_decref(b->name);
    glyd_buf_free(&b->text);
    glyd_buf_free(&b->unsent);
}

void glyd_blocks_flush_or_fail(glyd_blocks *b)
{
    glyd_error error = {.status = GLYD_E_NOMEM, .text = "out of memory for an answer"};
    if (b->has_failed)
        glyd_generation_fail(b->sequence->generation, &error);
    else
        glyd_blocks_flush(b);
}
