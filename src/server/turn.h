/* turn.h - an assistant's turn in a conversation: what chat, responses and messages have in common.
 *
 * Each endpoint brings its request into OpenAI's chat form (messages, tools, tool choice, format),
 * and writes the events of the answer in its own.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_TURN_H
#define GLYD_SERVER_TURN_H

#include "server/generation.h"
#include "server/prompt.h"

typedef struct glyd_turn {
    glyd_prompt_options prompt;
    glyd_params params;
    const json_t *tools; /* [{"type": "function", "function": {...}}] or NULL */
    glyd_tool_choice choice;
    const char *tool_name;            /* the one that must be called; NULL: any */
    bool is_single;                   /* one call at most */
    const json_t *response_format;    /* {"type": "text", "json_object", "json_schema"} or NULL */
    const json_t *structured_outputs; /* vLLM's: {"json", "regex", "choice"} or NULL */
} glyd_turn;

/* No tools, any text. */
void glyd_turn_default(const glyd_server *server, glyd_turn *turn);

/* Read tools, tool_choice and parallel_tool_calls from the request, in OpenAI's chat form. */
bool glyd_turn_read_tools(glyd_exchange *x, glyd_turn *turn);

/* Check that tools are functions with names, and that the model can call them. */
bool glyd_turn_check_tools(glyd_exchange *x, const json_t *tools);

/* Render the prompt, check that it fits and make the sequences, with parsers and constraints.
 * NULL: the exchange was answered. The writer's states are still to be set. */
glyd_generation *glyd_turn_prepare(glyd_exchange *x, glyd_turn *turn, const glyd_writer *writer);

/* What the answer must look like, as a grammar; *grammar is NULL where anything will do. `inside`:
 * the prompt leaves the model in its reasoning, which is then free. False: answered, with the name
 * of what cannot be held. */
bool glyd_turn_grammar(glyd_exchange *x, const glyd_turn *turn, bool inside,
                       glyd_grammar **grammar);

/* "tool_calls" where the model stopped after calls, else the sequence's own. */
const char *glyd_turn_finish(const glyd_sequence *s);

/* A fresh id for a call, in the model's form. */
void glyd_turn_call_id(const glyd_server *server, char id[GLYD_CALL_ID_BYTES]);

#endif
