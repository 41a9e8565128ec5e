/* schema_number.c - integers and numbers between bounds, as digits.
 *
 * A bound is taken as the shortest decimal that reads back as it, and texts are compared with it
 * digit by digit. Reading a decimal keeps order, so a text that is not below a bound does not read
 * below it. It may read as equal to an exclusive bound, but not with 15 digits or fewer.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "constraint/schema.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_END UINT64_MAX

enum {
    MULTIPLE_MAX = 256,  /* of what a multiple is, where digits are followed by what they leave */
    MULTIPLES_MAX = 1024 /* that are listed one by one */
};

/* --- digits --- */

static glyd_node digit_range(glyd_ir *ir, int first, int last)
{
    if (first > last)
        return GLYD_NODE_NEVER;
    return glyd_ir_class(ir, &(glyd_range){(uint32_t)('0' + first), (uint32_t)('0' + last)}, 1,
                         false);
}

static glyd_node digits(glyd_ir *ir, int min, int max)
{
    return glyd_ir_repeat(ir, digit_range(ir, 0, 9), min, max);
}

/* As many digits as `low` and `high` have, from one to the other. */
static glyd_node same_length(glyd_ir *ir, const char *low, const char *high, int n)
{
    bool is_all = true;
    for (int i = 0; i < n; i++)
        is_all = is_all && low[i] == '0' && high[i] == '9';
    if (is_all)
        return digits(ir, n, n);
    int first = low[0] - '0', last = high[0] - '0';
    if (first == last)
        return GLYD_IR_SEQ(ir, digit_range(ir, first, first),
                           same_length(ir, low + 1, high + 1, n - 1));
    return GLYD_IR_ALT(
        ir,
        GLYD_IR_SEQ(ir, digit_range(ir, first, first),
                    same_length(ir, low + 1, "99999999999999999999", n - 1)),
        GLYD_IR_SEQ(ir, digit_range(ir, first + 1, last - 1), digits(ir, n - 1, n - 1)),
        GLYD_IR_SEQ(ir, digit_range(ir, last, last),
                    same_length(ir, "00000000000000000000", high + 1, n - 1)));
}

/* Whole numbers without a sign from `low` to `high`; NO_END: as large as may be written. */
static glyd_node whole_range(glyd_ir *ir, uint64_t low, uint64_t high)
{
    char from[24], to[24];
    glyd_node kids[24];
    size_t n = 0;
    if (low > high)
        return GLYD_NODE_NEVER;
    int n_low = snprintf(from, sizeof from, "%llu", (unsigned long long)low);
    int n_high = high == NO_END ? n_low : snprintf(to, sizeof to, "%llu", (unsigned long long)high);
    for (int length = n_low; length <= n_high; length++) {
        char least[24] = "100000000000000000000", most[24] = "99999999999999999999";
        if (length == n_low)
            memcpy(least, from, (size_t)length);
        if (length == n_high && high != NO_END)
            memcpy(most, to, (size_t)length);
        kids[n++] = same_length(ir, least, most, length);
    }
    if (high == NO_END)
        kids[n++] =
            GLYD_IR_SEQ(ir, digit_range(ir, 1, 9), digits(ir, n_low, GLYD_NUMBER_DIGITS_MAX - 1));
    return glyd_ir_alt(ir, kids, n);
}

/* --- bounds --- */

/* A decimal without its sign, no zeros at the end of the fraction. */
typedef struct decimal {
    uint64_t whole;
    char fraction[24];
    int n_fraction, n_whole;
} decimal;

typedef struct bound {
    bool is_there, is_open; /* open: the bound itself is out */
    double value;
    bool is_negative;
    decimal size;
} bound;

static const decimal zero = {.n_whole = 1};

/* Digits before and after whatever the locale writes between them. */
static void split_decimal(const char *text, decimal *d)
{
    *d = zero;
    d->whole = strtoull(text, NULL, 10);
    d->n_whole = (int)strspn(text, "0123456789");
    text += d->n_whole;
    text += strcspn(text, "0123456789");
    d->n_fraction = (int)strspn(text, "0123456789");
    memcpy(d->fraction, text, (size_t)d->n_fraction);
    while (d->n_fraction > 0 && d->fraction[d->n_fraction - 1] == '0')
        d->n_fraction--;
}

