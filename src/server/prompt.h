/* prompt.h - messages and texts to the token ids of a prompt.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_PROMPT_H
#define GLYD_SERVER_PROMPT_H

#include "server/state.h"

enum { GLYD_MESSAGES_MAX = 4096 };

typedef struct glyd_prompt_options {
    const json_t *messages;    /* array of messages, as clients send them */
    const json_t *tools;       /* array or NULL */
    const json_t *extra;       /* chat_template_kwargs, object or NULL */
    const char *chat_template; /* the request's own, or NULL */
    bool add_generation_prompt;
    bool continue_final_message; /* the last message is the answer's beginning */
    bool add_special_tokens;
    bool without_reasoning; /* the effort is "none": none is to be shown */
} glyd_prompt_options;

/* Check the form of messages: what is wrong is answered with a 400. */
bool glyd_messages_check(glyd_exchange *x, const json_t *messages);

/* Read chat_template_kwargs and an effort of reasoning (NULL: none is given; `param` names it in
 * errors) into the options: it is the template's to heed, and "none" turns thinking off where the
 * template can. False: answered. */
bool glyd_prompt_variables_read(glyd_exchange *x, const json_t *effort, const char *param,
                                glyd_prompt_options *options);

/* Read messages, chat_template_kwargs, reasoning_effort, chat_template, add_generation_prompt,
 * continue_final_message and add_special_tokens from the request. False: answered. */
bool glyd_prompt_options_read(glyd_exchange *x, glyd_prompt_options *options);

/* Render and encode. `text` (may be NULL) gets the rendered text. False: answered. */
bool glyd_prompt_render(glyd_exchange *x, const glyd_prompt_options *options, glyd_ids *ids,
                        glyd_buf *text);

#endif
