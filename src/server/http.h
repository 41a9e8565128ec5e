/* http.h - the listening socket, connections, headers and bodies.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_HTTP_H
#define GLYD_SERVER_HTTP_H

#include "server/state.h"

/* Listen on the first of `n_ports` ports from `port` on that is free; fills in server->daemon,
 * server->address and server->info.port. Errors: E_ARG, E_IO. */
GLYD_MUST_CHECK glyd_status glyd_http_start(glyd_server *server, const char *host, int port,
                                            int n_ports, glyd_error *err);

/* Take no more connections; those that are open go on. */
void glyd_http_quiesce(glyd_server *server);

/* Close all. No exchange may be suspended. */
void glyd_http_stop(glyd_server *server);

#endif
