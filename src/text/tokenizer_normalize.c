/* tokenizer_normalize.c - the normalisers: NFC and its kin, Replace, Prepend.
 *
 * Normalisation forms follow Unicode 9.0, as the reference does: the characters that have come to
 * take part since are left alone, which makes each of them a wall that nothing moves or joins
 * across. ASCII is a wall of the same kind on its left, so ASCII text is only copied.
 * Sorting marks is done here and not by utf8proc, whose sort takes quadratic time on long runs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include <string.h>
#include <utf8proc.h>

enum {
    DECOMPOSED_MAX = 32,
    LEAD_BYTE_CHANGES = 0xcc /* of U+0300, below which all is in form C */
};

static unsigned mark_class(int32_t point)
{
    return (unsigned)utf8proc_get_property(point)->combining_class;
}

/* Sort a run of marks by their class, those of one class as they are. */
static glyd_status sort_marks(int32_t *points, size_t n, glyd_buf *scratch)
{
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            int32_t point = points[i];
            size_t j = i;
            for (; j > 0 && mark_class(points[j - 1]) > mark_class(point); j--)
                points[j] = points[j - 1];
            points[j] = point;
        }
        return GLYD_OK;
    }
    size_t start[257] = {0};
    GLYD_TRY(glyd_buf_resize(scratch, n * sizeof *points));
    int32_t *sorted = (int32_t *)(void *)scratch->data;
    for (size_t i = 0; i < n; i++)
        start[(mark_class(points[i]) & 255) + 1]++;
    for (int i = 1; i < 257; i++)
        start[i] += start[i - 1];
    for (size_t i = 0; i < n; i++)
        sorted[start[mark_class(points[i]) & 255]++] = points[i];
    memcpy(points, sorted, n * sizeof *points);
    return GLYD_OK;
}

