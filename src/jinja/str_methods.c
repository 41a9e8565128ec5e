/* str_methods.c - the methods of strings, and the operations on text that filters share with them.
 *
 * Python methods that are not built are in the table without a function, and fail by name.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <string.h>

static const jinja_string *self_of(const jinja_call *call)
{
    return call->self.as.string;
}

static bool is_given(jinja_value v)
{
    return v.kind != JINJA_MISSING && v.kind != JINJA_NONE;
}

/* --- texts shared with filters --- */

static bool is_stripped(int32_t point, const jinja_string *chars)
{
    if (!chars)
        return glyd_jinja_point_is_space(point);
    for (size_t at = 0; at < chars->bytes;) {
        int32_t one;
        at += glyd_jinja_decode(chars->data + at, &one);
        if (one == point)
            return true;
    }
    return false;
}

glyd_status glyd_jinja_strip_text(jinja_run *r, const jinja_string *s, int sides,
                                  const jinja_string *chars, jinja_value *out)
{
    size_t from = 0, to = s->bytes;
    const uint64_t cost = chars ? chars->bytes / 16 : 0; /* of looking at one character */
    int32_t point;
    GLYD_TRY(glyd_jinja_charge(r, s->bytes / 16));
    while ((sides & JINJA_STRIP_LEFT) && from < to) {
        size_t bytes = glyd_jinja_decode(s->data + from, &point);
        GLYD_TRY(glyd_jinja_charge(r, cost));
        if (!is_stripped(point, chars))
            break;
        from += bytes;
    }
    while ((sides & JINJA_STRIP_RIGHT) && to > from) {
        size_t last = to - 1;
        while (last > from && ((unsigned char)s->data[last] & 0xC0) == 0x80)
            last--;
        glyd_jinja_decode(s->data + last, &point);
        GLYD_TRY(glyd_jinja_charge(r, cost));
        if (!is_stripped(point, chars))
            break;
        to = last;
    }
    const jinja_string *part = glyd_jinja_string_view(&r->arena, s->data + from, to - from);
    if (!part)
        return r->arena.status;
    *out = jinja_text(part);
    return GLYD_OK;
}

/* An empty `from` matches before each character and at the end. */
static glyd_status replace_nothing(jinja_run *r, const jinja_string *s, const jinja_string *to,
                                   int64_t count, jinja_value *out)
{
    jinja_builder b = {.arena = &r->arena};
    for (size_t at = 0; at <= s->bytes;) {
        if (count != 0) {
            GLYD_TRY(glyd_jinja_put_string(&b, to));
            count -= count > 0;
        }
        if (at == s->bytes)
            break;
        int32_t point;
        size_t bytes = glyd_jinja_decode(s->data + at, &point);
        GLYD_TRY(glyd_jinja_put(&b, s->data + at, bytes));
        at += bytes;
    }
    return glyd_jinja_build(&b, out);
}

glyd_status glyd_jinja_replace_text(jinja_run *r, const jinja_string *s, const jinja_string *from,
                                    const jinja_string *to, int64_t count, jinja_value *out)
{
    GLYD_TRY(glyd_jinja_charge(r, s->bytes / 16));
    if (from->bytes == 0)
        return replace_nothing(r, s, to, count, out);
    jinja_builder b = {.arena = &r->arena};
    size_t at = 0;
    while (count != 0) {
        size_t found = glyd_jinja_string_find(s, from, at, s->bytes);
        if (found == SIZE_MAX)
            break;
        GLYD_TRY(glyd_jinja_put(&b, s->data + at, found - at));
        GLYD_TRY(glyd_jinja_put_string(&b, to));
        at = found + from->bytes;
        count -= count > 0;
    }
    GLYD_TRY(glyd_jinja_put(&b, s->data + at, s->bytes - at));
    return glyd_jinja_build(&b, out);
}

static glyd_status add_part(jinja_run *r, jinja_list *list, const jinja_string *s, size_t from,
                            size_t to)
{
    const jinja_string *part = glyd_jinja_string_view(&r->arena, s->data + from, to - from);
    return part ? glyd_jinja_list_add(&r->arena, list, jinja_text(part)) : r->arena.status;
}

