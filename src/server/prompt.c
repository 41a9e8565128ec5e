/* prompt.c - messages and texts to the token ids of a prompt.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "server/prompt.h"
#include "base/error.h"
#include "server/errors.h"
#include "server/log.h"
#include "server/request.h"
#include "text/answer.h"
#include <microhttpd.h>
#include <string.h>
#include <time.h>

static bool fail_message(glyd_exchange *x, size_t i, const char *text)
{
    char name[64];
    snprintf(name, sizeof name, "messages.%zu", i);
    glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, name, "messages[%zu]%s", i, text);
    return false;
}

static bool check_part(glyd_exchange *x, size_t i, const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!json_is_object(part) || !type)
        return fail_message(x, i, " has a content part without a type.");
    if (strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 ||
        strcmp(type, "output_text") == 0 || strcmp(type, "refusal") == 0)
        return json_is_string(json_object_get(part, strcmp(type, "refusal") ? "text" : "refusal"))
                   ? true
                   : fail_message(x, i, " has a text part whose text is not a string.");
    char text[128];
    snprintf(text, sizeof text,
             " has content of type %.40s: this model reads text alone, no images, audio or files.",
             type);
    return fail_message(x, i, text);
}

static bool check_message(glyd_exchange *x, size_t i, const json_t *message)
{
    static const char *const roles[] = {"system",    "developer", "user",
                                        "assistant", "tool",      "function"};
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content"), *part;
    bool is_known = false;
    size_t k;
    if (!json_is_object(message))
        return fail_message(x, i, " is not an object.");
    for (size_t r = 0; role && r < sizeof roles / sizeof *roles; r++)
        is_known = is_known || strcmp(role, roles[r]) == 0;
    if (!is_known)
        return fail_message(x, i, ".role must be system, developer, user, assistant or tool.");
    if (json_is_array(content)) {
        json_array_foreach((json_t *)content, k, part)
        {
            if (!check_part(x, i, part))
                return false;
        }
        return true;
    }
    if (content && !json_is_string(content) && !json_is_null(content))
        return fail_message(x, i, ".content must be a string, a list of parts or null.");
    return true;
}

bool glyd_messages_check(glyd_exchange *x, const json_t *messages)
{
    size_t i;
    const json_t *message;
    if (!json_is_array(messages) || json_array_size(messages) == 0 ||
        json_array_size(messages) > GLYD_MESSAGES_MAX) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "messages",
                           "messages must be a list of 1 to %d messages.", GLYD_MESSAGES_MAX);
        return false;
    }
    json_array_foreach((json_t *)messages, i, message)
    {
        if (!check_message(x, i, message))
            return false;
    }
    return true;
}

/* Set a variable of the template, unless chat_template_kwargs has it. Takes `value`. */
static bool set_variable(json_t *kwargs, const char *name, json_t *value)
{
    if (!json_object_get(kwargs, name))
        return json_object_set_new(kwargs, name, value) == 0;
    json_decref(value);
    return true;
}

bool glyd_prompt_variables_read(glyd_exchange *x, const json_t *effort, const char *param,
                                glyd_prompt_options *o)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium",
                                          "high", "xhigh",   "max"};
    const char *text = json_string_value(effort);
    bool is_known = false;
    o->extra = glyd_request_member(x->request, "chat_template_kwargs");
    if (o->extra && !json_is_object(o->extra)) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "chat_template_kwargs",
                           "chat_template_kwargs must be an object.");
        return false;
    }
    if (!effort)
        return true;
    for (size_t i = 0; text && i < sizeof efforts / sizeof *efforts; i++)
        is_known = is_known || (strcmp(text, efforts[i]) == 0 &&
                                strlen(efforts[i]) == json_string_length(effort));
    if (!is_known) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, param,
                           "%s must be none, minimal, low, medium, high, xhigh or max.", param);
        return false;
    }
    o->without_reasoning = strcmp(text, "none") == 0;
    json_t *kwargs = o->extra ? json_copy((json_t *)o->extra) : json_object();
    if (!kwargs || !set_variable(kwargs, "reasoning_effort", json_string(text)) ||
        (o->without_reasoning && !set_variable(kwargs, "enable_thinking", json_false())) ||
        json_object_set(x->request, "chat_template_kwargs", kwargs) != 0) {
        json_decref(kwargs);
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
        return false;
    }
    o->extra = kwargs; /* the request's */
    json_decref(kwargs);
    return true;
}