static glyd_status read_bound(glyd_schema *s, const json_t *schema, const char *keyword,
                              bool is_open, bool is_lower, bound *b)
{
    const json_t *value = json_object_get(schema, keyword);
    char text[64];
    if (!value)
        return GLYD_OK;
    if (json_is_boolean(value))
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, keyword,
                                  "true and false (of draft 4) are not supported; give the bound");
    if (!json_is_number(value))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, keyword, "must be a number");
    double x = json_number_value(value);
    if (b->is_there && (is_lower ? x < b->value : x > b->value))
        return GLYD_OK;
    is_open = is_open || (b->is_there && b->is_open && x == b->value);
    double size = fabs(x);
    int places = 0;
    if (!(size < 1e15))
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, keyword,
                                  "a bound of %d digits and more is not supported",
                                  GLYD_BOUND_DIGITS_MAX + 1);
    do
        snprintf(text, sizeof text, "%.*f", places, size);
    while (strtod(text, NULL) != size && ++places <= GLYD_BOUND_DIGITS_MAX);
    *b = (bound){.is_there = true, .is_open = is_open, .value = x, .is_negative = x < 0};
    split_decimal(text, &b->size);
    if (places > GLYD_BOUND_DIGITS_MAX ||
        b->size.n_whole + b->size.n_fraction > GLYD_BOUND_DIGITS_MAX)
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, keyword,
                                  "a bound of %d digits and more is not supported",
                                  GLYD_BOUND_DIGITS_MAX + 1);
    return GLYD_OK;
}

static glyd_status read_bounds(glyd_schema *s, const json_t *schema, bound *low, bound *high)
{
    GLYD_TRY(read_bound(s, schema, "minimum", false, true, low));
    GLYD_TRY(read_bound(s, schema, "exclusiveMinimum", true, true, low));
    GLYD_TRY(read_bound(s, schema, "maximum", false, false, high));
    return read_bound(s, schema, "exclusiveMaximum", true, false, high);
}

/* --- integers --- */

typedef struct whole_bound {
    bool is_there;
    int64_t value; /* is in */
} whole_bound;

static glyd_status read_whole(glyd_schema *s, const json_t *schema, const char *keyword,
                              bool is_open, bool is_lower, whole_bound *b)
{
    const json_t *value = json_object_get(schema, keyword);
    if (!value)
        return GLYD_OK;
    if (!json_is_integer(value)) {
        bound checked = {0};
        GLYD_TRY(read_bound(s, schema, keyword, is_open, is_lower, &checked));
    }
    double x = json_real_value(value);
    int64_t whole = json_is_integer(value) ? json_integer_value(value)
                                           : (int64_t)(is_lower ? ceil(x) : floor(x));
    bool is_bound = json_is_integer(value) || (double)whole == x;
    if (is_open && is_bound) {
        if (whole == (is_lower ? INT64_MAX : INT64_MIN))
            return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, keyword,
                                      "a bound of more than 63 bits is not supported");
        whole += is_lower ? 1 : -1;
    }
    if (!b->is_there || (is_lower ? whole > b->value : whole < b->value))
        *b = (whole_bound){true, whole};
    return GLYD_OK;
}

/* Up to `left` digits after others that leave `rest` when divided by `of`, so that all together
 * leave nothing, for every rest: a rule each. */
static void digits_by_rest(glyd_ir *ir, int of, int left, glyd_node *by_rest)
{
    glyd_node digit[10], next[MULTIPLE_MAX], kids[11];
    for (int d = 0; d < 10; d++)
        digit[d] = digit_range(ir, d, d);
    for (int rest = 0; rest < of; rest++)
        by_rest[rest] = rest == 0 ? GLYD_NODE_EMPTY : GLYD_NODE_NEVER;
    for (; left > 0; left--) {
        for (int rest = 0; rest < of; rest++) {
            kids[10] = rest == 0 ? GLYD_NODE_EMPTY : GLYD_NODE_NEVER;
            for (int d = 0; d < 10; d++)
                kids[d] = GLYD_IR_SEQ(ir, digit[d], by_rest[(10 * rest + d) % of]);
            next[rest] = glyd_ir_shared(ir, glyd_ir_alt(ir, kids, 11));
        }
        memcpy(by_rest, next, (size_t)of * sizeof *by_rest);
    }
}

