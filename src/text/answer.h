/* answer.h - what a model wrote, taken apart: content, reasoning and tool calls; and the way back,
 * messages with tool calls made ready for a chat template.
 *
 *   glyd_answer_format   how a model writes calls and reasoning: chosen once a model
 *   glyd_answer          the parser of one answer, fed as the text comes
 *   glyd_answer_shape    what a forced call looks like, for a constraint
 *
 * Events do not depend on the cuts: the same answer in any pieces gives the same content, reasoning
 * and calls. Nothing is written anew: argument fragments, put together, are the bytes that the
 * model wrote, but for what has no JSON of its own (the tagged values of qwen3_coder, arguments
 * that are absent, null, or JSON inside a string).
 *
 * Threads    a format is read-only once chosen. A parser belongs to one thread at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEXT_ANSWER_H
#define GLYD_TEXT_ANSWER_H

#include "glyd/base.h"
#include "text/text.h"
#include <jansson.h>
#include <stdbool.h>

/* --- formats --- */

/* X(name, text). The text is the name in options and in the settings line. */
#define GLYD_ANSWER_CALLS_LIST(X)                                                                  \
    X(NONE, "none")                                                                                \
    X(HERMES, "hermes")           /* <tool_call>{"name", "arguments"}</tool_call> */               \
    X(QWEN3_CODER, "qwen3_coder") /* <function=NAME><parameter=KEY>value</parameter>... */         \
    X(LLAMA3_JSON, "llama3_json") /* {"name", "parameters"}, perhaps after <|python_tag|> */       \
    X(MISTRAL, "mistral")         /* [TOOL_CALLS][{...}], or [TOOL_CALLS]NAME[ARGS]{...} */        \
    X(DEEPSEEK_R1, "deepseek_r1") /* a list of calls with fenced JSON, or V3.1's without */

typedef enum glyd_answer_calls {
#define GLYD_ANSWER_CALLS_ENUM(name, text) GLYD_ANSWER_CALLS_##name,
    GLYD_ANSWER_CALLS_LIST(GLYD_ANSWER_CALLS_ENUM)
#undef GLYD_ANSWER_CALLS_ENUM
        GLYD_ANSWER_CALLS_KINDS
} glyd_answer_calls;

#define GLYD_ANSWER_REASONING_LIST(X)                                                              \
    X(NONE, "none")                                                                                \
    X(THINK, "think")     /* <think>...</think> */                                                 \
    X(MISTRAL, "mistral") /* [THINK]...[/THINK] */

typedef enum glyd_answer_reasoning {
#define GLYD_ANSWER_REASONING_ENUM(name, text) GLYD_ANSWER_REASONING_##name,
    GLYD_ANSWER_REASONING_LIST(GLYD_ANSWER_REASONING_ENUM)
#undef GLYD_ANSWER_REASONING_ENUM
        GLYD_ANSWER_REASONING_KINDS
} glyd_answer_reasoning;

/* The texts that formats are made of. Which ones a format uses is in answer_format.c. */
typedef enum glyd_answer_mark {
    GLYD_MARK_THINK,     /* reasoning begins */
    GLYD_MARK_THINK_END, /* and ends */
    GLYD_MARK_OPEN,      /* a call, or a list of calls, begins */
    GLYD_MARK_CLOSE,     /* and ends */
    GLYD_MARK_CALL,      /* deepseek_r1: one call of the list begins */
    GLYD_MARK_CALL_END,  /* and ends */
    GLYD_MARK_SEPARATOR, /* deepseek_r1: between kind and name; mistral: [ARGS] */
    GLYD_MARK_ID,        /* mistral: [CALL_ID] */
    GLYD_MARK_FUNCTION,  /* qwen3_coder: <function= */
    GLYD_MARK_FUNCTION_END,
    GLYD_MARK_PARAMETER, /* qwen3_coder: <parameter= */
    GLYD_MARK_PARAMETER_END,
    GLYD_MARKS
} glyd_answer_mark;

typedef struct glyd_answer_format {
    glyd_answer_calls calls;
    glyd_answer_reasoning reasoning;
    const char *marks[GLYD_MARKS]; /* static texts; NULL: the format has no such mark */
    int32_t ids[GLYD_MARKS];       /* the token that is the mark; -1: it is ordinary text */
    bool is_special[GLYD_MARKS];   /* the token is special: a plain decode leaves it out */
    bool has_short_ids;            /* call ids are 9 letters and digits, else the template raises */
    bool has_argument_mark;        /* mistral: calls are written NAME[ARGS]{...} */
    bool has_fence;                /* deepseek_r1: arguments stand in a fenced block */
    bool knows_developer;          /* the template mentions the role "developer" */
} glyd_answer_format;

/* Choose by the chat template's text, then by the tokenizer's tokens, then by the family (a
 * config's "model_type", such as "qwen3"; may be NULL). `calls` and `reasoning` name a format
 * instead; NULL or "auto" chooses. A model without a chat template (empty span) has none. Errors:
 * E_ARG: no such format; the text lists them. */
