/* state.h - an open server, as its own files see it.
 *
 * Everything but `is_draining` and the counts is set before the first request, constant after it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_STATE_H
#define GLYD_SERVER_STATE_H

#include "constraint/constraint.h"
#include "server/exchange.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/watcher.h"
#include "text/answer.h"
#include "text/text.h"
#include <stdatomic.h>
#include <time.h>

enum {
    GLYD_BODY_BYTES_MAX = 32 << 20,
    GLYD_BODIES_BYTES_MAX = 128 << 20, /* of all requests together, but for the */
    GLYD_BODY_BYTES_FREE = 64 << 10,   /* first bytes of each */
    GLYD_JSON_DEPTH_MAX = 200,
    GLYD_KEY_HASH_BYTES = 32,
    GLYD_PAGE_POLICY_BYTES = 512,
};

/* Texts of a list that was separated by commas. */
typedef struct glyd_names {
    char *storage;
    const char **name;
    size_t n;
} glyd_names;

GLYD_MUST_CHECK glyd_status glyd_names_split(const char *list, glyd_names *names);
void glyd_names_free(glyd_names *names);
bool glyd_names_have(const glyd_names *names, const char *text, size_t bytes); /* any case */

struct glyd_server {
    glyd_engine *engine; /* borrowed */
    const glyd_engine_info *engine_info;
    glyd_server_info info;
    char address[128];

    glyd_tokenizer *tokenizer;
    glyd_template *template;     /* NULL: the folder has none */
    glyd_vocabulary *vocabulary; /* for constraints */
    json_t *special_tokens;
    glyd_answer_format format; /* of tool calls and reasoning */

    glyd_names names, origins, hosts;
    bool has_key;
    uint8_t key_hash[GLYD_KEY_HASH_BYTES]; /* SHA-256 */
    time_t created;
    char page_policy[GLYD_PAGE_POLICY_BYTES];
    bool log_prompts;
    void *log_arg;
    void (*log)(void *arg, const char *line);

    struct MHD_Daemon *daemon;
    glyd_workers *workers;
    glyd_watcher *watcher;
    glyd_metrics *metrics;
    atomic_bool is_draining;
    atomic_int n_load;         /* requests to the model that are being answered */
    atomic_llong n_body_bytes; /* of long bodies, until their requests are over */
};

#endif