/* Multiples of `of` above 0. Those of 10 are others with a 0 behind. */
static glyd_status multiples(glyd_schema *s, int64_t of, glyd_node *node)
{
    glyd_node by_rest[MULTIPLE_MAX], kids[9];
    int n_zeros = 0;
    for (; of % 10 == 0; of /= 10)
        n_zeros++;
    if (of > MULTIPLE_MAX)
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "multipleOf",
                                  "without both bounds, more than %d (tens left out) is not "
                                  "supported",
                                  MULTIPLE_MAX);
    digits_by_rest(s->ir, (int)of, GLYD_BOUND_DIGITS_MAX - 1, by_rest);
    for (int d = 1; d < 10; d++)
        kids[d - 1] = GLYD_IR_SEQ(s->ir, digit_range(s->ir, d, d), by_rest[d % of]);
    *node = GLYD_IR_SEQ(s->ir, glyd_ir_alt(s->ir, kids, 9),
                        glyd_ir_repeat(s->ir, digit_range(s->ir, 0, 0), n_zeros, n_zeros));
    return GLYD_OK;
}

/* Each multiple from `low` to `high` as it is. */
static glyd_status listed_multiples(glyd_schema *s, int64_t of, int64_t low, int64_t high,
                                    glyd_node *node)
{
    int64_t first = low / of + (low > 0 && low % of != 0);
    int64_t last = high / of - (high < 0 && high % of != 0);
    glyd_span texts[MULTIPLES_MAX];
    char digits_of[MULTIPLES_MAX][24];
    size_t n = 0;
    *node = GLYD_NODE_NEVER;
    if (first <= last && (uint64_t)last - (uint64_t)first >= MULTIPLES_MAX)
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "multipleOf",
                                  "more than %d values between the bounds are not supported",
                                  MULTIPLES_MAX);
    for (int64_t i = first; i <= last; i++, n++) {
        int bytes = snprintf(digits_of[n], sizeof digits_of[n], "%lld", (long long)(i * of));
        texts[n] = (glyd_span){(const uint8_t *)digits_of[n], (size_t)bytes};
    }
    if (n > 0)
        *node = glyd_ir_choice(s->ir, texts, n);
    return GLYD_OK;
}

static glyd_status multiple_range(glyd_schema *s, const json_t *multiple, const whole_bound *low,
                                  const whole_bound *high, glyd_node *node)
{
    double size = json_is_number(multiple) ? json_number_value(multiple) : 0;
    glyd_node above, below, zero_node = GLYD_NODE_NEVER;
    if (!(size > 0))
        return glyd_schema_refuse(s, GLYD_E_FORMAT, "multipleOf", "must be a number above 0");
    if (size != floor(size) || !(size < 1e15))
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "multipleOf",
                                  "only whole numbers of at most %d digits are supported",
                                  GLYD_BOUND_DIGITS_MAX);
    int64_t of = (int64_t)size;
    if (low->is_there && high->is_there)
        return listed_multiples(s, of, low->value, high->value, node);
    bool is_low_sign = !low->is_there || low->value == 0 || low->value == 1;
    bool is_high_sign = !high->is_there || high->value == 0 || high->value == -1;
    if (!is_low_sign || !is_high_sign)
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "multipleOf",
                                  "beside one bound that is not 0 it is not supported");
    GLYD_TRY(multiples(s, of, &above));
    above = glyd_ir_shared(s->ir, above);
    below = GLYD_IR_SEQ(s->ir, glyd_ir_text(s->ir, "-"), above);
    if (!(low->is_there && low->value > 0) && !(high->is_there && high->value < 0))
        zero_node = glyd_ir_text(s->ir, "0");
    *node = GLYD_IR_ALT(s->ir, zero_node, high->is_there ? GLYD_NODE_NEVER : above,
                        low->is_there ? GLYD_NODE_NEVER : below);
    return GLYD_OK;
}

static glyd_status integer_range(glyd_schema *s, const json_t *schema, glyd_node *node)
{
    const json_t *multiple = json_object_get(schema, "multipleOf");
    whole_bound low = {0}, high = {0};
    glyd_node below = GLYD_NODE_NEVER, above = GLYD_NODE_NEVER;
    GLYD_TRY(read_whole(s, schema, "minimum", false, true, &low));
    GLYD_TRY(read_whole(s, schema, "exclusiveMinimum", true, true, &low));
    GLYD_TRY(read_whole(s, schema, "maximum", false, false, &high));
    GLYD_TRY(read_whole(s, schema, "exclusiveMaximum", true, false, &high));
    if (multiple)
        return multiple_range(s, multiple, &low, &high, node);
    if (!low.is_there && !high.is_there) {
        *node = s->json->integer;
        return GLYD_OK;
    }
    if (!low.is_there || low.value < 0) {
        uint64_t least = high.is_there && high.value < 0 ? -(uint64_t)high.value : 1;
        uint64_t most = low.is_there ? -(uint64_t)low.value : NO_END;
        below = GLYD_IR_SEQ(s->ir, glyd_ir_text(s->ir, "-"), whole_range(s->ir, least, most));
    }
    if (!high.is_there || high.value >= 0)
        above = whole_range(s->ir, low.is_there && low.value > 0 ? (uint64_t)low.value : 0,
                            high.is_there ? (uint64_t)high.value : NO_END);
    *node = GLYD_IR_ALT(s->ir, below, above);
    return GLYD_OK;
}

