/* tojson.c - the tojson filter: json.dumps(x, ensure_ascii, indent, separators, sort_keys).
 *
 * transformers replaces Jinja's own filter: nothing is escaped for HTML, and ensure_ascii is off
 * unless asked for.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <math.h>
#include <stdio.h>

typedef struct json_writer {
    jinja_run *r;
    jinja_builder out;
    bool ascii, sort;
    const jinja_string *indent; /* NULL: all on one line */
    const jinja_string *item_separator, *key_separator;
} json_writer;

static glyd_status put_string(json_writer *w, const jinja_string *s)
{
    GLYD_TRY(glyd_jinja_charge(w->r, 1 + s->bytes / 32));
    GLYD_TRY(glyd_jinja_put_text(&w->out, "\""));
    size_t run = 0;
    for (size_t at = 0, next; at < s->bytes; at = next) {
        int32_t p;
        next = at + glyd_jinja_decode(s->data + at, &p);
        if (p >= 0x20 && p != '"' && p != '\\' && (p < 0x7F || !w->ascii || p == 0x7F))
            continue;
        GLYD_TRY(glyd_jinja_put(&w->out, s->data + run, at - run));
        run = next;
        char shown[16];
        if (p == '"' || p == '\\')
            snprintf(shown, sizeof shown, "\\%c", (char)p);
        else if (p >= '\b' && p <= '\r' && p != '\v')
            snprintf(shown, sizeof shown, "\\%c", "btn?fr"[p - '\b']);
        else if (p < 0x10000)
            snprintf(shown, sizeof shown, "\\u%04x", (unsigned)p);
        else
            snprintf(shown, sizeof shown, "\\u%04x\\u%04x",
                     0xD800u + ((unsigned)(p - 0x10000) >> 10),
                     0xDC00u + ((unsigned)(p - 0x10000) & 0x3FF));
        GLYD_TRY(glyd_jinja_put_text(&w->out, shown));
    }
    GLYD_TRY(glyd_jinja_put(&w->out, s->data + run, s->bytes - run));
    return glyd_jinja_put_text(&w->out, "\"");
}

static glyd_status put_line(json_writer *w, size_t level)
{
    if (!w->indent)
        return GLYD_OK;
    GLYD_TRY(glyd_jinja_put_text(&w->out, "\n"));
    return glyd_jinja_put_repeated(&w->out, w->indent, level);
}

static glyd_status put_real(json_writer *w, double real)
{
    char text[JINJA_REAL_BYTES];
    glyd_jinja_real_text(real, text);
    return glyd_jinja_put_text(&w->out, isnan(real)   ? "NaN"
                                        : isinf(real) ? real < 0 ? "-Infinity" : "Infinity"
                                                      : text);
}

static glyd_status put_value(json_writer *w, jinja_value v, size_t level);

static glyd_status put_list(json_writer *w, const jinja_list *list, size_t level)
{
    if (list->n == 0)
        return glyd_jinja_put_text(&w->out, "[]");
    GLYD_TRY(glyd_jinja_put_text(&w->out, "["));
    for (size_t i = 0; i < list->n; i++) {
        if (i)
            GLYD_TRY(glyd_jinja_put_string(&w->out, w->item_separator));
        GLYD_TRY(put_line(w, level + 1));
        GLYD_TRY(put_value(w, list->items[i], level + 1));
    }
    GLYD_TRY(put_line(w, level));
    return glyd_jinja_put_text(&w->out, "]");
}

static glyd_status put_key(json_writer *w, jinja_value key)
{
    if (key.kind == JINJA_STRING)
        return put_string(w, key.as.string);
    if (key.kind != JINJA_NONE && !jinja_is_number(key))
        return glyd_jinja_fail(w->r, GLYD_E_FORMAT,
                               "keys must be str, int, float, bool or None, not %s",
                               glyd_jinja_type_name(key));
    GLYD_TRY(glyd_jinja_put_text(&w->out, "\""));
    GLYD_TRY(put_value(w, key, 0));
    return glyd_jinja_put_text(&w->out, "\"");
}

/* Where in the dict the i-th member by order of keys is: an insertion sort of indices. */
static glyd_status sorted_members(json_writer *w, const jinja_dict *dict, size_t **order)
{
    size_t *index = glyd_jinja_alloc(&w->r->arena, dict->n * sizeof *index);
    if (!index)
        return w->r->arena.status;
    for (size_t i = 0; i < dict->n; i++) {
        size_t at = i;
        for (; w->sort && at > 0; at--) {
            bool less;
            GLYD_TRY(glyd_jinja_charge(w->r, 1));
            GLYD_TRY(glyd_jinja_order(w->r, '<', dict->keys[i], dict->keys[index[at - 1]], &less));
            if (!less)
                break;
            index[at] = index[at - 1];
        }
        index[at] = i;
    }
    *order = index;
    return GLYD_OK;
}

