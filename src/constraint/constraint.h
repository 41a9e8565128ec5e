/* constraint.h - which token may come next, so that a model can write only what a grammar allows.
 *
 * Three objects:
 *   glyd_grammar     what texts are allowed: JSON of a schema, a regular expression, literal texts,
 *                    and sequences of these. Compiled once a request.
 *   glyd_vocabulary  a tokenizer's tokens as bytes, in a trie. Built once a model.
 *   glyd_constraint  where one sequence is in a grammar: mask, accept, mask, accept...
 *
 * What cannot be held is refused when the grammar is made; nothing is ignored silently.
 *
 * Threads    grammars and vocabularies are read-only once made: any number of threads may use them.
 *            A constraint belongs to one thread at a time and must outlive neither.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CONSTRAINT_CONSTRAINT_H
#define GLYD_CONSTRAINT_CONSTRAINT_H

#include "glyd/base.h"
#include "text/text.h"
#include <jansson.h>
#include <stdbool.h>

/* --- grammars ---
 *
 * JSON Schema, as held here (draft 2020-12 with "definitions" and "nullable"):
 *   held       type (one or several), enum, const, properties, required, additionalProperties,
 *              patternProperties (one pattern, without the three before), multipleOf (integers),
 *              items, prefixItems, minItems, maxItems, anyOf, oneOf, allOf, $ref (to "#..." within
 *              the schema, recursive too), $defs, definitions, minLength, maxLength, pattern,
 *              format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, nullable; the schemas
 *              true and false
 *   ignored    title, description, default, example, examples, deprecated, readOnly, writeOnly,
 *              $schema, $id, $comment, $anchor, discriminator, contentEncoding, contentMediaType,
 *              names that start with "x-", and format beside a type that is no string;
 *              propertyNames {"type": "string"}, minProperties 0 and an empty dependentRequired,
 *              which allow everything
 *   refused    everything else, by name: E_UNSUPPORTED
 * What is narrower than JSON Schema says (each text is valid, some valid texts are left out):
 *   - Where type is absent, values are of the types that the other keywords are about: an object
 *     where properties is there. Any type without such keywords.
 *   - An object has its properties in the order of the schema, then additional ones; optional ones
 *     may be left out. additionalProperties absent means false where `properties` is there, and
 *     true where it is not; beside a pattern it means false. A name is written without needless
 * escapes. An additional one never has the name of one in `properties`, but two additional ones may
 * have the same name.
 *   - Whitespace between tokens is at most whitespace_max bytes in a place; none before and after.
 *   - Values of enum and const are compact JSON. These, names and strings with a pattern or
 *     a format are written with only the escapes that JSON needs (\" \\ \b \f \n \r \t, and \u00XX
 *     for other control characters). Elsewhere any escape will do; a surrogate's is half of
 *     a pair.
 *   - Integers have no fraction and no exponent, and at most 32 digits. Numbers have at most 32
 *     digits before and after the point and an exponent between -999 and 199; with a minimum or a
 *     maximum they have no exponent, and with an exclusive one at most 15 digits or so. A number's
 *     bound has at most 15 digits, an integer's fits 63 bits.
 *   - A multipleOf is a whole number. With a minimum and a maximum at most 1,024 values lie
 * between; with one or none that one is 0, numbers have at most 15 digits and more, and the
 * multipleOf is at most 256 after its factors of ten are taken out.
 *   - oneOf is held where no two of its schemas share a text: different types, different constants
 *     of one required property, disjoint enums; otherwise it is refused. allOf, and keywords beside
 *     $ref, anyOf and oneOf, are held where they can be put into one schema. Beside enum and const
 *     only type is.
 *   - format: date, time, date-time, duration, uuid, email, hostname, ipv4, ipv6, uri; any other
 *     is refused. Beside pattern or format, minLength and maxLength are held where the
 *     pattern is one character repeated or keeps to the length by itself.
 *
 * Regular expressions are those that ECMA-262 and Python agree on: . | * + ? {m,n} (also lazy),
 * (...) (?:...) named groups, [...], \d \w \s (ASCII) and their complements, \n \r \t \f \v \0,
 * \xHH \uHHHH \u{H..}, ^ and $ at the ends. Lookaround, backreferences, \b, \p and flags are
 * refused. A whole text must match; a schema's `pattern` is searched for, as JSON Schema says.
 */
typedef struct glyd_grammar glyd_grammar;

enum {
    GLYD_GRAMMAR_STATES_MAX = 1 << 18,  /* of a compiled grammar */
    GLYD_GRAMMAR_DEPTH_MAX = 128,       /* of nested schemas, groups and parts */
    GLYD_CONSTRAINT_NESTING_MAX = 2000, /* of open parts of the text at one time */
};

typedef struct glyd_grammar_options {
    int whitespace_max; /* bytes in one place; 0: JSON is written without any */
} glyd_grammar_options;

/* 32 bytes of whitespace. */
glyd_grammar_options glyd_grammar_options_default(void);

