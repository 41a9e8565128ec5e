/* slots.c - a sequence starts, is preempted, goes on, finishes.
 *
 * Slots finish in the middle of a step too. Their pages are then free while the step still writes
 * to them; none is given out before the next step, and positions being written are in no cache.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine/slots.h"
#include "base/clock.h"
#include "base/error.h"
#include <string.h>

static void set_used(glyd_scheduler *s)
{
    atomic_store(&s->inbox->figures.kv_pages_used, s->pool.n_pages - s->pool.n_unused);
}

/* Take all pages from a slot; the first n_ids tokens are known to be right. */
static void give_up_pages(glyd_scheduler *s, glyd_slot *t, int n_ids)
{
    glyd_kv_table_release(&s->pool, &t->table, t->ids, s->caches ? n_ids : 0);
    set_used(s);
}

/* --- finishing --- */

static bool is_cancelled(const glyd_scheduler *s, const glyd_ticket *ticket)
{
    return atomic_load(&ticket->is_cancelled) || atomic_load(&s->inbox->cancels_all);
}

static void finish_ticket(glyd_scheduler *s, glyd_ticket *ticket, glyd_finish finish)
{
    if (finish == GLYD_FINISH_CANCELLED && !atomic_load(&ticket->is_cancelled))
        atomic_fetch_add(&s->inbox->n_cut, 1);
    atomic_fetch_sub(&s->inbox->n_open, 1);
    glyd_ticket_finish(ticket, finish);
}

void glyd_slot_finish(glyd_scheduler *s, glyd_slot *t, glyd_finish finish)
{
    glyd_ticket *ticket = t->ticket;
    glyd_result *result = &ticket->result;
    if (result->n_tokens > 0)
        result->decode_s = glyd_clock_s() - t->first_token_s;
    else if (result->prompt_s == 0)
        result->prompt_s = glyd_clock_s() - t->started_s;
    give_up_pages(s, t, t->n_cached);
    if (!t->is_preempted)
        atomic_fetch_sub(&s->inbox->figures.n_running, 1);
    t->ticket = NULL;
    t->is_preempted = false;
    finish_ticket(s, ticket, finish);
}

void glyd_slot_fail(glyd_scheduler *s, glyd_slot *t, const glyd_error *error)
{
    glyd_kv_table_forget(&s->pool, &t->table);
    t->n_cached = 0;
    t->ticket->result.error = *error;
    glyd_slot_finish(s, t, GLYD_FINISH_ERROR);
}

static void take_arrived(glyd_scheduler *s)
{
    glyd_ticket *ticket = glyd_inbox_take(s->inbox);
    if (!ticket)
        return;
    *s->waiting_end = ticket;
    while (*s->waiting_end)
        s->waiting_end = &(*s->waiting_end)->next;
}

void glyd_slots_poll(glyd_scheduler *s)
{
    take_arrived(s);
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].ticket && is_cancelled(s, s->slots[i].ticket))
            glyd_slot_finish(s, &s->slots[i], GLYD_FINISH_CANCELLED);
    for (glyd_ticket **link = &s->waiting; *link;) {
        glyd_ticket *ticket = *link;
        if (!is_cancelled(s, ticket)) {
            link = &ticket->next;
            continue;
        }
        *link = ticket->next;
        if (!ticket->next)
            s->waiting_end = link;
        ticket->result.queue_s = glyd_clock_s() - ticket->submitted_s;
        finish_ticket(s, ticket, GLYD_FINISH_CANCELLED);
    }
}

/* --- starting --- */

/* Take over the page that has the next n_more tokens, where there is one: as a copy, or where no
 * page is to spare as it is. Returns how many tokens that saved. */
static int take_partial(glyd_scheduler *s, glyd_slot *t, int page, int n_more, int n_pages)
{
    if (page < 0)
        return 0;
    glyd_kv_page_hold(&s->pool, page); /* so that it is not the one given out */
    int at = t->table.n_pages;
    if (glyd_kv_table_grow(&s->pool, &t->table, n_pages))
        glyd_forward_copy_page(s->forward, page, t->table.pages[at]);
    else if (glyd_kv_table_adopt(&s->pool, &t->table, page))
        return n_more;
    else
        n_more = 0;
    glyd_kv_page_drop(&s->pool, page);
    return n_more;
}

/* Give a slot pages for all of its ids, those in the prefix cache first. One page is left to every
 * other sequence that runs, so that they need not preempt at once. At least one token is left to
 * run, for its logits; all that the request wants to see. False: there are too few pages. */
