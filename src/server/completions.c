/* completions.c - POST /v1/completions: what follows a text.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "server/errors.h"
#include "server/log.h"
#include "server/reply.h"
#include "server/request.h"
#include "server/routes.h"
#include "server/tokens.h"
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_USUAL = 16 }; /* OpenAI's default of max_tokens */

/* Of a choice. A stream sends what is here and empties it. */
typedef struct choice {
    glyd_buf text;
    json_t *tokens, *token_logprobs, *top_logprobs, *text_offset; /* NULL: not asked for */
    glyd_ids ids;
    json_t *prompt_logprobs;
    size_t offset; /* characters before the next token */
    bool failed;
} choice;

typedef struct completion {
    bool echo;
    bool shows_prompt_logprobs; /* prompt_logprobs was asked for by name */
} completion;

static void free_choice(void *state)
{
    choice *c = state;
    glyd_buf_free(&c->text);
    json_decref(c->tokens);
    json_decref(c->token_logprobs);
    json_decref(c->top_logprobs);
    json_decref(c->text_offset);
    json_decref(c->prompt_logprobs);
    glyd_ids_free(&c->ids);
    free(c);
}

static const glyd_server *server_of(const glyd_sequence *s)
{
    return s->generation->x->server;
}

static void clear_logprobs(choice *c)
{
    json_decref(c->tokens);
    json_decref(c->token_logprobs);
    json_decref(c->top_logprobs);
    json_decref(c->text_offset);
    c->tokens = json_array();
    c->token_logprobs = json_array();
    c->top_logprobs = json_array();
    c->text_offset = json_array();
}

