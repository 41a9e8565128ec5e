/* filters.c - the table of filters, and those on texts and numbers.
 *
 * A filter that Jinja has and this table has not is refused by name when the template is compiled.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static glyd_status self_text(jinja_run *r, const jinja_call *call, const jinja_string **s)
{
    return glyd_jinja_str(r, call->self, s);
}

static glyd_status filter_lower(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *s;
    GLYD_TRY(self_text(r, call, &s));
    return glyd_jinja_change_case(r, JINJA_LOWER, s, out);
}

static glyd_status filter_upper(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *s;
    GLYD_TRY(self_text(r, call, &s));
    return glyd_jinja_change_case(r, JINJA_UPPER, s, out);
}

static glyd_status filter_capitalize(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *s;
    GLYD_TRY(self_text(r, call, &s));
    return glyd_jinja_change_case(r, JINJA_CAPITALIZE, s, out);
}

static bool begins_word(int32_t p)
{
    return glyd_jinja_point_is_space(p) || p == '-' || p == '(' || p == '{' || p == '[' || p == '<';
}

/* Jinja's title differs from str.title: words start after blanks, '-' and opening brackets only,
 * and their first letter is upper case rather than title case. */
static glyd_status filter_title(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *s;
    jinja_builder b = {.arena = &r->arena};
    GLYD_TRY(self_text(r, call, &s));
    for (size_t at = 0; at < s->bytes;) {
        int32_t p;
        size_t first = glyd_jinja_decode(s->data + at, &p), end = at + first;
        bool separator = begins_word(p);
        while (end < s->bytes) {
            size_t bytes = glyd_jinja_decode(s->data + end, &p);
            if (begins_word(p) != separator)
                break;
            end += bytes;
        }
        const jinja_string *head = glyd_jinja_string_view(&r->arena, s->data + at, first);
        const jinja_string *tail =
            glyd_jinja_string_view(&r->arena, s->data + at + first, end - at - first);
        if (!head || !tail)
            return r->arena.status;
        jinja_value cased;
        GLYD_TRY(glyd_jinja_change_case(r, JINJA_UPPER, head, &cased));
        GLYD_TRY(glyd_jinja_put_string(&b, cased.as.string));
        GLYD_TRY(glyd_jinja_change_case(r, JINJA_LOWER, tail, &cased));
        GLYD_TRY(glyd_jinja_put_string(&b, cased.as.string));
        at = end;
    }
    return glyd_jinja_build(&b, out);
}

static glyd_status filter_string(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *s;
    GLYD_TRY(self_text(r, call, &s));
    *out = jinja_text(s);
    return GLYD_OK;
}

static glyd_status filter_trim(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *s, *chars = NULL;
    GLYD_TRY(self_text(r, call, &s));
    if (call->param[0].kind != JINJA_MISSING && call->param[0].kind != JINJA_NONE)
        GLYD_TRY(glyd_jinja_need_text(r, call->param[0], "strip arg", &chars));
    return glyd_jinja_strip_text(r, s, JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT, chars, out);
}

static glyd_status filter_replace(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *s, *from, *to;
    int64_t count;
    GLYD_TRY(self_text(r, call, &s));
    GLYD_TRY(glyd_jinja_str(r, call->param[0], &from));
    GLYD_TRY(glyd_jinja_str(r, call->param[1], &to));
    GLYD_TRY(glyd_jinja_need_int(r, call->param[2], -1, &count));
    return glyd_jinja_replace_text(r, s, from, to, count, out);
}

static glyd_status filter_center(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    static const jinja_string blank = {" ", 1, 1};
    const jinja_string *s;
    int64_t width;
    GLYD_TRY(self_text(r, call, &s));
    GLYD_TRY(glyd_jinja_need_int(r, call->param[0], 80, &width));
    size_t pad = width > (int64_t)s->points ? (size_t)width - s->points : 0;
    size_t left = pad / 2 + (pad & (size_t)width & 1);
    jinja_builder b = {.arena = &r->arena};
    GLYD_TRY(glyd_jinja_put_repeated(&b, &blank, left));
    GLYD_TRY(glyd_jinja_put_string(&b, s));
    GLYD_TRY(glyd_jinja_put_repeated(&b, &blank, pad - left));
    return glyd_jinja_build(&b, out);
}

