/* families.c - the family table.
 *
 * Defaults are those of the families' configuration classes in transformers, which leaves out of
 * config.json nothing that differs from them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "model/families.h"
#include "base/error.h"
#include <stdio.h>
#include <string.h>

static const glyd_family families[] = {
    {.model_type = "llama", .context_default = 2048},
    {.model_type = "mistral",
     .windowed = true,
     .kv_heads_default = 8,
     .context_default = 131072,
     .window_default = 4096},
    {.model_type = "qwen2", .qkv_bias = true, .kv_heads_default = 32, .context_default = 32768},
    {.model_type = "qwen3",
     .qk_norm = true,
     .kv_heads_default = 32,
     .head_dim_default = 128,
     .context_default = 32768},
};

const char GLYD_FAMILY_NAMES[] = "llama, mistral, qwen2 and qwen3";

const glyd_family *glyd_family_of(const char *model_type)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    }
    return NULL;
}

/* What a dimension of a role's tensor is, so that one table gives every shape. */
typedef enum size_of { NONE, VOCAB, HIDDEN, HEADS, KV_HEADS, HEAD, FFN } size_of;

typedef struct role_entry {
    const char *role; /* as a manifest writes it */
    const char *tensor;
    size_of rows, cols; /* rows NONE: a vector of cols */
    bool in_layer;
} role_entry;

static const role_entry roles[GLYD_ROLES] = {
    [GLYD_ROLE_EMBED] = {"embed", "model.embed_tokens.weight", VOCAB, HIDDEN, false},
    [GLYD_ROLE_FINAL_NORM] = {"final_norm", "model.norm.weight", NONE, HIDDEN, false},
    [GLYD_ROLE_HEAD] = {"head", GLYD_HEAD_TENSOR, VOCAB, HIDDEN, false},
    [GLYD_ROLE_ATTN_NORM] = {"attn_norm", "input_layernorm.weight", NONE, HIDDEN, true},
    [GLYD_ROLE_ATTN_Q] = {"attn_q", "self_attn.q_proj.weight", HEADS, HIDDEN, true},
    [GLYD_ROLE_ATTN_K] = {"attn_k", "self_attn.k_proj.weight", KV_HEADS, HIDDEN, true},
    [GLYD_ROLE_ATTN_V] = {"attn_v", "self_attn.v_proj.weight", KV_HEADS, HIDDEN, true},
    [GLYD_ROLE_ATTN_Q_BIAS] = {"attn_q_bias", "self_attn.q_proj.bias", NONE, HEADS, true},
    [GLYD_ROLE_ATTN_K_BIAS] = {"attn_k_bias", "self_attn.k_proj.bias", NONE, KV_HEADS, true},
    [GLYD_ROLE_ATTN_V_BIAS] = {"attn_v_bias", "self_attn.v_proj.bias", NONE, KV_HEADS, true},
    [GLYD_ROLE_ATTN_Q_NORM] = {"attn_q_norm", "self_attn.q_norm.weight", NONE, HEAD, true},
    [GLYD_ROLE_ATTN_K_NORM] = {"attn_k_norm", "self_attn.k_norm.weight", NONE, HEAD, true},
    [GLYD_ROLE_ATTN_OUT] = {"attn_out", "self_attn.o_proj.weight", HIDDEN, HEADS, true},
    [GLYD_ROLE_FFN_NORM] = {"ffn_norm", "post_attention_layernorm.weight", NONE, HIDDEN, true},
    [GLYD_ROLE_FFN_GATE] = {"ffn_gate", "mlp.gate_proj.weight", FFN, HIDDEN, true},
    [GLYD_ROLE_FFN_UP] = {"ffn_up", "mlp.up_proj.weight", FFN, HIDDEN, true},
    [GLYD_ROLE_FFN_DOWN] = {"ffn_down", "mlp.down_proj.weight", HIDDEN, FFN, true},
};

const char *glyd_role_name(glyd_role role)
{
    return role < GLYD_ROLES ? roles[role].role : NULL;
}

bool glyd_role_in_layer(glyd_role role)
{
    return roles[role].in_layer;
}

bool glyd_role_exists(glyd_role role, const glyd_config *config)
{
    switch (role) {
    case GLYD_ROLE_ATTN_Q_BIAS:
    case GLYD_ROLE_ATTN_K_BIAS:
    case GLYD_ROLE_ATTN_V_BIAS:
        return config->qkv_bias;
    case GLYD_ROLE_ATTN_Q_NORM:
    case GLYD_ROLE_ATTN_K_NORM:
        return config->qk_norm;
    default:
        return true;
    }
}

static int64_t size_in(size_of size, const glyd_config *config)
{
    switch (size) {
    case VOCAB:
        return config->vocab;
    case HIDDEN:
        return config->hidden;
    case HEADS:
        return (int64_t)config->n_heads * config->head_dim;
    case KV_HEADS:
        return (int64_t)config->n_kv_heads * config->head_dim;
    case HEAD:
        return config->head_dim;
    case FFN:
        return config->ffn;
    case NONE:
        break;
    }
    return 0;
}

void glyd_role_tensor(glyd_role role, int layer, const glyd_config *config,
                      char name[GLYD_ROLE_TENSOR_BYTES], glyd_shape *shape)
{
    if (role == GLYD_ROLE_HEAD && config->tied_head)
        role = GLYD_ROLE_EMBED;
    const role_entry *entry = &roles[role];
    if (entry->in_layer)
        snprintf(name, GLYD_ROLE_TENSOR_BYTES, "model.layers.%d.%s", layer, entry->tensor);
    else
        snprintf(name, GLYD_ROLE_TENSOR_BYTES, "%s", entry->tensor);
    *shape = (glyd_shape){0};
    if (entry->rows != NONE)
        shape->dim[shape->n_dims++] = size_in(entry->rows, config);
    shape->dim[shape->n_dims++] = size_in(entry->cols, config);
}

bool glyd_tensor_is_spare(const char *name, const glyd_config *config)
{
    /* Old checkpoints keep the rotary frequencies, which follow from the config. */
    static const char rotary[] = "rotary_emb.inv_freq";
    size_t n = strlen(name);
    if (n >= sizeof rotary - 1 && strcmp(name + n - (sizeof rotary - 1), rotary) == 0)
        return true;
    /* A tied head that was written out all the same: transformers takes the embedding. */
    return config->tied_head && strcmp(name, GLYD_HEAD_TENSOR) == 0;
}
