/* lower.c - from nodes to the automaton, from the end of the text to its start.
 *
 * Each node is told the state that follows it and gives the state where it starts. A call whose
 * next state is a RETURN becomes a jump, so that lists written as right recursion use no stack.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "constraint/lower.h"
#include "base/buf.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 4096, /* of nodes within nodes */
    COPIES_MAX = 64,  /* states that a repetition may be written out into; else it is a loop */
    UNTIL_MAX = 256,  /* bytes of a text that ends an UNTIL */
    NONE = -1,
};

typedef struct lowering {
    glyd_ir *ir;
    glyd_grammar *grammar;
    int64_t *rule_states; /* NONE: not lowered yet */
    int depth;
    glyd_error *err;
} lowering;

static glyd_status lower(lowering *l, glyd_node node, uint32_t next, uint32_t *start);

glyd_status glyd_grammar_add_state(glyd_grammar *grammar, glyd_state_kind kind,
                                   const glyd_edge *edges, size_t n, uint32_t *state)
{
    glyd_state s = {kind, (uint32_t)(grammar->edges.bytes / sizeof *edges), (uint32_t)n};
    size_t n_states = grammar->states.bytes / sizeof s;
    if (n_states >= GLYD_GRAMMAR_STATES_MAX || s.at + n >= (size_t)4 * GLYD_GRAMMAR_STATES_MAX)
        return GLYD_E_LIMIT;
    if (n)
        GLYD_TRY(glyd_buf_append(&grammar->edges, edges, n * sizeof *edges));
    GLYD_TRY(glyd_buf_append(&grammar->states, &s, sizeof s));
    *state = (uint32_t)n_states;
    return GLYD_OK;
}

static glyd_state *state_at(const lowering *l, uint32_t state)
{
    return (glyd_state *)(void *)l->grammar->states.data + state;
}

static glyd_status add_split(lowering *l, const glyd_edge *edges, size_t n, uint32_t *state)
{
    return glyd_grammar_add_state(l->grammar, GLYD_STATE_SPLIT, edges, n, state);
}

static glyd_status add_plain(lowering *l, glyd_state_kind kind, uint32_t at, uint32_t n,
                             uint32_t *state)
{
    GLYD_TRY(glyd_grammar_add_state(l->grammar, kind, NULL, 0, state));
    state_at(l, *state)->at = at;
    state_at(l, *state)->n = n;
    return GLYD_OK;
}

static glyd_status lower_bytes(lowering *l, const uint8_t *bytes, uint32_t n, uint32_t next,
                               uint32_t *start)
{
    *start = next;
    for (uint32_t i = n; i-- > 0;) {
        glyd_edge edge = {*start, bytes[i], bytes[i]};
        GLYD_TRY(glyd_grammar_add_state(l->grammar, GLYD_STATE_BYTES, &edge, 1, start));
    }
    return GLYD_OK;
}

/* --- characters of JSON strings --- */

