/* messages.c - POST /v1/messages and /v1/messages/count_tokens: Anthropic's form of a turn.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "server/blocks.h"
#include "server/errors.h"
#include "server/messages_input.h"
#include "server/reply.h"
#include "server/request.h"
#include "server/routes.h"
#include "server/turn.h"
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

typedef struct message {
    glyd_blocks blocks;
    bool has_begun;
} message;

static void free_message(void *state)
{
    message *m = state;
    glyd_blocks_drop(&m->blocks);
    free(m);
}

static void free_input(void *state)
{
    glyd_messages_input_drop(state);
    free(state);
}

static void send_event(glyd_sequence *s, const char *type, json_t *event)
{
    if (event)
        json_object_set_new(event, "type", json_string(type));
    glyd_stream_event(s->generation->x, type, event);
}

/* --- content blocks --- */

/* A call's arguments as an object; one that the model broke off has no members. */
static json_t *input_json(const glyd_buf *text)
{
    json_t *input =
        json_loadb(text->bytes ? (const char *)text->data : "", text->bytes, JSON_ALLOW_NUL, NULL);
    if (input && json_is_object(input))
        return input;
    json_decref(input);
    return json_object();
}

static json_t *block_json(const glyd_blocks *b, bool is_done)
{
    json_t *text = is_done ? glyd_text_json(&b->text) : json_string("");
    if (b->kind == GLYD_BLOCK_TEXT)
        return json_pack("{s:s, s:o, s:n}", "type", "text", "text", text, "citations");
    if (b->kind == GLYD_BLOCK_REASONING)
        return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", text, "signature", "");
    json_decref(text);
    return json_pack("{s:s, s:s, s:O, s:o, s:{s:s}}", "type", "tool_use", "id", b->call_id, "name",
                     b->name, "input", is_done ? input_json(&b->text) : json_object(), "caller",
                     "type", "direct");
}

static void open_block(glyd_blocks *b)
{
    send_event(b->sequence, "content_block_start",
               json_pack("{s:i, s:o}", "index", b->index, "content_block", block_json(b, false)));
}

static void send_delta(glyd_blocks *b, const glyd_buf *text)
{
    static const char *const types[] = {"text_delta", "thinking_delta", "input_json_delta"};
    static const char *const names[] = {"text", "thinking", "partial_json"};
    send_event(b->sequence, "content_block_delta",
               json_pack("{s:i, s:{s:s, s:o}}", "index", b->index, "delta", "type", types[b->kind],
                         names[b->kind], glyd_text_json(text)));
}

static json_t *close_block(glyd_blocks *b)
{
    if (b->sequence->generation->params.stream)
        send_event(b->sequence, "content_block_stop", json_pack("{s:i}", "index", b->index));
    return block_json(b, true);
}

static const glyd_block_writer block_writer = {open_block, send_delta, close_block};

/* --- the message --- */

/* Anthropic counts what was read from the cache apart. What it charges for writing to one is 0:
 * every prompt is kept. */
static json_t *usage_json(const glyd_generation *g, bool is_delta)
{
    glyd_usage u = glyd_generation_usage(g);
    json_t *usage = json_pack("{s:I, s:I, s:I, s:i, s:{s:I}, s:n}", "input_tokens",
                              (json_int_t)(u.prompt - u.cached), "output_tokens",
                              (json_int_t)u.answer, "cache_read_input_tokens", (json_int_t)u.cached,
                              "cache_creation_input_tokens", 0, "output_tokens_details",
                              "thinking_tokens", (json_int_t)u.reasoning, "server_tool_use");
    static const char *const whole[] = {"cache_creation", "inference_geo", "service_tier"};
    for (size_t i = 0; usage && !is_delta && i < sizeof whole / sizeof *whole; i++)
        json_object_set_new(usage, whole[i], json_null());
    return usage;
}

static const char *stop_reason(const glyd_sequence *s)
{
    const char *finish = s->finish ? glyd_turn_finish(s) : "abort";
    return strcmp(finish, "length") == 0       ? "max_tokens"
           : strcmp(finish, "tool_calls") == 0 ? "tool_use"
           : s->which_stop >= 0                ? "stop_sequence"
                                               : "end_turn";
}

static json_t *stop_sequence_json(const glyd_sequence *s)
{
    return s->which_stop >= 0 ? glyd_stop_reason_json(s) : json_null();
}

static json_t *message_json(const glyd_sequence *s, bool is_done)
{
    const message *m = s->state;
    const glyd_generation *g = s->generation;
    return json_pack("{s:s+, s:s, s:s, s:s, s:O, s:s?, s:o, s:n, s:n, s:o}", "id", "msg_", g->x->id,
                     "type", "message", "role", "assistant", "model", g->x->server->info.name,
                     "content", m->blocks.done, "stop_reason", is_done ? stop_reason(s) : NULL,
                     "stop_sequence", is_done ? stop_sequence_json(s) : json_null(), "stop_details",
                     "container", "usage", usage_json(g, false));
}

