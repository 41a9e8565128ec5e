/* metrics.c - figures for Prometheus, under vLLM's names.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/metrics.h"
#include "base/buf.h"
#include "base/error.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOUNDS_MAX = 24 };

/* Upper bounds of buckets, as vLLM has them; 0 ends a list. */
static const double first_token_bounds[BOUNDS_MAX] = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
static const double token_bounds[BOUNDS_MAX] = {
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
static const double request_bounds[BOUNDS_MAX] = {
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double count_bounds[BOUNDS_MAX] = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};

/* X(id, name, help, bounds) */
#define HISTOGRAM_LIST(X)                                                                          \
    X(FIRST_TOKEN, "time_to_first_token_seconds", "Time to the first token.", first_token_bounds)  \
    X(INTER_TOKEN, "inter_token_latency_seconds", "Time between tokens.", token_bounds)            \
    X(OUTPUT_TOKEN, "request_time_per_output_token_seconds",                                       \
      "Mean time between the tokens of a request.", token_bounds)                                  \
    X(E2E, "e2e_request_latency_seconds", "Time from request to last token.", request_bounds)      \
    X(QUEUE, "request_queue_time_seconds", "Time in the queue.", request_bounds)                   \
    X(INFERENCE, "request_inference_time_seconds", "Time in the batch.", request_bounds)           \
    X(PREFILL, "request_prefill_time_seconds", "Time until the first token, in the batch.",        \
      request_bounds)                                                                              \
    X(DECODE, "request_decode_time_seconds", "Time from first to last token.", request_bounds)     \
    X(PROMPT, "request_prompt_tokens", "Tokens of a prompt.", count_bounds)                        \
    X(GENERATION, "request_generation_tokens", "Tokens of an answer.", count_bounds)

typedef enum histogram_id {
#define ENUM(id, name, help, bounds) HISTOGRAM_##id,
    HISTOGRAM_LIST(ENUM)
#undef ENUM
        HISTOGRAMS
} histogram_id;

static const struct {
    const char *name, *help;
    const double *bounds;
} histogram_rows[HISTOGRAMS] = {
#define ROW(id, name, help, bounds) {name, help, bounds},
    HISTOGRAM_LIST(ROW)
#undef ROW
};

static const char *const finishes[] = {"stop", "length", "abort", "error"};
enum { FINISHES = sizeof finishes / sizeof *finishes };

typedef struct histogram {
    uint64_t bucket[BOUNDS_MAX + 1]; /* values up to a bound and above the one before */
    double sum;
} histogram;

struct glyd_metrics {
    pthread_mutex_t lock;
    histogram histograms[HISTOGRAMS];
    uint64_t n_finished[FINISHES];
};

glyd_status glyd_metrics_create(glyd_metrics **out, glyd_error *err)
{
    glyd_metrics *m = calloc(1, sizeof *m);
    if (!m)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    pthread_mutex_init(&m->lock, NULL);
    *out = m;
    return GLYD_OK;
}

void glyd_metrics_free(glyd_metrics *m)
{
    if (m)
        pthread_mutex_destroy(&m->lock);
    free(m);
}

static void observe(glyd_metrics *m, histogram_id id, double value)
{
    const double *bounds = histogram_rows[id].bounds;
    int i = 0;
    while (i < BOUNDS_MAX && bounds[i] > 0 && value > bounds[i])
        i++;
    m->histograms[id].bucket[i]++;
    m->histograms[id].sum += value;
}

void glyd_metrics_first_token(glyd_metrics *m, double since_request_s)
{
    pthread_mutex_lock(&m->lock);
    observe(m, HISTOGRAM_FIRST_TOKEN, since_request_s);
    pthread_mutex_unlock(&m->lock);
}

void glyd_metrics_next_token(glyd_metrics *m, double since_token_s)
{
    pthread_mutex_lock(&m->lock);
    observe(m, HISTOGRAM_INTER_TOKEN, since_token_s);
    pthread_mutex_unlock(&m->lock);
}

void glyd_metrics_finish(glyd_metrics *m, const char *finish, const glyd_result *r,
                         double since_request_s)
{
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < FINISHES; i++)
        m->n_finished[i] += strcmp(finishes[i], finish) == 0;
    observe(m, HISTOGRAM_E2E, since_request_s);
    observe(m, HISTOGRAM_QUEUE, r->queue_s);
    observe(m, HISTOGRAM_INFERENCE, r->prompt_s + r->decode_s);
    observe(m, HISTOGRAM_PREFILL, r->prompt_s);
    observe(m, HISTOGRAM_DECODE, r->decode_s);
    if (r->n_tokens > 1)
        observe(m, HISTOGRAM_OUTPUT_TOKEN, r->decode_s / (r->n_tokens - 1));
    observe(m, HISTOGRAM_PROMPT, r->n_prompt);
    observe(m, HISTOGRAM_GENERATION, r->n_tokens);
    pthread_mutex_unlock(&m->lock);
}

/* --- the text --- */

typedef struct printer {
    glyd_buf *out;
    char labels[512];
    glyd_status status; /* the first failure */
} printer;

#define PRINT(p, ...)                                                                              \
    do {                                                                                           \
        if ((p)->status == GLYD_OK)                                                                \
            (p)->status = glyd_buf_print((p)->out, __VA_ARGS__);                                   \
    } while (0)

