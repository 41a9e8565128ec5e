/* fuzz_manifest.c - any text as a manifest, as it is and with the checksum that it should have.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "base/error.h"
#include "save/manifest.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void parse(glyd_span text)
{
    glyd_manifest *manifest;
    glyd_error err = {GLYD_OK, ""};
    if (glyd_manifest_parse(text, &manifest, &err) != GLYD_OK) {
        GLYD_ASSERT(err.status != GLYD_OK && err.text[0] != 0 && manifest == NULL);
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < manifest->n_weights; i++)
        n += manifest->weights[i].header.n_tensors;
    GLYD_ASSERT(n == manifest->n_tensors);
    for (size_t i = 0; i < manifest->n_tensors; i++) {
        const glyd_manifest_tensor *t = &manifest->tensor[i];
        GLYD_ASSERT(t->same_as || t->shard < manifest->n_shards);
        GLYD_ASSERT(!t->is_packed || t->shape.n_dims == 2);
    }
    for (size_t i = 0; i < manifest->n_files; i++)
        GLYD_ASSERT(glyd_is_plain_name(manifest->file[i].file));
    glyd_manifest_free(manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    parse((glyd_span){data, bytes});
    glyd_buf text = {0};
    char hex[GLYD_SHA256_HEX_BYTES];
    if (glyd_buf_append(&text, data, bytes) == GLYD_OK &&
        glyd_sha256_of(data, bytes, hex) == GLYD_OK &&
        glyd_buf_print(&text, "\"sha256\": \"%s\"}\n", hex) == GLYD_OK)
        parse((glyd_span){text.data, text.bytes});
    glyd_buf_free(&text);
    return 0;
}
