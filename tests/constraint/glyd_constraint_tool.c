/* glyd_constraint_tool.c - runs grammars over a vocabulary for the tests of tests/constraint.
 *
 * glyd_constraint_tool bytes            a vocabulary of the 256 bytes, and id 256 to stop
 * glyd_constraint_tool TOKENIZER.JSON   a real one; its last special token stops
 * glyd_constraint_tool list FILE        tokens from a file, each a 16-bit length and its bytes, and
 * an empty one at the end to stop
 *
 * Reads one JSON object a line from stdin and answers each with one on stdout:
 *   {"grammar": PART, "whitespace": n}  compile; a PART is {"literal"|"regex"|"until": text},
 *       {"schema": any}, {"object": true}, {"token": id}, {"sequence"|"choice": [PART...]}, with
 *       "min" and "max". Answers {"ok": true} or {"error": text, "status": n}
 *   {"walk": seed, "soft": n, "most": n}  draw allowed tokens until the text ends, from token
 *       `soft` on towards the end, and `most` at most; answers {"hex": bytes, "ended": bool,
 * "tokens": n, "us_mean": x, "us_max": x}
 *   {"text": hex, "walk": seed}         feed a text until a token is refused, then walk on from
 * there
 *   {"text": hex, "seed": n}            feed a text as random tokens; answers {"accepted": bytes,
 *       "may_end": bool}: all that was taken before a token was not allowed
 *   {"ids": [...]}                      feed ids; answers {"accepted": ids, "may_end": bool}
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "constraint/vocabulary.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WALK_MAX = 1000, PARTS_MAX = 64, CHECKS = 16 };

typedef struct tool {
    glyd_vocabulary *vocabulary;
    glyd_grammar *grammar;
    int32_t stop;
    size_t n_words;
    uint64_t *mask;
    int32_t *allowed;
    uint64_t random;
} tool;

static uint64_t draw(tool *t)
{
    t->random ^= t->random >> 12;
    t->random ^= t->random << 25;
    t->random ^= t->random >> 27;
    return t->random * 0x2545F4914F6CDD1DULL >> 11;
}

static json_t *failure(const char *text, int status)
{
    return json_pack("{s:s, s:i}", "error", text, "status", status);
}

/* --- parts --- */

static glyd_span span_of(const json_t *text)
{
    return (glyd_span){(const uint8_t *)json_string_value(text), json_string_length(text)};
}

static glyd_part read_part(const json_t *json, glyd_part *pool, size_t *n_pool)
{
    static const struct {
        const char *name;
        glyd_part_kind kind;
    } kinds[] = {{"literal", GLYD_PART_LITERAL},   {"regex", GLYD_PART_REGEX},
                 {"until", GLYD_PART_UNTIL},       {"token", GLYD_PART_TOKEN},
                 {"schema", GLYD_PART_SCHEMA},     {"object", GLYD_PART_OBJECT},
                 {"sequence", GLYD_PART_SEQUENCE}, {"choice", GLYD_PART_CHOICE}};
    glyd_part part = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const json_t *value = json_object_get(json, kinds[i].name);
        if (!value)
            continue;
        part.kind = kinds[i].kind;
        part.text = json_is_string(value) ? span_of(value) : (glyd_span){NULL, 0};
        part.schema = value;
        part.id = (int32_t)json_integer_value(value);
        if (part.kind == GLYD_PART_SEQUENCE || part.kind == GLYD_PART_CHOICE) {
            size_t at = *n_pool, n = json_array_size(value);
            if (at + n > PARTS_MAX)
                break;
            *n_pool += n;
            for (size_t j = 0; j < n; j++)
                pool[at + j] = read_part(json_array_get(value, j), pool, n_pool);
            part.parts = pool + at;
            part.n_parts = n;
        }
    }
    part.min = (int)json_integer_value(json_object_get(json, "min"));
    part.max = (int)json_integer_value(json_object_get(json, "max"));
    return part;
}

