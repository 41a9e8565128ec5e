/* glyd_template_tool.c - renders chat templates for the oracle tests.
 *
 * Reads one JSON object a line from stdin: {"template": text, "input": {"messages": [...],
 * "tools": [...], "documents": [...], "add_generation_prompt": bool, "special_tokens": {...},
 * "extra": {...}}}; writes one a line: {"text": ...} or {"error": ..., "status": n}. The date is
 * 2024-07-26 09:05:03, a Friday.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "text/template.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tm now = {
    .tm_year = 124,
    .tm_mon = 6,
    .tm_mday = 26,
    .tm_hour = 9,
    .tm_min = 5,
    .tm_sec = 3,
    .tm_wday = 5,
    .tm_yday = 207,
};

static glyd_status render(const json_t *request, glyd_buf *out, glyd_error *err)
{
    const json_t *text = json_object_get(request, "template");
    const json_t *input = json_object_get(request, "input");
    const char *name = json_string_value(text);
    glyd_template *tmpl;
    glyd_status status = glyd_template_compile(
        (glyd_span){(const uint8_t *)name, name ? json_string_length(text) : 0}, &tmpl, err);
    if (status != GLYD_OK)
        return status;
    glyd_template_input in = {
        .messages = json_object_get(input, "messages"),
        .tools = json_object_get(input, "tools"),
        .documents = json_object_get(input, "documents"),
        .add_generation_prompt = json_is_true(json_object_get(input, "add_generation_prompt")),
        .special_tokens = json_object_get(input, "special_tokens"),
        .extra = json_object_get(input, "extra"),
        .now = &now,
    };
    status = glyd_template_render(tmpl, &in, NULL, out, err);
    glyd_template_free(tmpl);
    return status;
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    while ((n = getline(&line, &capacity, stdin)) > 0) {
        json_t *request = json_loadb(line, (size_t)n, 0, NULL);
        glyd_buf out = {0};
        glyd_error err = {GLYD_E_ARG, "not a JSON object"};
        glyd_status status = request ? render(request, &out, &err) : GLYD_E_ARG;
        json_t *answer =
            status == GLYD_OK
                ? json_pack("{s:s%}", "text", out.data ? (const char *)out.data : "", out.bytes)
                : json_pack("{s:s, s:i}", "error", err.text, "status", (int)status);
        char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
        puts(text ? text : "{\"error\":\"the result is not UTF-8\",\"status\":-1}");
        free(text);
        json_decref(answer);
        json_decref(request);
        glyd_buf_free(&out);
    }
    free(line);
    return 0;
}
