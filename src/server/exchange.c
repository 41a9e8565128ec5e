/* exchange.c - one HTTP request and what is answered to it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/exchange.h"
#include "base/clock.h"
#include "server/errors.h"
#include "server/generation.h"
#include "server/log.h"
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

glyd_exchange *glyd_exchange_create(glyd_server *server)
{
    glyd_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->server = server;
    x->begun_s = glyd_clock_s();
    pthread_mutex_init(&x->lock, NULL);
    atomic_init(&x->n_owners, 1);
    return x;
}

void glyd_exchange_hold(glyd_exchange *x)
{
    atomic_fetch_add(&x->n_owners, 1);
}

void glyd_exchange_drop(glyd_exchange *x)
{
    if (atomic_fetch_sub(&x->n_owners, 1) > 1)
        return;
    atomic_fetch_sub(&x->server->n_body_bytes, (long long)x->body_counted);
    glyd_log_exchange(x); /* the engine is done with it too: the figures are final */
    glyd_generation_free(x->generation);
    pthread_mutex_destroy(&x->lock);
    json_decref(x->request);
    glyd_buf_free(&x->body);
    glyd_buf_free(&x->out);
    free(x);
}

/* With the lock held: let the polling thread look at the connection again. */
static void wake(glyd_exchange *x)
{
    if (!x->is_suspended)
        return;
    x->is_suspended = false;
    MHD_resume_connection(x->connection);
}

static void set_answer(glyd_exchange *x, int status, const char *content_type)
{
    x->status = status;
    x->content_type = content_type;
    x->phase = GLYD_PHASE_ANSWERED;
    x->is_ended = true;
    wake(x);
}

void glyd_exchange_reply(glyd_exchange *x, int status, const char *content_type, const void *data,
                         size_t bytes)
{
    pthread_mutex_lock(&x->lock);
    x->out.bytes = 0;
    if (glyd_buf_append(&x->out, data, bytes) != GLYD_OK)
        status = MHD_HTTP_INTERNAL_SERVER_ERROR; /* with an empty body: there is no room for one */
    set_answer(x, status, content_type);
    pthread_mutex_unlock(&x->lock);
}

static int append_bytes(const char *text, size_t bytes, void *arg)
{
    return glyd_buf_append(arg, text, bytes) == GLYD_OK ? 0 : -1;
}

/* The bytes at `s` are a character that is a line end to some clients: its escape, or NULL. */
static const char *line_end_escape(const uint8_t *s, size_t n, size_t *bytes)
{
    if (n >= 2 && s[0] == 0xc2 && s[1] == 0x85) {
        *bytes = 2;
        return "\\u0085";
    }
    if (n >= 3 && s[0] == 0xe2 && s[1] == 0x80 && (s[2] == 0xa8 || s[2] == 0xa9)) {
        *bytes = 3;
        return s[2] == 0xa8 ? "\\u2028" : "\\u2029";
    }
    return NULL;
}

glyd_status glyd_json_append(glyd_buf *out, const json_t *value)
{
    glyd_buf text = {0};
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15);
    glyd_status status =
        json_dump_callback(value, append_bytes, &text, flags) == 0 ? GLYD_OK : GLYD_E_NOMEM;
    size_t from = 0;
    for (size_t i = 0; status == GLYD_OK && i < text.bytes; i++) {
        size_t bytes = 0;
        const char *escape =
            text.data[i] < 0x80 ? NULL : line_end_escape(text.data + i, text.bytes - i, &bytes);
        if (!escape)
            continue;
        status = glyd_buf_append(out, text.data + from, i - from);
        if (status == GLYD_OK)
            status = glyd_buf_append(out, escape, strlen(escape));
        i += bytes - 1;
        from = i + 1;
    }
    if (status == GLYD_OK)
        status = glyd_buf_append(out, text.data + from, text.bytes - from);
    glyd_buf_free(&text);
    return status;
}

void glyd_exchange_reply_json(glyd_exchange *x, int status, json_t *object)
{
    glyd_buf text = {0};
    if (!object || glyd_json_append(&text, object) != GLYD_OK)
        glyd_exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
    else
        glyd_exchange_reply(x, status, "application/json", text.data, text.bytes);
    json_decref(object);
    glyd_buf_free(&text);
}

void glyd_exchange_abandon(glyd_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool was_gone = x->is_gone;
    x->is_gone = true;
    x->is_cut = x->is_cut || !x->is_ended;
    if (!was_gone && x->generation)
        glyd_generation_cancel(x->generation);
    wake(x);
    pthread_mutex_unlock(&x->lock);
}

bool glyd_exchange_is_gone(glyd_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool is_gone = x->is_gone;
    pthread_mutex_unlock(&x->lock);
    return is_gone;
}

void glyd_stream_begin(glyd_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->status = MHD_HTTP_OK;
    x->content_type = "text/event-stream; charset=utf-8";
    x->phase = GLYD_PHASE_STREAMING;
    x->written_s = glyd_clock_s();
    wake(x);
    pthread_mutex_unlock(&x->lock);
}

void glyd_stream_raw(glyd_exchange *x, const char *text, size_t bytes)
{
    pthread_mutex_lock(&x->lock);
    /* Without memory for it an event is lost; the stream then ends without its last events, which
     * a client can tell. */
    if (!x->is_gone && !x->is_ended && glyd_buf_append(&x->out, text, bytes) != GLYD_OK)
        x->is_ended = true;
    x->written_s = glyd_clock_s();
    wake(x);
    pthread_mutex_unlock(&x->lock);
}

void glyd_stream_event(glyd_exchange *x, const char *event, json_t *object)
{
    glyd_buf text = {0};
    glyd_status status = object ? GLYD_OK : GLYD_E_NOMEM;
    if (status == GLYD_OK && event)
        status = glyd_buf_print(&text, "event: %s\n", event);
    if (status == GLYD_OK)
        status = glyd_buf_append(&text, "data: ", 6);
    if (status == GLYD_OK)
        status = glyd_json_append(&text, object);
    if (status == GLYD_OK)
        status = glyd_buf_append(&text, "\n\n", 2);
    if (status == GLYD_OK)
        glyd_stream_raw(x, (const char *)text.data, text.bytes);
    else
        glyd_stream_end(x);
    json_decref(object);
    glyd_buf_free(&text);
}

void glyd_stream_end(glyd_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->is_ended = true;
    wake(x);
    pthread_mutex_unlock(&x->lock);
}
