/* analyse.c - which nodes match some text, and which the empty one.
 *
 * Both grow from nothing until no pass changes them. Nodes mostly come after what they use, so that
 * one pass does nearly all; only recursion needs more.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "constraint/lower.h"

enum { PASSES_MAX = 1000 };

static void judge(const glyd_ir *ir, const glyd_ir_node *node, bool *productive, bool *nullable)
{
    const glyd_node *kids = glyd_ir_kids(ir, node);
    *productive = node->kind != GLYD_IR_NEVER;
    *nullable = node->kind == GLYD_IR_EMPTY;
    switch (node->kind) {
    case GLYD_IR_CHARS:
        *nullable = node->min == 0;
        break;
    case GLYD_IR_SEQ:
        *nullable = true;
        for (uint32_t i = 0; i < node->n; i++) {
            *productive = *productive && glyd_ir_at(ir, kids[i])->is_productive;
            *nullable = *nullable && glyd_ir_at(ir, kids[i])->is_nullable;
        }
        break;
    case GLYD_IR_ALT:
        *productive = false;
        for (uint32_t i = 0; i < node->n; i++) {
            *productive = *productive || glyd_ir_at(ir, kids[i])->is_productive;
            *nullable = *nullable || glyd_ir_at(ir, kids[i])->is_nullable;
        }
        break;
    case GLYD_IR_REPEAT:
        *nullable = node->min == 0 || glyd_ir_at(ir, node->at)->is_nullable;
        *productive = node->min == 0 || glyd_ir_at(ir, node->at)->is_productive;
        break;
    case GLYD_IR_RULE: {
        const glyd_ir_node *body = glyd_ir_at(ir, glyd_ir_body(ir, node->at));
        *productive = body->is_productive;
        *nullable = body->is_nullable;
        break;
    }
    default:
        break;
    }
}

glyd_status glyd_ir_analyse(glyd_ir *ir, glyd_error *err)
{
    glyd_node n = (glyd_node)(ir->nodes.bytes / sizeof(glyd_ir_node));
    bool changed = true;
    for (int pass = 0; changed; pass++) {
        if (pass == PASSES_MAX)
            GLYD_FAIL(err, GLYD_E_LIMIT, "the grammar's rules depend on each other too deeply");
        changed = false;
        for (glyd_node i = 0; i < n; i++) {
            glyd_ir_node *node = glyd_ir_at(ir, i);
            bool productive, nullable;
            judge(ir, node, &productive, &nullable);
            changed = changed || productive != node->is_productive || nullable != node->is_nullable;
            node->is_productive = productive;
            node->is_nullable = nullable;
        }
    }
    return GLYD_OK;
}