glyd_status glyd_jinja_split_lines(jinja_run *r, const jinja_string *s, bool keep, jinja_list **out)
{
    jinja_list *lines = glyd_jinja_list_new(&r->arena, 8);
    if (!lines)
        return r->arena.status;
    GLYD_TRY(glyd_jinja_charge(r, s->bytes / 16));
    for (size_t at = 0; at < s->bytes;) {
        size_t from = at, end = s->bytes, next = s->bytes;
        while (at < s->bytes) {
            int32_t point;
            size_t bytes = glyd_jinja_decode(s->data + at, &point);
            if (glyd_jinja_point_is_line_end(point)) {
                end = at;
                next = at + bytes;
                if (point == '\r' && next < s->bytes && s->data[next] == '\n')
                    next++;
                break;
            }
            at += bytes;
        }
        GLYD_TRY(add_part(r, lines, s, from, keep ? next : end));
        at = next;
    }
    *out = lines;
    return GLYD_OK;
}

/* --- str: case and strip --- */

#define CASE_METHOD(name, to)                                                                      \
    static glyd_status name(jinja_run *r, const jinja_call *call, jinja_value *out)                \
    {                                                                                              \
        return glyd_jinja_change_case(r, to, self_of(call), out);                                  \
    }

CASE_METHOD(str_lower, JINJA_LOWER)
CASE_METHOD(str_upper, JINJA_UPPER)
CASE_METHOD(str_title, JINJA_TITLE)
CASE_METHOD(str_capitalize, JINJA_CAPITALIZE)

static glyd_status strip_sides(jinja_run *r, const jinja_call *call, int sides, jinja_value *out)
{
    const jinja_string *chars = NULL;
    if (is_given(call->param[0]))
        GLYD_TRY(glyd_jinja_need_text(r, call->param[0], "strip arg", &chars));
    return glyd_jinja_strip_text(r, self_of(call), sides, chars, out);
}

static glyd_status str_strip(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return strip_sides(r, call, JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT, out);
}

static glyd_status str_lstrip(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return strip_sides(r, call, JINJA_STRIP_LEFT, out);
}

static glyd_status str_rstrip(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return strip_sides(r, call, JINJA_STRIP_RIGHT, out);
}

/* --- str: splitting and joining --- */

/* Split at runs of whitespace, at most `count` times (-1: no limit), from the left. */
static glyd_status split_blanks(jinja_run *r, const jinja_string *s, int64_t count,
                                jinja_list *list)
{
    size_t at = 0;
    for (;;) {
        int32_t point;
        size_t bytes;
        while (at < s->bytes) {
            bytes = glyd_jinja_decode(s->data + at, &point);
            if (!glyd_jinja_point_is_space(point))
                break;
            at += bytes;
        }
        if (at == s->bytes)
            return GLYD_OK;
        size_t from = at;
        if (count == 0)
            return add_part(r, list, s, from, s->bytes);
        count -= count > 0;
        while (at < s->bytes) {
            bytes = glyd_jinja_decode(s->data + at, &point);
            if (glyd_jinja_point_is_space(point))
                break;
            at += bytes;
        }
        GLYD_TRY(add_part(r, list, s, from, at));
    }
}

static size_t point_before(const jinja_string *s, size_t at, int32_t *point)
{
    at--;
    while (at > 0 && ((unsigned char)s->data[at] & 0xC0) == 0x80)
        at--;
    glyd_jinja_decode(s->data + at, point);
    return at;
}

/* The same from the right; parts come out last first. */
static glyd_status rsplit_blanks(jinja_run *r, const jinja_string *s, int64_t count,
                                 jinja_list *list)
{
    size_t at = s->bytes;
    for (;;) {
        int32_t point;
        while (at > 0) {
            size_t before = point_before(s, at, &point);
            if (!glyd_jinja_point_is_space(point))
                break;
            at = before;
        }
        if (at == 0)
            return GLYD_OK;
        size_t to = at;
        if (count == 0)
            return add_part(r, list, s, 0, to);
        count -= count > 0;
        while (at > 0) {
            size_t before = point_before(s, at, &point);
            if (glyd_jinja_point_is_space(point))
                break;
            at = before;
        }
        GLYD_TRY(add_part(r, list, s, at, to));
    }
}

static glyd_status split_at(jinja_run *r, const jinja_string *s, const jinja_string *separator,
                            int64_t count, jinja_list *list)
{
    size_t at = 0;
    for (; count != 0; count -= count > 0) {
        size_t found = glyd_jinja_string_find(s, separator, at, s->bytes);
        if (found == SIZE_MAX)
            break;
        GLYD_TRY(add_part(r, list, s, at, found));
        at = found + separator->bytes;
    }
    return add_part(r, list, s, at, s->bytes);
}

