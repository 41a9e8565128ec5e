/* grammar.c - making a grammar of parts.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "constraint/grammar.h"
#include "base/buf.h"
#include "base/error.h"
#include "constraint/pattern.h"
#include "constraint/schema.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { WHITESPACE_MAX = 32, PART_BYTES_MAX = 1 << 20, REPEAT_MAX = 100000 };

typedef struct maker {
    glyd_ir *ir;
    glyd_json_nodes json;
    int depth;
    glyd_error *err;
} maker;

/* --- JSON --- */

static glyd_node make_number(glyd_ir *ir, glyd_node integer, glyd_node digits)
{
    glyd_node digit = glyd_ir_class(ir, &(glyd_range){'0', '9'}, 1, false);
    glyd_range e[] = {{'e', 'e'}, {'E', 'E'}};
    /* With at most 32 digits before the point, no exponent up to 199 leaves the range of a double.
     */
    glyd_node up = GLYD_IR_ALT(
        ir, glyd_ir_repeat(ir, digit, 1, 2),
        GLYD_IR_SEQ(ir, glyd_ir_class(ir, &(glyd_range){'0', '1'}, 1, false), digit, digit));
    glyd_node down = GLYD_IR_SEQ(ir, glyd_ir_text(ir, "-"), glyd_ir_repeat(ir, digit, 1, 3));
    glyd_node exponent = GLYD_IR_SEQ(
        ir, glyd_ir_class(ir, e, 2, false),
        GLYD_IR_ALT(ir, GLYD_IR_SEQ(ir, glyd_ir_repeat(ir, glyd_ir_text(ir, "+"), 0, 1), up),
                    down));
    return GLYD_IR_SEQ(ir, integer,
                       glyd_ir_repeat(ir, GLYD_IR_SEQ(ir, glyd_ir_text(ir, "."), digits), 0, 1),
                       glyd_ir_repeat(ir, exponent, 0, 1));
}

/* Elements with commas between, or none. */
static glyd_node make_list(glyd_ir *ir, glyd_node space, const char *open, glyd_node element,
                           const char *close)
{
    glyd_node more = GLYD_IR_SEQ(ir, space, glyd_ir_text(ir, ","), space, element);
    glyd_node some = GLYD_IR_SEQ(ir, element, glyd_ir_repeat(ir, more, 0, -1), space);
    return GLYD_IR_SEQ(ir, glyd_ir_text(ir, open), space, glyd_ir_repeat(ir, some, 0, 1),
                       glyd_ir_text(ir, close));
}

void glyd_json_nodes_make(glyd_ir *ir, int whitespace_max, glyd_json_nodes *nodes)
{
    glyd_range white[] = {{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}};
    glyd_node digit = glyd_ir_class(ir, &(glyd_range){'0', '9'}, 1, false);
    glyd_node first = glyd_ir_class(ir, &(glyd_range){'1', '9'}, 1, false);
    glyd_node quote = glyd_ir_text(ir, "\"");
    uint32_t value = glyd_ir_new_rule(ir), object = glyd_ir_new_rule(ir);
    nodes->space = glyd_ir_shared(
        ir, glyd_ir_repeat(ir, glyd_ir_class(ir, white, 3, false), 0, whitespace_max));
    nodes->digits = glyd_ir_shared(ir, glyd_ir_repeat(ir, digit, 1, GLYD_NUMBER_DIGITS_MAX));
    nodes->string = glyd_ir_shared(ir, GLYD_IR_SEQ(ir, quote, glyd_ir_chars(ir, 0, -1), quote));
    nodes->integer = glyd_ir_shared(
        ir, GLYD_IR_SEQ(ir, glyd_ir_repeat(ir, glyd_ir_text(ir, "-"), 0, 1),
                        GLYD_IR_ALT(ir, glyd_ir_text(ir, "0"),
                                    GLYD_IR_SEQ(ir, first,
                                                glyd_ir_repeat(ir, digit, 0,
                                                               GLYD_NUMBER_DIGITS_MAX - 1)))));
    nodes->number = glyd_ir_shared(ir, make_number(ir, nodes->integer, nodes->digits));
    nodes->boolean =
        glyd_ir_shared(ir, GLYD_IR_ALT(ir, glyd_ir_text(ir, "true"), glyd_ir_text(ir, "false")));
    nodes->null = glyd_ir_text(ir, "null");
    nodes->value = glyd_ir_rule(ir, value);
    nodes->object = glyd_ir_rule(ir, object);
    glyd_node pair = GLYD_IR_SEQ(ir, nodes->string, nodes->space, glyd_ir_text(ir, ":"),
                                 nodes->space, nodes->value);
    nodes->array = glyd_ir_shared(ir, make_list(ir, nodes->space, "[", nodes->value, "]"));
    glyd_ir_set_rule(ir, object, make_list(ir, nodes->space, "{", glyd_ir_shared(ir, pair), "}"));
    glyd_ir_set_rule(ir, value,
                     GLYD_IR_ALT(ir, nodes->object, nodes->array, nodes->string, nodes->number,
                                 nodes->boolean, nodes->null));
}

