/* utf8.c - UTF-8 strings counted in code points, and Python's classes of characters.
 *
 * Character data come from utf8proc (Unicode 15); Python 3.11's have Unicode 14, so letters that
 * 15 added count as letters here.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE /* memmem */
#include "jinja/value.h"
#include <string.h>
#include <utf8proc.h>

static size_t count_points(const char *data, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)data[i] & 0xC0) != 0x80;
    return n;
}

const jinja_string *glyd_jinja_string_view(jinja_arena *arena, const char *data, size_t bytes)
{
    jinja_string *s = glyd_jinja_alloc(arena, sizeof *s);
    if (s)
        *s = (jinja_string){data, bytes, count_points(data, bytes)};
    return s;
}

const jinja_string *glyd_jinja_string_copy(jinja_arena *arena, const char *data, size_t bytes)
{
    char *copy = glyd_jinja_alloc(arena, bytes);
    if (!copy)
        return NULL;
    if (bytes)
        memcpy(copy, data, bytes);
    return glyd_jinja_string_view(arena, copy, bytes);
}

bool glyd_jinja_string_is(const jinja_string *s, const char *text)
{
    return s->bytes == strlen(text) && memcmp(s->data, text, s->bytes) == 0;
}

bool glyd_jinja_string_equal(const jinja_string *a, const jinja_string *b)
{
    return a == b || (a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0);
}

/* UTF-8 sorts by bytes as code points do. */
int glyd_jinja_string_compare(const jinja_string *a, const jinja_string *b)
{
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = n ? memcmp(a->data, b->data, n) : 0;
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

size_t glyd_jinja_string_offset(const jinja_string *s, size_t point)
{
    if (s->points == s->bytes)
        return point;
    size_t at = 0;
    for (; at < s->bytes; at++) {
        if (((unsigned char)s->data[at] & 0xC0) != 0x80 && point-- == 0)
            break;
    }
    return at;
}

/* memmem takes linear time whatever the texts are, which hostile ones need. */
size_t glyd_jinja_string_find(const jinja_string *s, const jinja_string *what, size_t from,
                              size_t to)
{
    if (from > to || to - from < what->bytes)
        return SIZE_MAX;
    if (what->bytes == 0)
        return from;
    const char *found = memmem(s->data + from, to - from, what->data, what->bytes);
    return found ? (size_t)(found - s->data) : SIZE_MAX;
}

/* A rolling hash from the right keeps this near linear too. */
size_t glyd_jinja_string_rfind(const jinja_string *s, const jinja_string *what, size_t from,
                               size_t to)
{
    enum { BASE = 257 };
    const uint64_t prime = 4294967291u;
    const size_t n = what->bytes;
    if (from > to || to - from < n)
        return SIZE_MAX;
    uint64_t wanted = 0, here = 0, top = 1; /* top: BASE to the n - 1 */
    for (size_t i = n; i-- > 0;) {
        wanted = (wanted * BASE + (unsigned char)what->data[i]) % prime;
        here = (here * BASE + (unsigned char)s->data[to - n + i]) % prime;
        top = i ? top * BASE % prime : top;
    }
    for (size_t at = to - n;; at--) {
        if (here == wanted && (n == 0 || memcmp(s->data + at, what->data, n) == 0))
            return at;
        if (at == from)
            return SIZE_MAX;
        here += prime - (unsigned char)s->data[at + n - 1] * top % prime;
        here = (here * BASE + (unsigned char)s->data[at - 1]) % prime;
    }
}

size_t glyd_jinja_decode(const char *data, int32_t *point)
{
    const unsigned char *d = (const unsigned char *)data;
    if (d[0] < 0x80) {
        *point = d[0];
        return 1;
    }
    if (d[0] < 0xE0) {
        *point = (d[0] & 0x1F) << 6 | (d[1] & 0x3F);
        return 2;
    }
    if (d[0] < 0xF0) {
        *point = (d[0] & 0x0F) << 12 | (d[1] & 0x3F) << 6 | (d[2] & 0x3F);
        return 3;
    }
    *point = (d[0] & 0x07) << 18 | (d[1] & 0x3F) << 12 | (d[2] & 0x3F) << 6 | (d[3] & 0x3F);
    return 4;
}

size_t glyd_jinja_encode(int32_t point, char *out)
{
    return (size_t)utf8proc_encode_char(point, (utf8proc_uint8_t *)out);
}

bool glyd_jinja_is_utf8(const char *data, size_t bytes)
{
    const utf8proc_uint8_t *d = (const utf8proc_uint8_t *)data;
    for (size_t at = 0; at < bytes;) {
        if (d[at] < 0x80) {
            at++;
            continue;
        }
        utf8proc_int32_t point;
        size_t left = bytes - at;
        utf8proc_ssize_t n =
            utf8proc_iterate(d + at, left < 8 ? (utf8proc_ssize_t)left : 8, &point);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

bool glyd_jinja_point_is_space(int32_t p)
{
    if (p < 0x80)
        return p == ' ' || (p >= 0x09 && p <= 0x0D) || (p >= 0x1C && p <= 0x1F);
    return p == 0x85 || p == 0xA0 || p == 0x1680 || (p >= 0x2000 && p <= 0x200A) || p == 0x2028 ||
           p == 0x2029 || p == 0x202F || p == 0x205F || p == 0x3000;
}

bool glyd_jinja_point_is_line_end(int32_t p)
{
    return (p >= 0x0A && p <= 0x0D) || (p >= 0x1C && p <= 0x1E) || p == 0x85 || p == 0x2028 ||
           p == 0x2029;
}

bool glyd_jinja_point_is_alpha(int32_t p)
{
    switch (utf8proc_category(p)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return true;
    default:
        return false;
    }
}

bool glyd_jinja_point_is_decimal(int32_t p)
{
    return utf8proc_category(p) == UTF8PROC_CATEGORY_ND;
}

/* Numeric_Type=Digit: digits that are not decimal, such as superscripts and circled ones. */
bool glyd_jinja_point_is_digit(int32_t p)
{
    static const int32_t ranges[][2] = {
        {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
        {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
        {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
        {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
        {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
    };
    if (p < 0x80)
        return p >= '0' && p <= '9';
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (p >= ranges[i][0] && p <= ranges[i][1])
            return true;
    }
    return glyd_jinja_point_is_decimal(p);
}

bool glyd_jinja_point_is_numeric(int32_t p)
{
    utf8proc_category_t c = utf8proc_category(p);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool glyd_jinja_point_is_printable(int32_t p)
{
    switch (utf8proc_category(p)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return p == ' ';
    default:
        return true;
    }
}

bool glyd_jinja_point_is_upper(int32_t p)
{
    return p < 0x80 ? p >= 'A' && p <= 'Z' : utf8proc_category(p) == UTF8PROC_CATEGORY_LU;
}

bool glyd_jinja_point_is_lower(int32_t p)
{
    return p < 0x80 ? p >= 'a' && p <= 'z' : utf8proc_category(p) == UTF8PROC_CATEGORY_LL;
}

bool glyd_jinja_point_is_title(int32_t p)
{
    return p >= 0x80 && utf8proc_category(p) == UTF8PROC_CATEGORY_LT;
}
