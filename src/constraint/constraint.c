/* constraint.c - one sequence: masks and what was accepted.
 *
 * A mask is a walk over the tries from the current place. Where a byte does not match, all tokens
 * below are passed by; where any string may go on, plain tokens come from a table. Masks are kept
 * by place in a fixed number of slots, the oldest given up first.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "constraint/matcher.h"
#include "constraint/vocabulary.h"
#include <stdlib.h>
#include <string.h>

enum {
    MASK_SLOTS = 64,
    NO_SLOT = -1,
    WORK_MAX = 1 << 23, /* pairs that one mask may look at: a fraction of a second */
};

struct glyd_constraint {
    const glyd_grammar *grammar;
    const glyd_vocabulary *vocabulary;
    glyd_matcher *matcher;
    uint32_t place;
    bool is_ended; /* a stop id came */
    uint64_t *stop_mask;
    uint64_t *mask;  /* the last one */
    uint64_t *masks; /* MASK_SLOTS rows */
    uint32_t owners[MASK_SLOTS];
    int next_slot;
};

glyd_status glyd_constraint_create(const glyd_grammar *grammar, const glyd_vocabulary *vocabulary,
                                   const int32_t *stop_ids, int n_stop_ids,
                                   glyd_constraint **constraint, glyd_error *err)
{
    glyd_constraint *c = calloc(1, sizeof *c);
    if (!c)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory");
    c->grammar = grammar;
    c->vocabulary = vocabulary;
    c->stop_mask = calloc(vocabulary->n_words + 1, sizeof *c->stop_mask);
    c->mask = calloc(vocabulary->n_words + 1, sizeof *c->mask);
    c->masks = malloc((MASK_SLOTS * vocabulary->n_words + 1) * sizeof *c->masks);
    glyd_status status = c->stop_mask && c->mask && c->masks
                             ? glyd_matcher_create(grammar, &c->matcher)
                             : GLYD_E_NOMEM;
    int n_known = 0;
    for (int i = 0; status == GLYD_OK && i < n_stop_ids; i++) {
        if (stop_ids[i] < 0 || stop_ids[i] >= vocabulary->n)
            continue;
        c->stop_mask[stop_ids[i] / 64] |= (uint64_t)1 << stop_ids[i] % 64;
        n_known++;
    }
    if (status == GLYD_OK)
        status = n_known ? glyd_matcher_start(c->matcher, &c->place) : GLYD_E_ARG;
    if (status == GLYD_OK) {
        *constraint = c;
        return GLYD_OK;
    }
    glyd_constraint_free(c);
    GLYD_FAIL(err, status, "%s",
              status == GLYD_E_ARG     ? "no stop id that the vocabulary has"
              : status == GLYD_E_LIMIT ? "the grammar begins in too many ways"
                                       : "out of memory");
}

void glyd_constraint_free(glyd_constraint *constraint)
{
    if (!constraint)
        return;
    glyd_matcher_free(constraint->matcher);
    free(constraint->stop_mask);
    free(constraint->mask);
    free(constraint->masks);
    free(constraint);
}

static glyd_status forget(glyd_constraint *c)
{
    GLYD_TRY(glyd_matcher_forget(c->matcher, &c->place));
    c->next_slot = 0;
    memset(c->owners, 0, sizeof c->owners);
    return GLYD_OK;
}

/* Add the tokens that match from a place. */
static glyd_status walk(const glyd_constraint *c, const glyd_trie *trie, uint32_t place,
                        uint64_t *mask)
{
    uint32_t places[GLYD_TOKEN_BYTES_MAX + 1] = {place};
    const glyd_trie_node *nodes = (const glyd_trie_node *)(const void *)trie->nodes.data;
    const int32_t *ids = (const int32_t *)(const void *)trie->ids.data;
    const uint32_t *steps = glyd_matcher_steps(c->matcher);
    size_t n_classes = (size_t)c->grammar->n_classes;
    uint64_t work_max = glyd_matcher_work(c->matcher) + WORK_MAX;
    for (uint32_t i = 0; i < trie->n;) {
        const glyd_trie_node *node = &nodes[i];
        uint32_t from = places[node->depth - 1];
        uint32_t to = steps[from * n_classes + c->grammar->class_of[node->byte]];
        if (to == UINT32_MAX) {
            glyd_status status = glyd_matcher_step(c->matcher, from, node->byte, &to);
            if (status == GLYD_E_LIMIT)
                to = GLYD_PLACE_NONE; /* this token leads too far, others may do */
            else if (status != GLYD_OK)
                return status;
            if (glyd_matcher_work(c->matcher) > work_max)
                return GLYD_E_LIMIT;
        }
        if (to == GLYD_PLACE_NONE) {
            i = node->skip;
            continue;
        }
        places[node->depth] = to;
        for (uint32_t j = 0; j < node->n_ids; j++) {
            int32_t id = ids[node->ids + j];
            mask[id / 64] |= (uint64_t)1 << id % 64;
        }
        i++;
    }
    return GLYD_OK;
}

/* The tokens that may come next, but for plain ones where any string may go on; `rest` is the place
 * without those. */
static glyd_status compute(const glyd_constraint *c, uint32_t rest, uint64_t *mask)
{
    memset(mask, 0, c->vocabulary->n_words * sizeof *mask);
    if (rest != GLYD_PLACE_NONE)
        GLYD_TRY(walk(c, &c->vocabulary->plain, rest, mask));
    return walk(c, &c->vocabulary->other, c->place, mask);
}

