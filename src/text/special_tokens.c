/* special_tokens.c - the names that a model folder gives to its special tokens.
 *
 * Both files write a token as text or as an object with its text under "content".
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "base/fs.h"
#include "text/template.h"
#include <string.h>

enum { FILE_BYTES_MAX = 64 << 20 };

static bool is_token_name(const char *key)
{
    const char ending[] = "_token";
    size_t n = strlen(key);
    return n > sizeof ending - 1 && strcmp(key + n - (sizeof ending - 1), ending) == 0;
}

static glyd_status take_tokens(const json_t *from, json_t *tokens, glyd_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from, key, value)
    {
        json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
        if (is_token_name(key) && json_is_string(text) && json_object_set(tokens, key, text) != 0)
            GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the special tokens");
    }
    return GLYD_OK;
}

static glyd_status read_file(const char *folder, const char *name, json_t *tokens, glyd_error *err)
{
    char path[GLYD_PATH_BYTES];
    json_t *root = NULL;
    glyd_error why;
    glyd_status status = glyd_fs_member(folder, name, path, &why);
    if (status == GLYD_OK)
        status = glyd_json_read(path, FILE_BYTES_MAX, &root, &why);
    if (status == GLYD_E_NOTFOUND)
        return GLYD_OK;
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "%s", why.text);
    status = take_tokens(root, tokens, err);
    json_decref(root);
    return status;
}

glyd_status glyd_special_tokens_read(const char *folder, json_t **tokens, glyd_error *err)
{
    *tokens = json_object();
    if (!*tokens)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the special tokens");
    glyd_status status = read_file(folder, "special_tokens_map.json", *tokens, err);
    if (status == GLYD_OK)
        status = read_file(folder, "tokenizer_config.json", *tokens, err);
    if (status != GLYD_OK) {
        json_decref(*tokens);
        *tokens = NULL;
    }
    return status;
}