/* --- parts --- */

static glyd_status make_part(maker *m, const glyd_part *part, glyd_node *node);

static glyd_status check_text(const maker *m, glyd_span text)
{
    if (text.bytes == 0)
        GLYD_FAIL(m->err, GLYD_E_ARG, "a part of a grammar has no text");
    if (text.bytes > PART_BYTES_MAX)
        GLYD_FAIL(m->err, GLYD_E_LIMIT, "a part of a grammar is over 1 MiB");
    for (size_t i = 0; i < text.bytes;) {
        utf8proc_int32_t point;
        utf8proc_ssize_t n =
            utf8proc_iterate(text.data + i, (utf8proc_ssize_t)(text.bytes - i), &point);
        if (n <= 0)
            GLYD_FAIL(m->err, GLYD_E_FORMAT, "a part of a grammar is not valid UTF-8");
        i += (size_t)n;
    }
    return GLYD_OK;
}

/* Many literals share their starts. */
static glyd_status make_literals(maker *m, const glyd_part *parts, size_t n, glyd_node *node)
{
    glyd_span *texts = calloc(n, sizeof *texts);
    glyd_status status = GLYD_OK;
    if (!texts)
        GLYD_FAIL(m->err, GLYD_E_NOMEM, "out of memory");
    for (size_t i = 0; status == GLYD_OK && i < n; i++) {
        texts[i] = parts[i].text;
        status = check_text(m, parts[i].text);
    }
    if (status == GLYD_OK)
        *node = glyd_ir_choice(m->ir, texts, n);
    free(texts);
    return status;
}

static glyd_status make_several(maker *m, const glyd_part *part, glyd_node *node)
{
    bool are_literals = part->kind == GLYD_PART_CHOICE;
    if (part->n_parts == 0 || !part->parts)
        GLYD_FAIL(m->err, GLYD_E_ARG, "a part of a grammar has no parts");
    for (size_t i = 0; i < part->n_parts; i++)
        are_literals = are_literals && part->parts[i].kind == GLYD_PART_LITERAL &&
                       part->parts[i].min == 0 && part->parts[i].max == 0;
    if (are_literals)
        return make_literals(m, part->parts, part->n_parts, node);
    glyd_node *kids = calloc(part->n_parts, sizeof *kids);
    glyd_status status = GLYD_OK;
    if (!kids)
        GLYD_FAIL(m->err, GLYD_E_NOMEM, "out of memory");
    for (size_t i = 0; status == GLYD_OK && i < part->n_parts; i++)
        status = make_part(m, &part->parts[i], &kids[i]);
    if (status == GLYD_OK)
        *node = part->kind == GLYD_PART_CHOICE ? glyd_ir_alt(m->ir, kids, part->n_parts)
                                               : glyd_ir_seq(m->ir, kids, part->n_parts);
    free(kids);
    return status;
}

static glyd_status make_kind(maker *m, const glyd_part *part, glyd_node *node)
{
    switch (part->kind) {
    case GLYD_PART_LITERAL:
        GLYD_TRY(check_text(m, part->text));
        *node = glyd_ir_bytes(m->ir, part->text.data, part->text.bytes);
        return GLYD_OK;
    case GLYD_PART_REGEX:
        GLYD_TRY(check_text(m, part->text));
        return glyd_pattern_parse(m->ir, part->text, GLYD_PATTERN_TEXT, node, m->err);
    case GLYD_PART_UNTIL:
        GLYD_TRY(check_text(m, part->text));
        *node = glyd_ir_until(m->ir, part->text);
        return GLYD_OK;
    case GLYD_PART_TOKEN:
        if (part->id < 0 || part->id >= 1 << 24)
            GLYD_FAIL(m->err, GLYD_E_ARG, "%d is no token", (int)part->id);
        *node = glyd_ir_token(m->ir, part->id);
        return GLYD_OK;
    case GLYD_PART_SCHEMA:
        if (!part->schema)
            GLYD_FAIL(m->err, GLYD_E_ARG, "a part of a grammar has no schema");
        return glyd_schema_compile(m->ir, &m->json, part->schema, node, m->err);
    case GLYD_PART_OBJECT:
        *node = m->json.object;
        return GLYD_OK;
    case GLYD_PART_SEQUENCE:
    case GLYD_PART_CHOICE:
        return make_several(m, part, node);
    }
    GLYD_FAIL(m->err, GLYD_E_ARG, "%d is no kind of part", (int)part->kind);
}

