/* plan.c - from options and a model's config to every size the engine allocates.
 *
 * glyd_plan_make is the only place that chooses a size: what it says is what glyd_engine_open
 * allocates, so `glyd plan` cannot drift from the engine.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/plan.h"
#include "base/cpu.h"
#include "base/error.h"
#include "engine/forward.h"
#include "engine/scheduler.h"

enum {
    CONTEXT_DEFAULT = 8192,
    CHUNK_DEFAULT = 64, /* enough to be bound by arithmetic; a step stays short */
    CHUNK_MAX = 4096,
    SEQUENCES_MAX = 1024,
    HEAD_DIM_MAX = 256,
    OUTPUTS_MIN = 16, /* rows of logits at once when every position's are asked for */
};

glyd_engine_options glyd_engine_options_default(const char *folder)
{
    return (glyd_engine_options){.folder = folder, .n_sequences = 1, .chunk_tokens = CHUNK_DEFAULT};
}

glyd_status glyd_backend_find(glyd_backend_kind kind, const glyd_backend **backend, glyd_error *err)
{
    if (kind != GLYD_BACKEND_AUTO && kind != GLYD_BACKEND_CPU)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "this engine has no backend but the CPU's");
    *backend = glyd_backend_cpu();
    return GLYD_OK;
}

static glyd_status check_range(const char *name, int64_t value, int64_t min, int64_t max,
                               glyd_error *err)
{
    if (value < min || value > max)
        GLYD_FAIL(err, GLYD_E_ARG, "%s is %lld: between %lld and %lld is possible", name,
                  (long long)value, (long long)min, (long long)max);
    return GLYD_OK;
}

/* Positions that the model's config gives a meaning to: those it was made for, and what its scaling
 * stretches them to. */
static double context_limit(const glyd_config *config)
{
    double stretched = 0;
    if (config->rope.kind == GLYD_ROPE_YARN)
        stretched = config->rope.factor * config->rope.original_positions;
    if (config->rope.kind == GLYD_ROPE_DYNAMIC)
        stretched = config->rope.factor * config->context;
    return stretched > config->context ? stretched : config->context;
}

static glyd_status choose_context(const glyd_engine_options *o, const glyd_config *config,
                                  int *context, glyd_error *err)
{
    *context = o->context;
    if (o->context == 0)
        *context = config->context < CONTEXT_DEFAULT ? config->context : CONTEXT_DEFAULT;
    if (*context > context_limit(config))
        GLYD_FAIL(err, GLYD_E_LIMIT, "a context of %d tokens: this model was made for at most %.0f",
                  *context, context_limit(config));
    return GLYD_OK;
}

static glyd_status choose_sizes(const glyd_engine_options *o, const glyd_config *config,
                                const glyd_backend *backend, glyd_sizes *s, glyd_error *err)
{
    GLYD_TRY(check_range("the number of sequences", o->n_sequences, 1, SEQUENCES_MAX, err));
    GLYD_TRY(check_range("the chunk", o->chunk_tokens, 1, CHUNK_MAX, err));
    GLYD_TRY(check_range("the number of threads", o->n_threads, 0, 1024, err));
    GLYD_TRY(check_range("the context", o->context, 0, 1 << 30, err));
    GLYD_TRY(check_range("the queue", o->queue_max, 0, 1 << 20, err));
    GLYD_TRY(check_range("the KV cache's tokens", o->kv_tokens, 0, INT32_MAX, err));
    if (config->head_dim > HEAD_DIM_MAX)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "heads of %d values: at most %d are supported",
                  config->head_dim, HEAD_DIM_MAX);
    *s = (glyd_sizes){
        .n_layers = config->n_layers,
        .hidden = config->hidden,
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .ffn = config->ffn,
        .vocab = config->vocab,
        .window = config->sliding_window,
        .n_threads = o->n_threads > 0 ? o->n_threads : glyd_cpu_count(),
        .pin = o->pin,
    };
    GLYD_TRY(choose_context(o, config, &s->context, err));
    s->n_tokens = o->chunk_tokens > o->n_sequences ? o->chunk_tokens : o->n_sequences;
    s->n_outputs = o->n_sequences > OUTPUTS_MIN ? o->n_sequences : OUTPUTS_MIN;
    int64_t pages_each = ((int64_t)s->context + backend->page_tokens - 1) / backend->page_tokens;
    int64_t n_pages = pages_each * o->n_sequences;
    if (o->kv_tokens > 0 && o->kv_tokens < s->context)
        GLYD_FAIL(err, GLYD_E_LIMIT,
                  "a KV cache of %lld tokens cannot hold the context of %d tokens: ask for a "
                  "larger cache or a shorter context",
                  (long long)o->kv_tokens, s->context);
    if (o->kv_tokens > 0)
        n_pages = (o->kv_tokens + backend->page_tokens - 1) / backend->page_tokens;
    GLYD_TRY(
        check_range("the KV cache's pages", n_pages, 1, INT32_MAX / backend->page_tokens, err));
    s->n_pages = (int)n_pages;
    return GLYD_OK;
}