static glyd_status filter_indent(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    static const jinja_string blank = {" ", 1, 1};
    jinja_builder unit = {.arena = &r->arena}, b = {.arena = &r->arena};
    int64_t width;
    GLYD_TRY(glyd_jinja_need_defined(r, call->self));
    if (call->self.kind != JINJA_STRING)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               "unsupported operand type(s) for +=: '%s' and 'str'",
                               glyd_jinja_type_name(call->self));
    if (call->param[0].kind == JINJA_STRING) {
        GLYD_TRY(glyd_jinja_put_string(&unit, call->param[0].as.string));
    } else {
        GLYD_TRY(glyd_jinja_need_int(r, call->param[0], 4, &width));
        GLYD_TRY(glyd_jinja_put_repeated(&unit, &blank, width > 0 ? (size_t)width : 0));
    }
    bool first = glyd_jinja_truth(call->param[1]), blanks = glyd_jinja_truth(call->param[2]);
    jinja_list *lines;
    jinja_value whole;
    GLYD_TRY(
        glyd_jinja_binary(r, '+', call->self, jinja_text(&(jinja_string){"\n", 1, 1}), &whole));
    GLYD_TRY(glyd_jinja_split_lines(r, whole.as.string, false, &lines));
    for (size_t i = 0; i < lines->n; i++) {
        const jinja_string *line = lines->items[i].as.string;
        if (i)
            GLYD_TRY(glyd_jinja_put_text(&b, "\n"));
        if (i == 0 ? first : blanks || line->bytes)
            GLYD_TRY(glyd_jinja_put(&b, unit.data, unit.bytes));
        GLYD_TRY(glyd_jinja_put_string(&b, line));
    }
    return glyd_jinja_build(&b, out);
}

static glyd_status filter_format(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *s;
    const jinja_args *args = call->args;
    jinja_value values;
    GLYD_TRY(self_text(r, call, &s));
    if (args->n && args->n_named)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               "can't handle positional and keyword arguments at the same time");
    if (args->n_named) {
        jinja_dict *dict = glyd_jinja_dict_new(&r->arena, args->n_named);
        if (!dict)
            return r->arena.status;
        for (size_t i = 0; i < args->n_named; i++)
            GLYD_TRY(glyd_jinja_dict_add(&r->arena, dict, jinja_text(args->named[i].name),
                                         args->named[i].value));
        values = (jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    } else {
        jinja_list *list = glyd_jinja_list_new(&r->arena, args->n);
        if (!list)
            return r->arena.status;
        for (size_t i = 0; i < args->n; i++)
            GLYD_TRY(glyd_jinja_list_add(&r->arena, list, args->positional[i]));
        values = jinja_seq(JINJA_TUPLE, list);
    }
    return glyd_jinja_percent(r, s, values, out);
}

static glyd_status filter_abs(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    GLYD_TRY(glyd_jinja_need_defined(r, call->self));
    if (!jinja_is_number(call->self))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "bad operand type for abs(): '%s'",
                               glyd_jinja_type_name(call->self));
    bool negative =
        jinja_is_int(call->self) ? jinja_as_int(call->self) < 0 : signbit(call->self.as.real) != 0;
    return glyd_jinja_unary(r, negative ? '-' : '+', call->self, out);
}

static glyd_status filter_float(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    double real;
    GLYD_TRY(glyd_jinja_need_defined(r, call->self));
    if (call->self.kind == JINJA_STRING)
        GLYD_TRY(glyd_jinja_charge(r, call->self.as.string->bytes / 16));
    if (jinja_is_number(call->self))
        *out = jinja_real(jinja_as_real(call->self));
    else if (call->self.kind == JINJA_STRING && glyd_jinja_parse_real(call->self.as.string, &real))
        *out = jinja_real(real);
    else
        *out = call->param[0].kind == JINJA_MISSING ? jinja_real(0.0) : call->param[0];
    return GLYD_OK;
}

static glyd_status int_of_real(jinja_run *r, double real, jinja_value absent, jinja_value *out)
{
    if (!isfinite(real)) {
        *out = absent;
        return GLYD_OK;
    }
    if (!(fabs(real) < 9223372036854775808.0))
        return glyd_jinja_fail(r, GLYD_E_LIMIT, "an integer grows beyond 64 bits");
    *out = jinja_int((int64_t)real);
    return GLYD_OK;
}

static glyd_status filter_int(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_value absent = call->param[0].kind == JINJA_MISSING ? jinja_int(0) : call->param[0];
    int64_t n, base;
    double real;
    bool overflow;
    GLYD_TRY(glyd_jinja_need_defined(r, call->self));
    GLYD_TRY(glyd_jinja_need_int(r, call->param[1], 10, &base));
    *out = absent;
    if (jinja_is_int(call->self)) {
        *out = jinja_int(jinja_as_int(call->self));
        return GLYD_OK;
    }
    if (call->self.kind == JINJA_REAL)
        return int_of_real(r, call->self.as.real, absent, out);
    if (call->self.kind != JINJA_STRING)
        return GLYD_OK;
    GLYD_TRY(glyd_jinja_charge(r, call->self.as.string->bytes / 16));
    if (glyd_jinja_parse_int(call->self.as.string, base >= 2 && base <= 36 ? (int)base : 0, &n,
                             &overflow)) {
        if (overflow)
            return glyd_jinja_fail(r, GLYD_E_LIMIT, "an integer grows beyond 64 bits");
        *out = jinja_int(n);
        return GLYD_OK;
    }
    if (glyd_jinja_parse_real(call->self.as.string, &real))
        return int_of_real(r, real, absent, out);
    return GLYD_OK;
}

