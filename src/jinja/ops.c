/* ops.c - arithmetic on values, with Python's results and complaints.
 *
 * Integers have 64 bits; where Python's would grow, the run ends with E_LIMIT.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/run.h"
#include <math.h>

static const char *op_name(int op)
{
    switch (op) {
    case '+':
        return "+";
    case '-':
        return "-";
    case '*':
        return "*";
    case '/':
        return "/";
    case '%':
        return "%";
    case JINJA_OP('/', '/'):
        return "//";
    default:
        return "** or pow()";
    }
}

static glyd_status fail_types(jinja_run *r, int op, jinja_value a, jinja_value b)
{
    bool sequence = a.kind == JINJA_STRING || a.kind == JINJA_LIST || a.kind == JINJA_TUPLE;
    const char *left = glyd_jinja_type_name(a), *right = glyd_jinja_type_name(b);
    if (op == '+' && sequence)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "can only concatenate %s (not \"%s\") to %s", left,
                               right, left);
    if (op == '*' && sequence)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "can't multiply sequence by non-int of type '%s'",
                               right);
    return glyd_jinja_fail(r, GLYD_E_FORMAT, "unsupported operand type(s) for %s: '%s' and '%s'",
                           op_name(op), left, right);
}

static glyd_status overflow(jinja_run *r)
{
    return glyd_jinja_fail(r, GLYD_E_LIMIT, "an integer grows beyond 64 bits");
}

static glyd_status concatenate(jinja_run *r, jinja_value a, jinja_value b, jinja_value *out)
{
    if (a.kind == JINJA_STRING) {
        jinja_builder text = {.arena = &r->arena};
        GLYD_TRY(glyd_jinja_charge(r, (a.as.string->bytes + b.as.string->bytes) / 64));
        GLYD_TRY(glyd_jinja_put_string(&text, a.as.string));
        GLYD_TRY(glyd_jinja_put_string(&text, b.as.string));
        return glyd_jinja_build(&text, out);
    }
    const jinja_list *x = a.as.list, *y = b.as.list;
    GLYD_TRY(glyd_jinja_charge(r, x->n + y->n));
    jinja_list *list = glyd_jinja_list_new(&r->arena, x->n + y->n);
    if (!list)
        return r->arena.status;
    for (size_t i = 0; i < x->n + y->n; i++)
        list->items[i] = i < x->n ? x->items[i] : y->items[i - x->n];
    list->n = x->n + y->n;
    *out = jinja_seq(a.kind, list);
    return GLYD_OK;
}

static glyd_status repeat(jinja_run *r, jinja_value sequence, int64_t times, jinja_value *out)
{
    bool is_text = sequence.kind == JINJA_STRING;
    size_t unit = is_text ? sequence.as.string->bytes : sequence.as.list->n;
    size_t n = times > 0 && unit ? (size_t)times : 0;
    if (n && n > r->arena.bytes_max / unit)
        return glyd_jinja_fail(r, GLYD_E_LIMIT, "over the limit of %zu bytes of memory",
                               r->arena.bytes_max);
    GLYD_TRY(glyd_jinja_charge(r, is_text ? n / 4 : n * unit));
    if (is_text) {
        jinja_builder text = {.arena = &r->arena};
        GLYD_TRY(glyd_jinja_put_repeated(&text, sequence.as.string, n));
        return glyd_jinja_build(&text, out);
    }
    const jinja_list *from = sequence.as.list;
    jinja_list *list = glyd_jinja_list_new(&r->arena, n * unit);
    if (!list)
        return r->arena.status;
    for (size_t i = 0; i < n * unit; i++)
        list->items[i] = from->items[i % unit];
    list->n = n * unit;
    *out = jinja_seq(sequence.kind, list);
    return GLYD_OK;
}

glyd_status glyd_jinja_int_power(jinja_run *r, int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result))
            return overflow(r);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
            return overflow(r);
    }
    *out = result;
    return GLYD_OK;
}

static glyd_status int_binary(jinja_run *r, int op, int64_t a, int64_t b, jinja_value *out)
{
    int64_t n = 0;
    bool over = false;
    switch (op) {
    case '+':
        over = __builtin_add_overflow(a, b, &n);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &n);
        break;
    case '*':
        over = __builtin_mul_overflow(a, b, &n);
        break;
    case '/':
        if (b == 0)
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "division by zero");
        *out = jinja_real((double)a / (double)b);
        return GLYD_OK;
    case '%':
    case JINJA_OP('/', '/'):
        if (b == 0)
            return glyd_jinja_fail(r, GLYD_E_FORMAT,
                                   op == '%' ? "integer modulo by zero"
                                             : "integer division or modulo by zero");
        if (b == -1) { /* INT64_MIN / -1 has no result */
            over = op != '%' && __builtin_sub_overflow((int64_t)0, a, &n);
            break;
        }
        n = op == '%' ? a % b : a / b;
        if (a % b != 0 && (a < 0) != (b < 0))
            n += op == '%' ? b : -1;
        break;
    default:
        if (b >= 0) {
            GLYD_TRY(glyd_jinja_int_power(r, a, b, &n));
            break;
        }
        if (a == 0)
            return glyd_jinja_fail(r, GLYD_E_FORMAT, "0.0 cannot be raised to a negative power");
        *out = jinja_real(pow((double)a, (double)b));
        return GLYD_OK;
    }
    if (over)
        return overflow(r);
    *out = jinja_int(n);
    return GLYD_OK;
}

