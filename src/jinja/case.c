/* case.c - upper, lower, title and capitalize, as Python's str has them.
 *
 * Full mappings: one letter may become several (U+00DF), and a capital sigma that ends a word
 * becomes the final small one.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "jinja/case_table.h"
#include "jinja/run.h"
#include <utf8proc.h>

static bool is_cased(int32_t p)
{
    utf8proc_category_t c = utf8proc_category(p);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
           p == 0xAA || p == 0xBA || (p >= 0x2160 && p <= 0x217F) || (p >= 0x24B6 && p <= 0x24E9);
}

/* Characters that do not end a word for the sigma rule. */
static bool is_case_ignorable(int32_t p)
{
    switch (utf8proc_category(p)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return p == '\'' || p == '.' || p == ':' || p == 0xB7 || p == 0x2018 || p == 0x2019;
    }
}

static bool cased_before(const jinja_string *s, size_t at)
{
    while (at > 0) {
        at--;
        while (at > 0 && ((unsigned char)s->data[at] & 0xC0) == 0x80)
            at--;
        int32_t p;
        glyd_jinja_decode(s->data + at, &p);
        if (!is_case_ignorable(p))
            return is_cased(p);
    }
    return false;
}

static bool cased_after(const jinja_string *s, size_t at)
{
    while (at < s->bytes) {
        int32_t p;
        at += glyd_jinja_decode(s->data + at, &p);
        if (!is_case_ignorable(p))
            return is_cased(p);
    }
    return false;
}

/* The several characters that one becomes, where the sorted rows have it. */
static glyd_status put_rows(jinja_builder *b, const struct case_row *rows, size_t n, int32_t p,
                            bool *found)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (rows[mid].point < p)
            low = mid + 1;
        else
            high = mid;
    }
    *found = low < n && rows[low].point == p;
    for (int k = 0; *found && k < 3 && rows[low].to[k]; k++)
        GLYD_TRY(glyd_jinja_put_point(b, rows[low].to[k]));
    return GLYD_OK;
}

static glyd_status put_upper(jinja_builder *b, int32_t p, bool title)
{
    bool found;
    if (title)
        GLYD_TRY(put_rows(b, title_rows, sizeof title_rows / sizeof *title_rows, p, &found));
    else
        GLYD_TRY(put_rows(b, upper_rows, sizeof upper_rows / sizeof *upper_rows, p, &found));
    if (found)
        return GLYD_OK;
    return glyd_jinja_put_point(b, title ? utf8proc_totitle(p) : utf8proc_toupper(p));
}

static glyd_status put_lower(jinja_builder *b, const jinja_string *s, size_t at, size_t next,
                             int32_t p)
{
    if (p == 0x130) { /* the dotted capital I keeps its dot */
        GLYD_TRY(glyd_jinja_put_point(b, 'i'));
        return glyd_jinja_put_point(b, 0x307);
    }
    if (p == 0x3A3 && cased_before(s, at) && !cased_after(s, next))
        return glyd_jinja_put_point(b, 0x3C2);
    return glyd_jinja_put_point(b, utf8proc_tolower(p));
}

glyd_status glyd_jinja_change_case(jinja_run *r, jinja_case to, const jinja_string *s,
                                   jinja_value *out)
{
    jinja_builder b = {.arena = &r->arena};
    bool after_cased = false;
    GLYD_TRY(glyd_jinja_charge(r, s->bytes / 8));
    for (size_t at = 0, next; at < s->bytes; at = next) {
        int32_t p;
        next = at + glyd_jinja_decode(s->data + at, &p);
        bool raise = to == JINJA_UPPER || (to == JINJA_TITLE && !after_cased) ||
                     (to == JINJA_CAPITALIZE && at == 0);
        if (raise)
            GLYD_TRY(put_upper(&b, p, to != JINJA_UPPER));
        else
            GLYD_TRY(put_lower(&b, s, at, next, p));
        after_cased = is_cased(p);
    }
    return glyd_jinja_build(&b, out);
}