static void begin(glyd_sequence *s)
{
    message *m = s->state;
    if (!s->generation->params.stream || m->has_begun)
        return;
    m->has_begun = true;
    send_event(s, "message_start", json_pack("{s:o}", "message", message_json(s, false)));
    send_event(s, "ping", json_object());
}

static void take_token(glyd_sequence *s, const glyd_token *token, glyd_span text)
{
    (void)token, (void)text; /* come as events */
    begin(s);
}

static void take_event(glyd_sequence *s, const glyd_answer_event *event)
{
    message *m = s->state;
    begin(s);
    glyd_blocks_take(&m->blocks, event);
}

static void flush(glyd_sequence *s)
{
    message *m = s->state;
    glyd_blocks_flush_or_fail(&m->blocks);
}

static void end(glyd_sequence *s)
{
    message *m = s->state;
    begin(s);
    glyd_blocks_end(&m->blocks);
}

static void done(glyd_generation *g)
{
    glyd_sequence *s = &g->sequences[0];
    if (!g->params.stream) {
        glyd_exchange_reply_json(g->x, MHD_HTTP_OK, message_json(s, true));
        return;
    }
    send_event(s, "message_delta",
               json_pack("{s:{s:s, s:o}, s:o}", "delta", "stop_reason", stop_reason(s),
                         "stop_sequence", stop_sequence_json(s), "usage", usage_json(g, true)));
    send_event(s, "message_stop", json_object());
    glyd_stream_end(g->x);
}

static void fail(glyd_generation *g, const glyd_error *error)
{
    glyd_stream_event(g->x, "error",
                      glyd_error_object(GLYD_DIALECT_ANTHROPIC, glyd_error_http(error->status),
                                        NULL, error->text));
    glyd_stream_end(g->x);
}

static const glyd_writer writer = {.token = take_token,
                                   .event = take_event,
                                   .flush = flush,
                                   .end = end,
                                   .done = done,
                                   .fail = fail,
                                   .free_sequence = free_message,
                                   .free_generation = free_input};

/* --- the requests --- */

static bool read_params(glyd_exchange *x, glyd_params *p)
{
    int64_t tokens_max = GLYD_TOKENS_UNSET;
    if (!glyd_request_check_model(x) || !glyd_params_read(x, p) ||
        !glyd_params_read_stops(x, "stop_sequences", p) ||
        !glyd_request_int(x, x->request, "max_tokens", 1, INT32_MAX, &tokens_max))
        return false;
    if (tokens_max == GLYD_TOKENS_UNSET) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "max_tokens", "max_tokens: Field required");
        return false;
    }
    p->tokens_max = (int)tokens_max;
    p->n = 1;
    p->n_prompt_logprobs = -1;
    return true;
}

static void set_turn(glyd_turn *t, const glyd_messages_input *input)
{
    t->prompt = (glyd_prompt_options){
        .messages = input->messages, .extra = input->kwargs, .add_generation_prompt = true};
    t->tools = input->tools;
    t->choice = input->choice;
    t->tool_name = input->tool_name;
    t->is_single = input->is_single;
}

void glyd_serve_messages(glyd_exchange *x)
{
    glyd_turn turn;
    glyd_messages_input *input = calloc(1, sizeof *input);
    message *m = calloc(1, sizeof *m);
    glyd_generation *g = NULL;
    glyd_turn_default(x->server, &turn);
    if (!input || !m) {
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    } else if (read_params(x, &turn.params) && glyd_messages_input_read(x, input)) {
        set_turn(&turn, input);
        g = glyd_turn_prepare(x, &turn, &writer);
    }
    if (!g) {
        if (input)
            free_input(input);
        free(m);
        return;
    }
    m->blocks.writer = &block_writer;
    m->blocks.sequence = &g->sequences[0];
    m->blocks.done = json_array();
    g->sequences[0].state = m;
    g->state = input;
    glyd_generation_start(g);
}

void glyd_serve_count_tokens(glyd_exchange *x)
{
    glyd_turn turn;
    glyd_messages_input input = {0};
    glyd_ids ids = {0};
    glyd_turn_default(x->server, &turn);
    if (glyd_request_check_model(x) && glyd_messages_input_read(x, &input)) {
        set_turn(&turn, &input);
        turn.prompt.tools = turn.tools;
        if (glyd_prompt_render(x, &turn.prompt, &ids, NULL))
            glyd_exchange_reply_json(x, MHD_HTTP_OK,
                                     json_pack("{s:I}", "input_tokens", (json_int_t)ids.n));
    }
    glyd_ids_free(&ids);
    glyd_messages_input_drop(&input);
}
