/* responses_input.c - /v1/responses' input items as chat messages.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/responses_input.h"
#include "base/buf.h"
#include "server/errors.h"
#include "server/reply.h"
#include "server/request.h"
#include <microhttpd.h>
#include <string.h>

static bool wrong(glyd_exchange *x, const char *param, const char *format, const char *detail)
{
    char text[256];
    snprintf(text, sizeof text, format, detail);
    glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, param, "%s", text);
    return false;
}

/* The last message where it is an assistant's that may take more calls, else a new one. */
static json_t *open_assistant(json_t *messages)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    if (role && strcmp(role, "assistant") == 0)
        return last;
    last = json_pack("{s:s, s:n}", "role", "assistant", "content");
    return glyd_array_add(messages, last) ? last : NULL;
}

static bool add_call(glyd_exchange *x, json_t *messages, const json_t *item)
{
    const json_t *name = json_object_get(item, "name"), *id = json_object_get(item, "call_id");
    const json_t *arguments = json_object_get(item, "arguments");
    if (!json_is_string(name) || !json_is_string(id) || !json_is_string(arguments))
        return wrong(x, "input", "a %s needs call_id, name and arguments.", "function_call");
    json_t *message = open_assistant(messages), *calls = json_object_get(message, "tool_calls");
    if (message && !calls) {
        calls = json_array();
        json_object_set_new(message, "tool_calls", calls);
    }
    return glyd_array_add(calls, json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function",
                                           "function", "name", name, "arguments", arguments));
}

static bool add_output(glyd_exchange *x, json_t *messages, const json_t *item)
{
    const json_t *id = json_object_get(item, "call_id"), *output = json_object_get(item, "output");
    if (!json_is_string(id) || !(json_is_string(output) || json_is_array(output)))
        return wrong(x, "input", "a %s needs call_id and output.", "function_call_output");
    return glyd_array_add(messages, json_pack("{s:s, s:O, s:O}", "role", "tool", "tool_call_id", id,
                                              "content", output));
}

/* A turn's own reasoning goes to the assistant's message that follows it. */
static bool add_reasoning(json_t *messages, const json_t *item)
{
    const json_t *content = json_object_get(item, "content"), *part;
    glyd_buf text = {0};
    size_t i;
    json_array_foreach((json_t *)content, i, part)
    {
        const json_t *piece = json_object_get(part, "text");
        if (json_is_string(piece) &&
            glyd_buf_append(&text, json_string_value(piece), json_string_length(piece)) != GLYD_OK)
            text.bytes = 0;
    }
    bool is_added = true;
    if (text.bytes > 0)
        is_added =
            glyd_array_add(messages, json_pack("{s:s, s:n, s:o}", "role", "assistant", "content",
                                               "reasoning", glyd_text_json(&text)));
    glyd_buf_free(&text);
    return is_added;
}

/* An assistant's text after its reasoning is one message with it. */
static bool add_message(json_t *messages, const json_t *item)
{
    const char *role = json_string_value(json_object_get(item, "role"));
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    json_t *content = json_object_get(item, "content"); /* NULL: it has none */
    if (role && strcmp(role, "assistant") == 0 && json_object_get(last, "reasoning") &&
        json_is_null(json_object_get(last, "content")) && !json_object_get(last, "tool_calls"))
        return !content || json_object_set(last, "content", content) == 0;
    return glyd_array_add(messages, json_pack("{s:O?, s:O?}", "role", json_object_get(item, "role"),
                                              "content", content));
}

static bool add_item(glyd_exchange *x, json_t *messages, const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    if (!json_is_object(item))
        return wrong(x, "input", "input has an item that is not an %s.", "object");
    if (!type || strcmp(type, "message") == 0)
        return add_message(messages, item);
    if (strcmp(type, "function_call") == 0)
        return add_call(x, messages, item);
    if (strcmp(type, "function_call_output") == 0)
        return add_output(x, messages, item);
    if (strcmp(type, "reasoning") == 0)
        return add_reasoning(messages, item);
    return wrong(x, "input", "input items of type %.60s are not supported.", type);
}

json_t *glyd_responses_messages(glyd_exchange *x)
{
    const json_t *input = glyd_request_member(x->request, "input"), *item;
    const json_t *instructions = glyd_request_member(x->request, "instructions");
    size_t i;
    if (instructions && !json_is_string(instructions)) {
        (void)wrong(x, "instructions", "instructions must be a %s.", "string");
        return NULL;
    }
    json_t *messages = json_array();
    bool is_added = messages != NULL;
    if (instructions)
        is_added = glyd_array_add(
            messages, json_pack("{s:s, s:O}", "role", "system", "content", instructions));
    if (json_is_string(input)) {
        is_added = is_added && glyd_array_add(messages, json_pack("{s:s, s:O}", "role", "user",
                                                                  "content", input));
    } else if (json_is_array(input)) {
        json_array_foreach((json_t *)input, i, item)
        {
            is_added = is_added && add_item(x, messages, item);
        }
    } else {
        is_added = wrong(x, "input", "input must be a string or a %s.", "list of items");
    }
    if (is_added)
        return messages;
    json_decref(messages);
    if (x->phase == GLYD_PHASE_WORKING)
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    return NULL;
}

bool glyd_responses_tools(glyd_exchange *x, json_t **tools)
{
    const json_t *given = glyd_request_member(x->request, "tools"), *tool;
    size_t i;
    *tools = NULL;
    if (!given || (json_is_array(given) && json_array_size(given) == 0))
        return true;
    if (!json_is_array(given))
        return wrong(x, "tools", "tools must be a %s.", "list");
    *tools = json_array();
    json_array_foreach((json_t *)given, i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type"));
        if (!type || strcmp(type, "function") != 0)
            return wrong(x, "tools", "tools of type %.60s are not supported: function is.",
                         type ? type : "?");
        json_t *function = json_pack(
            "{s:O?, s:O*, s:O*, s:O*}", "name", json_object_get(tool, "name"), "description",
            glyd_request_member(tool, "description"), "parameters",
            glyd_request_member(tool, "parameters"), "strict", glyd_request_member(tool, "strict"));
        glyd_array_add(*tools, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    return true;
}
