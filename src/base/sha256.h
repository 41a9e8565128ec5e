/* sha256.h - SHA-256, by OpenSSL's libcrypto.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_BASE_SHA256_H
#define GLYD_BASE_SHA256_H

#include "glyd/base.h"

typedef struct glyd_sha256 {
    void *context; /* EVP_MD_CTX; NULL when not started */
} glyd_sha256;

enum { GLYD_SHA256_HEX_BYTES = 65 };

/* start, then any number of updates, then finish (which also frees); drop frees without a result.
 * `hex` receives 64 lower-case digits and a terminator. Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_sha256_start(glyd_sha256 *hash);
GLYD_MUST_CHECK glyd_status glyd_sha256_update(glyd_sha256 *hash, const void *data, size_t bytes);
GLYD_MUST_CHECK glyd_status glyd_sha256_finish(glyd_sha256 *hash, char hex[GLYD_SHA256_HEX_BYTES]);
void glyd_sha256_drop(glyd_sha256 *hash);

/* All three in one. */
GLYD_MUST_CHECK glyd_status glyd_sha256_of(const void *data, size_t bytes,
                                           char hex[GLYD_SHA256_HEX_BYTES]);

#endif
