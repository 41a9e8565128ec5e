/* tokens.c - token ids as clients see them.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "server/tokens.h"
#include "server/errors.h"
#include "text/unicode.h"
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";
static const double logprob_floor = -9999.0;

glyd_status glyd_token_text(const glyd_server *server, int32_t id, glyd_buf *text)
{
    return glyd_tokenizer_decode(server->tokenizer, &id, 1, 0, text, NULL);
}

/* The byte that a point of the byte-level alphabet stands for; -1 where it is none. */
static int byte_of_point(uint32_t point)
{
    if ((point >= '!' && point <= '~') || (point >= 0xa1 && point <= 0xac) ||
        (point >= 0xae && point <= 0xff))
        return (int)point;
    if (point >= 0x100 && point <= 0x120) /* bytes 0 to 32 */
        return (int)(point - 0x100);
    if (point >= 0x121 && point <= 0x142) /* bytes 127 to 160 */
        return (int)(point - 0x121 + 127);
    return point == 0x143 ? 0xad : -1;
}

static glyd_status append_byte_level(glyd_span token, glyd_buf *bytes, bool *is_whole)
{
    *is_whole = token.bytes > 0;
    for (size_t i = 0; i < token.bytes;) {
        uint32_t point = 0;
        int n = glyd_utf8_decode(token.data + i, token.bytes - i, &point);
        int byte = n > 0 ? byte_of_point(point) : -1;
        if (byte < 0) {
            *is_whole = false;
            return GLYD_OK;
        }
        glyd_status status = glyd_buf_append(bytes, &(uint8_t){(uint8_t)byte}, 1);
        if (status != GLYD_OK)
            return status;
        i += (size_t)n;
    }
    return GLYD_OK;
}

glyd_status glyd_token_bytes(const glyd_server *server, int32_t id, glyd_buf *bytes)
{
    size_t before = bytes->bytes;
    glyd_status status = glyd_token_text(server, id, bytes);
    if (status != GLYD_OK || bytes->bytes == before ||
        !memmem(bytes->data + before, bytes->bytes - before, replacement, sizeof replacement - 1))
        return status;
    glyd_span token = glyd_tokenizer_token(server->tokenizer, id);
    char text[8] = "", *end = text;
    if (token.bytes == 6)
        memcpy(text, token.data, 6);
    long byte = strncmp(text, "<0x", 3) == 0 ? strtol(text + 3, &end, 16) : 0;
    if (*end == '>') {
        bytes->bytes = before;
        return glyd_buf_append(bytes, &(uint8_t){(uint8_t)byte}, 1);
    }
    glyd_buf own = {0};
    bool is_whole = false;
    status = append_byte_level(token, &own, &is_whole);
    if (status == GLYD_OK && is_whole) {
        bytes->bytes = before;
        status = glyd_buf_append(bytes, own.data, own.bytes);
    }
    glyd_buf_free(&own);
    return status;
}

json_t *glyd_token_text_json(const glyd_server *server, int32_t id)
{
    glyd_buf text = {0};
    json_t *value = NULL;
    if (glyd_token_text(server, id, &text) == GLYD_OK)
        value = json_stringn(text.bytes ? (const char *)text.data : "", text.bytes);
    glyd_buf_free(&text);
    return value;
}

json_t *glyd_token_bytes_json(const glyd_server *server, int32_t id)
{
    glyd_buf bytes = {0};
    json_t *array = json_array();
    bool is_made = array && glyd_token_bytes(server, id, &bytes) == GLYD_OK;
    for (size_t i = 0; is_made && i < bytes.bytes; i++)
        is_made = json_array_append_new(array, json_integer(bytes.data[i])) == 0;
    glyd_buf_free(&bytes);
    if (is_made)
        return array;
    json_decref(array);
    return NULL;
}

json_t *glyd_ids_json(const glyd_ids *ids)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < ids->n; i++) {
        if (json_array_append_new(array, json_integer(ids->data[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

json_t *glyd_logprob_json(double logprob)
{
    return json_real(logprob > logprob_floor ? logprob : logprob_floor);
}

glyd_status glyd_ids_add(glyd_ids *ids, int32_t id)
{
    if (ids->n == ids->capacity) {
        size_t capacity = ids->capacity ? 2 * ids->capacity : 64;
        int32_t *data = realloc(ids->data, capacity * sizeof *data);
        if (!data)
            return GLYD_E_NOMEM;
        ids->data = data;
        ids->capacity = capacity;
    }
    ids->data[ids->n++] = id;
    return GLYD_OK;
}

bool glyd_ids_read(glyd_exchange *x, const char *name, const json_t *array, glyd_ids *ids)
{
    size_t n = json_array_size(array), i;
    int vocab = x->server->engine_info->vocab;
    const json_t *value;
    ids->data = malloc((n + 1) * sizeof *ids->data);
    if (!ids->data) {
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
        return false;
    }
    ids->capacity = n + 1;
    json_array_foreach((json_t *)array, i, value)
    {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= vocab) {
            glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, name,
                               "%s has an element that is not a token id: ids are from 0 to %d.",
                               name, vocab - 1);
            return false;
        }
        ids->data[ids->n++] = (int32_t)id;
    }
    return true;
}
