/* format.c - "text" % values, "text".format(values) and strftime.
 *
 * % knows %s %r %d %i %f %x %X %o with flags, width and precision;
 * .format knows {} {0} {name}; members and format specifications are refused. Whatever else is
 * not built is refused by name.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH_MAX = 10000 };

typedef struct percent_spec {
    bool minus, zero, plus, blank;
    int width, precision; /* precision -1: none */
    char conversion;
    const jinja_string *key; /* %(key)s */
} percent_spec;

static bool read_number(const jinja_string *s, size_t *at, int *out)
{
    int n = 0;
    while (*at < s->bytes && s->data[*at] >= '0' && s->data[*at] <= '9') {
        n = 10 * n + (s->data[(*at)++] - '0');
        if (n > WIDTH_MAX)
            return false;
    }
    *out = n;
    return true;
}

/* What follows a '%' at s[*at]; leaves *at after it. */
static glyd_status read_spec(jinja_run *r, const jinja_string *s, size_t *at, percent_spec *spec)
{
    *spec = (percent_spec){.precision = -1};
    if (*at < s->bytes && s->data[*at] == '(') {
        size_t from = ++*at;
        while (*at < s->bytes && s->data[*at] != ')')
            ++*at;
        if (*at == s->bytes)
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "incomplete format key");
        spec->key = glyd_jinja_string_view(&r->arena, s->data + from, *at - from);
        if (!spec->key)
            return r->arena.status;
        ++*at;
    }
    for (; *at < s->bytes; ++*at) {
        char c = s->data[*at];
        if (c != '-' && c != '0' && c != '+' && c != ' ')
            break;
        spec->minus |= c == '-';
        spec->zero |= c == '0';
        spec->plus |= c == '+';
        spec->blank |= c == ' ';
    }
    bool ok = read_number(s, at, &spec->width);
    if (ok && *at < s->bytes && s->data[*at] == '.') {
        ++*at;
        ok = read_number(s, at, &spec->precision);
    }
    if (!ok)
        return glyd_jinja_fail(r, GLYD_E_LIMIT, "a format is wider than %d", WIDTH_MAX);
    if (*at == s->bytes)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "incomplete format");
    spec->conversion = s->data[(*at)++];
    return GLYD_OK;
}

/* Pad `text` to the spec's width; `sign_bytes` stay in front of zeros. */
static glyd_status put_padded(jinja_builder *b, const percent_spec *spec, const jinja_string *text,
                              size_t sign_bytes, bool numeric)
{
    static const jinja_string blank = {" ", 1, 1}, zero = {"0", 1, 1};
    size_t width = (size_t)spec->width;
    size_t pad = width > text->points ? width - text->points : 0;
    bool zeros = spec->zero && !spec->minus && numeric;
    if (!spec->minus && !zeros)
        GLYD_TRY(glyd_jinja_put_repeated(b, &blank, pad));
    GLYD_TRY(glyd_jinja_put(b, text->data, sign_bytes));
    if (zeros)
        GLYD_TRY(glyd_jinja_put_repeated(b, &zero, pad));
    GLYD_TRY(glyd_jinja_put(b, text->data + sign_bytes, text->bytes - sign_bytes));
    return spec->minus ? glyd_jinja_put_repeated(b, &blank, pad) : GLYD_OK;
}

static glyd_status put_number(jinja_run *r, jinja_builder *b, const percent_spec *spec,
                              jinja_value v)
{
    char text[512];
    GLYD_TRY(glyd_jinja_need_defined(r, v));
    if (!jinja_is_number(v))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "%%%c format: a real number is required, not %s",
                               spec->conversion, glyd_jinja_type_name(v));
    double real = jinja_as_real(v);
    bool is_f = spec->conversion == 'f', negative;
    size_t n;
    if (is_f) {
        if (!isfinite(real) || spec->precision > 100)
            return glyd_jinja_fail(r, GLYD_E_UNSUPPORTED, "this %%f format is not supported");
        negative = signbit(real);
        n = (size_t)snprintf(text + 1, sizeof text - 1, "%.*f",
                             spec->precision < 0 ? 6 : spec->precision, fabs(real));
        char *point = strpbrk(text + 1, ",.");
        if (point)
            *point = '.';
    } else {
        if (v.kind == JINJA_REAL && !(fabs(real) < 9e18))
            return glyd_jinja_fail(r, GLYD_E_LIMIT, "an integer grows beyond 64 bits");
        if (spec->precision >= 0 ||
            (v.kind == JINJA_REAL && spec->conversion != 'd' && spec->conversion != 'i'))
            return glyd_jinja_fail(r, GLYD_E_UNSUPPORTED, "this %%%c format is not supported",
                                   spec->conversion);
        int64_t whole = v.kind == JINJA_REAL ? (int64_t)real : jinja_as_int(v);
        negative = whole < 0;
        uint64_t size = negative ? 0 - (uint64_t)whole : (uint64_t)whole;
        const char *format = spec->conversion == 'x'   ? "%llx"
                             : spec->conversion == 'X' ? "%llX"
                             : spec->conversion == 'o' ? "%llo"
                                                       : "%llu";
        n = (size_t)snprintf(text + 1, sizeof text - 1, format, (unsigned long long)size);
    }
    char sign = negative ? '-' : spec->plus ? '+' : ' ';
    bool has_sign = negative || spec->plus || spec->blank;
    text[0] = sign;
    jinja_string s = {text + !has_sign, n + has_sign, n + has_sign};
    return put_padded(b, spec, &s, has_sign, true);
}

