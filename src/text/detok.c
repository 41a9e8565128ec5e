/* detok.c - ids back to text, one at a time.
 *
 * A token's text goes down the decoder steps and what comes out at the end is appended. Two steps
 * hold something back: the byte-level alphabet keeps the bytes of an unfinished character, and byte
 * fallback keeps a run of byte tokens until it ends, because one wrong byte in the run turns all of
 * it into replacement characters.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include <stdlib.h>
#include <string.h>

typedef struct step_state {
    glyd_buf held; /* bytes that wait for more */
    glyd_buf made; /* the step's last output */
    glyd_scan *scan;
    bool has_begun;   /* META: the first token has passed */
    int64_t stripped; /* STRIP of one text: characters taken from its start; -1: done with it */
} step_state;

struct glyd_detok {
    const glyd_tokenizer *tokenizer;
    unsigned flags;
    bool has_begun; /* a token went in */
    step_state steps[GLYD_STEPS_MAX];
};

glyd_status glyd_detok_create(const glyd_tokenizer *tokenizer, unsigned flags, glyd_detok **detok,
                              glyd_error *err)
{
    glyd_detok *d = calloc(1, sizeof *d);
    if (!d)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    d->tokenizer = tokenizer;
    d->flags = flags;
    *detok = d;
    return GLYD_OK;
}

void glyd_detok_free(glyd_detok *detok)
{
    if (!detok)
        return;
    for (int i = 0; i < GLYD_STEPS_MAX; i++) {
        glyd_buf_free(&detok->steps[i].held);
        glyd_buf_free(&detok->steps[i].made);
        glyd_scan_free(detok->steps[i].scan);
    }
    free(detok);
}

/* A token in the byte-level alphabet as bytes; one with any other character as it is. */
static glyd_status append_bytes(const glyd_tokenizer *tokenizer, glyd_span piece, glyd_buf *out)
{
    size_t start = out->bytes;
    for (size_t i = 0; i < piece.bytes;) {
        uint32_t point = 0;
        int length = glyd_utf8_decode(piece.data + i, piece.bytes - i, &point);
        int byte = length > 0 && point < GLYD_BYTE_POINTS ? tokenizer->byte_of_point[point] : -1;
        if (byte < 0) {
            out->bytes = start;
            return glyd_buf_append(out, piece.data, piece.bytes);
        }
        GLYD_TRY(glyd_buf_append(out, &(uint8_t){(uint8_t)byte}, 1));
        i += (size_t)length;
    }
    return GLYD_OK;
}

/* Move what is certain from `held` to `made`: valid text, and a replacement character for what
 * can become none. At the end all is certain. */
static glyd_status settle(step_state *step, bool is_end)
{
    size_t at = 0;
    bool whole = true;
    step->made.bytes = 0;
    while (at < step->held.bytes) {
        const uint8_t *s = step->held.data + at;
        size_t n = step->held.bytes - at, valid = glyd_utf8_valid(s, n);
        GLYD_TRY(glyd_buf_append(&step->made, s, valid));
        at += valid;
        if (valid == n)
            break;
        int broken = glyd_utf8_broken(s + valid, n - valid, &whole);
        if (!whole && !is_end)
            break;
        GLYD_TRY(glyd_buf_append(&step->made, "\xef\xbf\xbd", 3));
        at += (size_t)broken;
    }
    if (at > 0)
        memmove(step->held.data, step->held.data + at, step->held.bytes - at);
    step->held.bytes -= at;
    return GLYD_OK;
}

