/* regex_translate.c - Oniguruma's pattern language rewritten for PCRE2.
 *
 * One pass from left to right that accepts a fixed list of constructs, each written out so that it
 * means the same to PCRE2, and refuses the rest by name:
 *   \s \w \d \h \b   explicit classes, with the characters that newer Unicode versions added
 *   \p{..}           general categories, extended the same way
 *   ^ $              match at every line, whatever the options
 *   (?m:..)          lets the dot match newlines
 *   x{n,m}+          repeats the repeat (to PCRE2 it would be possessive); x{n}? makes it optional
 *   (?i:..)          ASCII only, and no letters that case folding joins, such as "ss" to U+00DF
 * Literals are written as code points, so nothing of the pattern reaches PCRE2 uninterpreted.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "text/regex.h"
#include "text/unicode.h"
#include <string.h>

enum {
    DEPTH_MAX = 64,
    REPEAT_MAX = 1000, /* of {n,m}; PCRE2 unrolls them */
    NO_ATOM = -1
};

#define SPACE                                                                                      \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"                               \
    "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NOT_SPACE                                                                                  \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}"                   \
    "\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"                 \
    "\\x{2060}-\\x{2fff}\\x{3001}-\\x{d7ff}\\x{e000}-\\x{10ffff}"
/* What is a word character without being so by category: enclosed letters, and as Oniguruma has
 * it, superscripts and fractions of Latin-1. */
#define WORD_MORE                                                                                  \
    "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"                                \
    "\\x{1f170}-\\x{1f189}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

typedef struct group {
    long atom;          /* where the group's text begins in the output */
    bool icase, dotall; /* the options outside, restored at the end */
    bool is_look;       /* a look-around takes no quantifier */
} group;

typedef struct translator {
    const char *pattern;
    size_t n, at;
    glyd_buf *out;
    glyd_error *err;
    long atom; /* where the last quantifiable item begins in the output */
    bool icase, dotall;
    uint32_t literal_last; /* the literal just before, 0 for none: see folds_together */
    int depth;
    group groups[DEPTH_MAX];
} translator;

static glyd_status refuse(const translator *t, const char *what)
{
    GLYD_FAIL(t->err, GLYD_E_UNSUPPORTED, "regular expression: %s at byte %zu is not supported",
              what, t->at);
}

static glyd_status malformed(const translator *t, const char *what)
{
    GLYD_FAIL(t->err, GLYD_E_FORMAT, "regular expression: %s at byte %zu", what, t->at);
}

static glyd_status put(translator *t, const char *text)
{
    if (glyd_buf_append(t->out, text, strlen(text)) != GLYD_OK)
        GLYD_FAIL(t->err, GLYD_E_NOMEM, "out of memory");
    return GLYD_OK;
}

static glyd_status put_point(translator *t, uint32_t point)
{
    if (glyd_buf_print(t->out, "\\x{%x}", (unsigned)point) != GLYD_OK)
        GLYD_FAIL(t->err, GLYD_E_NOMEM, "out of memory");
    return GLYD_OK;
}

static glyd_status put_range(translator *t, uint32_t first, uint32_t last)
{
    GLYD_TRY(put_point(t, first));
    if (first == last)
        return GLYD_OK;
    GLYD_TRY(put(t, "-"));
    return put_point(t, last);
}

static glyd_status insert(translator *t, size_t at, const char *text)
{
    size_t n = strlen(text), tail = t->out->bytes - at;
    GLYD_TRY(put(t, text));
    memmove(t->out->data + at + n, t->out->data + at, tail);
    memcpy(t->out->data + at, text, n);
    return GLYD_OK;
}

static int peek(const translator *t, size_t ahead)
{
    return ahead < t->n - t->at ? (uint8_t)t->pattern[t->at + ahead] : -1;
}

static bool follows(const translator *t, const char *text)
{
    size_t n = strlen(text);
    return t->n - t->at >= n && memcmp(t->pattern + t->at, text, n) == 0;
}

