/* member.c - x.name, x[key] and x[a:b:c], with the sandbox's refusals.
 *
 * x.name looks for Python's attribute first and for the key second, x["name"] the other way round;
 * what has neither is undefined, and only using that fails.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <stdio.h>

static glyd_status undefined_member(jinja_run *r, jinja_value owner, jinja_value key,
                                    jinja_value *out)
{
    return glyd_jinja_new_undefined(r, NULL, owner, key, out);
}

static glyd_status unsafe_member(jinja_run *r, jinja_value owner, const jinja_string *name,
                                 jinja_value *out)
{
    jinja_builder hint = {.arena = &r->arena};
    GLYD_TRY(glyd_jinja_put_text(&hint, "access to attribute "));
    GLYD_TRY(glyd_jinja_put_repr(r, &hint, jinja_text(name)));
    GLYD_TRY(glyd_jinja_put_text(&hint, " of '"));
    GLYD_TRY(glyd_jinja_put_text(&hint, glyd_jinja_type_name(owner)));
    GLYD_TRY(glyd_jinja_put(&hint, "' object is unsafe.", sizeof "' object is unsafe."));
    return glyd_jinja_new_undefined(r, hint.data, owner, jinja_text(name), out);
}

static bool is_dunder(const jinja_string *name)
{
    return name->bytes > 4 && name->data[0] == '_' && name->data[1] == '_' &&
           name->data[name->bytes - 1] == '_' && name->data[name->bytes - 2] == '_';
}

/* Python's getattr: *there says whether it found something, be it forbidden. */
static glyd_status attribute(jinja_run *r, jinja_value owner, const jinja_string *name,
                             jinja_value *out, bool *there)
{
    *there = true;
    if (is_dunder(name)) /* the public ones lead into Python's insides, all of them unsafe */
        return unsafe_member(r, owner, name, out);
    if (owner.kind == JINJA_NAMESPACE) {
        const jinja_value *value = glyd_jinja_dict_text(owner.as.dict, name);
        *there = value != NULL;
        if (value)
            *out = *value;
        return glyd_jinja_charge(r, owner.as.dict->n / 8);
    }
    if (owner.kind == JINJA_LOOP) {
        GLYD_TRY(glyd_jinja_loop_member(r, owner.as.loop, name, out));
        *there = out->kind != JINJA_MISSING;
        if (*there)
            return GLYD_OK;
    }
    bool is_unsafe = false;
    const jinja_method_entry *entry = glyd_jinja_method_find(owner, name, &is_unsafe);
    if (is_unsafe)
        return unsafe_member(r, owner, name, out);
    *there = entry != NULL;
    if (!entry)
        return GLYD_OK;
    jinja_method *method = glyd_jinja_alloc(&r->arena, sizeof *method);
    if (!method)
        return r->arena.status;
    *method = (jinja_method){owner, entry};
    *out = (jinja_value){.kind = JINJA_METHOD, .as.method = method};
    return GLYD_OK;
}

glyd_status glyd_jinja_member(jinja_run *r, jinja_value owner, const jinja_string *name,
                              jinja_value *out)
{
    bool there;
    GLYD_TRY(glyd_jinja_need_defined(r, owner));
    GLYD_TRY(attribute(r, owner, name, out, &there));
    if (there)
        return GLYD_OK;
    if (owner.kind == JINJA_DICT) {
        const jinja_value *value = glyd_jinja_dict_text(owner.as.dict, name);
        GLYD_TRY(glyd_jinja_charge(r, owner.as.dict->n / 8));
        if (value) {
            *out = *value;
            return GLYD_OK;
        }
    }
    return undefined_member(r, owner, jinja_text(name), out);
}

static bool is_sequence(jinja_value v)
{
    return v.kind == JINJA_LIST || v.kind == JINJA_TUPLE || v.kind == JINJA_RANGE;
}

static glyd_status item_at(jinja_run *r, jinja_value owner, int64_t index, jinja_value *out,
                           bool *there)
{
    int64_t n = (int64_t)(owner.kind == JINJA_STRING ? owner.as.string->points : owner.as.list->n);
    if (index < 0)
        index += n;
    *there = index >= 0 && index < n;
    if (!*there)
        return GLYD_OK;
    if (owner.kind != JINJA_STRING) {
        *out = owner.as.list->items[index];
        return GLYD_OK;
    }
    const jinja_string *s = owner.as.string;
    if (s->points != s->bytes)
        GLYD_TRY(glyd_jinja_charge(r, s->bytes / 64));
    size_t at = glyd_jinja_string_offset(s, (size_t)index);
    int32_t point;
    size_t bytes = glyd_jinja_decode(s->data + at, &point);
    const jinja_string *one = glyd_jinja_string_view(&r->arena, s->data + at, bytes);
    if (!one)
        return r->arena.status;
    *out = jinja_text(one);
    return GLYD_OK;
}

static bool is_hashable(jinja_value key)
{
    return key.kind != JINJA_LIST && key.kind != JINJA_DICT && key.kind != JINJA_TUPLE;
}