static glyd_status rsplit_at(jinja_run *r, const jinja_string *s, const jinja_string *separator,
                             int64_t count, jinja_list *list)
{
    size_t to = s->bytes;
    for (; count != 0; count -= count > 0) {
        size_t found = glyd_jinja_string_rfind(s, separator, 0, to);
        if (found == SIZE_MAX)
            break;
        GLYD_TRY(add_part(r, list, s, found + separator->bytes, to));
        to = found;
    }
    return add_part(r, list, s, 0, to);
}

static glyd_status split_either(jinja_run *r, const jinja_call *call, bool right, jinja_value *out)
{
    const jinja_string *s = self_of(call), *separator = NULL;
    int64_t count;
    jinja_list *list = glyd_jinja_list_new(&r->arena, 8);
    if (!list)
        return r->arena.status;
    if (is_given(call->param[0]))
        GLYD_TRY(glyd_jinja_need_text(r, call->param[0], "the separator", &separator));
    GLYD_TRY(glyd_jinja_need_int(r, call->param[1], -1, &count));
    if (separator && separator->bytes == 0)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "empty separator");
    GLYD_TRY(glyd_jinja_charge(r, s->bytes / 16));
    if (!right)
        GLYD_TRY(separator ? split_at(r, s, separator, count, list)
                           : split_blanks(r, s, count, list));
    else
        GLYD_TRY(separator ? rsplit_at(r, s, separator, count, list)
                           : rsplit_blanks(r, s, count, list));
    for (size_t i = 0; right && i < list->n / 2; i++) {
        jinja_value swapped = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = swapped;
    }
    GLYD_TRY(glyd_jinja_charge(r, list->n));
    *out = jinja_seq(JINJA_LIST, list);
    return GLYD_OK;
}

static glyd_status str_split(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return split_either(r, call, false, out);
}

static glyd_status str_rsplit(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return split_either(r, call, true, out);
}

static glyd_status str_splitlines(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_list *lines;
    GLYD_TRY(glyd_jinja_split_lines(r, self_of(call), glyd_jinja_truth(call->param[0]), &lines));
    *out = jinja_seq(JINJA_LIST, lines);
    return GLYD_OK;
}

static glyd_status partition(jinja_run *r, const jinja_call *call, bool right, jinja_value *out)
{
    const jinja_string *s = self_of(call), *separator;
    GLYD_TRY(glyd_jinja_need_text(r, call->param[0], "the separator", &separator));
    if (separator->bytes == 0)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "empty separator");
    GLYD_TRY(glyd_jinja_charge(r, s->bytes / 16));
    size_t at = right ? glyd_jinja_string_rfind(s, separator, 0, s->bytes)
                      : glyd_jinja_string_find(s, separator, 0, s->bytes);
    size_t end = at + separator->bytes;
    if (at == SIZE_MAX)
        at = end = right ? 0 : s->bytes;
    jinja_list *list = glyd_jinja_list_new(&r->arena, 3);
    if (!list)
        return r->arena.status;
    GLYD_TRY(add_part(r, list, s, 0, at));
    GLYD_TRY(add_part(r, list, s, at, end));
    GLYD_TRY(add_part(r, list, s, end, s->bytes));
    *out = jinja_seq(JINJA_TUPLE, list);
    return GLYD_OK;
}

static glyd_status str_partition(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return partition(r, call, false, out);
}

static glyd_status str_rpartition(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return partition(r, call, true, out);
}

static glyd_status str_join(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_list *items;
    jinja_builder b = {.arena = &r->arena};
    if (!glyd_jinja_is_iterable(call->param[0]))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "can only join an iterable");
    GLYD_TRY(glyd_jinja_items(r, call->param[0], &items));
    for (size_t i = 0; i < items->n; i++) {
        if (items->items[i].kind != JINJA_STRING)
            return glyd_jinja_fail(r, GLYD_E_FORMAT,
                                   "sequence item %zu: expected str instance, %s found", i,
                                   glyd_jinja_type_name(items->items[i]));
        if (i)
            GLYD_TRY(glyd_jinja_put_string(&b, self_of(call)));
        GLYD_TRY(glyd_jinja_put_str(r, &b, items->items[i]));
    }
    return glyd_jinja_build(&b, out);
}

