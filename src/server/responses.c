/* responses.c - POST /v1/responses: OpenAI's newer form of a turn. Nothing is stored.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "server/blocks.h"
#include "server/errors.h"
#include "server/reply.h"
#include "server/request.h"
#include "server/responses_input.h"
#include "server/routes.h"
#include "server/turn.h"
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct response {
    glyd_blocks blocks;
    int sequence_number; /* of the next event */
} response;

/* What must outlive the sequences. */
typedef struct held {
    json_t *tools, *format;
} held;

static void free_held(void *state)
{
    held *h = state;
    json_decref(h->tools);
    json_decref(h->format);
    free(h);
}

static void free_response(void *state)
{
    response *r = state;
    glyd_blocks_drop(&r->blocks);
    free(r);
}

static void send_event(glyd_sequence *s, const char *type, json_t *event)
{
    response *r = s->state;
    if (event) {
        json_object_set_new(event, "type", json_string(type));
        json_object_set_new(event, "sequence_number", json_integer(r->sequence_number++));
    }
    glyd_stream_event(s->generation->x, type, event);
}

/* --- items --- */

static json_t *item_id(const glyd_blocks *b)
{
    static const char *const prefixes[] = {"msg_", "rs_", "fc_"};
    return json_sprintf("%s%s_%d", prefixes[b->kind], b->sequence->generation->x->id, b->index);
}

/* The content part of a text or of reasoning. */
static json_t *part_json(const glyd_blocks *b, bool is_done)
{
    json_t *text = is_done ? glyd_text_json(&b->text) : json_string("");
    if (b->kind == GLYD_BLOCK_REASONING)
        return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", text);
    return json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text", "text", text, "annotations",
                     "logprobs");
}

static json_t *item_json(const glyd_blocks *b, bool is_done)
{
    const char *finish = b->sequence->finish; /* set where it is the end that closes the item */
    bool is_cut = finish && strcmp(finish, "length") == 0;
    const char *status = !is_done ? "in_progress" : is_cut ? "incomplete" : "completed";
    json_t *content =
        is_done && b->kind != GLYD_BLOCK_CALL ? json_pack("[o]", part_json(b, true)) : json_array();
    switch (b->kind) {
    case GLYD_BLOCK_TEXT:
        return json_pack("{s:o, s:s, s:s, s:s, s:o}", "id", item_id(b), "type", "message", "role",
                         "assistant", "status", status, "content", content);
    case GLYD_BLOCK_REASONING:
        return json_pack("{s:o, s:s, s:[], s:o, s:s}", "id", item_id(b), "type", "reasoning",
                         "summary", "content", content, "status", status);
    case GLYD_BLOCK_CALL:
        break;
    }
    json_decref(content);
    return json_pack("{s:o, s:s, s:s, s:O, s:o, s:s}", "id", item_id(b), "type", "function_call",
                     "call_id", b->call_id, "name", b->name, "arguments",
                     is_done ? glyd_text_json(&b->text) : json_string(""), "status", status);
}

/* An event about the open item's only part. */
static json_t *part_event(const glyd_blocks *b, const char *name, json_t *value)
{
    return json_pack("{s:o, s:i, s:i, s:o}", "item_id", item_id(b), "output_index", b->index,
                     "content_index", 0, name, value);
}

static void open_item(glyd_blocks *b)
{
    send_event(b->sequence, "response.output_item.added",
               json_pack("{s:i, s:o}", "output_index", b->index, "item", item_json(b, false)));
    if (b->kind != GLYD_BLOCK_CALL)
        send_event(b->sequence, "response.content_part.added",
                   part_event(b, "part", part_json(b, false)));
}

static void send_delta(glyd_blocks *b, const glyd_buf *text)
{
    json_t *delta = glyd_text_json(text);
    if (b->kind == GLYD_BLOCK_CALL) {
        send_event(b->sequence, "response.function_call_arguments.delta",
                   json_pack("{s:o, s:i, s:o}", "item_id", item_id(b), "output_index", b->index,
                             "delta", delta));
        return;
    }
    json_t *event = part_event(b, "delta", delta);
    if (b->kind == GLYD_BLOCK_TEXT && event)
        json_object_set_new(event, "logprobs", json_array());
    send_event(b->sequence,
               b->kind == GLYD_BLOCK_TEXT ? "response.output_text.delta"
                                          : "response.reasoning_text.delta",
               event);
}

