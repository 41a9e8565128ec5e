/* fuzz_template.c - any bytes as a chat template, rendered with a fixed conversation.
 *
 * The first byte picks small limits, so that runs end quickly and their edges are hit.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/template.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" Be \\u00e9xact.\\n\"},"
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a,b\\u2028c\"}, 1.5]},"
    "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"abcdefgh1\","
    "\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, -2.5e-7, true, {}]}}}]},"
    "{\"role\": \"tool\", \"content\": \"{}\"}],"
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}],"
    "\"extra\": {\"s\": \"Stra\\u00dfe \\ud83d\\udc4d\", \"n\": 9223372036854775807, \"b\": "
    "false}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct tm now = {.tm_year = 124, .tm_mday = 1};
    if (bytes == 0)
        return 0;
    glyd_template_limits limits = {
        .steps = 20000, .depth = 200, .output_bytes = 1 << 16, .memory_bytes = 4 << 20};
    if (data[0] == '!')
        limits = (glyd_template_limits){
            .steps = 300, .depth = 12, .output_bytes = 64, .memory_bytes = 1 << 16};
    glyd_error err = {0};
    glyd_template *tmpl;
    if (glyd_template_compile((glyd_span){data + 1, bytes - 1}, &tmpl, &err) != GLYD_OK)
        return 0;
    json_t *input = json_loads(conversation, 0, NULL);
    glyd_buf out = {0};
    glyd_template_input in = {
        .messages = json_object_get(input, "messages"),
        .tools = json_object_get(input, "tools"),
        .add_generation_prompt = true,
        .extra = json_object_get(input, "extra"),
        .now = &now,
    };
    glyd_status status = glyd_template_render(tmpl, &in, &limits, &out, &err);
    if (status == GLYD_OK ? out.bytes > limits.output_bytes : out.bytes || !err.text[0])
        abort();
    json_decref(input);
    glyd_buf_free(&out);
    glyd_template_free(tmpl);
    return 0;
}
