/* guards.c - who may ask.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "server/guards.h"
#include "server/errors.h"
#include <arpa/inet.h>
#include <microhttpd.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HOST_BYTES = 256 };

glyd_status glyd_names_split(const char *list, glyd_names *names)
{
    *names = (glyd_names){0};
    if (!list)
        return GLYD_OK;
    size_t n = 1;
    for (const char *c = list; *c; c++)
        n += *c == ',';
    names->storage = strdup(list);
    names->name = calloc(n, sizeof *names->name);
    if (!names->storage || !names->name)
        return GLYD_E_NOMEM;
    for (char *text = names->storage; text;) {
        char *comma = strchr(text, ',');
        if (comma)
            *comma = 0;
        text += strspn(text, " ");
        for (size_t end = strlen(text); end > 0 && text[end - 1] == ' ';)
            text[--end] = 0;
        if (*text)
            names->name[names->n++] = text;
        text = comma ? comma + 1 : NULL;
    }
    return GLYD_OK;
}

void glyd_names_free(glyd_names *names)
{
    free(names->storage);
    free(names->name);
    *names = (glyd_names){0};
}

bool glyd_names_have(const glyd_names *names, const char *text, size_t bytes)
{
    for (size_t i = 0; i < names->n; i++)
        if (strlen(names->name[i]) == bytes && strncasecmp(names->name[i], text, bytes) == 0)
            return true;
    return false;
}

bool glyd_address_is_local(const char *address)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, address, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, address, &six) == 1 &&
           memcmp(&six, &in6addr_loopback, sizeof six) == 0;
}

bool glyd_address_is_one(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* The name in "name:port" or "[::1]:port"; false where it is neither. */
static bool host_name(const char *header, char name[HOST_BYTES])
{
    bool is_bracketed = header[0] == '[';
    const char *from = header + is_bracketed;
    size_t n = strcspn(from, is_bracketed ? "]" : ":");
    const char *rest = from + n;
    if (is_bracketed && *rest++ != ']')
        return false;
    if (n == 0 || n >= HOST_BYTES || (*rest && *rest != ':') ||
        (*rest == ':' && strspn(rest + 1, "0123456789") != strlen(rest + 1)))
        return false;
    memcpy(name, from, n);
    name[n] = 0;
    if (name[n - 1] == '.')
        name[n - 1] = 0;
    return true;
}

static bool is_local_name(const char *name)
{
    size_t n = strlen(name);
    return strcasecmp(name, "localhost") == 0 ||
           (n > 10 && strcasecmp(name + n - 10, ".localhost") == 0);
}

static const char *header_of(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static bool check_host(glyd_exchange *x, const char *host)
{
    char name[HOST_BYTES];
    if (!host && x->is_old) /* no browser speaks it */
        return true;
    if (!host) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, NULL, "The Host header is missing.");
        return false;
    }
    if (host_name(host, name) && (is_local_name(name) || glyd_address_is_one(name) ||
                                  glyd_names_have(&x->server->hosts, name, strlen(name))))
        return true;
    glyd_exchange_fail(x, MHD_HTTP_MISDIRECTED_REQUEST, NULL,
                       "This server does not go by that name: use its address, or start it with "
                       "--allowed-hosts NAME.");
    return false;
}

static bool check_origin(glyd_exchange *x, const char *host, const char *origin)
{
    const glyd_names *allowed = &x->server->origins;
    if (!origin)
        return true;
    char own[HOST_BYTES + 16];
    snprintf(own, sizeof own, "http://%s", host ? host : "");
    bool is_own = host && strcasecmp(origin, own) == 0;
    bool is_allowed =
        glyd_names_have(allowed, origin, strlen(origin)) || glyd_names_have(allowed, "*", 1);
    if (!is_own && !is_allowed) {
        glyd_exchange_fail(x, MHD_HTTP_FORBIDDEN, NULL,
                           "Pages of that origin may not use this server: start it with "
                           "--allowed-origins ORIGIN.");
        return false;
    }
    if (is_allowed)
        snprintf(x->origin, sizeof x->origin, "%s",
                 glyd_names_have(allowed, "*", 1) ? "*" : origin);
    return true;
}