static json_t *compile(tool *t, const json_t *request)
{
    glyd_part pool[PARTS_MAX];
    size_t n_pool = 0;
    glyd_part part = read_part(json_object_get(request, "grammar"), pool, &n_pool);
    const json_t *white = json_object_get(request, "whitespace");
    glyd_grammar_options options = {(int)json_integer_value(white)};
    glyd_error err = {0};
    glyd_grammar_free(t->grammar);
    t->grammar = NULL;
    glyd_status status = glyd_grammar_create(&part, white ? &options : NULL, &t->grammar, &err);
    return status == GLYD_OK ? json_pack("{s:b}", "ok", 1) : failure(err.text, (int)status);
}

/* --- walks --- */

/* The mask, the ids in it and how many there are; -1: it failed. */
static int32_t read_mask(tool *t, glyd_constraint *c, double *us)
{
    memset(t->mask, 0xFF, t->n_words * sizeof *t->mask);
    double start = glyd_clock_s();
    glyd_status status = glyd_constraint_mask(c, t->mask, t->n_words, NULL);
    *us = (glyd_clock_s() - start) * 1e6;
    if (status != GLYD_OK)
        return -1;
    int32_t n = 0;
    for (size_t i = 0; i < t->n_words; i++)
        for (uint64_t word = t->mask[i]; word; word &= word - 1)
            t->allowed[n++] = (int32_t)(i * 64) + __builtin_ctzll(word);
    return n;
}

static bool is_in_mask(const tool *t, int32_t id)
{
    return t->mask[id / 64] >> id % 64 & 1;
}

/* An allowed id; `is_ending`: one that leads out where there is one. */
static int32_t pick(tool *t, int32_t n, bool is_ending)
{
    if (is_ending) {
        if (is_in_mask(t, t->stop))
            return t->stop;
        for (const char *byte = "\"]}"; *byte; byte++) {
            for (int32_t i = 0; i < n; i++) {
                glyd_span token = glyd_vocabulary_token(t->vocabulary, t->allowed[i]);
                if (token.bytes == 1 && token.data[0] == (uint8_t)*byte)
                    return t->allowed[i];
            }
        }
    }
    return t->allowed[draw(t) % (uint64_t)n];
}

static json_t *hex_of(const glyd_buf *text)
{
    static const char digits[] = "0123456789abcdef";
    char *hex = malloc(2 * text->bytes + 1);
    for (size_t i = 0; i < text->bytes; i++) {
        hex[2 * i] = digits[text->data[i] >> 4];
        hex[2 * i + 1] = digits[text->data[i] & 15];
    }
    json_t *value = json_stringn(hex, 2 * text->bytes);
    free(hex);
    return value;
}

/* What the mask leaves out must be refused, and leave the state alone. */
static bool refuses_others(tool *t, glyd_constraint *c)
{
    for (int i = 0; i < CHECKS; i++) {
        int32_t id = (int32_t)(draw(t) % (uint64_t)t->vocabulary->n);
        if (!is_in_mask(t, id) && glyd_constraint_accept(c, id, NULL) == GLYD_OK)
            return false;
    }
    return true;
}

/* `text` holds what was accepted before. */
static json_t *walk(tool *t, const json_t *request, glyd_constraint *c, glyd_buf text)
{
    int64_t soft = json_integer_value(json_object_get(request, "soft"));
    int64_t most = json_integer_value(json_object_get(request, "most"));
    double us, us_sum = 0, us_max = 0;
    const char *wrong = NULL;
    bool ended = false;
    int n = 0;
    for (; n < (most ? most : WALK_MAX) && !ended && !wrong; n++) {
        int32_t n_allowed = read_mask(t, c, &us);
        us_sum += us;
        us_max = us > us_max ? us : us_max;
        if (n_allowed <= 0) {
            wrong = "no token is allowed";
            break;
        }
        if (glyd_constraint_may_end(c) != is_in_mask(t, t->stop) ||
            (glyd_constraint_is_finished(c) && n_allowed != 1))
            wrong = "the mask and the end do not agree";
        if (!refuses_others(t, c))
            wrong = "a token outside the mask was accepted";
        int32_t id = pick(t, n_allowed, n >= soft);
        if (glyd_constraint_accept(c, id, NULL) != GLYD_OK)
            wrong = "a token of the mask was refused";
        ended = id == t->stop;
        glyd_span token = glyd_vocabulary_token(t->vocabulary, id);
        if (!ended && token.bytes && glyd_buf_append(&text, token.data, token.bytes) != GLYD_OK)
            wrong = "out of memory";
    }
    json_t *answer =
        wrong ? json_pack("{s:s, s:i, s:o}", "error", wrong, "status", -1, "hex", hex_of(&text))
              : json_pack("{s:o, s:b, s:i, s:f, s:f}", "hex", hex_of(&text), "ended", ended,
                          "tokens", n, "us_mean", us_sum / (n ? n : 1), "us_max", us_max);
    glyd_buf_free(&text);
    return answer;
}

