/* tiny_model.h - a small bf16 model folder of any family, for tests that read or pack one.
 *
 * The weights are like a trained model's (near a bell curve, with row scales), so packing makes
 * them smaller. What tensors there are and their shapes come from the family table.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TINY_MODEL_H
#define GLYD_TINY_MODEL_H

#include "test.h"

#include "base/fs.h"
#include "model/config.h"
#include "model/families.h"
#include "save/writer.h"
#include <math.h>
#include <unistd.h>

static inline uint16_t tiny_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void tiny_fill(uint16_t *bf16, int64_t rows, int64_t cols, uint64_t *state)
{
    for (int64_t r = 0; r < rows; r++) {
        double scale = 0.012 + 0.016 * (double)(test_random(state) >> 11) * 0x1p-53;
        for (int64_t c = 0; c < cols; c++) {
            double sum = 0; /* of twelve uniform numbers: near a normal one */
            for (int i = 0; i < 12; i++)
                sum += (double)(test_random(state) >> 11) * 0x1p-53;
            bf16[r * cols + c] = tiny_bf16((float)((sum - 6) * scale));
        }
    }
}

static inline void tiny_text(const char *folder, const char *name, const char *text)
{
    char path[GLYD_PATH_BYTES];
    assert_ok(glyd_fs_join(path, folder, name, NULL));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
}

static inline void tiny_write_tensor(glyd_writer *writer, const char *name, const glyd_shape *shape,
                                     uint64_t *state)
{
    int64_t rows = shape->n_dims == 2 ? shape->dim[0] : 1, cols = shape->dim[shape->n_dims - 1];
    uint16_t *bf16 = malloc((size_t)(rows * cols * 2));
    assert_non_null(bf16);
    tiny_fill(bf16, rows, cols, state);
    glyd_span data = {(const uint8_t *)bf16, (size_t)(rows * cols * 2)};
    assert_ok(glyd_writer_add(writer, name, GLYD_DTYPE_BF16, shape, data, NULL));
    free(bf16);
}

/* Write config.json (the text given) and weights for it. */
static inline void tiny_write(const char *folder, const char *config_text)
{
    json_t *root;
    glyd_config config;
    glyd_error err = {0};
    glyd_span span = {(const uint8_t *)config_text, strlen(config_text)};
    assert_ok(glyd_fs_make_folder(folder, NULL));
    tiny_text(folder, "config.json", config_text);
    tiny_text(folder, "tokenizer.json", "{}\n");
    assert_ok(glyd_json_parse(span, "config", &root, &err));
    assert_ok(glyd_config_from_json(root, NULL, &config, &err));
    json_decref(root);

    char path[GLYD_PATH_BYTES], name[GLYD_ROLE_TENSOR_BYTES], sha256[GLYD_SHA256_HEX_BYTES];
    glyd_writer writer;
    glyd_shape shape;
    uint64_t state = 88172645463325252ULL, bytes;
    assert_ok(glyd_fs_join(path, folder, "model.safetensors", NULL));
    assert_ok(glyd_writer_open(&writer, path, 200000, NULL));
    for (int role = 0; role < GLYD_ROLES; role++) {
        bool written = glyd_role_exists((glyd_role)role, &config) &&
                       !(role == GLYD_ROLE_HEAD && config.tied_head);
        int n_layers = glyd_role_in_layer((glyd_role)role) ? config.n_layers : 1;
        for (int layer = 0; written && layer < n_layers; layer++) {
            glyd_role_tensor((glyd_role)role, layer, &config, name, &shape);
            tiny_write_tensor(&writer, name, &shape, &state);
        }
    }
    assert_ok(glyd_writer_commit(&writer, &bytes, sha256, NULL));
    glyd_writer_drop(&writer);
}

#define TINY_CONFIG(family, more)                                                                  \
    "{\"model_type\": \"" family "\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "             \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, "                   \
    "\"intermediate_size\": 192, \"vocab_size\": 256, \"rms_norm_eps\": 1e-5, "                    \
    "\"max_position_embeddings\": 128" more "}"

/* A new folder under the system's place for temporary files. */
static inline void tiny_room(char room[64])
{
    snprintf(room, 64, "/tmp/glyd-test-XXXXXX");
    assert_non_null(mkdtemp(room));
}

#endif
