/* model.h - a model's weights by role, and one description for every family.
 *
 * A model is a folder: a Hugging Face bf16 checkpoint or a glyd save. Names of files and tensors
 * end here: callers ask for a role in a layer and get a packed matrix (or a bf16 one), a view of
 * the mapped file. Opening reads headers, config and manifest only and checks every shape against
 * the config; no weight is touched.
 *
 * Ownership  views and the config live until glyd_model_close.
 * Threads    reading from any number of threads.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_MODEL_MODEL_H
#define GLYD_MODEL_MODEL_H

#include "glyd/codec.h"
#include <stdbool.h>

typedef enum glyd_role {
    GLYD_ROLE_EMBED,       /* [vocab, hidden] */
    GLYD_ROLE_FINAL_NORM,  /* [hidden] */
    GLYD_ROLE_HEAD,        /* [vocab, hidden]; the embedding's own matrix where tied */
    GLYD_ROLE_ATTN_NORM,   /* [hidden], before attention */
    GLYD_ROLE_ATTN_Q,      /* [n_heads * head_dim, hidden] */
    GLYD_ROLE_ATTN_K,      /* [n_kv_heads * head_dim, hidden] */
    GLYD_ROLE_ATTN_V,      /* [n_kv_heads * head_dim, hidden] */
    GLYD_ROLE_ATTN_Q_BIAS, /* [n_heads * head_dim]; Qwen2 */
    GLYD_ROLE_ATTN_K_BIAS, /* [n_kv_heads * head_dim] */
    GLYD_ROLE_ATTN_V_BIAS, /* [n_kv_heads * head_dim] */
    GLYD_ROLE_ATTN_Q_NORM, /* [head_dim]; Qwen3 */
    GLYD_ROLE_ATTN_K_NORM, /* [head_dim] */
    GLYD_ROLE_ATTN_OUT,    /* [hidden, n_heads * head_dim] */
    GLYD_ROLE_FFN_NORM,    /* [hidden], before the feed-forward network */
    GLYD_ROLE_FFN_GATE,    /* [ffn, hidden] */
    GLYD_ROLE_FFN_UP,      /* [ffn, hidden] */
    GLYD_ROLE_FFN_DOWN,    /* [hidden, ffn] */
    GLYD_ROLES,
} glyd_role;

/* A role's name as manifests write it, such as "attn_q". NULL if unknown. */
const char *glyd_role_name(glyd_role role);

typedef enum glyd_rope_kind {
    GLYD_ROPE_DEFAULT, /* inverse frequencies theta^(-2i / head_dim) */
    GLYD_ROPE_LINEAR,  /* positions divided by factor */
    GLYD_ROPE_LLAMA3,  /* low frequencies divided by factor, the middle blended */
    GLYD_ROPE_YARN,
    GLYD_ROPE_DYNAMIC, /* NTK by length */
} glyd_rope_kind;

typedef struct glyd_rope {
    glyd_rope_kind kind;
    double theta;                /* rope_theta */
    double factor;               /* scaling factor; 1 for default */
    double low_freq_factor;      /* llama3 */
    double high_freq_factor;     /* llama3 */
    double original_positions;   /* llama3, yarn, dynamic: original_max_position_embeddings */
    double beta_fast, beta_slow; /* yarn */
    double attention_factor;     /* yarn: multiplies cos and sin; 0 = derive from factor */
} glyd_rope;

enum { GLYD_STOP_IDS_MAX = 16 };

/* What config.json and generation_config.json say, in one form for every family. */
typedef struct glyd_config {
    const char *family; /* model_type: "llama", "mistral", "qwen2", "qwen3" */
    int n_layers, hidden, n_heads, n_kv_heads, head_dim, ffn, vocab;
    int context;        /* max_position_embeddings */
    int sliding_window; /* 0: none */
    double rms_eps;     /* rms_norm_eps, absolute */
    glyd_rope rope;
    bool qkv_bias, qk_norm, tied_head;
    int n_stop_ids; /* eos ids of config.json and generation_config.json, united */
    int32_t stop_ids[GLYD_STOP_IDS_MAX];
    int32_t bos_id; /* -1: none */
    /* Sampling defaults of generation_config.json; negative: not given. */
    double temperature, top_p, min_p, repetition_penalty;
    int top_k;
} glyd_config;

typedef struct glyd_model glyd_model;

/* Open a folder. Errors: E_NOTFOUND (no folder, no config.json), E_UNSUPPORTED (family or dtype,
 * named, with what to do), E_FORMAT, E_CORRUPT (sizes, shapes, missing tensors). */
GLYD_MUST_CHECK glyd_status glyd_model_open(const char *folder, glyd_model **model,
                                            glyd_error *err);
void glyd_model_close(glyd_model *model); /* NULL is allowed */

const glyd_config *glyd_model_config(const glyd_model *model);
bool glyd_model_is_packed(const glyd_model *model); /* a glyd save, not a bf16 checkpoint */

/* As glyd_model_weight without the check, which reads the whole matrix: layout, shape and sizes are
 * right, but a packed matrix must pass glyd_check before it is decoded. */
GLYD_MUST_CHECK glyd_status glyd_model_peek(const glyd_model *model, glyd_role role, int layer,
                                            glyd_matrix *m, glyd_error *err);

/* Fill *m with the matrix of a role; `layer` is 0 for the roles outside layers. Vectors (norms,
 * biases) come as 1 x n bf16 matrices. Packed matrices passed glyd_check when this returns.
 * Errors: E_NOTFOUND (this family has no such role), E_CORRUPT. */
GLYD_MUST_CHECK glyd_status glyd_model_weight(const glyd_model *model, glyd_role role, int layer,
                                              glyd_matrix *m, glyd_error *err);

#endif