static size_t n_characters(const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* {text: logprob} of the likeliest ids and the token itself. Of ids with the same text the first
 * one counts, which is the likeliest. */
static json_t *top_of(const glyd_server *server, const glyd_token *token)
{
    json_t *top = json_object();
    glyd_buf text = {0};
    for (int i = 0; top && i <= token->n_top; i++) {
        int32_t id = i < token->n_top ? token->top[i].id : token->id;
        double logprob = i < token->n_top ? token->top[i].logprob : token->logprob;
        text.bytes = 0;
        const char *key =
            glyd_token_text(server, id, &text) == GLYD_OK ? glyd_buf_text(&text) : NULL;
        if (key && !json_object_get(top, key))
            json_object_set_new(top, key, glyd_logprob_json(logprob));
    }
    glyd_buf_free(&text);
    return top;
}

/* `token` without a logprob (the first of a prompt): null. */
static void add_logprob(glyd_sequence *s, const glyd_token *token, bool has_logprob)
{
    choice *c = s->state;
    json_t *text = glyd_token_text_json(server_of(s), token->id);
    size_t n = n_characters(text ? json_string_value(text) : "", json_string_length(text));
    bool is_added =
        glyd_array_add(c->tokens, text) &&
        glyd_array_add(c->token_logprobs,
                       has_logprob ? glyd_logprob_json(token->logprob) : json_null()) &&
        glyd_array_add(c->top_logprobs, has_logprob ? top_of(server_of(s), token) : json_null()) &&
        glyd_array_add(c->text_offset, json_integer((json_int_t)c->offset));
    c->offset += n;
    c->failed = c->failed || !is_added;
}

/* {id: {logprob, rank, decoded_token}}, as vLLM has a prompt's. */
static void add_prompt_logprob(glyd_sequence *s, const glyd_token *token)
{
    choice *c = s->state;
    json_t *entry = json_object();
    char key[16];
    for (int i = 0; entry && i <= token->n_top; i++) {
        bool is_own = i == token->n_top;
        int32_t id = is_own ? token->id : token->top[i].id;
        snprintf(key, sizeof key, "%d", (int)id);
        if (json_object_get(entry, key))
            continue;
        json_object_set_new(
            entry, key,
            json_pack("{s:o, s:i, s:o}", "logprob",
                      glyd_logprob_json(is_own ? token->logprob : token->top[i].logprob), "rank",
                      is_own ? token->rank : i + 1, "decoded_token",
                      glyd_token_text_json(server_of(s), id)));
    }
    c->failed = c->failed || !glyd_array_add(c->prompt_logprobs, entry);
}

static void take_prompt_token(glyd_sequence *s, int index, const glyd_token *token)
{
    const glyd_ids *prompt = &s->generation->prompts[s->prompt];
    const completion *own = s->generation->state;
    if (own->echo && s->generation->params.n_logprobs >= 0) {
        if (index == 1)
            add_logprob(s, &(glyd_token){.id = prompt->data[0]}, false);
        add_logprob(s, token, true);
    }
    if (own->shows_prompt_logprobs)
        add_prompt_logprob(s, token);
}

static void take_token(glyd_sequence *s, const glyd_token *token, glyd_span text)
{
    choice *c = s->state;
    const glyd_params *p = &s->generation->params;
    c->failed = c->failed || glyd_buf_append(&c->text, text.data, text.bytes) != GLYD_OK;
    if (token->id < 0)
        return;
    if (p->n_logprobs >= 0)
        add_logprob(s, token, true);
    if (p->return_token_ids)
        c->failed = c->failed || glyd_ids_add(&c->ids, token->id) != GLYD_OK;
}

static json_t *logprobs_json(const choice *c)
{
    if (!c->tokens)
        return json_null();
    return json_pack("{s:O, s:O, s:O, s:O}", "text_offset", c->text_offset, "token_logprobs",
                     c->token_logprobs, "tokens", c->tokens, "top_logprobs", c->top_logprobs);
}

/* A choice with what there is of it. */
static json_t *choice_json(const glyd_sequence *s)
{
    const choice *c = s->state;
    json_t *object =
        json_pack("{s:i, s:o, s:o, s:s?, s:o}", "index", s->index, "text", glyd_text_json(&c->text),
                  "logprobs", logprobs_json(c), "finish_reason", s->finish, "stop_reason",
                  s->finish ? glyd_stop_reason_json(s) : json_null());
    if (object && s->generation->params.return_token_ids)
        json_object_set_new(object, "token_ids", glyd_ids_json(&c->ids));
    return object;
}

static void send_chunk(glyd_sequence *s)
{
    glyd_generation *g = s->generation;
    choice *c = s->state;
    json_t *chunk = glyd_reply_head(g, "cmpl-", "text_completion");
    if (chunk)
        json_object_set_new(chunk, "choices", json_pack("[o]", choice_json(s)));
    if (chunk && g->params.usage_in_each) {
        glyd_usage usage = glyd_generation_usage(g);
        json_object_set_new(chunk, "usage", glyd_usage_json(&usage, false));
    }
    glyd_stream_event(g->x, NULL, chunk);
    c->text.bytes = 0;
    c->ids.n = 0;
    if (c->tokens)
        clear_logprobs(c);
}

static void flush(glyd_sequence *s)
{
    choice *c = s->state;
    if (c->failed) {
        glyd_error error = {.status = GLYD_E_NOMEM, .text = "out of memory for an answer"};
        glyd_generation_fail(s->generation, &error);
    } else if (s->generation->params.stream && (c->text.bytes > 0 || json_array_size(c->tokens))) {
        send_chunk(s);
    }
}

static void end(glyd_sequence *s)
{
    if (s->generation->params.stream)
        send_chunk(s);
}

/* A choice of an answer in one piece. */
static json_t *whole_choice_json(const glyd_sequence *s)
{
    const glyd_generation *g = s->generation;
    const completion *own = g->state;
    const choice *c = s->state;
    json_t *object = choice_json(s);
    if (object && own->shows_prompt_logprobs)
        json_object_set(object, "prompt_logprobs", c->prompt_logprobs);
    if (object && g->params.return_token_ids)
        json_object_set_new(object, "prompt_token_ids", glyd_ids_json(&g->prompts[s->prompt]));
    return object;
}

static void done(glyd_generation *g)
{
    if (g->params.stream)
        glyd_reply_end_chunks(g, "cmpl-", "text_completion");
    else
        glyd_exchange_reply_json(
            g->x, MHD_HTTP_OK,
            glyd_reply_choices(g, "cmpl-", "text_completion", whole_choice_json));
}

static const glyd_writer writer = {.prompt_token = take_prompt_token,
                                   .token = take_token,
                                   .flush = flush,
                                   .end = end,
                                   .done = done,
                                   .fail = glyd_reply_fail_stream,
                                   .free_sequence = free_choice,
                                   .free_generation = free};

/* --- the request --- */

static bool fail_prompt(glyd_exchange *x)
{
    glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "prompt",
                       "prompt must be a string, a list of strings, a list of token ids, or a list "
                       "of such lists, and none may be empty.");
    return false;
}

static bool encode(glyd_exchange *x, const json_t *text, glyd_ids *ids)
{
    glyd_error error;
    bool adds_special = true;
    if (!glyd_request_bool(x, x->request, "add_special_tokens", &adds_special))
        return false;
    unsigned flags = GLYD_ENCODE_PARSE_SPECIAL | (adds_special ? GLYD_ENCODE_ADD_SPECIAL : 0);
    if (glyd_tokenizer_encode(x->server->tokenizer, json_string_value(text),
                              json_string_length(text), flags, ids, &error) != GLYD_OK) {
        glyd_exchange_fail_status(x, "prompt", &error);
        return false;
    }
    glyd_log_prompt(
        x, (glyd_span){(const uint8_t *)json_string_value(text), json_string_length(text)});
    return ids->n > 0 || fail_prompt(x);
}

static bool read_one(glyd_exchange *x, const json_t *prompt, glyd_ids *ids)
{
    if (json_is_string(prompt))
        return encode(x, prompt, ids);
    if (json_is_array(prompt) && json_array_size(prompt) > 0)
        return glyd_ids_read(x, "prompt", prompt, ids);
    return fail_prompt(x);
}

