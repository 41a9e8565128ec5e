/* families.h - the family table: which tensors a model_type has, what they are called, and what its
 * config.json leaves unsaid.
 *
 * All families built so far name their tensors alike; they differ in biases, in q and k norms and
 * in defaults. A family with other names gets a table of its own in families.c.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_MODEL_FAMILIES_H
#define GLYD_MODEL_FAMILIES_H

#include "model/model.h"
#include "save/safetensors.h"

typedef struct glyd_family {
    const char *model_type;
    bool qkv_bias;        /* always; others may ask for it with attention_bias, refused by name */
    bool qk_norm;         /* RMS norms of each head's q and k */
    bool windowed;        /* sliding_window counts without use_sliding_window */
    int kv_heads_default; /* 0: as many as heads */
    int head_dim_default; /* 0: hidden / heads */
    int context_default;  /* max_position_embeddings */
    int window_default;   /* sliding_window where windowed */
} glyd_family;

const glyd_family *glyd_family_of(const char *model_type); /* NULL: unknown */

/* "llama, mistral, qwen2 and qwen3", for error texts. */
extern const char GLYD_FAMILY_NAMES[];

/* Whether a role is one a layer has, rather than one of the whole model. */
bool glyd_role_in_layer(glyd_role role);

/* Whether a model of this configuration has the role at all. */
bool glyd_role_exists(glyd_role role, const glyd_config *config);

enum { GLYD_ROLE_TENSOR_BYTES = 96 };
/* The tensor that holds a role, and the shape it must have. A tied head is the embedding. */
void glyd_role_tensor(glyd_role role, int layer, const glyd_config *config,
                      char name[GLYD_ROLE_TENSOR_BYTES], glyd_shape *shape);

/* The head's own tensor, which a tied head's checkpoint may hold all the same. */
#define GLYD_HEAD_TENSOR "lm_head.weight"

/* A tensor that checkpoints carry although the model does not need it. */
bool glyd_tensor_is_spare(const char *name, const glyd_config *config);

#endif