/* --- fractions: what may follow the point, in at most `left` digits --- */

/* At least one digit is not 0. */
static glyd_node not_zero(glyd_ir *ir, int left)
{
    if (left < 1)
        return GLYD_NODE_NEVER;
    return GLYD_IR_ALT(ir, GLYD_IR_SEQ(ir, digit_range(ir, 1, 9), digits(ir, 0, left - 1)),
                       GLYD_IR_SEQ(ir, digit_range(ir, 0, 0), not_zero(ir, left - 1)));
}

/* Not below the n digits at d. */
static glyd_node fraction_from(glyd_ir *ir, const char *d, int n, bool is_open, int left)
{
    if (n == 0)
        return is_open ? not_zero(ir, left) : digits(ir, 0, left);
    if (left < 1)
        return GLYD_NODE_NEVER;
    int first = d[0] - '0';
    return GLYD_IR_ALT(ir, GLYD_IR_SEQ(ir, digit_range(ir, first + 1, 9), digits(ir, 0, left - 1)),
                       GLYD_IR_SEQ(ir, digit_range(ir, first, first),
                                   fraction_from(ir, d + 1, n - 1, is_open, left - 1)));
}

/* Not above; `may_stop`: no digit may come, too. */
static glyd_node fraction_to(glyd_ir *ir, const char *d, int n, bool is_open, int left,
                             bool may_stop)
{
    if (n == 0 || left < 1)
        return n == 0 && is_open ? GLYD_NODE_NEVER
                                 : glyd_ir_repeat(ir, digit_range(ir, 0, 0), !may_stop, left);
    int first = d[0] - '0';
    return GLYD_IR_ALT(ir, may_stop ? GLYD_NODE_EMPTY : GLYD_NODE_NEVER,
                       GLYD_IR_SEQ(ir, digit_range(ir, 0, first - 1), digits(ir, 0, left - 1)),
                       GLYD_IR_SEQ(ir, digit_range(ir, first, first),
                                   fraction_to(ir, d + 1, n - 1, is_open, left - 1, true)));
}

typedef struct fraction_bounds {
    const char *low, *high;
    int n_low, n_high;
    bool is_low_open, is_high_open;
} fraction_bounds;

static glyd_node fraction_between(glyd_ir *ir, fraction_bounds b, int left, bool may_stop)
{
    if (b.n_low == 0 && !b.is_low_open)
        return fraction_to(ir, b.high, b.n_high, b.is_high_open, left, may_stop);
    if (left < 1 || (b.n_low == 0 && b.n_high == 0))
        return GLYD_NODE_NEVER;
    int low = b.n_low ? b.low[0] - '0' : 0, high = b.n_high ? b.high[0] - '0' : 0;
    fraction_bounds rest = b;
    if (b.n_low) {
        rest.low++;
        rest.n_low--;
    }
    if (b.n_high) {
        rest.high++;
        rest.n_high--;
    }
    if (low > high)
        return GLYD_NODE_NEVER;
    if (low == high)
        return GLYD_IR_SEQ(ir, digit_range(ir, low, low),
                           fraction_between(ir, rest, left - 1, true));
    return GLYD_IR_ALT(
        ir,
        GLYD_IR_SEQ(ir, digit_range(ir, low, low),
                    fraction_from(ir, rest.low, rest.n_low, b.is_low_open, left - 1)),
        GLYD_IR_SEQ(ir, digit_range(ir, low + 1, high - 1), digits(ir, 0, left - 1)),
        GLYD_IR_SEQ(ir, digit_range(ir, high, high),
                    fraction_to(ir, rest.high, rest.n_high, b.is_high_open, left - 1, true)));
}

