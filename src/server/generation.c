/* generation.c - the sequences that answer one request.
 *
 * One lock covers what engine and worker share: the queues of tokens and whether a worker has the
 * generation. A worker takes a queue as a whole and looks at it without the lock.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/generation.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/errors.h"
#include <stdlib.h>
#include <string.h>

/* A token in a queue; its n_top likeliest ids follow. */
typedef struct record {
    glyd_token token;
    double at_s;
    int prompt_index;  /* of a prompt's token; -1: of the answer */
    size_t text_bytes; /* of the text that waits */
} record;

/* What a sequence has beside its public part. */
struct glyd_feed {
    glyd_ticket *ticket; /* NULL: not submitted, or over */
    glyd_buf incoming;   /* records; the engine's thread fills it, with the lock */
    bool is_lost;        /* the constraint cannot go on; the engine's thread alone */
    bool is_over;        /* on_finish came, with the lock */
    bool has_failed;     /* no memory for a record, with the lock */

    glyd_buf taken;   /* records that are being worked on */
    glyd_buf waiting; /* records whose text may still be part of a stop string */
    glyd_buf text;    /* and that text */
    size_t n_seen;    /* of it, looked at */
    glyd_detok *detok;
    double token_s;   /* when the last token was made */
    bool has_stopped; /* by a stop string or the writer: what still comes is dropped */
    bool has_ended;
};

typedef enum flow_state { FLOW_IDLE, FLOW_QUEUED, FLOW_BUSY, FLOW_BUSY_AGAIN } flow_state;

struct glyd_flow {
    pthread_mutex_t lock;
    flow_state state;
    bool is_cancelled;
    glyd_work work;
    int n_submitted, n_ended;
    bool has_failed;
};

/* --- the engine's thread --- */

/* With the lock held: have a worker look. */
static void wake(glyd_generation *g)
{
    struct glyd_flow *flow = g->flow;
    if (flow->state == FLOW_IDLE) {
        flow->state = FLOW_QUEUED;
        glyd_workers_add(g->x->server->workers, &flow->work, true);
    } else if (flow->state == FLOW_BUSY) {
        flow->state = FLOW_BUSY_AGAIN;
    }
}

static void add_record(glyd_sequence *s, int prompt_index, const glyd_token *token)
{
    struct glyd_flow *flow = s->generation->flow;
    struct glyd_feed *feed = s->feed;
    record r = {*token, glyd_clock_s(), prompt_index, 0};
    size_t n_top = (size_t)token->n_top * sizeof *token->top;
    pthread_mutex_lock(&flow->lock);
    if (glyd_buf_reserve(&feed->incoming, sizeof r + n_top) != GLYD_OK ||
        glyd_buf_append(&feed->incoming, &r, sizeof r) != GLYD_OK ||
        glyd_buf_append(&feed->incoming, token->top, n_top) != GLYD_OK)
        feed->has_failed = true;
    if (prompt_index < 0)
        wake(s->generation);
    pthread_mutex_unlock(&flow->lock);
}

static void on_prompt_token(void *arg, int index, const glyd_token *token)
{
    add_record(arg, index, token);
}

static void on_token(void *arg, const glyd_token *token)
{
    glyd_sequence *s = arg;
    if (s->constraint && glyd_constraint_accept(s->constraint, token->id, NULL) != GLYD_OK)
        s->feed->is_lost = true;
    add_record(s, -1, token);
}

static bool allow(void *arg, uint64_t *allowed)
{
    glyd_sequence *s = arg;
    size_t n_words = ((size_t)s->generation->x->server->engine_info->vocab + 63) / 64;
    return !s->feed->is_lost &&
           glyd_constraint_mask(s->constraint, allowed, n_words, NULL) == GLYD_OK;
}

static void on_finish(void *arg, const glyd_result *result)
{
    glyd_sequence *s = arg;
    struct glyd_flow *flow = s->generation->flow;
    pthread_mutex_lock(&flow->lock);
    s->result = *result;
    s->feed->is_over = true;
    wake(s->generation);
    pthread_mutex_unlock(&flow->lock);
}

/* --- a worker: tokens to text --- */

/* The record at `*at`, with its top ids; moves on. NULL: there are no more. */
static record *next_record(glyd_buf *records, size_t *at)
{
    if (*at >= records->bytes)
        return NULL;
    record *r = (record *)(records->data + *at);
    r->token.top = (const glyd_token_logprob *)(r + 1);
    *at += sizeof *r + (size_t)r->token.n_top * sizeof *r->token.top;
    return r;
}