static bool take_pages(glyd_scheduler *s, glyd_slot *t)
{
    int n_pages = glyd_kv_pages_for(&s->pool, t->n_ids), partial = -1, n_more = 0, n = 0;
    if (s->caches && t->n_shown >= glyd_slot_to_show(t))
        n = glyd_kv_table_match(&s->pool, &t->table, t->ids, t->n_ids - 1, &partial, &n_more);
    int n_others = atomic_load(&s->inbox->figures.n_running);
    if (n_pages - t->table.n_pages > s->pool.n_unused - n_others) {
        give_up_pages(s, t, 0);
        return false;
    }
    n += take_partial(s, t, partial, n_more, n_pages);
    int has_room = glyd_kv_table_grow(&s->pool, &t->table, n_pages);
    GLYD_ASSERT(has_room);
    t->n_cached = n;
    t->is_preempted = false;
    atomic_fetch_add(&s->inbox->figures.n_running, 1);
    set_used(s);
    return true;
}

static int ids_max(const glyd_scheduler *s, const glyd_ticket *ticket)
{
    const glyd_request *request = &ticket->request;
    int room = s->sizes.context - request->n_ids, wanted = request->tokens_max;
    if (ticket->on_logits)
        wanted = 0;
    return request->n_ids + (wanted >= 0 && wanted < room ? wanted : room);
}

static bool start(glyd_scheduler *s, glyd_slot *t, glyd_ticket *ticket)
{
    const glyd_request *request = &ticket->request;
    glyd_result *result = &ticket->result;
    glyd_figures *figures = &s->inbox->figures;
    memcpy(t->ids, request->ids, (size_t)request->n_ids * sizeof *t->ids);
    t->ticket = ticket;
    t->n_ids = request->n_ids;
    t->n_shown = 0;
    if (!take_pages(s, t)) {
        t->ticket = NULL;
        return false;
    }
    t->n_ids_max = ids_max(s, ticket);
    t->order = s->n_started++;
    t->started_s = glyd_clock_s();
    result->queue_s = t->started_s - ticket->submitted_s;
    result->n_reused = t->n_cached;
    atomic_fetch_add(&figures->prompt_tokens, request->n_ids);
    if (s->caches && glyd_slot_to_show(t) == 0)
        atomic_fetch_add(&figures->prefix_queries, request->n_ids);
    atomic_fetch_add(&figures->prefix_hits, t->n_cached);
    return true;
}

static glyd_slot *first_preempted(const glyd_scheduler *s)
{
    glyd_slot *first = NULL;
    for (int i = 0; i < s->n_slots; i++) {
        glyd_slot *t = &s->slots[i];
        if (t->is_preempted && (!first || t->order < first->order))
            first = t;
    }
    return first;
}

static glyd_slot *idle_slot(const glyd_scheduler *s)
{
    for (int i = 0; i < s->n_slots; i++)
        if (!s->slots[i].ticket)
            return &s->slots[i];
    return NULL;
}

void glyd_slots_start(glyd_scheduler *s)
{
    for (glyd_slot *t; (t = first_preempted(s));)
        if (!take_pages(s, t))
            return;
    while (s->waiting) {
        glyd_ticket *ticket = s->waiting, *next = ticket->next;
        glyd_slot *t = idle_slot(s);
        if (!t || !start(s, t, ticket))
            return;
        s->waiting = next;
        if (!next)
            s->waiting_end = &s->waiting;
    }
}

/* --- growing --- */

static void preempt(glyd_scheduler *s, glyd_slot *t)
{
    give_up_pages(s, t, t->n_cached);
    t->n_cached = 0;
    t->is_preempted = true;
    atomic_fetch_sub(&s->inbox->figures.n_running, 1);
    atomic_fetch_add(&s->inbox->figures.n_preemptions, 1);
}

static glyd_slot *last_started(const glyd_scheduler *s)
{
    glyd_slot *last = NULL;
    for (int i = 0; i < s->n_slots; i++) {
        glyd_slot *t = &s->slots[i];
        if (glyd_slot_runs(t) && (!last || t->order > last->order))
            last = t;
    }
    return last;
}

void glyd_slots_grow(glyd_scheduler *s)
{
    for (int i = 0; i < s->n_slots; i++) {
        glyd_slot *t = &s->slots[i];
        while (glyd_slot_runs(t) &&
               !glyd_kv_table_grow(&s->pool, &t->table, glyd_kv_pages_for(&s->pool, t->n_ids)))
            preempt(s, last_started(s));
    }
    set_used(s);
}
