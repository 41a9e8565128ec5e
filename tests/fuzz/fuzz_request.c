/* fuzz_request.c - any body as a request of each endpoint: what is wrong with it is answered with
 * a 400 in the endpoint's form, once, and what is not leaves the exchange unanswered.
 *
 * The first byte picks the endpoint. Nothing is rendered or run: templates, grammars and tokenizers
 * have targets of their own, though the grammar of tools and formats is made here too.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "server/errors.h"
#include "server/messages_input.h"
#include "server/request.h"
#include "server/responses_input.h"
#include "server/state.h"
#include "server/tokens.h"
#include "server/turn.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_answer(const glyd_exchange *x, bool is_read)
{
    if (is_read) {
        GLYD_ASSERT(x->phase == GLYD_PHASE_WORKING && x->out.bytes == 0);
        return;
    }
    GLYD_ASSERT(x->phase == GLYD_PHASE_ANSWERED && (x->status == 400 || x->status == 404));
    json_t *reply = json_loadb((const char *)x->out.data, x->out.bytes, 0, NULL);
    const json_t *error = json_object_get(reply, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    GLYD_ASSERT(message && message[0] && json_is_string(json_object_get(error, "type")));
    json_decref(reply);
}

static bool read_chat(glyd_exchange *x, glyd_turn *t)
{
    glyd_grammar *grammar = NULL;
    if (!glyd_request_check_model(x) || !glyd_prompt_options_read(x, &t->prompt) ||
        !glyd_params_read(x, &t->params) || !glyd_turn_read_tools(x, t))
        return false;
    t->response_format = glyd_request_member(x->request, "response_format");
    t->structured_outputs = glyd_request_member(x->request, "structured_outputs");
    bool is_read = glyd_turn_grammar(x, t, false, &grammar);
    glyd_grammar_free(grammar);
    return is_read;
}

static bool read_messages(glyd_exchange *x, glyd_turn *t)
{
    glyd_messages_input input = {0};
    bool is_read = glyd_params_read(x, &t->params) &&
                   glyd_params_read_stops(x, "stop_sequences", &t->params) &&
                   glyd_messages_input_read(x, &input);
    glyd_messages_input_drop(&input);
    return is_read;
}

static bool read_responses(glyd_exchange *x, glyd_turn *t)
{
    json_t *tools = NULL, *messages = glyd_responses_messages(x);
    bool is_read = messages && glyd_responses_tools(x, &tools) &&
                   (!tools || glyd_turn_check_tools(x, tools)) &&
                   glyd_messages_check(x, messages) && glyd_params_read(x, &t->params);
    json_decref(messages);
    json_decref(tools);
    return is_read;
}

static bool read_ids(glyd_exchange *x, glyd_turn *t)
{
    const json_t *prompt = glyd_request_member(x->request, "prompt");
    glyd_ids ids = {0};
    bool is_read = glyd_params_read(x, &t->params) &&
                   (!json_is_array(prompt) || glyd_ids_read(x, "prompt", prompt, &ids));
    glyd_ids_free(&ids);
    return is_read;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static bool (*const readers[])(glyd_exchange *, glyd_turn *) = {read_chat, read_messages,
                                                                    read_responses, read_ids};
    static const char *const name = "model";
    enum { READERS = sizeof readers / sizeof *readers };
    if (bytes < 1)
        return 0;
    int which = data[0] % READERS;
    glyd_engine_info info = {.family = "llama", .vocab = 1000, .plan = {.context = 512}};
    glyd_route route = {.method = "POST",
                        .path = "/",
                        .dialect = which == 1 ? GLYD_DIALECT_ANTHROPIC : GLYD_DIALECT_OPENAI};
    glyd_server *server = calloc(1, sizeof *server);
    glyd_turn *turn = calloc(1, sizeof *turn);
    GLYD_ASSERT(server && turn);
    server->engine_info = &info;
    server->names = (glyd_names){.name = (const char **)(uintptr_t)&name, .n = 1};
    GLYD_ASSERT(glyd_answer_format_choose("llama", (glyd_span){NULL, 0}, NULL, "hermes", "none",
                                          &server->format, NULL) == GLYD_OK);
    glyd_exchange *x = glyd_exchange_create(server);
    GLYD_ASSERT(x != NULL);
    x->route = &route;
    x->phase = GLYD_PHASE_WORKING;
    turn->params = (glyd_params){.n = 1, .n_logprobs = -1, .n_prompt_logprobs = -1};
    GLYD_ASSERT(glyd_buf_append(&x->body, data + 1, bytes - 1) == GLYD_OK);
    check_answer(x, glyd_request_parse(x) && readers[which](x, turn));
    glyd_exchange_drop(x);
    free(turn);
    free(server);
    return 0;
}
