/* pattern.c - the parser of regular expressions (the dialect is described in constraint.h).
 * SPDX-License-Identifier: Apache-2.0
 */
#include "constraint/pattern.h"
#include "base/buf.h"
#include "base/error.h"
#include <string.h>
#include <utf8proc.h>

enum { REPEAT_MAX = 100000 };

typedef struct parser {
    glyd_ir *ir;
    const uint8_t *text;
    size_t bytes, at;
    glyd_pattern_use use;
    int depth;
    glyd_error *err;
} parser;

#define REFUSE(p, ...)    return refuse((p), GLYD_E_UNSUPPORTED, __VA_ARGS__)
#define IS_WRONG(p, what) return refuse((p), GLYD_E_FORMAT, what)

static glyd_status parse_alternation(parser *p, glyd_node *node);

static glyd_status refuse(const parser *p, glyd_status status, const char *what)
{
    return glyd_error_set(p->err, status, "pattern, offset %zu: %s", p->at, what);
}

static int peek(const parser *p)
{
    return p->at < p->bytes ? p->text[p->at] : -1;
}

static bool take(parser *p, const char *text)
{
    size_t n = strlen(text);
    if (p->bytes - p->at < n || memcmp(p->text + p->at, text, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* --- characters and classes --- */

static const glyd_range digits[] = {{'0', '9'}};
static const glyd_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const glyd_range ascii_spaces[] = {{'\t', '\r'}, {' ', ' '}};
/* What either ECMA-262 or Python calls a space. */
static const glyd_range all_spaces[] = {{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},
                                        {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                        {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const glyd_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static glyd_status add_ranges(parser *p, glyd_buf *set, const glyd_range *ranges, size_t n)
{
    if (glyd_buf_append(set, ranges, n * sizeof *ranges) != GLYD_OK)
        return refuse(p, GLYD_E_NOMEM, "out of memory");
    return GLYD_OK;
}

static glyd_status add_inverse(parser *p, glyd_buf *set, const glyd_range *ranges, size_t n)
{
    glyd_range inverse[16];
    return add_ranges(p, set, inverse, glyd_ranges_invert(ranges, n, inverse));
}

/* \d and its like; *is_set says whether it was one. */
static glyd_status parse_set_escape(parser *p, int letter, glyd_buf *set, bool *is_set)
{
    *is_set = true;
    switch (letter) {
    case 'd':
        return add_ranges(p, set, digits, 1);
    case 'D':
        return add_inverse(p, set, digits, 1);
    case 'w':
        return add_ranges(p, set, words, 4);
    case 'W':
        return add_inverse(p, set, words, 4);
    case 's':
        return add_ranges(p, set, ascii_spaces, 2);
    case 'S':
        return add_inverse(p, set, all_spaces, sizeof all_spaces / sizeof *all_spaces);
    default:
        *is_set = false;
        return GLYD_OK;
    }
}

static glyd_status parse_hex(parser *p, int n_digits, uint32_t *point)
{
    *point = 0;
    for (int i = 0; i < n_digits; i++, p->at++) {
        int c = peek(p);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            IS_WRONG(p, "a hexadecimal digit is missing");
        *point = *point << 4 | (uint32_t)digit;
    }
    return GLYD_OK;
}

static glyd_status parse_braced_hex(parser *p, uint32_t *point)
{
    int n = 0;
    while (p->at + (size_t)n < p->bytes && p->text[p->at + (size_t)n] != '}')
        n++;
    if (n < 1 || n > 6)
        IS_WRONG(p, "\\u{...} needs one to six digits");
    GLYD_TRY(parse_hex(p, n, point));
    if (!take(p, "}"))
        IS_WRONG(p, "\\u{...} is not closed");
    return GLYD_OK;
}

/* The character of an escape whose letter is the current byte. */
static glyd_status parse_escaped(parser *p, uint32_t *point)
{
    static const char letters[] = "nrtfv", meant[] = "\n\r\t\f\v";
    int c = peek(p);
    const char *found = c > 0 ? strchr(letters, c) : NULL;
    if (c < 0)
        IS_WRONG(p, "it ends in a backslash");
    if (found) {
        p->at++;
        *point = (uint8_t)meant[found - letters];
    } else if (take(p, "x")) {
        GLYD_TRY(parse_hex(p, 2, point));
    } else if (take(p, "u{")) {
        GLYD_TRY(parse_braced_hex(p, point));
    } else if (take(p, "u")) {
        GLYD_TRY(parse_hex(p, 4, point));
    } else if (c == '0' &&
               !(p->at + 1 < p->bytes && p->text[p->at + 1] >= '0' && p->text[p->at + 1] <= '9')) {
        p->at++;
        *point = 0;
    } else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c >= 0x80) {
        REFUSE(p, c >= '1' && c <= '9'   ? "a backreference is not supported"
                  : c == 'b' || c == 'B' ? "\\b is not supported"
                  : c == 'p' || c == 'P' ? "\\p{...} is not supported"
                                         : "this escape is not supported");
    } else {
        *point = (uint32_t)c;
        p->at++;
    }
    if (*point > GLYD_CODE_POINT_MAX || (*point >= 0xD800 && *point <= 0xDFFF))
        REFUSE(p, "a surrogate or a number above U+10FFFF is no character");
    return GLYD_OK;
}

static glyd_status parse_point(parser *p, uint32_t *point)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t n =
        utf8proc_iterate(p->text + p->at, (utf8proc_ssize_t)(p->bytes - p->at), &c);
    if (n <= 0)
        IS_WRONG(p, "it is not valid UTF-8");
    p->at += (size_t)n;
    *point = (uint32_t)c;
    return GLYD_OK;
}

/* One item of [...]: a character, or a set that is added at once. */
static glyd_status parse_class_item(parser *p, glyd_buf *set, bool *is_set, uint32_t *point)
{
    *is_set = false;
    if (peek(p) == '[' && p->at + 1 < p->bytes &&
        (p->text[p->at + 1] == ':' || p->text[p->at + 1] == '=' || p->text[p->at + 1] == '.'))
        REFUSE(p, "[[:...:]] is not supported");
    if (!take(p, "\\"))
        return parse_point(p, point);
    GLYD_TRY(parse_set_escape(p, peek(p), set, is_set));
    if (*is_set) {
        p->at++;
        return GLYD_OK;
    }
    if (take(p, "b")) {
        *point = '\b';
        return GLYD_OK;
    }
    return parse_escaped(p, point);
}

static glyd_status parse_class_items(parser *p, glyd_buf *set)
{
    for (bool is_first = true; is_first || peek(p) != ']'; is_first = false) {
        bool is_set, ends_in_set;
        uint32_t first = 0, last = 0;
        if (p->at >= p->bytes)
            IS_WRONG(p, "a [ is not closed");
        /* ECMA-262 and Python differ on what [] and []a] mean. */
        if (is_first && peek(p) == ']')
            REFUSE(p, "a ] right after [ must be written \\]");
        GLYD_TRY(parse_class_item(p, set, &is_set, &first));
        bool is_range = peek(p) == '-' && p->at + 1 < p->bytes && p->text[p->at + 1] != ']';
        if (is_set && is_range)
            IS_WRONG(p, "a range cannot begin with a set");
        if (is_set)
            continue;
        last = first;
        if (is_range) {
            p->at++;
            GLYD_TRY(parse_class_item(p, set, &ends_in_set, &last));
            if (ends_in_set || last < first)
                IS_WRONG(p, "a range ends before it begins");
        }
        GLYD_TRY(add_ranges(p, set, &(glyd_range){first, last}, 1));
    }
    p->at++;
    return GLYD_OK;
}

static glyd_status make_class(parser *p, glyd_buf *set, bool is_inverse, glyd_node *node)
{
    glyd_range *ranges = (glyd_range *)(void *)set->data;
    size_t n = glyd_ranges_normalise(ranges, set->bytes / sizeof *ranges);
    bool is_json = p->use != GLYD_PATTERN_TEXT;
    if (!is_inverse) {
        *node = glyd_ir_class(p->ir, ranges, n, is_json);
        return GLYD_OK;
    }
    glyd_buf inverse = {0};
    glyd_status status = glyd_buf_reserve(&inverse, (n + 1) * sizeof *ranges);
    if (status == GLYD_OK) {
        glyd_range *out = (glyd_range *)(void *)inverse.data;
        *node = glyd_ir_class(p->ir, out, glyd_ranges_invert(ranges, n, out), is_json);
    }
    glyd_buf_free(&inverse);
    return status == GLYD_OK ? GLYD_OK : refuse(p, status, "out of memory");
}

static glyd_status parse_class(parser *p, glyd_node *node)
{
    glyd_buf set = {0};
    bool is_inverse = take(p, "^");
    glyd_status status = parse_class_items(p, &set);
    if (status == GLYD_OK)
        status = make_class(p, &set, is_inverse, node);
    glyd_buf_free(&set);
    return status;
}

static glyd_status point_node(parser *p, uint32_t point, glyd_node *node)
{
    glyd_range range = {point, point};
    *node = glyd_ir_class(p->ir, &range, 1, p->use != GLYD_PATTERN_TEXT);
    return GLYD_OK;
}

/* --- structure --- */

static glyd_status parse_group(parser *p, glyd_node *node)
{
    if (take(p, "?")) {
        bool is_named = take(p, "P<");
        if (peek(p) == '=' || peek(p) == '!')
            REFUSE(p, "lookahead is not supported");
        if (!is_named && (take(p, "<=") || take(p, "<!")))
            REFUSE(p, "lookbehind is not supported");
        if (is_named || take(p, "<")) {
            while (p->at < p->bytes && peek(p) != '>')
                p->at++;
            if (!take(p, ">"))
                IS_WRONG(p, "a group's name is not closed");
        } else if (!take(p, ":")) {
            REFUSE(p, "this kind of group is not supported");
        }
    }
    GLYD_TRY(parse_alternation(p, node));
    if (!take(p, ")"))
        IS_WRONG(p, "a ( is not closed");
    return GLYD_OK;
}

static glyd_status parse_escape(parser *p, glyd_node *node)
{
    glyd_buf set = {0};
    bool is_set;
    uint32_t point;
    glyd_status status = parse_set_escape(p, peek(p), &set, &is_set);
    if (status == GLYD_OK && is_set) {
        p->at++;
        status = make_class(p, &set, false, node);
    } else if (status == GLYD_OK) {
        status = parse_escaped(p, &point);
        if (status == GLYD_OK)
            status = point_node(p, point, node);
    }
    glyd_buf_free(&set);
    return status;
}

static bool parse_number(parser *p, int32_t *number)
{
    size_t start = p->at;
    for (*number = 0; peek(p) >= '0' && peek(p) <= '9'; p->at++)
        if (*number <= REPEAT_MAX)
            *number = *number * 10 + (peek(p) - '0');
    return p->at > start;
}

/* {m}, {m,} or {m,n}; anything else is a plain brace. */
static bool parse_counts(parser *p, int32_t *min, int32_t *max)
{
    size_t start = p->at;
    if (take(p, "{") && parse_number(p, min)) {
        *max = *min;
        if (take(p, ",") && !parse_number(p, max))
            *max = -1;
        if (take(p, "}"))
            return true;
    }
    p->at = start;
    return false;
}

static glyd_status parse_atom(parser *p, glyd_node *node)
{
    uint32_t point;
    int32_t min, max;
    switch (peek(p)) {
    case '(':
        p->at++;
        return parse_group(p, node);
    case '[':
        p->at++;
        return parse_class(p, node);
    case '\\':
        p->at++;
        return parse_escape(p, node);
    case '.': {
        glyd_range any[8];
        p->at++;
        *node = glyd_ir_class(p->ir, any, glyd_ranges_invert(line_ends, 3, any),
                              p->use != GLYD_PATTERN_TEXT);
        return GLYD_OK;
    }
    case '^':
    case '$':
        REFUSE(p, "^ and $ are supported only at the two ends");
    case '*':
    case '+':
    case '?':
        IS_WRONG(p, "there is nothing to repeat");
    case '{':
        if (parse_counts(p, &min, &max))
            IS_WRONG(p, "there is nothing to repeat");
        /* fall through */
    default:
        GLYD_TRY(parse_point(p, &point));
        return point_node(p, point, node);
    }
}

static glyd_status parse_quantifier(parser *p, glyd_node *node)
{
    int32_t min = 0, max = -1;
    if (take(p, "+"))
        min = 1;
    else if (take(p, "?"))
        max = 1;
    else if (!take(p, "*") && !parse_counts(p, &min, &max))
        return GLYD_OK;
    if (min > REPEAT_MAX || max > REPEAT_MAX)
        return refuse(p, GLYD_E_LIMIT, "it repeats more than 100000 times");
    if (max >= 0 && max < min)
        IS_WRONG(p, "a repetition's bounds are in the wrong order");
    if (take(p, "+"))
        REFUSE(p, "a possessive repetition is not supported");
    take(p, "?"); /* lazy: the same texts match */
    if (peek(p) == '*' || peek(p) == '+' || peek(p) == '?')
        IS_WRONG(p, "there is nothing to repeat");
    *node = glyd_ir_repeat(p->ir, *node, min, max);
    return GLYD_OK;
}

static glyd_status parse_pieces(parser *p, glyd_buf *kids, bool is_outer, bool *is_anchored)
{
    while (peek(p) >= 0 && peek(p) != '|' && (is_outer || peek(p) != ')')) {
        glyd_node piece = GLYD_NODE_NEVER;
        if (peek(p) == ')')
            IS_WRONG(p, "a ) has no (");
        if (is_outer && peek(p) == '$' && (p->at + 1 == p->bytes || p->text[p->at + 1] == '|')) {
            p->at++;
            *is_anchored = true;
            break;
        }
        GLYD_TRY(parse_atom(p, &piece));
        GLYD_TRY(parse_quantifier(p, &piece));
        if (glyd_buf_append(kids, &piece, sizeof piece) != GLYD_OK)
            return refuse(p, GLYD_E_NOMEM, "out of memory");
    }
    return GLYD_OK;
}

static glyd_status parse_branch(parser *p, glyd_node *node)
{
    bool is_outer = p->depth == 1;
    bool starts = is_outer && take(p, "^"), ends = false;
    glyd_buf kids = {0};
    glyd_status status = parse_pieces(p, &kids, is_outer, &ends);
    if (status == GLYD_OK)
        *node = glyd_ir_seq(p->ir, (const glyd_node *)(const void *)kids.data,
                            kids.bytes / sizeof *node);
    glyd_buf_free(&kids);
    if (status == GLYD_OK && is_outer && p->use == GLYD_PATTERN_JSON_SEARCH && !(starts && ends))
        *node = GLYD_IR_SEQ(p->ir, starts ? GLYD_NODE_EMPTY : glyd_ir_chars(p->ir, 0, -1), *node,
                            ends ? GLYD_NODE_EMPTY : glyd_ir_chars(p->ir, 0, -1));
    return status;
}

static glyd_status parse_alternation(parser *p, glyd_node *node)
{
    glyd_buf kids = {0};
    glyd_status status = GLYD_OK;
    if (p->depth >= GLYD_GRAMMAR_DEPTH_MAX)
        return refuse(p, GLYD_E_LIMIT, "groups are nested too deeply");
    p->depth++;
    do {
        glyd_node branch = GLYD_NODE_NEVER;
        status = parse_branch(p, &branch);
        if (status == GLYD_OK && glyd_buf_append(&kids, &branch, sizeof branch) != GLYD_OK)
            status = refuse(p, GLYD_E_NOMEM, "out of memory");
    } while (status == GLYD_OK && take(p, "|"));
    p->depth--;
    if (status == GLYD_OK)
        *node = glyd_ir_alt(p->ir, (const glyd_node *)(const void *)kids.data,
                            kids.bytes / sizeof *node);
    glyd_buf_free(&kids);
    return status;
}

glyd_status glyd_pattern_parse(glyd_ir *ir, glyd_span pattern, glyd_pattern_use use,
                               glyd_node *node, glyd_error *err)
{
    parser p = {.ir = ir, .text = pattern.data, .bytes = pattern.bytes, .use = use, .err = err};
    return parse_alternation(&p, node);
}
