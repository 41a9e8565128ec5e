/* session.c - the public engine: its thread, its queue, and the checks a request must pass.
 *
 * 1. The engine's thread opens the model, so that the pool is pinned where it runs, then serves
 *    until the inbox is closed. Whoever called open waits for `is_ready`.
 * 2. Under the inbox's lock: is_ready. Everything else belongs to the thread, or does not change
 *    once open has returned.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "base/sha256.h"
#include "engine/logits.h"
#include "engine/plan.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "glyd/engine.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

struct glyd_engine {
    pthread_t thread;
    glyd_inbox inbox;
    bool is_ready;

    const glyd_engine_options *options; /* while opening */
    glyd_status open_status;
    glyd_error open_error;

    glyd_model *model;
    glyd_forward *forward;
    glyd_scheduler *scheduler;
    glyd_engine_info info;
};

/* --- the engine's thread --- */

static glyd_status open_model(glyd_engine *e, glyd_error *err)
{
    const glyd_engine_options *options = e->options;
    const glyd_backend *backend;
    glyd_sizes sizes;
    GLYD_TRY(glyd_backend_find(options->backend, &backend, err));
    GLYD_TRY(glyd_model_open(options->folder, &e->model, err));
    GLYD_TRY(glyd_plan_make(options, e->model, backend, &sizes, &e->info.plan, err));
    GLYD_TRY(glyd_forward_open(backend, e->model, &sizes, &e->forward, err));
    const glyd_config *config = glyd_model_config(e->model);
    if (options->queue_max > 0)
        e->inbox.n_open_max = options->n_sequences + options->queue_max;
    GLYD_TRY(glyd_scheduler_open(e->forward, backend, config, &sizes, options, &e->inbox,
                                 &e->scheduler, err));
    e->info.family = config->family;
    e->info.backend = glyd_forward_describe(e->forward);
    e->info.n_threads = sizes.n_threads;
    e->info.vocab = sizes.vocab;
    e->info.bos_id = config->bos_id;
    e->info.stop_ids = config->stop_ids;
    e->info.n_stop_ids = config->n_stop_ids;
    return GLYD_OK;
}

static void *engine_main(void *arg)
{
    glyd_engine *e = arg;
    glyd_status status = open_model(e, &e->open_error);
    pthread_mutex_lock(&e->inbox.lock);
    e->open_status = status;
    e->is_ready = true;
    pthread_cond_broadcast(&e->inbox.changed);
    pthread_mutex_unlock(&e->inbox.lock);
    if (status == GLYD_OK) {
        while (glyd_inbox_wait(&e->inbox, glyd_scheduler_is_idle(e->scheduler)))
            glyd_scheduler_step(e->scheduler);
    }
    glyd_scheduler_close(e->scheduler);
    glyd_forward_close(e->forward);
    return NULL;
}

/* --- open and close --- */

static void free_engine(glyd_engine *e)
{
    pthread_join(e->thread, NULL);
    glyd_model_close(e->model);
    glyd_inbox_deinit(&e->inbox);
    free(e);
}

glyd_status glyd_engine_open(const glyd_engine_options *options, glyd_engine **engine,
                             glyd_error *err)
{
    *engine = NULL;
    glyd_engine *e = calloc(1, sizeof *e);
    if (!e)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for an engine");
    e->options = options;
    glyd_inbox_init(&e->inbox);
    if (pthread_create(&e->thread, NULL, engine_main, e) != 0) {
        glyd_inbox_deinit(&e->inbox);
        free(e);
        GLYD_FAIL(err, GLYD_E_NOMEM, "the system refused to start the engine's thread");
    }
    pthread_mutex_lock(&e->inbox.lock);
    while (!e->is_ready)
        pthread_cond_wait(&e->inbox.changed, &e->inbox.lock);
    pthread_mutex_unlock(&e->inbox.lock);
    e->options = NULL;
    glyd_status status = e->open_status;
    if (status != GLYD_OK) {
        if (err)
            *err = e->open_error;
        free_engine(e);
        return status;
    }
    *engine = e;
    return GLYD_OK;
}

void glyd_engine_close(glyd_engine *e)
{
    if (!e)
        return;
    glyd_inbox_close(&e->inbox);
    free_engine(e);
}

const glyd_engine_info *glyd_engine_describe(const glyd_engine *e)
{
    return &e->info;
}

/* --- requests --- */

