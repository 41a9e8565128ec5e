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
#include <pthread.h>
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
    /* Of the answer that is being made: the engine's thread alone, until the answer is whole. */
    glyd_detok *detok;
    glyd_buf piece;
    glyd_status answer_status;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t has_more;
    glyd_buf answer;
    bool is_whole;
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
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->has_more, NULL);
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
    pthread_cond_destroy(&c->has_more);
    pthread_mutex_destroy(&c->lock);
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

/* Hand on the text that is certain since the last call. Engine's thread, as the next two. */
static void pass_piece(glyd_chat *c, bool is_last)
{
    pthread_mutex_lock(&c->lock);
    if (c->answer_status == GLYD_OK && c->piece.bytes > 0)
        c->answer_status = glyd_buf_append(&c->answer, c->piece.data, c->piece.bytes);
    c->is_whole = is_last;
    pthread_cond_signal(&c->has_more);
    pthread_mutex_unlock(&c->lock);
    c->piece.bytes = 0;
}

static void take_token(void *arg, const glyd_token *token)
{
    glyd_chat *c = arg;
    if (c->answer_status == GLYD_OK)
        c->answer_status = glyd_detok_push(c->detok, token->id, &c->piece, NULL);
    pass_piece(c, false);
}

static void take_end(void *arg, const glyd_result *result)
{
    (void)result;
    glyd_chat *c = arg;
    if (c->answer_status == GLYD_OK)
        c->answer_status = glyd_detok_finish(c->detok, &c->piece, NULL);
    pass_piece(c, true);
}

glyd_status glyd_chat_start(glyd_chat *c, const glyd_ids *ids, const glyd_request *request,
                            glyd_ticket **ticket, glyd_error *err)
{
    c->answer.bytes = c->piece.bytes = 0;
    c->answer_status = GLYD_OK;
    c->is_whole = false;
    glyd_request r = *request;
    r.ids = ids->data;
    r.n_ids = (int)ids->n;
    r.arg = c;
    r.on_token = take_token;
    r.on_finish = take_end;
    return glyd_engine_submit(c->engine, &r, ticket, err);
}

/* Write the answer as it grows, without holding the lock, until it is whole. */
static glyd_status write_answer(glyd_chat *c, glyd_ticket *ticket, glyd_write_fn write, void *arg)
{
    glyd_buf text = {0};
    size_t n_written = 0;
    bool is_whole = false, is_read = true;
    glyd_status status = GLYD_OK;
    while (!is_whole) {
        text.bytes = 0;
        pthread_mutex_lock(&c->lock);
        while (c->answer.bytes == n_written && !c->is_whole)
            pthread_cond_wait(&c->has_more, &c->lock);
        is_whole = c->is_whole;
        size_t n = c->answer.bytes - n_written;
        if (status == GLYD_OK && n > 0)
            status = glyd_buf_append(&text, c->answer.data + n_written, n);
        n_written = c->answer.bytes;
        pthread_mutex_unlock(&c->lock);
        if (is_read && text.bytes > 0)
            is_read = write(arg, (const char *)text.data, text.bytes);
        if (!is_read || status != GLYD_OK)
            glyd_ticket_cancel(ticket);
    }
    glyd_buf_free(&text);
    return status;
}

glyd_status glyd_chat_wait(glyd_chat *c, glyd_ticket *ticket, glyd_write_fn write, void *arg,
                           glyd_result *result, glyd_error *err)
{
    glyd_status status = write_answer(c, ticket, write, arg);
    glyd_ticket_wait(ticket, result);
    if (status == GLYD_OK)
        status = c->answer_status;
    bool failed = result->finish == GLYD_FINISH_ERROR || status != GLYD_OK;
    bool unanswered = result->finish == GLYD_FINISH_CANCELLED && c->answer.bytes == 0;
    if (failed || unanswered)
        glyd_chat_take_back(c);
    if (result->finish == GLYD_FINISH_ERROR) {
        if (err)
            *err = result->error;
        return result->error.status;
    }
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "out of memory for the answer's text");
    if (unanswered)
        return GLYD_OK;
    return add_message(c, "assistant", (const char *)c->answer.data, c->answer.bytes, err);
}
