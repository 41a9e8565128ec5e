/* matcher.c - places, their steps and the stacks under them.
 *
 * Stacks share their lower frames and equal frames are one, so that equal places have equal pairs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "constraint/matcher.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

enum {
    STEPS_MAX = 1 << 20,  /* entries of the table of steps */
    PLACES_MAX = 1 << 15, /* and no more places than this */
    PAIRS_MAX = 1 << 18,  /* of all places */
    FRAMES_MAX = 1 << 17,
    SLOTS = 1 << 18, /* of each hash table: at least twice what it holds */
    SEEN_SLOTS = 4 * GLYD_PAIRS_MAX,
    WORK_MAX = SEEN_SLOTS / 2, /* pairs looked at for one step */
};

#define LOOP_BIT   ((uint32_t)1 << 31)
#define NOT_KNOWN  UINT32_MAX
#define EMPTY_SLOT 0

typedef struct seen_slot {
    glyd_pair pair;
    uint32_t stamp;
} seen_slot;

struct glyd_matcher {
    const glyd_grammar *grammar;
    const glyd_state *states;
    const glyd_edge *edges;
    const glyd_loop *loops;
    glyd_frame *frames; /* 0: the bottom */
    uint32_t n_frames;
    uint32_t *frame_slots;
    glyd_pair *pairs;
    uint32_t n_pairs;
    glyd_place *places; /* 0: none */
    uint32_t n_places, places_max;
    uint32_t *place_slots;
    uint32_t *steps;
    /* one step's work */
    glyd_pair *todo, *made;
    uint32_t n_todo, n_made;
    seen_slot *seen;
    uint32_t stamp;
    uint64_t work;
};

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(x >> 32) ^ (uint32_t)x;
}

/* With the slots cleared: no place, and the bottom frame. */
static void reset(glyd_matcher *m)
{
    m->n_frames = 1;
    m->n_pairs = 0;
    m->n_places = 1;
    m->frames[0] = (glyd_frame){0};
    m->places[0] = (glyd_place){.mask = -1};
}

glyd_status glyd_matcher_create(const glyd_grammar *grammar, glyd_matcher **matcher)
{
    glyd_matcher *m = calloc(1, sizeof *m);
    if (!m)
        return GLYD_E_NOMEM;
    m->grammar = grammar;
    m->states = (const glyd_state *)(const void *)grammar->states.data;
    m->edges = (const glyd_edge *)(const void *)grammar->edges.data;
    m->loops = (const glyd_loop *)(const void *)grammar->loops.data;
    uint32_t fit = STEPS_MAX / (uint32_t)grammar->n_classes;
    m->places_max = fit < PLACES_MAX ? fit : PLACES_MAX;
    m->frames = malloc(FRAMES_MAX * sizeof *m->frames);
    m->frame_slots = calloc(SLOTS, sizeof *m->frame_slots);
    m->pairs = malloc(PAIRS_MAX * sizeof *m->pairs);
    m->places = malloc(m->places_max * sizeof *m->places);
    m->place_slots = calloc(SLOTS, sizeof *m->place_slots);
    m->steps = malloc(STEPS_MAX * sizeof *m->steps);
    m->todo = malloc(WORK_MAX * sizeof *m->todo);
    m->made = malloc(GLYD_PAIRS_MAX * sizeof *m->made);
    m->seen = calloc(SEEN_SLOTS, sizeof *m->seen);
    if (!m->frames || !m->frame_slots || !m->pairs || !m->places || !m->place_slots || !m->steps ||
        !m->todo || !m->made || !m->seen) {
        glyd_matcher_free(m);
        return GLYD_E_NOMEM;
    }
    reset(m);
    *matcher = m;
    return GLYD_OK;
}

void glyd_matcher_free(glyd_matcher *matcher)
{
    if (!matcher)
        return;
    free(matcher->frames);
    free(matcher->frame_slots);
    free(matcher->pairs);
    free(matcher->places);
    free(matcher->place_slots);
    free(matcher->steps);
    free(matcher->todo);
    free(matcher->made);
    free(matcher->seen);
    free(matcher);
}

