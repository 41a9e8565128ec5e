/* regex.c - compiled patterns and scans, by PCRE2's just-in-time compiler.
 * SPDX-License-Identifier: Apache-2.0
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"
#include "base/buf.h"
#include "base/error.h"
#include "text/unicode.h"
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATTERN_BYTES_MAX = 16 << 10,
    JIT_STACK_BYTES_FIRST = 32 << 10,
    JIT_STACK_BYTES_MAX = 1 << 20,
    /* A match may take STEPS_FIRST steps for free. One that needs more is tried again with
     * STEPS_GROW times as many, charged to the scan, which has STEPS_MORE and STEPS_BYTE for each
     * byte of its texts. Ordinary patterns never need the second try. */
    STEPS_FIRST = 2000,
    STEPS_GROW = 64,
    STEPS_MORE = 10 * 1000 * 1000,
    STEPS_BYTE = 16
};

struct glyd_regex {
    pcre2_code *code;
};

struct glyd_scan {
    const glyd_regex *regex;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    const uint8_t *text;
    size_t bytes;
    size_t at;       /* where the next search begins */
    size_t last_end; /* where the last match ended; SIZE_MAX before the first */
    uint64_t steps_left;
};

static glyd_status compile(const uint8_t *text, size_t bytes, uint32_t options, glyd_regex **regex,
                           glyd_error *err)
{
    glyd_status status = GLYD_OK;
    int code = 0;
    size_t at = 0;
    glyd_regex *r = calloc(1, sizeof *r);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!r || !context) {
        status = glyd_error_set(err, GLYD_E_NOMEM, "out of memory");
        goto done;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    r->code = pcre2_compile(text, bytes, options | PCRE2_UTF, &code, &at, context);
    if (!r->code) {
        PCRE2_UCHAR message[160];
        pcre2_get_error_message(code, message, sizeof message);
        status =
            glyd_error_set(err, code == PCRE2_ERROR_HEAP_FAILED ? GLYD_E_NOMEM : GLYD_E_UNSUPPORTED,
                           "regular expression: %s", (const char *)message);
        goto done;
    }
    /* Without a JIT the interpreter takes over: slower, the same matches. */
    code = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
    if (code == PCRE2_ERROR_NOMEMORY)
        status = glyd_error_set(err, GLYD_E_NOMEM, "out of memory");
done:
    pcre2_compile_context_free(context);
    if (status != GLYD_OK) {
        glyd_regex_free(r);
        return status;
    }
    *regex = r;
    return GLYD_OK;
}

glyd_status glyd_regex_compile(const char *pattern, size_t bytes, glyd_regex **regex,
                               glyd_error *err)
{
    if (bytes > PATTERN_BYTES_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT, "regular expression: %zu bytes; at most %d are read", bytes,
                  PATTERN_BYTES_MAX);
    glyd_buf text = {0};
    glyd_status status = glyd_regex_translate(pattern, bytes, &text, err);
    if (status == GLYD_OK)
        status =
            compile(text.data ? text.data : (const uint8_t *)"", text.bytes, PCRE2_UCP, regex, err);
    glyd_buf_free(&text);
    return status;
}

glyd_status glyd_regex_literal(const char *text, size_t bytes, glyd_regex **regex, glyd_error *err)
{
    if (bytes == 0)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "an empty pattern is not supported");
    if (bytes > PATTERN_BYTES_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT, "a pattern of %zu bytes; at most %d are read", bytes,
                  PATTERN_BYTES_MAX);
    return compile((const uint8_t *)text, bytes, PCRE2_LITERAL, regex, err);
}

void glyd_regex_free(glyd_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    free(regex);
}

glyd_status glyd_scan_create(const glyd_regex *regex, glyd_scan **scan)
{
    glyd_scan *s = calloc(1, sizeof *s);
    if (!s)
        return GLYD_E_NOMEM;
    s->regex = regex;
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    s->steps_left = STEPS_MORE;
    if (!s->match || !s->context) {
        glyd_scan_free(s);
        return GLYD_E_NOMEM;
    }
    *scan = s;
    return GLYD_OK;
}

void glyd_scan_free(glyd_scan *scan)
{
    if (!scan)
        return;
    pcre2_match_data_free(scan->match);
    pcre2_match_context_free(scan->context);
    pcre2_jit_stack_free(scan->stack);
    free(scan);
}

void glyd_scan_start(glyd_scan *scan, const uint8_t *text, size_t bytes)
{
    scan->text = bytes ? text : (const uint8_t *)"";
    scan->bytes = bytes;
    scan->at = 0;
    scan->last_end = SIZE_MAX;
    scan->steps_left += (uint64_t)bytes * STEPS_BYTE;
}

static glyd_status give_stack(glyd_scan *s, glyd_error *err)
{
    if (s->stack)
        GLYD_FAIL(err, GLYD_E_LIMIT,
                  "a regular expression of the tokenizer needs more than %d "
                  "bytes of stack on this text",
                  JIT_STACK_BYTES_MAX);
    s->stack = pcre2_jit_stack_create(JIT_STACK_BYTES_FIRST, JIT_STACK_BYTES_MAX, NULL);
    if (!s->stack)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return GLYD_OK;
}

/* Search from s->at, with as many steps as it takes and as there are. */
static glyd_status search(glyd_scan *s, bool *found, glyd_error *err)
{
    uint64_t steps = STEPS_FIRST;
    pcre2_set_match_limit(s->context, (uint32_t)steps);
    for (;;) {
        int code = pcre2_match(s->regex->code, s->text, s->bytes, s->at, PCRE2_NO_UTF_CHECK,
                               s->match, s->context);
        *found = code >= 0;
        if (code >= 0 || code == PCRE2_ERROR_NOMATCH)
            return GLYD_OK;
        if (code == PCRE2_ERROR_JIT_STACKLIMIT) {
            GLYD_TRY(give_stack(s, err));
            continue;
        }
        if (code == PCRE2_ERROR_NOMEMORY)
            GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
        if (code != PCRE2_ERROR_MATCHLIMIT || s->steps_left == 0)
            GLYD_FAIL(err, GLYD_E_LIMIT,
                      "a regular expression of the tokenizer takes too many steps on this text");
        steps = steps * STEPS_GROW < s->steps_left ? steps * STEPS_GROW : s->steps_left;
        if (steps > UINT32_MAX)
            steps = UINT32_MAX;
        s->steps_left -= steps;
        pcre2_set_match_limit(s->context, (uint32_t)steps);
    }
}

glyd_status glyd_scan_next(glyd_scan *scan, bool *found, size_t *first, size_t *end,
                           glyd_error *err)
{
    *found = false;
    while (scan->at <= scan->bytes) {
        GLYD_TRY(search(scan, found, err));
        if (!*found)
            return GLYD_OK;
        const size_t *span = pcre2_get_ovector_pointer(scan->match);
        if (span[0] != span[1] || span[1] != scan->last_end) {
            *first = span[0];
            *end = span[1];
            scan->at = scan->last_end = span[1];
            return GLYD_OK;
        }
        /* An empty match where the last one ended: look one character further. */
        *found = false;
        uint32_t point;
        if (scan->at == scan->bytes)
            break;
        int bytes = glyd_utf8_decode(scan->text + scan->at, scan->bytes - scan->at, &point);
        scan->at += bytes > 0 ? (size_t)bytes : 1;
    }
    return GLYD_OK;
}
