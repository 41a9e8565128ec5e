/* run.h - one rendering: its limits, scopes, and the operations on values.
 *
 * Every operation that a template can repeat charges steps, every one that nests counts depth, and
 * all memory comes from the run's arena, so a hostile template ends with E_LIMIT and a text that
 * names the limit.
 *
 * Scopes follow Jinja: a for body, a macro, a call, with, filter or set block have their own; an
 * if has not. A scope that a macro closed over is never reused.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_JINJA_RUN_H
#define GLYD_JINJA_RUN_H

#include "base/error.h"
#include "jinja/ast.h"
#include <time.h>

typedef struct jinja_variable {
    const jinja_string *name; /* interned */
    jinja_value value;
} jinja_variable;

typedef struct jinja_scope jinja_scope;
struct jinja_scope {
    jinja_scope *parent;
    jinja_variable *items;
    size_t n, capacity;
    bool captured; /* a macro refers to it */
};

typedef enum jinja_flow { JINJA_FLOW_ON, JINJA_FLOW_BREAK, JINJA_FLOW_CONTINUE } jinja_flow;

typedef struct jinja_run {
    jinja_arena arena;
    /* Names that have a meaning, interned; NULL where the template does not mention them. */
    const jinja_string *word_loop, *word_caller, *word_varargs, *word_kwargs;
    jinja_scope *scope;
    jinja_builder *out;
    jinja_flow flow;
    int line; /* of the node being run, for error texts */
    int depth, depth_max;
    uint64_t steps, steps_max;
    struct tm now;
    bool has_now;
} jinja_run;

struct jinja_macro {
    const jinja_macro_node *node;
    jinja_scope *scope;
};

/* The arguments of a call, evaluated. */
typedef struct jinja_args {
    const jinja_value *positional;
    size_t n;
    const jinja_variable *named; /* names are plain strings here, not always interned */
    size_t n_named;
} jinja_args;

enum { JINJA_PARAMS_MAX = 5 };

/* What a bound method or a filter runs on: `self` and up to five parameters by position, MISSING
 * where not given; `args` holds all of them as they came, for variadic ones. */
typedef struct jinja_call {
    jinja_value self;
    jinja_value param[JINJA_PARAMS_MAX];
    const jinja_args *args;
} jinja_call;

typedef glyd_status (*jinja_call_fn)(jinja_run *r, const jinja_call *call, jinja_value *out);

/* Parameters are listed by name, `?` after those that may be left out; "*" takes anything. */
struct jinja_filter {
    const char *name;
    const char *params;
    jinja_call_fn fn;
};

struct jinja_test {
    const char *name;
    const char *params;
    glyd_status (*fn)(jinja_run *r, const jinja_call *call, bool *out);
};

typedef struct jinja_method_entry {
    const char *name;
    const char *params;
    jinja_call_fn fn; /* NULL: Python has it, glyd refuses it */
} jinja_method_entry;

struct jinja_method {
    jinja_value self;
    const jinja_method_entry *entry;
};

/* State of a for loop; `loop` in the template. Items are filtered when they are reached. */
struct jinja_loop {
    const jinja_node *node;
    jinja_scope *scope; /* around the loop */
    jinja_value *items;
    size_t n, at;                        /* of `items` */
    bool filtered;                       /* `items` has been filtered already */
    jinja_value previous, current, next; /* MISSING where there is none */
    int64_t index0;
    int64_t length; /* -1: not counted yet */
    int depth0;
    jinja_value changed; /* arguments of the last loop.changed() as a tuple, or MISSING */
};

/* --- failing and limits (run.c) --- */

/* Fails at r->line; E_FORMAT is what the template's own mistakes and Python's errors give. */
glyd_status glyd_jinja_fail(jinja_run *r, glyd_status status, const char *format, ...)
    GLYD_PRINTF(3, 4);
GLYD_MUST_CHECK glyd_status glyd_jinja_charge(jinja_run *r, uint64_t steps);
GLYD_MUST_CHECK glyd_status glyd_jinja_deeper(jinja_run *r); /* pairs with r->depth-- */

/* The error that using an undefined value gives. */
glyd_status glyd_jinja_fail_undefined(jinja_run *r, jinja_value undefined);
/* Fail where v is undefined. */
GLYD_MUST_CHECK glyd_status glyd_jinja_need_defined(jinja_run *r, jinja_value v);

