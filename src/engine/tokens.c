/* tokens.c - from logits to callbacks.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/clock.h"
#include "base/error.h"
#include "engine/logprobs.h"
#include "engine/slots.h"
#include <string.h>

static void fail_with(glyd_scheduler *s, glyd_slot *t, glyd_status status, const char *text)
{
    glyd_error error = {0};
    (void)glyd_error_set(&error, status, "after token %d: %s", t->n_ids, text);
    glyd_slot_fail(s, t, &error);
}

/* Whether logits can be used; if not, their sequence has failed. */
static bool check_logits(glyd_scheduler *s, glyd_slot *t, const float *logits, int64_t n)
{
    bool is_finite = true;
    for (int64_t i = 0; i < n && is_finite; i++)
        is_finite = glyd_logits_are_finite(logits + i * s->sizes.vocab, s->sizes.vocab);
    if (!is_finite)
        fail_with(s, t, GLYD_E_CORRUPT,
                  "a logit is not a finite number: the weights may be damaged; check them with "
                  "glyd verify");
    return is_finite;
}

/* --- a draw --- */

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

static void clear_stops(glyd_scheduler *s, const glyd_request *request)
{
    for (int i = 0; i < request->n_stop_ids; i++)
        if (request->stop_ids[i] >= 0 && request->stop_ids[i] < s->sizes.vocab)
            glyd_id_clear(s->allowed, request->stop_ids[i]);
    for (int i = 0; i < s->config->n_stop_ids && !request->ignore_stop; i++)
        if (s->config->stop_ids[i] >= 0 && s->config->stop_ids[i] < s->sizes.vocab)
            glyd_id_clear(s->allowed, s->config->stop_ids[i]);
}

/* The ids that may come next, or NULL: all. False: the constraint says that it failed. */
static bool find_allowed(glyd_scheduler *s, const glyd_ticket *ticket, const uint64_t **allowed)
{
    const glyd_request *request = &ticket->request;
    bool must_go_on = ticket->result.n_tokens < request->tokens_min;
    *allowed = NULL;
    if (!request->allow && !must_go_on)
        return true;
    int64_t n_words = glyd_id_words(s->sizes.vocab);
    memset(s->allowed, 0xFF, (size_t)n_words * sizeof *s->allowed);
    if (s->sizes.vocab % 64 != 0)
        s->allowed[n_words - 1] = ((uint64_t)1 << s->sizes.vocab % 64) - 1;
    *allowed = s->allowed;
    if (request->allow && !request->allow(request->arg, s->allowed))
        return false;
    if (must_go_on)
        clear_stops(s, request);
    return true;
}

/* What the drawn id means for its sequence. */
static void take_token(glyd_scheduler *s, glyd_slot *t, const glyd_token *token)
{
    glyd_ticket *ticket = t->ticket;
    glyd_result *result = &ticket->result;
    if (result->n_tokens == 0) {
        t->first_token_s = glyd_clock_s();
        result->prompt_s = t->first_token_s - t->started_s;
    }
    if (is_stop(s, &ticket->request, token->id)) {
        result->stop_id = token->id;
        glyd_slot_finish(s, t, GLYD_FINISH_STOP);
        return;
    }
    t->ids[t->n_ids++] = token->id;
    result->n_tokens++;
    atomic_fetch_add(&s->inbox->figures.answer_tokens, 1);
    if (ticket->request.on_token)
        ticket->request.on_token(ticket->request.arg, token);
    if (t->n_ids == t->n_ids_max)
        glyd_slot_finish(s, t,
                         result->n_tokens == ticket->request.tokens_max ? GLYD_FINISH_LENGTH
                                                                        : GLYD_FINISH_CONTEXT);
}

static int n_top_of(const glyd_scheduler *s, int n)
{
    return n < s->sizes.vocab ? n : s->sizes.vocab;
}

