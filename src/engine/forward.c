/* forward.c - one step of a model: a batch of tokens through every layer.
 *
 * Llama, Mistral, Qwen2 (biases of q, k and v) and Qwen3 (norms of each head of q and k) are one
 * sequence of operations; what a family lacks is NULL. `run_layer` is the model.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/forward.h"
#include "base/error.h"
#include "engine/rope.h"
#include "model/families.h"
#include <math.h>
#include <stdlib.h>

typedef struct layer {
    glyd_vector *attn_norm, *ffn_norm;
    glyd_vector *q_bias, *k_bias, *v_bias; /* NULL without */
    glyd_vector *q_norm, *k_norm;          /* NULL without */
    glyd_weight *q, *k, *v, *out;
    glyd_weight *gate, *up, *down;
} layer;

struct glyd_forward {
    const glyd_backend *backend;
    void *ctx;
    const glyd_model *model;
    glyd_sizes sizes;
    float eps, attention_scale, rope_scale;
    layer *layers;
    glyd_weight *embed, *head;
    glyd_vector *final_norm;
    glyd_kv *kv;
    /* Activations: the residual stream, its normalised copy, and the parts of a layer. */
    glyd_rows *x, *h, *q, *k, *v, *mixed, *gate, *up;
    float *inverse; /* head_dim / 2 frequencies */
    float *turns;   /* n_tokens x head_dim */
    glyd_batch batch;
    glyd_moot_fn moot_fn;
    void *moot_arg;
};

/* --- load --- */

static glyd_status prefix(glyd_error *err, glyd_status status, glyd_role role, int index)
{
    if (status == GLYD_OK)
        return GLYD_OK;
    if (!glyd_role_in_layer(role))
        return glyd_error_prefix(err, status, "%s", glyd_role_name(role));
    return glyd_error_prefix(err, status, "%s of layer %d", glyd_role_name(role), index);
}

static glyd_status load_weight(glyd_forward *f, glyd_role role, int index, glyd_weight **weight,
                               glyd_error *err)
{
    glyd_matrix m;
    GLYD_TRY(glyd_model_peek(f->model, role, index, &m, err));
    return prefix(err, f->backend->weight_load(f->ctx, &m, weight, err), role, index);
}

static glyd_status load_vector(glyd_forward *f, glyd_role role, int index, glyd_vector **vector,
                               glyd_error *err)
{
    glyd_matrix m;
    GLYD_TRY(glyd_model_peek(f->model, role, index, &m, err));
    return prefix(err, f->backend->vector_load(f->ctx, &m, vector, err), role, index);
}

static glyd_status load_layer(glyd_forward *f, int i, glyd_error *err)
{
    const glyd_config *config = glyd_model_config(f->model);
    layer *l = &f->layers[i];
    GLYD_TRY(load_vector(f, GLYD_ROLE_ATTN_NORM, i, &l->attn_norm, err));
    GLYD_TRY(load_weight(f, GLYD_ROLE_ATTN_Q, i, &l->q, err));
    GLYD_TRY(load_weight(f, GLYD_ROLE_ATTN_K, i, &l->k, err));
    GLYD_TRY(load_weight(f, GLYD_ROLE_ATTN_V, i, &l->v, err));
    if (config->qkv_bias) {
        GLYD_TRY(load_vector(f, GLYD_ROLE_ATTN_Q_BIAS, i, &l->q_bias, err));
        GLYD_TRY(load_vector(f, GLYD_ROLE_ATTN_K_BIAS, i, &l->k_bias, err));
        GLYD_TRY(load_vector(f, GLYD_ROLE_ATTN_V_BIAS, i, &l->v_bias, err));
    }
    if (config->qk_norm) {
        GLYD_TRY(load_vector(f, GLYD_ROLE_ATTN_Q_NORM, i, &l->q_norm, err));
        GLYD_TRY(load_vector(f, GLYD_ROLE_ATTN_K_NORM, i, &l->k_norm, err));
    }
    GLYD_TRY(load_weight(f, GLYD_ROLE_ATTN_OUT, i, &l->out, err));
    GLYD_TRY(load_vector(f, GLYD_ROLE_FFN_NORM, i, &l->ffn_norm, err));
    GLYD_TRY(load_weight(f, GLYD_ROLE_FFN_GATE, i, &l->gate, err));
    GLYD_TRY(load_weight(f, GLYD_ROLE_FFN_UP, i, &l->up, err));
    return load_weight(f, GLYD_ROLE_FFN_DOWN, i, &l->down, err);
}

