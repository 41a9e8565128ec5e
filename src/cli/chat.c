/* chat.c - a conversation: it grows by a user's message and an answer in turn.
 *
 * The whole conversation is rendered and encoded anew for every question, since a template may
 * change earlier messages (drop old thinking, say); the engine finds what it has already read.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "cli/chat.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct glyd_chat {
    glyd_engine *engine;
    glyd_tokenizer *tokenizer;
    glyd_template *template; /* NULL: plain text */
    json_t *special_tokens;
    json_t *messages;
    glyd_thinking thinking;
    glyd_detok *detok; /* of the answer that is being made */
    glyd_buf answer, piece;
    glyd_status answer_status;
    glyd_write_fn write;
    void *write_arg;
    glyd_ticket **ticket;
};

static glyd_status open_template(glyd_chat *c, const char *folder, glyd_error *err)
{
    glyd_buf text = {0};
    glyd_error why;
    glyd_status status = glyd_template_find(folder, NULL, &text, &why);
    if (status == GLYD_OK)
        status = glyd_template_compile((glyd_span){text.data, text.bytes}, &c->template, &why);
    glyd_buf_free(&text);
    if (status == GLYD_OK || status == GLYD_E_NOTFOUND)
        return GLYD_OK;
    GLYD_FAIL(err, status, "%s: %s", folder, why.text);
}

static glyd_status open_text(glyd_chat *c, const char *folder, glyd_error *err)
{
    GLYD_TRY(glyd_tokenizer_open(folder, &c->tokenizer, err));
    GLYD_TRY(glyd_detok_create(c->tokenizer, GLYD_DECODE_SKIP_SPECIAL, &c->detok, err));
    GLYD_TRY(glyd_special_tokens_read(folder, &c->special_tokens, err));
    return open_template(c, folder, err);
}

glyd_status glyd_chat_open(const char *folder, glyd_engine *engine, glyd_chat **out,
                           glyd_error *err)
{
    glyd_chat *c = calloc(1, sizeof *c);
    if (!c)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    c->engine = engine;
    c->messages = json_array();
    glyd_status status = c->messages ? open_text(c, folder, err)
                                     : glyd_error_set(err, GLYD_E_NOMEM, "out of memory");
    if (status != GLYD_OK) {
        glyd_chat_close(c);
        return status;
    }
    *out = c;
    return GLYD_OK;
}

void glyd_chat_close(glyd_chat *c)
{
    if (!c)
        return;
    json_decref(c->messages);
    glyd_detok_free(c->detok);
    glyd_template_free(c->template);
    json_decref(c->special_tokens);
    glyd_tokenizer_close(c->tokenizer);
    glyd_buf_free(&c->answer);
    glyd_buf_free(&c->piece);
    free(c);
}

bool glyd_chat_has_template(const glyd_chat *c)
{
    return c->template != NULL;
}

void glyd_chat_clear(glyd_chat *c)
{
    json_array_clear(c->messages);
}

void glyd_chat_think(glyd_chat *c, glyd_thinking thinking)
{
    c->thinking = thinking;
}

static glyd_status add_message(glyd_chat *c, const char *role, const char *text, size_t bytes,
                               glyd_error *err)
{
    json_t *content = json_stringn(bytes ? text : "", bytes); /* an answer may have no text */
    if (!content)
        GLYD_FAIL(err, GLYD_E_ARG, "the message is not valid UTF-8");
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    if (!message || json_array_append_new(c->messages, message) != 0)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    return GLYD_OK;
}

static glyd_status render(glyd_chat *c, glyd_buf *out, glyd_error *err)
{
    if (!c->template) {
        size_t i;
        json_t *message;
        json_array_foreach(c->messages, i, message)
        {
            const json_t *content = json_object_get(message, "content");
            GLYD_TRY(glyd_buf_append(out, json_string_value(content), json_string_length(content)));
        }
        return GLYD_OK;
    }
    json_t *kwargs = NULL;
    if (c->thinking != GLYD_THINKING_TEMPLATE) {
        kwargs = json_pack("{s:b}", "enable_thinking", c->thinking == GLYD_THINKING_ON);
        if (!kwargs)
            GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    }
    time_t seconds = time(NULL);
    struct tm now;
    glyd_template_input input = {.messages = c->messages,
                                 .add_generation_prompt = true,
                                 .special_tokens = c->special_tokens,
                                 .extra = kwargs,
                                 .now = localtime_r(&seconds, &now)};
    glyd_status status = glyd_template_render(c->template, &input, NULL, out, err);
    json_decref(kwargs);
    return status;
}

