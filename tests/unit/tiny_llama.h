/* tiny_llama.h - a random two-layer Llama checkpoint, written where a test wants it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TINY_LLAMA_H
#define GLYD_TINY_LLAMA_H

#include "base/buf.h"
#include "test.h"
#include <stdbool.h>

enum {
    TINY_VOCAB = 64,
    TINY_HIDDEN = 32,
    TINY_LAYERS = 2,
    TINY_HEADS = 4,
    TINY_KV_HEADS = 2,
    TINY_HEAD_DIM = 8,
    TINY_FFN = 48,
    TINY_CONTEXT = 160,
    TINY_TENSORS = 2 + 9 * TINY_LAYERS,
    TINY_STOP = 2,
};

typedef struct tiny_tensor {
    char name[64];
    int rows, cols; /* rows 0: a vector */
} tiny_tensor;

static inline int tiny_tensors(tiny_tensor *t)
{
    const int q = TINY_HEADS * TINY_HEAD_DIM, kv = TINY_KV_HEADS * TINY_HEAD_DIM;
    const tiny_tensor layer[] = {
        {"input_layernorm", 0, TINY_HIDDEN},      {"post_attention_layernorm", 0, TINY_HIDDEN},
        {"self_attn.q_proj", q, TINY_HIDDEN},     {"self_attn.k_proj", kv, TINY_HIDDEN},
        {"self_attn.v_proj", kv, TINY_HIDDEN},    {"self_attn.o_proj", TINY_HIDDEN, q},
        {"mlp.gate_proj", TINY_FFN, TINY_HIDDEN}, {"mlp.up_proj", TINY_FFN, TINY_HIDDEN},
        {"mlp.down_proj", TINY_HIDDEN, TINY_FFN},
    };
    int n = 0;
    t[n++] = (tiny_tensor){"model.embed_tokens.weight", TINY_VOCAB, TINY_HIDDEN};
    t[n++] = (tiny_tensor){"model.norm.weight", 0, TINY_HIDDEN};
    for (int i = 0; i < TINY_LAYERS; i++)
        for (size_t j = 0; j < sizeof layer / sizeof *layer; j++) {
            t[n] = layer[j];
            snprintf(t[n++].name, sizeof t->name, "model.layers.%d.%.32s.weight", i, layer[j].name);
        }
    return n;
}

static inline long tiny_count(const tiny_tensor *t)
{
    return (long)(t->rows ? t->rows : 1) * t->cols;
}

/* A value around 0 (a matrix) or 1 (a norm), as bf16. */
static inline uint16_t tiny_value(uint64_t *state, bool norm)
{
    float x = 0;
    for (int i = 0; i < 4; i++)
        x += (float)(test_random(state) % 1024) / 512.0F - 1.0F;
    x = norm ? 1.0F + 0.1F * x : 0.25F * x;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static inline void tiny_path(char *path, size_t bytes, const char *folder, const char *name)
{
    snprintf(path, bytes, "%s/%s", folder, name);
}

static inline void tiny_config(const char *folder)
{
    char path[256];
    tiny_path(path, sizeof path, folder, "config.json");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "{\"model_type\": \"llama\", \"hidden_size\": %d, \"num_hidden_layers\": %d, "
            "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": %d, "
            "\"intermediate_size\": %d, \"vocab_size\": %d, \"max_position_embeddings\": %d, "
            "\"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\", "
            "\"eos_token_id\": %d, \"bos_token_id\": 1, \"tie_word_embeddings\": true, "
            "\"torch_dtype\": \"bfloat16\"}\n",
            TINY_HIDDEN, TINY_LAYERS, TINY_HEADS, TINY_KV_HEADS, TINY_HEAD_DIM, TINY_FFN,
            TINY_VOCAB, TINY_CONTEXT, TINY_STOP);
    assert_int_equal(fclose(f), 0);
}

/* Write the folder's files; `damaged` makes one norm weight not a number. */
static inline void tiny_make(const char *folder, bool damaged)
{
    char path[256];
    tiny_tensor t[TINY_TENSORS];
    int n = tiny_tensors(t);
    tiny_config(folder);
    glyd_buf header = {0};
    long at = 0;
    assert_ok(glyd_buf_print(&header, "{"));
    for (int i = 0; i < n; i++) {
        long end = at + 2 * tiny_count(&t[i]);
        assert_ok(glyd_buf_print(&header, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[", i ? "," : "",
                                 t[i].name));
        if (t[i].rows)
            assert_ok(glyd_buf_print(&header, "%d,", t[i].rows));
        assert_ok(glyd_buf_print(&header, "%d],\"data_offsets\":[%ld,%ld]}", t[i].cols, at, end));
        at = end;
    }
    assert_ok(glyd_buf_print(&header, "}"));
    while (header.bytes % 8 != 0)
        assert_ok(glyd_buf_print(&header, " "));
    tiny_path(path, sizeof path, folder, "model.safetensors");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint64_t bytes = header.bytes, state = 5;
    fwrite(&bytes, sizeof bytes, 1, f);
    fwrite(header.data, 1, header.bytes, f);
    for (int i = 0; i < n; i++)
        for (long j = 0; j < tiny_count(&t[i]); j++) {
            uint16_t value = tiny_value(&state, t[i].rows == 0);
            if (damaged && i == 1 && j == 0)
                value = 0x7fc0;
            fwrite(&value, sizeof value, 1, f);
        }
    assert_int_equal(fclose(f), 0);
    glyd_buf_free(&header);
}

#endif
