/* scheduler.c - which tokens run in the next step, and what becomes of them.
 *
 * 1. A slot holds ids[0..n_ids): the prompt and what was drawn. Of these the first n_cached are in
 *    the KV cache; the others run in the next steps. When all are, the next token is drawn.
 * 2. An idle slot (no ticket) has n_ids = n_cached: what a new prompt may take over. Its pages are
 *    given up, the longest idle first, when a new sequence needs them.
 * 3. All memory is allocated by open.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/scheduler.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/kv.h"
#include "engine/sampler.h"
#include <stdlib.h>
#include <string.h>

typedef struct slot {
    glyd_ticket *ticket; /* NULL: idle */
    int32_t *ids;        /* room for a whole context */
    int n_ids, n_cached;
    int n_ids_max;  /* prompt and answer */
    uint64_t *seen; /* ids of prompt and answer, a bit each */
    glyd_kv_table table;
    uint64_t used; /* the step in which it became idle */
    double started_s, first_token_s;
} slot;

struct glyd_scheduler {
    glyd_forward *forward;
    const glyd_config *config;
    glyd_sizes sizes;
    int n_slots;
    slot *slots;
    glyd_ticket *waiting, **waiting_end;
    glyd_kv_pool pool;
    glyd_sampler_work work;
    uint64_t n_steps;
    /* The batch of a step; slot_of_run[i] owns runs[i]. */
    int32_t *ids;
    glyd_run *runs;
    slot **slot_of_run;
    int32_t *rows; /* of which logits are wanted */
    int n_tokens, n_runs;
};

/* --- open and close --- */

static size_t pages_each(const glyd_sizes *sizes, int page_tokens)
{
    return ((size_t)sizes->context + (size_t)page_tokens - 1) / (size_t)page_tokens;
}

size_t glyd_scheduler_bytes(const glyd_sizes *sizes, int n_sequences, const glyd_backend *backend)
{
    size_t context = (size_t)sizes->context, vocab = (size_t)sizes->vocab;
    size_t each = sizeof(slot) + context * sizeof(int32_t) +
                  pages_each(sizes, backend->page_tokens) * sizeof(int32_t) +
                  (size_t)glyd_seen_words(sizes->vocab) * sizeof(uint64_t) + sizeof(glyd_run) +
                  sizeof(slot *);
    return (size_t)n_sequences * each + vocab * (sizeof(glyd_candidate) + sizeof(float)) +
           2 * (size_t)sizes->n_tokens * sizeof(int32_t) + (size_t)sizes->n_pages * sizeof(int32_t);
}

static glyd_status open_slot(glyd_scheduler *s, slot *t)
{
    t->ids = calloc((size_t)s->sizes.context, sizeof *t->ids);
    t->seen = calloc((size_t)glyd_seen_words(s->sizes.vocab), sizeof *t->seen);
    t->table.pages = calloc(pages_each(&s->sizes, s->pool.page_tokens), sizeof *t->table.pages);
    return t->ids && t->seen && t->table.pages ? GLYD_OK : GLYD_E_NOMEM;
}

static glyd_status open_all(glyd_scheduler *s, int page_tokens)
{
    size_t n_tokens = (size_t)s->sizes.n_tokens, n_slots = (size_t)s->n_slots;
    size_t vocab = (size_t)s->sizes.vocab;
    GLYD_TRY(glyd_kv_pool_init(&s->pool, s->sizes.n_pages, page_tokens));
    s->ids = calloc(n_tokens, sizeof *s->ids);
    s->rows = calloc(n_tokens, sizeof *s->rows);
    s->runs = calloc(n_slots, sizeof *s->runs);
    s->slot_of_run = calloc(n_slots, sizeof *s->slot_of_run);
    s->work.candidates = calloc(vocab, sizeof *s->work.candidates);
    s->work.weights = calloc(vocab, sizeof *s->work.weights);
    s->slots = calloc(n_slots, sizeof *s->slots);
    if (!s->ids || !s->rows || !s->runs || !s->slot_of_run || !s->work.candidates ||
        !s->work.weights || !s->slots)
        return GLYD_E_NOMEM;
    for (int i = 0; i < s->n_slots; i++)
        GLYD_TRY(open_slot(s, &s->slots[i]));
    return GLYD_OK;
}

