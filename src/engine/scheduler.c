/* scheduler.c - open, close, and the batch of a step.
 *
 * All memory is allocated by open. slots.h says who does the rest.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/scheduler.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/slots.h"
#include <stdlib.h>
#include <string.h>

/* Prompt tokens that a step beside answers takes at least. Reading the weights is most of the work
 * for so few: they take about twice as long as one. With a limit of time alone, a model of which
 * one token takes longer than that would read prompts a token a step. */
enum { PACE_LEAST = 16 };

/* A step in which somebody waits for the next token of an answer. */
static const double STEP_S = 0.05;

/* --- open and close --- */

static size_t pages_each(const glyd_sizes *sizes, int page_tokens)
{
    return ((size_t)sizes->context + (size_t)page_tokens - 1) / (size_t)page_tokens;
}

size_t glyd_scheduler_bytes(const glyd_sizes *sizes, int n_sequences, const glyd_backend *backend)
{
    size_t context = (size_t)sizes->context, vocab = (size_t)sizes->vocab;
    size_t each = sizeof(glyd_slot) + context * sizeof(int32_t) +
                  pages_each(sizes, backend->page_tokens) * sizeof(int32_t) + sizeof(glyd_run) +
                  sizeof(glyd_slot *);
    size_t draw = vocab * (sizeof(glyd_candidate) + 2 * sizeof(float) + sizeof(int32_t)) +
                  (size_t)glyd_id_words(sizes->vocab) * sizeof(uint64_t);
    return (size_t)n_sequences * each + draw + 2 * (size_t)sizes->n_tokens * sizeof(int32_t) +
           glyd_kv_pool_bytes(sizes->n_pages, backend->page_tokens);
}

static glyd_status open_work(glyd_scheduler *s)
{
    size_t vocab = (size_t)s->sizes.vocab;
    s->work.candidates = calloc(vocab, sizeof *s->work.candidates);
    s->work.weights = calloc(vocab, sizeof *s->work.weights);
    s->work.adjusted = calloc(vocab, sizeof *s->work.adjusted);
    s->work.counts = calloc(vocab, sizeof *s->work.counts);
    s->allowed = calloc((size_t)glyd_id_words(s->sizes.vocab), sizeof *s->allowed);
    return s->work.candidates && s->work.weights && s->work.adjusted && s->work.counts && s->allowed
               ? GLYD_OK
               : GLYD_E_NOMEM;
}

static glyd_status open_slot(glyd_scheduler *s, glyd_slot *t)
{
    t->ids = calloc((size_t)s->sizes.context, sizeof *t->ids);
    t->table.pages = calloc(pages_each(&s->sizes, s->pool.page_tokens), sizeof *t->table.pages);
    return t->ids && t->table.pages ? GLYD_OK : GLYD_E_NOMEM;
}

static glyd_status open_all(glyd_scheduler *s, int page_tokens)
{
    size_t n_tokens = (size_t)s->sizes.n_tokens, n_slots = (size_t)s->n_slots;
    GLYD_TRY(glyd_kv_pool_init(&s->pool, s->sizes.n_pages, page_tokens));
    GLYD_TRY(open_work(s));
    s->ids = calloc(n_tokens, sizeof *s->ids);
    s->rows = calloc(n_tokens, sizeof *s->rows);
    s->runs = calloc(n_slots, sizeof *s->runs);
    s->slot_of_run = calloc(n_slots, sizeof *s->slot_of_run);
    s->slots = calloc(n_slots, sizeof *s->slots);
    if (!s->ids || !s->rows || !s->runs || !s->slot_of_run || !s->slots)
        return GLYD_E_NOMEM;
    for (int i = 0; i < s->n_slots; i++)
        GLYD_TRY(open_slot(s, &s->slots[i]));
    return GLYD_OK;
}

static void free_all(glyd_scheduler *s)
{
    for (int i = 0; s->slots && i < s->n_slots; i++) {
        free(s->slots[i].ids);
        free(s->slots[i].table.pages);
    }
    glyd_kv_pool_deinit(&s->pool);
    free(s->ids);
    free(s->rows);
    free(s->runs);
    free(s->slot_of_run);
    free(s->work.candidates);
    free(s->work.weights);
    free(s->work.adjusted);
    free(s->work.counts);
    free(s->allowed);
    free(s->slots);
    free(s);
}

glyd_status glyd_scheduler_open(glyd_forward *forward, const glyd_backend *backend,
                                const glyd_config *config, const glyd_sizes *sizes,
                                const glyd_engine_options *options, glyd_inbox *inbox,
                                glyd_scheduler **scheduler, glyd_error *err)
{
    glyd_scheduler *s = calloc(1, sizeof *s);
    if (!s)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the scheduler");
    s->forward = forward;
    s->inbox = inbox;
    s->config = config;
    s->sizes = *sizes;
    s->n_slots = options->n_sequences;
    s->caches = !options->no_prefix_cache;
    s->waiting_end = &s->waiting;
    s->pace = PACE_LEAST;
    if (open_all(s, backend->page_tokens) != GLYD_OK) {
        free_all(s);
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for %d sequences of %d tokens (%zu bytes)",
                  options->n_sequences, sizes->context,
                  glyd_scheduler_bytes(sizes, options->n_sequences, backend));
    }
    atomic_store(&inbox->figures.kv_pages, sizes->n_pages);
    *scheduler = s;
    return GLYD_OK;
}

