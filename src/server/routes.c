/* routes.c - one table: which function answers which path.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/routes.h"
#include <string.h>

/* A path that ends in a slash stands for all that begin so.
 * As in vLLM, what tells nothing of the conversation needs no key. */
static const glyd_route routes[] = {
    {"GET", "/", glyd_serve_page, false, true, GLYD_DIALECT_OPENAI},
    {"GET", "/health", glyd_serve_health, false, true, GLYD_DIALECT_OPENAI},
    {"GET", "/ping", glyd_serve_health, false, true, GLYD_DIALECT_OPENAI},
    {"POST", "/ping", glyd_serve_health, false, true, GLYD_DIALECT_OPENAI},
    {"GET", "/version", glyd_serve_version, false, true, GLYD_DIALECT_OPENAI},
    {"GET", "/load", glyd_serve_load, false, true, GLYD_DIALECT_OPENAI},
    {"GET", "/metrics", glyd_serve_metrics, false, true, GLYD_DIALECT_OPENAI},
    {"GET", "/openapi.json", glyd_serve_openapi, false, true, GLYD_DIALECT_OPENAI},
    {"GET", "/models", glyd_serve_models, true, true, GLYD_DIALECT_OPENAI},
    {"GET", "/models/", glyd_serve_model, true, true, GLYD_DIALECT_OPENAI},
    {"POST", "/tokenize", glyd_serve_tokenize, false, false, GLYD_DIALECT_OPENAI},
    {"POST", "/detokenize", glyd_serve_detokenize, false, false, GLYD_DIALECT_OPENAI},
    {"POST", "/chat/completions", glyd_serve_chat, true, false, GLYD_DIALECT_OPENAI},
    {"POST", "/completions", glyd_serve_completions, true, false, GLYD_DIALECT_OPENAI},
    {"POST", "/responses", glyd_serve_responses, true, false, GLYD_DIALECT_OPENAI},
    {"POST", "/messages", glyd_serve_messages, true, false, GLYD_DIALECT_ANTHROPIC},
    {"POST", "/messages/count_tokens", glyd_serve_count_tokens, true, false,
     GLYD_DIALECT_ANTHROPIC},
};

const glyd_route *glyd_route_find(const char *method, const char *path, bool *is_known)
{
    if (strncmp(path, "/v1/", 4) == 0)
        path += 3;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    *is_known = false;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        size_t own = strlen(routes[i].path);
        bool is_open = own > 1 && routes[i].path[own - 1] == '/';
        if ((is_open ? own >= n : own != n) || memcmp(routes[i].path, path, own) != 0)
            continue;
        *is_known = true;
        if (strcmp(routes[i].method, method) == 0)
            return &routes[i];
    }
    return NULL;
}
