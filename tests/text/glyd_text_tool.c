/* glyd_text_tool.c - runs a tokenizer over cases for tests/text/test_ids.py, and times it.
 *
 * glyd_text_tool cases TOKENIZER.JSON      reads cases from stdin, answers each on stdout
 * glyd_text_tool regex                     translates patterns from stdin
 * glyd_text_tool time TOKENIZER.JSON FILE  prints seconds to open, and MB/s to encode and decode
 *
 * A case is: u32 kind, u32 bytes, the bytes. Numbers are little-endian.
 *   kind 0..3   encode with these flags: u32 status, u32 n, n ids
 *   kind 16..17 the bytes are ids; decode with flags kind - 16: u32 status, u32 bytes, the text;
 *               then the same for the streamed decode. 0xffffffff as a status: a push gave text
 *               that is not whole characters.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "base/buf.h"
#include "base/map.h"
#include "text/regex.h"
#include "text/text.h"
#include "text/unicode.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { DECODE_KIND = 16 };

static bool read_all(void *data, size_t bytes)
{
    return fread(data, 1, bytes, stdin) == bytes;
}

static void answer(uint32_t status, uint32_t n, const void *data, size_t bytes)
{
    fwrite(&status, sizeof status, 1, stdout);
    fwrite(&n, sizeof n, 1, stdout);
    if (bytes)
        fwrite(data, 1, bytes, stdout);
    fflush(stdout);
}

static void answer_stream(const glyd_tokenizer *tokenizer, const int32_t *ids, size_t n,
                          unsigned flags)
{
    glyd_buf text = {0};
    glyd_detok *detok = NULL;
    uint32_t status = glyd_detok_create(tokenizer, flags, &detok, NULL);
    for (size_t i = 0; status == GLYD_OK && i < n; i++) {
        size_t before = text.bytes;
        status = glyd_detok_push(detok, ids[i], &text, NULL);
        if (text.bytes > before &&
            glyd_utf8_valid(text.data + before, text.bytes - before) != text.bytes - before)
            status = UINT32_MAX;
    }
    if (status == GLYD_OK)
        status = glyd_detok_finish(detok, &text, NULL);
    answer(status, (uint32_t)text.bytes, text.data, text.bytes);
    glyd_detok_free(detok);
    glyd_buf_free(&text);
}

static void run_case(const glyd_tokenizer *tokenizer, uint32_t kind, const glyd_buf *input)
{
    if (kind < DECODE_KIND) {
        glyd_ids ids = {0};
        uint32_t status = glyd_tokenizer_encode(tokenizer, (const char *)input->data, input->bytes,
                                                kind, &ids, NULL);
        answer(status, (uint32_t)ids.n, ids.data, ids.n * sizeof *ids.data);
        glyd_ids_free(&ids);
        return;
    }
    glyd_buf text = {0};
    const int32_t *ids = (const int32_t *)(const void *)input->data;
    size_t n = input->bytes / sizeof *ids;
    uint32_t status = glyd_tokenizer_decode(tokenizer, ids, n, kind - DECODE_KIND, &text, NULL);
    answer(status, (uint32_t)text.bytes, text.data, text.bytes);
    answer_stream(tokenizer, ids, n, kind - DECODE_KIND);
    glyd_buf_free(&text);
}

static int run_cases(const glyd_tokenizer *tokenizer)
{
    uint32_t head[2];
    glyd_buf input = {0};
    int failed = 0;
    while (!failed && read_all(head, sizeof head)) {
        failed = glyd_buf_resize(&input, head[1]) != GLYD_OK || !read_all(input.data, head[1]);
        if (!failed)
            run_case(tokenizer, head[0], &input);
    }
    glyd_buf_free(&input);
    return failed;
}

static int run_patterns(void)
{
    uint32_t head[2];
    glyd_buf input = {0}, out = {0};
    while (read_all(head, sizeof head) && glyd_buf_resize(&input, head[1]) == GLYD_OK &&
           read_all(input.data, head[1])) {
        glyd_error err = {0};
        glyd_regex *regex = NULL;
        out.bytes = 0;
        uint32_t status = glyd_regex_compile((const char *)input.data, input.bytes, &regex, &err);
        if (status == GLYD_OK)
            status = glyd_regex_translate((const char *)input.data, input.bytes, &out, &err);
        if (status == GLYD_OK)
            answer(status, (uint32_t)out.bytes, out.data, out.bytes);
        else
            answer(status, (uint32_t)strlen(err.text), err.text, strlen(err.text));
        glyd_regex_free(regex);
    }
    glyd_buf_free(&input);
    glyd_buf_free(&out);
    return 0;
}

/* Seconds of this process on a core: other work on the machine does not count. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int run_times(const glyd_tokenizer *tokenizer, double open_s, const char *path)
{
    glyd_buf text = {0}, decoded = {0};
    glyd_ids ids = {0};
    glyd_error err = {0};
    if (glyd_file_read(path, GLYD_TEXT_BYTES_MAX, &text, &err) != GLYD_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    double start = now();
    glyd_status status = glyd_tokenizer_encode(tokenizer, (const char *)text.data, text.bytes,
                                               GLYD_ENCODE_PARSE_SPECIAL, &ids, &err);
    double middle = now();
    if (status == GLYD_OK)
        status = glyd_tokenizer_decode(tokenizer, ids.data, ids.n, 0, &decoded, &err);
    double end = now();
    double mb = 1e-6 * (double)text.bytes;
    if (status == GLYD_OK)
        printf("open %.3f s, encode %.2f MB as %zu ids at %.1f MB/s, decode at %.1f MB/s\n", open_s,
               mb, ids.n, mb / (middle - start), mb / (end - middle));
    else
        fprintf(stderr, "%s\n", err.text);
    glyd_buf_free(&text);
    glyd_buf_free(&decoded);
    glyd_ids_free(&ids);
    return status != GLYD_OK;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "regex") == 0)
        return run_patterns();
    bool is_time = argc == 4 && strcmp(argv[1], "time") == 0;
    if (!is_time && (argc != 3 || strcmp(argv[1], "cases") != 0))
        return 2;
    glyd_buf json = {0};
    glyd_tokenizer *tokenizer = NULL;
    glyd_error err = {0};
    double start = now();
    glyd_status status = glyd_file_read(argv[2], GLYD_TEXT_BYTES_MAX, &json, &err);
    if (status == GLYD_OK)
        status = glyd_tokenizer_parse((glyd_span){json.data, json.bytes}, &tokenizer, &err);
    double open_s = now() - start;
    glyd_buf_free(&json);
    if (status != GLYD_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int failed = is_time ? run_times(tokenizer, open_s, argv[3]) : run_cases(tokenizer);
    glyd_tokenizer_close(tokenizer);
    return failed;
}
