/* guards.h - who may ask: the Host and Origin headers, and the key.
 *
 * Host       localhost, a plain address or an allowed name; any other is 421. A page of another
 *            site that had its name point here (DNS rebinding) is told apart by that.
 * Origin     absent, the server's own page or an allowed one; any other is 403.
 * Twice      Host, Origin, or a length of the body: 400, and the connection is closed.
 * Key        "Authorization: Bearer KEY" or "x-api-key: KEY"; a wrong or absent one is 401.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_GUARDS_H
#define GLYD_SERVER_GUARDS_H

#include "server/state.h"

struct MHD_Connection;

/* Fill in x->origin and x->id. False: the exchange was answered with an error. */
bool glyd_guards_pass(glyd_exchange *x, struct MHD_Connection *connection, bool needs_key);

/* SHA-256 of a key. */
GLYD_MUST_CHECK glyd_status glyd_key_hash(const char *key, uint8_t hash[GLYD_KEY_HASH_BYTES]);

/* Whether a text is an address, IPv4 or IPv6. */
bool glyd_address_is_one(const char *text);

/* Whether an address ("127.0.0.1", "::1") is of this machine alone. */
bool glyd_address_is_local(const char *address);

#endif