static void draw(glyd_scheduler *s, glyd_slot *t, const float *logits)
{
    const glyd_ticket *ticket = t->ticket;
    const glyd_request *request = &ticket->request;
    glyd_draw d = {.ids = t->ids,
                   .n_prompt = request->n_ids,
                   .n_ids = t->n_ids,
                   .bias = request->logit_bias,
                   .n_bias = request->n_logit_bias,
                   .index = (uint64_t)ticket->result.n_tokens};
    if (!check_logits(s, t, logits, 1))
        return;
    if (!find_allowed(s, ticket, &d.allowed)) {
        fail_with(s, t, GLYD_E_LIMIT, "what may come next could not be found out");
        return;
    }
    int32_t id = glyd_sample(&request->sampling, logits, s->sizes.vocab, &d, &s->work);
    if (id < 0) {
        fail_with(s, t, GLYD_E_LIMIT, "no token is allowed to come next");
        return;
    }
    glyd_token token = {.id = id};
    if (request->n_logprobs >= 0)
        glyd_logprobs(logits, s->sizes.vocab, id, n_top_of(s, request->n_logprobs), s->top, &token);
    take_token(s, t, &token);
}

static bool is_to_draw(const glyd_slot *t)
{
    return t->ticket && t->n_cached == t->n_ids && t->n_ids < t->n_ids_max &&
           !atomic_load(&t->ticket->is_cancelled);
}

/* Draw the next token of every sequence whose ids have all run; those that make none are done. */
static glyd_status draw_all(glyd_scheduler *s, glyd_error *err)
{
    const float *logits = NULL;
    int n = 0;
    for (int i = 0; i < s->n_runs; i++) {
        glyd_slot *t = s->slot_of_run[i];
        if (t->ticket && t->n_cached == t->n_ids && t->n_ids == t->n_ids_max)
            glyd_slot_finish(s, t, GLYD_FINISH_LENGTH);
        t->draws = is_to_draw(t);
        if (t->draws)
            s->rows[n++] = s->runs[i].first + s->runs[i].n_tokens - 1;
    }
    if (n > 0)
        GLYD_TRY(glyd_forward_logits(s->forward, s->rows, n, &logits, err));
    for (int i = 0; i < s->n_runs; i++) {
        glyd_slot *t = s->slot_of_run[i];
        if (!t->draws)
            continue;
        draw(s, t, logits);
        logits += s->sizes.vocab;
    }
    return GLYD_OK;
}

/* --- logits of a prompt --- */

static void show_logprobs(glyd_scheduler *s, glyd_slot *t, const float *logits, int n)
{
    const glyd_request *request = &t->ticket->request;
    int n_top = n_top_of(s, request->n_prompt_logprobs);
    glyd_token token;
    for (int i = 0; i < n && request->on_prompt_token; i++) {
        int index = t->n_shown + i + 1;
        glyd_logprobs(logits + (int64_t)i * s->sizes.vocab, s->sizes.vocab, request->ids[index],
                      n_top, s->top, &token);
        request->on_prompt_token(request->arg, index, &token);
    }
}

/* Hand out the logits of the next n positions. False: the sequence has failed. */
static bool show(glyd_scheduler *s, glyd_slot *t, const float *logits, int n)
{
    if (!t->ticket->on_logits) {
        if (!check_logits(s, t, logits, n))
            return false;
        show_logprobs(s, t, logits, n);
        return true;
    }
    glyd_status status = t->ticket->on_logits(t->ticket->request.arg, logits, n, s->sizes.vocab);
    if (status != GLYD_OK)
        fail_with(s, t, status, glyd_status_text(status));
    return status == GLYD_OK;
}

/* Hand out the logits of a run's positions that have not been, as far as the request wants them. */
static glyd_status show_run(glyd_scheduler *s, glyd_slot *t, const glyd_run *run, glyd_error *err)
{
    while (t->ticket && !atomic_load(&t->ticket->is_cancelled)) {
        int done = t->n_shown - run->position, n = run->n_tokens - done;
        int n_wanted = glyd_slot_to_show(t) - t->n_shown;
        const float *logits;
        n = n < n_wanted ? n : n_wanted;
        n = n < s->sizes.n_outputs ? n : s->sizes.n_outputs;
        if (n <= 0)
            break;
        for (int i = 0; i < n; i++)
            s->rows[i] = run->first + done + i;
        GLYD_TRY(glyd_forward_logits(s->forward, s->rows, n, &logits, err));
        if (show(s, t, logits, n))
            t->n_shown += n;
    }
    return GLYD_OK;
}

glyd_status glyd_tokens_take(glyd_scheduler *s, glyd_error *err)
{
    for (int i = 0; i < s->n_runs; i++)
        GLYD_TRY(show_run(s, s->slot_of_run[i], &s->runs[i], err));
    return draw_all(s, err);
}