/* --- numbers --- */

static glyd_node with_point(glyd_ir *ir, glyd_node fraction)
{
    return GLYD_IR_SEQ(ir, glyd_ir_text(ir, "."), fraction);
}

/* The smallest and largest whole parts alone have bounds on the fraction. */
static glyd_node size_range(glyd_ir *ir, const decimal *low, bool is_low_open, const decimal *high,
                            bool is_high_open, int places)
{
    glyd_node any = glyd_ir_repeat(ir, with_point(ir, digits(ir, 1, places)), 0, 1);
    bool may_omit_low = low->n_fraction == 0 && !is_low_open;
    glyd_node kids[4];
    size_t n = 0;
    if (high && low->whole == high->whole) {
        fraction_bounds b = {low->fraction,    high->fraction, low->n_fraction,
                             high->n_fraction, is_low_open,    is_high_open};
        glyd_node rest = with_point(ir, fraction_between(ir, b, places, false));
        bool may_omit = may_omit_low && (high->n_fraction > 0 || !is_high_open);
        return GLYD_IR_SEQ(ir, whole_range(ir, low->whole, low->whole),
                           glyd_ir_repeat(ir, rest, !may_omit, 1));
    }
    glyd_node above = low->n_fraction == 0 && !is_low_open
                          ? digits(ir, 1, places)
                          : fraction_from(ir, low->fraction, low->n_fraction, is_low_open, places);
    kids[n++] = GLYD_IR_SEQ(ir, whole_range(ir, low->whole, low->whole),
                            glyd_ir_repeat(ir, with_point(ir, above), !may_omit_low, 1));
    kids[n++] = GLYD_IR_SEQ(
        ir, whole_range(ir, low->whole + 1, high ? (high->whole ? high->whole - 1 : 0) : NO_END),
        any);
    if (high) {
        bool may_omit = high->n_fraction > 0 || !is_high_open;
        glyd_node below = with_point(
            ir, fraction_to(ir, high->fraction, high->n_fraction, is_high_open, places, false));
        kids[n++] = GLYD_IR_SEQ(ir, whole_range(ir, high->whole, high->whole),
                                glyd_ir_repeat(ir, below, !may_omit, 1));
    }
    return glyd_ir_alt(ir, kids, n);
}

static int places_for(const bound *b, int places)
{
    if (!b->is_there || !b->is_open || b->value == 0)
        return places;
    int most = GLYD_BOUND_DIGITS_MAX - b->size.n_whole;
    if (most < b->size.n_fraction)
        most = b->size.n_fraction;
    return most < places ? most : places;
}

static glyd_node number_range(glyd_ir *ir, const bound *low, const bound *high)
{
    int places = places_for(low, places_for(high, GLYD_NUMBER_DIGITS_MAX));
    glyd_node below = GLYD_NODE_NEVER, above = GLYD_NODE_NEVER;
    if (low->is_there && high->is_there &&
        (low->value > high->value ||
         (low->value == high->value && (low->is_open || high->is_open))))
        return GLYD_NODE_NEVER;
    if (places < 1)
        places = 1;
    if (!low->is_there || low->is_negative) {
        bool ends = high->is_there && high->is_negative;
        below = GLYD_IR_SEQ(ir, glyd_ir_text(ir, "-"),
                            size_range(ir, ends ? &high->size : &zero, ends ? high->is_open : true,
                                       low->is_there ? &low->size : NULL,
                                       low->is_there && low->is_open, places));
    }
    if (!high->is_there || !high->is_negative) {
        bool starts = low->is_there && !low->is_negative;
        above = size_range(ir, starts ? &low->size : &zero, starts && low->is_open,
                           high->is_there ? &high->size : NULL, high->is_there && high->is_open,
                           places);
    }
    return GLYD_IR_ALT(ir, below, above);
}

glyd_status glyd_schema_number(glyd_schema *s, const json_t *schema, bool is_integer,
                               glyd_node *node)
{
    bound low = {0}, high = {0};
    if (is_integer)
        return integer_range(s, schema, node);
    if (json_object_get(schema, "multipleOf"))
        return glyd_schema_refuse(s, GLYD_E_UNSUPPORTED, "multipleOf",
                                  "is supported for integers alone");
    GLYD_TRY(read_bounds(s, schema, &low, &high));
    *node = low.is_there || high.is_there ? number_range(s->ir, &low, &high) : s->json->number;
    return GLYD_OK;
}
