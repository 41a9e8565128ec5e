/* chat.h - a conversation with a model: messages, template, ids, and answers as they are made.
 *
 * Owns the messages, the tokenizer and the template; borrows the engine. One answer at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CLI_CHAT_H
#define GLYD_CLI_CHAT_H

#include "glyd/engine.h"
#include "text/text.h"

typedef enum glyd_thinking {
    GLYD_THINKING_TEMPLATE, /* as the template does by itself */
    GLYD_THINKING_ON,
    GLYD_THINKING_OFF,
} glyd_thinking;

typedef struct glyd_chat glyd_chat;

/* Open a folder's tokenizer and chat template. A folder without a template is allowed: messages
 * are then plain text that the model continues (glyd_chat_has_template tells). */
GLYD_MUST_CHECK glyd_status glyd_chat_open(const char *folder, glyd_engine *engine, glyd_chat **out,
                                           glyd_error *err);
void glyd_chat_close(glyd_chat *c); /* NULL is allowed */

bool glyd_chat_has_template(const glyd_chat *c);
void glyd_chat_clear(glyd_chat *c); /* forget every message */
void glyd_chat_think(glyd_chat *c, glyd_thinking thinking);

/* Append a user's message and render the conversation to the ids of a prompt. */
GLYD_MUST_CHECK glyd_status glyd_chat_ask(glyd_chat *c, const char *text, size_t bytes,
                                          glyd_ids *ids, glyd_error *err);

/* Take back the last message, after an answer that never was. */
void glyd_chat_take_back(glyd_chat *c);

/* Submit a prompt; glyd_chat_wait must follow. `request` gives sampling and tokens_max. */
GLYD_MUST_CHECK glyd_status glyd_chat_start(glyd_chat *c, const glyd_ids *ids,
                                            const glyd_request *request, glyd_ticket **ticket,
                                            glyd_error *err);

/* Wait for the answer and keep it as the assistant's message; after a failure, or where it was
 * cancelled before its first word, the question is taken back. `write` gets the answer's text as it
 * is made, whole characters at a time, from this thread: it may block, as a terminal does that is
 * paused, and holds up nobody else's answer. When it returns false the answer is cancelled. The
 * caller frees the ticket. */
typedef bool (*glyd_write_fn)(void *arg, const char *text, size_t bytes);
GLYD_MUST_CHECK glyd_status glyd_chat_wait(glyd_chat *c, glyd_ticket *ticket, glyd_write_fn write,
                                           void *arg, glyd_result *result, glyd_error *err);

#endif
