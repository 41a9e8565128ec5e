/* http.c - the listening socket, connections, headers and bodies.
 *
 * libmicrohttpd polls all sockets on one thread, which never waits for anything else: a request
 * that needs work is handed to a worker and its connection suspended until there is something to
 * send.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "server/http.h"
#include "base/error.h"
#include "server/errors.h"
#include "server/guards.h"
#include "server/request.h"
#include "server/routes.h"
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 4096,
    CONNECTION_BYTES = 20 << 10, /* of a connection's header and answer's header */
    IDLE_S = 75,
    STREAM_BLOCK_BYTES = 4096,
    PORT_TEXT_BYTES = 8,
    PORT_MAX = 65535,
};

static void free_response_data(void *arg)
{
    glyd_exchange_drop(arg);
}

/* Called by the HTTP library when the socket can take more. */
static ssize_t read_stream(void *arg, uint64_t at, char *buf, size_t max)
{
    glyd_exchange *x = arg;
    ssize_t n = 0;
    (void)at;
    pthread_mutex_lock(&x->lock);
    size_t left = x->out.bytes - x->out_at;
    if (x->is_gone) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (left > 0) {
        n = (ssize_t)(left < max ? left : max);
        memcpy(buf, x->out.data + x->out_at, (size_t)n);
        x->out_at += (size_t)n;
        x->bytes_out += n;
        if (x->out_at == x->out.bytes)
            x->out_at = x->out.bytes = 0;
    } else if (x->is_ended) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        x->is_suspended = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    return n;
}

static void add_headers(const glyd_exchange *x, struct MHD_Response *response)
{
    char text[16];
    if (x->is_ambiguous)
        MHD_add_response_header(response, "Connection", "close");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "X-Request-Id", x->id);
    if (x->content_type && x->out.bytes + (x->phase == GLYD_PHASE_STREAMING) > 0)
        MHD_add_response_header(response, "Content-Type", x->content_type);
    if (x->phase == GLYD_PHASE_STREAMING)
        MHD_add_response_header(response, "Cache-Control", "no-cache");
    if (x->policy) {
        MHD_add_response_header(response, "Content-Security-Policy", x->policy);
        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
        MHD_add_response_header(response, "Cache-Control", "no-cache");
    }
    if (x->origin[0]) {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", x->origin);
        MHD_add_response_header(response, "Vary", "Origin");
    }
    if (strcmp(x->method, "OPTIONS") == 0) {
        MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        MHD_add_response_header(response, "Access-Control-Allow-Headers",
                                "Authorization, Content-Type, X-Api-Key, X-Request-Id, "
                                "Anthropic-Version, Anthropic-Beta, "
                                "Anthropic-Dangerous-Direct-Browser-Access");
        MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    }
    if (x->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (x->retry_after_s > 0) {
        snprintf(text, sizeof text, "%d", x->retry_after_s);
        MHD_add_response_header(response, "Retry-After", text);
    }
}

/* The exchange is answered, or begins to stream. */
static enum MHD_Result queue_response(glyd_exchange *x, struct MHD_Connection *connection)
{
    struct MHD_Response *response;
    pthread_mutex_lock(&x->lock);
    int status = x->status;
    glyd_exchange_hold(x); /* until the response is freed */
    if (x->phase == GLYD_PHASE_STREAMING) {
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES,
                                                     read_stream, x, free_response_data);
    } else {
        response = MHD_create_response_from_buffer_with_free_callback_cls(x->out.bytes, x->out.data,
                                                                          free_response_data, x);
        x->bytes_out = (int64_t)x->out.bytes;
    }
    if (response)
        add_headers(x, response);
    pthread_mutex_unlock(&x->lock);
    if (!response) {
        glyd_exchange_drop(x);
        return MHD_NO;
    }
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

