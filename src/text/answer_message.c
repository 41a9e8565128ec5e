/* answer_message.c - a client's messages as chat templates want them, and the ids of calls.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/sha256.h"
#include "text/answer_parser.h"
#include <stdio.h>
#include <string.h>

enum { SHORT_ID_LENGTH = 9 };

static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* --- ids --- */

void glyd_answer_call_id(const glyd_answer_format *format, const uint8_t random[16],
                         char id[GLYD_CALL_ID_BYTES])
{
    if (format->has_short_ids) {
        for (int i = 0; i < SHORT_ID_LENGTH; i++)
            id[i] = letters[random[i] % (sizeof letters - 1)];
        id[SHORT_ID_LENGTH] = 0;
        return;
    }
    int n = snprintf(id, GLYD_CALL_ID_BYTES, "chatcmpl-tool-");
    for (int i = 0; i < 16; i++)
        n += snprintf(id + n, GLYD_CALL_ID_BYTES - (size_t)n, "%02x", random[i]);
}

static bool is_short_id(const char *id)
{
    return strlen(id) == SHORT_ID_LENGTH && strspn(id, letters) == SHORT_ID_LENGTH;
}

/* --- copies and members --- */

static glyd_status no_memory(glyd_error *err)
{
    GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the messages");
}

/* A shallow copy: what changes in it is copied where it changes. NULL when out of memory, which
 * jansson's own copy answers by leaving members out. */
static json_t *copy_of(const json_t *value)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)value);
    if (json_object_size(copy) == json_object_size(value) &&
        json_array_size(copy) == json_array_size(value))
        return copy;
    json_decref(copy);
    return NULL;
}

/* Set a member to a value that is given away. */
static glyd_status set(json_t *object, const char *key, json_t *value, glyd_error *err)
{
    return value && json_object_set_new(object, key, value) == 0 ? GLYD_OK : no_memory(err);
}

/* A member by the name of an id: shortened where the format wants that. */
static glyd_status fix_id(const glyd_answer_format *format, json_t *object, const char *key,
                          glyd_error *err)
{
    const char *id = json_string_value(json_object_get(object, key));
    char hex[GLYD_SHA256_HEX_BYTES];
    if (!format->has_short_ids || !id || is_short_id(id))
        return GLYD_OK;
    if (glyd_sha256_of(id, strlen(id), hex) != GLYD_OK)
        return no_memory(err);
    return set(object, key, json_stringn(hex, SHORT_ID_LENGTH), err);
}

/* --- content --- */

static glyd_status join_parts(const json_t *parts, size_t i_message, glyd_buf *text,
                              glyd_error *err)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const json_t *own = json_is_string(part) ? part : json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        bool is_text = !type || strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 ||
                       strcmp(type, "output_text") == 0;
        if (!is_text)
            GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                      "messages[%zu].content[%zu]: a part of type \"%s\"; only text is read",
                      i_message, i, type);
        if (!json_is_string(own))
            GLYD_FAIL(err, GLYD_E_FORMAT, "messages[%zu].content[%zu]: no text", i_message, i);
        if ((i > 0 && glyd_buf_append(text, "\n", 1) != GLYD_OK) ||
            glyd_buf_append(text, json_string_value(own), json_string_length(own)) != GLYD_OK)
            return no_memory(err);
    }
    return GLYD_OK;
}

static glyd_status fix_content(json_t *message, size_t i_message, glyd_error *err)
{
    const json_t *content = json_object_get(message, "content");
    if (json_is_string(content))
        return GLYD_OK;
    if (!content || json_is_null(content))
        return set(message, "content", json_string(""), err);
    if (!json_is_array(content))
        GLYD_FAIL(err, GLYD_E_FORMAT,
                  "messages[%zu].content: must be text, an array of parts, or null", i_message);
    glyd_buf text = {0};
    glyd_status status = join_parts(content, i_message, &text, err);
    if (status == GLYD_OK)
        status = set(message, "content",
                     json_stringn(text.data ? (const char *)text.data : "", text.bytes), err);
    glyd_buf_free(&text);
    return status;
}

/* --- calls --- */

static glyd_status fix_arguments(json_t *function, glyd_error *err)
{
    const json_t *arguments = json_object_get(function, "arguments");
    const char *text = json_string_value(arguments);
    if (!arguments || json_is_null(arguments))
        return set(function, "arguments", json_object(), err);
    if (!text)
        return GLYD_OK;
    if (text[strspn(text, " \n\r\t")] == 0)
        return set(function, "arguments", json_object(), err);
    json_t *value;
    GLYD_TRY(glyd_answer_json_decode(text, json_string_length(arguments), &value, err));
    return value ? set(function, "arguments", value, err) : GLYD_OK;
}