/* --- scopes (run.c) --- */
jinja_scope *glyd_jinja_scope_new(jinja_run *r, jinja_scope *parent);
GLYD_MUST_CHECK glyd_status glyd_jinja_scope_set(jinja_run *r, jinja_scope *scope,
                                                 const jinja_string *name, jinja_value value);
void glyd_jinja_scope_capture(jinja_scope *scope);

/* --- values (value.c) --- */
bool glyd_jinja_truth(jinja_value v);
const char *glyd_jinja_type_name(jinja_value v); /* Python's */
bool glyd_jinja_has_length(jinja_value v);
GLYD_MUST_CHECK glyd_status glyd_jinja_length(jinja_run *r, jinja_value v, int64_t *n);
/* All items of an iterable; uses up a generator. The list may be v's own: do not change it. */
GLYD_MUST_CHECK glyd_status glyd_jinja_items(jinja_run *r, jinja_value v, jinja_list **items);
bool glyd_jinja_is_iterable(jinja_value v);
GLYD_MUST_CHECK glyd_status glyd_jinja_equal(jinja_run *r, jinja_value a, jinja_value b,
                                             bool *equal);
/* a OP b for < <= > >=. */
GLYD_MUST_CHECK glyd_status glyd_jinja_order(jinja_run *r, int op, jinja_value a, jinja_value b,
                                             bool *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_contains(jinja_run *r, jinja_value container,
                                                jinja_value item, bool *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_hashable(jinja_run *r, jinja_value key);
GLYD_MUST_CHECK glyd_status glyd_jinja_dict_find(jinja_run *r, const jinja_dict *dict,
                                                 jinja_value key, jinja_value **found);
GLYD_MUST_CHECK glyd_status glyd_jinja_dict_set(jinja_run *r, jinja_dict *dict, jinja_value key,
                                                jinja_value value);

/* --- text of values (repr.c) --- */
GLYD_MUST_CHECK glyd_status glyd_jinja_put_str(jinja_run *r, jinja_builder *b, jinja_value v);
GLYD_MUST_CHECK glyd_status glyd_jinja_put_repr(jinja_run *r, jinja_builder *b, jinja_value v);
GLYD_MUST_CHECK glyd_status glyd_jinja_str(jinja_run *r, jinja_value v, const jinja_string **out);
enum { JINJA_REAL_BYTES = 32 };
void glyd_jinja_real_text(double real, char out[JINJA_REAL_BYTES]); /* Python's repr(float) */

/* --- operators, members (ops.c, member.c) --- */
GLYD_MUST_CHECK glyd_status glyd_jinja_binary(jinja_run *r, int op, jinja_value a, jinja_value b,
                                              jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_unary(jinja_run *r, int op, jinja_value a, jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_int_power(jinja_run *r, int64_t base, int64_t exponent,
                                                 int64_t *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_member(jinja_run *r, jinja_value owner,
                                              const jinja_string *name, jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_index(jinja_run *r, jinja_value owner, jinja_value key,
                                             jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_slice(jinja_run *r, jinja_value owner, jinja_value start,
                                             jinja_value stop, jinja_value step, jinja_value *out);
/* "a.b.0" from an item, as the attribute= arguments of filters mean it; `attribute` may be an
 * integer too. */
GLYD_MUST_CHECK glyd_status glyd_jinja_attribute(jinja_run *r, jinja_value item,
                                                 jinja_value attribute, jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_new_undefined(jinja_run *r, const char *hint,
                                                     jinja_value owner, jinja_value key,
                                                     jinja_value *out);

/* --- calls (call.c) --- */
GLYD_MUST_CHECK glyd_status glyd_jinja_call(jinja_run *r, jinja_value fn, const jinja_args *args,
                                            jinja_value *out);
/* Sort arguments into call->param by a list of parameter names. `what` opens error texts. */
GLYD_MUST_CHECK glyd_status glyd_jinja_bind(jinja_run *r, const char *what, const char *params,
                                            const jinja_args *args, jinja_call *call);
GLYD_MUST_CHECK glyd_status glyd_jinja_call_macro(jinja_run *r, const jinja_macro *macro,
                                                  const jinja_args *args, jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_eval_args(jinja_run *r, const jinja_call_node *call,
                                                 jinja_args *args);

/* --- filters, tests, methods --- */
const jinja_filter *glyd_jinja_filter_find(const jinja_string *name);
bool glyd_jinja_filter_refused(const jinja_string *name); /* Jinja has it, glyd has not */
GLYD_MUST_CHECK glyd_status glyd_jinja_filter_run(jinja_run *r, const jinja_filter *filter,
                                                  jinja_value input, const jinja_args *args,
                                                  jinja_value *out);
const jinja_test *glyd_jinja_test_find(const jinja_string *name);
GLYD_MUST_CHECK glyd_status glyd_jinja_test_run(jinja_run *r, const jinja_test *test,
                                                jinja_value input, const jinja_args *args,
                                                bool *out);
/* NULL where this kind of value has no such method. *unsafe: the sandbox refuses it. */
const jinja_method_entry *glyd_jinja_method_find(jinja_value self, const jinja_string *name,
                                                 bool *is_unsafe);
/* Methods of strings and filters of sequences live in files of their own. */
extern const jinja_method_entry glyd_jinja_str_methods[];
extern const size_t glyd_jinja_n_str_methods;
extern const jinja_filter glyd_jinja_sequence_filters[];
extern const size_t glyd_jinja_n_sequence_filters;

typedef enum jinja_case { JINJA_LOWER, JINJA_UPPER, JINJA_TITLE, JINJA_CAPITALIZE } jinja_case;
GLYD_MUST_CHECK glyd_status glyd_jinja_change_case(jinja_run *r, jinja_case to,
                                                   const jinja_string *s, jinja_value *out);
typedef enum jinja_strip { JINJA_STRIP_LEFT = 1, JINJA_STRIP_RIGHT = 2 } jinja_strip;
/* Without `chars`, whitespace. */
GLYD_MUST_CHECK glyd_status glyd_jinja_strip_text(jinja_run *r, const jinja_string *s, int sides,
                                                  const jinja_string *chars, jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_replace_text(jinja_run *r, const jinja_string *s,
                                                    const jinja_string *from,
                                                    const jinja_string *to, int64_t count,
                                                    jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_split_lines(jinja_run *r, const jinja_string *s, bool keep,
                                                   jinja_list **out);
/* Arguments of a method or filter, with Python's complaint where the type is wrong. */
GLYD_MUST_CHECK glyd_status glyd_jinja_need_text(jinja_run *r, jinja_value v, const char *what,
                                                 const jinja_string **out);
GLYD_MUST_CHECK glyd_status glyd_jinja_need_int(jinja_run *r, jinja_value v, int64_t absent,
                                                int64_t *out);

GLYD_MUST_CHECK glyd_status glyd_jinja_tojson(jinja_run *r, const jinja_call *call,
                                              jinja_value *out);
/* "text" % value, and "text".format(...). */
GLYD_MUST_CHECK glyd_status glyd_jinja_percent(jinja_run *r, const jinja_string *format,
                                               jinja_value args, jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_format(jinja_run *r, const jinja_call *call,
                                              jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_strftime(jinja_run *r, const jinja_string *format,
                                                jinja_value *out);

/* --- running (eval.c, exec.c) --- */
GLYD_MUST_CHECK glyd_status glyd_jinja_eval(jinja_run *r, const jinja_node *node, jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_exec(jinja_run *r, const jinja_nodes *body);
GLYD_MUST_CHECK glyd_status glyd_jinja_assign(jinja_run *r, jinja_scope *scope,
                                              const jinja_node *target, jinja_value value);
/* Run a body into a string of its own. */
GLYD_MUST_CHECK glyd_status glyd_jinja_exec_text(jinja_run *r, const jinja_nodes *body,
                                                 jinja_value *out);
/* A filter chain over a text: filter blocks and {% set x | f %}. */
GLYD_MUST_CHECK glyd_status glyd_jinja_eval_filters(jinja_run *r, const jinja_node *chain,
                                                    jinja_value input, jinja_value *out);
/* loop.NAME, the loop called as a function, and loop.length. */
GLYD_MUST_CHECK glyd_status glyd_jinja_loop_member(jinja_run *r, jinja_loop *loop,
                                                   const jinja_string *name, jinja_value *out);
GLYD_MUST_CHECK glyd_status glyd_jinja_loop_length(jinja_run *r, jinja_loop *loop, int64_t *n);
GLYD_MUST_CHECK glyd_status glyd_jinja_loop_call(jinja_run *r, const jinja_loop *loop,
                                                 const jinja_args *args, jinja_value *out);

#endif