static void consume(glyd_buf *buf, size_t bytes)
{
    if (bytes > 0)
        memmove(buf->data, buf->data + bytes, buf->bytes - bytes);
    buf->bytes -= bytes;
}

static void fail_nomem(glyd_generation *g)
{
    glyd_error error;
    glyd_error_set(&error, GLYD_E_NOMEM, "out of memory for an answer");
    glyd_generation_fail(g, &error);
}

static void hand_over(glyd_sequence *s, const glyd_token *token, glyd_span text)
{
    glyd_error error;
    s->generation->writer->token(s, token, text);
    if (!s->answer)
        return;
    s->n_reasoning += token->id >= 0 && glyd_answer_is_reasoning(s->answer);
    if (glyd_answer_push(s->answer, token->id, (const char *)text.data, text.bytes, &error) !=
        GLYD_OK)
        glyd_generation_fail(s->generation, &error);
    else if (glyd_answer_is_done(s->answer) && !s->feed->has_stopped)
        glyd_sequence_stop(s);
}

/* Hand over the waiting tokens whose text lies within the first `bytes`, or all where `is_last`:
 * then the text up to `bytes` alone. */
static void release(glyd_sequence *s, size_t bytes, bool is_last)
{
    struct glyd_feed *feed = s->feed;
    size_t at = 0, done = 0, text_at = 0;
    for (record *r; (r = next_record(&feed->waiting, &at)) != NULL; done = at) {
        size_t end = text_at + r->text_bytes;
        if (end > bytes && !is_last)
            break;
        size_t n = end <= bytes ? r->text_bytes : bytes > text_at ? bytes - text_at : 0;
        hand_over(s, &r->token, (glyd_span){feed->text.data + text_at, n});
        text_at = end;
    }
    consume(&feed->waiting, done);
    consume(&feed->text, text_at);
    feed->n_seen = feed->n_seen > text_at ? feed->n_seen - text_at : 0;
}

/* Look for stop strings in the text that waits, and hand over what can be part of none. */
static void settle(glyd_sequence *s, bool is_end)
{
    struct glyd_feed *feed = s->feed;
    const glyd_params *p = &s->generation->params;
    glyd_stop_match match = {-1, feed->text.bytes, feed->text.bytes};
    if (p->stops.n > 0 && s->n_made > p->tokens_min)
        match = glyd_stop_strings_find(&p->stops, (glyd_span){feed->text.data, feed->text.bytes},
                                       feed->n_seen);
    if (match.which >= 0) {
        s->which_stop = match.which;
        release(s, p->include_stop ? match.end : match.begin, true);
        glyd_sequence_stop(s);
        return;
    }
    feed->n_seen = feed->text.bytes;
    release(s, is_end ? feed->text.bytes : match.begin, is_end);
}

static void take_record(glyd_sequence *s, const record *r, size_t bytes)
{
    glyd_generation *g = s->generation;
    struct glyd_feed *feed = s->feed;
    if (r->prompt_index >= 0) {
        if (g->writer->prompt_token)
            g->writer->prompt_token(s, r->prompt_index, &r->token);
        return;
    }
    if (s->n_made++ == 0) {
        if (g->x->first_s == 0)
            g->x->first_s = r->at_s;
        glyd_metrics_first_token(g->x->server->metrics, r->at_s - g->x->begun_s);
    } else {
        glyd_metrics_next_token(g->x->server->metrics, r->at_s - feed->token_s);
    }
    feed->token_s = r->at_s;
    size_t before = feed->text.bytes, at = feed->waiting.bytes;
    if (glyd_detok_push(feed->detok, r->token.id, &feed->text, NULL) != GLYD_OK ||
        glyd_buf_append(&feed->waiting, r, bytes) != GLYD_OK) {
        fail_nomem(g);
        return;
    }
    ((record *)(feed->waiting.data + at))->text_bytes = feed->text.bytes - before;
    settle(s, false);
}

/* The text that only the end of the tokens makes certain. */
static void take_end(glyd_sequence *s)
{
    struct glyd_feed *feed = s->feed;
    record rest = {.token.id = -1, .prompt_index = -1};
    size_t before = feed->text.bytes;
    if (glyd_detok_finish(feed->detok, &feed->text, NULL) != GLYD_OK) {
        fail_nomem(s->generation);
        return;
    }
    rest.text_bytes = feed->text.bytes - before;
    if (rest.text_bytes > 0 && glyd_buf_append(&feed->waiting, &rest, sizeof rest) != GLYD_OK)
        fail_nomem(s->generation);
    else
        settle(s, true);
}

