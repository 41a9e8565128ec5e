/* messages_input.c - Anthropic's messages, system text and tools in OpenAI's chat form.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/messages_input.h"
#include "base/buf.h"
#include "server/errors.h"
#include "server/prompt.h"
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

static bool fail_nomem(glyd_exchange *x)
{
    glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    return false;
}

static const char *type_of(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    return type ? type : "";
}

/* The text of a string or of a list of text blocks, appended. */
static bool append_text(glyd_exchange *x, const char *param, const json_t *value, glyd_buf *text)
{
    const json_t *block;
    size_t i;
    if (json_is_string(value))
        return glyd_buf_append(text, json_string_value(value), json_string_length(value)) ==
                   GLYD_OK ||
               fail_nomem(x);
    if (!json_is_array(value))
        return wrong(x, param, "%s must be a string or a list of blocks.", param);
    json_array_foreach((json_t *)value, i, block)
    {
        const json_t *piece = json_object_get(block, "text");
        if (strcmp(type_of(block), "text") != 0 || !json_is_string(piece))
            return wrong(x, param, "Blocks of type %.60s are not supported here: text is.",
                         type_of(block));
        if ((text->bytes > 0 && glyd_buf_append(text, "\n", 1) != GLYD_OK) ||
            glyd_buf_append(text, json_string_value(piece), json_string_length(piece)) != GLYD_OK)
            return fail_nomem(x);
    }
    return true;
}

static bool add_system(glyd_exchange *x, json_t *messages)
{
    const json_t *system = glyd_request_member(x->request, "system");
    glyd_buf text = {0};
    bool is_added = !system || append_text(x, "system", system, &text);
    if (is_added && system &&
        !glyd_array_add(
            messages, json_pack("{s:s, s:o}", "role", "system", "content", glyd_text_json(&text))))
        is_added = fail_nomem(x);
    glyd_buf_free(&text);
    return is_added;
}

/* A message that is being put together from blocks. */
typedef struct draft {
    json_t *messages;
    glyd_buf text, reasoning;
    json_t *calls;
    bool has_text;
} draft;

static bool add_call(glyd_exchange *x, draft *d, const json_t *block)
{
    const json_t *input = json_object_get(block, "input");
    const json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name");
    glyd_buf text = {0};
    if (!json_is_string(id) || !json_is_string(name) || !json_is_object(input))
        return wrong(x, "messages", "a %s block needs id, name and input.", "tool_use");
    if (!d->calls)
        d->calls = json_array();
    bool is_added = glyd_json_append(&text, input) == GLYD_OK &&
                    glyd_array_add(d->calls, json_pack("{s:O, s:s, s:{s:O, s:o}}", "id", id, "type",
                                                       "function", "function", "name", name,
                                                       "arguments", glyd_text_json(&text)));
    glyd_buf_free(&text);
    return is_added || fail_nomem(x);
}

static bool add_result(glyd_exchange *x, draft *d, const json_t *block)
{
    const json_t *id = json_object_get(block, "tool_use_id");
    const json_t *content = glyd_request_member(block, "content");
    glyd_buf text = {0};
    if (!json_is_string(id))
        return wrong(x, "messages", "a %s block needs tool_use_id.", "tool_result");
    bool is_read = !content || append_text(x, "messages", content, &text);
    bool is_added =
        is_read &&
        glyd_array_add(d->messages, json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id,
                                              "content", glyd_text_json(&text)));
    glyd_buf_free(&text);
    return is_added || (is_read && fail_nomem(x));
}

static bool take_block(glyd_exchange *x, draft *d, const json_t *block)
{
    const char *type = type_of(block);
    const json_t *text = json_object_get(block, strcmp(type, "thinking") ? "text" : "thinking");
    if (strcmp(type, "tool_use") == 0)
        return add_call(x, d, block);
    if (strcmp(type, "tool_result") == 0)
        return add_result(x, d, block);
    if (strcmp(type, "redacted_thinking") == 0)
        return true;
    if ((strcmp(type, "text") != 0 && strcmp(type, "thinking") != 0) || !json_is_string(text))
        return wrong(x, "messages",
                     "Content of type %.60s is not supported: this model reads text alone.", type);
    glyd_buf *to = strcmp(type, "text") == 0 ? &d->text : &d->reasoning;
    if (to->bytes > 0 && glyd_buf_append(to, "\n", 1) != GLYD_OK)
        return fail_nomem(x);
    d->has_text = d->has_text || to == &d->text;
    return glyd_buf_append(to, json_string_value(text), json_string_length(text)) == GLYD_OK ||
           fail_nomem(x);
}

