/* exchange.h - one HTTP request and what is answered to it.
 *
 * Owned by count: the connection, queued work and running sequences each hold it. Only the polling
 * thread touches `connection`; others wake it. What a handler writes is whole once
 * glyd_exchange_reply or glyd_exchange_fail was called, or a stream of events from
 * glyd_stream_begin to glyd_stream_end.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_EXCHANGE_H
#define GLYD_SERVER_EXCHANGE_H

#include "base/buf.h"
#include "server/workers.h"
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    GLYD_ID_BYTES = 80,
    GLYD_PATH_BYTES = 320, /* of a path; the name of a model fits, the rest is cut */
};

typedef struct glyd_server glyd_server;
typedef struct glyd_generation glyd_generation;
typedef struct glyd_exchange glyd_exchange;
typedef struct glyd_connection glyd_connection;

typedef enum glyd_phase {
    GLYD_PHASE_READING,  /* header and body come in */
    GLYD_PHASE_WORKING,  /* a worker has it, or the engine */
    GLYD_PHASE_ANSWERED, /* `out` holds the whole body */
    GLYD_PHASE_STREAMING /* `out` holds what is not yet sent */
} glyd_phase;

/* Whose form errors take. */
typedef enum glyd_dialect { GLYD_DIALECT_OPENAI, GLYD_DIALECT_ANTHROPIC } glyd_dialect;

typedef struct glyd_route {
    const char *method, *path; /* without /v1 */
    void (*handle)(glyd_exchange *x);
    bool needs_key;
    bool is_quick; /* answered by the polling thread itself: no JSON, no engine */
    glyd_dialect dialect;
} glyd_route;

struct glyd_exchange {
    glyd_server *server;
    struct MHD_Connection *connection;
    glyd_connection *link;
    const glyd_route *route; /* NULL: refused before one was found */
    char method[16], path[GLYD_PATH_BYTES];
    char id[GLYD_ID_BYTES]; /* of the client's X-Request-Id, or drawn */
    char origin[256];       /* an allowed one; empty: none came */
    glyd_buf body;
    bool is_too_large, is_crowded; /* the body; crowded: others' leave no room for it */
    size_t body_counted;           /* of its bytes, in the server's n_body_bytes */
    bool is_old;                   /* HTTP/1.0 */
    bool is_ambiguous;             /* its header; nothing more is read from the connection */
    json_t *request;               /* the body as an object, for routes that take one */

    pthread_mutex_t lock; /* of what follows */
    glyd_phase phase;
    bool is_suspended, is_gone, is_ended;
    bool is_cut; /* gone before the answer was whole */
    int status;
    int retry_after_s;        /* 0: no such header */
    const char *content_type; /* a constant */
    const char *policy;       /* of a page, as Content-Security-Policy; NULL: not a page */
    glyd_buf out;
    size_t out_at;
    double written_s;
    glyd_generation *generation; /* set while it runs */

    /* for the log */
    double begun_s, first_s;
    int64_t bytes_out;
    int n_prompt, n_cached, n_tokens;
    const char *finish; /* a constant; NULL: no tokens were asked for */

    glyd_work work;
    atomic_int n_owners;
};

/* Owned once. NULL: out of memory. */
glyd_exchange *glyd_exchange_create(glyd_server *server);
void glyd_exchange_hold(glyd_exchange *x);
void glyd_exchange_drop(glyd_exchange *x);

/* --- answers: any thread, once --- */

void glyd_exchange_reply(glyd_exchange *x, int status, const char *content_type, const void *data,
                         size_t bytes);

/* Takes `object`; NULL is answered with 500, out of memory. */
void glyd_exchange_reply_json(glyd_exchange *x, int status, json_t *object);

/* The client left, or the server ends: nothing will be sent any more. */
void glyd_exchange_abandon(glyd_exchange *x);
bool glyd_exchange_is_gone(glyd_exchange *x);

/* --- event streams --- */

void glyd_stream_begin(glyd_exchange *x);
/* Append "data: JSON\n\n", with "event: NAME\n" before it unless `event` is NULL; takes `object`.
 */
void glyd_stream_event(glyd_exchange *x, const char *event, json_t *object);
void glyd_stream_raw(glyd_exchange *x, const char *text, size_t bytes);
void glyd_stream_end(glyd_exchange *x);

/* Append JSON text on one line. No byte of it is a line end in any reading of UTF-8: U+0085,
 * U+2028 and U+2029, which some clients split lines at, are escaped. */
GLYD_MUST_CHECK glyd_status glyd_json_append(glyd_buf *out, const json_t *value);

#endif