static glyd_status str_replace(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *from, *to;
    int64_t count;
    GLYD_TRY(glyd_jinja_need_text(r, call->param[0], "replace() argument 1", &from));
    GLYD_TRY(glyd_jinja_need_text(r, call->param[1], "replace() argument 2", &to));
    GLYD_TRY(glyd_jinja_need_int(r, call->param[2], -1, &count));
    return glyd_jinja_replace_text(r, self_of(call), from, to, count, out);
}

/* --- str: searching --- */

/* Parameters 1 and 2 as the byte range that s[start:stop] is; false where start is past the end. */
static glyd_status search_range(jinja_run *r, const jinja_call *call, size_t *from, size_t *to,
                                bool *possible)
{
    const jinja_string *s = self_of(call);
    int64_t n = (int64_t)s->points, start, stop;
    GLYD_TRY(glyd_jinja_need_int(r, call->param[1], 0, &start));
    GLYD_TRY(glyd_jinja_need_int(r, call->param[2], n, &stop));
    if (start < 0)
        start = start < -n ? 0 : start + n;
    if (stop < 0)
        stop = stop < -n ? 0 : stop + n;
    if (stop > n)
        stop = n;
    *possible = start <= stop;
    if (*possible) {
        *from = glyd_jinja_string_offset(s, (size_t)start);
        *to = glyd_jinja_string_offset(s, (size_t)stop);
    }
    return glyd_jinja_charge(r, 1 + s->bytes / 8);
}

static int64_t points_before(const jinja_string *s, size_t at)
{
    int64_t n = 0;
    for (size_t i = 0; i < at; i++)
        n += ((unsigned char)s->data[i] & 0xC0) != 0x80;
    return n;
}

static glyd_status find_either(jinja_run *r, const jinja_call *call, bool right, bool must,
                               jinja_value *out)
{
    const jinja_string *s = self_of(call), *what;
    size_t from = 0, to = 0, at = SIZE_MAX;
    bool possible;
    GLYD_TRY(glyd_jinja_need_text(r, call->param[0], "the text to find", &what));
    GLYD_TRY(search_range(r, call, &from, &to, &possible));
    if (possible)
        at = right ? glyd_jinja_string_rfind(s, what, from, to)
                   : glyd_jinja_string_find(s, what, from, to);
    if (at == SIZE_MAX && must)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "substring not found");
    *out = jinja_int(at == SIZE_MAX ? -1 : points_before(s, at));
    return GLYD_OK;
}

static glyd_status str_find(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return find_either(r, call, false, false, out);
}

static glyd_status str_rfind(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return find_either(r, call, true, false, out);
}

static glyd_status str_index(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return find_either(r, call, false, true, out);
}

static glyd_status str_rindex(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return find_either(r, call, true, true, out);
}

static glyd_status str_count(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_string *s = self_of(call), *what;
    size_t from = 0, to = 0;
    int64_t n = 0;
    bool possible;
    GLYD_TRY(glyd_jinja_need_text(r, call->param[0], "the text to count", &what));
    GLYD_TRY(search_range(r, call, &from, &to, &possible));
    if (possible && what->bytes == 0)
        n = points_before(s, to) - points_before(s, from) + 1;
    while (possible && what->bytes) {
        from = glyd_jinja_string_find(s, what, from, to);
        if (from == SIZE_MAX)
            break;
        from += what->bytes;
        n++;
    }
    *out = jinja_int(n);
    return GLYD_OK;
}

static bool matches(const jinja_string *s, const jinja_string *what, size_t from, size_t to,
                    bool at_end)
{
    if (to - from < what->bytes)
        return false;
    size_t at = at_end ? to - what->bytes : from;
    return what->bytes == 0 || memcmp(s->data + at, what->data, what->bytes) == 0;
}