static bool is_own_stop(const glyd_params *p, int32_t id)
{
    for (int i = 0; i < p->n_stop_ids; i++)
        if (p->stop_ids[i] == id)
            return true;
    return false;
}

static void set_finish(glyd_sequence *s)
{
    const glyd_result *result = &s->result;
    bool is_stopped = s->feed->has_stopped;
    switch (result->finish) {
    case GLYD_FINISH_STOP:
        s->finish = "stop";
        if (!is_stopped) {
            s->n_made++; /* the stop token was made, if not shown: counted as vLLM counts */
            if (is_own_stop(&s->generation->params, result->stop_id))
                s->stop_id = result->stop_id;
        }
        break;
    case GLYD_FINISH_LENGTH:
    case GLYD_FINISH_CONTEXT:
        s->finish = is_stopped ? "stop" : "length";
        break;
    case GLYD_FINISH_CANCELLED:
        s->finish = is_stopped ? "stop" : "abort";
        break;
    case GLYD_FINISH_ERROR:
        s->finish = "error";
        break;
    }
}

static void fail_cut_off(glyd_generation *g)
{
    glyd_error error;
    glyd_error_set(&error, GLYD_E_CANCELLED,
                   "The server is shutting down: the answer was cut off.");
    glyd_generation_fail(g, &error);
}

static bool is_cancelled(glyd_generation *g)
{
    pthread_mutex_lock(&g->flow->lock);
    bool is_cancelled = g->flow->is_cancelled;
    pthread_mutex_unlock(&g->flow->lock);
    return is_cancelled;
}

/* The engine is done with a sequence, and all its tokens were taken. */
static void end_sequence(glyd_sequence *s)
{
    glyd_generation *g = s->generation;
    struct glyd_feed *feed = s->feed;
    if (!feed->has_stopped && s->result.finish != GLYD_FINISH_ERROR)
        take_end(s);
    set_finish(s);
    glyd_metrics_finish(g->x->server->metrics, s->finish, &s->result,
                        glyd_clock_s() - g->x->begun_s);
    g->x->finish = s->finish;
    pthread_mutex_lock(&g->flow->lock);
    glyd_ticket *ticket = feed->ticket;
    feed->ticket = NULL;
    pthread_mutex_unlock(&g->flow->lock);
    glyd_ticket_free(ticket);
    feed->has_ended = true;
    g->flow->n_ended++;
    glyd_error error;
    if (s->result.finish == GLYD_FINISH_ERROR)
        glyd_generation_fail(g, &s->result.error);
    if (s->result.finish == GLYD_FINISH_CANCELLED && !feed->has_stopped && !is_cancelled(g))
        fail_cut_off(g);
    if (!g->flow->has_failed && s->answer && glyd_answer_finish(s->answer, &error) != GLYD_OK)
        glyd_generation_fail(g, &error);
    if (!g->flow->has_failed) {
        g->writer->flush(s);
        g->writer->end(s);
    }
}

static void work_on(glyd_sequence *s)
{
    struct glyd_flow *flow = s->generation->flow;
    struct glyd_feed *feed = s->feed;
    if (feed->has_ended || s->index >= flow->n_submitted)
        return;
    pthread_mutex_lock(&flow->lock);
    glyd_buf taken = feed->incoming;
    feed->incoming = feed->taken;
    feed->incoming.bytes = 0;
    feed->taken = taken;
    bool is_over = feed->is_over, has_failed = feed->has_failed;
    pthread_mutex_unlock(&flow->lock);
    if (has_failed && !flow->has_failed)
        fail_nomem(s->generation);
    size_t at = 0, from = 0;
    for (record *r;
         !feed->has_stopped && !flow->has_failed && (r = next_record(&feed->taken, &at)) != NULL;
         from = at)
        take_record(s, r, at - from);
    if (is_over)
        end_sequence(s);
    else if (feed->taken.bytes > 0 && !flow->has_failed)
        s->generation->writer->flush(s);
}

/* --- start and end --- */

