/* value.h - the values of the chat-template interpreter, and the arena they live in.
 *
 * Everything a compile or a render makes comes from one arena and is freed with it at once. The
 * arena has a byte limit and remembers its first failure: a function that gives NULL has set
 * arena->status and the error text, so callers write `if (!p) return arena->status`.
 *
 * Values are Python's as Jinja sees them. Strings are UTF-8 with their length in code points; an
 * integer has 64 bits; dicts keep insertion order. Lists and dicts cannot change once they are
 * reachable from a template (the sandbox refuses every mutating method), so sharing is safe and
 * cycles cannot arise, except through a namespace, which is printed without its members.
 *
 * Read next: ast.h (what a template is compiled to), run.h (how it is run).
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_JINJA_VALUE_H
#define GLYD_JINJA_VALUE_H

#include "glyd/base.h"
#include <stdbool.h>

typedef struct jinja_chunk jinja_chunk;

typedef struct jinja_arena {
    jinja_chunk *chunk; /* newest first */
    size_t bytes, bytes_max;
    glyd_status status; /* of the first allocation that failed */
    glyd_error *err;
} jinja_arena;

/* 16-byte aligned, not initialised; NULL with E_LIMIT or E_NOMEM recorded. */
void *glyd_jinja_alloc(jinja_arena *arena, size_t bytes);
void *glyd_jinja_zalloc(jinja_arena *arena, size_t bytes);
/* Grow an allocation, in place where it is the newest one. */
void *glyd_jinja_grow(jinja_arena *arena, void *data, size_t bytes_old, size_t bytes_new);
void glyd_jinja_arena_free(jinja_arena *arena);

typedef struct jinja_string {
    const char *data; /* valid UTF-8, not terminated */
    size_t bytes;
    size_t points; /* code points; equal to bytes where the text is ASCII */
} jinja_string;

typedef enum jinja_kind {
    JINJA_MISSING,   /* an argument that was not given; never reaches a template */
    JINJA_UNDEFINED, /* Jinja's Undefined, with what its error would say */
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_REAL,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_RANGE,
    JINJA_VIEW,      /* of dict.keys() and its kin: iterable, has a length, no index */
    JINJA_GENERATOR, /* of map, select, ...: iterable once, no length */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_MACRO,
    JINJA_FUNCTION,
    JINJA_METHOD,
    JINJA_LOOP,
    JINJA_CYCLER,
    JINJA_JOINER,
} jinja_kind;

typedef struct jinja_list jinja_list;
typedef struct jinja_dict jinja_dict;
typedef struct jinja_undefined jinja_undefined;
typedef struct jinja_macro jinja_macro;
typedef struct jinja_method jinja_method;
typedef struct jinja_loop jinja_loop;
typedef struct jinja_cycler jinja_cycler;
typedef struct jinja_joiner jinja_joiner;

typedef enum jinja_function {
    JINJA_FN_RAISE_EXCEPTION,
    JINJA_FN_STRFTIME_NOW,
    JINJA_FN_NAMESPACE,
    JINJA_FN_RANGE,
    JINJA_FN_DICT,
    JINJA_FN_JOINER,
    JINJA_FN_CYCLER,
    JINJA_FNS,
} jinja_function;

typedef struct jinja_value {
    jinja_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        const jinja_string *string;
        jinja_list *list; /* LIST, TUPLE, RANGE, VIEW, GENERATOR */
        jinja_dict *dict; /* DICT, NAMESPACE */
        const jinja_undefined *undefined;
        const jinja_macro *macro;
        jinja_function function;
        const jinja_method *method;
        jinja_loop *loop;
        jinja_cycler *cycler;
        jinja_joiner *joiner;
    } as;
} jinja_value;

struct jinja_list {
    jinja_value *items;
    size_t n, capacity;
    const char *label; /* VIEW: what Python prints before its items; else NULL */
};

struct jinja_dict {
    jinja_value *keys, *values;
    size_t n, capacity;
};

/* An undefined is a name that does not exist, a member that its owner lacks, or has a hint. */
struct jinja_undefined {
    const char *hint;  /* a whole message, or NULL */
    jinja_value owner; /* MISSING: `key` is a variable's name */
    jinja_value key;
};

struct jinja_cycler {
    const jinja_value *items;
    size_t n, at;
};

struct jinja_joiner {
    const jinja_string *separator;
    bool used;
};

static inline jinja_value jinja_missing(void)
{
    return (jinja_value){.kind = JINJA_MISSING};
}

static inline jinja_value jinja_none(void)
{
    return (jinja_value){.kind = JINJA_NONE};
}

static inline jinja_value jinja_bool(bool truth)
{
    return (jinja_value){.kind = JINJA_BOOL, .as.truth = truth};
}

static inline jinja_value jinja_int(int64_t integer)
{
    return (jinja_value){.kind = JINJA_INT, .as.integer = integer};
}

static inline jinja_value jinja_real(double real)
{
    return (jinja_value){.kind = JINJA_REAL, .as.real = real};
}

static inline jinja_value jinja_text(const jinja_string *string)
{
    return (jinja_value){.kind = JINJA_STRING, .as.string = string};
}

