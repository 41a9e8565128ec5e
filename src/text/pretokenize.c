/* pretokenize.c - the pre-tokenizers: a text cut into pieces, step by step.
 *
 * The state is a text and an array of spans in it. Cutting rewrites the spans; the steps that
 * change text write a new one. Each piece is a text of its own to the step after: patterns do not
 * look beyond it. Pieces are never empty.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "text/tokenizer.h"
#include <string.h>

/* The cut of one piece: matches and what is between them arrive in order, and each either joins
 * the span before it or begins a new one. */
typedef struct cutter {
    const glyd_pretokenizer *step;
    glyd_buf *out;
    size_t base;        /* where the piece's spans begin in `out`, in bytes */
    bool last_is_match; /* of the item before this one */
} cutter;

static bool joins(const cutter *c, bool is_match)
{
    if (c->out->bytes == c->base)
        return false;
    switch (c->step->behavior) {
    case GLYD_CONTIGUOUS:
        return is_match == c->last_is_match;
    case GLYD_MERGED_WITH_PREVIOUS:
        return is_match && !c->last_is_match;
    case GLYD_MERGED_WITH_NEXT:
        return !is_match && c->last_is_match;
    default:
        return false;
    }
}

static glyd_status add_item(cutter *c, size_t first, size_t end, bool is_match)
{
    glyd_status status = GLYD_OK;
    is_match = is_match != c->step->invert;
    if (is_match && c->step->behavior == GLYD_REMOVED)
        return GLYD_OK;
    if (joins(c, is_match)) {
        glyd_piece *last = (glyd_piece *)(void *)(c->out->data + c->out->bytes) - 1;
        last->end = (uint32_t)end;
    } else {
        glyd_piece piece = {(uint32_t)first, (uint32_t)end};
        status = glyd_buf_append(c->out, &piece, sizeof piece);
    }
    c->last_is_match = is_match;
    return status;
}

/* Empty matches took part in the joining; as pieces they go. */
static void drop_empty(cutter *c)
{
    if (c->out->bytes == c->base)
        return;
    glyd_piece *pieces = (glyd_piece *)(void *)(c->out->data + c->base);
    size_t n = (c->out->bytes - c->base) / sizeof *pieces, kept = 0;
    for (size_t i = 0; i < n; i++)
        if (pieces[i].first < pieces[i].end)
            pieces[kept++] = pieces[i];
    c->out->bytes = c->base + kept * sizeof *pieces;
}

static glyd_status split_piece(const glyd_pretokenizer *step, glyd_scan *scan, const uint8_t *text,
                               glyd_piece piece, glyd_buf *out, glyd_error *err)
{
    /* Before the first item stands what behaves like the end of an item that is no match, except
     * that nothing can join it. */
    cutter c = {step, out, out->bytes, false};
    size_t bytes = piece.end - piece.first, at = 0;
    glyd_scan_start(scan, text + piece.first, bytes);
    for (;;) {
        bool found;
        size_t first = bytes, end = bytes;
        GLYD_TRY(glyd_scan_next(scan, &found, &first, &end, err));
        if (at < first && add_item(&c, piece.first + at, piece.first + first, false) != GLYD_OK)
            GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
        if (!found)
            break;
        if (add_item(&c, piece.first + first, piece.first + end, true) != GLYD_OK)
            GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
        at = end;
    }
    drop_empty(&c);
    return GLYD_OK;
}

static glyd_status split(const glyd_pretokenizer *step, glyd_scan **scan, const uint8_t *text,
                         const glyd_piece *pieces, size_t n, glyd_buf *out, glyd_error *err)
{
    if (!*scan && glyd_scan_create(step->regex, scan) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        GLYD_TRY(split_piece(step, *scan, text, pieces[i], out, err));
    return GLYD_OK;
}

/* A piece with its spaces written as `mark`, and one before it where the step says so. */
static glyd_status put_marked(const glyd_pretokenizer *step, bool is_start, const uint8_t *piece,
                              size_t bytes, glyd_buf *out)
{
    size_t n_mark = strlen(step->mark);
    bool has_mark = piece[0] == ' ' || (bytes >= n_mark && memcmp(piece, step->mark, n_mark) == 0);
    bool may_prepend =
        step->prepend == GLYD_PREPEND_ALWAYS || (step->prepend == GLYD_PREPEND_FIRST && is_start);
    if (may_prepend && !has_mark)
        GLYD_TRY(glyd_buf_append(out, step->mark, n_mark));
    for (size_t at = 0; at < bytes;) {
        const uint8_t *space = memchr(piece + at, ' ', bytes - at);
        size_t end = space ? (size_t)(space - piece) : bytes;
        GLYD_TRY(glyd_buf_append(out, piece + at, end - at));
        if (space)
            GLYD_TRY(glyd_buf_append(out, step->mark, n_mark));
        at = end + (space != NULL);
    }
    return GLYD_OK;
}

/* SPACE, or META: each piece written anew. */
static glyd_status put_spaces(const glyd_pretokenizer *step, bool is_start, const uint8_t *text,
                              const glyd_piece *pieces, size_t n, glyd_buf *out_text, glyd_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        glyd_piece moved = {(uint32_t)out_text->bytes, 0};
        GLYD_TRY(put_marked(step, is_start && i == 0, text + pieces[i].first,
                            pieces[i].end - pieces[i].first, out_text));
        if (out_text->bytes > 2 * GLYD_TEXT_BYTES_MAX)
            return GLYD_E_LIMIT;
        moved.end = (uint32_t)out_text->bytes;
        GLYD_TRY(glyd_buf_append(out, &moved, sizeof moved));
    }
    return GLYD_OK;
}