static void set_labels(printer *p, const char *model)
{
    size_t n = 0;
    n += (size_t)snprintf(p->labels, sizeof p->labels, "engine=\"0\",model_name=\"");
    for (; *model && n < sizeof p->labels - 4; model++) {
        if (*model == '"' || *model == '\\')
            p->labels[n++] = '\\';
        p->labels[n++] = (unsigned char)*model < 0x20 ? ' ' : *model;
    }
    p->labels[n++] = '"';
    p->labels[n] = 0;
}

static void print_head(printer *p, const char *name, const char *help, const char *type)
{
    PRINT(p, "# HELP vllm:%s %s\n# TYPE vllm:%s %s\n", name, help, name, type);
}

static void print_value(printer *p, const char *name, const char *help, const char *type,
                        double value)
{
    print_head(p, name, help, type);
    PRINT(p, "vllm:%s{%s} %.17g\n", name, p->labels, value);
}

/* As vLLM has it: a histogram, whatever its name ends in. */
static void print_step_sizes(printer *p, const glyd_stats *s)
{
    static const char name[] = "iteration_tokens_total";
    int64_t n = 0;
    print_head(p, name, "Tokens of a step of the engine.", "histogram");
    for (int i = 0, bound = 1; i < GLYD_STEP_SIZES - 1; i++) {
        n += s->steps_of_size[i];
        PRINT(p, "vllm:%s_bucket{%s,le=\"%d\"} %lld\n", name, p->labels, bound, (long long)n);
        bound = bound == 1 ? 8 : 2 * bound;
    }
    n += s->steps_of_size[GLYD_STEP_SIZES - 1];
    PRINT(p, "vllm:%s_bucket{%s,le=\"+Inf\"} %lld\n", name, p->labels, (long long)n);
    PRINT(p, "vllm:%s_sum{%s} %lld\n", name, p->labels, (long long)s->steps_tokens);
    PRINT(p, "vllm:%s_count{%s} %lld\n", name, p->labels, (long long)n);
}

static void print_histogram(printer *p, int id, const histogram *h)
{
    const char *name = histogram_rows[id].name;
    const double *bounds = histogram_rows[id].bounds;
    uint64_t n = 0;
    int i = 0;
    print_head(p, name, histogram_rows[id].help, "histogram");
    for (; i < BOUNDS_MAX && bounds[i] > 0; i++) {
        n += h->bucket[i];
        PRINT(p, "vllm:%s_bucket{%s,le=\"%.15g\"} %llu\n", name, p->labels, bounds[i],
              (unsigned long long)n);
    }
    n += h->bucket[i];
    PRINT(p, "vllm:%s_bucket{%s,le=\"+Inf\"} %llu\n", name, p->labels, (unsigned long long)n);
    PRINT(p, "vllm:%s_sum{%s} %.17g\n", name, p->labels, h->sum);
    PRINT(p, "vllm:%s_count{%s} %llu\n", name, p->labels, (unsigned long long)n);
}

static void print_stats(printer *p, const glyd_stats *s)
{
    double used = s->kv_pages > 0 ? (double)s->kv_pages_used / s->kv_pages : 0;
    print_value(p, "num_requests_running", "Sequences in the batch.", "gauge", s->n_running);
    print_value(p, "num_requests_waiting", "Requests in the queue.", "gauge", s->n_waiting);
    print_value(p, "kv_cache_usage_perc", "Used part of the KV cache, 1 being all of it.", "gauge",
                used);
    print_value(p, "prefix_cache_queries_total", "Prompt tokens looked for in the prefix cache.",
                "counter", (double)s->prefix_queries);
    print_value(p, "prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", "counter",
                (double)s->prefix_hits);
    print_value(p, "num_preemptions_total", "Sequences that gave up their KV pages.", "counter",
                (double)s->n_preemptions);
    print_value(p, "prompt_tokens_total", "Tokens of prompts.", "counter",
                (double)s->prompt_tokens);
    print_value(p, "generation_tokens_total", "Tokens of answers.", "counter",
                (double)s->answer_tokens);
    print_value(p, "engine_steps_total", "Steps of the engine.", "counter", (double)s->n_steps);
    print_value(p, "engine_step_tokens", "Tokens of the last step.", "gauge", s->step_tokens);
}

glyd_status glyd_metrics_print(glyd_metrics *m, const char *model, const glyd_engine_info *info,
                               const glyd_stats *stats, glyd_buf *out)
{
    printer p = {.out = out};
    glyd_metrics *copy = malloc(sizeof *copy); /* printed without the lock */
    if (!copy)
        return GLYD_E_NOMEM;
    pthread_mutex_lock(&m->lock);
    memcpy(copy->histograms, m->histograms, sizeof m->histograms);
    memcpy(copy->n_finished, m->n_finished, sizeof m->n_finished);
    pthread_mutex_unlock(&m->lock);
    set_labels(&p, model);
    print_stats(&p, stats);
    print_step_sizes(&p, stats);
    print_head(&p, "request_success_total", "Requests that were answered, by how they ended.",
               "counter");
    for (int i = 0; i < FINISHES; i++)
        PRINT(&p, "vllm:request_success_total{%s,finished_reason=\"%s\"} %llu\n", p.labels,
              finishes[i], (unsigned long long)copy->n_finished[i]);
    for (int i = 0; i < HISTOGRAMS; i++)
        print_histogram(&p, i, &copy->histograms[i]);
    print_head(&p, "cache_config_info", "The KV cache.", "gauge");
    PRINT(&p, "vllm:cache_config_info{%s,num_gpu_blocks=\"%d\",kv_tokens=\"%lld\"} 1\n", p.labels,
          stats->kv_pages, (long long)info->plan.kv_tokens);
    free(copy);
    return p.status;
}
