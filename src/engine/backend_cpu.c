/* backend_cpu.c - the CPU behind the engine's table of functions.
 *
 * 1. Activations and the KV cache are float32. Weights are used where they are mapped; norms and
 *    biases are copied as float32.
 * 2. Every result is one task's work in a fixed order (cpu/linear.h, cpu/ops.h), so the number of
 *    threads and the rest of the batch change nothing.
 * 3. Everything allocated hangs on one list and goes at close; nothing is allocated in a step.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/cpu.h"
#include "base/error.h"
#include "cpu/linear.h"
#include "cpu/ops.h"
#include "engine/backend.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN = 64,
    PARTS_MAX = 4,    /* matrices that share x: q, k and v */
    TASK_ROWS = 4,    /* rows of a task of a small operation */
    TASK_TOKENS = 16, /* tokens of a task of attention: they share loads of keys */
    DESCRIBE_BYTES = 32,
};

struct glyd_weight {
    glyd_linear_weight linear;
};

struct glyd_vector {
    int64_t n;
    float *values;
};

struct glyd_rows {
    int64_t n_cols;
    float *data;
};

struct glyd_kv {
    float *data;
    int64_t head_floats, page_floats, layer_floats;
};

/* The head of every allocation; what it holds follows at ALIGN. */
typedef struct block {
    struct block *next;
} block;

typedef struct cpu {
    glyd_sizes sizes;
    glyd_pool *pool;
    const glyd_ops *ops;
    block *blocks;
    const glyd_batch *batch;
    glyd_run *parts; /* the batch's runs, cut to at most TASK_TOKENS */
    int n_parts;
    void *linear_scratch;
    uint16_t *embed_scratch;  /* a row a worker */
    float *attention_scratch; /* a share a worker */
    float *picked;            /* n_outputs x hidden */
    float *logits;            /* n_outputs x vocab */
    char describe[DESCRIBE_BYTES];
} cpu;