static json_t *close_item(glyd_blocks *b)
{
    glyd_sequence *s = b->sequence;
    json_t *item = item_json(b, true);
    if (!s->generation->params.stream)
        return item;
    if (b->kind == GLYD_BLOCK_CALL) {
        send_event(s, "response.function_call_arguments.done",
                   json_pack("{s:o, s:i, s:o, s:O}", "item_id", item_id(b), "output_index",
                             b->index, "arguments", glyd_text_json(&b->text), "name", b->name));
    } else {
        json_t *event = part_event(b, "text", glyd_text_json(&b->text));
        bool is_text = b->kind == GLYD_BLOCK_TEXT;
        if (is_text && event)
            json_object_set_new(event, "logprobs", json_array());
        send_event(s, is_text ? "response.output_text.done" : "response.reasoning_text.done",
                   event);
        send_event(s, "response.content_part.done", part_event(b, "part", part_json(b, true)));
    }
    send_event(s, "response.output_item.done",
               json_pack("{s:i, s:O}", "output_index", b->index, "item", item));
    return item;
}

static const glyd_block_writer block_writer = {open_item, send_delta, close_item};

/* --- the response object --- */

static json_t *member_or(const json_t *object, const char *name, json_t *absent)
{
    const json_t *value = glyd_request_member(object, name);
    if (!value)
        return absent;
    json_decref(absent);
    return json_incref((json_t *)value);
}

static json_t *usage_json(const glyd_generation *g)
{
    glyd_usage u = glyd_generation_usage(g);
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)u.prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)u.cached, "output_tokens",
                     (json_int_t)u.answer, "output_tokens_details", "reasoning_tokens",
                     (json_int_t)u.reasoning, "total_tokens", (json_int_t)(u.prompt + u.answer));
}

/* The request's tools with every field that a reply must have. */
static json_t *tools_json(const json_t *request)
{
    json_t *tools = json_deep_copy(glyd_request_member(request, "tools"));
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        json_t *absent = json_pack("{s:n, s:n, s:n}", "description", "parameters", "strict");
        json_object_update_missing(tool, absent);
        json_decref(absent);
    }
    return tools ? tools : json_array();
}

/* What else the Open Responses schema requires of a reply. */
static json_t *fixed_json(const glyd_generation *g)
{
    return json_pack("{s:f, s:f, s:i, s:n, s:s, s:n, s:n}", "presence_penalty",
                     g->params.sampling.presence_penalty, "frequency_penalty",
                     g->params.sampling.frequency_penalty, "top_logprobs", 0, "max_tool_calls",
                     "service_tier", "default", "safety_identifier", "prompt_cache_key");
}

