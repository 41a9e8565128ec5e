/* server.h - an HTTP server over an open engine: the OpenAI API and its relatives.
 *
 * The one header that programs include. The server opens the folder's tokenizer and chat template
 * itself; the engine is borrowed and must stay open until glyd_server_stop has returned.
 *
 * Threads    one polls sockets, one watches for clients that leave, a few parse, render and write;
 *            all are joined by glyd_server_stop. `log` is called from any of them, one line at a
 *            time. The functions here may be called from any thread, stop once.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_SERVER_H
#define GLYD_SERVER_SERVER_H

#include "glyd/engine.h"

typedef struct glyd_server glyd_server;

/* All texts are borrowed until glyd_server_start returns. Lists are separated by commas. */
typedef struct glyd_server_options {
    const char *folder;          /* of the engine's model: tokenizer and chat template */
    const char *host;            /* address to listen on, a number: "127.0.0.1", "0.0.0.0", "::1" */
    int port;                    /* 0: any that is free */
    int n_ports;                 /* how many to try, from `port` on; 0 is 1 */
    const char *api_key;         /* NULL: none is asked for */
    const char *served_names;    /* NULL: the folder's name; replies carry the first */
    const char *allowed_origins; /* NULL: no other site's pages; "*": every site's */
    const char *allowed_hosts;   /* names, besides localhost and plain addresses, that it goes by */
    const char *tool_format;     /* NULL: chosen by the model; see glyd_server_describe */
    const char *reasoning_format;
    bool log_prompts;
    void *log_arg;
    void (*log)(void *arg, const char *line); /* NULL: nothing is logged */
} glyd_server_options;

/* 127.0.0.1, port 8000, no key, no log. */
glyd_server_options glyd_server_options_default(const char *folder);

/* Listen and answer. Errors: E_ARG (an address that is none; an address open to others without a
 * key), E_IO (the port is taken), E_NOTFOUND, E_FORMAT, E_UNSUPPORTED (tokenizer, template),
 * E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_server_start(const glyd_server_options *options,
                                              glyd_engine *engine, glyd_server **server,
                                              glyd_error *err);

/* What was chosen; everything lives as long as the server. */
typedef struct glyd_server_info {
    const char *address; /* "http://127.0.0.1:8000" */
    int port;
    const char *name;             /* the first served name */
    const char *tool_format;      /* "none", "hermes", ... */
    const char *reasoning_format; /* "none", "think", ... */
    bool has_template;            /* without one, chat is refused and completions work */
} glyd_server_info;

const glyd_server_info *glyd_server_describe(const glyd_server *server);

/* Take no more requests, let those that run finish for at most `timeout_s`, cut off the rest, join
 * the threads and free all. Returns how many were cut off. NULL is allowed. */
int glyd_server_stop(glyd_server *server, double timeout_s);

#endif