/* A slot for the current place; it may serve many, in a string with a length. */
static glyd_status find_slot(glyd_constraint *c, int32_t *chars, const uint64_t **mask)
{
    uint32_t rest, like;
    size_t n_words = c->vocabulary->n_words;
    GLYD_TRY(glyd_matcher_chars(c->matcher, c->place, chars, &rest));
    GLYD_TRY(glyd_matcher_like(c->matcher, c->place, c->vocabulary->quoted_bytes_max, &like));
    int slot = glyd_matcher_place(c->matcher, like)->mask;
    if (slot == NO_SLOT) {
        slot = c->next_slot;
        c->next_slot = (slot + 1) % MASK_SLOTS;
        if (c->owners[slot] != 0)
            glyd_matcher_place(c->matcher, c->owners[slot])->mask = NO_SLOT;
        c->owners[slot] = 0;
        GLYD_TRY(compute(c, rest, c->masks + (size_t)slot * n_words));
        c->owners[slot] = like;
        glyd_matcher_place(c->matcher, like)->mask = slot;
    }
    *mask = c->masks + (size_t)slot * n_words;
    return GLYD_OK;
}

/* The mask of the current place, into `mask`. */
static glyd_status find_mask(glyd_constraint *c)
{
    int32_t chars;
    const uint64_t *slot;
    size_t n_words = c->vocabulary->n_words;
    glyd_status status = find_slot(c, &chars, &slot);
    if (status == GLYD_E_NOMEM) { /* full: once more with nothing but this place */
        GLYD_TRY(forget(c));
        status = find_slot(c, &chars, &slot);
    }
    GLYD_TRY(status);
    memcpy(c->mask, slot, n_words * sizeof *slot);
    glyd_vocabulary_add_plain(c->vocabulary, chars, c->mask);
    bool may_end = glyd_matcher_may_end(c->matcher, c->place);
    for (size_t i = 0; i < n_words; i++)
        c->mask[i] = (c->mask[i] & ~c->stop_mask[i]) | (may_end ? c->stop_mask[i] : 0);
    return GLYD_OK;
}

glyd_status glyd_constraint_mask(glyd_constraint *constraint, uint64_t *allowed, size_t n_words,
                                 glyd_error *err)
{
    glyd_constraint *c = constraint;
    size_t n = c->vocabulary->n_words < n_words ? c->vocabulary->n_words : n_words;
    const uint64_t *mask = c->is_ended ? c->stop_mask : c->mask;
    uint64_t any = 0;
    if (!c->is_ended && find_mask(c) != GLYD_OK) {
        memset(allowed, 0, n_words * sizeof *allowed);
        GLYD_FAIL(err, GLYD_E_LIMIT, "the grammar allows too many ways to go on");
    }
    for (size_t i = 0; i < n; i++) {
        any |= mask[i];
        allowed[i] &= mask[i];
    }
    memset(allowed + n, 0, (n_words - n) * sizeof *allowed);
    if (!any)
        GLYD_FAIL(err, GLYD_E_LIMIT,
                  "no token can go on: the text is nested too deeply, or the "
                  "vocabulary cannot spell what must come");
    return GLYD_OK;
}

/* Where the bytes of a token lead. */
static glyd_status follow(const glyd_constraint *c, glyd_span token, uint32_t *place)
{
    *place = c->place;
    for (size_t i = 0; i < token.bytes; i++)
        GLYD_TRY(glyd_matcher_step(c->matcher, *place, token.data[i], place));
    return GLYD_OK;
}

glyd_status glyd_constraint_accept(glyd_constraint *constraint, int32_t id, glyd_error *err)
{
    glyd_constraint *c = constraint;
    if (id < 0 || id >= c->vocabulary->n || c->is_ended)
        GLYD_FAIL(err, GLYD_E_ARG, "token %d may not come here", (int)id);
    if (c->stop_mask[id / 64] >> id % 64 & 1) {
        if (!glyd_matcher_may_end(c->matcher, c->place))
            GLYD_FAIL(err, GLYD_E_ARG, "stop token %d: the text may not end here", (int)id);
        c->is_ended = true;
        return GLYD_OK;
    }
    glyd_span token = glyd_vocabulary_token(c->vocabulary, id);
    uint32_t place = GLYD_PLACE_NONE;
    if (token.bytes > 0 && token.bytes <= GLYD_TOKEN_BYTES_MAX) {
        glyd_status status = follow(c, token, &place);
        if (status == GLYD_E_NOMEM) {
            status = forget(c);
            if (status == GLYD_OK)
                status = follow(c, token, &place);
        }
        if (status != GLYD_OK)
            GLYD_FAIL(err, GLYD_E_LIMIT, "token %d leads too deep", (int)id);
    }
    if (place == GLYD_PLACE_NONE)
        GLYD_FAIL(err, GLYD_E_ARG, "token %d may not come here", (int)id);
    c->place = place;
    return GLYD_OK;
}

bool glyd_constraint_may_end(const glyd_constraint *constraint)
{
    return constraint->is_ended || glyd_matcher_may_end(constraint->matcher, constraint->place);
}

bool glyd_constraint_is_finished(const glyd_constraint *constraint)
{
    return constraint->is_ended || !glyd_matcher_may_go_on(constraint->matcher, constraint->place);
}