static inline jinja_value jinja_seq(jinja_kind kind, jinja_list *list)
{
    return (jinja_value){.kind = kind, .as.list = list};
}

/* Python's int-or-bool, which arithmetic, indexes and comparisons treat alike. */
static inline bool jinja_is_int(jinja_value v)
{
    return v.kind == JINJA_INT || v.kind == JINJA_BOOL;
}

static inline int64_t jinja_as_int(jinja_value v)
{
    return v.kind == JINJA_BOOL ? v.as.truth : v.as.integer;
}

static inline bool jinja_is_number(jinja_value v)
{
    return jinja_is_int(v) || v.kind == JINJA_REAL;
}

static inline double jinja_as_real(jinja_value v)
{
    return v.kind == JINJA_REAL ? v.as.real : (double)jinja_as_int(v);
}

/* --- strings (utf8.c) --- */

/* A string over bytes that live as long as the arena, or over a copy of them. */
const jinja_string *glyd_jinja_string_view(jinja_arena *arena, const char *data, size_t bytes);
const jinja_string *glyd_jinja_string_copy(jinja_arena *arena, const char *data, size_t bytes);
bool glyd_jinja_string_is(const jinja_string *s, const char *text);
bool glyd_jinja_string_equal(const jinja_string *a, const jinja_string *b);
int glyd_jinja_string_compare(const jinja_string *a, const jinja_string *b);

/* Byte offset of a code point (point <= s->points). */
size_t glyd_jinja_string_offset(const jinja_string *s, size_t point);
/* First (or last) byte offset of `what` in [from, to); SIZE_MAX where it is not. */
size_t glyd_jinja_string_find(const jinja_string *s, const jinja_string *what, size_t from,
                              size_t to);
size_t glyd_jinja_string_rfind(const jinja_string *s, const jinja_string *what, size_t from,
                               size_t to);

/* Decode the code point at data[0], in valid UTF-8; gives its bytes. */
size_t glyd_jinja_decode(const char *data, int32_t *point);
/* Encode into at most 4 bytes; gives their number. */
size_t glyd_jinja_encode(int32_t point, char *out);
/* True where all bytes are valid UTF-8 (no surrogates, nothing above U+10FFFF). */
bool glyd_jinja_is_utf8(const char *data, size_t bytes);

bool glyd_jinja_point_is_space(int32_t point);    /* as str.isspace */
bool glyd_jinja_point_is_line_end(int32_t point); /* as str.splitlines; CR LF is one */
bool glyd_jinja_point_is_alpha(int32_t point);
bool glyd_jinja_point_is_decimal(int32_t point);
bool glyd_jinja_point_is_digit(int32_t point);
bool glyd_jinja_point_is_numeric(int32_t point);
bool glyd_jinja_point_is_printable(int32_t point);
bool glyd_jinja_point_is_upper(int32_t point);
bool glyd_jinja_point_is_lower(int32_t point);
bool glyd_jinja_point_is_title(int32_t point);

/* --- numbers (repr.c) --- */

/* Python's float(text) and int(text, base); false where it would raise ValueError. */
bool glyd_jinja_parse_real(const jinja_string *s, double *out);
bool glyd_jinja_parse_int(const jinja_string *s, int base, int64_t *out, bool *overflow);

/* --- growing text (arena.c) --- */

typedef struct jinja_builder {
    jinja_arena *arena;
    char *data;
    size_t bytes, capacity, bytes_max; /* bytes_max 0: bounded by the arena alone */
} jinja_builder;

GLYD_MUST_CHECK glyd_status glyd_jinja_put(jinja_builder *b, const char *data, size_t bytes);
GLYD_MUST_CHECK glyd_status glyd_jinja_put_text(jinja_builder *b, const char *text);
GLYD_MUST_CHECK glyd_status glyd_jinja_put_string(jinja_builder *b, const jinja_string *s);
GLYD_MUST_CHECK glyd_status glyd_jinja_put_point(jinja_builder *b, int32_t point);
GLYD_MUST_CHECK glyd_status glyd_jinja_put_repeated(jinja_builder *b, const jinja_string *s,
                                                    size_t times);
/* The text so far as a string that shares the builder's bytes; add nothing to it afterwards. */
GLYD_MUST_CHECK glyd_status glyd_jinja_build(jinja_builder *b, jinja_value *out);

/* --- containers (arena.c) --- */

jinja_list *glyd_jinja_list_new(jinja_arena *arena, size_t capacity);
GLYD_MUST_CHECK glyd_status glyd_jinja_list_add(jinja_arena *arena, jinja_list *list,
                                                jinja_value item);
jinja_dict *glyd_jinja_dict_new(jinja_arena *arena, size_t capacity);
/* Append without looking for the key. */
GLYD_MUST_CHECK glyd_status glyd_jinja_dict_add(jinja_arena *arena, jinja_dict *dict,
                                                jinja_value key, jinja_value value);
/* The value of a string key, NULL where there is none. */
jinja_value *glyd_jinja_dict_text(const jinja_dict *dict, const jinja_string *key);

#endif
