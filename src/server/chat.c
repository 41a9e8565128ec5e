/* chat.c - POST /v1/chat/completions: an answer to a conversation.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "server/errors.h"
#include "server/reply.h"
#include "server/request.h"
#include "server/routes.h"
#include "server/tokens.h"
#include "server/turn.h"
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

/* Of a choice. Of a stream `content`, `reasoning` and `arguments` hold what is not yet sent. */
typedef struct choice {
    glyd_buf content, reasoning, arguments;
    json_t *calls; /* whole ones */
    char call_id[GLYD_CALL_ID_BYTES];
    json_t *call_name;
    int call_index;
    json_t *logprobs; /* array; NULL: not asked for */
    glyd_ids ids;
    bool has_begun; /* the role was sent */
    bool has_failed;
} choice;

static void free_choice(void *state)
{
    choice *c = state;
    glyd_buf_free(&c->content);
    glyd_buf_free(&c->reasoning);
    glyd_buf_free(&c->arguments);
    json_decref(c->calls);
    json_decref(c->call_name);
    json_decref(c->logprobs);
    glyd_ids_free(&c->ids);
    free(c);
}

/* --- log-probabilities --- */

static json_t *logprob_entry(const glyd_server *server, int32_t id, double logprob)
{
    return json_pack("{s:o, s:o, s:o}", "token", glyd_token_text_json(server, id), "logprob",
                     glyd_logprob_json(logprob), "bytes", glyd_token_bytes_json(server, id));
}

static void add_logprob(glyd_sequence *s, const glyd_token *token)
{
    choice *c = s->state;
    const glyd_server *server = s->generation->x->server;
    json_t *entry = logprob_entry(server, token->id, token->logprob), *top = json_array();
    bool is_made = entry && top;
    for (int i = 0; is_made && i < token->n_top; i++)
        is_made =
            glyd_array_add(top, logprob_entry(server, token->top[i].id, token->top[i].logprob));
    is_made = is_made && json_object_set(entry, "top_logprobs", top) == 0;
    json_decref(top);
    c->has_failed = !glyd_array_add(c->logprobs, entry) || !is_made || c->has_failed;
}

static json_t *logprobs_json(const choice *c)
{
    return c->logprobs ? json_pack("{s:O}", "content", c->logprobs) : json_null();
}

/* --- a stream's chunks --- */

/* Send a delta, with what belongs to the tokens since the last one. Takes `delta`. */
static void send_chunk(glyd_sequence *s, json_t *delta, bool is_last)
{
    glyd_generation *g = s->generation;
    choice *c = s->state;
    json_t *object =
        json_pack("{s:i, s:o, s:o, s:s?}", "index", s->index, "delta", delta, "logprobs",
                  logprobs_json(c), "finish_reason", is_last ? glyd_turn_finish(s) : NULL);
    if (object && is_last)
        json_object_set_new(object, "stop_reason", glyd_stop_reason_json(s));
    if (object && g->params.return_token_ids)
        json_object_set_new(object, "token_ids", glyd_ids_json(&c->ids));
    json_t *chunk = glyd_reply_head(g, "chatcmpl-", "chat.completion.chunk");
    if (chunk)
        json_object_set_new(chunk, "choices", json_pack("[o]", object));
    else
        json_decref(object);
    if (chunk && g->params.usage_in_each) {
        glyd_usage usage = glyd_generation_usage(g);
        json_object_set_new(chunk, "usage", glyd_usage_json(&usage, false));
    }
    glyd_stream_event(g->x, NULL, chunk);
    c->ids.n = 0;
    if (c->logprobs)
        json_array_clear(c->logprobs);
}

static void send_role(glyd_sequence *s)
{
    choice *c = s->state;
    if (c->has_begun)
        return;
    c->has_begun = true;
    json_t *logprobs = c->logprobs; /* they come with the first content */
    glyd_ids ids = c->ids;
    c->logprobs = NULL;
    c->ids = (glyd_ids){0};
    send_chunk(s, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), false);
    glyd_ids_free(&c->ids);
    c->logprobs = logprobs;
    c->ids = ids;
}

static json_t *call_delta(int index, json_t *function, const char *id)
{
    return json_pack("{s:[{s:i, s:s*, s:s*, s:o}]}", "tool_calls", "index", index, "id", id, "type",
                     id ? "function" : NULL, "function", function);
}

/* Send the text that has gathered. */
static void send_text(glyd_sequence *s)
{
    choice *c = s->state;
    if (c->reasoning.bytes > 0) {
        send_role(s);
        send_chunk(s, json_pack("{s:o}", "reasoning", glyd_text_json(&c->reasoning)), false);
        c->reasoning.bytes = 0;
    }
    if (c->content.bytes > 0) {
        send_role(s);
        send_chunk(s, json_pack("{s:o}", "content", glyd_text_json(&c->content)), false);
        c->content.bytes = 0;
    }
    if (c->arguments.bytes > 0) {
        json_t *function = json_pack("{s:o}", "arguments", glyd_text_json(&c->arguments));
        send_chunk(s, call_delta(c->call_index, function, NULL), false);
        c->arguments.bytes = 0;
    }
}