static int hex_digit(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The byte of a token such as <0xE2>; -1 for any other. */
static int fallback_byte(glyd_span piece)
{
    if (piece.bytes != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>')
        return -1;
    int high = hex_digit(piece.data[3]), low = hex_digit(piece.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* A finished run of byte tokens: its text, or a replacement character for each byte. */
static glyd_status end_run(step_state *step, glyd_span *text)
{
    *text = (glyd_span){step->held.data, step->held.bytes};
    if (glyd_utf8_valid(step->held.data, step->held.bytes) == step->held.bytes)
        return GLYD_OK;
    step->made.bytes = 0;
    for (size_t i = 0; i < step->held.bytes; i++)
        GLYD_TRY(glyd_buf_append(&step->made, "\xef\xbf\xbd", 3));
    *text = (glyd_span){step->made.data, step->made.bytes};
    return GLYD_OK;
}

/* Take up to `max` times the character from the start of a text; return how many. */
static int64_t strip_start(glyd_span *text, const char *c, size_t bytes, int64_t max)
{
    int64_t n = 0;
    for (; n < max && text->bytes >= bytes && memcmp(text->data, c, bytes) == 0; n++) {
        text->data += bytes;
        text->bytes -= bytes;
    }
    return n;
}

static void strip(const glyd_decoder *decoder, step_state *step, glyd_span *text)
{
    char c[4];
    size_t bytes = (size_t)glyd_utf8_encode(decoder->point, c);
    if (!decoder->is_fused) {
        strip_start(text, c, bytes, decoder->start);
        for (int64_t n = 0; n < decoder->stop && text->bytes >= bytes &&
                            memcmp(text->data + text->bytes - bytes, c, bytes) == 0;
             n++)
            text->bytes -= bytes;
        return;
    }
    if (step->stripped < 0)
        return;
    step->stripped += strip_start(text, c, bytes, decoder->start - step->stripped);
    if (step->stripped >= decoder->start || text->bytes > 0)
        step->stripped = -1;
}

/* The mark of a space to a space, or to nothing in the first token. */
static glyd_status unmark(const glyd_decoder *decoder, step_state *step, glyd_span *text)
{
    char mark[4];
    size_t n_mark = (size_t)glyd_utf8_encode(decoder->point, mark);
    bool drops = !step->has_begun && !decoder->keeps_first;
    step->has_begun = true;
    step->made.bytes = 0;
    for (size_t at = 0; at < text->bytes;) {
        const uint8_t *s = text->data + at;
        bool is_mark = text->bytes - at >= n_mark && memcmp(s, mark, n_mark) == 0;
        if (!is_mark)
            GLYD_TRY(glyd_buf_append(&step->made, s, 1));
        else if (!drops)
            GLYD_TRY(glyd_buf_append(&step->made, " ", 1));
        at += is_mark ? n_mark : 1;
    }
    *text = (glyd_span){step->made.data, step->made.bytes};
    return GLYD_OK;
}

/* Run a text through the steps from `i` on. */
static glyd_status feed(glyd_detok *d, size_t i, glyd_span text, glyd_buf *out, glyd_error *err)
{
    for (; i < d->tokenizer->n_decoders; i++) {
        const glyd_decoder *decoder = &d->tokenizer->decoders[i];
        step_state *step = &d->steps[i];
        glyd_status status = GLYD_OK;
        int byte;
        switch (decoder->kind) {
        case GLYD_DECODE_BYTES:
            status = append_bytes(d->tokenizer, text, &step->held);
            if (status == GLYD_OK)
                status = settle(step, false);
            text = (glyd_span){step->made.data, step->made.bytes};
            break;
        case GLYD_DECODE_BYTE_FALLBACK:
            byte = fallback_byte(text);
            if (byte >= 0) {
                status = glyd_buf_append(&step->held, &(uint8_t){(uint8_t)byte}, 1);
                if (status == GLYD_OK)
                    return GLYD_OK;
            } else if (step->held.bytes > 0) {
                glyd_span run = {NULL, 0};
                status = end_run(step, &run);
                if (status == GLYD_OK)
                    GLYD_TRY(feed(d, i + 1, run, out, err));
                step->held.bytes = 0;
            }
            break;
        case GLYD_DECODE_REPLACE:
            if (!step->scan)
                status = glyd_scan_create(decoder->regex, &step->scan);
            step->made.bytes = 0;
            if (status == GLYD_OK)
                GLYD_TRY(glyd_replace(step->scan, text,
                                      (glyd_span){decoder->content.data, decoder->content.bytes},
                                      &step->made, err));
            text = (glyd_span){step->made.data, step->made.bytes};
            break;
        case GLYD_DECODE_STRIP:
            strip(decoder, step, &text);
            break;
        case GLYD_DECODE_META:
            status = unmark(decoder, step, &text);
            break;
        }
        if (status != GLYD_OK)
            GLYD_FAIL(err, status, "out of memory");
    }
    if (glyd_buf_append(out, text.data, text.bytes) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    return GLYD_OK;
}

glyd_status glyd_detok_push(glyd_detok *detok, int32_t id, glyd_buf *text, glyd_error *err)
{
    const glyd_tokenizer *tokenizer = detok->tokenizer;
    if (id < 0 || id >= tokenizer->bpe.n_ids)
        return GLYD_OK;
    const glyd_bpe_token *token = &tokenizer->bpe.tokens[id];
    if (!token->is_used || (token->is_skipped && (detok->flags & GLYD_DECODE_SKIP_SPECIAL)))
        return GLYD_OK;
    glyd_span piece = {tokenizer->bpe.text.data + token->shown_at, token->shown_bytes};
    if (tokenizer->join_with_spaces && detok->has_begun && glyd_buf_append(text, " ", 1) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    detok->has_begun = true;
    return feed(detok, 0, piece, text, err);
}

glyd_status glyd_detok_finish(glyd_detok *detok, glyd_buf *text, glyd_error *err)
{
    glyd_status status = GLYD_OK;
    for (size_t i = 0; status == GLYD_OK && i < detok->tokenizer->n_decoders; i++) {
        step_state *step = &detok->steps[i];
        glyd_span rest = {NULL, 0};
        if (step->held.bytes == 0)
            continue;
        if (detok->tokenizer->decoders[i].kind == GLYD_DECODE_BYTES) {
            status = settle(step, true);
            rest = (glyd_span){step->made.data, step->made.bytes};
        } else {
            status = end_run(step, &rest);
        }
        if (status != GLYD_OK)
            glyd_error_set(err, status, "out of memory");
        else
            status = feed(detok, i + 1, rest, text, err);
    }
    for (size_t i = 0; i < GLYD_STEPS_MAX; i++) {
        detok->steps[i].held.bytes = 0;
        detok->steps[i].stripped = 0;
        detok->steps[i].has_begun = false;
    }
    detok->has_begun = false;
    return status;
}

glyd_status glyd_tokenizer_decode(const glyd_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                  unsigned flags, glyd_buf *text, glyd_error *err)
{
    glyd_detok *detok = NULL;
    GLYD_TRY(glyd_detok_create(tokenizer, flags, &detok, err));
    size_t bytes = text->bytes;
    glyd_status status = GLYD_OK;
    for (size_t i = 0; status == GLYD_OK && i < n; i++)
        status = glyd_detok_push(detok, ids[i], text, err);
    if (status == GLYD_OK)
        status = glyd_detok_finish(detok, text, err);
    if (status != GLYD_OK)
        text->bytes = bytes;
    glyd_detok_free(detok);
    return status;
}