/* With the output so far; `status`: "in_progress", "completed", "incomplete", "failed". */
static json_t *response_json(const glyd_sequence *s, const char *status, const char *error)
{
    const glyd_generation *g = s->generation;
    const json_t *q = g->x->request;
    response *r = s->state;
    bool is_done = strcmp(status, "in_progress") != 0, is_cut = strcmp(status, "incomplete") == 0;
    json_t *object = json_pack("{s:s+, s:s, s:I, s:s, s:s, s:O, s:n, s:b, s:n}", "id", "resp_",
                               g->x->id, "object", "response", "created_at", (json_int_t)g->created,
                               "model", g->x->server->info.name, "status", status, "output",
                               r->blocks.done, "previous_response_id", "store", 0, "user");
    if (!object)
        return NULL;
    json_t *parallel = member_or(q, "parallel_tool_calls", json_true());
    json_t *more = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:o, s:o, s:o, s:s, s:b, s:o}", "instructions",
        member_or(q, "instructions", json_null()), "max_output_tokens",
        member_or(q, "max_output_tokens", json_null()), "metadata",
        member_or(q, "metadata", json_object()), "parallel_tool_calls", parallel, "reasoning",
        member_or(q, "reasoning", json_pack("{s:n, s:n}", "effort", "summary")), "temperature",
        g->params.sampling.temperature, "top_p", g->params.sampling.top_p, "text",
        member_or(q, "text", json_pack("{s:{s:s}}", "format", "type", "text")), "tool_choice",
        member_or(q, "tool_choice", json_string("auto")), "tools", tools_json(q), "truncation",
        "disabled", "background", 0, "incomplete_details",
        is_cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null());
    if (more)
        json_object_update(object, more);
    json_decref(more);
    json_t *fixed = fixed_json(g);
    if (fixed)
        json_object_update(object, fixed);
    json_decref(fixed);
    bool is_completed = strcmp(status, "completed") == 0;
    json_object_set_new(object, "completed_at",
                        is_completed ? json_integer((json_int_t)time(NULL)) : json_null());
    json_object_set_new(object, "error",
                        error ? json_pack("{s:s, s:s}", "code", "server_error", "message", error)
                              : json_null());
    json_object_set_new(object, "usage", is_done ? usage_json(g) : json_null());
    return object;
}

/* --- the writer --- */

static void begin(glyd_sequence *s)
{
    response *r = s->state;
    if (!s->generation->params.stream || r->sequence_number > 0)
        return;
    send_event(s, "response.created",
               json_pack("{s:o}", "response", response_json(s, "in_progress", NULL)));
    send_event(s, "response.in_progress",
               json_pack("{s:o}", "response", response_json(s, "in_progress", NULL)));
}

static void take_token(glyd_sequence *s, const glyd_token *token, glyd_span text)
{
    (void)token, (void)text; /* come as events */
    begin(s);
}

static void take_event(glyd_sequence *s, const glyd_answer_event *event)
{
    response *r = s->state;
    begin(s);
    glyd_blocks_take(&r->blocks, event);
}

static void flush(glyd_sequence *s)
{
    response *r = s->state;
    glyd_blocks_flush_or_fail(&r->blocks);
}

static void end(glyd_sequence *s)
{
    response *r = s->state;
    begin(s);
    glyd_blocks_end(&r->blocks);
}

static void done(glyd_generation *g)
{
    glyd_sequence *s = &g->sequences[0];
    bool is_cut = strcmp(s->finish ? s->finish : "abort", "length") == 0;
    json_t *object = response_json(s, is_cut ? "incomplete" : "completed", NULL);
    if (!g->params.stream) {
        glyd_exchange_reply_json(g->x, MHD_HTTP_OK, object);
        return;
    }
    send_event(s, is_cut ? "response.incomplete" : "response.completed",
               json_pack("{s:o}", "response", object));
    glyd_reply_done_stream(g->x);
}

static void fail(glyd_generation *g, const glyd_error *error)
{
    glyd_sequence *s = &g->sequences[0];
    begin(s);
    send_event(s, "response.failed",
               json_pack("{s:o}", "response", response_json(s, "failed", error->text)));
    glyd_reply_done_stream(g->x);
}

static const glyd_writer writer = {.token = take_token,
                                   .event = take_event,
                                   .flush = flush,
                                   .end = end,
                                   .done = done,
                                   .fail = fail,
                                   .free_sequence = free_response,
                                   .free_generation = free_held};

/* --- the request --- */

static bool refuse_state(glyd_exchange *x)
{
    static const char *const names[] = {"previous_response_id", "conversation", "prompt"};
    bool in_background = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!glyd_request_member(x->request, names[i]))
            continue;
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, names[i],
                           "%s: this server stores nothing: send the whole conversation as input.",
                           names[i]);
        return false;
    }
    if (!glyd_request_bool(x, x->request, "background", &in_background))
        return false;
    if (in_background)
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "background",
                           "background: this server stores nothing.");
    return !in_background;
}