glyd_status glyd_scheduler_open(glyd_forward *forward, const glyd_backend *backend,
                                const glyd_config *config, const glyd_sizes *sizes, int n_sequences,
                                glyd_scheduler **scheduler, glyd_error *err)
{
    glyd_scheduler *s = calloc(1, sizeof *s);
    if (!s)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the scheduler");
    s->forward = forward;
    s->config = config;
    s->sizes = *sizes;
    s->n_slots = n_sequences;
    s->waiting_end = &s->waiting;
    if (open_all(s, backend->page_tokens) != GLYD_OK) {
        glyd_scheduler_close(s);
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for %d sequences of %d tokens (%zu bytes)",
                  n_sequences, sizes->context, glyd_scheduler_bytes(sizes, n_sequences, backend));
    }
    *scheduler = s;
    return GLYD_OK;
}

void glyd_scheduler_close(glyd_scheduler *s)
{
    if (!s)
        return;
    glyd_scheduler_cancel_all(s);
    for (int i = 0; s->slots && i < s->n_slots; i++) {
        free(s->slots[i].ids);
        free(s->slots[i].seen);
        free(s->slots[i].table.pages);
    }
    glyd_kv_pool_deinit(&s->pool);
    free(s->ids);
    free(s->rows);
    free(s->runs);
    free(s->slot_of_run);
    free(s->work.candidates);
    free(s->work.weights);
    free(s->slots);
    free(s);
}

/* --- tickets --- */

void glyd_scheduler_add(glyd_scheduler *s, glyd_ticket *ticket)
{
    ticket->next = NULL;
    *s->waiting_end = ticket;
    s->waiting_end = &ticket->next;
}

bool glyd_scheduler_is_idle(const glyd_scheduler *s)
{
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].ticket)
            return false;
    return !s->waiting;
}

static void finish_slot(glyd_scheduler *s, slot *t, glyd_finish finish)
{
    glyd_ticket *ticket = t->ticket;
    glyd_result *result = &ticket->result;
    if (result->n_tokens > 0)
        result->decode_s = glyd_clock_s() - t->first_token_s;
    t->ticket = NULL;
    t->n_ids = t->n_cached;
    t->used = s->n_steps;
    glyd_ticket_finish(ticket, finish);
}

static void fail_slot(glyd_scheduler *s, slot *t, const glyd_error *error)
{
    t->n_cached = 0; /* what is in the cache may be wrong */
    t->ticket->result.error = *error;
    finish_slot(s, t, GLYD_FINISH_ERROR);
}

static void drop_cancelled(glyd_scheduler *s)
{
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].ticket && atomic_load(&s->slots[i].ticket->is_cancelled))
            finish_slot(s, &s->slots[i], GLYD_FINISH_CANCELLED);
    for (glyd_ticket **link = &s->waiting; *link;) {
        glyd_ticket *ticket = *link;
        if (!atomic_load(&ticket->is_cancelled)) {
            link = &ticket->next;
            continue;
        }
        *link = ticket->next;
        if (!ticket->next)
            s->waiting_end = link;
        glyd_ticket_finish(ticket, GLYD_FINISH_CANCELLED);
    }
}

void glyd_scheduler_cancel_all(glyd_scheduler *s)
{
    for (int i = 0; s->slots && i < s->n_slots; i++)
        if (s->slots[i].ticket)
            glyd_ticket_cancel(s->slots[i].ticket);
    for (glyd_ticket *ticket = s->waiting; ticket; ticket = ticket->next)
        glyd_ticket_cancel(ticket);
    if (s->slots)
        drop_cancelled(s);
}

/* --- starting a sequence --- */

static int common_ids(const slot *t, const glyd_request *request)
{
    int n = t->n_cached < request->n_ids ? t->n_cached : request->n_ids, i = 0;
    while (i < n && t->ids[i] == request->ids[i])
        i++;
    return i;
}

/* The idle slot that has most of the prompt already; of equals, the longest idle. */
static slot *find_slot(glyd_scheduler *s, const glyd_request *request, int *n_common)
{
    slot *best = NULL;
    *n_common = 0;
    for (int i = 0; i < s->n_slots; i++) {
        slot *t = &s->slots[i];
        if (t->ticket)
            continue;
        int n = common_ids(t, request);
        if (!best || n > *n_common || (n == *n_common && t->used < best->used)) {
            best = t;
            *n_common = n;
        }
    }
    return best;
}