/* The frame with these fields, made where it is not there. */
static glyd_status intern_frame(glyd_matcher *m, uint32_t below, uint32_t back, int32_t round,
                                uint32_t *frame)
{
    uint32_t slot = mix(mix(below, back), (uint32_t)round) % SLOTS;
    for (; m->frame_slots[slot] != EMPTY_SLOT; slot = (slot + 1) % SLOTS) {
        const glyd_frame *f = &m->frames[m->frame_slots[slot]];
        if (f->below == below && f->back == back && f->round == round) {
            *frame = m->frame_slots[slot];
            return GLYD_OK;
        }
    }
    uint32_t depth = m->frames[below].depth + 1;
    if (depth > GLYD_CONSTRAINT_NESTING_MAX)
        return GLYD_E_LIMIT;
    if (m->n_frames == FRAMES_MAX)
        return GLYD_E_NOMEM;
    *frame = m->n_frames++;
    m->frames[*frame] = (glyd_frame){below, back, round, depth};
    m->frame_slots[slot] = *frame;
    return GLYD_OK;
}

/* --- from pairs to all that they reach without reading --- */

static void begin(glyd_matcher *m)
{
    m->n_todo = 0;
    m->n_made = 0;
    if (++m->stamp == 0) {
        memset(m->seen, 0, SEEN_SLOTS * sizeof *m->seen);
        m->stamp = 1;
    }
}

/* Note a pair to look at, once. */
static glyd_status reach(glyd_matcher *m, uint32_t state, uint32_t stack)
{
    uint32_t slot = mix(state, stack) % SEEN_SLOTS;
    for (; m->seen[slot].stamp == m->stamp; slot = (slot + 1) % SEEN_SLOTS)
        if (m->seen[slot].pair.state == state && m->seen[slot].pair.stack == stack)
            return GLYD_OK;
    if (m->n_todo == WORK_MAX)
        return GLYD_E_LIMIT;
    m->seen[slot] = (seen_slot){{state, stack}, m->stamp};
    m->todo[m->n_todo++] = (glyd_pair){state, stack};
    return GLYD_OK;
}

/* A loop has done `round` rounds over the frames `below`: another one, or on. */
static glyd_status go_round(glyd_matcher *m, uint32_t index, int32_t round, uint32_t below)
{
    const glyd_loop *loop = &m->loops[index];
    if (round >= loop->min) {
        GLYD_TRY(reach(m, loop->exit, below));
        if (loop->max < 0)
            round = loop->min; /* more need not be counted */
    }
    if (loop->max >= 0 && round >= loop->max)
        return GLYD_OK;
    uint32_t frame;
    GLYD_TRY(intern_frame(m, below, index | LOOP_BIT, round, &frame));
    return reach(m, loop->body, frame);
}

static glyd_status expand(glyd_matcher *m, glyd_pair pair)
{
    const glyd_state *s = &m->states[pair.state];
    const glyd_frame *f = &m->frames[pair.stack];
    uint32_t frame;
    switch (s->kind) {
    case GLYD_STATE_SPLIT:
        for (uint32_t i = 0; i < s->n; i++)
            GLYD_TRY(reach(m, m->edges[s->at + i].target, pair.stack));
        return GLYD_OK;
    case GLYD_STATE_CALL:
        GLYD_TRY(intern_frame(m, pair.stack, s->n, 0, &frame));
        return reach(m, s->at, frame);
    case GLYD_STATE_LOOP:
        return go_round(m, s->at, 0, pair.stack);
    case GLYD_STATE_RETURN:
        if (pair.stack == 0)
            break;
        if (f->back & LOOP_BIT)
            return go_round(m, f->back & ~LOOP_BIT, f->round + 1, f->below);
        return reach(m, f->back, f->below);
    default:
        break;
    }
    if (m->n_made == GLYD_PAIRS_MAX)
        return GLYD_E_LIMIT;
    m->made[m->n_made++] = s->kind == GLYD_STATE_BYTES ? pair : (glyd_pair){GLYD_STATE_END, 0};
    return GLYD_OK;
}

