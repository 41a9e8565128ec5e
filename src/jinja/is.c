/* is.c - what can stand after `is`.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <stdio.h>

#define TEST_OF_KIND(name, condition)                                                              \
    static glyd_status test_##name(jinja_run *r, const jinja_call *call, bool *out)                \
    {                                                                                              \
        const jinja_value v = call->self;                                                          \
        (void)r;                                                                                   \
        *out = (condition);                                                                        \
        return GLYD_OK;                                                                            \
    }

TEST_OF_KIND(defined, v.kind != JINJA_UNDEFINED)
TEST_OF_KIND(undefined, v.kind == JINJA_UNDEFINED)
TEST_OF_KIND(none, v.kind == JINJA_NONE)
TEST_OF_KIND(boolean, v.kind == JINJA_BOOL)
TEST_OF_KIND(true, v.kind == JINJA_BOOL && v.as.truth)
TEST_OF_KIND(false, v.kind == JINJA_BOOL && !v.as.truth)
TEST_OF_KIND(integer, v.kind == JINJA_INT)
TEST_OF_KIND(float, v.kind == JINJA_REAL)
TEST_OF_KIND(number, jinja_is_number(v))
TEST_OF_KIND(string, v.kind == JINJA_STRING)
TEST_OF_KIND(mapping, v.kind == JINJA_DICT)
TEST_OF_KIND(iterable, glyd_jinja_is_iterable(v))
TEST_OF_KIND(escaped, false && v.kind)
TEST_OF_KIND(callable,
             (v.kind >= JINJA_MACRO && v.kind != JINJA_CYCLER) || v.kind == JINJA_UNDEFINED)
/* A length and an index: views have the first only. */
TEST_OF_KIND(sequence, glyd_jinja_has_length(v) && v.kind != JINJA_VIEW && v.kind != JINJA_LOOP)

static glyd_status remainder_is(jinja_run *r, jinja_value v, jinja_value divisor, int64_t wanted,
                                bool *out)
{
    jinja_value rest;
    GLYD_TRY(glyd_jinja_binary(r, '%', v, divisor, &rest));
    return glyd_jinja_equal(r, rest, jinja_int(wanted), out);
}

static glyd_status test_odd(jinja_run *r, const jinja_call *call, bool *out)
{
    return remainder_is(r, call->self, jinja_int(2), 1, out);
}

static glyd_status test_even(jinja_run *r, const jinja_call *call, bool *out)
{
    return remainder_is(r, call->self, jinja_int(2), 0, out);
}

static glyd_status test_divisibleby(jinja_run *r, const jinja_call *call, bool *out)
{
    return remainder_is(r, call->self, call->param[0], 0, out);
}

/* All cased characters are of one case, and there is one. */
static glyd_status one_case(jinja_run *r, const jinja_call *call, bool upper, bool *out)
{
    const jinja_string *s;
    GLYD_TRY(glyd_jinja_str(r, call->self, &s));
    *out = false;
    for (size_t at = 0; at < s->bytes;) {
        int32_t p;
        at += glyd_jinja_decode(s->data + at, &p);
        bool is_upper = glyd_jinja_point_is_upper(p), is_lower = glyd_jinja_point_is_lower(p);
        if (upper ? is_lower : is_upper || glyd_jinja_point_is_title(p)) {
            *out = false;
            break;
        }
        *out |= upper ? is_upper : is_lower;
    }
    return glyd_jinja_charge(r, s->bytes / 16);
}

static glyd_status test_lower(jinja_run *r, const jinja_call *call, bool *out)
{
    return one_case(r, call, false, out);
}

static glyd_status test_upper(jinja_run *r, const jinja_call *call, bool *out)
{
    return one_case(r, call, true, out);
}

static glyd_status test_in(jinja_run *r, const jinja_call *call, bool *out)
{
    return glyd_jinja_contains(r, call->param[0], call->self, out);
}

static glyd_status test_eq(jinja_run *r, const jinja_call *call, bool *out)
{
    return glyd_jinja_equal(r, call->self, call->param[0], out);
}

static glyd_status test_ne(jinja_run *r, const jinja_call *call, bool *out)
{
    GLYD_TRY(glyd_jinja_equal(r, call->self, call->param[0], out));
    *out = !*out;
    return GLYD_OK;
}