glyd_request glyd_request_default(const glyd_engine *e)
{
    const glyd_config *config = glyd_model_config(e->model);
    glyd_sampling sampling = {.top_p = 1, .repetition_penalty = 1};
    if (config->top_k > 0 || config->top_p > 0)
        sampling.temperature = 1; /* it asks for drawing, and 1 is its default */
    if (config->temperature >= 0)
        sampling.temperature = config->temperature;
    if (config->top_k >= 0)
        sampling.top_k = config->top_k;
    if (config->top_p >= 0)
        sampling.top_p = config->top_p;
    if (config->min_p >= 0)
        sampling.min_p = config->min_p;
    if (config->repetition_penalty >= 0)
        sampling.repetition_penalty = config->repetition_penalty;
    return (glyd_request){
        .tokens_max = -1, .sampling = sampling, .n_logprobs = -1, .n_prompt_logprobs = -1};
}

static glyd_status check_prompt(const glyd_engine *e, const int32_t *ids, int n_ids,
                                glyd_error *err)
{
    if (n_ids <= 0 || !ids)
        GLYD_FAIL(err, GLYD_E_ARG, "the prompt is empty: at least one token is needed");
    for (int i = 0; i < n_ids; i++)
        if (ids[i] < 0 || ids[i] >= e->info.vocab)
            GLYD_FAIL(err, GLYD_E_ARG, "token %d of the prompt is %d: the vocabulary has %d ids", i,
                      ids[i], e->info.vocab);
    return GLYD_OK;
}

/* The prompt and n_more tokens must fit the context; the KV pool holds at least one context. */
static glyd_status check_room(const glyd_engine *e, int n_ids, int n_more, glyd_error *err)
{
    const glyd_plan *plan = &e->info.plan;
    if (n_ids > plan->context - n_more)
        GLYD_FAIL(err, GLYD_E_LIMIT,
                  "the prompt has %d tokens, and the context holds %d with the answer: shorten it "
                  "or ask for a longer context",
                  n_ids, plan->context);
    return GLYD_OK;
}

static glyd_status check_limits(const glyd_request *request, glyd_error *err)
{
    if (request->tokens_max < -1)
        GLYD_FAIL(err, GLYD_E_ARG, "%d tokens: -1 (no limit) or more is possible",
                  request->tokens_max);
    if (request->tokens_min < 0 ||
        (request->tokens_max >= 0 && request->tokens_min > request->tokens_max))
        GLYD_FAIL(err, GLYD_E_ARG, "at least %d tokens and at most %d cannot be had",
                  request->tokens_min, request->tokens_max);
    const int n_logprobs[] = {request->n_logprobs, request->n_prompt_logprobs};
    for (int i = 0; i < 2; i++)
        if (n_logprobs[i] < -1 || n_logprobs[i] > GLYD_REQUEST_LOGPROBS_MAX)
            GLYD_FAIL(err, GLYD_E_ARG, "%d log-probabilities: between -1 (none) and %d is possible",
                      n_logprobs[i], GLYD_REQUEST_LOGPROBS_MAX);
    if (request->n_stop_ids < 0 || request->n_stop_ids > GLYD_REQUEST_STOP_IDS_MAX ||
        (request->n_stop_ids > 0 && !request->stop_ids))
        GLYD_FAIL(err, GLYD_E_ARG, "%d stop ids: at most %d are possible", request->n_stop_ids,
                  GLYD_REQUEST_STOP_IDS_MAX);
    return GLYD_OK;
}

static glyd_status check_bias(const glyd_engine *e, const glyd_request *request, glyd_error *err)
{
    int n = request->n_logit_bias;
    if (n < 0 || n > GLYD_REQUEST_BIASES_MAX || (n > 0 && !request->logit_bias))
        GLYD_FAIL(err, GLYD_E_ARG, "%d logit biases: at most %d are possible", n,
                  GLYD_REQUEST_BIASES_MAX);
    for (int i = 0; i < n; i++) {
        const glyd_logit_bias *bias = &request->logit_bias[i];
        if (bias->id < 0 || bias->id >= e->info.vocab)
            GLYD_FAIL(err, GLYD_E_ARG, "a logit bias for id %d: the vocabulary has %d ids",
                      bias->id, e->info.vocab);
        if (!isfinite(bias->bias))
            GLYD_FAIL(err, GLYD_E_ARG, "the logit bias of id %d is not finite", bias->id);
    }
    return GLYD_OK;
}

