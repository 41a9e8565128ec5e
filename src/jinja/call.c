/* call.c - calling macros, methods and Jinja's global functions.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <stdio.h>
#include <string.h>

enum { RANGE_MAX = 100000 }; /* jinja2.sandbox.MAX_RANGE */

/* --- arguments of filters, tests and methods --- */

/* The i-th of a list of names separated by spaces; *optional where it ends with '?'. */
static bool param_at(const char *params, size_t i, const char **name, size_t *bytes, bool *optional)
{
    for (;;) {
        params += strspn(params, " ");
        if (!*params)
            return false;
        *bytes = strcspn(params, " ");
        if (i-- == 0)
            break;
        params += *bytes;
    }
    *name = params;
    *optional = params[*bytes - 1] == '?';
    *bytes -= *optional;
    return true;
}

static glyd_status bind_named(jinja_run *r, const char *what, const char *params,
                              const jinja_variable *named, jinja_call *call)
{
    const char *name;
    size_t bytes;
    bool optional;
    for (size_t i = 0; param_at(params, i, &name, &bytes, &optional); i++) {
        if (named->name->bytes != bytes || memcmp(named->name->data, name, bytes) != 0)
            continue;
        if (call->param[i].kind != JINJA_MISSING)
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "%s got multiple values for argument '%.*s'",
                                   what, (int)bytes, name);
        call->param[i] = named->value;
        return GLYD_OK;
    }
    return glyd_jinja_fail(r, GLYD_E_FORMAT, "%s got an unexpected keyword argument '%.*s'", what,
                           (int)(named->name->bytes < 64 ? named->name->bytes : 64),
                           named->name->data);
}

glyd_status glyd_jinja_bind(jinja_run *r, const char *what, const char *params,
                            const jinja_args *args, jinja_call *call)
{
    const char *name;
    size_t bytes, n = 0;
    bool optional;
    call->args = args;
    for (size_t i = 0; i < JINJA_PARAMS_MAX; i++)
        call->param[i] = jinja_missing();
    if (strcmp(params, "*") == 0)
        return GLYD_OK;
    while (param_at(params, n, &name, &bytes, &optional))
        n++;
    GLYD_ASSERT(n <= JINJA_PARAMS_MAX);
    if (args->n > n)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "%s takes at most %zu arguments (%zu given)", what,
                               n, args->n);
    for (size_t i = 0; i < args->n; i++)
        call->param[i] = args->positional[i];
    for (size_t i = 0; i < args->n_named; i++)
        GLYD_TRY(bind_named(r, what, params, &args->named[i], call));
    for (size_t i = 0; param_at(params, i, &name, &bytes, &optional); i++) {
        if (!optional && call->param[i].kind == JINJA_MISSING)
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "%s is missing the argument '%.*s'", what,
                                   (int)bytes, name);
    }
    return GLYD_OK;
}

glyd_status glyd_jinja_need_text(jinja_run *r, jinja_value v, const char *what,
                                 const jinja_string **out)
{
    GLYD_TRY(glyd_jinja_need_defined(r, v));
    if (v.kind != JINJA_STRING)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "%s must be str, not %s", what,
                               glyd_jinja_type_name(v));
    *out = v.as.string;
    return GLYD_OK;
}

glyd_status glyd_jinja_need_int(jinja_run *r, jinja_value v, int64_t absent, int64_t *out)
{
    *out = absent;
    if (v.kind == JINJA_MISSING || v.kind == JINJA_NONE)
        return GLYD_OK;
    if (!jinja_is_int(v))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "'%s' object cannot be interpreted as an integer",
                               glyd_jinja_type_name(v));
    *out = jinja_as_int(v);
    return GLYD_OK;
}

/* --- macros --- */

static const jinja_value *named_argument(const jinja_args *args, const jinja_string *name)
{
    for (size_t i = 0; i < args->n_named; i++) {
        if (glyd_jinja_string_equal(args->named[i].name, name))
            return &args->named[i].value;
    }
    return NULL;
}

