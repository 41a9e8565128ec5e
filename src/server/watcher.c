/* watcher.c - sees clients leave, and dawdle.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "server/watcher.h"
#include "base/clock.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS = 64,
    TICK_MS = 1000,
    HEADER_S = 120, /* from connecting, or the last answer, to a whole header; idling included */
    BODY_S = 300,   /* to a whole body */
    CLOSED_S = 2,   /* the same once the other side has closed: nothing more can come */
    PING_S = 10,    /* of silence in a stream */
};

struct glyd_connection {
    glyd_connection *next, **back;
    uint64_t serial; /* tells a connection from a later one at the same address */
    int socket;
    double since_s; /* of this phase */
    bool is_closed; /* by the other side */
    bool is_working;
    glyd_exchange *exchange; /* NULL: between requests */
};

struct glyd_watcher {
    pthread_mutex_t lock;
    glyd_connection *first;
    uint64_t serial;
    int epoll, stop;
    pthread_t thread;
    bool is_started;
};

static void ping(glyd_exchange *x, double now)
{
    static const char comment[] = ": still working\n\n";
    pthread_mutex_lock(&x->lock);
    bool is_silent = x->phase == GLYD_PHASE_STREAMING && !x->is_ended &&
                     now - x->written_s > PING_S && x->out.bytes == x->out_at;
    pthread_mutex_unlock(&x->lock);
    if (is_silent)
        glyd_stream_raw(x, comment, sizeof comment - 1);
}

static void tick(glyd_watcher *w)
{
    double now = glyd_clock_s();
    pthread_mutex_lock(&w->lock);
    for (glyd_connection *c = w->first; c; c = c->next) {
        double limit_s = c->is_closed ? CLOSED_S : c->exchange ? BODY_S : HEADER_S;
        if (c->is_working)
            ping(c->exchange, now);
        else if (now - c->since_s > limit_s)
            shutdown(c->socket, SHUT_RDWR); /* the HTTP library then sees an end and cleans up */
    }
    pthread_mutex_unlock(&w->lock);
}

static void see_close(glyd_watcher *w, uint64_t serial)
{
    pthread_mutex_lock(&w->lock);
    glyd_connection *c = w->first;
    while (c && c->serial != serial)
        c = c->next;
    if (c) {
        c->is_closed = true;
        if (c->is_working)
            glyd_exchange_abandon(c->exchange);
    }
    pthread_mutex_unlock(&w->lock);
}

static void *watch(void *arg)
{
    glyd_watcher *w = arg;
    double ticked_s = glyd_clock_s();
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(w->epoll, events, EVENTS, TICK_MS);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == 0)
                return NULL;
            see_close(w, events[i].data.u64);
        }
        if (glyd_clock_s() - ticked_s >= TICK_MS / 1e3) {
            ticked_s = glyd_clock_s();
            tick(w);
        }
    }
}

glyd_status glyd_watcher_create(glyd_watcher **out, glyd_error *err)
{
    glyd_watcher *w = calloc(1, sizeof *w);
    if (!w)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    pthread_mutex_init(&w->lock, NULL);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->stop = eventfd(0, EFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    if (w->epoll >= 0 && w->stop >= 0 && epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->stop, &event) == 0)
        w->is_started = pthread_create(&w->thread, NULL, watch, w) == 0;
    if (!w->is_started) {
        glyd_watcher_free(w);
        GLYD_FAIL(err, GLYD_E_IO, "sockets cannot be watched: too many open files or threads");
    }
    *out = w;
    return GLYD_OK;
}

void glyd_watcher_free(glyd_watcher *w)
{
    if (!w)
        return;
    uint64_t one = 1;
    if (w->is_started && write(w->stop, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(w->thread, NULL);
    if (w->stop >= 0)
        close(w->stop);
    if (w->epoll >= 0)
        close(w->epoll);
    while (w->first)
        glyd_watcher_remove(w, w->first);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

glyd_connection *glyd_watcher_add(glyd_watcher *w, int socket)
{
    glyd_connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->socket = socket;
    c->since_s = glyd_clock_s();
    pthread_mutex_lock(&w->lock);
    c->serial = ++w->serial;
    c->next = w->first;
    c->back = &w->first;
    if (c->next)
        c->next->back = &c->next;
    w->first = c;
    pthread_mutex_unlock(&w->lock);
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = c->serial};
    (void)epoll_ctl(w->epoll, EPOLL_CTL_ADD, socket, &event); /* without it a write sees the end */
    return c;
}

void glyd_watcher_remove(glyd_watcher *w, glyd_connection *c)
{
    if (!c)
        return;
    if (w->epoll >= 0)
        (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, c->socket, NULL);
    pthread_mutex_lock(&w->lock);
    *c->back = c->next;
    if (c->next)
        c->next->back = c->back;
    pthread_mutex_unlock(&w->lock);
    free(c);
}

static void set_phase(glyd_watcher *w, glyd_connection *c, glyd_exchange *x, bool is_working)
{
    if (!c)
        return;
    pthread_mutex_lock(&w->lock);
    c->exchange = x;
    c->is_working = is_working;
    c->since_s = glyd_clock_s();
    if (is_working && c->is_closed)
        glyd_exchange_abandon(x);
    pthread_mutex_unlock(&w->lock);
}

void glyd_watcher_begin(glyd_watcher *w, glyd_connection *c, glyd_exchange *x)
{
    set_phase(w, c, x, false);
}

void glyd_watcher_end(glyd_watcher *w, glyd_connection *c)
{
    set_phase(w, c, NULL, false);
}

void glyd_watcher_work(glyd_watcher *w, glyd_connection *c)
{
    if (c)
        set_phase(w, c, c->exchange, true);
}

int glyd_watcher_abandon_all(glyd_watcher *w)
{
    int n = 0;
    pthread_mutex_lock(&w->lock);
    for (glyd_connection *c = w->first; c; c = c->next) {
        if (c->is_working) {
            glyd_exchange_abandon(c->exchange);
            n++;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return n;
}

int glyd_watcher_count(glyd_watcher *w)
{
    int n = 0;
    pthread_mutex_lock(&w->lock);
    for (glyd_connection *c = w->first; c; c = c->next)
        n += c->exchange != NULL;
    pthread_mutex_unlock(&w->lock);
    return n;
}
