/* routes.c - one table: which function answers which path.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/routes.h"
#include <string.h>

/* As in vLLM, what tells nothing of the conversation needs no key. */
static const glyd_route routes[] = {
    {"GET", "/health", glyd_serve_health, false, true, GLYD_DIALECT_OPENAI,
     "200 while the engine runs"},
    {"GET", "/ping", glyd_serve_health, false, true, GLYD_DIALECT_OPENAI, "As /health"},
    {"POST", "/ping", glyd_serve_health, false, true, GLYD_DIALECT_OPENAI, "As /health"},
    {"GET", "/version", glyd_serve_version, false, true, GLYD_DIALECT_OPENAI,
     "The server's version"},
    {"GET", "/load", glyd_serve_load, false, true, GLYD_DIALECT_OPENAI,
     "Requests that are being answered"},
    {"GET", "/metrics", glyd_serve_metrics, false, true, GLYD_DIALECT_OPENAI,
     "Figures for Prometheus, under vLLM's names"},
    {"GET", "/models", glyd_serve_models, true, true, GLYD_DIALECT_OPENAI,
     "The models that are served"},
    {"POST", "/tokenize", glyd_serve_tokenize, false, false, GLYD_DIALECT_OPENAI,
     "Token ids of a text or of messages"},
    {"POST", "/detokenize", glyd_serve_detokenize, false, false, GLYD_DIALECT_OPENAI,
     "The text of token ids"},
    {"POST", "/chat/completions", glyd_serve_chat, true, false, GLYD_DIALECT_OPENAI,
     "An answer to a conversation"},
    {"POST", "/completions", glyd_serve_completions, true, false, GLYD_DIALECT_OPENAI,
     "What follows a text"},
    {"POST", "/responses", glyd_serve_responses, true, false, GLYD_DIALECT_OPENAI,
     "A turn of a conversation, in OpenAI's newer form"},
    {"POST", "/messages", glyd_serve_messages, true, false, GLYD_DIALECT_ANTHROPIC,
     "A turn of a conversation, in Anthropic's form"},
    {"POST", "/messages/count_tokens", glyd_serve_count_tokens, true, false, GLYD_DIALECT_ANTHROPIC,
     "How many tokens a conversation has, in Anthropic's form"},
};

const glyd_route *glyd_route_at(size_t i)
{
    return i < sizeof routes / sizeof *routes ? &routes[i] : NULL;
}

const glyd_route *glyd_route_find(const char *method, const char *path, bool *is_known)
{
    if (strncmp(path, "/v1/", 4) == 0)
        path += 3;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    *is_known = false;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strlen(routes[i].path) != n || memcmp(routes[i].path, path, n) != 0)
            continue;
        *is_known = true;
        if (strcmp(routes[i].method, method) == 0)
            return &routes[i];
    }
    return NULL;
}