static glyd_status macro_param(jinja_run *r, const jinja_macro_node *node, size_t i,
                               const jinja_args *args)
{
    const jinja_string *name = node->params.items[i];
    size_t first_default = node->params.n - node->defaults.n;
    const jinja_value *given = i < args->n ? &args->positional[i] : named_argument(args, name);
    jinja_value value;
    if (given) {
        value = *given;
    } else if (i >= first_default) {
        GLYD_TRY(glyd_jinja_eval(r, node->defaults.items[i - first_default], &value));
    } else {
        jinja_builder hint = {.arena = &r->arena};
        GLYD_TRY(glyd_jinja_put_text(&hint, "parameter "));
        GLYD_TRY(glyd_jinja_put_repr(r, &hint, jinja_text(name)));
        GLYD_TRY(glyd_jinja_put(&hint, " was not provided", sizeof " was not provided"));
        GLYD_TRY(glyd_jinja_new_undefined(r, hint.data, jinja_missing(), jinja_text(name), &value));
    }
    return glyd_jinja_scope_set(r, r->scope, name, value);
}

static bool is_param(const jinja_macro_node *node, const jinja_string *name)
{
    for (size_t i = 0; i < node->params.n; i++) {
        if (glyd_jinja_string_equal(node->params.items[i], name))
            return true;
    }
    return false;
}

/* The special variables caller, kwargs and varargs, where the body mentions them, and the errors
 * for arguments that have no place. */
static glyd_status macro_rest(jinja_run *r, const jinja_macro_node *node, const jinja_args *args)
{
    const char *name = node->name ? node->name->data : "caller";
    int name_bytes = node->name ? (int)node->name->bytes : 6;
    jinja_dict *rest = glyd_jinja_dict_new(&r->arena, args->n_named);
    if (!rest)
        return r->arena.status;
    for (size_t i = 0; i < args->n_named; i++) {
        const jinja_string *key = args->named[i].name;
        if (is_param(node, key))
            continue;
        if (node->wants_caller && glyd_jinja_string_is(key, "caller"))
            continue;
        if (!node->wants_kwargs)
            return glyd_jinja_fail(r, GLYD_E_FORMAT,
                                   "macro '%.*s' takes no keyword argument '%.*s'", name_bytes,
                                   name, (int)key->bytes, key->data);
        GLYD_TRY(glyd_jinja_dict_add(&r->arena, rest, jinja_text(key), args->named[i].value));
    }
    size_t extra = args->n > node->params.n ? args->n - node->params.n : 0;
    if (extra && !node->wants_varargs)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "macro '%.*s' takes not more than %zu argument(s)",
                               name_bytes, name, node->params.n);
    if (node->wants_kwargs)
        GLYD_TRY(glyd_jinja_scope_set(r, r->scope, r->word_kwargs,
                                      (jinja_value){.kind = JINJA_DICT, .as.dict = rest}));
    if (node->wants_varargs) {
        jinja_list *list = glyd_jinja_list_new(&r->arena, extra);
        if (!list)
            return r->arena.status;
        for (size_t i = 0; i < extra; i++)
            GLYD_TRY(glyd_jinja_list_add(&r->arena, list, args->positional[node->params.n + i]));
        GLYD_TRY(glyd_jinja_scope_set(r, r->scope, r->word_varargs, jinja_seq(JINJA_TUPLE, list)));
    }
    if (node->wants_caller && !is_param(node, r->word_caller)) {
        const jinja_value *given = named_argument(args, r->word_caller);
        jinja_value caller;
        if (given)
            caller = *given;
        else
            GLYD_TRY(glyd_jinja_new_undefined(r, "No caller defined", jinja_missing(),
                                              jinja_text(r->word_caller), &caller));
        GLYD_TRY(glyd_jinja_scope_set(r, r->scope, r->word_caller, caller));
    }
    return GLYD_OK;
}

glyd_status glyd_jinja_call_macro(jinja_run *r, const jinja_macro *macro, const jinja_args *args,
                                  jinja_value *out)
{
    jinja_scope *outer = r->scope;
    GLYD_TRY(glyd_jinja_deeper(r));
    r->scope = glyd_jinja_scope_new(r, macro->scope);
    if (!r->scope)
        return r->arena.status;
    GLYD_TRY(macro_rest(r, macro->node, args));
    for (size_t i = 0; i < macro->node->params.n; i++)
        GLYD_TRY(macro_param(r, macro->node, i, args));
    GLYD_TRY(glyd_jinja_exec_text(r, &macro->node->body, out));
    r->scope = outer;
    r->depth--;
    return GLYD_OK;
}

/* --- global functions --- */