/* --- what the answer brings --- */

static void take_token(glyd_sequence *s, const glyd_token *token, glyd_span text)
{
    (void)text; /* comes as events */
    choice *c = s->state;
    if (token->id < 0)
        return;
    if (c->logprobs)
        add_logprob(s, token);
    if (s->generation->params.return_token_ids)
        c->has_failed = glyd_ids_add(&c->ids, token->id) != GLYD_OK || c->has_failed;
}

static void begin_call(glyd_sequence *s, const glyd_answer_event *event)
{
    choice *c = s->state;
    json_decref(c->call_name);
    c->call_name = json_stringn((const char *)event->text.data, event->text.bytes);
    c->call_index = event->index;
    c->has_failed = c->has_failed || !c->call_name;
    glyd_turn_call_id(s->generation->x->server, c->call_id);
    if (!s->generation->params.stream)
        return;
    send_role(s);
    send_chunk(s,
               call_delta(c->call_index,
                          json_pack("{s:O, s:s}", "name", c->call_name, "arguments", ""),
                          c->call_id),
               false);
}

static void end_call(glyd_sequence *s)
{
    choice *c = s->state;
    if (s->generation->params.stream)
        return;
    json_t *call =
        json_pack("{s:s, s:s, s:{s:O, s:o}}", "id", c->call_id, "type", "function", "function",
                  "name", c->call_name, "arguments", glyd_text_json(&c->arguments));
    if (!c->calls)
        c->calls = json_array();
    c->has_failed = !glyd_array_add(c->calls, call) || c->has_failed;
    c->arguments.bytes = 0;
}

static void take_event(glyd_sequence *s, const glyd_answer_event *event)
{
    choice *c = s->state;
    bool is_stream = s->generation->params.stream;
    if (event->kind == GLYD_ANSWER_REASONING && s->generation->params.hides_reasoning)
        return;
    glyd_buf *to = event->kind == GLYD_ANSWER_CONTENT          ? &c->content
                   : event->kind == GLYD_ANSWER_REASONING      ? &c->reasoning
                   : event->kind == GLYD_ANSWER_CALL_ARGUMENTS ? &c->arguments
                                                               : NULL;
    bool has_other =
        c->content.bytes + c->reasoning.bytes + c->arguments.bytes > (to ? to->bytes : 0);
    if (is_stream && has_other)
        send_text(s); /* in the order of the answer */
    if (to)
        c->has_failed =
            glyd_buf_append(to, event->text.data, event->text.bytes) != GLYD_OK || c->has_failed;
    else if (event->kind == GLYD_ANSWER_CALL_BEGIN)
        begin_call(s, event);
    else
        end_call(s);
}

static void flush(glyd_sequence *s)
{
    choice *c = s->state;
    if (c->has_failed) {
        glyd_error error = {.status = GLYD_E_NOMEM, .text = "out of memory for an answer"};
        glyd_generation_fail(s->generation, &error);
    } else if (s->generation->params.stream) {
        send_text(s);
    }
}

static void end(glyd_sequence *s)
{
    if (!s->generation->params.stream)
        return;
    send_role(s);
    send_chunk(s, json_object(), true);
}

static json_t *message_json(const choice *c)
{
    bool has_content = c->content.bytes > 0 || !c->calls;
    json_t *message = json_pack(
        "{s:s, s:o, s:n, s:[], s:o}", "role", "assistant", "content",
        has_content ? glyd_text_json(&c->content) : json_null(), "refusal", "annotations",
        "reasoning", c->reasoning.bytes > 0 ? glyd_text_json(&c->reasoning) : json_null());
    if (message && c->calls)
        json_object_set(message, "tool_calls", c->calls);
    return message;
}

static json_t *choice_json(const glyd_sequence *s)
{
    const choice *c = s->state;
    json_t *object = json_pack("{s:i, s:o, s:o, s:s, s:o}", "index", s->index, "message",
                               message_json(c), "logprobs", logprobs_json(c), "finish_reason",
                               glyd_turn_finish(s), "stop_reason", glyd_stop_reason_json(s));
    if (object && s->generation->params.return_token_ids)
        json_object_set_new(object, "token_ids", glyd_ids_json(&c->ids));
    return object;
}