static glyd_status test_lt(jinja_run *r, const jinja_call *call, bool *out)
{
    return glyd_jinja_order(r, '<', call->self, call->param[0], out);
}

static glyd_status test_le(jinja_run *r, const jinja_call *call, bool *out)
{
    return glyd_jinja_order(r, JINJA_OP('<', '='), call->self, call->param[0], out);
}

static glyd_status test_gt(jinja_run *r, const jinja_call *call, bool *out)
{
    return glyd_jinja_order(r, '>', call->self, call->param[0], out);
}

static glyd_status test_ge(jinja_run *r, const jinja_call *call, bool *out)
{
    return glyd_jinja_order(r, JINJA_OP('>', '='), call->self, call->param[0], out);
}

/* Python's `is`, for the values where identity is certain. */
static glyd_status test_sameas(jinja_run *r, const jinja_call *call, bool *out)
{
    jinja_value a = call->self, b = call->param[0];
    if (a.kind != b.kind || a.kind == JINJA_NONE || a.kind == JINJA_BOOL) {
        *out = a.kind == b.kind && (a.kind == JINJA_NONE || a.as.truth == b.as.truth);
        return GLYD_OK;
    }
    return glyd_jinja_fail(r, GLYD_E_UNSUPPORTED, "the test sameas on %s is not supported",
                           glyd_jinja_type_name(a));
}

static glyd_status test_filter(jinja_run *r, const jinja_call *call, bool *out)
{
    const jinja_string *name;
    GLYD_TRY(glyd_jinja_need_text(r, call->self, "the name of a filter", &name));
    *out = glyd_jinja_filter_find(name) || glyd_jinja_filter_refused(name);
    return GLYD_OK;
}

static glyd_status test_test(jinja_run *r, const jinja_call *call, bool *out)
{
    const jinja_string *name;
    GLYD_TRY(glyd_jinja_need_text(r, call->self, "the name of a test", &name));
    *out = glyd_jinja_test_find(name) != NULL;
    return GLYD_OK;
}

static const jinja_test tests[] = {
    {"odd", "", test_odd},
    {"even", "", test_even},
    {"divisibleby", "num", test_divisibleby},
    {"defined", "", test_defined},
    {"undefined", "", test_undefined},
    {"filter", "", test_filter},
    {"test", "", test_test},
    {"none", "", test_none},
    {"boolean", "", test_boolean},
    {"false", "", test_false},
    {"true", "", test_true},
    {"integer", "", test_integer},
    {"float", "", test_float},
    {"lower", "", test_lower},
    {"upper", "", test_upper},
    {"string", "", test_string},
    {"mapping", "", test_mapping},
    {"number", "", test_number},
    {"sequence", "", test_sequence},
    {"iterable", "", test_iterable},
    {"callable", "", test_callable},
    {"sameas", "other", test_sameas},
    {"escaped", "", test_escaped},
    {"in", "seq", test_in},
    {"==", "b", test_eq},
    {"eq", "b", test_eq},
    {"equalto", "b", test_eq},
    {"!=", "b", test_ne},
    {"ne", "b", test_ne},
    {">", "b", test_gt},
    {"gt", "b", test_gt},
    {"greaterthan", "b", test_gt},
    {">=", "b", test_ge},
    {"ge", "b", test_ge},
    {"<", "b", test_lt},
    {"lt", "b", test_lt},
    {"lessthan", "b", test_lt},
    {"<=", "b", test_le},
    {"le", "b", test_le},
};

const jinja_test *glyd_jinja_test_find(const jinja_string *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (glyd_jinja_string_is(name, tests[i].name))
            return &tests[i];
    }
    return NULL;
}

glyd_status glyd_jinja_test_run(jinja_run *r, const jinja_test *test, jinja_value input,
                                const jinja_args *args, bool *out)
{
    jinja_call call = {.self = input};
    char what[64];
    snprintf(what, sizeof what, "the test %s", test->name);
    GLYD_TRY(glyd_jinja_bind(r, what, test->params, args, &call));
    return test->fn(r, &call, out);
}