static int by_pair(const void *a, const void *b)
{
    const glyd_pair *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* The place of the pairs in `made`. */
static glyd_status intern_place(glyd_matcher *m, uint32_t *place)
{
    uint32_t hash = m->n_made;
    if (m->n_made == 0) {
        *place = GLYD_PLACE_NONE;
        return GLYD_OK;
    }
    if (m->n_made > 1)
        qsort(m->made, m->n_made, sizeof *m->made, by_pair);
    for (uint32_t i = 0; i < m->n_made; i++)
        hash = mix(hash, mix(m->made[i].state, m->made[i].stack));
    uint32_t slot = hash % SLOTS;
    for (; m->place_slots[slot] != EMPTY_SLOT; slot = (slot + 1) % SLOTS) {
        const glyd_place *p = &m->places[m->place_slots[slot]];
        if (p->hash == hash && p->n == m->n_made &&
            memcmp(m->pairs + p->at, m->made, p->n * sizeof *m->made) == 0) {
            *place = m->place_slots[slot];
            return GLYD_OK;
        }
    }
    if (m->n_places == m->places_max || m->n_made > PAIRS_MAX - m->n_pairs)
        return GLYD_E_NOMEM;
    *place = m->n_places++;
    m->places[*place] = (glyd_place){m->n_pairs, m->n_made, hash, -1};
    memcpy(m->pairs + m->n_pairs, m->made, m->n_made * sizeof *m->made);
    m->n_pairs += m->n_made;
    m->place_slots[slot] = *place;
    uint32_t *row = m->steps + (size_t)*place * (size_t)m->grammar->n_classes;
    for (int i = 0; i < m->grammar->n_classes; i++)
        row[i] = NOT_KNOWN;
    return GLYD_OK;
}

static glyd_status settle(glyd_matcher *m, uint32_t *place)
{
    for (uint32_t i = 0; i < m->n_todo; i++)
        GLYD_TRY(expand(m, m->todo[i]));
    m->work += m->n_todo;
    return intern_place(m, place);
}

glyd_status glyd_matcher_start(glyd_matcher *matcher, uint32_t *place)
{
    begin(matcher);
    GLYD_TRY(reach(matcher, matcher->grammar->start, 0));
    return settle(matcher, place);
}

glyd_status glyd_matcher_step(glyd_matcher *matcher, uint32_t place, uint8_t byte, uint32_t *next)
{
    const glyd_grammar *g = matcher->grammar;
    if (place == GLYD_PLACE_NONE) {
        *next = GLYD_PLACE_NONE;
        return GLYD_OK;
    }
    uint32_t *step = matcher->steps + (size_t)place * (size_t)g->n_classes + g->class_of[byte];
    if (*step == NOT_KNOWN) {
        const glyd_place p = matcher->places[place];
        uint32_t found = GLYD_PLACE_NONE;
        begin(matcher);
        for (uint32_t i = 0; i < p.n; i++) {
            glyd_pair pair = matcher->pairs[p.at + i];
            if (pair.state == GLYD_STATE_END)
                continue;
            const glyd_state *s = &matcher->states[pair.state];
            for (uint32_t j = 0; j < s->n; j++) {
                const glyd_edge *e = &matcher->edges[s->at + j];
                if (byte >= e->first && byte <= e->last)
                    GLYD_TRY(reach(matcher, e->target, pair.stack));
            }
        }
        GLYD_TRY(settle(matcher, &found));
        *step = found;
    }
    *next = *step;
    return GLYD_OK;
}

glyd_status glyd_matcher_forget(glyd_matcher *matcher, uint32_t *place)
{
    glyd_matcher *m = matcher;
    const glyd_place p = m->places[*place];
    /* Frames are numbered upwards, a frame after the one below it: moving those in use to the
     * front keeps that order. The tables of slots serve as the map from old to new. */
    uint32_t *map = m->frame_slots, n_frames = 1;
    memset(map, 0, SLOTS * sizeof *map);
    for (uint32_t i = 0; i < p.n; i++)
        for (uint32_t f = m->pairs[p.at + i].stack; f != 0 && map[f] == 0; f = m->frames[f].below)
            map[f] = 1;
    for (uint32_t f = 1; f < m->n_frames; f++) {
        if (map[f] == 0)
            continue;
        glyd_frame frame = m->frames[f];
        frame.below = map[frame.below];
        m->frames[n_frames] = frame;
        map[f] = n_frames++;
    }
    for (uint32_t i = 0; i < p.n; i++) {
        glyd_pair pair = m->pairs[p.at + i];
        m->made[i] = (glyd_pair){pair.state, map[pair.stack]};
    }
    m->n_made = p.n;
    memset(m->frame_slots, 0, SLOTS * sizeof *m->frame_slots);
    memset(m->place_slots, 0, SLOTS * sizeof *m->place_slots);
    reset(m);
    for (uint32_t f = 1; f < n_frames; f++) {
        uint32_t same;
        glyd_frame frame = m->frames[f];
        GLYD_TRY(intern_frame(m, frame.below, frame.back, frame.round, &same));
        GLYD_ASSERT(same == f);
    }
    return intern_place(m, place);
}

bool glyd_matcher_may_end(const glyd_matcher *matcher, uint32_t place)
{
    const glyd_place *p = &matcher->places[place];
    /* Sorted by state: END is the last. */
    return p->n > 0 && matcher->pairs[p->at + p->n - 1].state == GLYD_STATE_END;
}

bool glyd_matcher_may_go_on(const glyd_matcher *matcher, uint32_t place)
{
    const glyd_place *p = &matcher->places[place];
    return p->n > 0 && matcher->pairs[p->at].state != GLYD_STATE_END;
}

glyd_status glyd_matcher_chars(glyd_matcher *matcher, uint32_t place, int32_t *chars,
                               uint32_t *rest)
{
    glyd_matcher *m = matcher;
    const glyd_place p = m->places[place];
    *chars = 0;
    m->n_made = 0;
    for (uint32_t i = 0; i < p.n; i++) {
        glyd_pair pair = m->pairs[p.at + i];
        if (pair.state != m->grammar->char_start) {
            m->made[m->n_made++] = pair;
            continue;
        }
        const glyd_frame *f = &m->frames[pair.stack];
        int32_t max = m->loops[f->back & ~LOOP_BIT].max;
        int32_t left = max < 0 ? INT32_MAX : max - f->round;
        if (left > *chars)
            *chars = left;
    }
    if (*chars == 0) {
        *rest = place;
        return GLYD_OK;
    }
    return intern_place(m, rest);
}

glyd_status glyd_matcher_like(glyd_matcher *matcher, uint32_t place, int32_t margin, uint32_t *like)
{
    glyd_matcher *m = matcher;
    const glyd_place p = m->places[place];
    bool is_same = true;
    for (uint32_t i = 0; i < p.n; i++) {
        glyd_pair pair = m->pairs[p.at + i];
        m->made[i] = pair;
        if (pair.state != m->grammar->char_start)
            continue;
        const glyd_frame f = m->frames[pair.stack];
        const glyd_loop *loop = &m->loops[f.back & ~LOOP_BIT];
        bool is_far = loop->max < 0 || loop->max - f.round > margin;
        int32_t round = !is_far                        ? f.round
                        : f.round >= loop->min         ? loop->min
                        : loop->min - f.round > margin ? 0
                                                       : f.round;
        if (round != f.round) {
            is_same = false;
            GLYD_TRY(intern_frame(m, f.below, f.back, round, &m->made[i].stack));
        }
    }
    m->n_made = p.n;
    *like = place;
    return is_same ? GLYD_OK : intern_place(m, like);
}

glyd_place *glyd_matcher_place(const glyd_matcher *matcher, uint32_t place)
{
    return &matcher->places[place];
}

const uint32_t *glyd_matcher_steps(const glyd_matcher *matcher)
{
    return matcher->steps;
}

uint64_t glyd_matcher_work(const glyd_matcher *matcher)
{
    return matcher->work;
}
