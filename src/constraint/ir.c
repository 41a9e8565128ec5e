/* ir.c - building nodes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "constraint/ir.h"
#include "base/buf.h"
#include <stdlib.h>
#include <string.h>

static uint32_t count_of(const glyd_buf *buf, size_t item)
{
    return (uint32_t)(buf->bytes / item);
}

static bool append(glyd_ir *ir, glyd_buf *buf, const void *data, size_t bytes)
{
    if (ir->status == GLYD_OK && bytes > 0) {
        ir->status =
            buf->bytes + bytes > (size_t)1 << 28 ? GLYD_E_LIMIT : glyd_buf_append(buf, data, bytes);
    }
    return ir->status == GLYD_OK;
}

static glyd_node add(glyd_ir *ir, glyd_ir_node node)
{
    uint32_t n = count_of(&ir->nodes, sizeof node);
    if (n >= GLYD_IR_NODES_MAX && ir->status == GLYD_OK)
        ir->status = GLYD_E_LIMIT;
    return append(ir, &ir->nodes, &node, sizeof node) ? n : GLYD_NODE_NEVER;
}

void glyd_ir_init(glyd_ir *ir)
{
    *ir = (glyd_ir){0};
    add(ir, (glyd_ir_node){.kind = GLYD_IR_NEVER});
    add(ir, (glyd_ir_node){.kind = GLYD_IR_EMPTY});
}

void glyd_ir_free(glyd_ir *ir)
{
    glyd_buf_free(&ir->nodes);
    glyd_buf_free(&ir->kids);
    glyd_buf_free(&ir->bytes);
    glyd_buf_free(&ir->ranges);
    glyd_buf_free(&ir->rules);
}

glyd_node glyd_ir_bytes(glyd_ir *ir, const void *bytes, size_t n)
{
    glyd_ir_node node = {.kind = GLYD_IR_BYTES, .at = count_of(&ir->bytes, 1), .n = (uint32_t)n};
    if (n == 0)
        return GLYD_NODE_EMPTY;
    return append(ir, &ir->bytes, bytes, n) ? add(ir, node) : GLYD_NODE_NEVER;
}

glyd_node glyd_ir_text(glyd_ir *ir, const char *text)
{
    return glyd_ir_bytes(ir, text, strlen(text));
}

glyd_node glyd_ir_until(glyd_ir *ir, glyd_span text)
{
    glyd_node node = glyd_ir_bytes(ir, text.data, text.bytes);
    if (node > GLYD_NODE_EMPTY)
        glyd_ir_at(ir, node)->kind = GLYD_IR_UNTIL;
    return node;
}

glyd_node glyd_ir_token(glyd_ir *ir, int32_t id)
{
    uint8_t bytes[4] = {GLYD_TOKEN_BYTE, (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    return glyd_ir_bytes(ir, bytes, sizeof bytes);
}

static int by_first(const void *a, const void *b)
{
    const glyd_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

size_t glyd_ranges_normalise(glyd_range *ranges, size_t n)
{
    size_t kept = 0;
    if (n > 0)
        qsort(ranges, n, sizeof *ranges, by_first);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && ranges[i].first <= ranges[kept - 1].last + 1) {
            if (ranges[i].last > ranges[kept - 1].last)
                ranges[kept - 1].last = ranges[i].last;
        } else {
            ranges[kept++] = ranges[i];
        }
    }
    return kept;
}

size_t glyd_ranges_invert(const glyd_range *ranges, size_t n, glyd_range *out)
{
    size_t made = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].first > next)
            out[made++] = (glyd_range){next, ranges[i].first - 1};
        next = ranges[i].last + 1;
    }
    if (next <= GLYD_CODE_POINT_MAX)
        out[made++] = (glyd_range){next, GLYD_CODE_POINT_MAX};
    return made;
}

glyd_node glyd_ir_class(glyd_ir *ir, const glyd_range *ranges, size_t n, bool is_json)
{
    uint32_t at = count_of(&ir->ranges, sizeof *ranges);
    if (n == 0 || !append(ir, &ir->ranges, ranges, n * sizeof *ranges))
        return GLYD_NODE_NEVER;
    n = glyd_ranges_normalise((glyd_range *)(void *)ir->ranges.data + at, n);
    ir->ranges.bytes = (at + n) * sizeof *ranges;
    return add(
        ir, (glyd_ir_node){.kind = GLYD_IR_CLASS, .is_json = is_json, .at = at, .n = (uint32_t)n});
}

glyd_node glyd_ir_chars(glyd_ir *ir, int32_t min, int32_t max)
{
    if (max == 0)
        return GLYD_NODE_EMPTY;
    return add(ir, (glyd_ir_node){.kind = GLYD_IR_CHARS, .min = min, .max = max});
}

static glyd_node add_kids(glyd_ir *ir, glyd_node_kind kind, const glyd_node *kids, size_t n)
{
    uint32_t at = count_of(&ir->kids, sizeof *kids);
    if (!append(ir, &ir->kids, kids, n * sizeof *kids))
        return GLYD_NODE_NEVER;
    return add(ir, (glyd_ir_node){.kind = (uint8_t)kind, .at = at, .n = (uint32_t)n});
}

glyd_node glyd_ir_seq(glyd_ir *ir, const glyd_node *kids, size_t n)
{
    return n == 0 ? GLYD_NODE_EMPTY : n == 1 ? kids[0] : add_kids(ir, GLYD_IR_SEQ, kids, n);
}

glyd_node glyd_ir_alt(glyd_ir *ir, const glyd_node *kids, size_t n)
{
    return n == 0 ? GLYD_NODE_NEVER : n == 1 ? kids[0] : add_kids(ir, GLYD_IR_ALT, kids, n);
}

glyd_node glyd_ir_repeat(glyd_ir *ir, glyd_node kid, int32_t min, int32_t max)
{
    if (max == 0)
        return GLYD_NODE_EMPTY;
    if (min == 1 && max == 1)
        return kid;
    return add(ir, (glyd_ir_node){.kind = GLYD_IR_REPEAT, .at = kid, .min = min, .max = max});
}

static int by_bytes(const void *a, const void *b)
{
    const glyd_span *x = a, *y = b;
    size_t n = x->bytes < y->bytes ? x->bytes : y->bytes;
    int order = n ? memcmp(x->data, y->data, n) : 0;
    return order ? order : x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Sorted, different texts that agree on their first `depth` bytes. */
