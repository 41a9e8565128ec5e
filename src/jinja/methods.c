/* methods.c - methods of lists, tuples, dicts, loops and cyclers, and finding methods by
 * name.
 *
 * The sandbox is immutable: methods that would change a list or dict are unsafe, so their names
 * give an undefined that fails when called. Python methods that are not built fail by name.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"

/* --- list, tuple, range --- */

static glyd_status list_count(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_list *list = call->self.as.list;
    int64_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        bool equal;
        GLYD_TRY(glyd_jinja_equal(r, list->items[i], call->param[0], &equal));
        n += equal;
    }
    *out = jinja_int(n);
    return GLYD_OK;
}

static glyd_status list_index(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    const jinja_list *list = call->self.as.list;
    int64_t n = (int64_t)list->n, start, stop;
    GLYD_TRY(glyd_jinja_need_int(r, call->param[1], 0, &start));
    GLYD_TRY(glyd_jinja_need_int(r, call->param[2], n, &stop));
    start = start < 0 ? (start < -n ? 0 : start + n) : start;
    stop = stop < 0 ? (stop < -n ? 0 : stop + n) : stop;
    for (int64_t i = start; i < stop && i < n; i++) {
        bool equal;
        GLYD_TRY(glyd_jinja_equal(r, list->items[i], call->param[0], &equal));
        if (equal) {
            *out = jinja_int(i);
            return GLYD_OK;
        }
    }
    jinja_builder b = {.arena = &r->arena};
    GLYD_TRY(glyd_jinja_put_repr(r, &b, call->param[0]));
    return glyd_jinja_fail(r, GLYD_E_FORMAT, "%.*s is not in list",
                           (int)(b.bytes < 200 ? b.bytes : 200), b.data);
}

static glyd_status same_value(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    (void)r;
    *out = call->self; /* a copy of what cannot change */
    return GLYD_OK;
}

static const jinja_method_entry list_methods[] = {
    {"copy", "", same_value},
    {"count", "value", list_count},
    {"index", "value start? stop?", list_index},
};

/* --- dict --- */

static glyd_status dict_get(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_value *found;
    GLYD_TRY(glyd_jinja_dict_find(r, call->self.as.dict, call->param[0], &found));
    *out = found ? *found : call->param[1].kind == JINJA_MISSING ? jinja_none() : call->param[1];
    return GLYD_OK;
}

static glyd_status dict_view(jinja_run *r, const jinja_call *call, const char *label,
                             jinja_value *out)
{
    const jinja_dict *dict = call->self.as.dict;
    jinja_list *list = glyd_jinja_list_new(&r->arena, dict->n);
    if (!list)
        return r->arena.status;
    GLYD_TRY(glyd_jinja_charge(r, dict->n));
    list->label = label;
    for (size_t i = 0; i < dict->n; i++) {
        jinja_value item = label[5] == 'k' ? dict->keys[i] : dict->values[i];
        if (label[5] == 'i') {
            jinja_list *pair = glyd_jinja_list_new(&r->arena, 2);
            if (!pair)
                return r->arena.status;
            GLYD_TRY(glyd_jinja_list_add(&r->arena, pair, dict->keys[i]));
            GLYD_TRY(glyd_jinja_list_add(&r->arena, pair, dict->values[i]));
            item = jinja_seq(JINJA_TUPLE, pair);
        }
        GLYD_TRY(glyd_jinja_list_add(&r->arena, list, item));
    }
    *out = jinja_seq(JINJA_VIEW, list);
    return GLYD_OK;
}

static glyd_status dict_items(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return dict_view(r, call, "dict_items", out);
}

static glyd_status dict_keys(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return dict_view(r, call, "dict_keys", out);
}

static glyd_status dict_values(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    return dict_view(r, call, "dict_values", out);
}

static const jinja_method_entry dict_methods[] = {
    {"copy", "", same_value},  {"fromkeys", "*", NULL}, {"get", "key default?", dict_get},
    {"items", "", dict_items}, {"keys", "", dict_keys}, {"values", "", dict_values},
};

/* --- loop and cycler --- */

static glyd_status loop_cycle(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    if (call->args->n == 0)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "no items for cycling given");
    *out = call->args->positional[(size_t)call->self.as.loop->index0 % call->args->n];
    return GLYD_OK;
}

static glyd_status loop_changed(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_loop *loop = call->self.as.loop;
    jinja_list *list = glyd_jinja_list_new(&r->arena, call->args->n);
    bool equal = false;
    if (!list)
        return r->arena.status;
    for (size_t i = 0; i < call->args->n; i++)
        GLYD_TRY(glyd_jinja_list_add(&r->arena, list, call->args->positional[i]));
    jinja_value now = jinja_seq(JINJA_TUPLE, list);
    GLYD_TRY(glyd_jinja_equal(r, loop->changed, now, &equal));
    loop->changed = now;
    *out = jinja_bool(!equal);
    return GLYD_OK;
}

static const jinja_method_entry loop_methods[] = {
    {"changed", "*", loop_changed},
    {"cycle", "*", loop_cycle},
};

static glyd_status cycler_next(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    jinja_cycler *cycler = call->self.as.cycler;
    (void)r;
    *out = cycler->items[cycler->at];
    cycler->at = (cycler->at + 1) % cycler->n;
    return GLYD_OK;
}

static glyd_status cycler_reset(jinja_run *r, const jinja_call *call, jinja_value *out)
{
    (void)r;
    call->self.as.cycler->at = 0;
    *out = jinja_none();
    return GLYD_OK;
}

static const jinja_method_entry cycler_methods[] = {
    {"next", "", cycler_next},
    {"reset", "", cycler_reset},
};

/* --- finding --- */

static const jinja_method_entry *find_in(const jinja_method_entry *entries, size_t n,
                                         const jinja_string *name)
{
    for (size_t i = 0; i < n; i++) {
        if (glyd_jinja_string_is(name, entries[i].name))
            return &entries[i];
    }
    return NULL;
}

static bool is_word_of(const jinja_string *name, const char *const *words)
{
    for (; *words; words++) {
        if (glyd_jinja_string_is(name, *words))
            return true;
    }
    return false;
}

#define FIND_IN(table) find_in(table, sizeof(table) / sizeof *(table), name)

const jinja_method_entry *glyd_jinja_method_find(jinja_value self, const jinja_string *name,
                                                 bool *is_unsafe)
{
    static const char *const list_unsafe[] = {"append", "clear",   "extend", "insert", "pop",
                                              "remove", "reverse", "sort",   NULL};
    static const char *const dict_unsafe[] = {"clear",      "pop",    "popitem",
                                              "setdefault", "update", NULL};
    const jinja_method_entry *entry;
    switch (self.kind) {
    case JINJA_STRING:
        return find_in(glyd_jinja_str_methods, glyd_jinja_n_str_methods, name);
    case JINJA_LIST:
        *is_unsafe = is_word_of(name, list_unsafe);
        return FIND_IN(list_methods);
    case JINJA_TUPLE:
    case JINJA_RANGE:
        entry = FIND_IN(list_methods);
        return entry == &list_methods[0] ? NULL : entry;
    case JINJA_DICT:
        *is_unsafe = is_word_of(name, dict_unsafe);
        return FIND_IN(dict_methods);
    case JINJA_LOOP:
        return FIND_IN(loop_methods);
    case JINJA_CYCLER:
        return FIND_IN(cycler_methods);
    default:
        return NULL;
    }
}