static glyd_status put_conversion(jinja_run *r, jinja_builder *b, const percent_spec *spec,
                                  jinja_value v)
{
    switch (spec->conversion) {
    case 'd':
    case 'i':
    case 'x':
    case 'X':
    case 'o':
    case 'f':
        return put_number(r, b, spec, v);
    case 's':
    case 'r':
        break;
    default:
        return glyd_jinja_fail(r, GLYD_E_UNSUPPORTED, "the format %%%c is not supported",
                               spec->conversion >= ' ' && spec->conversion < 0x7F ? spec->conversion
                                                                                  : '?');
    }
    jinja_builder part = {.arena = &r->arena};
    jinja_value text;
    if (spec->conversion == 's')
        GLYD_TRY(glyd_jinja_put_str(r, &part, v));
    else
        GLYD_TRY(glyd_jinja_put_repr(r, &part, v));
    GLYD_TRY(glyd_jinja_build(&part, &text));
    jinja_string s = *text.as.string;
    if (spec->precision >= 0 && (size_t)spec->precision < s.points) {
        s.bytes = glyd_jinja_string_offset(&s, (size_t)spec->precision);
        s.points = (size_t)spec->precision;
    }
    return put_padded(b, spec, &s, 0, false);
}

glyd_status glyd_jinja_percent(jinja_run *r, const jinja_string *format, jinja_value args,
                               jinja_value *out)
{
    jinja_builder b = {.arena = &r->arena};
    const jinja_value *items = args.kind == JINJA_TUPLE ? args.as.list->items : &args;
    size_t n = args.kind == JINJA_TUPLE ? args.as.list->n : 1, used = 0;
    bool keyed = false;
    for (size_t at = 0; at < format->bytes;) {
        size_t run = at;
        while (at < format->bytes && format->data[at] != '%')
            at++;
        GLYD_TRY(glyd_jinja_put(&b, format->data + run, at - run));
        if (at++ == format->bytes)
            break;
        percent_spec spec;
        jinja_value v;
        GLYD_TRY(glyd_jinja_charge(r, 1));
        GLYD_TRY(read_spec(r, format, &at, &spec));
        if (spec.conversion == '%') {
            GLYD_TRY(glyd_jinja_put_text(&b, "%"));
            continue;
        }
        if (spec.key) {
            const jinja_value *found =
                args.kind == JINJA_DICT ? glyd_jinja_dict_text(args.as.dict, spec.key) : NULL;
            if (args.kind != JINJA_DICT)
                return glyd_jinja_fail(r, GLYD_E_FORMAT, "format requires a mapping");
            if (!found)
                return glyd_jinja_fail(r, GLYD_E_FORMAT, "'%.*s'", (int)spec.key->bytes,
                                       spec.key->data);
            v = *found;
            keyed = true;
        } else {
            if (used == n)
                return glyd_jinja_fail(r, GLYD_E_FORMAT, "not enough arguments for format string");
            v = items[used++];
        }
        GLYD_TRY(put_conversion(r, &b, &spec, v));
    }
    /* Python lets anything with an index pass for a mapping here, but tuples and strings. */
    bool mapping = args.kind == JINJA_DICT || args.kind == JINJA_LIST || args.kind == JINJA_RANGE ||
                   args.kind == JINJA_UNDEFINED;
    if (used < n && !keyed && !mapping)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               "not all arguments converted during string formatting");
    return glyd_jinja_build(&b, out);
}

/* The argument that a field of .format names; *automatic counts {} fields, -1 after a {0}. */
static glyd_status format_argument(jinja_run *r, const jinja_args *args, const char *name,
                                   size_t bytes, int64_t *automatic, jinja_value *out)
{
    int64_t index = -1;
    bool over;
    jinja_string s = {name, bytes, bytes};
    if (bytes == 0) {
        if (*automatic < 0)
            return glyd_jinja_fail(
                r, GLYD_E_FORMAT,
                "cannot switch from manual field specification to automatic field numbering");
        index = (*automatic)++;
    } else if (name[0] >= '0' && name[0] <= '9' && glyd_jinja_parse_int(&s, 10, &index, &over)) {
        if (*automatic > 0)
            return glyd_jinja_fail(
                r, GLYD_E_FORMAT,
                "cannot switch from automatic field numbering to manual field specification");
        *automatic = -1;
    } else {
        for (size_t i = 0; i < args->n_named; i++) {
            if (glyd_jinja_string_equal(args->named[i].name, &s)) {
                *out = args->named[i].value;
                return GLYD_OK;
            }
        }
        for (size_t i = 0; i < bytes; i++) {
            if (strchr(".[]:!", name[i]))
                return glyd_jinja_fail(r, GLYD_E_UNSUPPORTED,
                                       "str.format() with members or a format specification is not "
                                       "supported");
        }
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "'%.*s'", (int)bytes, name);
    }
    if (index < 0 || (uint64_t)index >= args->n)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               "Replacement index %lld out of range for positional args tuple",
                               (long long)index);
    *out = args->positional[index];
    return GLYD_OK;
}