static glyd_status call_raise(jinja_run *r, const jinja_args *args)
{
    const jinja_string *message;
    if (args->n + args->n_named != 1)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "raise_exception() takes one argument");
    GLYD_TRY(glyd_jinja_str(r, args->n ? args->positional[0] : args->named[0].value, &message));
    int shown =
        message->bytes < GLYD_ERROR_TEXT_BYTES ? (int)message->bytes : GLYD_ERROR_TEXT_BYTES - 1;
    while (shown < (int)message->bytes && shown > 0 &&
           ((unsigned char)message->data[shown] & 0xC0) == 0x80)
        shown--;
    r->arena.status = glyd_error_set(r->arena.err, GLYD_E_ARG, "%.*s", shown, message->data);
    return r->arena.status;
}

static glyd_status call_range(jinja_run *r, const jinja_args *args, jinja_value *out)
{
    int64_t bound[3] = {0, 0, 1};
    if (args->n < 1 || args->n > 3 || args->n_named)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "range expected 1 to 3 arguments, got %zu",
                               args->n);
    for (size_t i = 0; i < args->n; i++) {
        if (!jinja_is_int(args->positional[i]))
            return glyd_jinja_fail(r, GLYD_E_FORMAT,
                                   "'%s' object cannot be interpreted as an integer",
                                   glyd_jinja_type_name(args->positional[i]));
        bound[args->n == 1 ? 1 : i] = jinja_as_int(args->positional[i]);
    }
    int64_t start = bound[0], stop = bound[1], step = bound[2], span;
    if (step == 0)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "range() arg 3 must not be zero");
    bool empty = step > 0 ? start >= stop : start <= stop;
    uint64_t n = 0;
    if (!empty) {
        if (__builtin_sub_overflow(stop, start, &span))
            n = RANGE_MAX + 1;
        else if (step == INT64_MIN)
            n = 1;
        else
            n = ((uint64_t)(span < 0 ? -span : span) - 1) / (uint64_t)(step < 0 ? -step : step) + 1;
    }
    if (n > RANGE_MAX)
        return glyd_jinja_fail(
            r, GLYD_E_FORMAT,
            "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", RANGE_MAX);
    GLYD_TRY(glyd_jinja_charge(r, n));
    jinja_list *list = glyd_jinja_list_new(&r->arena, n);
    if (!list)
        return r->arena.status;
    for (uint64_t i = 0; i < n; i++)
        list->items[i] = jinja_int(start + (int64_t)i * step);
    list->n = n;
    *out = jinja_seq(JINJA_RANGE, list);
    return GLYD_OK;
}

/* dict(mapping or pairs, **named), and namespace() with the same arguments. */
static glyd_status call_dict(jinja_run *r, jinja_kind kind, const jinja_args *args,
                             jinja_value *out)
{
    jinja_dict *dict = glyd_jinja_dict_new(&r->arena, args->n_named);
    if (!dict)
        return r->arena.status;
    if (args->n > 1)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "dict expected at most 1 argument, got %zu",
                               args->n);
    if (args->n == 1 && args->positional[0].kind == JINJA_DICT) {
        const jinja_dict *from = args->positional[0].as.dict;
        GLYD_TRY(glyd_jinja_charge(r, from->n));
        for (size_t i = 0; i < from->n; i++)
            GLYD_TRY(glyd_jinja_dict_add(&r->arena, dict, from->keys[i], from->values[i]));
    } else if (args->n == 1) {
        jinja_list *pairs, *pair;
        GLYD_TRY(glyd_jinja_items(r, args->positional[0], &pairs));
        for (size_t i = 0; i < pairs->n; i++) {
            GLYD_TRY(glyd_jinja_items(r, pairs->items[i], &pair));
            if (pair->n != 2)
                return glyd_jinja_fail(r, GLYD_E_FORMAT,
                                       "dictionary update sequence element #%zu has length %zu; "
                                       "2 is required",
                                       i, pair->n);
            GLYD_TRY(glyd_jinja_dict_set(r, dict, pair->items[0], pair->items[1]));
        }
    }
    for (size_t i = 0; i < args->n_named; i++)
        GLYD_TRY(
            glyd_jinja_dict_set(r, dict, jinja_text(args->named[i].name), args->named[i].value));
    *out = (jinja_value){.kind = kind, .as.dict = dict};
    return GLYD_OK;
}