glyd_status glyd_jinja_index(jinja_run *r, jinja_value owner, jinja_value key, jinja_value *out)
{
    bool there = false;
    GLYD_TRY(glyd_jinja_need_defined(r, owner));
    if (owner.kind == JINJA_DICT && (is_hashable(key) || key.kind == JINJA_TUPLE)) {
        jinja_value *value;
        GLYD_TRY(glyd_jinja_dict_find(r, owner.as.dict, key, &value));
        there = value != NULL;
        if (value)
            *out = *value;
    } else if (jinja_is_int(key) && (is_sequence(owner) || owner.kind == JINJA_STRING)) {
        GLYD_TRY(item_at(r, owner, jinja_as_int(key), out, &there));
    }
    if (!there && key.kind == JINJA_STRING)
        GLYD_TRY(attribute(r, owner, key.as.string, out, &there));
    return there ? GLYD_OK : undefined_member(r, owner, key, out);
}

/* One bound of a slice, clamped to [low, high]. */
static glyd_status slice_bound(jinja_run *r, jinja_value v, int64_t n, int64_t absent, int64_t low,
                               int64_t high, int64_t *out)
{
    *out = absent;
    if (v.kind == JINJA_NONE || v.kind == JINJA_MISSING)
        return GLYD_OK;
    if (!jinja_is_int(v))
        return glyd_jinja_fail(
            r, GLYD_E_FORMAT, "slice indices must be integers or None or have an __index__ method");
    int64_t at = jinja_as_int(v);
    if (at < 0)
        at = at < -n ? low : at + n;
    *out = at < low ? low : at > high ? high : at;
    return GLYD_OK;
}

static glyd_status slice_text(jinja_run *r, const jinja_string *s, int64_t start, int64_t step,
                              size_t count, jinja_value *out)
{
    GLYD_TRY(glyd_jinja_charge(r, s->bytes / 64 + (step == 1 ? 0 : count)));
    if (step == 1) {
        size_t from = glyd_jinja_string_offset(s, (size_t)start);
        size_t to = glyd_jinja_string_offset(s, (size_t)start + count);
        const jinja_string *part = glyd_jinja_string_view(&r->arena, s->data + from, to - from);
        if (!part)
            return r->arena.status;
        *out = jinja_text(part);
        return GLYD_OK;
    }
    jinja_list *items;
    GLYD_TRY(glyd_jinja_items(r, jinja_text(s), &items));
    jinja_builder b = {.arena = &r->arena};
    for (size_t i = 0; i < count; i++, start += step)
        GLYD_TRY(glyd_jinja_put_string(&b, items->items[start].as.string));
    return glyd_jinja_build(&b, out);
}

/* jinja2 folds a slice of a constant that has none, such as (5)[1:], to undefined; here it fails as
 * the slice of a variable does. */
glyd_status glyd_jinja_slice(jinja_run *r, jinja_value owner, jinja_value start, jinja_value stop,
                             jinja_value step, jinja_value *out)
{
    GLYD_TRY(glyd_jinja_need_defined(r, owner));
    if (!is_sequence(owner) && owner.kind != JINJA_STRING)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               owner.kind == JINJA_DICT ? "unhashable type: 'slice'%.0s"
                                                        : "'%s' object is not subscriptable",
                               glyd_jinja_type_name(owner));
    int64_t n = (int64_t)(owner.kind == JINJA_STRING ? owner.as.string->points : owner.as.list->n);
    int64_t by = 1, from, to;
    GLYD_TRY(glyd_jinja_need_int(r, step, 1, &by));
    by = by < -INT32_MAX ? -INT32_MAX : by > INT32_MAX ? INT32_MAX : by;
    if (by == 0)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "slice step cannot be zero");
    int64_t low = by < 0 ? -1 : 0, high = by < 0 ? n - 1 : n;
    GLYD_TRY(slice_bound(r, start, n, by < 0 ? high : low, low, high, &from));
    GLYD_TRY(slice_bound(r, stop, n, by < 0 ? low : high, low, high, &to));
    int64_t count = by > 0 ? (to - from + by - 1) / by : (from - to - by - 1) / -by;
    if (count < 0 || (by > 0 ? to <= from : from <= to))
        count = 0;
    if (owner.kind == JINJA_STRING)
        return slice_text(r, owner.as.string, count ? from : 0, by, (size_t)count, out);
    GLYD_TRY(glyd_jinja_charge(r, (uint64_t)count));
    jinja_list *list = glyd_jinja_list_new(&r->arena, (size_t)count);
    if (!list)
        return r->arena.status;
    for (int64_t i = 0; i < count; i++)
        list->items[i] = owner.as.list->items[from + i * by];
    list->n = (size_t)count;
    *out = jinja_seq(owner.kind, list);
    return GLYD_OK;
}

glyd_status glyd_jinja_attribute(jinja_run *r, jinja_value item, jinja_value path, jinja_value *out)
{
    if (path.kind != JINJA_STRING)
        return glyd_jinja_index(r, item, path, out);
    const jinja_string *s = path.as.string;
    for (size_t at = 0; at <= s->bytes;) {
        size_t end = at;
        bool digits = true;
        for (; end < s->bytes && s->data[end] != '.'; end++)
            digits = digits && s->data[end] >= '0' && s->data[end] <= '9';
        const jinja_string *part = glyd_jinja_string_view(&r->arena, s->data + at, end - at);
        if (!part)
            return r->arena.status;
        jinja_value key = jinja_text(part);
        int64_t index;
        bool over;
        if (digits && end > at && glyd_jinja_parse_int(part, 10, &index, &over) && !over)
            key = jinja_int(index);
        GLYD_TRY(glyd_jinja_index(r, item, key, &item));
        at = end + 1;
    }
    *out = item;
    return GLYD_OK;
}
