/* fuzz_tokenizer.c - a tokenizer.json, a zero byte, and a text for it.
 *
 * Whatever opens must encode the text, decode the ids, and give the same text when it streams; and
 * the text, taken as ids, must decode.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/text.h"
#include "text/unicode.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void decode_both(const glyd_tokenizer *tokenizer, const int32_t *ids, size_t n,
                        unsigned flags)
{
    glyd_buf whole = {0}, streamed = {0};
    glyd_detok *detok = NULL;
    glyd_status status = glyd_tokenizer_decode(tokenizer, ids, n, flags, &whole, NULL);
    require(glyd_detok_create(tokenizer, flags, &detok, NULL) == GLYD_OK);
    for (size_t i = 0; status == GLYD_OK && i < n; i++) {
        size_t before = streamed.bytes;
        status = glyd_detok_push(detok, ids[i], &streamed, NULL);
        size_t added = streamed.bytes - before;
        require(added == 0 || glyd_utf8_valid(streamed.data + before, added) == added);
    }
    if (status == GLYD_OK)
        status = glyd_detok_finish(detok, &streamed, NULL);
    if (status == GLYD_OK) {
        require(whole.bytes == streamed.bytes);
        require(whole.bytes == 0 || memcmp(whole.data, streamed.data, whole.bytes) == 0);
    }
    glyd_detok_free(detok);
    glyd_buf_free(&whole);
    glyd_buf_free(&streamed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const uint8_t *zero = bytes ? memchr(data, 0, bytes) : NULL;
    size_t json_bytes = zero ? (size_t)(zero - data) : bytes;
    const uint8_t *text = zero ? zero + 1 : data;
    size_t text_bytes = bytes - (size_t)(text - data);
    glyd_tokenizer *tokenizer = NULL;
    glyd_error err = {0};
    if (glyd_tokenizer_parse((glyd_span){data, json_bytes}, &tokenizer, &err) != GLYD_OK) {
        require(err.text[0] != 0);
        return 0;
    }
    for (unsigned flags = 0; flags < 4; flags++) {
        glyd_ids ids = {0};
        if (glyd_tokenizer_encode(tokenizer, (const char *)text, text_bytes, flags, &ids, &err) ==
            GLYD_OK) {
            for (size_t i = 0; i < ids.n; i++)
                require(ids.data[i] >= 0 && ids.data[i] < glyd_tokenizer_vocab_size(tokenizer));
            decode_both(tokenizer, ids.data, ids.n, flags & 1);
        }
        glyd_ids_free(&ids);
    }
    int32_t noise[64];
    size_t n = text_bytes < 64 ? text_bytes : 64;
    for (size_t i = 0; i < n; i++)
        noise[i] = text[i] - 1;
    decode_both(tokenizer, noise, n, 0);
    glyd_tokenizer_close(tokenizer);
    return 0;
}