static glyd_status fix_call(const glyd_answer_format *format, json_t *call, size_t i_message,
                            size_t i_call, glyd_error *err)
{
    const json_t *old = json_object_get(call, "function");
    if (!json_is_string(json_object_get(old, "name")))
        GLYD_FAIL(err, GLYD_E_FORMAT, "messages[%zu].tool_calls[%zu]: no function with a name",
                  i_message, i_call);
    GLYD_TRY(fix_id(format, call, "id", err));
    GLYD_TRY(set(call, "function", copy_of(old), err));
    return fix_arguments(json_object_get(call, "function"), err);
}

static glyd_status fix_calls(const glyd_answer_format *format, json_t *message, size_t i_message,
                             glyd_error *err)
{
    const json_t *old = json_object_get(message, "tool_calls");
    if (!old)
        return GLYD_OK;
    if (!json_is_array(old))
        GLYD_FAIL(err, GLYD_E_FORMAT, "messages[%zu].tool_calls: must be an array", i_message);
    if (json_array_size(old) == 0) {
        json_object_del(message, "tool_calls");
        return GLYD_OK;
    }
    size_t n = json_array_size(old);
    json_t *calls = copy_of(old);
    GLYD_TRY(set(message, "tool_calls", calls, err));
    for (size_t i = 0; i < n; i++) {
        json_t *call = copy_of(json_array_get(calls, i));
        if (!call || json_array_set_new(calls, i, call) != 0)
            return no_memory(err);
        GLYD_TRY(fix_call(format, call, i_message, i, err));
    }
    return GLYD_OK;
}

/* --- the rest --- */

static void drop_nulls(json_t *message)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(message, next, key, value)
    {
        if (json_is_null(value))
            json_object_del(message, key);
    }
}

static glyd_status fix_reasoning(json_t *message, glyd_error *err)
{
    static const char *const keys[] = {"reasoning_content", "reasoning"};
    for (size_t i = 0; i < 2; i++) {
        json_t *text = json_object_get(message, keys[i]);
        if (json_is_string(text))
            return set(message, keys[1 - i], json_incref(text), err);
    }
    return GLYD_OK;
}

static glyd_status fix(const glyd_answer_format *format, json_t *message, size_t i, glyd_error *err)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!role)
        GLYD_FAIL(err, GLYD_E_FORMAT, "messages[%zu]: no role", i);
    drop_nulls(message);
    GLYD_TRY(fix_content(message, i, err));
    role = json_string_value(json_object_get(message, "role"));
    if (strcmp(role, "developer") == 0 && !format->knows_developer)
        GLYD_TRY(set(message, "role", json_string("system"), err));
    GLYD_TRY(fix_reasoning(message, err));
    GLYD_TRY(fix_id(format, message, "tool_call_id", err));
    return fix_calls(format, message, i, err);
}

glyd_status glyd_answer_message_for_template(const glyd_answer_format *format,
                                             const json_t *message, size_t i, json_t **out,
                                             glyd_error *err)
{
    if (!json_is_object(message))
        GLYD_FAIL(err, GLYD_E_FORMAT, "messages[%zu]: must be an object", i);
    json_t *copy = copy_of(message);
    if (!copy)
        return no_memory(err);
    glyd_status status = fix(format, copy, i, err);
    if (status != GLYD_OK)
        json_decref(copy);
    else
        *out = copy;
    return status;
}

glyd_status glyd_answer_messages_for_template(const glyd_answer_format *format,
                                              const json_t *messages, json_t **out, glyd_error *err)
{
    if (!json_is_array(messages))
        GLYD_FAIL(err, GLYD_E_FORMAT, "messages: must be an array");
    json_t *made = json_array();
    glyd_status status = made ? GLYD_OK : no_memory(err);
    for (size_t i = 0; status == GLYD_OK && i < json_array_size(messages); i++) {
        json_t *message;
        status =
            glyd_answer_message_for_template(format, json_array_get(messages, i), i, &message, err);
        if (status == GLYD_OK && json_array_append_new(made, message) != 0)
            status = no_memory(err);
    }
    if (status != GLYD_OK)
        json_decref(made);
    else
        *out = made;
    return status;
}