/* {"type": "function", "name"} as chat's {"type", "function": {"name"}}. */
static bool read_choice(glyd_exchange *x, glyd_turn *t)
{
    const json_t *choice = glyd_request_member(x->request, "tool_choice");
    const json_t *name = json_object_get(choice, "name");
    json_t *request = json_object(), *own = x->request;
    if (request && t->tools)
        json_object_set(request, "tools", (json_t *)t->tools);
    if (request && json_object_get(own, "parallel_tool_calls"))
        json_object_set(request, "parallel_tool_calls",
                        json_object_get(own, "parallel_tool_calls"));
    if (request && name)
        json_object_set_new(
            request, "tool_choice",
            json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name));
    else if (request && choice && (t->tools || json_is_object(choice)))
        json_object_set(request, "tool_choice", (json_t *)choice);
    x->request = request;
    bool is_read = request && glyd_turn_read_tools(x, t);
    x->request = own;
    if (is_read && t->tool_name) /* of the request's own JSON, which stays */
        t->tool_name = json_string_value(name);
    json_decref(request);
    return is_read;
}

/* text.format as chat's response_format: the schema is one level up. */
static bool read_format(glyd_exchange *x, glyd_turn *t, held *h)
{
    const json_t *text = glyd_request_member(x->request, "text");
    const json_t *format = glyd_request_member(text, "format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format)
        return true;
    if (type && strcmp(type, "json_schema") == 0)
        h->format = json_pack("{s:s, s:{s:O?}}", "type", "json_schema", "json_schema", "schema",
                              json_object_get(format, "schema"));
    else
        h->format = json_incref((json_t *)format);
    t->response_format = h->format;
    if (!h->format)
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "text", "text.format has no schema.");
    return h->format != NULL;
}

static bool read_turn(glyd_exchange *x, glyd_turn *t, held *h)
{
    int64_t tokens_max = GLYD_TOKENS_UNSET;
    if (!glyd_request_check_model(x) || !refuse_state(x) || !glyd_params_read(x, &t->params) ||
        !glyd_request_int(x, x->request, "max_output_tokens", 1, INT32_MAX, &tokens_max) ||
        !glyd_responses_tools(x, &h->tools))
        return false;
    t->params.tokens_max = (int)tokens_max;
    t->params.n = 1;
    t->params.n_prompt_logprobs = -1;
    t->tools = h->tools;
    return read_choice(x, t) && read_format(x, t, h) && glyd_messages_check(x, t->prompt.messages);
}

/* {"effort", "summary"}; what is hidden is made, and counted, all the same. */
static bool read_reasoning(glyd_exchange *x, glyd_turn *t)
{
    const json_t *reasoning = glyd_request_member(x->request, "reasoning");
    if (reasoning && !json_is_object(reasoning)) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "reasoning", "reasoning must be an object.");
        return false;
    }
    if (!glyd_prompt_variables_read(x, glyd_request_member(reasoning, "effort"), "reasoning.effort",
                                    &t->prompt))
        return false;
    t->params.hides_reasoning = t->prompt.without_reasoning;
    return true;
}

static glyd_generation *prepare(glyd_exchange *x, held *h)
{
    glyd_turn turn;
    glyd_turn_default(x->server, &turn);
    json_t *messages = glyd_responses_messages(x);
    if (!messages)
        return NULL;
    turn.prompt = (glyd_prompt_options){.messages = messages, .add_generation_prompt = true};
    glyd_generation *g = read_reasoning(x, &turn) && read_turn(x, &turn, h)
                             ? glyd_turn_prepare(x, &turn, &writer)
                             : NULL;
    json_decref(messages);
    return g;
}

void glyd_serve_responses(glyd_exchange *x)
{
    held *h = calloc(1, sizeof *h);
    response *r = calloc(1, sizeof *r);
    glyd_generation *g = h && r ? prepare(x, h) : NULL;
    if (!h || !r)
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    if (!g) {
        if (h)
            free_held(h);
        free(r);
        return;
    }
    r->blocks.writer = &block_writer;
    r->blocks.sequence = &g->sequences[0];
    r->blocks.done = json_array();
    g->sequences[0].state = r;
    g->state = h;
    glyd_generation_start(g);
}