/* Give a slot its pages, taking those of other idle slots where the pool has too few. */
static bool take_pages(glyd_scheduler *s, slot *t, int n_pages)
{
    int n_there = s->pool.n_free + t->table.n_pages;
    for (int i = 0; i < s->n_slots; i++)
        if (!s->slots[i].ticket && &s->slots[i] != t)
            n_there += s->slots[i].table.n_pages;
    if (n_there < n_pages)
        return false;
    while (!glyd_kv_table_resize(&s->pool, &t->table, n_pages)) {
        slot *oldest = NULL;
        for (int i = 0; i < s->n_slots; i++) {
            slot *other = &s->slots[i];
            bool has_pages = !other->ticket && other != t && other->table.n_pages > 0;
            if (has_pages && (!oldest || other->used < oldest->used))
                oldest = other;
        }
        GLYD_ASSERT(oldest);
        (void)glyd_kv_table_resize(&s->pool, &oldest->table, 0);
        oldest->n_cached = oldest->n_ids = 0;
    }
    return true;
}

static int ids_max(const glyd_scheduler *s, const glyd_request *request)
{
    int room = s->sizes.context - request->n_ids;
    int wanted = request->tokens_max;
    return request->n_ids + (wanted > 0 && wanted < room ? wanted : room);
}

static bool start(glyd_scheduler *s, glyd_ticket *ticket)
{
    const glyd_request *request = &ticket->request;
    int n_common, n_ids_max = ticket->on_logits ? request->n_ids : ids_max(s, request);
    slot *t = find_slot(s, request, &n_common);
    if (!t || !take_pages(s, t, glyd_kv_pages_for(&s->pool, n_ids_max)))
        return false;
    /* At least one token runs, for its logits; all of them where all logits are wanted. */
    if (n_common > request->n_ids - 1)
        n_common = request->n_ids - 1;
    if (ticket->on_logits)
        n_common = 0;
    memcpy(t->ids, request->ids, (size_t)request->n_ids * sizeof *t->ids);
    memset(t->seen, 0, (size_t)glyd_seen_words(s->sizes.vocab) * sizeof *t->seen);
    for (int i = 0; i < request->n_ids; i++)
        glyd_seen_add(t->seen, request->ids[i]);
    t->ticket = ticket;
    t->n_ids = request->n_ids;
    t->n_cached = n_common;
    t->n_ids_max = n_ids_max;
    t->started_s = glyd_clock_s();
    ticket->result.n_reused = n_common;
    return true;
}

static void start_waiting(glyd_scheduler *s)
{
    while (s->waiting) {
        glyd_ticket *ticket = s->waiting, *next = ticket->next;
        if (!start(s, ticket))
            return;
        s->waiting = next;
        if (!next)
            s->waiting_end = &s->waiting;
    }
}

/* --- a step --- */

static void add_run(glyd_scheduler *s, slot *t)
{
    int n = t->n_ids - t->n_cached, room = s->sizes.n_tokens - s->n_tokens;
    if (n > room)
        n = room;
    if (n == 0)
        return;
    memcpy(s->ids + s->n_tokens, t->ids + t->n_cached, (size_t)n * sizeof *s->ids);
    s->runs[s->n_runs] = (glyd_run){s->n_tokens, n, t->n_cached, t->table.pages};
    s->slot_of_run[s->n_runs++] = t;
    s->n_tokens += n;
}

/* Answers first, so that a long prompt delays nobody by more than a step; then prompts, each step
 * beginning with another slot, so that none starves. */
static void fill_batch(glyd_scheduler *s)
{
    s->n_tokens = s->n_runs = 0;
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].ticket && s->slots[i].ticket->result.n_tokens > 0)
            add_run(s, &s->slots[i]);
    for (int i = 0; i < s->n_slots; i++) {
        slot *t = &s->slots[(s->n_steps + (uint64_t)i) % (uint64_t)s->n_slots];
        if (t->ticket && t->ticket->result.n_tokens == 0)
            add_run(s, t);
    }
    s->n_steps++;
}

static bool is_stop(const glyd_scheduler *s, const glyd_request *request, int32_t id)
{
    for (int i = 0; i < request->n_stop_ids; i++)
        if (request->stop_ids[i] == id)
            return true;
    for (int i = 0; i < s->config->n_stop_ids && !request->ignore_stop; i++)
        if (s->config->stop_ids[i] == id)
            return true;
    return false;
}

/* What the drawn id means for its sequence. */
static void take_token(glyd_scheduler *s, slot *t, int32_t id)
{
    glyd_ticket *ticket = t->ticket;
    glyd_result *result = &ticket->result;
    if (result->n_tokens == 0) {
        t->first_token_s = glyd_clock_s();
        result->prompt_s = t->first_token_s - t->started_s;
    }
    if (is_stop(s, &ticket->request, id)) {
        result->stop_id = id;
        finish_slot(s, t, GLYD_FINISH_STOP);
        return;
    }
    t->ids[t->n_ids++] = id;
    glyd_seen_add(t->seen, id);
    result->n_tokens++;
    const glyd_token token = {.id = id};
    if (ticket->request.on_token)
        ticket->request.on_token(ticket->request.arg, &token);
    if (t->n_ids == t->n_ids_max)
        finish_slot(s, t,
                    result->n_tokens == ticket->request.tokens_max ? GLYD_FINISH_LENGTH
                                                                   : GLYD_FINISH_CONTEXT);
}

