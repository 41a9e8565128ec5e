/* messages_input.h - Anthropic's messages, system text and tools in OpenAI's chat form.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_MESSAGES_INPUT_H
#define GLYD_SERVER_MESSAGES_INPUT_H

#include "server/exchange.h"
#include "text/answer.h"

/* Owned, but for tool_name, which lives in the request. */
typedef struct glyd_messages_input {
    json_t *messages, *tools;
    json_t *kwargs; /* for the template: whether to think; NULL: as it does by itself */
    glyd_tool_choice choice;
    const char *tool_name;
    bool is_single;
} glyd_messages_input;

/* Fill in a zeroed input. False: the exchange was answered; drop the input all the same. */
bool glyd_messages_input_read(glyd_exchange *x, glyd_messages_input *input);
void glyd_messages_input_drop(glyd_messages_input *input);

#endif