/* Sort, compose where the form asks for it, append as UTF-8, and empty the list. */
static glyd_status flush(glyd_form form, glyd_buf *list, glyd_buf *scratch, glyd_buf *out)
{
    int32_t *points = (int32_t *)(void *)list->data;
    size_t n = list->bytes / sizeof *points;
    for (size_t i = 0; i < n;) {
        size_t first = i;
        while (i < n && mark_class(points[i]) != 0)
            i++;
        if (i - first > 1)
            GLYD_TRY(sort_marks(points + first, i - first, scratch));
        i += i == first;
    }
    if (n > 0 && (form == GLYD_NFC || form == GLYD_NFKC)) {
        utf8proc_ssize_t composed = utf8proc_normalize_utf32(points, (utf8proc_ssize_t)n,
                                                             UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        GLYD_ASSERT(composed >= 0);
        n = (size_t)composed;
    }
    for (size_t i = 0; i < n; i++) {
        char text[4];
        GLYD_TRY(glyd_buf_append(out, text, (size_t)glyd_utf8_encode((uint32_t)points[i], text)));
    }
    list->bytes = 0;
    return GLYD_OK;
}

/* A stretch that may change, from a wall to before the next one. */
static glyd_status normalize_stretch(glyd_form form, glyd_encode_work *work, const uint8_t *text,
                                     size_t bytes, glyd_buf *out)
{
    int options = UTF8PROC_DECOMPOSE |
                  (form == GLYD_NFKC || form == GLYD_NFKD ? UTF8PROC_COMPAT | UTF8PROC_STABLE
                                                          : UTF8PROC_STABLE);
    glyd_buf *list = &work->points[0];
    list->bytes = 0;
    for (size_t i = 0; i < bytes;) {
        uint32_t point = 0;
        int length = glyd_utf8_decode(text + i, bytes - i, &point);
        GLYD_ASSERT(length > 0);
        if (glyd_unicode_is_normalised_since_9(point)) {
            GLYD_TRY(flush(form, list, &work->points[1], out));
            GLYD_TRY(glyd_buf_append(out, text + i, (size_t)length));
        } else {
            int32_t parts[DECOMPOSED_MAX];
            int unused = 0;
            utf8proc_ssize_t n =
                utf8proc_decompose_char((utf8proc_int32_t)point, parts, DECOMPOSED_MAX,
                                        (utf8proc_option_t)options, &unused);
            GLYD_ASSERT(n >= 0 && n <= DECOMPOSED_MAX);
            GLYD_TRY(glyd_buf_append(list, parts, (size_t)n * sizeof *parts));
        }
        i += (size_t)length;
    }
    return flush(form, list, &work->points[1], out);
}

/* The end of the ASCII characters from `at` on. */
static size_t ascii_end(const uint8_t *text, size_t bytes, size_t at)
{
    while (at < bytes && text[at] < 0x80)
        at++;
    return at;
}

static glyd_status normalize_form(glyd_form form, glyd_encode_work *work, glyd_span text,
                                  glyd_buf *out)
{
    const uint8_t *s = text.data;
    for (size_t i = 0; i < text.bytes;) {
        size_t first = ascii_end(s, text.bytes, i);
        size_t wall = first > i && first < text.bytes ? first - 1 : first;
        GLYD_TRY(glyd_buf_append(out, s + i, wall - i));
        size_t end = first;
        bool may_change = form != GLYD_NFC;
        for (; end < text.bytes && s[end] >= 0x80; end++)
            may_change = may_change || s[end] >= LEAD_BYTE_CHANGES;
        if (may_change)
            GLYD_TRY(normalize_stretch(form, work, s + wall, end - wall, out));
        else
            GLYD_TRY(glyd_buf_append(out, s + wall, end - wall));
        i = end;
    }
    return GLYD_OK;
}

glyd_status glyd_replace(glyd_scan *scan, glyd_span text, glyd_span by, glyd_buf *out,
                         glyd_error *err)
{
    size_t at = 0;
    if (text.bytes == 0)
        return GLYD_OK;
    glyd_scan_start(scan, text.data, text.bytes);
    for (;;) {
        bool found;
        size_t first, end;
        GLYD_TRY(glyd_scan_next(scan, &found, &first, &end, err));
        if (!found)
            break;
        if (glyd_buf_append(out, text.data + at, first - at) != GLYD_OK ||
            glyd_buf_append(out, by.data, by.bytes) != GLYD_OK)
            GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
        if (out->bytes > GLYD_TEXT_BYTES_MAX)
            GLYD_FAIL(err, GLYD_E_LIMIT, "replacing made the text longer than %zu bytes",
                      GLYD_TEXT_BYTES_MAX);
        at = end;
    }
    if (glyd_buf_append(out, text.data + at, text.bytes - at) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    return GLYD_OK;
}

static glyd_status apply(const glyd_normalizer *normalizer, glyd_scan **scan,
                         glyd_encode_work *work, glyd_span text, glyd_buf *out, glyd_error *err)
{
    glyd_span content = {normalizer->content.data, normalizer->content.bytes};
    glyd_status status = GLYD_OK;
    switch (normalizer->kind) {
    case GLYD_NORMAL_FORM:
        status = normalize_form(normalizer->form, work, text, out);
        break;
    case GLYD_NORMAL_REPLACE:
        if (!*scan)
            status = glyd_scan_create(normalizer->regex, scan);
        if (status == GLYD_OK)
            return glyd_replace(*scan, text, content, out, err);
        break;
    case GLYD_NORMAL_PREPEND:
        if (text.bytes > 0)
            status = glyd_buf_append(out, content.data, content.bytes);
        if (status == GLYD_OK)
            status = glyd_buf_append(out, text.data, text.bytes);
        break;
    }
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "out of memory");
    return GLYD_OK;
}

glyd_status glyd_normalize(const glyd_normalizer *normalizers, size_t n, glyd_encode_work *work,
                           glyd_span text, glyd_span *out, glyd_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (normalizers[i].kind == GLYD_NORMAL_FORM &&
            ascii_end(text.data, text.bytes, 0) == text.bytes)
            continue;
        glyd_buf *buf = &work->normal[text.data == work->normal[0].data];
        buf->bytes = 0;
        GLYD_TRY(apply(&normalizers[i], &work->normal_scans[i], work, text, buf, err));
        if (buf->bytes > GLYD_TEXT_BYTES_MAX)
            GLYD_FAIL(err, GLYD_E_LIMIT, "normalising made the text longer than %zu bytes",
                      GLYD_TEXT_BYTES_MAX);
        text = (glyd_span){buf->data, buf->bytes};
    }
    *out = text;
    return GLYD_OK;
}