/* The prompts on the heap, *n of them; NULL: answered. */
static glyd_ids *read_prompts(glyd_exchange *x, int *n)
{
    const json_t *prompt = glyd_request_member(x->request, "prompt");
    const json_t *first = json_array_get(prompt, 0);
    bool is_list = json_is_string(first) || json_is_array(first);
    size_t n_prompts = is_list ? json_array_size(prompt) : 1;
    if (n_prompts > GLYD_SEQUENCES_MAX) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "prompt", "At most %d prompts are possible.",
                           GLYD_SEQUENCES_MAX);
        return NULL;
    }
    glyd_ids *prompts = calloc(n_prompts, sizeof *prompts);
    bool is_read = prompts != NULL;
    if (!prompts)
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    for (size_t i = 0; is_read && i < n_prompts; i++)
        is_read = read_one(x, is_list ? json_array_get(prompt, i) : prompt, &prompts[i]);
    *n = (int)n_prompts;
    if (is_read)
        return prompts;
    for (size_t i = 0; prompts && i < n_prompts; i++)
        glyd_ids_free(&prompts[i]);
    free(prompts);
    return NULL;
}

static bool read_fields(glyd_exchange *x, glyd_params *p, completion *own)
{
    int64_t tokens_max = GLYD_TOKENS_UNSET, n_logprobs = -1;
    if (!glyd_request_check_model(x) || !glyd_params_read(x, p) ||
        !glyd_request_int(x, x->request, "max_tokens", 0, INT32_MAX, &tokens_max) ||
        !glyd_request_int(x, x->request, "logprobs", 0, GLYD_REQUEST_LOGPROBS_MAX, &n_logprobs) ||
        !glyd_request_bool(x, x->request, "echo", &own->echo))
        return false;
    p->tokens_max = (int)tokens_max;
    p->n_logprobs = (int)n_logprobs;
    own->shows_prompt_logprobs = p->n_prompt_logprobs >= 0;
    if (own->shows_prompt_logprobs && p->stream) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "prompt_logprobs",
                           "prompt_logprobs are not available where stream is true.");
        return false;
    }
    if (own->echo && p->n_logprobs > p->n_prompt_logprobs)
        p->n_prompt_logprobs = p->n_logprobs;
    if (p->tokens_max == 0 && !own->echo && !own->shows_prompt_logprobs) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "max_tokens",
                           "max_tokens must be at least 1, or echo true.");
        return false;
    }
    return true;
}

/* The text of a prompt, for echo. */
static bool echo_prompt(glyd_sequence *s)
{
    choice *c = s->state;
    const glyd_ids *prompt = &s->generation->prompts[s->prompt];
    unsigned flags = s->generation->params.skip_special ? GLYD_DECODE_SKIP_SPECIAL : 0;
    if (prompt->n == 1 && c->tokens)
        add_logprob(s, &(glyd_token){.id = prompt->data[0]}, false);
    return glyd_tokenizer_decode(server_of(s)->tokenizer, prompt->data, prompt->n, flags, &c->text,
                                 NULL) == GLYD_OK;
}

static bool prepare(glyd_generation *g, const completion *own)
{
    for (int i = 0; i < g->n_sequences; i++) {
        glyd_sequence *s = &g->sequences[i];
        choice *c = s->state = calloc(1, sizeof *c);
        if (!c)
            return false;
        if (g->params.n_logprobs >= 0)
            clear_logprobs(c);
        if (own->shows_prompt_logprobs) {
            c->prompt_logprobs = json_array();
            glyd_array_add(c->prompt_logprobs, json_null()); /* the first token has none */
        }
        if (own->echo && !echo_prompt(s))
            return false;
    }
    g->state = malloc(sizeof *own);
    if (g->state)
        memcpy(g->state, own, sizeof *own);
    return g->state != NULL;
}

void glyd_serve_completions(glyd_exchange *x)
{
    glyd_params params;
    completion own = {0};
    int n_prompts = 0;
    glyd_params_default(x->server, &params);
    if (!read_fields(x, &params, &own))
        return;
    glyd_ids *prompts = read_prompts(x, &n_prompts);
    if (!prompts)
        return;
    size_t longest = 0;
    for (int i = 0; i < n_prompts; i++)
        longest = prompts[i].n > longest ? prompts[i].n : longest;
    glyd_generation *g = NULL;
    bool fits = glyd_params_fit(x, longest < INT32_MAX ? (int)longest : INT32_MAX, TOKENS_USUAL,
                                &params.tokens_max);
    if (fits && n_prompts * params.n > GLYD_SEQUENCES_MAX) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "n", "At most %d choices are possible.",
                           GLYD_SEQUENCES_MAX);
        fits = false;
    }
    if (!fits) {
        for (int i = 0; i < n_prompts; i++)
            glyd_ids_free(&prompts[i]);
        free(prompts);
        return;
    }
    g = glyd_generation_create(x, &writer, &params, prompts, n_prompts);
    if (!g || !prepare(g, &own)) {
        glyd_generation_free(g);
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
        return;
    }
    glyd_generation_start(g);
}