/* a * b, or SIZE_MAX where that does not fit: no allocation of that size succeeds. */
static size_t times(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static size_t plus(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static void *allocate(cpu *c, size_t bytes)
{
    if (bytes > SIZE_MAX - 2 * (size_t)ALIGN)
        return NULL;
    block *b = aligned_alloc(ALIGN, (bytes + 2 * (size_t)ALIGN - 1) / ALIGN * ALIGN);
    if (!b)
        return NULL;
    b->next = c->blocks;
    c->blocks = b;
    return (uint8_t *)b + ALIGN;
}

static glyd_status no_memory(size_t bytes, const char *what, glyd_error *err)
{
    GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for %s (%zu bytes)", what, bytes);
}

/* --- sizes --- */

static size_t kv_page_bytes(const glyd_sizes *s)
{
    return times(times((size_t)s->n_kv_heads, (size_t)glyd_kv_head_floats(s->head_dim)),
                 sizeof(float));
}

static size_t kv_bytes(const glyd_sizes *s)
{
    return times(times((size_t)s->n_layers, (size_t)s->n_pages), kv_page_bytes(s));
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static size_t linear_scratch_bytes(const glyd_sizes *s)
{
    int64_t cols = larger(larger(s->hidden, s->ffn), (int64_t)s->n_heads * s->head_dim);
    return glyd_linear_scratch_bytes(cols, larger(s->n_tokens, s->n_outputs), s->n_threads);
}

static size_t attention_scratch_bytes(const glyd_sizes *s)
{
    return times((size_t)s->n_threads, (size_t)glyd_attention_scratch(s->context) * sizeof(float));
}

static size_t logits_bytes(const glyd_sizes *s)
{
    return times(times((size_t)s->n_outputs, (size_t)s->vocab), sizeof(float));
}

static size_t picked_bytes(const glyd_sizes *s)
{
    return times(times((size_t)s->n_outputs, (size_t)s->hidden), sizeof(float));
}

static size_t embed_bytes(const glyd_sizes *s)
{
    return times(times((size_t)s->n_threads, (size_t)s->hidden), sizeof(uint16_t));
}

static size_t parts_bytes(const glyd_sizes *s)
{
    return times((size_t)s->n_tokens, sizeof(glyd_run));
}

static size_t scratch_bytes(const glyd_sizes *s)
{
    size_t bytes = plus(linear_scratch_bytes(s), attention_scratch_bytes(s));
    bytes = plus(bytes, plus(logits_bytes(s), picked_bytes(s)));
    return plus(bytes, plus(embed_bytes(s), parts_bytes(s)));
}

/* --- open and close --- */

static void close_cpu(void *ctx)
{
    cpu *c = ctx;
    if (!c)
        return;
    for (block *b = c->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    glyd_pool_free(c->pool);
    free(c);
}

static glyd_status open_cpu(const glyd_sizes *sizes, void **ctx, glyd_error *err)
{
    cpu *c = calloc(1, sizeof *c);
    if (!c)
        return no_memory(sizeof *c, "the CPU backend", err);
    glyd_status status;
    c->sizes = *sizes;
    c->ops = glyd_ops_of(glyd_cpu_variant());
    snprintf(c->describe, sizeof c->describe, "cpu (%s)", glyd_variant_name(glyd_cpu_variant()));
    glyd_pool_options options = {.n_threads = sizes->n_threads, .pin = sizes->pin};
    GLYD_TRY_DONE(glyd_pool_create(&options, &c->pool, err));
    c->linear_scratch = allocate(c, linear_scratch_bytes(sizes));
    c->attention_scratch = allocate(c, attention_scratch_bytes(sizes));
    c->logits = allocate(c, logits_bytes(sizes));
    c->picked = allocate(c, picked_bytes(sizes));
    c->embed_scratch = allocate(c, embed_bytes(sizes));
    c->parts = allocate(c, parts_bytes(sizes));
    if (!c->linear_scratch || !c->attention_scratch || !c->logits || !c->picked ||
        !c->embed_scratch || !c->parts)
        GLYD_TRY_DONE(no_memory(scratch_bytes(sizes), "activations", err));
    *ctx = c;
    return GLYD_OK;
done:
    close_cpu(c);
    return status;
}

static const char *describe(void *ctx)
{
    return ((const cpu *)ctx)->describe;
}

/* *held: the matrix as sizes say it is to be held; host itself where it is already. */
static glyd_status hold(cpu *c, const glyd_matrix *host, glyd_matrix *held, glyd_error *err)
{
    bool unpacks = c->sizes.unpack && host->layout != GLYD_LAYOUT_BF16;
    size_t code_bytes = c->sizes.expand ? glyd_expand_bytes(host) : 0;
    size_t bf16_bytes = times(times((size_t)host->rows, (size_t)host->cols), sizeof(uint16_t));
    *held = *host;
    if (!unpacks && !code_bytes)
        return GLYD_OK;
    size_t bytes = unpacks ? bf16_bytes : code_bytes;
    uint8_t *data = allocate(c, bytes);
    if (!data)
        return no_memory(bytes, "a weight", err);
    if (!unpacks)
        return glyd_expand(host, data, c->pool, held, err);
    *held = (glyd_matrix){.layout = GLYD_LAYOUT_BF16, .rows = host->rows, .cols = host->cols};
    held->array[GLYD_ARRAY_SM] = (glyd_span){data, bytes};
    return glyd_unpack(host, 0, host->rows, (uint16_t *)data, host->cols, c->pool, err);
}

static glyd_status weight_load(void *ctx, const glyd_matrix *host, glyd_weight **weight,
                               glyd_error *err)
{
    cpu *c = ctx;
    glyd_matrix held;
    GLYD_TRY(glyd_check(host, c->pool, err));
    GLYD_TRY(hold(c, host, &held, err));
    size_t lookup_bytes = glyd_linear_lookup_bytes(&held);
    glyd_weight *w = allocate(c, sizeof *w);
    void *lookup = lookup_bytes ? allocate(c, lookup_bytes) : NULL;
    if (!w || (lookup_bytes && !lookup))
        return no_memory(sizeof *w + lookup_bytes, "a weight", err);
    GLYD_TRY(glyd_linear_weight_init(&w->linear, &held, lookup, err));
    *weight = w;
    return GLYD_OK;
}

static float float_of_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

static glyd_status vector_load(void *ctx, const glyd_matrix *host, glyd_vector **vector,
                               glyd_error *err)
{
    cpu *c = ctx;
    size_t n = (size_t)host->cols;
    GLYD_TRY(glyd_check(host, c->pool, err));
    if (host->rows != 1)
        GLYD_FAIL(err, GLYD_E_ARG, "a vector of %lld rows", (long long)host->rows);
    glyd_vector *v = allocate(c, sizeof *v);
    float *values = allocate(c, times(n, sizeof *values));
    if (!v || !values)
        return no_memory(n * sizeof *values, "a vector", err);
    /* The bf16 values go to the upper half of the memory: widening them in order never overwrites
     * one that is still to be read. */
    uint16_t *bf16 = (uint16_t *)values + n;
    GLYD_TRY(glyd_unpack(host, 0, 1, bf16, host->cols, NULL, err));
    for (size_t i = 0; i < n; i++) {
        float value = float_of_bf16(bf16[i]);
        memcpy(&values[i], &value, sizeof value);
    }
    *v = (glyd_vector){host->cols, values};
    *vector = v;
    return GLYD_OK;
}

static glyd_status rows_create(void *ctx, int n_rows, int64_t n_cols, glyd_rows **rows,
                               glyd_error *err)
{
    cpu *c = ctx;
    size_t bytes = times(times((size_t)n_rows, (size_t)n_cols), sizeof(float));
    glyd_rows *r = allocate(c, sizeof *r);
    float *data = allocate(c, bytes);
    if (!r || !data)
        return no_memory(bytes, "activations", err);
    *r = (glyd_rows){n_cols, data};
    *rows = r;
    return GLYD_OK;
}

static glyd_status kv_create(void *ctx, glyd_kv **kv, glyd_error *err)
{
    cpu *c = ctx;
    size_t bytes = kv_bytes(&c->sizes);
    glyd_kv *k = allocate(c, sizeof *k);
    float *data = allocate(c, bytes); /* not touched: pages never used cost no memory */
    if (!k || !data)
        GLYD_FAIL(err, GLYD_E_NOMEM,
                  "out of memory for the KV cache (%zu bytes): ask for a shorter context", bytes);
    k->data = data;
    k->head_floats = glyd_kv_head_floats(c->sizes.head_dim);
    k->page_floats = k->head_floats * c->sizes.n_kv_heads;
    k->layer_floats = k->page_floats * c->sizes.n_pages;
    *kv = k;
    return GLYD_OK;
}

static void kv_copy(void *ctx, glyd_kv *kv, int from, int to)
{
    const cpu *c = ctx;
    for (int layer = 0; layer < c->sizes.n_layers; layer++) {
        float *pages = kv->data + layer * kv->layer_floats;
        memcpy(pages + to * kv->page_floats, pages + from * kv->page_floats,
               (size_t)kv->page_floats * sizeof *pages);
    }
}

/* --- a step --- */

static void begin(void *ctx, const glyd_batch *batch)
{
    cpu *c = ctx;
    c->batch = batch;
    c->n_parts = 0;
    for (int i = 0; i < batch->n_runs; i++)
        for (int done = 0; done < batch->runs[i].n_tokens; done += TASK_TOKENS) {
            glyd_run part = batch->runs[i];
            part.first += done;
            part.position += done;
            part.n_tokens -= done;
            if (part.n_tokens > TASK_TOKENS)
                part.n_tokens = TASK_TOKENS;
            c->parts[c->n_parts++] = part;
        }
}

static glyd_status finish(void *ctx, glyd_error *err)
{
    (void)err;
    ((cpu *)ctx)->batch = NULL;
    return GLYD_OK;
}

/* What a task of a small operation works on: rows of x and y from task * TASK_ROWS. */
typedef struct rows_job {
    cpu *c;
    const glyd_rows *x, *y;
    const glyd_vector *weight;
    float eps;
    int n_rows;
} rows_job;

/* Rows [*first, *end) of a task. */
static void task_rows(const rows_job *job, int64_t task, int64_t *first, int64_t *end)
{
    *first = task * TASK_ROWS;
    *end = *first + TASK_ROWS < job->n_rows ? *first + TASK_ROWS : job->n_rows;
}

static void run_rows(rows_job *job, glyd_task_fn fn)
{
    job->n_rows = job->c->batch->n_tokens;
    glyd_pool_run(job->c->pool, (job->n_rows + TASK_ROWS - 1) / TASK_ROWS, fn, job);
}

typedef struct embed_job {
    cpu *c;
    const glyd_matrix *table;
    glyd_rows *x;
} embed_job;

static void embed_task(void *arg, int64_t task, int worker)
{
    const embed_job *job = arg;
    int64_t n = job->x->n_cols;
    uint16_t *row = job->c->embed_scratch + worker * n;
    float *x = job->x->data + task * n;
    /* In range by the checks of submit, so this cannot fail. */
    glyd_status status = glyd_unpack(job->table, job->c->batch->ids[task], 1, row, n, NULL, NULL);
    GLYD_ASSERT(status == GLYD_OK);
    for (int64_t i = 0; i < n; i++)
        x[i] = float_of_bf16(row[i]);
}

static void embed(void *ctx, const glyd_weight *table, glyd_rows *x)
{
    cpu *c = ctx;
    embed_job job = {c, &table->linear.matrix, x};
    glyd_pool_run(c->pool, c->batch->n_tokens, embed_task, &job);
}

static void linear(void *ctx, const glyd_product *parts, int n_parts, const glyd_rows *x)
{
    cpu *c = ctx;
    glyd_linear_part part[PARTS_MAX];
    GLYD_ASSERT(n_parts <= PARTS_MAX);
    for (int i = 0; i < n_parts; i++) {
        const float *bias = parts[i].bias ? parts[i].bias->values : NULL;
        part[i] = (glyd_linear_part){&parts[i].weight->linear, bias, parts[i].y->data,
                                     parts[i].y->n_cols};
    }
    glyd_linear(part, n_parts, x->data, x->n_cols, c->batch->n_tokens, c->linear_scratch, c->pool);
}

static void rmsnorm_task(void *arg, int64_t task, int worker)
{
    const rows_job *job = arg;
    int64_t first, end, n = job->weight->n, n_cols = job->x->n_cols;
    (void)worker;
    task_rows(job, task, &first, &end);
    for (int64_t at = first * n_cols; at < end * n_cols; at += n)
        job->c->ops->rmsnorm(job->x->data + at, job->weight->values, job->y->data + at, n,
                             job->eps);
}

static void rmsnorm(void *ctx, const glyd_rows *x, const glyd_vector *weight, float eps,
                    glyd_rows *y)
{
    run_rows(&(rows_job){.c = ctx, .x = x, .y = y, .weight = weight, .eps = eps}, rmsnorm_task);
}

static void rope_task(void *arg, int64_t task, int worker)
{
    const rows_job *job = arg;
    int64_t first, end, n = job->c->sizes.head_dim, n_cols = job->x->n_cols;
    (void)worker;
    task_rows(job, task, &first, &end);
    for (int64_t i = first; i < end; i++)
        for (int64_t head = 0; head < n_cols; head += n)
            job->c->ops->rope(job->x->data + i * n_cols + head, job->c->batch->turns + i * n, n);
}

static void rope(void *ctx, glyd_rows *x)
{
    run_rows(&(rows_job){.c = ctx, .x = x}, rope_task);
}

static void add_task(void *arg, int64_t task, int worker)
{
    const rows_job *job = arg;
    int64_t first, end, n_cols = job->x->n_cols;
    (void)worker;
    task_rows(job, task, &first, &end);
    job->c->ops->add(job->x->data + first * n_cols, job->y->data + first * n_cols,
                     (end - first) * n_cols);
}

static void add(void *ctx, glyd_rows *x, const glyd_rows *y)
{
    run_rows(&(rows_job){.c = ctx, .x = x, .y = y}, add_task);
}

static void silu_mul_task(void *arg, int64_t task, int worker)
{
    const rows_job *job = arg;
    int64_t first, end, n_cols = job->x->n_cols;
    (void)worker;
    task_rows(job, task, &first, &end);
    job->c->ops->silu_mul(job->x->data + first * n_cols, job->y->data + first * n_cols,
                          (end - first) * n_cols);
}

static void silu_mul(void *ctx, glyd_rows *gate, const glyd_rows *up)
{
    run_rows(&(rows_job){.c = ctx, .x = gate, .y = up}, silu_mul_task);
}

typedef struct kv_job {
    cpu *c;
    const glyd_kv *kv;
    float *layer;
    const glyd_rows *a, *b; /* keys and values, or queries and results */
    float scale;
} kv_job;

static void kv_store_task(void *arg, int64_t task, int worker)
{
    const kv_job *job = arg;
    const glyd_run *run = &job->c->parts[task];
    int head_dim = job->c->sizes.head_dim;
    (void)worker;
    for (int i = 0; i < run->n_tokens; i++) {
        int position = run->position + i;
        int page = run->page_table[position / GLYD_KV_PAGE];
        for (int head = 0; head < job->c->sizes.n_kv_heads; head++) {
            int64_t at = (run->first + i) * job->a->n_cols + (int64_t)head * head_dim;
            glyd_kv_store(job->layer + page * job->kv->page_floats + head * job->kv->head_floats,
                          position % GLYD_KV_PAGE, head_dim, job->a->data + at, job->b->data + at);
        }
    }
}

static void kv_store(void *ctx, glyd_kv *kv, int layer, const glyd_rows *k, const glyd_rows *v)
{
    cpu *c = ctx;
    kv_job job = {c, kv, kv->data + layer * kv->layer_floats, k, v, 0};
    glyd_pool_run(c->pool, c->n_parts, kv_store_task, &job);
}

/* Tasks go head by head, so that a worker finds the keys of the last task in its cache. */
static void attention_task(void *arg, int64_t task, int worker)
{
    const kv_job *job = arg;
    const glyd_sizes *s = &job->c->sizes;
    const glyd_run *run = &job->c->parts[task % job->c->n_parts];
    int64_t head = task / job->c->n_parts;
    int group = s->n_heads / s->n_kv_heads;
    int64_t at = run->first * job->a->n_cols + head * group * s->head_dim;
    glyd_attention a = {
        .shape = {s->n_kv_heads, s->head_dim},
        .group = group,
        .window = s->window,
        .scale = job->scale,
        .q = job->a->data + at,
        .out = job->b->data + at,
        .stride = job->a->n_cols,
        .n_tokens = run->n_tokens,
        .position = run->position,
        .pages = job->layer + head * job->kv->head_floats,
        .page_stride = job->kv->page_floats,
        .page_table = run->page_table,
        .scratch = job->c->attention_scratch + worker * glyd_attention_scratch(s->context),
    };
    job->c->ops->attention(&a);
}

static void attention(void *ctx, const glyd_kv *kv, int layer, const glyd_rows *q, float scale,
                      glyd_rows *y)
{
    cpu *c = ctx;
    kv_job job = {c, kv, kv->data + layer * kv->layer_floats, q, y, scale};
    glyd_pool_run(c->pool, (int64_t)c->n_parts * c->sizes.n_kv_heads, attention_task, &job);
}

static glyd_status logits(void *ctx, const glyd_rows *x, const int32_t *rows, int n,
                          const glyd_vector *norm, float eps, const glyd_weight *head,
                          const float **out, glyd_error *err)
{
    cpu *c = ctx;
    int64_t hidden = c->sizes.hidden, vocab = c->sizes.vocab;
    (void)err;
    GLYD_ASSERT(n <= c->sizes.n_outputs);
    for (int i = 0; i < n; i++)
        c->ops->rmsnorm(x->data + rows[i] * x->n_cols, norm->values, c->picked + i * hidden, hidden,
                        eps);
    glyd_linear_part part = {&head->linear, NULL, c->logits, vocab};
    glyd_linear(&part, 1, c->picked, hidden, n, c->linear_scratch, c->pool);
    *out = c->logits;
    return GLYD_OK;
}

const glyd_backend *glyd_backend_cpu(void)
{
    static const glyd_backend table = {
        .name = "cpu",
        .page_tokens = GLYD_KV_PAGE,
        .expands = true,
        .kv_bytes = kv_bytes,
        .scratch_bytes = scratch_bytes,
        .open = open_cpu,
        .close = close_cpu,
        .describe = describe,
        .weight_load = weight_load,
        .vector_load = vector_load,
        .rows_create = rows_create,
        .kv_create = kv_create,
        .kv_copy = kv_copy,
        .begin = begin,
        .embed = embed,
        .linear = linear,
        .rmsnorm = rmsnorm,
        .rope = rope,
        .kv_store = kv_store,
        .attention = attention,
        .silu_mul = silu_mul,
        .add = add,
        .logits = logits,
        .finish = finish,
    };
    return &table;
}