static const struct {
    uint8_t point, letter;
} escapes[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
               {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};

static bool has_point(const glyd_range *ranges, size_t n, uint32_t point)
{
    for (size_t i = 0; i < n && ranges[i].first <= point; i++)
        if (point <= ranges[i].last)
            return true;
    return false;
}

static bool has_letter(uint32_t point)
{
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        if (escapes[i].point == point)
            return true;
    return false;
}

/* The edge of '\' for those characters of the ranges that need an escape, each in its one form. */
static glyd_status add_escapes(lowering *l, const glyd_range *ranges, size_t n, uint32_t next,
                               glyd_buf *edges)
{
    static const char hex[] = "0123456789abcdef";
    glyd_edge list[8], digits[2][22];
    uint32_t n_list = 0, n_digits[2] = {0};
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        if (has_point(ranges, n, escapes[i].point))
            list[n_list++] = (glyd_edge){next, escapes[i].letter, escapes[i].letter};
    for (uint32_t point = 0; point < 0x20; point++) {
        if (!has_point(ranges, n, point) || has_letter(point))
            continue;
        glyd_edge *to = digits[point >> 4] + n_digits[point >> 4];
        uint8_t digit = (uint8_t)hex[point & 15];
        to[0] = (glyd_edge){next, digit, digit};
        to[1] = (glyd_edge){next, (uint8_t)(digit - 32), (uint8_t)(digit - 32)};
        n_digits[point >> 4] += digit >= 'a' ? 2 : 1;
    }
    if (n_digits[0] + n_digits[1] > 0) {
        glyd_edge high[2];
        uint32_t n_high = 0, state;
        for (uint32_t i = 0; i < 2; i++) {
            if (n_digits[i] == 0)
                continue;
            GLYD_TRY(glyd_grammar_add_state(l->grammar, GLYD_STATE_BYTES, digits[i], n_digits[i],
                                            &state));
            high[n_high++] = (glyd_edge){state, (uint8_t)('0' + i), (uint8_t)('0' + i)};
        }
        GLYD_TRY(glyd_grammar_add_state(l->grammar, GLYD_STATE_BYTES, high, n_high, &state));
        GLYD_TRY(lower_bytes(l, (const uint8_t *)"u00", 3, state, &state));
        list[n_list++] = ((glyd_edge *)(void *)l->grammar->edges.data)[state_at(l, state)->at];
    }
    if (n_list == 0)
        return GLYD_OK;
    glyd_edge slash = {0, '\\', '\\'};
    GLYD_TRY(glyd_grammar_add_state(l->grammar, GLYD_STATE_BYTES, list, n_list, &slash.target));
    return glyd_buf_append(edges, &slash, sizeof slash);
}

static glyd_status class_edges(lowering *l, const glyd_range *ranges, size_t n, bool is_json,
                               uint32_t next, glyd_buf *edges)
{
    if (!is_json)
        return glyd_utf8_edges(l->grammar, ranges, n, next, edges);
    /* Without control characters, '"' and '\'. */
    static const glyd_range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, GLYD_CODE_POINT_MAX}};
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < 3; j++) {
            glyd_range both = {ranges[i].first > plain[j].first ? ranges[i].first : plain[j].first,
                               ranges[i].last < plain[j].last ? ranges[i].last : plain[j].last};
            if (both.first <= both.last)
                GLYD_TRY(glyd_utf8_edges(l->grammar, &both, 1, next, edges));
        }
    }
    return add_escapes(l, ranges, n, next, edges);
}

static glyd_status lower_class(lowering *l, const glyd_range *ranges, size_t n, bool is_json,
                               uint32_t next, uint32_t *start)
{
    glyd_buf edges = {0};
    glyd_status status = class_edges(l, ranges, n, is_json, next, &edges);
    if (status == GLYD_OK)
        status = glyd_grammar_add_state(l->grammar, GLYD_STATE_BYTES,
                                        (const glyd_edge *)(const void *)edges.data,
                                        edges.bytes / sizeof(glyd_edge), start);
    glyd_buf_free(&edges);
    return status;
}

static glyd_status hex_state(lowering *l, const char *digits, uint32_t next, uint32_t *state)
{
    glyd_edge edges[24];
    size_t n = 0;
    for (const char *d = digits; *d; d++) {
        edges[n++] = (glyd_edge){next, (uint8_t)*d, (uint8_t)*d};
        if (*d >= 'a')
            edges[n++] = (glyd_edge){next, (uint8_t)(*d - 32), (uint8_t)(*d - 32)};
    }
    return glyd_grammar_add_state(l->grammar, GLYD_STATE_BYTES, edges, n, state);
}

static glyd_edge *first_edge(const lowering *l, uint32_t state)
{
    return (glyd_edge *)(void *)l->grammar->edges.data + state_at(l, state)->at;
}

/* One character of a JSON string in any spelling. A \u of a high surrogate must go on with one of
 * a low surrogate. */
