/* run.c - failing, limits and scopes of one rendering.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <stdarg.h>
#include <stdio.h>

glyd_status glyd_jinja_fail(jinja_run *r, glyd_status status, const char *format, ...)
{
    char text[GLYD_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return glyd_jinja_fail_at(&r->arena, r->line, status, "%s", text);
}

glyd_status glyd_jinja_charge(jinja_run *r, uint64_t steps)
{
    r->steps += steps;
    if (r->steps > r->steps_max)
        return glyd_jinja_fail(r, GLYD_E_LIMIT, "over the limit of %llu steps",
                               (unsigned long long)r->steps_max);
    return GLYD_OK;
}

glyd_status glyd_jinja_deeper(jinja_run *r)
{
    if (++r->depth > r->depth_max)
        return glyd_jinja_fail(r, GLYD_E_LIMIT, "over the limit of %d levels of nesting",
                               r->depth_max);
    return glyd_jinja_charge(r, 1);
}

/* "dict object" and the like, as Jinja names the owner of a missing member. */
static const char *owner_name(jinja_value owner)
{
    switch (owner.kind) {
    case JINJA_NONE:
        return "None";
    case JINJA_NAMESPACE:
        return "jinja2.utils.Namespace object";
    case JINJA_LOOP:
        return "jinja2.runtime.LoopContext object";
    case JINJA_MACRO:
        return "jinja2.runtime.Macro object";
    case JINJA_CYCLER:
        return "jinja2.utils.Cycler object";
    case JINJA_JOINER:
        return "jinja2.utils.Joiner object";
    default:
        return NULL;
    }
}

glyd_status glyd_jinja_fail_undefined(jinja_run *r, jinja_value undefined)
{
    const jinja_undefined *u = undefined.as.undefined;
    if (u->hint)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "%s", u->hint);
    jinja_builder b = {.arena = &r->arena};
    GLYD_TRY(glyd_jinja_put_repr(r, &b, u->key));
    int shown = b.bytes < 200 ? (int)b.bytes : 200;
    if (u->owner.kind == JINJA_MISSING)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "%.*s is undefined", shown, b.data);
    char type[64];
    const char *owner = owner_name(u->owner);
    if (!owner) {
        snprintf(type, sizeof type, "%s object", glyd_jinja_type_name(u->owner));
        owner = type;
    }
    if (u->key.kind == JINJA_STRING)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "'%s' has no attribute %.*s", owner, shown,
                               b.data);
    return glyd_jinja_fail(r, GLYD_E_FORMAT, "%s has no element %.*s", owner, shown, b.data);
}

glyd_status glyd_jinja_need_defined(jinja_run *r, jinja_value v)
{
    return v.kind == JINJA_UNDEFINED ? glyd_jinja_fail_undefined(r, v) : GLYD_OK;
}

glyd_status glyd_jinja_new_undefined(jinja_run *r, const char *hint, jinja_value owner,
                                     jinja_value key, jinja_value *out)
{
    jinja_undefined *u = glyd_jinja_alloc(&r->arena, sizeof *u);
    if (!u)
        return r->arena.status;
    *u = (jinja_undefined){hint, owner, key};
    *out = (jinja_value){.kind = JINJA_UNDEFINED, .as.undefined = u};
    return GLYD_OK;
}

jinja_scope *glyd_jinja_scope_new(jinja_run *r, jinja_scope *parent)
{
    jinja_scope *scope = glyd_jinja_zalloc(&r->arena, sizeof *scope);
    if (scope)
        scope->parent = parent;
    return scope;
}

glyd_status glyd_jinja_scope_set(jinja_run *r, jinja_scope *scope, const jinja_string *name,
                                 jinja_value value)
{
    for (size_t i = 0; i < scope->n; i++) {
        if (scope->items[i].name == name) {
            scope->items[i].value = value;
            return GLYD_OK;
        }
    }
    if (scope->n == scope->capacity) {
        size_t capacity = scope->capacity ? 2 * scope->capacity : 8;
        jinja_variable *items = glyd_jinja_grow(
            &r->arena, scope->items, scope->capacity * sizeof *items, capacity * sizeof *items);
        if (!items)
            return r->arena.status;
        scope->items = items;
        scope->capacity = capacity;
    }
    scope->items[scope->n++] = (jinja_variable){name, value};
    return glyd_jinja_charge(r, scope->n / 16);
}

void glyd_jinja_scope_capture(jinja_scope *scope)
{
    for (; scope && !scope->captured; scope = scope->parent)
        scope->captured = true;
}