GLYD_MUST_CHECK glyd_status glyd_answer_format_choose(const char *family, glyd_span chat_template,
                                                      const glyd_tokenizer *tokenizer,
                                                      const char *calls, const char *reasoning,
                                                      glyd_answer_format *format, glyd_error *err);

/* "hermes", "think"... for the settings line. */
const char *glyd_answer_calls_name(glyd_answer_calls calls);
const char *glyd_answer_reasoning_name(glyd_answer_reasoning reasoning);

/* Whether a rendered prompt leaves the model inside its reasoning: the template has pre-filled
 * "<think>", or the turn that is continued has. `text` is the prompt, `ids` its tokens. Only the
 * turn that the answer continues counts, never what a user typed. */
bool glyd_answer_prompt_is_reasoning(const glyd_answer_format *format,
                                     const glyd_tokenizer *tokenizer, glyd_span text,
                                     const int32_t *ids, size_t n_ids);

/* --- the parser --- */

typedef enum glyd_tool_choice {
    GLYD_TOOLS_NONE,   /* no tools, or "none": calls are not looked for, all is content */
    GLYD_TOOLS_AUTO,   /* the model decides */
    GLYD_TOOLS_FORCED, /* "required" or named: the answer was sampled under a glyd_answer_shape */
} glyd_tool_choice;

typedef struct glyd_answer_options {
    glyd_tool_choice tools;
    const json_t *tool_list; /* the request's "tools", borrowed: [{"type", "function"}]; or NULL */
    bool is_single;          /* parallel_tool_calls is false: calls after the first are left out */
    bool is_reasoning;       /* the answer begins inside reasoning: see above */
} glyd_answer_options;

typedef enum glyd_answer_kind {
    GLYD_ANSWER_CONTENT,
    GLYD_ANSWER_REASONING,
    GLYD_ANSWER_CALL_BEGIN,     /* text: the function's name; what OpenAI's first delta needs */
    GLYD_ANSWER_CALL_ARGUMENTS, /* text: a fragment of the arguments' JSON */
    GLYD_ANSWER_CALL_END,
} glyd_answer_kind;

typedef struct glyd_answer_event {
    glyd_answer_kind kind;
    int index;        /* of the call: 0, 1, ... */
    glyd_span text;   /* whole characters, never empty but for CALL_END; borrowed for the call */
    bool is_complete; /* CALL_END: false where the model broke off inside the arguments */
} glyd_answer_event;

/* Takes an event; a failure ends the push that caused it and is its result. */
typedef glyd_status (*glyd_answer_fn)(void *arg, const glyd_answer_event *event, glyd_error *err);

/* The parser holds text back only while it could be the beginning of a mark or of a call, and the
 * white space around calls, which is dropped (white space alone is content where there is no call,
 * and never reasoning).
 * A call begins when its name is known and its arguments begin. Then it stays a call:
 *   - Arguments are passed on as they come, also where they are not JSON. They end where their
 *     brackets close; marks inside their strings are text.
 *   - Where the answer ends inside them the call ends with is_complete false, as vLLM streams it.
 * Before that, whatever does not fit (no name, no object, wrong JSON, the end of the answer) makes
 * all that was held back content. Also:
 *   - A name that is not in the tool list makes a call nonetheless, as in vLLM; but a call without
 *     a mark (llama3_json's bare object, qwen3_coder's bare <function=) must name a tool of the
 * list, and a bare object counts only at the start of the answer or after another call.
 *   - "parameters" is taken for "arguments" and the reverse; keys come in any order. Where the
 *     arguments are absent or null they are {}; where they are a string that holds an object, that
 *     object.
 *   - qwen3_coder's values are typed by the tool's schema: strings are streamed; for other types a
 *     value that is JSON of such a type is passed on as written (Python's True, False and None as
 *     true, false, null), and anything else is a string.
 *   - Reasoning begins with its mark at the start of the answer only; later marks are text. In
 *     qwen3_coder a call inside unfinished reasoning ends it, as in vLLM. */
typedef struct glyd_answer glyd_answer;

/* `format` and `options->tool_list` must outlive the parser. Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_answer_create(const glyd_answer_format *format,
                                               const glyd_answer_options *options,
                                               glyd_answer_fn fn, void *arg, glyd_answer **answer,
                                               glyd_error *err);
void glyd_answer_free(glyd_answer *answer); /* NULL is allowed */

/* Take one token: its id, and the text that glyd_detok_push gave for it (may be empty). Decode with
 * GLYD_DECODE_SKIP_SPECIAL: where the id is one of the format's marks the parser knows it from the
 * id, whether or not its text is there. A mark that has an id is known by it alone, so the same
 * characters written out in ordinary tokens are text (but under GLYD_TOOLS_FORCED both count, since
 * a constraint holds the model to characters).
 * With id -1 the text has no id (a test, a stored answer): marks are then found in the text too.
 * The text may be cut anywhere. Errors: the function's own, E_LIMIT (over GLYD_TEXT_BYTES_MAX),
 * E_NOMEM; after one the parser can only be freed. */
