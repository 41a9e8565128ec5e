/* tokenizer_merges.c - the merges of tokenizer.json, read without a tree.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/tokenizer_merges.h"
#include "base/buf.h"
#include "base/error.h"
#include "text/unicode.h"
#include <string.h>

static size_t skip_space(glyd_span s, size_t at)
{
    while (at < s.bytes &&
           (s.data[at] == ' ' || s.data[at] == '\n' || s.data[at] == '\r' || s.data[at] == '\t'))
        at++;
    return at;
}

/* The end of the string whose opening quote is at `at`: after its closing quote, or the end. */
static size_t skip_string(glyd_span s, size_t at)
{
    for (at++; at < s.bytes && s.data[at] != '"'; at++)
        at += s.data[at] == '\\';
    return at < s.bytes ? at + 1 : s.bytes;
}

static bool is_text(glyd_span s, size_t first, size_t end, const char *text)
{
    size_t n = strlen(text);
    return end - first == n && memcmp(s.data + first, text, n) == 0;
}

/* Where the bracket that opens at `at` closes; the end of the text where it does not. */
static size_t find_close(glyd_span s, size_t at)
{
    int64_t depth = 0;
    while (at < s.bytes) {
        uint8_t c = s.data[at];
        if (c == '"') {
            at = skip_string(s, at);
            continue;
        }
        if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && --depth == 0)
            return at;
        at++;
    }
    return at;
}

/* Where the list opens; the end of the text where there is none. */
static size_t find_open(glyd_span s)
{
    int64_t depth = 0;
    bool in_model = false;
    for (size_t at = 0; at < s.bytes;) {
        uint8_t c = s.data[at];
        if (c != '"') {
            depth += (c == '[' || c == '{') - (c == ']' || c == '}');
            at++;
            continue;
        }
        size_t first = at, end = skip_string(s, at);
        at = skip_space(s, end);
        if (at == s.bytes || s.data[at] != ':')
            continue;
        at = skip_space(s, at + 1);
        if (depth == 1)
            in_model = is_text(s, first, end, "\"model\"");
        if (depth == 2 && in_model && at < s.bytes && s.data[at] == '[' &&
            is_text(s, first, end, "\"merges\""))
            return at;
    }
    return s.bytes;
}

/* \uXXXX at `at` to a point; 0 for what is no character by itself. */
static uint32_t read_escape(glyd_span s, size_t at)
{
    uint32_t point = 0;
    if (s.bytes - at < 6)
        return 0;
    for (size_t i = at + 2; i < at + 6; i++) {
        uint8_t c = s.data[i] | 0x20;
        if (c >= '0' && c <= '9' && s.data[i] == c)
            point = point * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f')
            point = point * 16 + (c - 'a' + 10u);
        else
            return 0;
    }
    return point < 0xd800 || point >= 0xe000 ? point : 0;
}

/* Append the string at list->at; *found is false where it is not a plain one. */
static glyd_status read_string(glyd_merge_list *list, glyd_buf *out, bool *found)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    glyd_span s = list->text;
    size_t at = list->at;
    *found = false;
    if (at >= s.bytes || s.data[at] != '"')
        return GLYD_OK;
    for (at++; at < s.bytes && s.data[at] != '"';) {
        size_t first = at;
        while (at < s.bytes && s.data[at] >= 0x20 && s.data[at] != '"' && s.data[at] != '\\')
            at++;
        GLYD_TRY(glyd_buf_append(out, s.data + first, at - first));
        if (at == s.bytes || s.data[at] == '"')
            break;
        const char *letter = s.data[at] == '\\' && s.bytes - at > 1 && s.data[at + 1]
                                 ? strchr(letters, s.data[at + 1])
                                 : NULL;
        char text[4];
        int n = 1;
        size_t length = 2;
        if (letter) {
            text[0] = values[letter - letters];
        } else {
            bool is_unicode = s.data[at] == '\\' && s.bytes - at > 1 && s.data[at + 1] == 'u';
            uint32_t point = is_unicode ? read_escape(s, at) : 0;
            if (point == 0)
                return GLYD_OK;
            n = glyd_utf8_encode(point, text);
            length = 6;
        }
        GLYD_TRY(glyd_buf_append(out, text, (size_t)n));
        at += length;
    }
    *found = at < s.bytes;
    list->at = at + 1;
    return GLYD_OK;
}

/* The punctuation `c` at list->at, with the space around it. */
static bool take(glyd_merge_list *list, uint8_t c)
{
    size_t at = skip_space(list->text, list->at);
    if (at >= list->text.bytes || list->text.data[at] != c)
        return false;
    list->at = skip_space(list->text, at + 1);
    return true;
}

/* After an entry: a comma and another entry, or the bracket that ends the list and the text. */
static bool take_end(glyd_merge_list *list)
{
    if (take(list, ','))
        return list->at < list->text.bytes && list->text.data[list->at] != ']';
    return take(list, ']') && list->at == list->text.bytes;
}

glyd_status glyd_merges_next(glyd_merge_list *list, glyd_buf *scratch, bool *found, glyd_span *left,
                             glyd_span *right)
{
    static const char comment[] = "#version";
    bool is_array = take(list, '['), is_plain = false;
    size_t n_left = 0, n_between = 0;
    *found = false;
    scratch->bytes = 0;
    GLYD_TRY(read_string(list, scratch, &is_plain));
    if (!is_plain || scratch->bytes == 0)
        return GLYD_OK;
    if (is_array) {
        n_left = scratch->bytes;
        is_plain = take(list, ',');
        if (is_plain)
            GLYD_TRY(read_string(list, scratch, &is_plain));
        is_plain = is_plain && take(list, ']');
    } else {
        const uint8_t *space = memchr(scratch->data, ' ', scratch->bytes);
        n_left = space ? (size_t)(space - scratch->data) : scratch->bytes;
        n_between = space != NULL;
        is_plain = space && !memchr(space + 1, ' ', scratch->bytes - n_left - 1) &&
                   (scratch->bytes < sizeof comment - 1 ||
                    memcmp(scratch->data, comment, sizeof comment - 1) != 0);
    }
    size_t n_right = scratch->bytes - n_left - n_between;
    *left = (glyd_span){scratch->data, n_left};
    *right = (glyd_span){scratch->data + n_left + n_between, n_right};
    *found = is_plain && n_left > 0 && n_right > 0 && take_end(list);
    return GLYD_OK;
}

/* Read the list once without using it: whether all of it is plain pairs, and how many. */
static bool is_plain_list(glyd_merge_list list, size_t *n)
{
    glyd_buf scratch = {0};
    bool found = true;
    *n = 0;
    while (found && list.at < list.text.bytes) {
        glyd_span left, right;
        if (glyd_merges_next(&list, &scratch, &found, &left, &right) != GLYD_OK)
            found = false;
        *n += found;
    }
    glyd_buf_free(&scratch);
    return found && *n > 0;
}

void glyd_merges_find(glyd_span json, glyd_merge_list *list, size_t *n)
{
    *list = (glyd_merge_list){{NULL, 0}, 0};
    *n = 0;
    size_t open = find_open(json), close = find_close(json, open);
    if (close == json.bytes)
        return;
    glyd_span text = {json.data + open + 1, close - open};
    glyd_merge_list found = {text, skip_space(text, 0)};
    if (glyd_utf8_valid(text.data, text.bytes) == text.bytes && is_plain_list(found, n))
        *list = found;
}