static glyd_status call_joiner(jinja_run *r, const jinja_args *args, jinja_value *out)
{
    static const jinja_string comma = {", ", 2, 2};
    jinja_call call;
    jinja_joiner *joiner = glyd_jinja_zalloc(&r->arena, sizeof *joiner);
    if (!joiner)
        return r->arena.status;
    GLYD_TRY(glyd_jinja_bind(r, "joiner()", "sep?", args, &call));
    joiner->separator = &comma;
    if (call.param[0].kind != JINJA_MISSING)
        GLYD_TRY(glyd_jinja_str(r, call.param[0], &joiner->separator));
    *out = (jinja_value){.kind = JINJA_JOINER, .as.joiner = joiner};
    return GLYD_OK;
}

static glyd_status call_cycler(jinja_run *r, const jinja_args *args, jinja_value *out)
{
    jinja_cycler *cycler = glyd_jinja_zalloc(&r->arena, sizeof *cycler);
    if (!cycler)
        return r->arena.status;
    if (args->n == 0 || args->n_named)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "at least one item has to be provided");
    cycler->items = args->positional;
    cycler->n = args->n;
    *out = (jinja_value){.kind = JINJA_CYCLER, .as.cycler = cycler};
    return GLYD_OK;
}

static glyd_status call_strftime(jinja_run *r, const jinja_args *args, jinja_value *out)
{
    jinja_call call;
    const jinja_string *format;
    GLYD_TRY(glyd_jinja_bind(r, "strftime_now()", "format", args, &call));
    GLYD_TRY(glyd_jinja_need_text(r, call.param[0], "strftime() argument 1", &format));
    if (!r->has_now)
        return glyd_jinja_fail(r, GLYD_E_ARG,
                               "the template asks for the date, and the caller gave none");
    return glyd_jinja_strftime(r, format, out);
}

static glyd_status call_function(jinja_run *r, jinja_function function, const jinja_args *args,
                                 jinja_value *out)
{
    switch (function) {
    case JINJA_FN_RAISE_EXCEPTION:
        return call_raise(r, args);
    case JINJA_FN_STRFTIME_NOW:
        return call_strftime(r, args, out);
    case JINJA_FN_NAMESPACE:
        return call_dict(r, JINJA_NAMESPACE, args, out);
    case JINJA_FN_RANGE:
        return call_range(r, args, out);
    case JINJA_FN_DICT:
        return call_dict(r, JINJA_DICT, args, out);
    case JINJA_FN_JOINER:
        return call_joiner(r, args, out);
    default:
        GLYD_ASSERT(function == JINJA_FN_CYCLER);
        return call_cycler(r, args, out);
    }
}

static glyd_status call_method(jinja_run *r, const jinja_method *method, const jinja_args *args,
                               jinja_value *out)
{
    const jinja_method_entry *entry = method->entry;
    jinja_call call = {.self = method->self};
    char what[64];
    snprintf(what, sizeof what, "%s.%s()", glyd_jinja_type_name(method->self), entry->name);
    if (!entry->fn)
        return glyd_jinja_fail(r, GLYD_E_UNSUPPORTED, "%s is not supported", what);
    GLYD_TRY(glyd_jinja_bind(r, what, entry->params, args, &call));
    return entry->fn(r, &call, out);
}

glyd_status glyd_jinja_call(jinja_run *r, jinja_value fn, const jinja_args *args, jinja_value *out)
{
    switch (fn.kind) {
    case JINJA_MACRO:
        return glyd_jinja_call_macro(r, fn.as.macro, args, out);
    case JINJA_FUNCTION:
        return call_function(r, fn.as.function, args, out);
    case JINJA_METHOD:
        return call_method(r, fn.as.method, args, out);
    case JINJA_LOOP:
        return glyd_jinja_loop_call(r, fn.as.loop, args, out);
    case JINJA_JOINER: {
        static const jinja_string empty = {"", 0, 0};
        *out = jinja_text(fn.as.joiner->used ? fn.as.joiner->separator : &empty);
        fn.as.joiner->used = true;
        return GLYD_OK;
    }
    case JINJA_UNDEFINED:
        return glyd_jinja_fail_undefined(r, fn);
    default:
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "'%s' object is not callable",
                               glyd_jinja_type_name(fn));
    }
}