/* Sum up the weights; tied ones once. Roles that this family or a layer does not have are not
 * found. plan->layout is then how most are saved. */
static void add_weights(const glyd_model *model, const glyd_sizes *sizes, glyd_plan *plan)
{
    const glyd_config *config = glyd_model_config(model);
    int64_t values_of[GLYD_LAYOUT_MMA + 1] = {0};
    for (int role = 0; role < GLYD_ROLES; role++) {
        glyd_matrix m;
        if (role == GLYD_ROLE_HEAD && config->tied_head)
            continue;
        for (int i = 0; glyd_model_peek(model, (glyd_role)role, i, &m, NULL) == GLYD_OK; i++) {
            plan->n_weights += m.rows * m.cols;
            bool unpacks = sizes->unpack && m.layout != GLYD_LAYOUT_BF16;
            size_t codes = sizes->expand ? glyd_expand_bytes(&m) : 0;
            size_t made = unpacks ? (size_t)(m.rows * m.cols) * 2 : codes;
            plan->weight_bytes += unpacks ? made : glyd_matrix_bytes(&m);
            plan->expanded_bytes += made;
            if (codes)
                plan->weight_bytes += codes - m.array[GLYD_ARRAY_CODES].bytes -
                                      m.array[GLYD_ARRAY_ENTRIES].bytes -
                                      m.array[GLYD_ARRAY_TABLE].bytes;
            values_of[m.layout] += m.rows * m.cols;
        }
    }
    for (int layout = 0; layout <= GLYD_LAYOUT_MMA; layout++)
        if (values_of[layout] > values_of[plan->layout])
            plan->layout = (glyd_layout)layout;
}

/* plan->layout, from how most weights are saved to how they are held. */
static glyd_status choose_layout(const glyd_engine_options *options, const glyd_sizes *sizes,
                                 glyd_plan *plan, glyd_error *err)
{
    glyd_layout saved = plan->layout;
    if (options->layout && !glyd_layout_name(*options->layout))
        GLYD_FAIL(err, GLYD_E_ARG, "there is no layout %d", (int)*options->layout);
    if (sizes->expand && saved == GLYD_LAYOUT_MMA)
        plan->layout = GLYD_LAYOUT_MMA12;
    if (sizes->unpack)
        plan->layout = GLYD_LAYOUT_BF16;
    if (options->layout && *options->layout != plan->layout)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "the weights of %s are %s and cannot be held as %s: glyd pack makes mma and "
                  "mma12 of a bf16 model",
                  options->folder, glyd_layout_name(saved), glyd_layout_name(*options->layout));
    return GLYD_OK;
}

static size_t plus(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

glyd_status glyd_plan_make(const glyd_engine_options *options, const glyd_model *model,
                           const glyd_backend *backend, glyd_sizes *sizes, glyd_plan *plan,
                           glyd_error *err)
{
    const glyd_config *config = glyd_model_config(model);
    GLYD_TRY(choose_sizes(options, config, backend, sizes, err));
    *plan = (glyd_plan){
        .kv_bytes = backend->kv_bytes(sizes),
        .context = sizes->context,
        .context_model = config->context,
        .n_sequences = options->n_sequences,
        .kv_tokens = (int64_t)sizes->n_pages * backend->page_tokens,
    };
    plan->kv_token_bytes = plan->kv_bytes / (size_t)plan->kv_tokens;
    sizes->expand = options->layout ? *options->layout == GLYD_LAYOUT_MMA12 : backend->expands;
    sizes->unpack = options->layout && *options->layout == GLYD_LAYOUT_BF16;
    add_weights(model, sizes, plan);
    GLYD_TRY(choose_layout(options, sizes, plan, err));
    plan->scratch_bytes = plus(backend->scratch_bytes(sizes), glyd_forward_bytes(sizes));
    plan->scratch_bytes =
        plus(plan->scratch_bytes, glyd_scheduler_bytes(sizes, options->n_sequences, backend));
    plan->total_bytes = plus(plus(plan->weight_bytes, plan->kv_bytes), plan->scratch_bytes);
    return GLYD_OK;
}

glyd_status glyd_engine_plan(const glyd_engine_options *options, glyd_plan *plan, glyd_error *err)
{
    const glyd_backend *backend = NULL;
    glyd_model *model = NULL;
    glyd_sizes sizes;
    glyd_status status;
    GLYD_TRY_DONE(glyd_backend_find(options->backend, &backend, err));
    GLYD_TRY_DONE(glyd_model_open(options->folder, &model, err));
    GLYD_TRY_DONE(glyd_plan_make(options, model, backend, &sizes, plan, err));
done:
    glyd_model_close(model);
    return status;
}

double glyd_plan_bits(const glyd_plan *plan)
{
    return plan->n_weights ? 8 * (double)plan->weight_bytes / (double)plan->n_weights : 0;
}
