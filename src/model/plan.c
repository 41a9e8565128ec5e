/* plan.c - what a model takes in memory, from its headers alone.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "codec/format.h"
#include "glyd/save.h"
#include "model/roles.h"
#include "save/check_tensor.h"
#include "save/manifest.h"
#include <stdio.h>

enum {
    KV_VALUE_BYTES = 4, /* the CPU engine keeps keys and values as float32 */
    /* `mma` on ordinary weights, in hundredths of a bit: codec.mma.bits of bench_codec, rounded
     * up. What a matrix really takes is known when it is packed. */
    MMA_BITS_100 = 1080,
};

/* Bytes of a matrix in mma12 that has no escapes. */
static uint64_t mma12_bytes(int64_t rows, int64_t cols)
{
    uint64_t bytes = 0, n_pieces = 0;
    for (int a = 0; a < GLYD_ARRAYS; a++) {
        int64_t n = glyd_array_bytes(GLYD_LAYOUT_MMA12, (glyd_array)a, rows, cols, 0);
        bytes += n > 0 ? (uint64_t)n : 0;
        n_pieces += n > 0 ? glyd_crc_pieces((uint64_t)n) : 0;
    }
    return bytes + (uint64_t)glyd_pad_bytes((int64_t)n_pieces * 4);
}

static void add_tensor(const glyd_tensor *t, glyd_save_plan *plan)
{
    uint64_t bf16 = glyd_tensor_bytes(t), own = glyd_tensor_stored_bytes(t);
    uint64_t mma12 = bf16, mma = bf16;
    if (t->dtype == GLYD_DTYPE_BF16 && t->shape.n_dims == 2) {
        mma12 = mma12_bytes(t->shape.dim[0], t->shape.dim[1]);
        mma = (uint64_t)((double)bf16 / 1600 * MMA_BITS_100);
    }
    if (t->is_packed && t->matrix.layout == GLYD_LAYOUT_MMA12)
        mma12 = own;
    if (t->is_packed && t->matrix.layout == GLYD_LAYOUT_MMA)
        mma = own;
    plan->n_weights += glyd_shape_elements(&t->shape);
    plan->weight_bytes[GLYD_LAYOUT_BF16] += bf16;
    plan->weight_bytes[GLYD_LAYOUT_MMA12] += mma12 < bf16 ? mma12 : bf16;
    plan->weight_bytes[GLYD_LAYOUT_MMA] += mma < bf16 ? mma : bf16;
}

static void fit_context(glyd_save_plan *plan)
{
    for (int layout = 0; layout < GLYD_LAYOUTS; layout++) {
        uint64_t weights = plan->weight_bytes[layout];
        if (plan->memory_available < weights) {
            plan->context_fits[layout] = -1;
            continue;
        }
        uint64_t tokens = (plan->memory_available - weights) / plan->kv_bytes_a_token;
        uint64_t context = (uint64_t)plan->context;
        plan->context_fits[layout] = (int64_t)(tokens < context ? tokens : context);
    }
}

glyd_status glyd_save_plan_make(const char *path, uint64_t memory_bytes, glyd_save_plan *plan,
                                glyd_error *err)
{
    glyd_model *model;
    GLYD_TRY(glyd_model_open(path, &model, err));
    const glyd_config *config = glyd_model_config(model);
    const glyd_folder *folder = glyd_model_folder(model);
    *plan = (glyd_save_plan){.is_save = folder->manifest != NULL, .context = config->context};
    snprintf(plan->model_type, sizeof plan->model_type, "%s", config->family);
    for (size_t i = 0; i < folder->n_tensors; i++) {
        if (!glyd_tensor_is_copy(folder, i))
            add_tensor(&folder->tensor[i], plan);
    }
    plan->weight_bytes_exact[GLYD_LAYOUT_BF16] = 1;
    glyd_layout own;
    if (folder->manifest && glyd_layout_from_name(folder->manifest->layout, &own) == GLYD_OK)
        plan->weight_bytes_exact[own] = 1;
    plan->kv_bytes_a_token = (uint64_t)config->n_layers * (uint64_t)config->n_kv_heads *
                             (uint64_t)config->head_dim * 2 * KV_VALUE_BYTES;
    plan->memory_available = memory_bytes ? memory_bytes : glyd_fs_memory_available();
    fit_context(plan);
    glyd_model_close(model);
    return GLYD_OK;
}