static double floor_divide(double a, double b, double *modulo)
{
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0, b);
    }
    *modulo = mod;
    if (div == 0)
        return copysign(0, a / b);
    double whole = floor(div);
    return div - whole > 0.5 ? whole + 1 : whole;
}

static glyd_status real_power(jinja_run *r, double a, double b, jinja_value *out)
{
    if (a == 0 && b < 0)
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return glyd_jinja_fail(r, GLYD_E_UNSUPPORTED, "complex numbers are not supported");
    double power = pow(a, b);
    if (isinf(power) && isfinite(a) && isfinite(b))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "Numerical result out of range");
    *out = jinja_real(power);
    return GLYD_OK;
}

static glyd_status real_binary(jinja_run *r, int op, double a, double b, jinja_value *out)
{
    double modulo, quotient;
    switch (op) {
    case '+':
        *out = jinja_real(a + b);
        return GLYD_OK;
    case '-':
        *out = jinja_real(a - b);
        return GLYD_OK;
    case '*':
        *out = jinja_real(a * b);
        return GLYD_OK;
    case JINJA_OP('*', '*'):
        return real_power(r, a, b, out);
    default:
        break;
    }
    if (b == 0)
        return glyd_jinja_fail(r, GLYD_E_FORMAT,
                               op == '/'   ? "float division by zero"
                               : op == '%' ? "float modulo"
                                           : "float floor division by zero");
    if (op == '/') {
        *out = jinja_real(a / b);
        return GLYD_OK;
    }
    quotient = floor_divide(a, b, &modulo);
    *out = jinja_real(op == '%' ? modulo : quotient);
    return GLYD_OK;
}

glyd_status glyd_jinja_binary(jinja_run *r, int op, jinja_value a, jinja_value b, jinja_value *out)
{
    if (op == '%' && a.kind == JINJA_STRING)
        return glyd_jinja_percent(r, a.as.string, b, out);
    GLYD_TRY(glyd_jinja_need_defined(r, a));
    GLYD_TRY(glyd_jinja_need_defined(r, b));
    if (jinja_is_int(a) && jinja_is_int(b))
        return int_binary(r, op, jinja_as_int(a), jinja_as_int(b), out);
    if (jinja_is_number(a) && jinja_is_number(b))
        return real_binary(r, op, jinja_as_real(a), jinja_as_real(b), out);
    bool left = a.kind == JINJA_STRING || a.kind == JINJA_LIST || a.kind == JINJA_TUPLE;
    bool right = b.kind == JINJA_STRING || b.kind == JINJA_LIST || b.kind == JINJA_TUPLE;
    if (op == '+' && left && a.kind == b.kind)
        return concatenate(r, a, b, out);
    if (op == '*' && left && jinja_is_int(b))
        return repeat(r, a, jinja_as_int(b), out);
    if (op == '*' && right && jinja_is_int(a))
        return repeat(r, b, jinja_as_int(a), out);
    return op == '*' && right && !left ? fail_types(r, op, b, a) : fail_types(r, op, a, b);
}

glyd_status glyd_jinja_unary(jinja_run *r, int op, jinja_value a, jinja_value *out)
{
    GLYD_TRY(glyd_jinja_need_defined(r, a));
    if (!jinja_is_number(a))
        return glyd_jinja_fail(r, GLYD_E_FORMAT, "bad operand type for unary %c: '%s'", op,
                               glyd_jinja_type_name(a));
    if (a.kind == JINJA_REAL) {
        *out = jinja_real(op == '-' ? -a.as.real : a.as.real);
        return GLYD_OK;
    }
    int64_t n = jinja_as_int(a);
    if (op == '-' && __builtin_sub_overflow((int64_t)0, n, &n))
        return overflow(r);
    *out = jinja_int(n);
    return GLYD_OK;
}