typedef enum glyd_part_kind {
    GLYD_PART_LITERAL,  /* `text` as it is; UTF-8 */
    GLYD_PART_REGEX,    /* a text that matches `text` as a whole */
    GLYD_PART_UNTIL,    /* any text up to the first `text`, and that */
    GLYD_PART_TOKEN,    /* the special token `id` */
    GLYD_PART_SCHEMA,   /* JSON that is valid for `schema` */
    GLYD_PART_OBJECT,   /* any JSON object */
    GLYD_PART_SEQUENCE, /* `parts`, one after another */
    GLYD_PART_CHOICE,   /* one of `parts` */
} glyd_part_kind;

/* A piece of a grammar. Borrowed, for the time of the call that takes it. */
typedef struct glyd_part {
    glyd_part_kind kind;
    glyd_span text;
    const json_t *schema;
    const struct glyd_part *parts;
    size_t n_parts;
    int32_t id;
    int min, max; /* how often; both 0: once. max < 0: any number of times */
} glyd_part;

/* Compile. `options` may be NULL. For forced calls of tools f and g, one or several:
 *   CHOICE min 1 max -1 of, for each tool, SEQUENCE of LITERAL "<tool_call>\n{\"name\": \"f\",
 *   \"arguments\": ", SCHEMA, LITERAL "}\n</tool_call>\n"
 * Errors: E_UNSUPPORTED (names the keyword and its JSON pointer, or the construct of a pattern and
 * its offset), E_FORMAT (a schema or pattern that is wrong, or that no text can match), E_LIMIT
 * (too large or too deep), E_ARG (a part without what its kind needs), E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_grammar_create(const glyd_part *part,
                                                const glyd_grammar_options *options,
                                                glyd_grammar **grammar, glyd_error *err);
void glyd_grammar_free(glyd_grammar *grammar); /* NULL is allowed */

/* The same for one part alone. */
GLYD_MUST_CHECK glyd_status glyd_grammar_from_schema(const json_t *schema,
                                                     const glyd_grammar_options *options,
                                                     glyd_grammar **grammar, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_grammar_from_object(const glyd_grammar_options *options,
                                                     glyd_grammar **grammar, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_grammar_from_regex(const char *pattern, size_t bytes,
                                                    glyd_grammar **grammar, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_grammar_from_choice(const glyd_span *texts, size_t n,
                                                     glyd_grammar **grammar, glyd_error *err);

/* --- the vocabulary --- */

typedef struct glyd_vocabulary glyd_vocabulary;

/* The bytes of each token are what it adds to a text that has begun; byte-level and byte-fallback
 * tokens count as their bytes. Special tokens match nothing but a TOKEN part. The tokenizer is not
 * kept. Errors: E_NOMEM, E_LIMIT. */
GLYD_MUST_CHECK glyd_status glyd_vocabulary_create(const glyd_tokenizer *tokenizer,
                                                   glyd_vocabulary **vocabulary, glyd_error *err);

/* The same from token bytes: tokens[i] is token i's text, empty where it has none. */
GLYD_MUST_CHECK glyd_status glyd_vocabulary_from_bytes(const glyd_span *tokens, int32_t n,
                                                       glyd_vocabulary **vocabulary,
                                                       glyd_error *err);
void glyd_vocabulary_free(glyd_vocabulary *vocabulary); /* NULL is allowed */

/* --- one sequence --- */

typedef struct glyd_constraint glyd_constraint;

/* At the start of a text. Stop ids end the text; they are matched by no part. All memory is taken
 * here (about 16 MiB, most of it untouched by a small grammar): mask and accept allocate nothing.
 * Errors: E_ARG (no stop id in the vocabulary), E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_constraint_create(const glyd_grammar *grammar,
                                                   const glyd_vocabulary *vocabulary,
                                                   const int32_t *stop_ids, int n_stop_ids,
                                                   glyd_constraint **constraint, glyd_error *err);
void glyd_constraint_free(glyd_constraint *constraint); /* NULL is allowed */

/* Clear the bit of each id that may not come next; bit id % 64 of word id / 64. Ids that the
 * vocabulary does not have are cleared. Stop ids stay only where the text may end, and alone where
 * it must. Masks are kept by state, so a state that was met before costs a copy.
 * Errors: E_LIMIT (deeper than GLYD_CONSTRAINT_NESTING_MAX, or no room or time for the ways
 * to read the text, or no token of the vocabulary can go on): all bits are cleared, and the request
 * must end.
 */
GLYD_MUST_CHECK glyd_status glyd_constraint_mask(glyd_constraint *constraint, uint64_t *allowed,
                                                 size_t n_words, glyd_error *err);

/* Take the id that was drawn. Errors: E_ARG (an id that may not come; the state is as it was),
 * E_LIMIT. */
GLYD_MUST_CHECK glyd_status glyd_constraint_accept(glyd_constraint *constraint, int32_t id,
                                                   glyd_error *err);

/* Whether the text may end here, and whether it has ended (a stop id came) or must end here. */
bool glyd_constraint_may_end(const glyd_constraint *constraint);
bool glyd_constraint_is_finished(const glyd_constraint *constraint);

#endif
