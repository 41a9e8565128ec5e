/* repr.c - Python's str() and repr() of values, and reading numbers from text.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 400 };

/* The shortest digits that read back as the same number, in the form d[.ddd]e[+-]dd. The decimal
 * point may be the locale's: digits are taken one by one. */
static int shortest_digits(double real, char digits[20], int *exponent)
{
    char text[40];
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, real);
        if (strtod(text, NULL) == real)
            break;
    }
    int n = 0;
    const char *at = text;
    for (; *at && *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9' && n < 19)
            digits[n++] = *at;
    }
    *exponent = *at ? (int)strtol(at + 1, NULL, 10) : 0;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return n;
}

void glyd_jinja_real_text(double real, char out[JINJA_REAL_BYTES])
{
    if (isnan(real) || isinf(real)) {
        snprintf(out, JINJA_REAL_BYTES, "%s", isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    char digits[20];
    int exponent, n = shortest_digits(fabs(real), digits, &exponent), at = 0;
    if (signbit(real))
        out[at++] = '-';
    if (exponent < -4 || exponent >= 16) {
        out[at++] = digits[0];
        if (n > 1) {
            out[at++] = '.';
            memcpy(out + at, digits + 1, (size_t)n - 1);
            at += n - 1;
        }
        snprintf(out + at, (size_t)(JINJA_REAL_BYTES - at), "e%c%02d", exponent < 0 ? '-' : '+',
                 abs(exponent));
        return;
    }
    if (exponent < 0) {
        out[at++] = '0';
        out[at++] = '.';
        for (int i = -1; i > exponent; i--)
            out[at++] = '0';
        memcpy(out + at, digits, (size_t)n);
        at += n;
    } else {
        for (int i = 0; i <= exponent; i++)
            out[at++] = i < n ? digits[i] : '0';
        out[at++] = '.';
        for (int i = exponent + 1; i < n; i++)
            out[at++] = digits[i];
        if (n <= exponent + 1)
            out[at++] = '0';
    }
    out[at] = 0;
}

/* The text of a number without blanks around it and underscores inside it, lower case. */
static bool number_text(const jinja_string *s, char out[NUMBER_BYTES_MAX])
{
    size_t from = 0, to = s->bytes, n = 0;
    while (from < to && glyd_jinja_point_is_space((unsigned char)s->data[from]) &&
           (unsigned char)s->data[from] < 0x80)
        from++;
    while (to > from && (unsigned char)s->data[to - 1] < 0x80 &&
           glyd_jinja_point_is_space((unsigned char)s->data[to - 1]))
        to--;
    for (size_t i = from; i < to; i++) {
        char c = s->data[i];
        if (n == NUMBER_BYTES_MAX - 1 || c == 0)
            return false;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c | 0x20);
        bool inside = i > from && i + 1 < to && s->data[i - 1] != '_' && s->data[i + 1] != '_';
        if (c == '_' && inside)
            continue;
        out[n++] = c;
    }
    out[n] = 0;
    return n > 0;
}

bool glyd_jinja_parse_real(const jinja_string *s, double *out)
{
    char text[NUMBER_BYTES_MAX];
    if (!number_text(s, text))
        return false;
    const char *body = text + (text[0] == '-' || text[0] == '+');
    if (strcmp(body, "inf") == 0 || strcmp(body, "infinity") == 0) {
        *out = text[0] == '-' ? -INFINITY : INFINITY;
        return true;
    }
    if (strcmp(body, "nan") == 0) {
        *out = NAN;
        return true;
    }
    if (text[strspn(text, "0123456789+-.e")] != 0) /* no hexadecimal, no locale's point */
        return false;
    char *point = strchr(text, '.'), *end;
    if (point)
        *point = localeconv()->decimal_point[0];
    *out = strtod(text, &end);
    return *end == 0 && end != text;
}

static int letter_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

bool glyd_jinja_parse_int(const jinja_string *s, int base, int64_t *out, bool *overflow)
{
    char text[NUMBER_BYTES_MAX];
    *overflow = false;
    if (!number_text(s, text) || base < 2 || base > 36)
        return false;
    const char *at = text;
    bool negative = *at == '-';
    at += *at == '-' || *at == '+';
    char prefix = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : 0;
    if (prefix && at[0] == '0' && at[1] == prefix)
        at += 2;
    if (!*at)
        return false;
    uint64_t n = 0;
    for (; *at; at++) {
        int digit = letter_digit(*at);
        if (digit >= base)
            return false;
        if (n > ((uint64_t)INT64_MAX + negative - (uint64_t)digit) / (uint64_t)base)
            *overflow = true;
        else
            n = n * (uint64_t)base + (uint64_t)digit;
    }
    *out = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

static glyd_status put_string_repr(jinja_builder *b, const jinja_string *s)
{
    bool has_single = memchr(s->data, '\'', s->bytes), has_double = memchr(s->data, '"', s->bytes);
    char quote = has_single && !has_double ? '"' : '\'';
    GLYD_TRY(glyd_jinja_put(b, &quote, 1));
    for (size_t at = 0; at < s->bytes;) {
        int32_t p;
        size_t bytes = glyd_jinja_decode(s->data + at, &p);
        char shown[16] = "";
        if (p == quote || p == '\\')
            snprintf(shown, sizeof shown, "\\%c", (char)p);
        else if (p == '\n' || p == '\r' || p == '\t')
            snprintf(shown, sizeof shown, "\\%c", p == '\n' ? 'n' : p == '\r' ? 'r' : 't');
        else if (!glyd_jinja_point_is_printable(p))
            snprintf(shown, sizeof shown,
                     p < 0x100     ? "\\x%02x"
                     : p < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                     (unsigned)p);
        if (shown[0])
            GLYD_TRY(glyd_jinja_put_text(b, shown));
        else
            GLYD_TRY(glyd_jinja_put(b, s->data + at, bytes));
        at += bytes;
    }
    return glyd_jinja_put(b, &quote, 1);
}

static glyd_status put_items(jinja_run *r, jinja_builder *b, const jinja_list *list,
                             const char *open, const char *close)
{
    GLYD_TRY(glyd_jinja_put_text(b, open));
    for (size_t i = 0; i < list->n; i++) {
        if (i)
            GLYD_TRY(glyd_jinja_put_text(b, ", "));
        GLYD_TRY(glyd_jinja_put_repr(r, b, list->items[i]));
    }
    return glyd_jinja_put_text(b, close);
}

static glyd_status put_dict(jinja_run *r, jinja_builder *b, const jinja_dict *dict)
{
    GLYD_TRY(glyd_jinja_put_text(b, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        if (i)
            GLYD_TRY(glyd_jinja_put_text(b, ", "));
        GLYD_TRY(glyd_jinja_put_repr(r, b, dict->keys[i]));
        GLYD_TRY(glyd_jinja_put_text(b, ": "));
        GLYD_TRY(glyd_jinja_put_repr(r, b, dict->values[i]));
    }
    return glyd_jinja_put_text(b, "}");
}

static glyd_status put_container(jinja_run *r, jinja_builder *b, jinja_value v)
{
    switch (v.kind) {
    case JINJA_LIST:
        return put_items(r, b, v.as.list, "[", "]");
    case JINJA_TUPLE:
        return put_items(r, b, v.as.list, "(", v.as.list->n == 1 ? ",)" : ")");
    case JINJA_VIEW:
        GLYD_TRY(glyd_jinja_put_text(b, v.as.list->label));
        return put_items(r, b, v.as.list, "([", "])");
    case JINJA_DICT:
        return put_dict(r, b, v.as.dict);
    default: /* Python would print an address, or a range's bounds, which are not kept */
        return glyd_jinja_fail(r, GLYD_E_UNSUPPORTED, "printing a %s is not supported",
                               glyd_jinja_type_name(v));
    }
}

glyd_status glyd_jinja_put_repr(jinja_run *r, jinja_builder *b, jinja_value v)
{
    char text[JINJA_REAL_BYTES];
    switch (v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
        return glyd_jinja_put_text(b, "Undefined");
    case JINJA_NONE:
        return glyd_jinja_put_text(b, "None");
    case JINJA_BOOL:
        return glyd_jinja_put_text(b, v.as.truth ? "True" : "False");
    case JINJA_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.as.integer);
        return glyd_jinja_put_text(b, text);
    case JINJA_REAL:
        glyd_jinja_real_text(v.as.real, text);
        return glyd_jinja_put_text(b, text);
    case JINJA_STRING:
        GLYD_TRY(glyd_jinja_charge(r, 1 + v.as.string->bytes / 16));
        return put_string_repr(b, v.as.string);
    default:
        GLYD_TRY(glyd_jinja_deeper(r));
        GLYD_TRY(put_container(r, b, v));
        r->depth--;
        return GLYD_OK;
    }
}

glyd_status glyd_jinja_put_str(jinja_run *r, jinja_builder *b, jinja_value v)
{
    if (v.kind == JINJA_STRING) {
        GLYD_TRY(glyd_jinja_charge(r, v.as.string->bytes / 64));
        return glyd_jinja_put_string(b, v.as.string);
    }
    return v.kind == JINJA_UNDEFINED ? GLYD_OK : glyd_jinja_put_repr(r, b, v);
}

glyd_status glyd_jinja_str(jinja_run *r, jinja_value v, const jinja_string **out)
{
    if (v.kind != JINJA_STRING) {
        jinja_builder b = {.arena = &r->arena};
        GLYD_TRY(glyd_jinja_put_str(r, &b, v));
        GLYD_TRY(glyd_jinja_build(&b, &v));
    }
    *out = v.as.string;
    return GLYD_OK;
}