/* What there is beside tool results. */
static bool finish_draft(glyd_exchange *x, draft *d, const char *role)
{
    if (!d->has_text && !d->calls && d->reasoning.bytes == 0)
        return true;
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content",
                                d->has_text ? glyd_text_json(&d->text) : json_null());
    if (message && d->calls)
        json_object_set(message, "tool_calls", d->calls);
    if (message && d->reasoning.bytes > 0)
        json_object_set_new(message, "reasoning", glyd_text_json(&d->reasoning));
    return glyd_array_add(d->messages, message) || fail_nomem(x);
}

static bool add_message(glyd_exchange *x, json_t *messages, const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content"), *block;
    size_t i;
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        return wrong(x, "messages", "messages: role must be %s.", "user or assistant");
    if (json_is_string(content))
        return glyd_array_add(messages,
                              json_pack("{s:s, s:O}", "role", role, "content", content)) ||
               fail_nomem(x);
    if (!json_is_array(content))
        return wrong(x, "messages", "messages: content must be a %s.",
                     "string or a list of blocks");
    draft d = {.messages = messages};
    bool is_taken = true;
    json_array_foreach((json_t *)content, i, block)
    {
        is_taken = is_taken && take_block(x, &d, block);
    }
    is_taken = is_taken && finish_draft(x, &d, role);
    json_decref(d.calls);
    glyd_buf_free(&d.text);
    glyd_buf_free(&d.reasoning);
    return is_taken;
}

static bool read_tools(glyd_exchange *x, glyd_messages_input *input)
{
    const json_t *tools = glyd_request_member(x->request, "tools"), *tool;
    size_t i;
    if (!tools || (json_is_array(tools) && json_array_size(tools) == 0))
        return true;
    if (!json_is_array(tools))
        return wrong(x, "tools", "tools must be a %s.", "list");
    input->tools = json_array();
    json_array_foreach((json_t *)tools, i, tool)
    {
        const json_t *name = json_object_get(tool, "name");
        const json_t *schema = json_object_get(tool, "input_schema");
        if (!json_is_string(name) || !json_is_object(schema))
            return wrong(x, "tools", "a tool needs a name and an %s.", "input_schema");
        json_t *function =
            json_pack("{s:O, s:O*, s:O}", "name", name, "description",
                      glyd_request_member(tool, "description"), "parameters", schema);
        if (!glyd_array_add(input->tools,
                            json_pack("{s:s, s:o}", "type", "function", "function", function)))
            return fail_nomem(x);
    }
    return true;
}

static bool read_choice(glyd_exchange *x, glyd_messages_input *input)
{
    const json_t *choice = glyd_request_member(x->request, "tool_choice");
    const char *type = choice ? type_of(choice) : "auto";
    bool is_single = false;
    if (!glyd_request_bool(x, choice, "disable_parallel_tool_use", &is_single))
        return false;
    input->is_single = is_single;
    if (!input->tools || strcmp(type, "none") == 0) {
        input->choice = GLYD_TOOLS_NONE;
        return true;
    }
    input->choice = strcmp(type, "auto") == 0 ? GLYD_TOOLS_AUTO : GLYD_TOOLS_FORCED;
    if (strcmp(type, "auto") == 0 || strcmp(type, "any") == 0)
        return true;
    input->tool_name = json_string_value(json_object_get(choice, "name"));
    if (strcmp(type, "tool") != 0 || !input->tool_name)
        return wrong(x, "tool_choice", "tool_choice must be %s.",
                     "auto, any, none, or name a tool");
    input->is_single = true;
    return true;
}

static bool read_thinking(glyd_exchange *x, glyd_messages_input *input)
{
    const json_t *thinking = glyd_request_member(x->request, "thinking");
    if (!thinking)
        return true;
    bool is_off = strcmp(type_of(thinking), "disabled") == 0;
    input->kwargs = json_pack("{s:b}", "enable_thinking", !is_off);
    return input->kwargs || fail_nomem(x);
}

bool glyd_messages_input_read(glyd_exchange *x, glyd_messages_input *input)
{
    const json_t *given = glyd_request_member(x->request, "messages"), *message;
    size_t i;
    if (!json_is_array(given) || json_array_size(given) == 0)
        return wrong(x, "messages", "messages: a %s is needed.", "list of messages");
    input->messages = json_array();
    if (!input->messages)
        return fail_nomem(x);
    if (!add_system(x, input->messages))
        return false;
    json_array_foreach((json_t *)given, i, message)
    {
        if (!add_message(x, input->messages, message))
            return false;
    }
    return read_tools(x, input) && read_choice(x, input) && read_thinking(x, input) &&
           glyd_messages_check(x, input->messages);
}

void glyd_messages_input_drop(glyd_messages_input *input)
{
    json_decref(input->messages);
    json_decref(input->tools);
    json_decref(input->kwargs);
}
