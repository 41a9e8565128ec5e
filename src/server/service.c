/* service.c - what is known of the server itself: health, version, load, models, metrics.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/embedded.h"
#include "server/errors.h"
#include "server/routes.h"
#include "server/state.h"
#include <microhttpd.h>
#include <string.h>
#include <strings.h>

void glyd_serve_health(glyd_exchange *x)
{
    glyd_exchange_reply(x, MHD_HTTP_OK, NULL, "", 0);
}

void glyd_serve_version(glyd_exchange *x)
{
    glyd_exchange_reply_json(x, MHD_HTTP_OK, json_pack("{s:s}", "version", glyd_version()));
}

void glyd_serve_load(glyd_exchange *x)
{
    glyd_exchange_reply_json(x, MHD_HTTP_OK,
                             json_pack("{s:i}", "server_load", atomic_load(&x->server->n_load)));
}

static json_t *model_card(const glyd_server *server, const char *name)
{
    json_int_t created = (json_int_t)server->created;
    json_t *permission =
        json_pack("{s:s+, s:s, s:I, s:b, s:b, s:b, s:b, s:b, s:s, s:n, s:b}", "id", "modelperm-",
                  name, "object", "model_permission", "created", created, "allow_create_engine", 0,
                  "allow_sampling", 1, "allow_logprobs", 1, "allow_search_indices", 0, "allow_view",
                  1, "organization", "*", "group", "is_blocking", 0);
    const glyd_plan *plan = &server->engine_info->plan;
    json_t *held =
        json_pack("{s:s, s:I, s:f}", "layout", glyd_layout_name(plan->layout), "weight_bytes",
                  (json_int_t)plan->weight_bytes, "bits", glyd_plan_bits(plan));
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:i, s:[o], s:o}", "id", name, "object",
                     "model", "created", created, "owned_by", "glyd", "root", server->info.name,
                     "parent", "max_model_len", plan->context, "permission", permission, "glyd",
                     held);
}

void glyd_serve_models(glyd_exchange *x)
{
    json_t *cards = json_array();
    for (size_t i = 0; cards && i < x->server->names.n; i++) {
        if (json_array_append_new(cards, model_card(x->server, x->server->names.name[i])) != 0) {
            json_decref(cards);
            cards = NULL;
        }
    }
    glyd_exchange_reply_json(x, MHD_HTTP_OK,
                             json_pack("{s:s, s:o}", "object", "list", "data", cards));
}

void glyd_serve_model(glyd_exchange *x)
{
    char *name = strstr(x->path, "/models/") + strlen("/models/");
    for (size_t n = strlen(name); n > 0 && name[n - 1] == '/';)
        name[--n] = 0;
    for (size_t i = 0; i < x->server->names.n; i++) {
        if (strcasecmp(name, x->server->names.name[i]) == 0) {
            glyd_exchange_reply_json(x, MHD_HTTP_OK,
                                     model_card(x->server, x->server->names.name[i]));
            return;
        }
    }
    glyd_exchange_fail(x, MHD_HTTP_NOT_FOUND, "model", "The model `%.200s` does not exist.", name);
}

void glyd_serve_metrics(glyd_exchange *x)
{
    glyd_server *server = x->server;
    glyd_stats stats = {0};
    glyd_buf text = {0};
    glyd_engine_stats(server->engine, &stats);
    if (glyd_metrics_print(server->metrics, server->info.name, server->engine_info, &stats,
                           &text) == GLYD_OK)
        glyd_exchange_reply(x, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text.data,
                            text.bytes);
    else
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    glyd_buf_free(&text);
}

void glyd_serve_openapi(glyd_exchange *x)
{
    glyd_exchange_reply(x, MHD_HTTP_OK, "application/json", glyd_openapi_json,
                        glyd_openapi_json_bytes);
}
