/* request.h - what clients send, as checked values.
 *
 * Getters read a member of a JSON object: absent or null leaves the value as it was; one of another
 * type or out of range answers the exchange with a 400 that names it, and false is returned.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_REQUEST_H
#define GLYD_SERVER_REQUEST_H

#include "server/exchange.h"

/* Parse x->body, which must be one JSON object, into x->request. */
bool glyd_request_parse(glyd_exchange *x);

bool glyd_request_real(glyd_exchange *x, const json_t *object, const char *name, double min,
                       double max, double *value);
bool glyd_request_int(glyd_exchange *x, const json_t *object, const char *name, int64_t min,
                      int64_t max, int64_t *value);
bool glyd_request_bool(glyd_exchange *x, const json_t *object, const char *name, bool *value);
/* Names, templates and the like: a text with a NUL character is refused. */
bool glyd_request_text(glyd_exchange *x, const json_t *object, const char *name,
                       const char **value);

/* A member that is not null, or NULL. */
const json_t *glyd_request_member(const json_t *object, const char *name);

/* The model that is asked for is absent, empty or one that is served; else 404. */
bool glyd_request_check_model(glyd_exchange *x);

#endif
