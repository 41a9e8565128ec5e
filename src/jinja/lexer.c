/* lexer.c - template text to tokens, with Jinja's rules for whitespace around tags.
 *
 * The environment is that of transformers: trim_blocks (a newline after a block or comment goes),
 * lstrip_blocks (blanks between a line's start and a block or comment go), one trailing newline of
 * the template goes. `-` at a tag's inside strips all whitespace on that side, `+` keeps it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "jinja/ast.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BRACKETS_MAX = 256, NAMES_MAX = 2048 };

typedef struct lexer {
    jinja_parser *p;
    const char *text;
    size_t bytes, at;
    int line;
    bool line_starting; /* the last thing read ended with a newline */
} lexer;

glyd_status glyd_jinja_fail_at(jinja_arena *arena, int line, glyd_status status, const char *format,
                               ...)
{
    char text[GLYD_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    glyd_error_set(arena->err, status, "chat template, line %d: %.440s", line, text);
    if (arena->status == GLYD_OK)
        arena->status = status;
    return status;
}

#define FAIL(lx, ...)                                                                              \
    return glyd_jinja_fail_at((lx)->p->arena, (lx)->line, GLYD_E_FORMAT, __VA_ARGS__)

static bool starts_with(const lexer *lx, size_t at, const char *what)
{
    size_t n = strlen(what);
    return lx->bytes - at >= n && memcmp(lx->text + at, what, n) == 0;
}

static size_t skip_space(const lexer *lx, size_t at)
{
    while (at < lx->bytes) {
        int32_t point;
        size_t n = glyd_jinja_decode(lx->text + at, &point);
        if (!glyd_jinja_point_is_space(point))
            break;
        at += n;
    }
    return at;
}

/* The end of [from, to) without its trailing whitespace. */
static size_t strip_end(const lexer *lx, size_t from, size_t to)
{
    while (to > from) {
        size_t last = to - 1;
        while (last > from && ((unsigned char)lx->text[last] & 0xC0) == 0x80)
            last--;
        int32_t point;
        glyd_jinja_decode(lx->text + last, &point);
        if (!glyd_jinja_point_is_space(point))
            break;
        to = last;
    }
    return to;
}

static void advance(lexer *lx, size_t to)
{
    for (size_t i = lx->at; i < to; i++)
        lx->line += lx->text[i] == '\n';
    if (to > lx->at)
        lx->line_starting = lx->text[to - 1] == '\n';
    lx->at = to;
}

static glyd_status add(lexer *lx, jinja_token token)
{
    jinja_tokens *t = &lx->p->tokens;
    if (t->n == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 64;
        jinja_token *items = glyd_jinja_grow(lx->p->arena, t->items, t->capacity * sizeof *items,
                                             capacity * sizeof *items);
        if (!items)
            return lx->p->arena->status;
        t->items = items;
        t->capacity = capacity;
    }
    token.line = lx->line;
    t->items[t->n++] = token;
    return GLYD_OK;
}

static glyd_status add_data(lexer *lx, size_t from, size_t to)
{
    if (from == to)
        return GLYD_OK;
    const jinja_string *s = glyd_jinja_string_view(lx->p->arena, lx->text + from, to - from);
    if (!s)
        return lx->p->arena->status;
    return add(lx, (jinja_token){.kind = JINJA_T_DATA, .value = jinja_text(s)});
}

/* Text in [lx->at, tag) before a tag whose inside starts with `sign`. */
static glyd_status add_data_before(lexer *lx, size_t tag, char sign, bool is_print)
{
    size_t from = lx->at, to = tag;
    if (sign == '-') {
        to = strip_end(lx, from, to);
    } else if (sign != '+' && !is_print) {
        size_t line = to;
        while (line > from && lx->text[line - 1] != '\n')
            line--;
        if ((line > from || lx->line_starting) && skip_space(lx, line) >= to)
            to = line;
    }
    return add_data(lx, from, to);
}

/* After a block or comment tag's closing text: where reading goes on. */
static size_t after_close(const lexer *lx, size_t at, char sign)
{
    if (sign == '-')
        return skip_space(lx, at);
    return sign != '+' && at < lx->bytes && lx->text[at] == '\n' ? at + 1 : at;
}

static char sign_at(const lexer *lx, size_t at)
{
    return at < lx->bytes && (lx->text[at] == '-' || lx->text[at] == '+') ? lx->text[at] : 0;
}

static glyd_status lex_comment(lexer *lx)
{
    for (size_t at = lx->at; at + 1 < lx->bytes; at++) {
        if (lx->text[at] == '#' && lx->text[at + 1] == '}') {
            char sign = at > lx->at ? sign_at(lx, at - 1) : 0;
            advance(lx, after_close(lx, at + 2, sign));
            return GLYD_OK;
        }
    }
    FAIL(lx, "a comment is not closed");
}

/* `{% WORD %}` at `at`: where its sign, and its closing sign, and its end are. */
static bool match_word_tag(const lexer *lx, size_t at, const char *word, char *sign, char *close,
                           size_t *end)
{
    if (!starts_with(lx, at, "{%"))
        return false;
    *sign = sign_at(lx, at + 2);
    at = skip_space(lx, at + 2 + (*sign != 0));
    if (!starts_with(lx, at, word))
        return false;
    at = skip_space(lx, at + strlen(word));
    *close = starts_with(lx, at, "-%}") || starts_with(lx, at, "+%}") ? lx->text[at] : 0;
    at += *close != 0;
    *end = at + 2;
    return starts_with(lx, at, "%}");
}

static glyd_status lex_raw(lexer *lx)
{
    for (size_t at = lx->at; at < lx->bytes; at++) {
        char sign, close;
        size_t end;
        if (lx->text[at] == '{' && match_word_tag(lx, at, "endraw", &sign, &close, &end)) {
            GLYD_TRY(add_data_before(lx, at, sign, false));
            advance(lx, after_close(lx, end, close));
            return GLYD_OK;
        }
    }
    FAIL(lx, "a raw block is not closed");
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const jinja_string *intern(lexer *lx, size_t from, size_t to)
{
    jinja_names *names = &lx->p->names;
    for (size_t i = 0; i < names->n; i++) {
        const jinja_string *s = names->items[i];
        if (s->bytes == to - from && memcmp(s->data, lx->text + from, to - from) == 0)
            return s;
    }
    if (names->n == NAMES_MAX) {
        glyd_jinja_fail_at(lx->p->arena, lx->line, GLYD_E_LIMIT, "more than %d names", NAMES_MAX);
        return NULL;
    }
    const jinja_string *s = glyd_jinja_string_view(lx->p->arena, lx->text + from, to - from);
    if (!s || glyd_jinja_names_add(lx->p->arena, names, s) != GLYD_OK)
        return NULL;
    return s;
}

static glyd_status lex_name(lexer *lx)
{
    size_t end = lx->at;
    while (end < lx->bytes && is_name_byte(lx->text[end])) {
        int32_t point;
        size_t n = glyd_jinja_decode(lx->text + end, &point);
        if (point >= 0x80 && !glyd_jinja_point_is_alpha(point))
            FAIL(lx, "invalid character U+%04X in a name", (unsigned)point);
        end += n;
    }
    const jinja_string *name = intern(lx, lx->at, end);
    if (!name)
        return lx->p->arena->status;
    GLYD_TRY(add(lx, (jinja_token){.kind = JINJA_T_NAME, .value = jinja_text(name)}));
    advance(lx, end);
    return GLYD_OK;
}

/* Digits with single underscores between them; gives the end. */
static size_t skip_digits(const lexer *lx, size_t at)
{
    while (at < lx->bytes) {
        if (is_digit(lx->text[at]))
            at++;
        else if (lx->text[at] == '_' && at + 1 < lx->bytes && is_digit(lx->text[at + 1]) &&
                 is_digit(lx->text[at - 1]))
            at++;
        else
            break;
    }
    return at;
}

/* The end of a real number at lx->at, or lx->at where there is none. */
static size_t match_real(const lexer *lx)
{
    size_t whole = skip_digits(lx, lx->at), end = whole;
    bool is_real = false;
    if (end + 1 < lx->bytes && lx->text[end] == '.' && is_digit(lx->text[end + 1])) {
        end = skip_digits(lx, end + 1);
        is_real = true;
    }
    if (end < lx->bytes && (lx->text[end] == 'e' || lx->text[end] == 'E')) {
        size_t at = end + 1;
        if (at < lx->bytes && (lx->text[at] == '+' || lx->text[at] == '-'))
            at++;
        if (at < lx->bytes && is_digit(lx->text[at])) {
            end = skip_digits(lx, at);
            is_real = true;
        }
    }
    bool after_dot = lx->at > 0 && lx->text[lx->at - 1] == '.';
    return is_real && !after_dot ? end : lx->at;
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static glyd_status lex_int(lexer *lx)
{
    int base = 10;
    size_t at = lx->at;
    if (lx->text[at] == '0' && at + 2 < lx->bytes) {
        char c = (char)(lx->text[at + 1] | 0x20);
        int prefixed = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
        if (prefixed != 10 && digit_value(lx->text[at + 2]) < prefixed) {
            base = prefixed;
            at += 2;
        }
    }
    int64_t n = 0;
    bool zeros_only = base == 10 && lx->text[at] == '0';
    for (; at < lx->bytes; at++) {
        char c = lx->text[at];
        bool separates = c == '_' && at + 1 < lx->bytes && digit_value(lx->text[at + 1]) < base;
        if (separates)
            continue;
        int digit = digit_value(c);
        if (digit >= base || (zeros_only && digit != 0))
            break;
        if (n > (INT64_MAX - digit) / base)
            FAIL(lx, "an integer is beyond 64 bits");
        n = n * base + digit;
    }
    GLYD_TRY(add(lx, (jinja_token){.kind = JINJA_T_INT, .value = jinja_int(n)}));
    advance(lx, at);
    return GLYD_OK;
}

static glyd_status lex_number(lexer *lx)
{
    size_t end = match_real(lx);
    if (end == lx->at)
        return lex_int(lx);
    double real;
    jinja_string text = {lx->text + lx->at, end - lx->at, end - lx->at};
    if (!glyd_jinja_parse_real(&text, &real))
        FAIL(lx, "a number cannot be read");
    GLYD_TRY(add(lx, (jinja_token){.kind = JINJA_T_REAL, .value = jinja_real(real)}));
    advance(lx, end);
    return GLYD_OK;
}

/* One escape of a string literal, at lx->text[at] just after the backslash; *next is after it. */
static glyd_status lex_escape(lexer *lx, size_t at, jinja_builder *b, size_t *next)
{
    static const char plain[] = "\\'\"abfnrtv", meaning[] = "\\'\"\a\b\f\n\r\t\v";
    char c = lx->text[at];
    *next = at + 1;
    if (c == '\n')
        return GLYD_OK;
    const char *found = memchr(plain, c, sizeof plain - 1);
    if (found)
        return glyd_jinja_put(b, &meaning[found - plain], 1);
    int digits_max = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    int base = 16;
    if (c >= '0' && c <= '7') {
        digits_max = 3;
        base = 8;
        *next = at;
    }
    if (digits_max == 0) {
        if (c == 'N')
            FAIL(lx, "\\N{...} in a string is not supported");
        GLYD_TRY(glyd_jinja_put_text(b, "\\"));
        if ((unsigned char)c < 0x80)
            return glyd_jinja_put(b, &c, 1);
        /* Jinja escapes what is not ASCII before it reads escapes, so a backslash shows it. */
        int32_t point;
        *next = at + glyd_jinja_decode(lx->text + at, &point);
        char shown[16];
        snprintf(shown, sizeof shown,
                 point < 0x100     ? "x%02x"
                 : point < 0x10000 ? "u%04x"
                                   : "U%08x",
                 (unsigned)point);
        return glyd_jinja_put_text(b, shown);
    }
    int64_t point = 0;
    int n = 0;
    for (; n < digits_max && *next < lx->bytes && digit_value(lx->text[*next]) < base; n++)
        point = point * base + digit_value(lx->text[(*next)++]);
    if (base == 16 && n < digits_max)
        FAIL(lx, "a \\%c escape in a string is cut short", c);
    if (point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        FAIL(lx, "a \\%c escape in a string is no character", c);
    return glyd_jinja_put_point(b, (int32_t)point);
}

static glyd_status lex_string(lexer *lx)
{
    char quote = lx->text[lx->at];
    size_t at = lx->at + 1;
    jinja_builder b = {.arena = lx->p->arena};
    for (;;) {
        size_t run = at;
        while (at < lx->bytes && lx->text[at] != quote && lx->text[at] != '\\')
            at++;
        GLYD_TRY(glyd_jinja_put(&b, lx->text + run, at - run));
        if (at >= lx->bytes || (lx->text[at] == '\\' && at + 1 >= lx->bytes))
            FAIL(lx, "a string is not closed");
        if (lx->text[at] == quote)
            break;
        GLYD_TRY(lex_escape(lx, at + 1, &b, &at));
    }
    jinja_token token = {.kind = JINJA_T_STRING};
    GLYD_TRY(glyd_jinja_build(&b, &token.value));
    GLYD_TRY(add(lx, token));
    advance(lx, at + 1);
    return GLYD_OK;
}

static glyd_status lex_operator(lexer *lx, char *brackets, size_t *n_brackets)
{
    static const char pairs[] = "**//==!=>=<=", singles[] = "+-/*%~[](){}<>=.:|,;";
    char c = lx->text[lx->at];
    int op = 0;
    if (lx->at + 1 < lx->bytes) {
        for (size_t i = 0; i + 1 < sizeof pairs && !op; i += 2) {
            if (c == pairs[i] && lx->text[lx->at + 1] == pairs[i + 1])
                op = JINJA_OP(pairs[i], pairs[i + 1]);
        }
    }
    if (!op && c && strchr(singles, c))
        op = c;
    if (!op)
        FAIL(lx, "unexpected character '%c'", c >= 0x20 && c < 0x7F ? c : '?');
    if (op == '{' || op == '(' || op == '[') {
        if (*n_brackets == BRACKETS_MAX)
            return glyd_jinja_fail_at(lx->p->arena, lx->line, GLYD_E_LIMIT,
                                      "brackets nest deeper than %d", BRACKETS_MAX);
        brackets[(*n_brackets)++] = op == '{' ? '}' : op == '(' ? ')' : ']';
    } else if (op == '}' || op == ')' || op == ']') {
        if (*n_brackets == 0)
            FAIL(lx, "unexpected '%c'", op);
        char wanted = brackets[--*n_brackets];
        if (wanted != op)
            FAIL(lx, "unexpected '%c', expected '%c'", op, wanted);
    }
    GLYD_TRY(add(lx, (jinja_token){.kind = JINJA_T_OPERATOR, .op = op}));
    advance(lx, lx->at + (op > 0xFF ? 2 : 1));
    return GLYD_OK;
}

/* The closing of a tag at lx->at, if it is there: 0, or 2 or 3 bytes. */
static size_t match_close(const lexer *lx, bool is_print)
{
    if (is_print)
        return starts_with(lx, lx->at, "-}}") ? 3 : starts_with(lx, lx->at, "}}") ? 2 : 0;
    if (starts_with(lx, lx->at, "-%}") || starts_with(lx, lx->at, "+%}"))
        return 3;
    return starts_with(lx, lx->at, "%}") ? 2 : 0;
}

/* The inside of {{ }} or {% %}. */
static glyd_status lex_tag(lexer *lx, bool is_print)
{
    char brackets[BRACKETS_MAX];
    size_t n_brackets = 0;
    for (;;) {
        size_t close = n_brackets ? 0 : match_close(lx, is_print);
        if (close) {
            char sign = sign_at(lx, lx->at);
            GLYD_TRY(
                add(lx, (jinja_token){.kind = is_print ? JINJA_T_PRINT_END : JINJA_T_BLOCK_END}));
            size_t end = lx->at + close;
            if (is_print)
                advance(lx, sign == '-' ? skip_space(lx, end) : end);
            else
                advance(lx, after_close(lx, end, sign));
            return GLYD_OK;
        }
        if (lx->at == lx->bytes)
            return GLYD_OK; /* the parser finds the end of the template */
        char c = lx->text[lx->at];
        size_t blank = skip_space(lx, lx->at);
        if (blank > lx->at)
            advance(lx, blank);
        else if (is_digit(c))
            GLYD_TRY(lex_number(lx));
        else if (is_name_byte(c))
            GLYD_TRY(lex_name(lx));
        else if (c == '"' || c == '\'')
            GLYD_TRY(lex_string(lx));
        else
            GLYD_TRY(lex_operator(lx, brackets, &n_brackets));
    }
}

static glyd_status lex_root(lexer *lx)
{
    while (lx->at < lx->bytes) {
        size_t tag = lx->at;
        while (tag < lx->bytes && !(lx->text[tag] == '{' && tag + 1 < lx->bytes &&
                                    (lx->text[tag + 1] == '{' || lx->text[tag + 1] == '%' ||
                                     lx->text[tag + 1] == '#')))
            tag++;
        if (tag == lx->bytes) {
            GLYD_TRY(add_data(lx, lx->at, tag));
            advance(lx, tag);
            break;
        }
        char kind = lx->text[tag + 1], sign, close;
        size_t end;
        if (match_word_tag(lx, tag, "raw", &sign, &close, &end) && close != '+') {
            GLYD_TRY(add_data_before(lx, tag, sign, false));
            advance(lx, close == '-' ? skip_space(lx, end) : end);
            GLYD_TRY(lex_raw(lx));
            continue;
        }
        sign = sign_at(lx, tag + 2);
        GLYD_TRY(add_data_before(lx, tag, sign, kind == '{'));
        advance(lx, tag + 2 + (sign != 0));
        lx->line_starting = false;
        if (kind == '#') {
            GLYD_TRY(lex_comment(lx));
            continue;
        }
        GLYD_TRY(add(
            lx, (jinja_token){.kind = kind == '{' ? JINJA_T_PRINT_BEGIN : JINJA_T_BLOCK_BEGIN}));
        GLYD_TRY(lex_tag(lx, kind == '{'));
    }
    return add(lx, (jinja_token){.kind = JINJA_T_END});
}

/* CR LF and CR become LF, and one newline at the end goes. */
static glyd_status normalize(jinja_parser *p, const char **text, size_t *bytes)
{
    if (memchr(*text, '\r', *bytes)) {
        char *copy = glyd_jinja_alloc(p->arena, *bytes);
        if (!copy)
            return p->arena->status;
        size_t n = 0;
        for (size_t i = 0; i < *bytes; i++) {
            char c = (*text)[i];
            if (c == '\r' && i + 1 < *bytes && (*text)[i + 1] == '\n')
                continue;
            copy[n++] = c == '\r' ? '\n' : c;
        }
        *text = copy;
        *bytes = n;
    }
    if (*bytes && (*text)[*bytes - 1] == '\n')
        --*bytes;
    return GLYD_OK;
}

glyd_status glyd_jinja_lex(jinja_parser *p, const char *text, size_t bytes)
{
    if (bytes)
        GLYD_TRY(normalize(p, &text, &bytes));
    lexer lx = {.p = p, .text = text, .bytes = bytes, .line = 1, .line_starting = true};
    return lex_root(&lx);
}