/* --- given texts --- */

static int nibble(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* A token that a text begins with, one of those drawn at random. */
static int32_t token_of(tool *t, const uint8_t *text, size_t bytes)
{
    int32_t found = -1, n = 0;
    const glyd_trie *tries[] = {&t->vocabulary->plain, &t->vocabulary->other};
    for (int k = 0; k < 2; k++) {
        const glyd_trie_node *nodes = (const glyd_trie_node *)(const void *)tries[k]->nodes.data;
        const int32_t *ids = (const int32_t *)(const void *)tries[k]->ids.data;
        for (uint32_t i = 0; i < tries[k]->n;) {
            const glyd_trie_node *node = &nodes[i];
            if (node->depth > bytes || text[node->depth - 1] != node->byte) {
                i = node->skip;
                continue;
            }
            if (node->n_ids > 0 && draw(t) % (uint64_t)++n == 0)
                found = ids[node->ids];
            i++;
        }
    }
    return found;
}

/* Feed a text as random tokens until one is refused; returns what is wrong with the answers. */
static const char *feed(tool *t, const uint8_t *text, size_t bytes, glyd_constraint *c, size_t *at)
{
    double us;
    for (*at = 0; *at < bytes;) {
        int32_t id = token_of(t, text + *at, bytes - *at);
        bool is_allowed = id >= 0 && read_mask(t, c, &us) > 0 && is_in_mask(t, id);
        if (id >= 0 && (glyd_constraint_accept(c, id, NULL) == GLYD_OK) != is_allowed)
            return "mask and accept do not agree";
        if (!is_allowed)
            break;
        *at += glyd_vocabulary_token(t->vocabulary, id).bytes;
    }
    return NULL;
}

static json_t *feed_text(tool *t, const json_t *request, glyd_constraint *c)
{
    const char *hex = json_string_value(json_object_get(request, "text"));
    size_t bytes = hex ? strlen(hex) / 2 : 0, at = 0;
    glyd_buf text = {0};
    if (glyd_buf_resize(&text, bytes) != GLYD_OK)
        return failure("out of memory", -1);
    for (size_t i = 0; i < bytes; i++)
        text.data[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
    const char *wrong = feed(t, text.data, bytes, c, &at);
    text.bytes = at;
    if (!wrong && json_object_get(request, "walk"))
        return walk(t, request, c, text);
    glyd_buf_free(&text);
    if (wrong)
        return failure(wrong, -1);
    return json_pack("{s:I, s:b}", "accepted", (json_int_t)at, "may_end",
                     glyd_constraint_may_end(c));
}

static json_t *feed_ids(const json_t *request, glyd_constraint *c)
{
    const json_t *ids = json_object_get(request, "ids");
    size_t n = 0;
    while (n < json_array_size(ids) &&
           glyd_constraint_accept(c, (int32_t)json_integer_value(json_array_get(ids, n)), NULL) ==
               GLYD_OK)
        n++;
    return json_pack("{s:I, s:b}", "accepted", (json_int_t)n, "may_end",
                     glyd_constraint_may_end(c));
}

static json_t *answer_line(tool *t, const json_t *request)
{
    if (json_object_get(request, "grammar"))
        return compile(t, request);
    glyd_constraint *c = NULL;
    glyd_error err = {0};
    if (!t->grammar)
        return failure("no grammar", -1);
    glyd_status status = glyd_constraint_create(t->grammar, t->vocabulary, &t->stop, 1, &c, &err);
    if (status != GLYD_OK)
        return failure(err.text, (int)status);
    const json_t *seed = json_object_get(request, "walk");
    if (!seed)
        seed = json_object_get(request, "seed");
    t->random = (uint64_t)json_integer_value(seed) * 0x9E3779B97F4A7C15ULL + 1;
    json_t *answer = json_object_get(request, "text")   ? feed_text(t, request, c)
                     : json_object_get(request, "walk") ? walk(t, request, c, (glyd_buf){0})
                                                        : feed_ids(request, c);
    glyd_constraint_free(c);
    return answer;
}

static glyd_status make_bytes(tool *t, glyd_error *err)
{
    uint8_t bytes[256];
    glyd_span tokens[257] = {{NULL, 0}};
    for (int i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)i;
        tokens[i] = (glyd_span){bytes + i, 1};
    }
    t->stop = 256;
    return glyd_vocabulary_from_bytes(tokens, 257, &t->vocabulary, err);
}

static glyd_status make_real(tool *t, const char *path, glyd_error *err)
{
    glyd_buf json = {0};
    glyd_tokenizer *tokenizer = NULL;
    glyd_status status = glyd_file_read(path, GLYD_TEXT_BYTES_MAX, &json, err);
    if (status == GLYD_OK)
        status = glyd_tokenizer_parse((glyd_span){json.data, json.bytes}, &tokenizer, err);
    if (status == GLYD_OK)
        status = glyd_vocabulary_create(tokenizer, &t->vocabulary, err);
    for (int32_t id = 0; status == GLYD_OK && id < glyd_tokenizer_vocab_size(tokenizer); id++)
        if (glyd_tokenizer_is_special(tokenizer, id))
            t->stop = id;
    glyd_tokenizer_close(tokenizer);
    glyd_buf_free(&json);
    return status;
}

static glyd_status make_list(tool *t, const char *path, glyd_error *err)
{
    glyd_buf file = {0}, tokens = {0};
    glyd_status status = glyd_file_read(path, GLYD_TEXT_BYTES_MAX, &file, err);
    for (size_t at = 0; status == GLYD_OK && at + 2 <= file.bytes;) {
        size_t n = (size_t)(file.data[at] | file.data[at + 1] << 8);
        glyd_span token = {file.data + at + 2, n};
        at += 2 + n;
        status = at <= file.bytes ? glyd_buf_append(&tokens, &token, sizeof token) : GLYD_E_FORMAT;
    }
    int32_t n = (int32_t)(tokens.bytes / sizeof(glyd_span));
    t->stop = n - 1;
    if (status == GLYD_OK)
        status = glyd_vocabulary_from_bytes((const glyd_span *)(const void *)tokens.data, n,
                                            &t->vocabulary, err);
    glyd_buf_free(&tokens);
    glyd_buf_free(&file);
    return status;
}

int main(int argc, char **argv)
{
    tool t = {0};
    glyd_error err = {0};
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    bool is_list = argc == 3 && strcmp(argv[1], "list") == 0;
    if (argc != 2 && !is_list)
        return 2;
    glyd_status status = is_list                         ? make_list(&t, argv[2], &err)
                         : strcmp(argv[1], "bytes") == 0 ? make_bytes(&t, &err)
                                                         : make_real(&t, argv[1], &err);
    if (status != GLYD_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    t.n_words = t.vocabulary->n_words + 1; /* a model may have more ids than its tokenizer */
    t.mask = malloc(t.n_words * sizeof *t.mask);
    t.allowed = malloc(t.n_words * 64 * sizeof *t.allowed);
    while ((n = getline(&line, &capacity, stdin)) > 0) {
        json_t *request = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        json_t *answer = request ? answer_line(&t, request) : failure("not a JSON object", -1);
        char *text = json_dumps(answer, JSON_COMPACT);
        puts(text ? text : "{\"error\":\"the answer is not JSON\",\"status\":-1}");
        fflush(stdout);
        free(text);
        json_decref(answer);
        json_decref(request);
    }
    free(line);
    free(t.mask);
    free(t.allowed);
    glyd_grammar_free(t.grammar);
    glyd_vocabulary_free(t.vocabulary);
    return 0;
}
