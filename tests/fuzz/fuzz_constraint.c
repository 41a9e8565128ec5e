/* fuzz_constraint.c - any bytes as a schema or a regular expression, then a walk through its masks.
 *
 * The first byte picks which; the rest after a zero byte picks tokens. What is made must hold its
 * promises: a mask and accept agree, and a stop comes only where the text may end.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "constraint/constraint.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { BYTES = 256, STOP = 256, N_IDS = 260, WORDS = (N_IDS + 63) / 64, STEPS = 200 };

static glyd_vocabulary *make_vocabulary(void)
{
    static const char *const longer[] = {"\":", "\"},", "12"};
    uint8_t single[BYTES];
    glyd_span tokens[N_IDS] = {{NULL, 0}};
    glyd_vocabulary *vocabulary = NULL;
    for (int i = 0; i < BYTES; i++) {
        single[i] = (uint8_t)i;
        tokens[i] = (glyd_span){single + i, 1};
    }
    for (int i = 0; i < 3; i++)
        tokens[257 + i] = (glyd_span){(const uint8_t *)longer[i], strlen(longer[i])};
    if (glyd_vocabulary_from_bytes(tokens, N_IDS, &vocabulary, NULL) != GLYD_OK)
        abort();
    return vocabulary;
}

static glyd_status make_grammar(uint8_t kind, const uint8_t *text, size_t bytes,
                                glyd_grammar **grammar, glyd_error *err)
{
    if (kind & 1)
        return glyd_grammar_from_regex((const char *)text, bytes, grammar, err);
    json_t *schema = json_loadb((const char *)text, bytes, JSON_DECODE_ANY, NULL);
    glyd_status status = GLYD_E_ARG;
    if (schema)
        status = glyd_grammar_from_schema(schema, NULL, grammar, err);
    else
        memcpy(err->text, "?", 2);
    json_decref(schema);
    return status;
}

static void check_step(glyd_constraint *c, const uint64_t *mask, int32_t id, bool *ended)
{
    bool is_allowed = mask[id / 64] >> id % 64 & 1, may_end = glyd_constraint_may_end(c);
    if (id == STOP && is_allowed != may_end)
        abort();
    if ((glyd_constraint_accept(c, id, NULL) == GLYD_OK) != is_allowed)
        abort();
    *ended = *ended || (is_allowed && id == STOP);
}

static void walk(glyd_constraint *c, const uint8_t *choices, size_t n)
{
    uint64_t mask[WORDS];
    bool ended = false;
    for (size_t i = 0; i < n && i < STEPS && !ended; i++) {
        memset(mask, 0xFF, sizeof mask);
        if (glyd_constraint_mask(c, mask, WORDS, NULL) != GLYD_OK)
            return;
        check_step(c, mask, choices[i] + (choices[i] < 4) * 256, &ended);
        /* And one that is allowed, so that the walk gets somewhere. */
        memset(mask, 0xFF, sizeof mask);
        if (ended || glyd_constraint_mask(c, mask, WORDS, NULL) != GLYD_OK)
            return;
        int32_t id = choices[i];
        while (!(mask[id / 64] >> id % 64 & 1))
            id = (id + 1) % N_IDS;
        check_step(c, mask, id, &ended);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const int32_t stop = STOP;
    if (bytes < 2)
        return 0;
    const uint8_t *end = memchr(data + 1, 0, bytes - 1);
    size_t n = end ? (size_t)(end - data) - 1 : bytes - 1;
    glyd_grammar *grammar = NULL;
    glyd_constraint *constraint = NULL;
    glyd_error err = {0};
    if (make_grammar(data[0], data + 1, n, &grammar, &err) != GLYD_OK) {
        if (!err.text[0])
            abort();
        return 0;
    }
    glyd_vocabulary *vocabulary = make_vocabulary();
    if (glyd_constraint_create(grammar, vocabulary, &stop, 1, &constraint, NULL) == GLYD_OK)
        walk(constraint, data + 1 + n, bytes - 1 - n);
    glyd_constraint_free(constraint);
    glyd_vocabulary_free(vocabulary);
    glyd_grammar_free(grammar);
    return 0;
}