GLYD_MUST_CHECK glyd_status glyd_answer_push(glyd_answer *answer, int32_t id, const char *text,
                                             size_t bytes, glyd_error *err);

/* The answer has ended (give what glyd_detok_finish gave first, with id -1 where there is some):
 * what was held back comes out and an open call ends. The parser takes no more. */
GLYD_MUST_CHECK glyd_status glyd_answer_finish(glyd_answer *answer, glyd_error *err);

/* How many calls have begun; the finish reason is "tool_calls" where this is not 0 and the model
 * stopped by itself. */
int glyd_answer_n_calls(const glyd_answer *answer);

/* The most forced calls of one answer: a small model that is forced to call
 * may find no end by itself and would go on until its context is full. */
enum { GLYD_ANSWER_FORCED_CALLS_MAX = 32 };

/* Whether the answer is to end here: one call was wanted and has ended, or the last of as many as
 * may be forced. The server may stop the model. */
bool glyd_answer_is_done(const glyd_answer *answer);

/* Whether the parser is inside reasoning. */
bool glyd_answer_is_reasoning(const glyd_answer *answer);

/* The id of a call, from 16 random bytes of the caller: "chatcmpl-tool-" and 32 hexadecimal digits,
 * or 9 letters and digits where the format wants that. */
enum { GLYD_CALL_ID_BYTES = 64 };
void glyd_answer_call_id(const glyd_answer_format *format, const uint8_t random[16],
                         char id[GLYD_CALL_ID_BYTES]);

/* --- forced calls --- */

/* The kinds are those of a grammar's parts (src/constraint), so that a part becomes one of these.
 */
typedef enum glyd_answer_part_kind {
    GLYD_ANSWER_PART_LITERAL,  /* `text` */
    GLYD_ANSWER_PART_UNTIL,    /* any text up to the first `text`, and that */
    GLYD_ANSWER_PART_TOKEN,    /* the token `id`, special or not; `text` is its text */
    GLYD_ANSWER_PART_SCHEMA,   /* JSON that is valid for `schema` */
    GLYD_ANSWER_PART_OBJECT,   /* any JSON object */
    GLYD_ANSWER_PART_SEQUENCE, /* `parts`, one after another */
    GLYD_ANSWER_PART_CHOICE,   /* one of `parts` */
} glyd_answer_part_kind;

typedef struct glyd_answer_part {
    glyd_answer_part_kind kind;
    glyd_span text;
    const json_t *schema; /* of a tool's parameters, or of one of them; has $defs where it needs */
    const struct glyd_answer_part *parts;
    size_t n_parts;
    int32_t id;
    int min, max; /* how often; both 0: once. max < 0: any number of times */
} glyd_answer_part;

typedef struct glyd_answer_shape glyd_answer_shape;

/* The text of one or more calls in a format: prefix, arguments by their schema, suffix. `name` is
 * the only function allowed, or NULL for any of the list; `is_single` allows one call, else one or
 * more. Where the prompt leaves the model in its reasoning, put UNTIL the reasoning's end before
 * it. Errors: E_ARG (no such function, or a tool without a name), E_UNSUPPORTED (calls "none"),
 * E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_answer_shape_create(const glyd_answer_format *format,
                                                     const json_t *tool_list, const char *name,
                                                     bool is_single, glyd_answer_shape **shape,
                                                     glyd_error *err);
const glyd_answer_part *glyd_answer_shape_root(const glyd_answer_shape *shape);
void glyd_answer_shape_free(glyd_answer_shape *shape); /* NULL is allowed */

/* --- the way back --- */

/* A client's messages as templates want them; the caller owns *out. Of each message:
 *   - content: an array of text parts becomes their texts joined by newlines, null or absent "".
 *   - role "developer" becomes "system" where the template does not know it.
 *   - tool_calls[].function.arguments: a string that holds JSON becomes its value, an empty one {};
 *     any other string stays as it is, since a model may have written it.
 *   - ids of calls and tool_call_id become 9 letters and digits where the format wants that, the
 *     same for the same id.
 *   - reasoning and reasoning_content: whichever is there becomes both.
 *   - an empty tool_calls, or null, is left out, as other members that are null are.
 * All else stays. The input is not changed.
 * Errors: E_FORMAT (a message or a member of the wrong type, naming it), E_UNSUPPORTED (a content
 * part that is not text, naming its type), E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_answer_messages_for_template(const glyd_answer_format *format,
                                                              const json_t *messages, json_t **out,
                                                              glyd_error *err);

/* The same for one message, number `i` of the conversation in error texts. */
GLYD_MUST_CHECK glyd_status glyd_answer_message_for_template(const glyd_answer_format *format,
                                                             const json_t *message, size_t i,
                                                             json_t **out, glyd_error *err);

#endif