glyd_status glyd_key_hash(const char *key, uint8_t hash[GLYD_KEY_HASH_BYTES])
{
    unsigned int bytes = 0;
    return EVP_Digest(key, strlen(key), hash, &bytes, EVP_sha256(), NULL) == 1 &&
                   bytes == GLYD_KEY_HASH_BYTES
               ? GLYD_OK
               : GLYD_E_NOMEM;
}

static bool check_key(glyd_exchange *x, struct MHD_Connection *c)
{
    static const char unauthorized[] = "{\"error\":\"Unauthorized\"}";
    const char *key = header_of(c, "x-api-key"), *header = header_of(c, "Authorization");
    if (header && strncasecmp(header, "Bearer ", 7) == 0)
        key = header + 7 + strspn(header + 7, " ");
    /* Hashes are compared, in constant time: neither length nor bytes of the key can be probed. */
    uint8_t hash[GLYD_KEY_HASH_BYTES];
    if (key && glyd_key_hash(key, hash) == GLYD_OK &&
        CRYPTO_memcmp(hash, x->server->key_hash, sizeof hash) == 0)
        return true;
    if (x->route && x->route->dialect == GLYD_DIALECT_ANTHROPIC)
        glyd_exchange_fail(x, MHD_HTTP_UNAUTHORIZED, NULL, "The API key is missing or wrong.");
    else
        glyd_exchange_reply(x, MHD_HTTP_UNAUTHORIZED, "application/json", unauthorized,
                            sizeof unauthorized - 1);
    return false;
}

/* The client's own id where it is plain text, else 32 random digits. */
static void set_id(glyd_exchange *x, const char *given)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";
    size_t n = given ? strspn(given, plain) : 0;
    if (n > 0 && n < 65 && given[n] == 0) {
        snprintf(x->id, sizeof x->id, "%s", given);
        return;
    }
    unsigned char bytes[16] = {0};
    (void)RAND_bytes(bytes, sizeof bytes); /* an id need not be secret */
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(x->id + 2 * i, 3, "%02x", bytes[i]);
}

typedef struct header_counts {
    int hosts, origins, lengths, encodings;
} header_counts;

static enum MHD_Result count_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    header_counts *n = arg;
    (void)kind, (void)value;
    n->hosts += strcasecmp(name, "Host") == 0;
    n->origins += strcasecmp(name, "Origin") == 0;
    n->lengths += strcasecmp(name, "Content-Length") == 0;
    n->encodings += strcasecmp(name, "Transfer-Encoding") == 0;
    return MHD_YES;
}

/* Whether a proxy may have read the header otherwise than this server: another end of the body, or
 * another host. What follows on the connection cannot be trusted then (RFC 9112, 3.2 and 6.3). */
static bool is_ambiguous(struct MHD_Connection *connection)
{
    header_counts n = {0};
    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, count_header, &n);
    return n.hosts > 1 || n.origins > 1 || n.lengths + n.encodings > 1;
}

bool glyd_guards_pass(glyd_exchange *x, struct MHD_Connection *c, bool needs_key)
{
    const char *host = header_of(c, "Host");
    set_id(x, header_of(c, "X-Request-Id"));
    x->is_ambiguous = is_ambiguous(c);
    if (x->is_ambiguous) {
        glyd_exchange_fail(x, MHD_HTTP_BAD_REQUEST, NULL,
                           "Only one of Host, one of Origin, and one of Content-Length and "
                           "Transfer-Encoding is allowed.");
        return false;
    }
    if (!check_host(x, host) || !check_origin(x, host, header_of(c, "Origin")))
        return false;
    bool is_preflight = strcmp(x->method, "OPTIONS") == 0;
    return !x->server->has_key || !needs_key || is_preflight || check_key(x, c);
}