/* Find the route and let the guards look. What they refuse is answered once the body has passed. */
static void open_exchange(glyd_exchange *x, struct MHD_Connection *connection)
{
    bool is_known = false;
    const char *method = strcmp(x->method, "HEAD") == 0 ? "GET" : x->method;
    x->route = glyd_route_find(method, x->path, &is_known);
    bool is_versioned = strncmp(x->path, "/v1", 3) == 0;
    if (!glyd_guards_pass(x, connection, x->route ? x->route->needs_key : is_versioned))
        return;
    if (strcmp(x->method, "OPTIONS") == 0)
        glyd_exchange_reply(x, MHD_HTTP_NO_CONTENT, NULL, "", 0);
    else if (!x->route && is_known)
        glyd_exchange_fail(x, MHD_HTTP_METHOD_NOT_ALLOWED, NULL, "Method Not Allowed");
    else if (!x->route)
        glyd_exchange_fail(x, MHD_HTTP_NOT_FOUND, NULL, "Not Found");
    else if (atomic_load(&x->server->is_draining) && !x->route->is_quick) {
        x->retry_after_s = 5;
        glyd_exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, "The server is shutting down.");
    }
}

/* Whether the body is longer than can be taken, by its announced length. */
static bool is_announced_too_large(struct MHD_Connection *connection)
{
    const char *text = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    return text && strtoull(text, NULL, 10) > GLYD_BODY_BYTES_MAX;
}

static void fail_too_large(glyd_exchange *x)
{
    glyd_exchange_fail(x, MHD_HTTP_CONTENT_TOO_LARGE, NULL, "The body is larger than %d bytes.",
                       GLYD_BODY_BYTES_MAX);
}

/* Whether the bodies that are held leave room for one of so many bytes. What is made of a body
 * takes memory too, so it counts until its request is over. */
static bool has_room(glyd_exchange *x, size_t bytes)
{
    atomic_llong *held = &x->server->n_body_bytes;
    size_t more = bytes > GLYD_BODY_BYTES_FREE ? bytes - GLYD_BODY_BYTES_FREE - x->body_counted : 0;
    if (more > 0 &&
        atomic_fetch_add(held, (long long)more) + (long long)more > GLYD_BODIES_BYTES_MAX) {
        atomic_fetch_sub(held, (long long)more);
        return false;
    }
    x->body_counted += more;
    return true;
}

static void take_body(glyd_exchange *x, const char *data, size_t bytes)
{
    if (x->phase != GLYD_PHASE_READING || x->is_too_large || x->is_crowded)
        return;
    x->is_crowded = !has_room(x, x->body.bytes + bytes);
    x->is_too_large = x->body.bytes + bytes > GLYD_BODY_BYTES_MAX;
    if (!x->is_crowded && !x->is_too_large && glyd_buf_append(&x->body, data, bytes) != GLYD_OK)
        x->is_crowded = true;
    if (x->is_crowded || x->is_too_large) {
        glyd_buf_free(&x->body);
        atomic_fetch_sub(&x->server->n_body_bytes, (long long)x->body_counted);
        x->body_counted = 0;
    }
}

static void run_route(glyd_work *work)
{
    glyd_exchange *x = (glyd_exchange *)((char *)work - offsetof(glyd_exchange, work));
    if (strcmp(x->method, "POST") != 0 || glyd_request_parse(x))
        x->route->handle(x);
    glyd_exchange_drop(x);
}

/* The body is whole. */
static enum MHD_Result start_work(glyd_exchange *x, struct MHD_Connection *connection)
{
    if (x->is_too_large) {
        fail_too_large(x);
        return queue_response(x, connection);
    }
    if (x->is_crowded) {
        x->retry_after_s = 1;
        glyd_exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, NULL,
                           "There is no memory for the body now: other requests have it.");
        return queue_response(x, connection);
    }
    if (x->route->is_quick) {
        x->route->handle(x);
        return queue_response(x, connection);
    }
    pthread_mutex_lock(&x->lock);
    x->phase = GLYD_PHASE_WORKING;
    x->is_suspended = true;
    MHD_suspend_connection(connection);
    pthread_mutex_unlock(&x->lock);
    glyd_exchange_hold(x);
    x->work.run = run_route;
    glyd_workers_add(x->server->workers, &x->work, false);
    glyd_watcher_work(x->server->watcher, x->link);
    return MHD_YES;
}

