/* glyd_answer_tool.c - messages made ready and rendered, and answers taken apart, for
 * test_answer.py.
 *
 * Reads one JSON object a line from stdin: {"template": text, "messages": [...], "tools": [...],
 * "extra": {...}, "special_tokens": {...}, "prompt": bool}, and perhaps "answer": text, which is
 * parsed in the template's format. Writes one a line: {"messages", "text", "content", "calls"} or
 * {"error", "status"}.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "text/answer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tm now = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_wday = 5};

typedef struct parsed {
    glyd_buf content, arguments;
    json_t *calls;
} parsed;

static glyd_status take(void *arg, const glyd_answer_event *e, glyd_error *err)
{
    parsed *p = arg;
    const char *text = (const char *)e->text.data;
    (void)err;
    switch (e->kind) {
    case GLYD_ANSWER_CONTENT:
        return glyd_buf_append(&p->content, text, e->text.bytes);
    case GLYD_ANSWER_REASONING:
        return GLYD_OK;
    case GLYD_ANSWER_CALL_BEGIN:
        p->arguments.bytes = 0;
        return json_array_append_new(p->calls, json_pack("{s:s%}", "name", text, e->text.bytes))
                   ? GLYD_E_NOMEM
                   : GLYD_OK;
    case GLYD_ANSWER_CALL_ARGUMENTS:
        return glyd_buf_append(&p->arguments, text, e->text.bytes);
    case GLYD_ANSWER_CALL_END:
        break;
    }
    json_t *call = json_array_get(p->calls, (size_t)e->index);
    json_object_set_new(call, "arguments",
                        json_stringn((const char *)p->arguments.data, p->arguments.bytes));
    return GLYD_OK;
}

static json_t *text_value(const glyd_buf *buf)
{
    return json_stringn(buf->data ? (const char *)buf->data : "", buf->bytes);
}

static glyd_status parse(const glyd_answer_format *format, const json_t *request, json_t *reply,
                         glyd_error *err)
{
    const json_t *text = json_object_get(request, "answer");
    if (!text)
        return GLYD_OK;
    glyd_answer_options options = {.tools = GLYD_TOOLS_AUTO,
                                   .tool_list = json_object_get(request, "tools")};
    parsed p = {.calls = json_array()};
    glyd_answer *answer;
    glyd_status status = glyd_answer_create(format, &options, take, &p, &answer, err);
    if (status != GLYD_OK)
        return status;
    status = glyd_answer_push(answer, -1, json_string_value(text), json_string_length(text), err);
    if (status == GLYD_OK)
        status = glyd_answer_finish(answer, err);
    json_object_set_new(reply, "calls", p.calls);
    json_object_set_new(reply, "content", text_value(&p.content));
    glyd_answer_free(answer);
    glyd_buf_free(&p.content);
    glyd_buf_free(&p.arguments);
    return status;
}

static glyd_status render(const glyd_template *tmpl, const json_t *messages, const json_t *request,
                          json_t *reply, glyd_error *err)
{
    glyd_buf out = {0};
    glyd_template_input input = {.messages = messages,
                                 .tools = json_object_get(request, "tools"),
                                 .add_generation_prompt =
                                     json_is_true(json_object_get(request, "prompt")),
                                 .special_tokens = json_object_get(request, "special_tokens"),
                                 .extra = json_object_get(request, "extra"),
                                 .now = &now};
    glyd_status status = glyd_template_render(tmpl, &input, NULL, &out, err);
    if (status == GLYD_OK)
        json_object_set_new(reply, "text", text_value(&out));
    glyd_buf_free(&out);
    return status;
}

static glyd_status answer(const json_t *request, json_t *reply, glyd_error *err)
{
    const json_t *source = json_object_get(request, "template");
    glyd_span text = {(const uint8_t *)json_string_value(source), json_string_length(source)};
    glyd_answer_format format;
    glyd_template *tmpl = NULL;
    json_t *messages = NULL;
    glyd_status status = glyd_answer_format_choose(NULL, text, NULL, NULL, NULL, &format, err);
    if (status == GLYD_OK)
        status = parse(&format, request, reply, err);
    if (status == GLYD_OK)
        status = glyd_template_compile(text, &tmpl, err);
    if (status == GLYD_OK)
        status = glyd_answer_messages_for_template(&format, json_object_get(request, "messages"),
                                                   &messages, err);
    if (status == GLYD_OK) {
        json_object_set_new(reply, "messages", messages);
        status = render(tmpl, messages, request, reply, err);
    }
    glyd_template_free(tmpl);
    return status;
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    while ((n = getline(&line, &capacity, stdin)) > 0) {
        json_t *request = json_loadb(line, (size_t)n, 0, NULL), *reply = json_object();
        glyd_error err = {GLYD_E_ARG, "not a JSON object"};
        glyd_status status = request ? answer(request, reply, &err) : GLYD_E_ARG;
        if (status != GLYD_OK) {
            json_decref(reply);
            reply = json_pack("{s:s, s:i}", "error", err.text, "status", (int)status);
        }
        char *text = json_dumps(reply, JSON_COMPACT);
        puts(text ? text : "{\"error\": \"out of memory\", \"status\": 30}");
        free(text);
        json_decref(reply);
        json_decref(request);
    }
    free(line);
    return 0;
}