static glyd_status next_point(translator *t, uint32_t *point)
{
    if (t->at == t->n)
        return malformed(t, "an unfinished item");
    int bytes = glyd_utf8_decode((const uint8_t *)t->pattern + t->at, t->n - t->at, point);
    if (bytes == 0)
        return malformed(t, "broken UTF-8");
    t->at += (size_t)bytes;
    return GLYD_OK;
}

/* A category as items of a class: PCRE2's own, and what newer versions of Unicode put there. (One
 * mark, U+1171E, moved from Mn to Mc and stays in both.) */
static glyd_status put_category(translator *t, const char *name)
{
    if (glyd_buf_print(t->out, "\\p{%s}", name) != GLYD_OK)
        GLYD_FAIL(t->err, GLYD_E_NOMEM, "out of memory");
    size_t n;
    const glyd_unicode_range *added = glyd_unicode_added(&n);
    for (size_t i = 0; i < n; i++)
        if (strncmp(added[i].category, name, strlen(name)) == 0)
            GLYD_TRY(put_range(t, added[i].first, added[i].last));
    return GLYD_OK;
}

/* The name between the braces of \p{..}; at stands after \p or \P. */
static glyd_status read_category(translator *t, char name[4], bool *negated)
{
    static const char known[] = " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po "
                                "S Sm Sc Sk So Z Zs Zl Zp Cc Cf Co ";
    if (peek(t, 0) != '{')
        return refuse(t, "\\p without braces");
    t->at++;
    if (peek(t, 0) == '^') {
        *negated = !*negated;
        t->at++;
    }
    char wanted[6] = " ";
    size_t n = 1;
    while (peek(t, 0) > ' ' && peek(t, 0) != '}' && n < 4)
        wanted[n++] = t->pattern[t->at++];
    wanted[n] = ' ';
    wanted[n + 1] = 0;
    if (n < 2 || n > 3 || peek(t, 0) != '}' || !strstr(known, wanted))
        return refuse(t, "a property other than a general category");
    t->at++;
    memcpy(name, wanted + 1, n - 1);
    name[n - 1] = 0;
    if (t->icase && (strcmp(name, "Lu") == 0 || strcmp(name, "Ll") == 0 || strcmp(name, "Lt") == 0))
        return refuse(t, "a property of case inside (?i)");
    return GLYD_OK;
}

static glyd_status put_word(translator *t)
{
    static const char *const categories[] = {"L", "M", "Nd", "Nl", "Pc"};
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++)
        GLYD_TRY(put_category(t, categories[i]));
    return put(t, WORD_MORE);
}

/* The items of the class escapes s w d h (lower case). */
static glyd_status put_class_items(translator *t, char letter)
{
    switch (letter) {
    case 's':
        return put(t, SPACE);
    case 'w':
        return put_word(t);
    case 'd':
        return put_category(t, "Nd");
    default:
        return put(t, "0-9a-fA-F");
    }
}