bool glyd_prompt_options_read(glyd_exchange *x, glyd_prompt_options *o)
{
    const json_t *r = x->request;
    *o = (glyd_prompt_options){.messages = glyd_request_member(r, "messages"),
                               .add_generation_prompt = true};
    if (!glyd_prompt_variables_read(x, glyd_request_member(r, "reasoning_effort"),
                                    "reasoning_effort", o) ||
        !glyd_request_text(x, r, "chat_template", &o->chat_template) ||
        !glyd_request_bool(x, r, "continue_final_message", &o->continue_final_message) ||
        !glyd_request_bool(x, r, "add_special_tokens", &o->add_special_tokens))
        return false;
    o->add_generation_prompt = !o->continue_final_message;
    if (!glyd_request_bool(x, r, "add_generation_prompt", &o->add_generation_prompt))
        return false;
    if (o->continue_final_message && o->add_generation_prompt) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "continue_final_message",
                           "continue_final_message and add_generation_prompt cannot both be true.");
        return false;
    }
    return glyd_messages_check(x, o->messages);
}

/* Cut what the template wrote after the last message's own text. */
static glyd_status cut_after_last(const json_t *messages, glyd_buf *text, glyd_error *err)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const json_t *content = json_object_get(last, "content");
    const char *own = json_string_value(content);
    size_t n = json_string_length(content);
    while (n > 0 && strchr(" \t\n\r", own[n - 1])) /* templates trim */
        n--;
    for (size_t at = text->bytes + 1; n > 0 && at-- > n;) {
        if (memcmp(text->data + at - n, own, n) == 0) {
            text->bytes = at;
            return GLYD_OK;
        }
    }
    GLYD_FAIL(err, GLYD_E_ARG,
              "continue_final_message: the last message has no text that the template keeps");
}

static glyd_status render(const glyd_server *server, const glyd_template *template,
                          const glyd_prompt_options *o, const json_t *messages, glyd_buf *text,
                          glyd_error *err)
{
    time_t seconds = time(NULL);
    struct tm now;
    glyd_template_input input = {.messages = messages,
                                 .tools = o->tools,
                                 .add_generation_prompt = o->add_generation_prompt,
                                 .special_tokens = server->special_tokens,
                                 .extra = o->extra,
                                 .now = localtime_r(&seconds, &now)};
    GLYD_TRY(glyd_template_render(template, &input, NULL, text, err));
    return o->continue_final_message ? cut_after_last(messages, text, err) : GLYD_OK;
}

/* The request's own template, or the model's. */
static glyd_status render_with(const glyd_server *server, const glyd_prompt_options *o,
                               const json_t *messages, glyd_buf *text, glyd_error *err)
{
    glyd_template *own = NULL;
    if (!o->chat_template && !server->template)
        GLYD_FAIL(err, GLYD_E_ARG,
                  "the model has no chat template: use /v1/completions, or send a chat_template");
    if (o->chat_template)
        GLYD_TRY(glyd_template_compile(
            (glyd_span){(const uint8_t *)o->chat_template, strlen(o->chat_template)}, &own, err));
    glyd_status status = render(server, own ? own : server->template, o, messages, text, err);
    glyd_template_free(own);
    return status;
}

bool glyd_prompt_render(glyd_exchange *x, const glyd_prompt_options *o, glyd_ids *ids,
                        glyd_buf *text)
{
    glyd_buf own = {0}, *out = text ? text : &own;
    json_t *messages = NULL;
    glyd_error error;
    glyd_status status =
        glyd_answer_messages_for_template(&x->server->format, o->messages, &messages, &error);
    if (status == GLYD_OK)
        status = render_with(x->server, o, messages, out, &error);
    /* A template writes the special tokens out itself: none are added twice. */
    unsigned flags =
        GLYD_ENCODE_PARSE_SPECIAL | (o->add_special_tokens ? GLYD_ENCODE_ADD_SPECIAL : 0);
    if (status == GLYD_OK)
        status = glyd_tokenizer_encode(x->server->tokenizer, (const char *)out->data, out->bytes,
                                       flags, ids, &error);
    if (status == GLYD_OK)
        glyd_log_prompt(x, (glyd_span){out->data, out->bytes});
    else
        glyd_exchange_fail_status(x, "messages", &error);
    json_decref(messages);
    glyd_buf_free(&own);
    return status == GLYD_OK;
}
