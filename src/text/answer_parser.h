/* answer_parser.h - the parser's parts, shared by answer.c, answer_call.c, answer_json.c and
 * answer_tagged.c.
 *
 * answer.c turns text and ids into symbols, a byte or a mark each, and gives every symbol to where
 * the answer is: content, reasoning, a call, or the gap after a call. A call starts as a candidate,
 * kept as written in `raw`: it is committed (its name goes out, `raw` is dropped) or refused (`raw`
 * is text).
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEXT_ANSWER_PARSER_H
#define GLYD_TEXT_ANSWER_PARSER_H

#include "base/buf.h"
#include "base/error.h"
#include "text/answer.h"

enum { ANSWER_NO_MARK = -1, ANSWER_NAME_BYTES_MAX = 256 };

typedef struct answer_symbol {
    int mark;       /* a glyd_answer_mark, or ANSWER_NO_MARK */
    uint8_t byte;   /* where it is no mark */
    bool is_hidden; /* the mark came as a special token, which has no text of its own */
} answer_symbol;

typedef enum answer_place {
    ANSWER_AT_CONTENT,
    ANSWER_AT_REASONING,
    ANSWER_AT_CALL,
    ANSWER_AT_GAP, /* after a call: white space, what closes it, the next one */
} answer_place;

typedef enum answer_step {
    ANSWER_MORE,   /* the symbol was taken */
    ANSWER_REFUSE, /* the symbol does not fit and was not taken */
    ANSWER_ENDED,  /* the symbol was taken, and it was the last */
} answer_step;

typedef enum call_state {
    CALL_START,       /* after what opens a call, or a list of calls */
    CALL_LIST,        /* mistral: after "[" */
    CALL_JSON,        /* an object with name and arguments */
    CALL_NAME,        /* mistral: NAME */
    CALL_ID,          /* mistral: [CALL_ID] */
    CALL_HEAD,        /* deepseek: up to the separator */
    CALL_FENCED_NAME, /* deepseek: up to the end of the line */
    CALL_BEFORE,      /* the arguments come next */
    CALL_ARGUMENTS,   /* inside them, where they stand alone */
    CALL_TAGGED,      /* qwen3_coder, after its name */
    CALL_FUNCTION,    /* qwen3_coder: NAME> */
} call_state;

/* An object with name and arguments, or arguments alone; answer_json.c. */
typedef struct answer_json {
    int state;
    int role;        /* what the value is: see answer_json.c */
    uint8_t form;    /* of the value: its first byte, or 's' for true, false, null and numbers */
    bool in_string;  /* inside a string of a container */
    bool is_escaped; /* after a backslash */
    bool is_streaming;
    bool has_name, has_arguments; /* whole */
    int64_t depth;
    glyd_buf text; /* the key, or the name as written */
    glyd_buf arguments;
} answer_json;

typedef enum tagged_state {
    TAGGED_BETWEEN, /* before a parameter, or the end */
    TAGGED_KEY,
    TAGGED_VALUE,
    TAGGED_CLOSED, /* after what may be the end of a value */
} tagged_state;

typedef struct answer_tagged {
    tagged_state state;
    const json_t *parameters; /* the schema; NULL: unknown */
    unsigned types;           /* that the value may have */
    bool is_first_byte;       /* of the value */
    bool is_line_start;       /* of a line of the value */
    bool is_left_out;         /* a key that was there before */
    json_t *keys;             /* that were there */
    glyd_buf key, value;
    glyd_buf tail; /* after the value's text: dropped where the value ends, else part of it */
} answer_tagged;

struct glyd_answer {
    const glyd_answer_format *format;
    glyd_answer_options options;
    glyd_answer_fn fn;
    void *arg;
    glyd_error *err; /* of the push that runs */
    size_t bytes;    /* pushed so far */
    bool has_id;     /* the push that runs: marks with ids are known by them alone */
    bool is_finished;
    glyd_buf held; /* what may be the beginning of a mark */
    glyd_buf out;  /* text to be passed on, of kind out_kind */
    glyd_answer_kind out_kind;

    answer_place place;
    bool is_fresh;  /* content or reasoning: white space alone so far, in `space` */
    bool may_think; /* reasoning may still begin */
    glyd_buf space; /* white space, or what stands between calls */

    int n_calls;
    bool is_muted; /* the call is left out */
    bool is_done;
    call_state call;
    answer_place fallback; /* where a refused candidate goes back to */
    bool is_marked;        /* the candidate began with a mark */
    bool is_committed;
    bool is_list;   /* mistral: inside [ ] */
    bool is_closed; /* gap: what closes the call was there */
    glyd_buf raw;   /* the candidate as written */
    glyd_buf name;
    answer_json json;
    answer_tagged tagged;
};

/* --- answer.c --- */

/* Append to a buffer; sets the error text. */
glyd_status glyd_answer_keep(glyd_answer *a, glyd_buf *buf, const void *data, size_t bytes);
/* Pass text on, of a kind that has text. */
glyd_status glyd_answer_emit(glyd_answer *a, glyd_answer_kind kind, const void *data, size_t bytes);
/* A call ends. */
glyd_status glyd_answer_emit_end(glyd_answer *a, bool is_complete);
/* The text of a symbol, of at most one mark's length. */
glyd_span glyd_answer_symbol_text(const glyd_answer *a, const answer_symbol *symbol);
bool glyd_answer_is_space(const answer_symbol *symbol);
static inline bool answer_is_byte(const answer_symbol *symbol, uint8_t byte)
{
    return symbol->mark == ANSWER_NO_MARK && symbol->byte == byte;
}

/* --- answer_call.c --- */

/* A candidate begins; the symbol that opens it goes to `raw`. */
glyd_status glyd_answer_call_open(glyd_answer *a, const answer_symbol *symbol, call_state state);
/* The candidate in `name` is a call: say so. */
glyd_status glyd_answer_call_commit(glyd_answer *a);
/* Whether a call of `name` is believed where no mark says that it is one. */
bool glyd_answer_call_is_believed(const glyd_answer *a);
/* Take a symbol inside a call. *again: it was not taken, and the place has changed. */
glyd_status glyd_answer_call_step(glyd_answer *a, const answer_symbol *symbol, bool *again);
/* The same in the gap after one. */
glyd_status glyd_answer_gap_step(glyd_answer *a, const answer_symbol *symbol, bool *again);
/* The answer ends inside a call. */
glyd_status glyd_answer_call_finish(glyd_answer *a);

/* The function of the tool list with the name; NULL where there is none. */
const json_t *glyd_answer_function(const json_t *tool_list, const char *name, size_t bytes);

/* --- answer_json.c --- */

void glyd_answer_json_start(answer_json *json); /* before "{" */
void glyd_answer_json_deinit(answer_json *json);
/* The arguments alone begin with this symbol; the call must be committed. */
glyd_status glyd_answer_json_arguments(glyd_answer *a, const answer_symbol *symbol);
glyd_status glyd_answer_json_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step);
/* Any JSON value; NULL where the text is none. Errors: E_NOMEM. */
glyd_status glyd_answer_json_decode(const void *text, size_t bytes, json_t **value,
                                    glyd_error *err);

/* --- answer_tagged.c --- */

glyd_status glyd_answer_tagged_start(glyd_answer *a);
void glyd_answer_tagged_deinit(answer_tagged *tagged);
glyd_status glyd_answer_tagged_step(glyd_answer *a, const answer_symbol *symbol, answer_step *step);

#endif