void glyd_scheduler_close(glyd_scheduler *s)
{
    if (!s)
        return;
    glyd_slots_poll(s);
    free_all(s);
}

bool glyd_scheduler_is_idle(const glyd_scheduler *s)
{
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].ticket)
            return false;
    return !s->waiting;
}

/* --- a step --- */

static int ids_left(const glyd_slot *t)
{
    return glyd_slot_runs(t) ? t->n_ids - t->n_cached : 0;
}

static void add_run(glyd_scheduler *s, glyd_slot *t, int n_most)
{
    int n = ids_left(t) < n_most ? ids_left(t) : n_most;
    if (n <= 0)
        return;
    memcpy(s->ids + s->n_tokens, t->ids + t->n_cached, (size_t)n * sizeof *s->ids);
    s->runs[s->n_runs] = (glyd_run){s->n_tokens, n, t->n_cached, t->table.pages};
    s->slot_of_run[s->n_runs++] = t;
    s->n_tokens += n;
}

/* Answers first, then prompts, each step beginning with another slot, so that none starves. Beside
 * answers, prompts get what the pace leaves, and at least PACE_LEAST tokens. */
static void fill_batch(glyd_scheduler *s)
{
    s->n_tokens = s->n_runs = 0;
    for (int i = 0; i < s->n_slots; i++)
        if (ids_left(&s->slots[i]) == 1)
            add_run(s, &s->slots[i], 1);
    int most = s->sizes.n_tokens, least = s->n_tokens + PACE_LEAST;
    if (s->n_tokens > 0 && s->pace < most && least < most)
        most = s->pace > least ? s->pace : least;
    for (int i = 0; i < s->n_slots; i++) {
        glyd_slot *t = &s->slots[(s->n_steps + (uint64_t)i) % (uint64_t)s->n_slots];
        if (ids_left(t) > 1)
            add_run(s, t, most - s->n_tokens);
    }
}

/* Learn from a step how many tokens take about STEP_S: one that was too long lowers the pace, one
 * that was short raises it. */
static void set_pace(glyd_scheduler *s, double step_s)
{
    double factor = step_s > 0 ? STEP_S / step_s : 2;
    factor = factor > 2 ? 2 : factor;
    double tokens = factor * s->n_tokens;
    int pace = tokens < s->sizes.n_tokens ? (int)tokens : s->sizes.n_tokens;
    if (pace < 1)
        pace = 1;
    if (factor < 1 ? pace < s->pace : pace > s->pace)
        s->pace = pace;
}

/* Asked before every product: whoever has cancelled finishes here. When nobody in the batch is
 * left, the step is not worth finishing. */
static bool is_moot(void *arg)
{
    glyd_scheduler *s = arg;
    glyd_slots_poll(s);
    for (int i = 0; i < s->n_runs; i++)
        if (s->slot_of_run[i]->ticket)
            return false;
    return true;
}

static glyd_status run_batch(glyd_scheduler *s, glyd_error *err)
{
    double began_s = glyd_clock_s();
    if (!glyd_forward_run(s->forward, s->ids, s->n_tokens, s->runs, s->n_runs, is_moot, s))
        return GLYD_OK;
    for (int i = 0; i < s->n_runs; i++) {
        glyd_slot *t = s->slot_of_run[i];
        if (!t->ticket)
            continue;
        t->n_cached += s->runs[i].n_tokens;
        if (s->caches)
            glyd_kv_table_register(&s->pool, &t->table, t->ids, t->n_cached);
    }
    GLYD_TRY(glyd_tokens_take(s, err));
    set_pace(s, glyd_clock_s() - began_s);
    return GLYD_OK;
}

static void count_step(glyd_scheduler *s)
{
    glyd_figures *figures = &s->inbox->figures;
    int size = 0;
    for (int most = 1; s->n_tokens > most && size < GLYD_STEP_SIZES - 1; size++)
        most = most == 1 ? 8 : 2 * most;
    s->n_steps++;
    atomic_fetch_add(&figures->n_steps, 1);
    atomic_fetch_add(&figures->steps_of_size[size], 1);
    atomic_fetch_add(&figures->steps_tokens, s->n_tokens);
    atomic_store(&figures->step_tokens, s->n_tokens);
}

void glyd_scheduler_step(glyd_scheduler *s)
{
    glyd_error error = {0}, finish_error = {0};
    glyd_slots_poll(s);
    glyd_slots_grow(s);
    glyd_slots_start(s);
    fill_batch(s);
    if (s->n_tokens == 0)
        return;
    count_step(s);
    glyd_status status = run_batch(s, &error);
    glyd_status finish_status = glyd_forward_finish(s->forward, &finish_error);
    if (status == GLYD_OK && finish_status != GLYD_OK)
        error = finish_error;
    if (status == GLYD_OK && finish_status == GLYD_OK)
        return;
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].ticket)
            glyd_slot_fail(s, &s->slots[i], &error);
}
