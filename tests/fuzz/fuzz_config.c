/* fuzz_config.c - any text as config.json and generation_config.json.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "model/config.h"
#include "model/families.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    json_t *root;
    if (glyd_json_parse((glyd_span){data, bytes}, "input", &root, NULL) != GLYD_OK)
        return 0;
    glyd_config config;
    glyd_error err = {GLYD_OK, ""};
    if (glyd_config_from_json(root, root, &config, &err) != GLYD_OK) {
        GLYD_ASSERT(err.status != GLYD_OK && err.text[0] != 0);
    } else {
        GLYD_ASSERT(glyd_family_of(config.family) != NULL);
        GLYD_ASSERT(config.n_layers > 0 && config.hidden > 0 && config.vocab > 0);
        GLYD_ASSERT(config.n_kv_heads > 0 && config.n_heads % config.n_kv_heads == 0);
        GLYD_ASSERT(config.head_dim >= 2 && config.head_dim % 2 == 0);
        GLYD_ASSERT(config.n_stop_ids >= 0 && config.n_stop_ids <= GLYD_STOP_IDS_MAX);
        GLYD_ASSERT(config.rope.theta > 0 && config.rope.factor > 0);
    }
    json_decref(root);
    return 0;
}