/* round(x, precision), half to even on the exact binary value. */
static glyd_status round_common(jinja_value v, int precision, jinja_value *out)
{
    char text[512];
    if (jinja_is_int(v)) {
        *out = jinja_int(jinja_as_int(v));
        return GLYD_OK;
    }
    if (!isfinite(v.as.real) || precision > 100) {
        *out = v;
        return GLYD_OK;
    }
    snprintf(text, sizeof text, "%.*f", precision, v.as.real);
    *out = jinja_real(strtod(text, NULL));
    return GLYD_OK;
}

static glyd_status filter_round(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    static const jinja_string common = {"common", 6, 6};
    const jinja_string *method = &common;
    int64_t precision, power;
    if (call->param[1].kind != JINJA_MISSING)
        GLYD_TRY(glyd_jinja_need_text(r, call->param[1], "method", &method));
    bool up = glyd_jinja_string_is(method, "ceil"), down = glyd_jinja_string_is(method, "floor");
    if (!up && !down && !glyd_jinja_string_is(method, "common"))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "method must be common, ceil or floor");
    GLYD_TRY(glyd_jinja_need_int(r, call->param[0], 0, &precision));
    GLYD_TRY(glyd_jinja_need_defined(r, call->self));
    if (!jinja_is_number(call->self))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "type %s doesn't define __round__ method",
                               glyd_jinja_type_name(call->self));
    if (precision < 0)
        return glyd_jinja_fail(r, GLYD_E_UNSUPPORTED, "a negative precision is not supported");
    if (!up && !down)
        return round_common(call->self, precision > 200 ? 200 : (int)precision, out);
    GLYD_TRY(glyd_jinja_int_power(r, 10, precision, &power));
    double scaled = jinja_as_real(call->self) * (double)power;
    if (!(fabs(scaled) < 9223372036854775808.0))
        return glyd_jinja_fail(r, GLYD_E_LIMIT, "an integer grows beyond 64 bits");
    *out = jinja_real((up ? ceil(scaled) : floor(scaled)) / (double)power);
    if (out->as.real == 0)
        out->as.real = 0; /* math.ceil gives an integer, which has no minus zero */
    return GLYD_OK;
}

static glyd_status filter_default(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    static const jinja_string empty = {"", 0, 0};
    bool boolean = glyd_jinja_truth(call->param[1]);
    *out = call->self;
    if (call->self.kind == JINJA_UNDEFINED || (boolean && !glyd_jinja_truth(call->self)))
        *out = call->param[0].kind == JINJA_MISSING ? jinja_text(&empty) : call->param[0];
    (void)r;
    return GLYD_OK;
}

static glyd_status filter_length(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    int64_t n;
    GLYD_TRY(glyd_jinja_length(r, call->self, &n));
    *out = jinja_int(n);
    return GLYD_OK;
}

static const jinja_filter filters[] = {
    {"abs", "", filter_abs},
    {"capitalize", "", filter_capitalize},
    {"center", "width?", filter_center},
    {"count", "", filter_length},
    {"d", "default_value? boolean?", filter_default},
    {"default", "default_value? boolean?", filter_default},
    {"float", "default?", filter_float},
    {"format", "*", filter_format},
    {"indent", "width? first? blank?", filter_indent},
    {"int", "default? base?", filter_int},
    {"length", "", filter_length},
    {"lower", "", filter_lower},
    {"replace", "old new count?", filter_replace},
    {"round", "precision? method?", filter_round},
    {"safe", "", filter_string}, /* nothing is escaped, so nothing needs to be marked */
    {"string", "", filter_string},
    {"title", "", filter_title},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", glyd_jinja_tojson},
    {"trim", "chars?", filter_trim},
    {"upper", "", filter_upper},
};

const jinja_filter *glyd_jinja_filter_find(const jinja_string *name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        if (glyd_jinja_string_is(name, filters[i].name))
            return &filters[i];
    }
    for (size_t i = 0; i < glyd_jinja_n_sequence_filters; i++) {
        if (glyd_jinja_string_is(name, glyd_jinja_sequence_filters[i].name))
            return &glyd_jinja_sequence_filters[i];
    }
    return NULL;
}

bool glyd_jinja_filter_refused(const jinja_string *name)
{
    static const char *const refused[] = {
        "attr",      "batch",  "e",         "escape",   "filesizeformat", "forceescape",
        "groupby",   "pprint", "random",    "slice",    "striptags",      "truncate",
        "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (glyd_jinja_string_is(name, refused[i]))
            return true;
    }
    return false;
}

glyd_status glyd_jinja_filter_run(jinja_run *r, const jinja_filter *filter, jinja_value input,
                                  const jinja_args *args, jinja_value *out)
{
    jinja_call call = {.self = input};
    char what[64];
    snprintf(what, sizeof what, "the filter %s", filter->name);
    GLYD_TRY(glyd_jinja_bind(r, what, filter->params, args, &call));
    return filter->fn(r, &call, out);
}
