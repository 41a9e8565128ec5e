/* page.c - the chat page (its parts are in src/server/page) and its policy.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "server/page.h"
#include "base/error.h"
#include "server/embedded.h"
#include "server/routes.h"
#include <microhttpd.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

enum {
    DIGEST_BYTES = 32,
    DIGEST_TEXT_BYTES = 4 * ((DIGEST_BYTES + 2) / 3) + 1, /* as base64 */
};

/* The digest of what is between the page's first `open` and the next `close`. */
static bool digest_between(const char *open, const char *close, char text[DIGEST_TEXT_BYTES])
{
    const unsigned char *end = glyd_page_html + glyd_page_html_bytes;
    const unsigned char *from = memmem(glyd_page_html, glyd_page_html_bytes, open, strlen(open));
    if (!from)
        return false;
    from += strlen(open);
    const unsigned char *to = memmem(from, (size_t)(end - from), close, strlen(close));
    unsigned char digest[DIGEST_BYTES];
    unsigned bytes = 0;
    if (!to || EVP_Digest(from, (size_t)(to - from), digest, &bytes, EVP_sha256(), NULL) != 1)
        return false;
    EVP_EncodeBlock((unsigned char *)text, digest, DIGEST_BYTES);
    return true;
}

glyd_status glyd_page_policy_make(char policy[GLYD_PAGE_POLICY_BYTES], glyd_error *err)
{
    char script[DIGEST_TEXT_BYTES], style[DIGEST_TEXT_BYTES];
    if (!digest_between("<script>", "</script>", script) ||
        !digest_between("<style>", "</style>", style))
        GLYD_FAIL(err, GLYD_E_NOMEM, "the page's policy cannot be computed");
    int bytes = snprintf(policy, GLYD_PAGE_POLICY_BYTES,
                         "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; "
                         "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                         "frame-ancestors 'none'; require-trusted-types-for 'script'; "
                         "trusted-types 'none'",
                         script, style);
    GLYD_ASSERT(bytes > 0 && bytes < GLYD_PAGE_POLICY_BYTES);
    return GLYD_OK;
}

void glyd_serve_page(glyd_exchange *x)
{
    x->policy = x->server->page_policy;
    glyd_exchange_reply(x, MHD_HTTP_OK, "text/html; charset=utf-8", glyd_page_html,
                        glyd_page_html_bytes);
}