static glyd_status lower_any_char(lowering *l, uint32_t *start)
{
    static const char all[] = "0123456789abcdef";
    static const glyd_range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, GLYD_CODE_POINT_MAX}};
    uint32_t ret, h1, h2, h3, low, d, tail;
    GLYD_TRY(add_plain(l, GLYD_STATE_RETURN, 0, 0, &ret));
    GLYD_TRY(hex_state(l, all, ret, &h1));
    GLYD_TRY(hex_state(l, all, h1, &h2));
    GLYD_TRY(hex_state(l, all, h2, &h3));
    GLYD_TRY(hex_state(l, "cdef", h2, &tail)); /* the low half: \uDC00 to \uDFFF */
    GLYD_TRY(hex_state(l, "d", tail, &tail));
    GLYD_TRY(lower_bytes(l, (const uint8_t *)"\\u", 2, tail, &low));
    GLYD_TRY(hex_state(l, all, low, &tail));
    GLYD_TRY(hex_state(l, all, tail, &tail));
    GLYD_TRY(hex_state(l, "89ab", tail, &d)); /* the high half: \uD800 to \uDBFF */
    uint32_t d_plain;
    GLYD_TRY(hex_state(l, "01234567", h2, &d_plain));
    glyd_edge second[2] = {{d, 0, 0}, {d_plain, 0, 0}};
    uint32_t d_any;
    GLYD_TRY(add_split(l, second, 2, &d_any));
    glyd_edge first[] = {{h3, '0', '9'}, {h3, 'a', 'c'},    {h3, 'e', 'f'},   {h3, 'A', 'C'},
                         {h3, 'E', 'F'}, {d_any, 'd', 'd'}, {d_any, 'D', 'D'}};
    uint32_t unicode, escape;
    GLYD_TRY(glyd_grammar_add_state(l->grammar, GLYD_STATE_BYTES, first,
                                    sizeof first / sizeof *first, &unicode));
    glyd_edge letters[9] = {{unicode, 'u', 'u'}, {ret, '/', '/'}};
    for (size_t i = 0; i < 7; i++)
        letters[2 + i] = (glyd_edge){ret, escapes[i].letter, escapes[i].letter};
    GLYD_TRY(glyd_grammar_add_state(l->grammar, GLYD_STATE_BYTES, letters, 9, &escape));
    glyd_buf edges = {0};
    glyd_edge slash = {escape, '\\', '\\'};
    glyd_status status = glyd_utf8_edges(l->grammar, plain, 3, ret, &edges);
    if (status == GLYD_OK)
        status = glyd_buf_append(&edges, &slash, sizeof slash);
    if (status == GLYD_OK)
        status = glyd_grammar_add_state(l->grammar, GLYD_STATE_BYTES,
                                        (const glyd_edge *)(const void *)edges.data,
                                        edges.bytes / sizeof(glyd_edge), start);
    glyd_buf_free(&edges);
    return status;
}

/* --- the rest --- */

static glyd_status add_loop(lowering *l, uint32_t body, int32_t min, int32_t max, uint32_t next,
                            uint32_t *start)
{
    glyd_loop loop = {body, next, min, max};
    uint32_t at = (uint32_t)(l->grammar->loops.bytes / sizeof loop);
    GLYD_TRY(glyd_buf_append(&l->grammar->loops, &loop, sizeof loop));
    return add_plain(l, GLYD_STATE_LOOP, at, 0, start);
}

/* How many states a node makes, roughly, no more than asked for. */
static int size_of(const lowering *l, glyd_node node, int most)
{
    const glyd_ir_node *n = glyd_ir_at(l->ir, node);
    int size = 1;
    if (n->kind == GLYD_IR_BYTES)
        return (int)n->n < most ? (int)n->n : most;
    if (n->kind == GLYD_IR_CLASS)
        return n->is_json ? 4 : 1;
    if (n->kind == GLYD_IR_REPEAT)
        return most;
    for (uint32_t i = 0; (n->kind == GLYD_IR_SEQ || n->kind == GLYD_IR_ALT) && i < n->n; i++) {
        size += size_of(l, glyd_ir_kids(l->ir, n)[i], most);
        if (size >= most)
            return most;
    }
    return size;
}

static glyd_status lower_star(lowering *l, glyd_node kid, uint32_t next, uint32_t *start)
{
    glyd_edge edges[2] = {{next, 0, 0}, {next, 0, 0}};
    uint32_t body;
    GLYD_TRY(add_split(l, edges, 2, start));
    GLYD_TRY(lower(l, kid, *start, &body));
    first_edge(l, *start)->target = body;
    return GLYD_OK;
}