static glyd_status load_weights(glyd_forward *f, glyd_error *err)
{
    const glyd_config *config = glyd_model_config(f->model);
    GLYD_TRY(load_weight(f, GLYD_ROLE_EMBED, 0, &f->embed, err));
    f->head = f->embed;
    if (!config->tied_head)
        GLYD_TRY(load_weight(f, GLYD_ROLE_HEAD, 0, &f->head, err));
    GLYD_TRY(load_vector(f, GLYD_ROLE_FINAL_NORM, 0, &f->final_norm, err));
    for (int i = 0; i < config->n_layers; i++)
        GLYD_TRY(load_layer(f, i, err));
    return GLYD_OK;
}

static glyd_status create_rows(glyd_forward *f, glyd_error *err)
{
    const glyd_sizes *s = &f->sizes;
    const int64_t q_cols = (int64_t)s->n_heads * s->head_dim;
    const int64_t k_cols = (int64_t)s->n_kv_heads * s->head_dim;
    const struct {
        glyd_rows **rows;
        int64_t n_cols;
    } all[] = {
        {&f->x, s->hidden}, {&f->h, s->hidden},  {&f->q, q_cols},    {&f->k, k_cols},
        {&f->v, k_cols},    {&f->mixed, q_cols}, {&f->gate, s->ffn}, {&f->up, s->ffn},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        GLYD_TRY(f->backend->rows_create(f->ctx, s->n_tokens, all[i].n_cols, all[i].rows, err));
    return f->backend->kv_create(f->ctx, &f->kv, err);
}

size_t glyd_forward_bytes(const glyd_sizes *s)
{
    double q_cols = (double)s->n_heads * s->head_dim, k_cols = (double)s->n_kv_heads * s->head_dim;
    double cols = 2.0 * s->hidden + 2 * q_cols + 2 * k_cols + 2.0 * s->ffn + s->head_dim;
    double bytes = (cols * s->n_tokens + s->head_dim / 2.0) * (double)sizeof(float);
    return bytes < 9e18 ? (size_t)bytes : SIZE_MAX;
}

glyd_status glyd_forward_open(const glyd_backend *backend, const glyd_model *model,
                              const glyd_sizes *sizes, glyd_forward **out, glyd_error *err)
{
    const glyd_config *config = glyd_model_config(model);
    glyd_status status;
    glyd_forward *f = calloc(1, sizeof *f);
    if (!f)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for a model");
    *f = (glyd_forward){.backend = backend, .model = model, .sizes = *sizes};
    f->eps = (float)config->rms_eps;
    f->attention_scale = (float)(1 / sqrt(config->head_dim));
    f->layers = calloc((size_t)config->n_layers, sizeof *f->layers);
    f->inverse = calloc((size_t)config->head_dim / 2, sizeof *f->inverse);
    f->turns = calloc((size_t)sizes->n_tokens * (size_t)config->head_dim, sizeof *f->turns);
    if (!f->layers || !f->inverse || !f->turns)
        GLYD_TRY_DONE(
            glyd_error_set(err, GLYD_E_NOMEM, "out of memory for %d layers", config->n_layers));
    glyd_rope_frequencies(&config->rope, config->head_dim, config->context, sizes->context,
                          f->inverse, &f->rope_scale);
    GLYD_TRY_DONE(backend->open(sizes, &f->ctx, err));
    GLYD_TRY_DONE(create_rows(f, err));
    GLYD_TRY_DONE(load_weights(f, err));
    *out = f;
    return GLYD_OK;
done:
    glyd_forward_close(f);
    return status;
}

void glyd_forward_close(glyd_forward *f)
{
    if (!f)
        return;
    f->backend->close(f->ctx);
    free(f->layers);
    free(f->inverse);
    free(f->turns);
    free(f);
}

const char *glyd_forward_describe(const glyd_forward *f)
{
    return f->backend->describe(f->ctx);
}

/* --- run --- */

/* Asked before each product: of a large model a layer takes a good part of a second on a CPU. */
static bool is_moot(const glyd_forward *f)
{
    return f->moot_fn(f->moot_arg);
}

/* False, here and below: the step is moot. */
static bool run_attention(glyd_forward *f, const layer *l, int index)
{
    const glyd_backend *b = f->backend;
    const glyd_product qkv[] = {
        {l->q, l->q_bias, f->q}, {l->k, l->k_bias, f->k}, {l->v, l->v_bias, f->v}};
    const glyd_product out = {l->out, NULL, f->h};
    if (is_moot(f))
        return false;
    b->rmsnorm(f->ctx, f->x, l->attn_norm, f->eps, f->h);
    b->linear(f->ctx, qkv, 3, f->h);
    if (l->q_norm) {
        b->rmsnorm(f->ctx, f->q, l->q_norm, f->eps, f->q);
        b->rmsnorm(f->ctx, f->k, l->k_norm, f->eps, f->k);
    }
    b->rope(f->ctx, f->q);
    b->rope(f->ctx, f->k);
    b->kv_store(f->ctx, f->kv, index, f->k, f->v);
    b->attention(f->ctx, f->kv, index, f->q, f->attention_scale, f->mixed);
    if (is_moot(f))
        return false;
    b->linear(f->ctx, &out, 1, f->mixed);
    b->add(f->ctx, f->x, f->h);
    return true;
}

static bool run_ffn(glyd_forward *f, const layer *l)
{
    const glyd_backend *b = f->backend;
    const glyd_product gate_up[] = {{l->gate, NULL, f->gate}, {l->up, NULL, f->up}};
    const glyd_product down = {l->down, NULL, f->h};
    if (is_moot(f))
        return false;
    b->rmsnorm(f->ctx, f->x, l->ffn_norm, f->eps, f->h);
    b->linear(f->ctx, gate_up, 2, f->h);
    b->silu_mul(f->ctx, f->gate, f->up);
    if (is_moot(f))
        return false;
    b->linear(f->ctx, &down, 1, f->gate);
    b->add(f->ctx, f->x, f->h);
    return true;
}

static bool run_layer(glyd_forward *f, int index)
{
    return run_attention(f, &f->layers[index], index) && run_ffn(f, &f->layers[index]);
}

bool glyd_forward_run(glyd_forward *f, const int32_t *ids, int n_tokens, const glyd_run *runs,
                      int n_runs, glyd_moot_fn moot_fn, void *moot_arg)
{
    int head_dim = f->sizes.head_dim;
    GLYD_ASSERT(n_tokens <= f->sizes.n_tokens);
    for (int r = 0; r < n_runs; r++)
        for (int i = 0; i < runs[r].n_tokens; i++)
            glyd_rope_turn(f->inverse, f->rope_scale, head_dim / 2, runs[r].position + i,
                           f->turns + (int64_t)(runs[r].first + i) * head_dim);
    f->batch = (glyd_batch){n_tokens, ids, f->turns, runs, n_runs};
    f->moot_fn = moot_fn;
    f->moot_arg = moot_arg;
    f->backend->begin(f->ctx, &f->batch);
    f->backend->embed(f->ctx, f->embed, f->x);
    for (int i = 0; i < f->sizes.n_layers; i++)
        if (!run_layer(f, i))
            return false;
    return true;
}

glyd_status glyd_forward_logits(glyd_forward *f, const int32_t *rows, int n, const float **logits,
                                glyd_error *err)
{
    return f->backend->logits(f->ctx, f->x, rows, n, f->final_norm, f->eps, f->head, logits, err);
}

void glyd_forward_copy_page(glyd_forward *f, int from, int to)
{
    f->backend->kv_copy(f->ctx, f->kv, from, to);
}

glyd_status glyd_forward_finish(glyd_forward *f, glyd_error *err)
{
    return f->backend->finish(f->ctx, err);
}