static void done(glyd_generation *g)
{
    if (g->params.stream) {
        glyd_reply_end_chunks(g, "chatcmpl-", "chat.completion.chunk");
        return;
    }
    json_t *reply = glyd_reply_choices(g, "chatcmpl-", "chat.completion", choice_json);
    if (reply && g->params.return_token_ids &&
        json_object_set_new(reply, "prompt_token_ids", glyd_ids_json(g->prompts)) != 0) {
        json_decref(reply);
        reply = NULL;
    }
    glyd_exchange_reply_json(g->x, MHD_HTTP_OK, reply);
}

static const glyd_writer writer = {.token = take_token,
                                   .event = take_event,
                                   .flush = flush,
                                   .end = end,
                                   .done = done,
                                   .fail = glyd_reply_fail_stream,
                                   .free_sequence = free_choice};

/* --- the request --- */

static bool read_logprobs(glyd_exchange *x, glyd_params *p)
{
    bool wants = false;
    int64_t n_top = 0;
    if (!glyd_request_bool(x, x->request, "logprobs", &wants) ||
        !glyd_request_int(x, x->request, "top_logprobs", 0, GLYD_REQUEST_LOGPROBS_MAX, &n_top))
        return false;
    if (n_top > 0 && !wants) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "top_logprobs",
                           "top_logprobs needs logprobs to be true.");
        return false;
    }
    p->n_logprobs = wants ? (int)n_top : -1;
    p->n_prompt_logprobs = -1;
    return true;
}

/* Whether reasoning is shown; it is made, and counted, in either case. */
static bool read_reasoning(glyd_exchange *x, glyd_turn *t)
{
    bool is_shown = true;
    if (!glyd_request_bool(x, x->request, "include_reasoning", &is_shown))
        return false;
    t->params.hides_reasoning = !is_shown || t->prompt.without_reasoning;
    return true;
}

static bool append_text(glyd_buf *text, const json_t *s)
{
    return glyd_buf_append(text, json_string_value(s), json_string_length(s)) == GLYD_OK;
}

/* vLLM's echo: where the last message has the answer's role, the answer begins with its text. */
static bool read_echo(glyd_exchange *x, const glyd_turn *t, glyd_buf *text)
{
    bool echoes = false, is_read = true;
    const json_t *messages = t->prompt.messages, *part;
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const json_t *content = json_object_get(last, "content");
    const char *role = json_string_value(json_object_get(last, "role"));
    size_t i;
    if (!glyd_request_bool(x, x->request, "echo", &echoes))
        return false;
    if (!echoes || (t->prompt.add_generation_prompt && strcmp(role, "assistant") != 0))
        return true;
    if (json_is_string(content))
        is_read = append_text(text, content);
    json_array_foreach((json_t *)content, i, part)
    {
        is_read = is_read && (i == 0 || glyd_buf_append(text, "\n", 1) == GLYD_OK) &&
                  append_text(text, json_object_get(part, "text"));
    }
    if (!is_read)
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    return is_read;
}

static bool read_turn(glyd_exchange *x, glyd_turn *t)
{
    int64_t tokens_max = GLYD_TOKENS_UNSET;
    const json_t *r = x->request;
    if (!glyd_request_check_model(x) || !glyd_prompt_options_read(x, &t->prompt) ||
        !glyd_params_read(x, &t->params) || !read_logprobs(x, &t->params) ||
        !read_reasoning(x, t) || !glyd_turn_read_tools(x, t) ||
        !glyd_request_int(x, r, "max_tokens", 1, INT32_MAX, &tokens_max) ||
        !glyd_request_int(x, r, "max_completion_tokens", 1, INT32_MAX, &tokens_max))
        return false;
    t->params.tokens_max = (int)tokens_max;
    t->response_format = glyd_request_member(r, "response_format");
    t->structured_outputs = glyd_request_member(r, "structured_outputs");
    return true;
}

static bool prepare_choice(glyd_sequence *s, const glyd_buf *echo)
{
    choice *c = s->state = calloc(1, sizeof *c);
    if (!c || glyd_buf_append(&c->content, echo->data, echo->bytes) != GLYD_OK)
        return false;
    return s->generation->params.n_logprobs < 0 || (c->logprobs = json_array()) != NULL;
}

void glyd_serve_chat(glyd_exchange *x)
{
    glyd_turn turn;
    glyd_buf echo = {0};
    glyd_turn_default(x->server, &turn);
    glyd_generation *g = NULL;
    if (read_turn(x, &turn) && read_echo(x, &turn, &echo))
        g = glyd_turn_prepare(x, &turn, &writer);
    bool is_made = g != NULL;
    for (int i = 0; is_made && i < g->n_sequences; i++)
        is_made = prepare_choice(&g->sequences[i], &echo);
    glyd_buf_free(&echo);
    if (is_made) {
        glyd_generation_start(g);
    } else if (g) {
        glyd_generation_free(g);
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    }
}
