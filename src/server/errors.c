/* errors.c - errors as clients know them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/errors.h"
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

static const char *openai_type(int status)
{
    switch (status) {
    case MHD_HTTP_UNAUTHORIZED:
        return "AuthenticationError";
    case MHD_HTTP_FORBIDDEN:
        return "PermissionDeniedError";
    case MHD_HTTP_NOT_FOUND:
        return "NotFoundError";
    case MHD_HTTP_UNPROCESSABLE_CONTENT:
        return "UnprocessableEntityError";
    case MHD_HTTP_INTERNAL_SERVER_ERROR:
        return "InternalServerError";
    case MHD_HTTP_NOT_IMPLEMENTED:
        return "NotImplementedError";
    case MHD_HTTP_SERVICE_UNAVAILABLE:
        return "ServiceUnavailableError";
    default:
        return "BadRequestError";
    }
}

static const char *anthropic_type(int status)
{
    switch (status) {
    case MHD_HTTP_UNAUTHORIZED:
        return "authentication_error";
    case MHD_HTTP_FORBIDDEN:
        return "permission_error";
    case MHD_HTTP_NOT_FOUND:
        return "not_found_error";
    case MHD_HTTP_CONTENT_TOO_LARGE:
        return "request_too_large";
    case MHD_HTTP_INTERNAL_SERVER_ERROR:
        return "api_error";
    case MHD_HTTP_SERVICE_UNAVAILABLE:
        return "overloaded_error";
    default:
        return "invalid_request_error";
    }
}

json_t *glyd_error_object(glyd_dialect dialect, int status, const char *param, const char *message)
{
    if (dialect == GLYD_DIALECT_ANTHROPIC)
        return json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "type",
                         anthropic_type(status), "message", message);
    return json_pack("{s:{s:s, s:s, s:s?, s:i}}", "error", "message", message, "type",
                     openai_type(status), "param", param, "code", status);
}

static glyd_dialect dialect_of(const glyd_exchange *x)
{
    return x->route ? x->route->dialect : GLYD_DIALECT_OPENAI;
}

static void fail(glyd_exchange *x, int status, const char *param, const char *message)
{
    json_t *object = glyd_error_object(dialect_of(x), status, param, message);
    if (!object) /* a message that is not UTF-8, or no memory */
        object = glyd_error_object(dialect_of(x), status, NULL,
                                   MHD_get_reason_phrase_for((unsigned)status));
    glyd_buf text = {0};
    if (!object || glyd_json_append(&text, object) != GLYD_OK)
        text.bytes = 0; /* the status alone still tells */
    glyd_exchange_reply(x, status, "application/json", text.data, text.bytes);
    json_decref(object);
    glyd_buf_free(&text);
}

void glyd_exchange_fail(glyd_exchange *x, int status, const char *param, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fail(x, status, param, message);
}

int glyd_error_http(glyd_status status)
{
    switch (status) {
    case GLYD_E_ARG:
    case GLYD_E_UNSUPPORTED:
    case GLYD_E_LIMIT:
    case GLYD_E_FORMAT:
        return MHD_HTTP_BAD_REQUEST;
    case GLYD_E_NOTFOUND:
        return MHD_HTTP_NOT_FOUND;
    case GLYD_E_BUSY:
    case GLYD_E_CANCELLED:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

void glyd_exchange_fail_status(glyd_exchange *x, const char *param, const glyd_error *error)
{
    int status = glyd_error_http(error->status);
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        x->retry_after_s = 1;
    fail(x, status, param, error->text);
}
