/* tokenize.c - POST /tokenize and /detokenize.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/errors.h"
#include "server/prompt.h"
#include "server/request.h"
#include "server/routes.h"
#include "server/tokens.h"
#include <microhttpd.h>

static bool encode_text(glyd_exchange *x, glyd_ids *ids)
{
    const json_t *prompt = glyd_request_member(x->request, "prompt");
    bool adds_special = true;
    glyd_error error;
    if (!glyd_request_bool(x, x->request, "add_special_tokens", &adds_special))
        return false;
    if (!json_is_string(prompt)) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "prompt",
                           prompt ? "prompt must be a string." : "prompt or messages is needed.");
        return false;
    }
    unsigned flags = GLYD_ENCODE_PARSE_SPECIAL | (adds_special ? GLYD_ENCODE_ADD_SPECIAL : 0);
    if (glyd_tokenizer_encode(x->server->tokenizer, json_string_value(prompt),
                              json_string_length(prompt), flags, ids, &error) == GLYD_OK)
        return true;
    glyd_exchange_fail_status(x, "prompt", &error);
    return false;
}

static bool encode_messages(glyd_exchange *x, glyd_ids *ids)
{
    glyd_prompt_options options;
    if (!glyd_prompt_options_read(x, &options))
        return false;
    options.tools = glyd_request_member(x->request, "tools");
    if (options.tools && !json_is_array(options.tools)) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "tools", "tools must be a list.");
        return false;
    }
    return glyd_prompt_render(x, &options, ids, NULL);
}

/* The tokens as the vocabulary writes them. */
static json_t *token_strings(const glyd_server *server, const glyd_ids *ids)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < ids->n; i++) {
        glyd_span token = glyd_tokenizer_token(server->tokenizer, ids->data[i]);
        json_t *text = json_stringn(token.bytes ? (const char *)token.data : "", token.bytes);
        if (!text || json_array_append_new(array, text) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

void glyd_serve_tokenize(glyd_exchange *x)
{
    glyd_ids ids = {0};
    bool wants_strings = false;
    bool has_messages = glyd_request_member(x->request, "messages") != NULL;
    if (glyd_request_check_model(x) &&
        glyd_request_bool(x, x->request, "return_token_strs", &wants_strings) &&
        (has_messages ? encode_messages(x, &ids) : encode_text(x, &ids))) {
        json_t *strings = wants_strings ? token_strings(x->server, &ids) : json_null();
        glyd_exchange_reply_json(x, MHD_HTTP_OK,
                                 json_pack("{s:i, s:i, s:o, s:o}", "count", (int)ids.n,
                                           "max_model_len", x->server->engine_info->plan.context,
                                           "tokens", glyd_ids_json(&ids), "token_strs", strings));
    }
    glyd_ids_free(&ids);
}

void glyd_serve_detokenize(glyd_exchange *x)
{
    const json_t *tokens = glyd_request_member(x->request, "tokens");
    glyd_ids ids = {0};
    glyd_buf text = {0};
    if (!glyd_request_check_model(x))
        return;
    if (!json_is_array(tokens)) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, "tokens", "tokens must be a list of ids.");
        return;
    }
    if (glyd_ids_read(x, "tokens", tokens, &ids)) {
        json_t *prompt = NULL;
        if (glyd_tokenizer_decode(x->server->tokenizer, ids.data, ids.n, 0, &text, NULL) == GLYD_OK)
            prompt = json_stringn(text.bytes ? (const char *)text.data : "", text.bytes);
        glyd_exchange_reply_json(x, MHD_HTTP_OK, json_pack("{s:o}", "prompt", prompt));
    }
    glyd_ids_free(&ids);
    glyd_buf_free(&text);
}
