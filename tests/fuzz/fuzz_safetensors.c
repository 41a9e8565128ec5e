/* fuzz_safetensors.c - any bytes as a safetensors file: refused, or every tensor lies within them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "save/safetensors.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    glyd_safetensors st;
    glyd_error err = {GLYD_OK, ""};
    if (glyd_safetensors_parse((glyd_span){data, bytes}, "input", &st, &err) != GLYD_OK) {
        GLYD_ASSERT(err.status != GLYD_OK && err.text[0] != 0 && st.root == NULL);
        return 0;
    }
    uint64_t at = 0;
    for (size_t i = 0; i < st.n_tensors; i++) {
        const glyd_safetensors_entry *e = &st.tensor[i];
        GLYD_ASSERT(e->begin == at && e->end >= e->begin && e->end <= st.data.bytes);
        GLYD_ASSERT(glyd_safetensors_find(&st, e->name) == e);
        GLYD_ASSERT(st.data.data + e->end <= data + bytes);
        at = e->end;
    }
    GLYD_ASSERT(at == st.data.bytes);
    glyd_safetensors_free(&st);
    return 0;
}
