/* fuzz_answer.c - any bytes as an answer in any format: whole, byte by byte and cut at random they
 * give the same events in a proper order.
 *
 * The first byte picks the format, the second the options and the seed of the cuts.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../unit/answer_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char tools_text[] =
    "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": {\"type\": "
    "\"string\"}, \"i\": {\"type\": [\"integer\", \"null\"]}, \"o\": {\"anyOf\": [{\"type\": "
    "\"object\"}, {\"enum\": [true, \"x\"]}]}}}}}]";

/* How many bytes come next. */
typedef size_t (*step_fn)(uint32_t *seed);

static size_t all(uint32_t *seed)
{
    (void)seed;
    return SIZE_MAX;
}

static size_t one(uint32_t *seed)
{
    (void)seed;
    return 1;
}

static size_t some(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 16) % 9;
}

static void run(const glyd_answer_format *format, const glyd_answer_options *options,
                const uint8_t *data, size_t bytes, step_fn step, uint32_t seed, answer_log *log)
{
    glyd_answer *answer;
    *log = (answer_log){.last = -1, .takes_any = true};
    LOG_NEED(glyd_answer_create(format, options, log_event, log, &answer, NULL) == GLYD_OK);
    for (size_t i = 0; i < bytes;) {
        size_t n = step(&seed);
        n = n > bytes - i ? bytes - i : n;
        LOG_NEED(glyd_answer_push(answer, -1, (const char *)data + i, n, NULL) == GLYD_OK);
        i += n;
    }
    LOG_NEED(glyd_answer_finish(answer, NULL) == GLYD_OK);
    LOG_NEED(log->n_begun == log->n_ended && log->n_begun == glyd_answer_n_calls(answer));
    LOG_NEED(!options->is_single || log->n_begun <= 1);
    log_close(log);
    glyd_answer_free(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const step_fn steps[] = {all, one, some};
    answer_log logs[3];
    glyd_answer_format format;
    if (bytes < 2)
        return 0;
    json_t *tools = json_loads(tools_text, 0, NULL);
    LOG_NEED(glyd_answer_format_choose(
                 NULL, (glyd_span){NULL, 0}, NULL,
                 glyd_answer_calls_name(data[0] % GLYD_ANSWER_CALLS_KINDS),
                 glyd_answer_reasoning_name(data[0] / 8 % GLYD_ANSWER_REASONING_KINDS), &format,
                 NULL) == GLYD_OK);
    glyd_answer_options options = {.tools = data[1] % 3,
                                   .is_single = data[1] & 4,
                                   .is_reasoning = data[1] & 8,
                                   .tool_list = data[1] & 16 ? NULL : tools};
    for (int i = 0; i < 3; i++) {
        run(&format, &options, data + 2, bytes - 2, steps[i], data[1], &logs[i]);
        LOG_NEED(logs[i].text.bytes == logs[0].text.bytes);
        LOG_NEED(!logs[0].text.bytes ||
                 memcmp(logs[i].text.data, logs[0].text.data, logs[0].text.bytes) == 0);
    }
    for (int i = 0; i < 3; i++)
        glyd_buf_free(&logs[i].text);
    json_decref(tools);
    return 0;
}