static glyd_status check_request(const glyd_engine *e, const glyd_request *request, glyd_error *err)
{
    GLYD_TRY(check_prompt(e, request->ids, request->n_ids, err));
    GLYD_TRY(glyd_sampling_check(&request->sampling, err));
    GLYD_TRY(check_limits(request, err));
    GLYD_TRY(check_bias(e, request, err));
    return check_room(e, request->n_ids, request->tokens_max == 0 ? 0 : 1, err);
}

static glyd_status queue(glyd_engine *e, const glyd_request *request, glyd_logits_fn on_logits,
                         glyd_ticket **out, glyd_error *err)
{
    glyd_ticket *ticket = glyd_ticket_create(request, on_logits);
    if (!ticket)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for a prompt of %d tokens", request->n_ids);
    glyd_status status = glyd_inbox_put(&e->inbox, ticket, out, err);
    if (status != GLYD_OK) {
        glyd_ticket_drop(ticket);
        glyd_ticket_drop(ticket);
    }
    return status;
}

glyd_status glyd_engine_submit(glyd_engine *e, const glyd_request *request, glyd_ticket **ticket,
                               glyd_error *err)
{
    GLYD_TRY(check_request(e, request, err));
    return queue(e, request, NULL, ticket, err);
}

/* --- logits --- */

glyd_status glyd_engine_logits(glyd_engine *e, const int32_t *ids, int n_ids,
                               glyd_logits_fn on_logits, void *arg, glyd_error *err)
{
    glyd_request request = glyd_request_default(e);
    request.ids = ids;
    request.n_ids = n_ids;
    request.arg = arg;
    glyd_ticket *ticket = NULL;
    glyd_result result;
    GLYD_TRY(check_prompt(e, ids, n_ids, err));
    GLYD_TRY(check_room(e, n_ids, 0, err));
    GLYD_TRY(queue(e, &request, on_logits, &ticket, err));
    glyd_ticket_wait(ticket, &result);
    glyd_ticket_free(ticket);
    if (result.finish == GLYD_FINISH_CANCELLED)
        GLYD_FAIL(err, GLYD_E_CANCELLED, "the engine is closing");
    if (result.finish == GLYD_FINISH_ERROR) {
        if (err)
            *err = result.error;
        return result.error.status;
    }
    return GLYD_OK;
}

static glyd_status hash_logits(void *arg, const float *logits, int n, int vocab)
{
    return glyd_sha256_update(arg, logits, (size_t)n * (size_t)vocab * sizeof *logits);
}

glyd_status glyd_engine_logits_hash(glyd_engine *e, const int32_t *ids, int n_ids,
                                    char hex[GLYD_LOGITS_HASH_BYTES], glyd_error *err)
{
    glyd_sha256 hash = {0};
    glyd_status status = glyd_sha256_start(&hash);
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "out of memory for a hash");
    status = glyd_engine_logits(e, ids, n_ids, hash_logits, &hash, err);
    if (status == GLYD_OK && (status = glyd_sha256_finish(&hash, hex)) != GLYD_OK)
        status = glyd_error_set(err, status, "out of memory for a hash");
    glyd_sha256_drop(&hash);
    return status;
}

/* --- figures --- */

void glyd_engine_stats(const glyd_engine *e, glyd_stats *stats)
{
    const glyd_figures *f = &e->inbox.figures;
    int n_running = atomic_load(&f->n_running), n_open = atomic_load(&e->inbox.n_open);
    *stats = (glyd_stats){
        .n_running = n_running,
        .n_waiting = n_open > n_running ? n_open - n_running : 0,
        .kv_pages = atomic_load(&f->kv_pages),
        .kv_pages_used = atomic_load(&f->kv_pages_used),
        .prefix_queries = atomic_load(&f->prefix_queries),
        .prefix_hits = atomic_load(&f->prefix_hits),
        .prompt_tokens = atomic_load(&f->prompt_tokens),
        .answer_tokens = atomic_load(&f->answer_tokens),
        .n_preemptions = atomic_load(&f->n_preemptions),
        .n_steps = atomic_load(&f->n_steps),
        .step_tokens = atomic_load(&f->step_tokens),
        .steps_tokens = atomic_load(&f->steps_tokens),
    };
    for (int i = 0; i < GLYD_STEP_SIZES; i++)
        stats->steps_of_size[i] = atomic_load(&f->steps_of_size[i]);
}

int glyd_engine_drain(glyd_engine *e, double timeout_s)
{
    return glyd_inbox_drain(&e->inbox, timeout_s);
}