static glyd_status submit(glyd_sequence *s, glyd_error *err)
{
    glyd_generation *g = s->generation;
    const glyd_params *p = &g->params;
    glyd_request request = glyd_request_default(g->x->server->engine);
    glyd_ticket *ticket = NULL;
    request.ids = g->prompts[s->prompt].data;
    request.n_ids = (int)g->prompts[s->prompt].n;
    request.tokens_max = p->tokens_max;
    request.tokens_min = p->tokens_min;
    request.sampling = p->sampling;
    request.sampling.seed += (uint64_t)(s->index % p->n);
    request.stop_ids = p->stop_ids;
    request.n_stop_ids = p->n_stop_ids;
    request.ignore_stop = p->ignore_eos;
    request.logit_bias = p->bias;
    request.n_logit_bias = p->n_bias;
    request.n_logprobs = p->n_logprobs;
    request.n_prompt_logprobs = p->n_prompt_logprobs;
    request.arg = s;
    request.on_prompt_token = on_prompt_token;
    request.on_token = on_token;
    request.on_finish = on_finish;
    if (s->constraint)
        request.allow = allow;
    GLYD_TRY(glyd_engine_submit(g->x->server->engine, &request, &ticket, err));
    pthread_mutex_lock(&g->flow->lock);
    s->feed->ticket = ticket;
    if (g->flow->is_cancelled)
        glyd_ticket_cancel(ticket);
    pthread_mutex_unlock(&g->flow->lock);
    return GLYD_OK;
}

/* Submit what the engine has room for. The rest follows when sequences end. */
static void submit_more(glyd_generation *g)
{
    struct glyd_flow *flow = g->flow;
    while (flow->n_submitted < g->n_sequences && !flow->has_failed && !is_cancelled(g)) {
        glyd_error error;
        glyd_status status = submit(&g->sequences[flow->n_submitted], &error);
        if (status == GLYD_E_BUSY && flow->n_submitted > flow->n_ended)
            return;
        if (status == GLYD_E_CANCELLED) {
            fail_cut_off(g);
            return;
        }
        if (status != GLYD_OK) {
            glyd_generation_fail(g, &error);
            return;
        }
        flow->n_submitted++;
    }
}

/* Everything that was submitted has ended and nothing more will be. */
static bool is_complete(glyd_generation *g)
{
    const struct glyd_flow *flow = g->flow;
    return flow->n_ended == flow->n_submitted &&
           (flow->n_submitted == g->n_sequences || flow->has_failed || is_cancelled(g));
}

/* Work until nothing is left for now. Returns whether the generation is over. */
static bool advance(glyd_generation *g)
{
    for (;;) {
        for (int i = 0; i < g->n_sequences; i++)
            work_on(&g->sequences[i]);
        if (g->flow->n_submitted > 0)
            submit_more(g);
        if (is_complete(g))
            return true;
        pthread_mutex_lock(&g->flow->lock);
        bool again = g->flow->state == FLOW_BUSY_AGAIN;
        g->flow->state = again ? FLOW_BUSY : FLOW_IDLE;
        pthread_mutex_unlock(&g->flow->lock);
        if (!again)
            return false;
    }
}

/* The generation holds the exchange from start to here. */
static void finish(glyd_generation *g)
{
    glyd_exchange *x = g->x;
    glyd_usage usage = glyd_generation_usage(g);
    x->n_prompt = (int)usage.prompt;
    x->n_cached = (int)usage.cached;
    x->n_tokens = (int)usage.answer;
    if (!g->flow->has_failed)
        g->writer->done(g);
    atomic_fetch_sub(&x->server->n_load, 1);
    glyd_exchange_drop(x);
}

static void run(glyd_work *work)
{
    struct glyd_flow *flow = (struct glyd_flow *)((char *)work - offsetof(struct glyd_flow, work));
    /* The flow is allocated behind its generation. */
    glyd_generation *g = (glyd_generation *)((char *)flow - sizeof *g);
    pthread_mutex_lock(&flow->lock);
    flow->state = FLOW_BUSY;
    pthread_mutex_unlock(&flow->lock);
    if (advance(g))
        finish(g);
}

void glyd_generation_start(glyd_generation *g)
{
    glyd_exchange *x = g->x;
    glyd_exchange_hold(x);
    atomic_fetch_add(&x->server->n_load, 1);
    pthread_mutex_lock(&x->lock);
    x->generation = g;
    g->flow->is_cancelled = x->is_gone;
    pthread_mutex_unlock(&x->lock);
    g->flow->state = FLOW_BUSY;
    submit_more(g);
    if (g->params.stream && g->flow->n_submitted > 0 && !g->flow->has_failed)
        glyd_stream_begin(x);
    if (advance(g))
        finish(g);
}

void glyd_generation_cancel(glyd_generation *g)
{
    pthread_mutex_lock(&g->flow->lock);
    g->flow->is_cancelled = true;
    for (int i = 0; i < g->n_sequences; i++)
        if (g->sequences[i].feed->ticket)
            glyd_ticket_cancel(g->sequences[i].feed->ticket);
    wake(g);
    pthread_mutex_unlock(&g->flow->lock);
}