static glyd_status starts_or_ends(jinja_run *r, const jinja_call *call, bool at_end,
                                  jinja_value *out)
{
    const jinja_value what = call->param[0];
    size_t from = 0, to = 0;
    bool possible, found = false;
    GLYD_TRY(search_range(r, call, &from, &to, &possible));
    if (what.kind != JINJA_STRING && what.kind != JINJA_TUPLE)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               "%s first arg must be str or a tuple of str, not %s",
                               at_end ? "endswith" : "startswith", glyd_jinja_type_name(what));
    size_t n = what.kind == JINJA_TUPLE ? what.as.list->n : 1;
    for (size_t i = 0; i < n && !found; i++) {
        jinja_value one = what.kind == JINJA_TUPLE ? what.as.list->items[i] : what;
        if (one.kind != JINJA_STRING)
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "tuple for %s must only contain str, not %s",
                                   at_end ? "endswith" : "startswith", glyd_jinja_type_name(one));
        GLYD_TRY(glyd_jinja_charge(r, 1 + one.as.string->bytes / 256));
        found = possible && matches(self_of(call), one.as.string, from, to, at_end);
    }
    *out = jinja_bool(found);
    return GLYD_OK;
}

static glyd_status str_startswith(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return starts_or_ends(r, call, false, out);
}

static glyd_status str_endswith(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return starts_or_ends(r, call, true, out);
}

static glyd_status remove_affix(jinja_run *r, const jinja_call *call, bool suffix, jinja_value *out)
{
    const jinja_string *s = self_of(call), *what;
    GLYD_TRY(glyd_jinja_need_text(r, call->param[0], "the text to remove", &what));
    *out = call->self;
    GLYD_TRY(glyd_jinja_charge(r, s->bytes / 64));
    if (!matches(s, what, 0, s->bytes, suffix))
        return GLYD_OK;
    const jinja_string *part = glyd_jinja_string_view(
        &r->arena, s->data + (suffix ? 0 : what->bytes), s->bytes - what->bytes);
    if (!part)
        return r->arena.status;
    *out = jinja_text(part);
    return GLYD_OK;
}

static glyd_status str_removeprefix(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return remove_affix(r, call, false, out);
}

static glyd_status str_removesuffix(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return remove_affix(r, call, true, out);
}

/* --- str: predicates and padding --- */

static glyd_status all_points(jinja_run *r, const jinja_call *call, bool (*holds)(int32_t),
                              bool if_empty, jinja_value *out)
{
    const jinja_string *s = self_of(call);
    bool all = if_empty || s->bytes > 0;
    for (size_t at = 0; all && at < s->bytes;) {
        int32_t point;
        at += glyd_jinja_decode(s->data + at, &point);
        all = holds(point);
    }
    *out = jinja_bool(all);
    return glyd_jinja_charge(r, s->bytes / 16);
}

static bool is_alnum(int32_t p)
{
    return glyd_jinja_point_is_alpha(p) || glyd_jinja_point_is_digit(p) ||
           glyd_jinja_point_is_numeric(p);
}

static bool is_ascii(int32_t p)
{
    return p < 0x80;
}

#define ALL_METHOD(name, holds, if_empty)                                                          \
    static glyd_status name(jinja_run *r, const jinja_call *call, jinja_value *out)                \
    {                                                                                              \
        return all_points(r, call, holds, if_empty, out);                                          \
    }

ALL_METHOD(str_isalnum, is_alnum, false)
ALL_METHOD(str_isalpha, glyd_jinja_point_is_alpha, false)
ALL_METHOD(str_isascii, is_ascii, true)
ALL_METHOD(str_isdecimal, glyd_jinja_point_is_decimal, false)
ALL_METHOD(str_isdigit, glyd_jinja_point_is_digit, false)
ALL_METHOD(str_isnumeric, glyd_jinja_point_is_numeric, false)
ALL_METHOD(str_isprintable, glyd_jinja_point_is_printable, true)
ALL_METHOD(str_isspace, glyd_jinja_point_is_space, false)

static glyd_status run_test(jinja_run *r, const jinja_call *call, const char *name,
                            jinja_value *out)
{
    const jinja_string text = {name, strlen(name), strlen(name)};
    bool holds;
    GLYD_TRY(glyd_jinja_test_run(r, glyd_jinja_test_find(&text), call->self, call->args, &holds));
    *out = jinja_bool(holds);
    return GLYD_OK;
}

static glyd_status str_islower(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return run_test(r, call, "lower", out);
}

static glyd_status str_isupper(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return run_test(r, call, "upper", out);
}

