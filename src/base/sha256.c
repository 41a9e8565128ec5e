/* sha256.c - SHA-256, by OpenSSL's libcrypto.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/sha256.h"
#include "base/error.h"
#include <openssl/evp.h>

glyd_status glyd_sha256_start(glyd_sha256 *hash)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    hash->context = context;
    if (context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1)
        return GLYD_OK;
    glyd_sha256_drop(hash);
    return GLYD_E_NOMEM;
}

glyd_status glyd_sha256_update(glyd_sha256 *hash, const void *data, size_t bytes)
{
    return EVP_DigestUpdate(hash->context, data, bytes) == 1 ? GLYD_OK : GLYD_E_NOMEM;
}

glyd_status glyd_sha256_finish(glyd_sha256 *hash, char hex[GLYD_SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[32];
    int good = EVP_DigestFinal_ex(hash->context, digest, NULL) == 1;
    glyd_sha256_drop(hash);
    if (!good)
        return GLYD_E_NOMEM;
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = 0;
    return GLYD_OK;
}

void glyd_sha256_drop(glyd_sha256 *hash)
{
    EVP_MD_CTX_free(hash->context);
    hash->context = NULL;
}

glyd_status glyd_sha256_of(const void *data, size_t bytes, char hex[GLYD_SHA256_HEX_BYTES])
{
    glyd_sha256 hash;
    GLYD_TRY(glyd_sha256_start(&hash));
    glyd_status status = glyd_sha256_update(&hash, data, bytes);
    if (status != GLYD_OK) {
        glyd_sha256_drop(&hash);
        return status;
    }
    return glyd_sha256_finish(&hash, hex);
}