glyd_status glyd_jinja_format(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *s = call->self.as.string;
    jinja_builder b = {.arena = &r->arena};
    int64_t automatic = 0;
    for (size_t at = 0; at < s->bytes;) {
        char c = s->data[at];
        bool doubled = at + 1 < s->bytes && s->data[at + 1] == c;
        if ((c != '{' && c != '}') || doubled) {
            GLYD_TRY(glyd_jinja_put(&b, &c, 1));
            at += 1 + (c == '{' || c == '}');
            continue;
        }
        if (c == '}')
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "Single '}' encountered in format string");
        const char *end = memchr(s->data + at, '}', s->bytes - at);
        if (!end)
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "expected '}' before end of string");
        jinja_value v;
        GLYD_TRY(glyd_jinja_charge(r, 1));
        GLYD_TRY(format_argument(r, call->args, s->data + at + 1, (size_t)(end - s->data) - at - 1,
                                 &automatic, &v));
        GLYD_TRY(glyd_jinja_put_str(r, &b, v));
        at = (size_t)(end - s->data) + 1;
    }
    return glyd_jinja_build(&b, out);
}

static const char *const day_names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
static const char *const month_names[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};

static glyd_status put_padded_int(jinja_builder *b, int n, int width, char pad)
{
    char text[24];
    snprintf(text, sizeof text, pad == '0' ? "%0*d" : "%*d", width, n);
    return glyd_jinja_put_text(b, text);
}

/* One conversion in the C locale. `pad` is '0', ' ', or 0 for none (%-d). */
static glyd_status put_time(jinja_run *r, jinja_builder *b, char c, char flag)
{
    const struct tm *t = &r->now;
    char pad = flag == '_' ? ' ' : '0';
    int two = flag == '-' ? 0 : 2, hour = t->tm_hour % 12 ? t->tm_hour % 12 : 12;
    switch (c) {
    case 'd':
        return put_padded_int(b, t->tm_mday, two, pad);
    case 'e':
        return put_padded_int(b, t->tm_mday, two, flag == '0' ? '0' : ' ');
    case 'm':
        return put_padded_int(b, t->tm_mon + 1, two, pad);
    case 'y':
        return put_padded_int(b, t->tm_year % 100, two, pad);
    case 'Y':
        return put_padded_int(b, t->tm_year + 1900, 0, '0');
    case 'H':
        return put_padded_int(b, t->tm_hour, two, pad);
    case 'I':
        return put_padded_int(b, hour, two, pad);
    case 'M':
        return put_padded_int(b, t->tm_min, two, pad);
    case 'S':
        return put_padded_int(b, t->tm_sec, two, pad);
    case 'j':
        return put_padded_int(b, t->tm_yday + 1, flag == '-' ? 0 : 3, pad);
    case 'p':
        return glyd_jinja_put_text(b, t->tm_hour < 12 ? "AM" : "PM");
    case 'A':
        return glyd_jinja_put_text(b, day_names[t->tm_wday]);
    case 'a':
        return glyd_jinja_put(b, day_names[t->tm_wday], 3);
    case 'B':
        return glyd_jinja_put_text(b, month_names[t->tm_mon]);
    case 'b':
    case 'h':
        return glyd_jinja_put(b, month_names[t->tm_mon], 3);
    case 'Z': /* a time without a zone */
    case 'z':
        return GLYD_OK;
    case '%':
        return glyd_jinja_put_text(b, "%");
    default:
        return glyd_jinja_fail(r, GLYD_E_UNSUPPORTED, "the date format %%%c is not supported",
                               c >= ' ' && c < 0x7F ? c : '?');
    }
}

glyd_status glyd_jinja_strftime(jinja_run *r, const jinja_string *format, jinja_value *out)
{
    jinja_builder b = {.arena = &r->arena};
    for (size_t at = 0; at < format->bytes; at++) {
        if (format->data[at] != '%' || at + 1 == format->bytes) {
            GLYD_TRY(glyd_jinja_put(&b, &format->data[at], 1));
            continue;
        }
        char c = format->data[++at], flag = 0;
        if (strchr("-_0", c) && c && at + 1 < format->bytes) {
            flag = c;
            c = format->data[++at];
        }
        const char *whole = c == 'F' ? "Y-m-d" : c == 'T' ? "H:M:S" : c == 'D' ? "m/d/y" : NULL;
        GLYD_TRY(glyd_jinja_charge(r, 1));
        if (!whole) {
            GLYD_TRY(put_time(r, &b, c, flag));
            continue;
        }
        for (; *whole; whole++) {
            if (strchr("-:/", *whole))
                GLYD_TRY(glyd_jinja_put(&b, whole, 1));
            else
                GLYD_TRY(put_time(r, &b, *whole, 0));
        }
    }
    return glyd_jinja_build(&b, out);
}