static glyd_status lower_repeat(lowering *l, glyd_ir_node node, uint32_t next, uint32_t *start)
{
    glyd_node kid = node.at;
    const glyd_ir_node *k = glyd_ir_at(l->ir, kid);
    *start = next;
    if (!k->is_productive)
        return GLYD_OK; /* not once, then */
    int32_t min = k->is_nullable ? 0 : node.min, max = node.max;
    if (max < 0 && min == 0)
        return lower_star(l, kid, next, start);
    int32_t copies = max < 0 ? min : max;
    int size = size_of(l, kid, COPIES_MAX + 1);
    bool is_short = (int64_t)copies * size <= COPIES_MAX;
    if (!is_short && k->is_nullable) {
        if (copies > COPIES_MAX)
            return glyd_error_set(l->err, GLYD_E_LIMIT,
                                  "something that may be empty is repeated up to %d times", copies);
        is_short = true;
    }
    if (!is_short && copies > 1) {
        uint32_t ret, body;
        GLYD_TRY(add_plain(l, GLYD_STATE_RETURN, 0, 0, &ret));
        GLYD_TRY(lower(l, kid, ret, &body));
        return add_loop(l, body, min, max, next, start);
    }
    if (max < 0)
        GLYD_TRY(lower_star(l, kid, next, start));
    for (int32_t i = min; i < max; i++) {
        uint32_t body;
        GLYD_TRY(lower(l, kid, *start, &body));
        glyd_edge edges[2] = {{body, 0, 0}, {next, 0, 0}};
        GLYD_TRY(add_split(l, edges, 2, start));
    }
    for (int32_t i = 0; i < min; i++)
        GLYD_TRY(lower(l, kid, *start, start));
    return GLYD_OK;
}

static glyd_status lower_alt(lowering *l, glyd_ir_node node, uint32_t next, uint32_t *start)
{
    glyd_buf edges = {0};
    glyd_status status = GLYD_OK;
    for (uint32_t i = 0; status == GLYD_OK && i < node.n; i++) {
        glyd_node kid = glyd_ir_kids(l->ir, &node)[i];
        glyd_edge edge = {0, 0, 0};
        if (!glyd_ir_at(l->ir, kid)->is_productive)
            continue;
        status = lower(l, kid, next, &edge.target);
        if (status == GLYD_OK)
            status = glyd_buf_append(&edges, &edge, sizeof edge);
    }
    if (status == GLYD_OK)
        status = add_split(l, (const glyd_edge *)(const void *)edges.data,
                           edges.bytes / sizeof(glyd_edge), start);
    glyd_buf_free(&edges);
    return status;
}

static glyd_status lower_rule(lowering *l, uint32_t rule, uint32_t next, uint32_t *start)
{
    if (l->rule_states[rule] == NONE) {
        /* Its start first, as a jump that is filled in below: the body may call it. */
        glyd_edge jump = {0, 0, 0};
        uint32_t ret, body, entry;
        GLYD_TRY(add_split(l, &jump, 1, &entry));
        l->rule_states[rule] = entry;
        GLYD_TRY(add_plain(l, GLYD_STATE_RETURN, 0, 0, &ret));
        GLYD_TRY(lower(l, glyd_ir_body(l->ir, rule), ret, &body));
        first_edge(l, entry)->target = body;
    }
    uint32_t entry = (uint32_t)l->rule_states[rule];
    if (state_at(l, next)->kind == GLYD_STATE_RETURN) {
        *start = entry;
        return GLYD_OK;
    }
    return add_plain(l, GLYD_STATE_CALL, entry, next, start);
}

/* The automaton that looks for a text (Knuth, Morris and Pratt), a state a byte of it. */
static glyd_status lower_until(lowering *l, const uint8_t *text, uint32_t n, uint32_t next,
                               uint32_t *start)
{
    enum { LAST_BYTE = 0xF7 }; /* no text has a byte above */
    uint32_t first = (uint32_t)(l->grammar->states.bytes / sizeof(glyd_state));
    uint32_t back = 0; /* the state after the text without its first byte */
    if (n > UNTIL_MAX)
        return glyd_error_set(l->err, GLYD_E_LIMIT, "a text that ends a part is over %d bytes",
                              UNTIL_MAX);
    uint32_t(*table)[256] = malloc((size_t)n * sizeof *table);
    if (!table)
        return GLYD_E_NOMEM;
    glyd_status status = GLYD_OK;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t b = 0; b < 256; b++)
            table[i][b] = i == 0 ? 0 : table[back][b];
        table[i][text[i]] = i + 1;
        if (i > 0)
            back = table[back][text[i]];
    }
    for (uint32_t i = 0; status == GLYD_OK && i < n; i++) {
        glyd_edge edges[256];
        size_t n_edges = 0;
        uint32_t state;
        for (uint32_t b = 0; b <= LAST_BYTE; b++) {
            uint32_t target = table[i][b] == n ? next : first + table[i][b];
            if (n_edges > 0 && edges[n_edges - 1].target == target)
                edges[n_edges - 1].last = (uint8_t)b;
            else
                edges[n_edges++] = (glyd_edge){target, (uint8_t)b, (uint8_t)b};
        }
        status = glyd_grammar_add_state(l->grammar, GLYD_STATE_BYTES, edges, n_edges, &state);
    }
    free(table);
    *start = first;
    return status;
}