static void draw(glyd_scheduler *s, slot *t, const float *logits)
{
    const glyd_ticket *ticket = t->ticket;
    int32_t id = glyd_sample(&ticket->request.sampling, logits, s->sizes.vocab, t->seen,
                             (uint64_t)ticket->result.n_tokens, &s->work);
    if (id >= 0) {
        take_token(s, t, id);
        return;
    }
    glyd_error error = {0};
    (void)glyd_error_set(&error, GLYD_E_CORRUPT,
                         "no logit after token %d is a number: the weights may be damaged; "
                         "check them with glyd verify",
                         t->n_ids);
    fail_slot(s, t, &error);
}

/* Hand over the logits of every position of a run. */
static glyd_status report_logits(glyd_scheduler *s, slot *t, const glyd_run *run, glyd_error *err)
{
    for (int done = 0; done < run->n_tokens;) {
        int n =
            run->n_tokens - done < s->sizes.n_outputs ? run->n_tokens - done : s->sizes.n_outputs;
        const float *logits;
        for (int i = 0; i < n; i++)
            s->rows[i] = run->first + done + i;
        GLYD_TRY(glyd_forward_logits(s->forward, s->rows, n, &logits, err));
        glyd_status status =
            t->ticket->on_logits(t->ticket->request.arg, logits, n, s->sizes.vocab);
        if (status != GLYD_OK)
            GLYD_FAIL(err, status, "logits were not taken: %s", glyd_status_text(status));
        done += n;
    }
    return GLYD_OK;
}

/* Draw the next token of every sequence whose ids have all run. */
static glyd_status draw_all(glyd_scheduler *s, glyd_error *err)
{
    const float *logits = NULL;
    int n = 0;
    for (int i = 0; i < s->n_runs; i++) {
        const slot *t = s->slot_of_run[i];
        if (t->n_cached == t->n_ids && !t->ticket->on_logits)
            s->rows[n++] = s->runs[i].first + s->runs[i].n_tokens - 1;
    }
    if (n > 0)
        GLYD_TRY(glyd_forward_logits(s->forward, s->rows, n, &logits, err));
    for (int i = 0; i < s->n_runs; i++) {
        slot *t = s->slot_of_run[i];
        if (t->n_cached == t->n_ids && !t->ticket->on_logits) {
            draw(s, t, logits);
            logits += s->sizes.vocab;
        }
    }
    return GLYD_OK;
}

/* Everyone in the batch has cancelled: a long prompt's step is not worth finishing. */
static bool is_moot(void *arg)
{
    const glyd_scheduler *s = arg;
    for (int i = 0; i < s->n_runs; i++)
        if (!atomic_load(&s->slot_of_run[i]->ticket->is_cancelled))
            return false;
    return true;
}

static glyd_status run_batch(glyd_scheduler *s, glyd_error *err)
{
    if (!glyd_forward_run(s->forward, s->ids, s->n_tokens, s->runs, s->n_runs, is_moot, s))
        return GLYD_OK;
    for (int i = 0; i < s->n_runs; i++)
        s->slot_of_run[i]->n_cached += s->runs[i].n_tokens;
    GLYD_TRY(draw_all(s, err));
    for (int i = 0; i < s->n_runs; i++) {
        slot *t = s->slot_of_run[i];
        if (!t->ticket || !t->ticket->on_logits)
            continue;
        GLYD_TRY(report_logits(s, t, &s->runs[i], err));
        if (t->n_cached == t->n_ids)
            finish_slot(s, t, GLYD_FINISH_LENGTH);
    }
    return GLYD_OK;
}

void glyd_scheduler_step(glyd_scheduler *s)
{
    glyd_error error = {0};
    drop_cancelled(s);
    start_waiting(s);
    fill_batch(s);
    if (s->n_tokens == 0)
        return;
    glyd_status status = run_batch(s, &error);
    glyd_error finish_error = {0};
    glyd_status finish_status = glyd_forward_finish(s->forward, &finish_error);
    if (status == GLYD_OK && finish_status != GLYD_OK)
        error = finish_error;
    if (status == GLYD_OK && finish_status == GLYD_OK)
        return;
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].ticket)
            fail_slot(s, &s->slots[i], &error);
}
