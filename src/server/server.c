/* server.c - open and close: the text side of a model, the threads, the socket.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "server/server.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/guards.h"
#include "server/http.h"
#include "server/page.h"
#include "server/state.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORKERS = 4 };

glyd_server_options glyd_server_options_default(const char *folder)
{
    return (glyd_server_options){.folder = folder, .host = "127.0.0.1", .port = 8000};
}

static glyd_status open_template(glyd_server *s, const glyd_server_options *o, glyd_error *err)
{
    glyd_buf text = {0};
    glyd_error why;
    glyd_status status = glyd_template_find(o->folder, NULL, &text, &why);
    if (status == GLYD_OK)
        status = glyd_template_compile((glyd_span){text.data, text.bytes}, &s->template, &why);
    if (status == GLYD_OK || status == GLYD_E_NOTFOUND)
        status = glyd_answer_format_choose(s->engine_info->family,
                                           (glyd_span){text.data, text.bytes}, s->tokenizer,
                                           o->tool_format, o->reasoning_format, &s->format, &why);
    glyd_buf_free(&text);
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "%s: %s", o->folder, why.text);
    return GLYD_OK;
}

static glyd_status open_text(glyd_server *s, const glyd_server_options *o, glyd_error *err)
{
    GLYD_TRY(glyd_tokenizer_open(o->folder, &s->tokenizer, err));
    GLYD_TRY(glyd_vocabulary_create(s->tokenizer, &s->vocabulary, err));
    GLYD_TRY(glyd_special_tokens_read(o->folder, &s->special_tokens, err));
    GLYD_TRY(open_template(s, o, err));
    s->info.has_template = s->template != NULL;
    s->info.tool_format = glyd_answer_calls_name(s->format.calls);
    s->info.reasoning_format = glyd_answer_reasoning_name(s->format.reasoning);
    return GLYD_OK;
}

/* The last part of a folder's path, as a name for the model. */
static void folder_name(const char *folder, char *name, size_t bytes)
{
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/')
        end--;
    size_t from = end;
    while (from > 0 && folder[from - 1] != '/')
        from--;
    size_t n = end - from < bytes - 1 ? end - from : bytes - 1;
    memcpy(name, folder + from, n);
    name[n] = 0;
    for (char *c = name; *c; c++)
        if (*c == ',' || (unsigned char)*c < 0x20)
            *c = '_';
}

static glyd_status read_names(glyd_server *s, const glyd_server_options *o, glyd_error *err)
{
    char name[256];
    folder_name(o->folder, name, sizeof name);
    glyd_status status = glyd_names_split(o->served_names ? o->served_names : name, &s->names);
    if (status == GLYD_OK)
        status = glyd_names_split(o->allowed_origins, &s->origins);
    if (status == GLYD_OK)
        status = glyd_names_split(o->allowed_hosts, &s->hosts);
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "out of memory");
    if (s->names.n == 0)
        GLYD_FAIL(err, GLYD_E_ARG, "a name to serve the model by is needed");
    s->info.name = s->names.name[0];
    s->has_key = o->api_key != NULL;
    if (o->api_key && !o->api_key[0])
        GLYD_FAIL(err, GLYD_E_ARG, "the API key is empty");
    if (o->api_key && glyd_key_hash(o->api_key, s->key_hash) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    if (!glyd_address_is_one(o->host))
        GLYD_FAIL(err, GLYD_E_ARG, "%s: an address is needed, such as 127.0.0.1", o->host);
    if (!o->api_key && !glyd_address_is_local(o->host))
        GLYD_FAIL(err, GLYD_E_ARG,
                  "%s can be reached by other machines: set a key by --api-key or GLYD_API_KEY",
                  o->host);
    return GLYD_OK;
}

static void free_all(glyd_server *s)
{
    glyd_http_stop(s);
    glyd_workers_free(s->workers);
    glyd_watcher_free(s->watcher);
    glyd_metrics_free(s->metrics);
    glyd_template_free(s->template);
    glyd_vocabulary_free(s->vocabulary);
    json_decref(s->special_tokens);
    glyd_tokenizer_close(s->tokenizer);
    glyd_names_free(&s->names);
    glyd_names_free(&s->origins);
    glyd_names_free(&s->hosts);
    free(s);
}

static glyd_status start(glyd_server *s, const glyd_server_options *o, glyd_error *err)
{
    GLYD_TRY(read_names(s, o, err));
    GLYD_TRY(open_text(s, o, err));
    GLYD_TRY(glyd_page_policy_make(s->page_policy, err));
    GLYD_TRY(glyd_metrics_create(&s->metrics, err));
    GLYD_TRY(glyd_workers_create(WORKERS, &s->workers, err));
    GLYD_TRY(glyd_watcher_create(&s->watcher, err));
    GLYD_TRY(glyd_http_start(s, o->host, o->port, o->n_ports, err));
    s->info.address = s->address;
    return GLYD_OK;
}

glyd_status glyd_server_start(const glyd_server_options *options, glyd_engine *engine,
                              glyd_server **out, glyd_error *err)
{
    glyd_server *s = calloc(1, sizeof *s);
    if (!s)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    s->engine = engine;
    s->engine_info = glyd_engine_describe(engine);
    s->created = time(NULL);
    s->log = options->log;
    s->log_arg = options->log_arg;
    s->log_prompts = options->log_prompts;
    glyd_status status = start(s, options, err);
    if (status != GLYD_OK) {
        free_all(s);
        return status;
    }
    *out = s;
    return GLYD_OK;
}

const glyd_server_info *glyd_server_describe(const glyd_server *server)
{
    return &server->info;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

int glyd_server_stop(glyd_server *s, double timeout_s)
{
    enum { LAST_WORDS_MS = 2000, STEP_MS = 10 };
    if (!s)
        return 0;
    atomic_store(&s->is_draining, true);
    glyd_http_quiesce(s);
    int n_cut = glyd_engine_drain(s->engine, timeout_s);
    /* The engine is at rest; what it made is still being written. */
    for (int i = 0; i < LAST_WORDS_MS / STEP_MS && glyd_watcher_count(s->watcher) > 0; i++)
        sleep_ms(STEP_MS);
    (void)glyd_watcher_abandon_all(s->watcher);
    while (atomic_load(&s->n_load) > 0)
        sleep_ms(1);
    free_all(s);
    return n_cut;
}
