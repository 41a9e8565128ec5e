/* responses_input.h - /v1/responses' input items as chat messages.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_RESPONSES_INPUT_H
#define GLYD_SERVER_RESPONSES_INPUT_H

#include "server/exchange.h"

/* Messages in OpenAI's chat form; the caller owns them. NULL: the exchange was answered. */
json_t *glyd_responses_messages(glyd_exchange *x);

/* The request's tools in chat form; *tools is NULL where there are none. False: answered. */
bool glyd_responses_tools(glyd_exchange *x, json_t **tools);

#endif