static glyd_status make_part(maker *m, const glyd_part *part, glyd_node *node)
{
    int min = part->min, max = part->max;
    if (min == 0 && max == 0)
        min = max = 1;
    if (min < 0 || (max >= 0 && max < min) || min > REPEAT_MAX || max > REPEAT_MAX)
        GLYD_FAIL(m->err, GLYD_E_ARG, "a part of a grammar repeats %d to %d times", min, max);
    if (m->depth >= GLYD_GRAMMAR_DEPTH_MAX)
        GLYD_FAIL(m->err, GLYD_E_LIMIT, "the parts of a grammar are nested too deeply");
    m->depth++;
    glyd_status status = make_kind(m, part, node);
    m->depth--;
    if (status == GLYD_OK)
        *node = glyd_ir_repeat(m->ir, *node, min, max < 0 ? -1 : max);
    return status;
}

glyd_grammar_options glyd_grammar_options_default(void)
{
    return (glyd_grammar_options){.whitespace_max = WHITESPACE_MAX};
}

glyd_status glyd_grammar_create(const glyd_part *part, const glyd_grammar_options *options,
                                glyd_grammar **grammar, glyd_error *err)
{
    glyd_grammar_options used = options ? *options : glyd_grammar_options_default();
    glyd_ir ir;
    glyd_node root = GLYD_NODE_NEVER;
    if (used.whitespace_max < 0 || used.whitespace_max > 1000)
        GLYD_FAIL(err, GLYD_E_ARG, "whitespace_max is %d; it must be between 0 and 1000",
                  used.whitespace_max);
    glyd_grammar *g = calloc(1, sizeof *g);
    if (!g)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    glyd_ir_init(&ir);
    maker m = {.ir = &ir, .err = err};
    glyd_json_nodes_make(&ir, used.whitespace_max, &m.json);
    glyd_status status = make_part(&m, part, &root);
    if (status == GLYD_OK)
        status = glyd_ir_lower(&ir, root, g, err);
    glyd_ir_free(&ir);
    if (status == GLYD_OK)
        *grammar = g;
    else
        glyd_grammar_free(g);
    return status;
}

void glyd_grammar_free(glyd_grammar *grammar)
{
    if (!grammar)
        return;
    glyd_buf_free(&grammar->states);
    glyd_buf_free(&grammar->edges);
    glyd_buf_free(&grammar->loops);
    free(grammar);
}

glyd_status glyd_grammar_from_schema(const json_t *schema, const glyd_grammar_options *options,
                                     glyd_grammar **grammar, glyd_error *err)
{
    return glyd_grammar_create(&(glyd_part){.kind = GLYD_PART_SCHEMA, .schema = schema}, options,
                               grammar, err);
}

glyd_status glyd_grammar_from_object(const glyd_grammar_options *options, glyd_grammar **grammar,
                                     glyd_error *err)
{
    return glyd_grammar_create(&(glyd_part){.kind = GLYD_PART_OBJECT}, options, grammar, err);
}

glyd_status glyd_grammar_from_regex(const char *pattern, size_t bytes, glyd_grammar **grammar,
                                    glyd_error *err)
{
    glyd_part part = {.kind = GLYD_PART_REGEX, .text = {(const uint8_t *)pattern, bytes}};
    return glyd_grammar_create(&part, NULL, grammar, err);
}

glyd_status glyd_grammar_from_choice(const glyd_span *texts, size_t n, glyd_grammar **grammar,
                                     glyd_error *err)
{
    glyd_part *parts = calloc(n + 1, sizeof *parts);
    if (!parts)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        parts[i] = (glyd_part){.kind = GLYD_PART_LITERAL, .text = texts[i]};
    glyd_part part = {.kind = GLYD_PART_CHOICE, .parts = parts, .n_parts = n};
    glyd_status status = glyd_grammar_create(&part, NULL, grammar, err);
    free(parts);
    return status;
}