static glyd_status lower_kind(lowering *l, glyd_node index, uint32_t next, uint32_t *start)
{
    const glyd_ir_node node = *glyd_ir_at(l->ir, index);
    const uint8_t *bytes = l->ir->bytes.data + node.at;
    *start = next;
    switch (node.kind) {
    case GLYD_IR_BYTES:
        return lower_bytes(l, bytes, node.n, next, start);
    case GLYD_IR_CLASS:
        return lower_class(l, (const glyd_range *)(const void *)l->ir->ranges.data + node.at,
                           node.n, node.is_json, next, start);
    case GLYD_IR_CHARS:
        return add_loop(l, l->grammar->char_start, node.min, node.max, next, start);
    case GLYD_IR_UNTIL:
        return lower_until(l, bytes, node.n, next, start);
    case GLYD_IR_SEQ:
        for (uint32_t i = node.n; i-- > 0;)
            GLYD_TRY(lower(l, glyd_ir_kids(l->ir, &node)[i], *start, start));
        return GLYD_OK;
    case GLYD_IR_ALT:
        return lower_alt(l, node, next, start);
    case GLYD_IR_REPEAT:
        return lower_repeat(l, node, next, start);
    case GLYD_IR_RULE:
        return lower_rule(l, node.at, next, start);
    default:
        return GLYD_OK;
    }
}

static glyd_status lower(lowering *l, glyd_node node, uint32_t next, uint32_t *start)
{
    if (l->depth >= DEPTH_MAX)
        return glyd_error_set(l->err, GLYD_E_LIMIT, "the grammar is nested too deeply");
    l->depth++;
    glyd_status status = lower_kind(l, node, next, start);
    l->depth--;
    return status;
}

/* Bytes that no edge tells apart get one number. */
static void set_classes(glyd_grammar *grammar)
{
    bool starts[257] = {true};
    const glyd_edge *edges = (const glyd_edge *)(const void *)grammar->edges.data;
    const glyd_state *states = (const glyd_state *)(const void *)grammar->states.data;
    for (size_t i = 0; i < grammar->states.bytes / sizeof *states; i++) {
        for (uint32_t j = 0; states[i].kind == GLYD_STATE_BYTES && j < states[i].n; j++) {
            starts[edges[states[i].at + j].first] = true;
            starts[edges[states[i].at + j].last + 1] = true;
        }
    }
    int class = -1;
    for (int b = 0; b < 256; b++) {
        class += starts[b];
        grammar->class_of[b] = (uint8_t) class;
    }
    grammar->n_classes = class + 1;
}

glyd_status glyd_ir_lower(glyd_ir *ir, glyd_node root, glyd_grammar *grammar, glyd_error *err)
{
    if (ir->status != GLYD_OK)
        GLYD_FAIL(err, ir->status, "%s",
                  ir->status == GLYD_E_LIMIT ? "the grammar is too large" : "out of memory");
    GLYD_TRY(glyd_ir_analyse(ir, err));
    if (!glyd_ir_at(ir, root)->is_productive)
        GLYD_FAIL(err, GLYD_E_FORMAT, "no finite text can match");
    size_t n_rules = ir->rules.bytes / sizeof(glyd_node);
    glyd_error first = {0};
    lowering l = {ir, grammar, malloc((n_rules + 1) * sizeof(int64_t)), 0, &first};
    uint32_t end;
    if (!l.rule_states)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    for (size_t i = 0; i < n_rules; i++)
        l.rule_states[i] = NONE;
    glyd_status status = lower_any_char(&l, &grammar->char_start);
    if (status == GLYD_OK)
        status = add_plain(&l, GLYD_STATE_RETURN, 0, 0, &end);
    if (status == GLYD_OK)
        status = lower(&l, root, end, &grammar->start);
    free(l.rule_states);
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "%s",
                  first.text[0]            ? first.text
                  : status == GLYD_E_LIMIT ? "the grammar has too many states"
                                           : "out of memory");
    set_classes(grammar);
    return GLYD_OK;
}
