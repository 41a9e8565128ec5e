/* request.c - what clients send, as checked values.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/request.h"
#include "server/errors.h"
#include "server/state.h"
#include <math.h>
#include <microhttpd.h>
#include <string.h>

/* The deepest nesting of arrays and objects, found without a parser's stack. */
static int depth_of(const uint8_t *text, size_t bytes)
{
    int depth = 0, deepest = 0;
    bool is_text = false;
    for (size_t i = 0; i < bytes; i++) {
        if (is_text) {
            if (text[i] == '\\')
                i++;
            else
                is_text = text[i] != '"';
        } else if (text[i] == '"') {
            is_text = true;
        } else if (text[i] == '[' || text[i] == '{') {
            deepest = ++depth > deepest ? depth : deepest;
        } else if (text[i] == ']' || text[i] == '}') {
            depth--;
        }
    }
    return deepest;
}

bool glyd_request_parse(glyd_exchange *x)
{
    json_error_t e = {0};
    if (depth_of(x->body.data, x->body.bytes) > GLYD_JSON_DEPTH_MAX) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, NULL, "The JSON is nested deeper than %d.",
                           GLYD_JSON_DEPTH_MAX);
        return false;
    }
    x->request = json_loadb(x->body.data ? (const char *)x->body.data : "", x->body.bytes,
                            JSON_ALLOW_NUL, &e);
    glyd_buf_free(&x->body);
    if (x->request && json_is_object(x->request))
        return true;
    if (x->request)
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, NULL, "The body must be a JSON object.");
    else if (!e.text[0])
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    else
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, NULL,
                           "The body is not valid JSON: line %d, column %d: %s", e.line, e.column,
                           e.text);
    return false;
}

const json_t *glyd_request_member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

bool glyd_request_real(glyd_exchange *x, const json_t *object, const char *name, double min,
                       double max, double *value)
{
    const json_t *v = glyd_request_member(object, name);
    if (!v)
        return true;
    double number = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(number >= min && number <= max)) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, name, "%s must be a number from %g to %g.",
                           name, min, max);
        return false;
    }
    *value = number;
    return true;
}

bool glyd_request_int(glyd_exchange *x, const json_t *object, const char *name, int64_t min,
                      int64_t max, int64_t *value)
{
    const json_t *v = glyd_request_member(object, name);
    if (!v)
        return true;
    int64_t number = json_integer_value(v);
    bool is_whole = json_is_integer(v);
    if (json_is_real(v) && fabs(json_real_value(v)) < 1e15) { /* some clients write 5.0 */
        number = (int64_t)json_real_value(v);
        is_whole = (double)number == json_real_value(v);
    }
    if (!is_whole || number < min || number > max) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, name,
                           "%s must be a whole number from %lld to %lld.", name, (long long)min,
                           (long long)max);
        return false;
    }
    *value = number;
    return true;
}

bool glyd_request_bool(glyd_exchange *x, const json_t *object, const char *name, bool *value)
{
    const json_t *v = glyd_request_member(object, name);
    if (!v)
        return true;
    if (!json_is_boolean(v)) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, name, "%s must be true or false.", name);
        return false;
    }
    *value = json_is_true(v);
    return true;
}

bool glyd_request_text(glyd_exchange *x, const json_t *object, const char *name, const char **value)
{
    const json_t *v = glyd_request_member(object, name);
    if (!v)
        return true;
    if (!json_is_string(v)) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, name, "%s must be a string.", name);
        return false;
    }
    if (strlen(json_string_value(v)) != json_string_length(v)) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, name, "%s has a NUL character.", name);
        return false;
    }
    *value = json_string_value(v);
    return true;
}

bool glyd_request_check_model(glyd_exchange *x)
{
    const char *model = "";
    if (!glyd_request_text(x, x->request, "model", &model))
        return false;
    if (!model[0] || glyd_names_have(&x->server->names, model, strlen(model)))
        return true;
    glyd_exchange_fail(x, MHD_HTTP_NOT_FOUND, "model", "The model `%.200s` does not exist.", model);
    return false;
}