glyd_status glyd_chat_ask(glyd_chat *c, const char *text, size_t bytes, glyd_ids *ids,
                          glyd_error *err)
{
    GLYD_TRY(add_message(c, "user", text, bytes, err));
    glyd_buf prompt = {0};
    glyd_status status = render(c, &prompt, err);
    /* A template writes the special tokens out itself; plain text gets the tokenizer's own. */
    unsigned flags = c->template ? GLYD_ENCODE_PARSE_SPECIAL : GLYD_ENCODE_ADD_SPECIAL;
    if (status == GLYD_OK)
        status = glyd_tokenizer_encode(c->tokenizer, (const char *)prompt.data, prompt.bytes, flags,
                                       ids, err);
    glyd_buf_free(&prompt);
    if (status != GLYD_OK)
        glyd_chat_take_back(c);
    return status;
}

void glyd_chat_take_back(glyd_chat *c)
{
    size_t n = json_array_size(c->messages);
    if (n > 0)
        json_array_remove(c->messages, n - 1);
}

/* Pass on the text that is certain since the last call. Engine's thread. */
static void pass_piece(glyd_chat *c)
{
    if (c->piece.bytes == 0)
        return;
    if (c->answer_status == GLYD_OK)
        c->answer_status = glyd_buf_append(&c->answer, c->piece.data, c->piece.bytes);
    if (!c->write(c->write_arg, (const char *)c->piece.data, c->piece.bytes))
        glyd_ticket_cancel(*c->ticket);
    c->piece.bytes = 0;
}

static void take_token(void *arg, const glyd_token *token)
{
    glyd_chat *c = arg;
    if (c->answer_status == GLYD_OK)
        c->answer_status = glyd_detok_push(c->detok, token->id, &c->piece, NULL);
    pass_piece(c);
}

static void take_end(void *arg, const glyd_result *result)
{
    (void)result;
    glyd_chat *c = arg;
    if (c->answer_status == GLYD_OK)
        c->answer_status = glyd_detok_finish(c->detok, &c->piece, NULL);
    pass_piece(c);
}

glyd_status glyd_chat_start(glyd_chat *c, const glyd_ids *ids, const glyd_request *request,
                            glyd_write_fn write, void *arg, glyd_ticket **ticket, glyd_error *err)
{
    c->answer.bytes = c->piece.bytes = 0;
    c->answer_status = GLYD_OK;
    c->write = write;
    c->write_arg = arg;
    c->ticket = ticket;
    glyd_request r = *request;
    r.ids = ids->data;
    r.n_ids = (int)ids->n;
    r.arg = c;
    r.on_token = take_token;
    r.on_finish = take_end;
    return glyd_engine_submit(c->engine, &r, ticket, err);
}

glyd_status glyd_chat_wait(glyd_chat *c, glyd_ticket *ticket, glyd_result *result, glyd_error *err)
{
    glyd_ticket_wait(ticket, result);
    bool failed = result->finish == GLYD_FINISH_ERROR || c->answer_status != GLYD_OK;
    bool unanswered = result->finish == GLYD_FINISH_CANCELLED && c->answer.bytes == 0;
    if (failed || unanswered)
        glyd_chat_take_back(c);
    if (result->finish == GLYD_FINISH_ERROR) {
        if (err)
            *err = result->error;
        return result->error.status;
    }
    if (c->answer_status != GLYD_OK)
        GLYD_FAIL(err, c->answer_status, "out of memory for the answer's text");
    if (unanswered)
        return GLYD_OK;
    return add_message(c, "assistant", (const char *)c->answer.data, c->answer.bytes, err);
}