/* Pad to a width with `left` of the padding in front: 0, 1 (all) or 2 (half of it). */
static glyd_status justify(jinja_run *r, const jinja_call *call, int left, jinja_value *out)
{
    static const jinja_string blank = {" ", 1, 1};
    const jinja_string *s = self_of(call), *fill = &blank;
    int64_t width;
    jinja_builder b = {.arena = &r->arena};
    GLYD_TRY(glyd_jinja_need_int(r, call->param[0], 0, &width));
    if (call->param[1].kind != JINJA_MISSING)
        GLYD_TRY(glyd_jinja_need_text(r, call->param[1], "the fill character", &fill));
    if (fill->points != 1)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               "The fill character must be exactly one character long");
    size_t pad = width > (int64_t)s->points ? (size_t)width - s->points : 0;
    size_t front = left == 0 ? 0 : left == 1 ? pad : pad / 2 + (pad & (size_t)width & 1);
    GLYD_TRY(glyd_jinja_put_repeated(&b, fill, front));
    GLYD_TRY(glyd_jinja_put_string(&b, s));
    GLYD_TRY(glyd_jinja_put_repeated(&b, fill, pad - front));
    return glyd_jinja_build(&b, out);
}

static glyd_status str_ljust(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return justify(r, call, 0, out);
}

static glyd_status str_rjust(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return justify(r, call, 1, out);
}

static glyd_status str_center(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return justify(r, call, 2, out);
}

static glyd_status str_zfill(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    static const jinja_string zero = {"0", 1, 1};
    const jinja_string *s = self_of(call);
    int64_t width;
    jinja_builder b = {.arena = &r->arena};
    GLYD_TRY(glyd_jinja_need_int(r, call->param[0], 0, &width));
    size_t pad = width > (int64_t)s->points ? (size_t)width - s->points : 0;
    size_t sign = s->bytes && (s->data[0] == '-' || s->data[0] == '+');
    GLYD_TRY(glyd_jinja_put(&b, s->data, sign));
    GLYD_TRY(glyd_jinja_put_repeated(&b, &zero, pad));
    GLYD_TRY(glyd_jinja_put(&b, s->data + sign, s->bytes - sign));
    return glyd_jinja_build(&b, out);
}

const jinja_method_entry glyd_jinja_str_methods[] = {
    {"capitalize", "", str_capitalize},
    {"casefold", "*", NULL},
    {"center", "width fillchar?", str_center},
    {"count", "sub start? end?", str_count},
    {"encode", "*", NULL},
    {"endswith", "suffix start? end?", str_endswith},
    {"expandtabs", "*", NULL},
    {"find", "sub start? end?", str_find},
    {"format", "*", glyd_jinja_format},
    {"format_map", "*", NULL},
    {"index", "sub start? end?", str_index},
    {"isalnum", "", str_isalnum},
    {"isalpha", "", str_isalpha},
    {"isascii", "", str_isascii},
    {"isdecimal", "", str_isdecimal},
    {"isdigit", "", str_isdigit},
    {"isidentifier", "*", NULL},
    {"islower", "", str_islower},
    {"isnumeric", "", str_isnumeric},
    {"isprintable", "", str_isprintable},
    {"isspace", "", str_isspace},
    {"istitle", "*", NULL},
    {"isupper", "", str_isupper},
    {"join", "iterable", str_join},
    {"ljust", "width fillchar?", str_ljust},
    {"lower", "", str_lower},
    {"lstrip", "chars?", str_lstrip},
    {"maketrans", "*", NULL},
    {"partition", "sep", str_partition},
    {"removeprefix", "prefix", str_removeprefix},
    {"removesuffix", "suffix", str_removesuffix},
    {"replace", "old new count?", str_replace},
    {"rfind", "sub start? end?", str_rfind},
    {"rindex", "sub start? end?", str_rindex},
    {"rjust", "width fillchar?", str_rjust},
    {"rpartition", "sep", str_rpartition},
    {"rsplit", "sep? maxsplit?", str_rsplit},
    {"rstrip", "chars?", str_rstrip},
    {"split", "sep? maxsplit?", str_split},
    {"splitlines", "keepends?", str_splitlines},
    {"startswith", "prefix start? end?", str_startswith},
    {"strip", "chars?", str_strip},
    {"swapcase", "*", NULL},
    {"title", "", str_title},
    {"translate", "*", NULL},
    {"upper", "", str_upper},
    {"zfill", "width", str_zfill},
};

const size_t glyd_jinja_n_str_methods =
    sizeof glyd_jinja_str_methods / sizeof *glyd_jinja_str_methods;