static glyd_connection *link_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *bytes, void **slot)
{
    glyd_server *server = arg;
    glyd_exchange *x = *slot;
    if (!x) {
        x = glyd_exchange_create(server);
        if (!x)
            return MHD_NO;
        *slot = x;
        x->connection = connection;
        x->link = link_of(connection);
        x->is_old = strcmp(version, "HTTP/1.1") != 0;
        snprintf(x->method, sizeof x->method, "%s", method);
        snprintf(x->path, sizeof x->path, "%s", url);
        glyd_watcher_begin(server->watcher, x->link, x);
        open_exchange(x, connection);
        if (x->is_ambiguous)
            return queue_response(x, connection);
        if (x->phase == GLYD_PHASE_READING && is_announced_too_large(connection)) {
            fail_too_large(x);
            return queue_response(x, connection);
        }
        return MHD_YES;
    }
    if (*bytes > 0) {
        take_body(x, data, *bytes);
        *bytes = 0;
        return MHD_YES;
    }
    pthread_mutex_lock(&x->lock);
    glyd_phase phase = x->phase;
    bool is_gone = x->is_gone;
    pthread_mutex_unlock(&x->lock);
    if (is_gone)
        return MHD_NO;
    if (phase == GLYD_PHASE_READING)
        return start_work(x, connection);
    return phase == GLYD_PHASE_WORKING ? MHD_YES : queue_response(x, connection);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode code)
{
    glyd_server *server = arg;
    glyd_exchange *x = *slot;
    (void)connection;
    if (!x)
        return;
    *slot = NULL;
    glyd_watcher_end(server->watcher, x->link);
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        glyd_exchange_abandon(x);
    glyd_exchange_drop(x);
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    glyd_server *server = arg;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        glyd_watcher_remove(server->watcher, *slot);
        *slot = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *slot = info ? glyd_watcher_add(server->watcher, info->connect_fd) : NULL;
}

static void say_nothing(void *arg, const char *format, va_list args)
{
    (void)arg, (void)format, (void)args; /* what clients do wrong is in their answers */
}

/* A socket that listens, and the port it got. */
static glyd_status listen_on(glyd_server *server, const char *host, int port, int *out,
                             glyd_error *err)
{
    char port_text[PORT_TEXT_BYTES];
    snprintf(port_text, sizeof port_text, "%d", port);
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *address = NULL;
    if (getaddrinfo(host, port_text, &hints, &address) != 0)
        GLYD_FAIL(err, GLYD_E_ARG, "%s: an address is needed, such as 127.0.0.1", host);
    int one = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_open = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                   bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 511) == 0;
    bool is_six = address->ai_family == AF_INET6;
    freeaddrinfo(address);
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    if (!is_open || getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0) {
        if (fd >= 0)
            close(fd);
        GLYD_FAIL(err, GLYD_E_IO,
                  "port %d of %s is in use or not allowed: choose another by --port", port, host);
    }
    in_port_t got = is_six ? ((struct sockaddr_in6 *)&bound)->sin6_port
                           : ((struct sockaddr_in *)&bound)->sin_port;
    server->info.port = ntohs(got);
    snprintf(server->address, sizeof server->address, is_six ? "http://[%s]:%d" : "http://%s:%d",
             host, server->info.port);
    *out = fd;
    return GLYD_OK;
}

glyd_status glyd_http_start(glyd_server *server, const char *host, int port, int n_ports,
                            glyd_error *err)
{
    int fd;
    int last = port > 0 && n_ports > 1 && port <= PORT_MAX - n_ports ? port + n_ports - 1 : port;
    glyd_status status = listen_on(server, host, port, &fd, err);
    while (status == GLYD_E_IO && port < last)
        status = listen_on(server, host, ++port, &fd, err);
    if (status != GLYD_OK)
        return status;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        on_request, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_EXTERNAL_LOGGER, say_nothing,
        NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_END);
    if (!server->daemon) {
        close(fd);
        GLYD_FAIL(err, GLYD_E_IO, "the HTTP server cannot be started");
    }
    return GLYD_OK;
}

void glyd_http_quiesce(glyd_server *server)
{
    MHD_socket fd = server->daemon ? MHD_quiesce_daemon(server->daemon) : MHD_INVALID_SOCKET;
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
}

void glyd_http_stop(glyd_server *server)
{
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    server->daemon = NULL;
}
