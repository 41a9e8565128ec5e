/* watcher.h - sees clients leave, and dawdle.
 *
 * The HTTP library notices a lost client only when it writes, and not at all while a connection is
 * suspended. So a thread of our own polls every socket for the other side's close; it also ends
 * connections whose header or body never becomes whole, and keeps silent streams alive.
 *
 * Threads    glyd_watcher_* are called by the polling thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_WATCHER_H
#define GLYD_SERVER_WATCHER_H

#include "server/exchange.h"

typedef struct glyd_watcher glyd_watcher;

GLYD_MUST_CHECK glyd_status glyd_watcher_create(glyd_watcher **watcher, glyd_error *err);
void glyd_watcher_free(glyd_watcher *watcher); /* joins; NULL is allowed */

/* A connection begins and ends. NULL: out of memory. */
glyd_connection *glyd_watcher_add(glyd_watcher *watcher, int socket);
void glyd_watcher_remove(glyd_watcher *watcher, glyd_connection *connection);

/* A request on it begins to be read (its header is whole), and is over. */
void glyd_watcher_begin(glyd_watcher *watcher, glyd_connection *connection, glyd_exchange *x);
void glyd_watcher_end(glyd_watcher *watcher, glyd_connection *connection);

/* The request is being worked on: from here on a close of the other side abandons it. */
void glyd_watcher_work(glyd_watcher *watcher, glyd_connection *connection);

/* Abandon what is unfinished; returns how many exchanges that were. */
int glyd_watcher_abandon_all(glyd_watcher *watcher);

/* Exchanges that are not over. */
int glyd_watcher_count(glyd_watcher *watcher);

#endif
