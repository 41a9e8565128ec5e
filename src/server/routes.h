/* routes.h - one table: which function answers which path.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_ROUTES_H
#define GLYD_SERVER_ROUTES_H

#include "server/exchange.h"

/* The route of a method and path, with or without /v1 (and for a path of slashes at its end).
 * NULL: *is_known tells whether the path has a route of another method. */
const glyd_route *glyd_route_find(const char *method, const char *path, bool *is_known);

/* The handlers, by file. */
void glyd_serve_health(glyd_exchange *x);
void glyd_serve_version(glyd_exchange *x);
void glyd_serve_load(glyd_exchange *x);
void glyd_serve_models(glyd_exchange *x);
void glyd_serve_model(glyd_exchange *x); /* the one that its path names */
void glyd_serve_metrics(glyd_exchange *x);
void glyd_serve_page(glyd_exchange *x); /* the chat page */
void glyd_serve_openapi(glyd_exchange *x);
void glyd_serve_tokenize(glyd_exchange *x);
void glyd_serve_detokenize(glyd_exchange *x);
void glyd_serve_chat(glyd_exchange *x);
void glyd_serve_completions(glyd_exchange *x);
void glyd_serve_responses(glyd_exchange *x);
void glyd_serve_messages(glyd_exchange *x);
void glyd_serve_count_tokens(glyd_exchange *x);

#endif