static glyd_status put_dict(json_writer *w, const jinja_dict *dict, size_t level)
{
    size_t *order = NULL;
    if (dict->n == 0)
        return glyd_jinja_put_text(&w->out, "{}");
    GLYD_TRY(sorted_members(w, dict, &order));
    GLYD_TRY(glyd_jinja_put_text(&w->out, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        if (i)
            GLYD_TRY(glyd_jinja_put_string(&w->out, w->item_separator));
        GLYD_TRY(put_line(w, level + 1));
        GLYD_TRY(put_key(w, dict->keys[order[i]]));
        GLYD_TRY(glyd_jinja_put_string(&w->out, w->key_separator));
        GLYD_TRY(put_value(w, dict->values[order[i]], level + 1));
    }
    GLYD_TRY(put_line(w, level));
    return glyd_jinja_put_text(&w->out, "}");
}

static glyd_status put_value(json_writer *w, jinja_value v, size_t level)
{
    GLYD_TRY(glyd_jinja_deeper(w->r));
    switch (v.kind) {
    case JINJA_NONE:
        GLYD_TRY(glyd_jinja_put_text(&w->out, "null"));
        break;
    case JINJA_BOOL:
        GLYD_TRY(glyd_jinja_put_text(&w->out, v.as.truth ? "true" : "false"));
        break;
    case JINJA_INT:
        GLYD_TRY(glyd_jinja_put_str(w->r, &w->out, v));
        break;
    case JINJA_REAL:
        GLYD_TRY(put_real(w, v.as.real));
        break;
    case JINJA_STRING:
        GLYD_TRY(put_string(w, v.as.string));
        break;
    case JINJA_LIST:
    case JINJA_TUPLE:
        GLYD_TRY(put_list(w, v.as.list, level));
        break;
    case JINJA_DICT:
        GLYD_TRY(put_dict(w, v.as.dict, level));
        break;
    default:
        return glyd_jinja_fail(w->r, GLYD_E_FORMAT, "Object of type %s is not JSON serializable",
                               glyd_jinja_type_name(v));
    }
    w->r->depth--;
    return GLYD_OK;
}

static glyd_status read_indent(json_writer *w, jinja_value indent)
{
    static const jinja_string blank = {" ", 1, 1}, empty = {"", 0, 0};
    if (indent.kind == JINJA_MISSING || indent.kind == JINJA_NONE)
        return GLYD_OK;
    if (indent.kind == JINJA_STRING) {
        w->indent = indent.as.string;
        return GLYD_OK;
    }
    int64_t n;
    jinja_value text;
    jinja_builder b = {.arena = &w->r->arena};
    GLYD_TRY(glyd_jinja_need_defined(w->r, indent));
    GLYD_TRY(glyd_jinja_need_int(w->r, indent, 0, &n));
    w->indent = &empty;
    if (n <= 0)
        return GLYD_OK;
    GLYD_TRY(glyd_jinja_put_repeated(&b, &blank, (size_t)n));
    GLYD_TRY(glyd_jinja_build(&b, &text));
    w->indent = text.as.string;
    return GLYD_OK;
}

glyd_status glyd_jinja_tojson(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    static const jinja_string comma_blank = {", ", 2, 2}, comma = {",", 1, 1}, colon = {": ", 2, 2};
    json_writer w = {.r = r, .out = {.arena = &r->arena}, .key_separator = &colon};
    w.ascii = glyd_jinja_truth(call->param[0]);
    GLYD_TRY(read_indent(&w, call->param[1]));
    w.item_separator = w.indent ? &comma : &comma_blank;
    if (call->param[2].kind != JINJA_MISSING && call->param[2].kind != JINJA_NONE) {
        jinja_list *pair;
        GLYD_TRY(glyd_jinja_items(r, call->param[2], &pair));
        if (pair->n != 2)
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "separators must be two strings");
        GLYD_TRY(glyd_jinja_need_text(r, pair->items[0], "a separator", &w.item_separator));
        GLYD_TRY(glyd_jinja_need_text(r, pair->items[1], "a separator", &w.key_separator));
    }
    w.sort = glyd_jinja_truth(call->param[3]);
    GLYD_TRY(put_value(&w, call->self, 0));
    return glyd_jinja_build(&w.out, out);
}
