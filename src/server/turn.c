/* turn.c - an assistant's turn in a conversation.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/turn.h"
#include "server/errors.h"
#include "server/request.h"
#include <microhttpd.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

void glyd_turn_default(const glyd_server *server, glyd_turn *t)
{
    *t = (glyd_turn){.choice = GLYD_TOOLS_NONE};
    glyd_params_default(server, &t->params);
}

static bool wrong(glyd_exchange *x, const char *param, const char *text)
{
    glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, param, "%s", text);
    return false;
}

bool glyd_turn_check_tools(glyd_exchange *x, const json_t *tools)
{
    size_t i;
    const json_t *tool;
    if (!json_is_array(tools) || json_array_size(tools) == 0)
        return wrong(x, "tools", "tools must be a list of at least one tool.");
    json_array_foreach((json_t *)tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        const char *type = json_string_value(json_object_get(tool, "type"));
        const char *name = json_string_value(json_object_get(function, "name"));
        const json_t *parameters = glyd_request_member(function, "parameters");
        if (!type || strcmp(type, "function") != 0)
            return wrong(x, "tools", "tools must be of type \"function\".");
        if (!name || !name[0])
            return wrong(x, "tools", "a tool's function needs a name.");
        if (parameters && !json_is_object(parameters))
            return wrong(x, "tools", "a function's parameters must be a JSON schema object.");
    }
    return true;
}

static bool has_tool(const json_t *tools, const char *name)
{
    size_t i;
    const json_t *tool;
    json_array_foreach((json_t *)tools, i, tool)
    {
        const char *own =
            json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        if (own && strcmp(own, name) == 0)
            return true;
    }
    return false;
}

static bool read_choice(glyd_exchange *x, glyd_turn *t)
{
    const json_t *choice = glyd_request_member(x->request, "tool_choice");
    const char *text = json_string_value(choice);
    if (!choice) {
        t->choice = t->tools ? GLYD_TOOLS_AUTO : GLYD_TOOLS_NONE;
        return true;
    }
    if (text && strcmp(text, "none") == 0) {
        t->choice = GLYD_TOOLS_NONE;
        return true;
    }
    if (!t->tools)
        return wrong(x, "tool_choice", "tool_choice needs tools.");
    if (text && strcmp(text, "auto") == 0) {
        t->choice = GLYD_TOOLS_AUTO;
        return true;
    }
    t->choice = GLYD_TOOLS_FORCED;
    if (text && strcmp(text, "required") == 0)
        return true;
    const json_t *function = json_object_get(choice, "function");
    t->tool_name = json_string_value(json_object_get(function, "name"));
    if (!t->tool_name)
        return wrong(x, "tool_choice",
                     "tool_choice must be none, auto, required, or name a function.");
    if (!has_tool(t->tools, t->tool_name))
        return wrong(x, "tool_choice", "tool_choice names a function that tools does not have.");
    t->is_single = true;
    return true;
}

bool glyd_turn_read_tools(glyd_exchange *x, glyd_turn *t)
{
    bool is_parallel = true;
    t->tools = glyd_request_member(x->request, "tools");
    if ((t->tools && !glyd_turn_check_tools(x, t->tools)) ||
        !glyd_request_bool(x, x->request, "parallel_tool_calls", &is_parallel))
        return false;
    t->is_single = !is_parallel;
    return read_choice(x, t);
}

static glyd_status on_event(void *arg, const glyd_answer_event *event, glyd_error *err)
{
    glyd_sequence *s = arg;
    (void)err;
    s->generation->writer->event(s, event);
    return GLYD_OK;
}

static glyd_status make_sequence(glyd_sequence *s, const glyd_turn *t, bool inside, glyd_error *err)
{
    const glyd_server *server = s->generation->x->server;
    /* Under a grammar the marks of calls may come in any tokens. */
    bool is_held = t->choice == GLYD_TOOLS_AUTO && s->generation->grammar;
    glyd_answer_options options = {.tools = is_held ? GLYD_TOOLS_FORCED : t->choice,
                                   .is_single = t->is_single,
                                   .is_reasoning = inside,
                                   .tool_list = t->tools};
    glyd_status status =
        glyd_answer_create(&server->format, &options, on_event, s, &s->answer, err);
    if (status == GLYD_OK && s->generation->grammar)
        status = glyd_constraint_create(s->generation->grammar, server->vocabulary,
                                        server->engine_info->stop_ids,
                                        server->engine_info->n_stop_ids, &s->constraint, err);
    return status;
}

static glyd_generation *make_generation(glyd_exchange *x, const glyd_turn *t,
                                        const glyd_writer *writer, glyd_ids *ids, bool inside,
                                        glyd_grammar *grammar)
{
    glyd_ids *prompts = malloc(sizeof *prompts);
    glyd_generation *g = NULL;
    glyd_error error = {.status = GLYD_E_NOMEM, .text = "out of memory"};
    if (prompts) {
        *prompts = *ids;
        *ids = (glyd_ids){0};
        g = glyd_generation_create(x, writer, &t->params, prompts, 1);
    }
    if (!g) {
        glyd_grammar_free(grammar);
        glyd_exchange_fail_status(x, NULL, &error);
        return NULL;
    }
    g->grammar = grammar;
    for (int i = 0; i < g->n_sequences; i++) {
        if (make_sequence(&g->sequences[i], t, inside, &error) != GLYD_OK) {
            glyd_generation_free(g);
            glyd_exchange_fail_status(x, NULL, &error);
            return NULL;
        }
    }
    return g;
}

glyd_generation *glyd_turn_prepare(glyd_exchange *x, glyd_turn *t, const glyd_writer *writer)
{
    glyd_ids ids = {0};
    glyd_buf text = {0};
    glyd_grammar *grammar = NULL;
    glyd_generation *g = NULL;
    t->prompt.tools = t->tools;
    if (glyd_prompt_render(x, &t->prompt, &ids, &text) &&
        glyd_params_fit(x, (int)ids.n, 0, &t->params.tokens_max)) {
        bool inside =
            glyd_answer_prompt_is_reasoning(&x->server->format, x->server->tokenizer,
                                            (glyd_span){text.data, text.bytes}, ids.data, ids.n);
        if (glyd_turn_grammar(x, t, inside, &grammar))
            g = make_generation(x, t, writer, &ids, inside, grammar);
    }
    glyd_ids_free(&ids);
    glyd_buf_free(&text);
    return g;
}

const char *glyd_turn_finish(const glyd_sequence *s)
{
    bool has_calls = s->answer && glyd_answer_n_calls(s->answer) > 0;
    return has_calls && strcmp(s->finish, "stop") == 0 ? "tool_calls" : s->finish;
}

void glyd_turn_call_id(const glyd_server *server, char id[GLYD_CALL_ID_BYTES])
{
    uint8_t random[16] = {0};
    (void)RAND_bytes(random, sizeof random); /* unique enough: an id need not be secret */
    glyd_answer_call_id(&server->format, random, id);
}