/* Each byte as a character of the byte-level alphabet: one or two bytes of UTF-8. */
static glyd_status put_bytes(const glyd_tokenizer *tokenizer, const uint8_t *text,
                             const glyd_piece *pieces, size_t n, glyd_buf *out_text, glyd_buf *out)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += pieces[i].end - pieces[i].first;
    GLYD_TRY(glyd_buf_resize(out_text, 2 * bytes));
    GLYD_TRY(glyd_buf_resize(out, n * sizeof(glyd_piece)));
    glyd_piece *moved = (glyd_piece *)(void *)out->data;
    uint8_t *to = out_text->data;
    for (size_t i = 0; i < n; i++) {
        moved[i].first = (uint32_t)(to - out_text->data);
        for (uint32_t j = pieces[i].first; j < pieces[i].end; j++) {
            uint32_t point = tokenizer->point_of_byte[text[j]];
            if (point >= 0x80) {
                *to++ = (uint8_t)(0xc0 | point >> 6);
                point = 0x80 | (point & 0x3f);
            }
            *to++ = (uint8_t)point;
        }
        moved[i].end = (uint32_t)(to - out_text->data);
    }
    out_text->bytes = (size_t)(to - out_text->data);
    return GLYD_OK;
}

static glyd_status run_step(const glyd_tokenizer *tokenizer, glyd_encode_work *work, size_t i_step,
                            const uint8_t **text, const glyd_piece *pieces, size_t n, glyd_buf *out,
                            glyd_error *err)
{
    const glyd_pretokenizer *step = &tokenizer->pretokenizers[i_step];
    if (step->kind == GLYD_PIECE_SPLIT)
        return split(step, &work->piece_scans[i_step], *text, pieces, n, out, err);
    glyd_buf *out_text = &work->text[*text == work->text[0].data];
    out_text->bytes = 0;
    glyd_status status = step->kind == GLYD_PIECE_BYTES
                             ? put_bytes(tokenizer, *text, pieces, n, out_text, out)
                             : put_spaces(step, work->is_start, *text, pieces, n, out_text, out);
    if (status == GLYD_E_NOMEM)
        GLYD_FAIL(err, status, "out of memory");
    if (status != GLYD_OK || out_text->bytes > 2 * GLYD_TEXT_BYTES_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT, "the pre-tokenizers made the text longer than %zu bytes",
                  2 * GLYD_TEXT_BYTES_MAX);
    *text = out_text->data;
    return GLYD_OK;
}

glyd_status glyd_pretokenize(const glyd_tokenizer *tokenizer, glyd_encode_work *work,
                             glyd_span text, glyd_span *out, const glyd_piece **pieces,
                             size_t *n_pieces, glyd_error *err)
{
    glyd_piece whole = {0, (uint32_t)text.bytes};
    glyd_buf *spans = &work->pieces[0];
    spans->bytes = 0;
    if (glyd_buf_append(spans, &whole, text.bytes ? sizeof whole : 0) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    const uint8_t *at = text.data;
    for (size_t i = 0; i < tokenizer->n_pretokenizers && spans->bytes > 0; i++) {
        glyd_buf *next = &work->pieces[spans == &work->pieces[0]];
        next->bytes = 0;
        GLYD_TRY(run_step(tokenizer, work, i, &at, (const glyd_piece *)(void *)spans->data,
                          spans->bytes / sizeof whole, next, err));
        spans = next;
    }
    *out = (glyd_span){at, text.bytes};
    *pieces = (const glyd_piece *)(void *)spans->data;
    *n_pieces = spans->bytes / sizeof whole;
    return GLYD_OK;
}