static glyd_node choice_from(glyd_ir *ir, const glyd_span *texts, size_t n, size_t depth, int level)
{
    enum { LEVELS_MAX = 1000 };
    if (level > LEVELS_MAX && ir->status == GLYD_OK)
        ir->status = GLYD_E_LIMIT;
    if (ir->status != GLYD_OK)
        return GLYD_NODE_NEVER;
    /* Sorted: what the first and the last share, all share. */
    size_t same = depth;
    while (same < texts[0].bytes && same < texts[n - 1].bytes &&
           texts[0].data[same] == texts[n - 1].data[same])
        same++;
    glyd_node start = glyd_ir_bytes(ir, texts[0].data + depth, same - depth);
    if (n == 1)
        return start;
    glyd_buf kids = {0};
    for (size_t i = 0, end; i < n; i = end) {
        glyd_node kid = GLYD_NODE_EMPTY;
        end = i + 1;
        if (texts[i].bytes > same) {
            while (end < n && texts[end].data[same] == texts[i].data[same])
                end++;
            kid = choice_from(ir, texts + i, end - i, same, level + 1);
        }
        append(ir, &kids, &kid, sizeof kid);
    }
    glyd_node rest =
        glyd_ir_alt(ir, (const glyd_node *)(const void *)kids.data, kids.bytes / sizeof(glyd_node));
    glyd_buf_free(&kids);
    return GLYD_IR_SEQ(ir, start, rest);
}

glyd_node glyd_ir_choice(glyd_ir *ir, glyd_span *texts, size_t n)
{
    size_t kept = 0;
    if (n == 0)
        return GLYD_NODE_NEVER;
    qsort(texts, n, sizeof *texts, by_bytes);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_bytes(&texts[kept - 1], &texts[i]) != 0)
            texts[kept++] = texts[i];
    return choice_from(ir, texts, kept, 0, 0);
}

uint32_t glyd_ir_new_rule(glyd_ir *ir)
{
    glyd_node body = GLYD_NODE_NEVER;
    uint32_t rule = count_of(&ir->rules, sizeof body);
    return append(ir, &ir->rules, &body, sizeof body) ? rule : 0;
}

void glyd_ir_set_rule(glyd_ir *ir, uint32_t rule, glyd_node body)
{
    if (ir->status == GLYD_OK)
        ((glyd_node *)(void *)ir->rules.data)[rule] = body;
}

glyd_node glyd_ir_rule(glyd_ir *ir, uint32_t rule)
{
    return add(ir, (glyd_ir_node){.kind = GLYD_IR_RULE, .at = rule});
}

glyd_node glyd_ir_shared(glyd_ir *ir, glyd_node body)
{
    uint32_t rule = glyd_ir_new_rule(ir);
    glyd_ir_set_rule(ir, rule, body);
    return glyd_ir_rule(ir, rule);
}