static glyd_status read_hex(translator *t, size_t digits_max, uint32_t *point)
{
    uint32_t value = 0;
    size_t n = 0;
    for (; n < digits_max; n++) {
        int c = peek(t, 0);
        int digit = c >= '0' && c <= '9'                     ? c - '0'
                    : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                             : -1;
        if (c < 0 || digit < 0)
            break;
        value = value * 16 + (uint32_t)digit;
        t->at++;
    }
    if (n == 0 || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return malformed(t, "a number that is no character");
    *point = value;
    return GLYD_OK;
}

/* An escape that stands for one character; at stands after the letter. */
static glyd_status read_escaped(translator *t, uint32_t letter, uint32_t *point)
{
    static const char letters[] = "nrtfvae", values[] = "\n\r\t\f\v\a\033";
    const char *known = letter < 0x80 && letter ? strchr(letters, (int)letter) : NULL;
    if (known) {
        *point = (uint8_t)values[known - letters];
        return GLYD_OK;
    }
    if (letter == 'x' && peek(t, 0) == '{') {
        t->at++;
        GLYD_TRY(read_hex(t, 6, point));
        if (peek(t, 0) != '}')
            return refuse(t, "a list of code points");
        t->at++;
        return GLYD_OK;
    }
    if (letter == 'u') {
        size_t start = t->at;
        GLYD_TRY(read_hex(t, 4, point));
        return t->at - start == 4 ? GLYD_OK : malformed(t, "\\u with fewer than four digits");
    }
    if (letter == 'x') {
        GLYD_TRY(read_hex(t, 2, point));
        return *point < 0x80 ? GLYD_OK : refuse(t, "a byte that is not ASCII");
    }
    if ((letter >= '0' && letter <= '9') || ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z'))
        return refuse(t, "this escape");
    *point = letter;
    return GLYD_OK;
}

/* Full case folding makes one letter of these pairs, so that Oniguruma also finds that letter. */
static bool folds_together(uint32_t a, uint32_t b)
{
    a |= 0x20;
    b |= 0x20;
    return (a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'));
}

static glyd_status put_literal(translator *t, uint32_t point)
{
    if (t->icase && (point >= 0x80 || folds_together(t->literal_last, point)))
        return refuse(t, "this character inside (?i)");
    t->literal_last = point;
    t->atom = (long)t->out->bytes;
    return put_point(t, point);
}

/* \b and \B by look-arounds. */
static glyd_status put_boundary(translator *t, bool is_boundary)
{
    static const char *const text[2][4] = {
        {"(?:(?<=[", "])(?=[", "])|(?<![", "])(?!["},
        {"(?:(?<=[", "])(?![", "])|(?<![", "])(?=["},
    };
    for (int i = 0; i < 4; i++) {
        GLYD_TRY(put(t, text[is_boundary][i]));
        GLYD_TRY(put_word(t));
    }
    return put(t, "]))");
}

static glyd_status escape(translator *t)
{
    uint32_t letter;
    t->at++;
    GLYD_TRY(next_point(t, &letter));
    long atom = (long)t->out->bytes;
    if (letter == 'p' || letter == 'P') {
        char name[4];
        bool negated = letter == 'P';
        GLYD_TRY(read_category(t, name, &negated));
        GLYD_TRY(put(t, negated ? "[^" : "["));
        GLYD_TRY(put_category(t, name));
        GLYD_TRY(put(t, "]"));
    } else if (letter && letter < 0x80 && strchr("swdhSWDH", (int)letter)) {
        GLYD_TRY(put(t, letter < 'a' ? "[^" : "["));
        GLYD_TRY(put_class_items(t, (char)(letter | 0x20)));
        GLYD_TRY(put(t, "]"));
    } else if (letter == 'b' || letter == 'B') {
        GLYD_TRY(put_boundary(t, letter == 'b'));
        atom = NO_ATOM;
    } else if (letter == 'A' || letter == 'z' || letter == 'Z') {
        const char text[3] = {'\\', (char)letter, 0};
        GLYD_TRY(put(t, text));
        atom = NO_ATOM;
    } else {
        uint32_t point;
        GLYD_TRY(read_escaped(t, letter, &point));
        return put_literal(t, point);
    }
    t->atom = atom;
    t->literal_last = 0;
    return GLYD_OK;
}

/* One item of a class: either a character (then *is_point) or a set that is written at once. */
static glyd_status class_item(translator *t, bool *is_point, uint32_t *point)
{
    *is_point = true;
    GLYD_TRY(next_point(t, point));
    if (*point == '[')
        return refuse(t, peek(t, 0) == ':' ? "a POSIX bracket" : "a class inside a class");
    if (*point == '&' && peek(t, 0) == '&')
        return refuse(t, "an intersection of classes (&&)");
    if (*point != '\\')
        return GLYD_OK;
    uint32_t letter;
    GLYD_TRY(next_point(t, &letter));
    if (letter == 'p' || letter == 'P') {
        char name[4];
        bool negated = letter == 'P';
        *is_point = false;
        GLYD_TRY(read_category(t, name, &negated));
        return negated ? refuse(t, "a negated property inside a class") : put_category(t, name);
    }
    if (letter && letter < 0x80 && strchr("swdhSWDH", (int)letter)) {
        *is_point = false;
        if (letter == 'S')
            return put(t, NOT_SPACE);
        return letter < 'a' ? refuse(t, "a negated set inside a class")
                            : put_class_items(t, (char)letter);
    }
    return read_escaped(t, letter, point);
}

static glyd_status class(translator *t)
{
    t->atom = (long)t->out->bytes;
    t->literal_last = 0;
    t->at++;
    GLYD_TRY(put(t, "["));
    if (peek(t, 0) == '^') {
        GLYD_TRY(put(t, "^"));
        t->at++;
    }
    if (peek(t, 0) == ']')
        return refuse(t, "a class that begins with ]");
    while (peek(t, 0) != ']') {
        bool is_point, last_is_point = true;
        uint32_t first, last;
        GLYD_TRY(class_item(t, &is_point, &first));
        if (!is_point) {
            if (peek(t, 0) == '-' && peek(t, 1) != ']')
                return refuse(t, "a range that begins with a set");
            continue;
        }
        last = first;
        if (peek(t, 0) == '-' && peek(t, 1) != ']' && peek(t, 1) >= 0) {
            t->at++;
            size_t written = t->out->bytes;
            GLYD_TRY(class_item(t, &last_is_point, &last));
            if (!last_is_point || last < first) {
                t->out->bytes = written;
                return malformed(t, "a range with a wrong end");
            }
        }
        if (t->icase && last >= 0x80)
            return refuse(t, "this character inside (?i)");
        GLYD_TRY(put_range(t, first, last));
    }
    t->at++;
    return put(t, "]");
}

static glyd_status open_group(translator *t)
{
    static const char *const plain[] = {"(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!"};
    if (t->depth == DEPTH_MAX)
        GLYD_FAIL(t->err, GLYD_E_LIMIT, "regular expression: more than %d groups inside each other",
                  DEPTH_MAX);
    group *g = &t->groups[t->depth++];
    *g = (group){(long)t->out->bytes, t->icase, t->dotall, false};
    t->atom = NO_ATOM;
    t->literal_last = 0;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (follows(t, plain[i])) {
            g->is_look = i >= 2;
            t->at += strlen(plain[i]);
            return put(t, plain[i]);
        }
    if (!follows(t, "(?")) {
        t->at++;
        return put(t, "(?:"); /* what a group captured is never asked for */
    }
    t->at += 2;
    bool on = true;
    for (;; t->at++) {
        int c = peek(t, 0);
        if (c == '-')
            on = false;
        else if (c == 'i')
            t->icase = on;
        else if (c == 'm')
            t->dotall = on;
        else
            break;
    }
    if (peek(t, 0) == ':') {
        t->at++;
        return put(t, t->icase ? "(?i:" : "(?-i:");
    }
    /* Options without a group last to the end of the enclosing one; at the start of the pattern
     * both engines agree on where that is. */
    if (peek(t, 0) != ')' || g->atom != 0 || t->depth != 1)
        return refuse(t, "this kind of group");
    t->at++;
    t->depth--;
    return put(t, t->icase ? "(?i)" : "(?-i)");
}

static glyd_status close_group(translator *t)
{
    if (t->depth == 0)
        return malformed(t, "a ) without a (");
    const group *g = &t->groups[--t->depth];
    t->at++;
    t->icase = g->icase;
    t->dotall = g->dotall;
    t->atom = g->is_look ? NO_ATOM : g->atom;
    t->literal_last = 0;
    return put(t, ")");
}

/* Whether {..} at this place is a repeat, and which; at then stands after it. */
static glyd_status read_repeat(translator *t, bool *is_repeat, long *low, long *high)
{
    size_t i = t->at + 1;
    long number[2] = {-1, -1};
    int which = 0;
    *is_repeat = false;
    for (; i < t->n && t->pattern[i] != '}'; i++) {
        char c = t->pattern[i];
        if (c == ',' && which == 0)
            which = 1;
        else if (c < '0' || c > '9')
            return GLYD_OK;
        else if (number[which] > REPEAT_MAX)
            GLYD_FAIL(t->err, GLYD_E_LIMIT, "regular expression: a repeat of more than %d",
                      REPEAT_MAX);
        else
            number[which] = (number[which] < 0 ? 0 : number[which]) * 10 + (c - '0');
    }
    if (i == t->n || (number[0] < 0 && number[1] < 0))
        return GLYD_OK;
    *low = number[0] < 0 ? 0 : number[0];
    *high = which == 0 ? *low : number[1];
    if (*low > REPEAT_MAX || *high > REPEAT_MAX)
        GLYD_FAIL(t->err, GLYD_E_LIMIT, "regular expression: a repeat of more than %d", REPEAT_MAX);
    if (*high >= 0 && *high < *low)
        return refuse(t, "a repeat with its bounds reversed");
    *is_repeat = true;
    t->at = i + 1;
    return GLYD_OK;
}

static glyd_status counted_repeat(translator *t, long low, long high)
{
    size_t atom = (size_t)t->atom;
    if (high < 0)
        GLYD_TRY(glyd_buf_print(t->out, "{%ld,}", low));
    else
        GLYD_TRY(glyd_buf_print(t->out, "{%ld,%ld}", low, high));
    int suffix = peek(t, 0);
    if (suffix != '?' && suffix != '+')
        return GLYD_OK;
    t->at++;
    if (suffix == '?' && high != low)
        return put(t, "?");
    GLYD_TRY(insert(t, atom, "(?:"));
    return put(t, suffix == '+' ? ")+" : ")?");
}

static glyd_status quantifier(translator *t)
{
    long low = 0, high = 0;
    bool is_repeat = true;
    size_t start = t->at;
    if (t->pattern[start] == '{')
        GLYD_TRY(read_repeat(t, &is_repeat, &low, &high));
    if (!is_repeat) {
        t->at++;
        return put_literal(t, '{');
    }
    if (t->atom == NO_ATOM)
        return refuse(t, "a repeat of nothing or of a repeat");
    if (t->at > start) {
        GLYD_TRY(counted_repeat(t, low, high));
    } else {
        char text[3] = {t->pattern[t->at++], 0, 0};
        if (peek(t, 0) == '?' || peek(t, 0) == '+')
            text[1] = t->pattern[t->at++];
        GLYD_TRY(put(t, text));
    }
    t->atom = NO_ATOM;
    t->literal_last = 0;
    return GLYD_OK;
}

static glyd_status plain_item(translator *t, const char *text, long atom)
{
    t->at++;
    t->atom = atom;
    t->literal_last = 0;
    return put(t, text);
}

static glyd_status item(translator *t)
{
    uint32_t point;
    switch (t->pattern[t->at]) {
    case '\\':
        return escape(t);
    case '[':
        return class(t);
    case '(':
        return open_group(t);
    case ')':
        return close_group(t);
    case '|':
        return plain_item(t, "|", NO_ATOM);
    case '^':
        return plain_item(t, "(?m:^)", NO_ATOM);
    case '$':
        return plain_item(t, "(?m:$)", NO_ATOM);
    case '.':
        return plain_item(t, t->dotall ? "(?s:.)" : "[^\\n]", (long)t->out->bytes);
    case '*':
    case '+':
    case '?':
    case '{':
        return quantifier(t);
    default:
        GLYD_TRY(next_point(t, &point));
        return put_literal(t, point);
    }
}

glyd_status glyd_regex_translate(const char *pattern, size_t bytes, glyd_buf *out, glyd_error *err)
{
    translator t = {.pattern = pattern, .n = bytes, .out = out, .err = err, .atom = NO_ATOM};
    while (t.at < t.n)
        GLYD_TRY(item(&t));
    return t.depth == 0 ? GLYD_OK : malformed(&t, "a ( without a )");
}