void glyd_sequence_stop(glyd_sequence *s)
{
    struct glyd_feed *feed = s->feed;
    feed->has_stopped = true;
    pthread_mutex_lock(&s->generation->flow->lock);
    if (feed->ticket)
        glyd_ticket_cancel(feed->ticket);
    pthread_mutex_unlock(&s->generation->flow->lock);
}

void glyd_generation_fail(glyd_generation *g, const glyd_error *error)
{
    struct glyd_flow *flow = g->flow;
    if (flow->has_failed)
        return;
    flow->has_failed = true;
    g->x->finish = "error";
    pthread_mutex_lock(&g->x->lock);
    bool is_streaming = g->x->phase == GLYD_PHASE_STREAMING;
    glyd_generation_cancel(g);
    pthread_mutex_unlock(&g->x->lock);
    if (is_streaming)
        g->writer->fail(g, error);
    else
        glyd_exchange_fail_status(g->x, NULL, error);
}

const char *glyd_generation_reached(const glyd_generation *g)
{
    const char *reached = "queue";
    for (int i = 0; i < g->n_sequences; i++) {
        if (g->sequences[i].n_made > 0)
            return "answer";
        if (g->sequences[i].result.prompt_s > 0)
            reached = "prompt";
    }
    return reached;
}

glyd_usage glyd_generation_usage(const glyd_generation *g)
{
    glyd_usage usage = {0};
    for (int i = 0; i < g->n_prompts; i++)
        usage.prompt += (int64_t)g->prompts[i].n;
    for (int i = 0; i < g->n_sequences; i++) {
        usage.answer += g->sequences[i].n_made;
        usage.reasoning += g->sequences[i].n_reasoning;
        if (i % g->params.n == 0)
            usage.cached += g->sequences[i].result.n_reused;
    }
    return usage;
}

glyd_generation *glyd_generation_create(glyd_exchange *x, const glyd_writer *writer,
                                        const glyd_params *params, glyd_ids *prompts, int n_prompts)
{
    int n = n_prompts * params->n;
    glyd_generation *g = calloc(1, sizeof *g + sizeof(struct glyd_flow));
    if (g) {
        g->flow = (struct glyd_flow *)(g + 1);
        pthread_mutex_init(&g->flow->lock, NULL);
        g->flow->work.run = run;
        g->x = x;
        g->writer = writer;
        g->params = *params;
        g->prompts = prompts;
        g->n_prompts = n_prompts;
        g->created = time(NULL);
        g->sequences = calloc((size_t)n, sizeof *g->sequences);
    }
    bool is_made = g && g->sequences;
    for (int i = 0; is_made && i < n; i++) {
        glyd_sequence *s = &g->sequences[i];
        *s = (glyd_sequence){
            .generation = g, .index = i, .prompt = i / params->n, .which_stop = -1, .stop_id = -1};
        s->feed = calloc(1, sizeof *s->feed);
        is_made = s->feed && glyd_detok_create(x->server->tokenizer,
                                               params->skip_special ? GLYD_DECODE_SKIP_SPECIAL : 0,
                                               &s->feed->detok, NULL) == GLYD_OK;
        g->n_sequences = i + (s->feed != NULL);
    }
    if (is_made)
        return g;
    if (g) {
        glyd_generation_free(g);
    } else {
        for (int i = 0; i < n_prompts; i++)
            glyd_ids_free(&prompts[i]);
        free(prompts);
    }
    return NULL;
}

void glyd_generation_free(glyd_generation *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_sequences; i++) {
        struct glyd_feed *feed = g->sequences[i].feed;
        glyd_ticket_free(feed->ticket);
        glyd_detok_free(feed->detok);
        glyd_buf_free(&feed->incoming);
        glyd_buf_free(&feed->taken);
        glyd_buf_free(&feed->waiting);
        glyd_buf_free(&feed->text);
        free(feed);
        if (g->sequences[i].state && g->writer->free_sequence)
            g->writer->free_sequence(g->sequences[i].state);
        glyd_answer_free(g->sequences[i].answer);
        glyd_constraint_free(g->sequences[i].constraint);
    }
    free(g->sequences);
    if (g->state && g->writer->free_generation)
        g->writer->free_generation(g->state);
    for (int i = 0; i < g->n_prompts; i++)
        glyd_ids_free(&g->prompts[i]);
    free(g->prompts);
    glyd_grammar_free(g->grammar);
    pthread_mutex_destroy(&g->flow->lock);
    free(g);
}
