/* errors.h - errors as clients know them.
 *
 * OpenAI's and vLLM's form: {"error": {"message", "type", "param", "code"}}, the code being the
 * HTTP status; Anthropic's form on its own routes.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_ERRORS_H
#define GLYD_SERVER_ERRORS_H

#include "server/exchange.h"

/* The error object for a status; `param` may be NULL. NULL: out of memory. */
json_t *glyd_error_object(glyd_dialect dialect, int status, const char *param, const char *message);

/* Answer with an error. `param`: the field of the request that is wrong, or NULL. */
void glyd_exchange_fail(glyd_exchange *x, int status, const char *param, const char *format, ...)
    GLYD_PRINTF(4, 5);

/* The same for a failure of the library: what the client can mend is a 400, a full queue 503. */
void glyd_exchange_fail_status(glyd_exchange *x, const char *param, const glyd_error *error);

/* The HTTP status of a failure. */
int glyd_error_http(glyd_status status);

#endif
