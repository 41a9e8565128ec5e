/* template.h - rendering a model's chat template.
 *
 * A chat template is a Jinja program that comes with a checkpoint. glyd runs the part of Jinja that
 * such programs use, with the results of jinja2 3.1's ImmutableSandboxedEnvironment as transformers
 * sets it up (trim_blocks, lstrip_blocks, loop controls, tojson without HTML escapes). What is not
 * built is refused by name. Templates and inputs are untrusted: time, memory, depth and output
 * have limits.
 *
 * Threads    a compiled template may be rendered by any number of threads at once; a render takes
 *            up to 512 KiB of the thread's stack at the default depth.
 * Errors     E_FORMAT: the template is wrong, or it and its input do not go together, with the
 *            line; E_ARG: the template itself refused the input (raise_exception), and the text is
 *            its message; E_UNSUPPORTED; E_LIMIT, naming the limit; E_NOMEM.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEXT_TEMPLATE_H
#define GLYD_TEXT_TEMPLATE_H

#include "base/json.h"
#include <time.h>

typedef struct glyd_template glyd_template;

enum { GLYD_TEMPLATE_BYTES_MAX = 1 << 20 };

/* `text` is copied; it must be UTF-8 and at most GLYD_TEMPLATE_BYTES_MAX bytes. */
GLYD_MUST_CHECK glyd_status glyd_template_compile(glyd_span text, glyd_template **tmpl,
                                                  glyd_error *err);
void glyd_template_free(glyd_template *tmpl); /* NULL is allowed */

/* Whether the template mentions a variable, such as "tools" or "enable_thinking". */
bool glyd_template_mentions(const glyd_template *tmpl, const char *name);

/* What a template sees. All values are borrowed for the call. */
typedef struct glyd_template_input {
    const json_t *messages;  /* array; required */
    const json_t *tools;     /* array or NULL; an empty one reaches the template as none */
    const json_t *documents; /* array or NULL */
    bool add_generation_prompt;
    const json_t *special_tokens; /* object or NULL: "bos_token", "eos_token", ... */
    const json_t *extra;          /* object or NULL: chat_template_kwargs, over special_tokens */
    const struct tm *now;         /* local time for strftime_now, or NULL */
} glyd_template_input;

/* Zero means the default. */
typedef struct glyd_template_limits {
    uint64_t steps;      /* 20 million: about a second */
    int depth;           /* 1,000 levels of expressions, blocks and calls */
    size_t output_bytes; /* 16 MiB */
    size_t memory_bytes; /* 256 MiB, output included */
} glyd_template_limits;

/* Append the text to `out`. `limits` may be NULL. Errors: see above; out is then as it was. */
GLYD_MUST_CHECK glyd_status glyd_template_render(const glyd_template *tmpl,
                                                 const glyd_template_input *input,
                                                 const glyd_template_limits *limits, glyd_buf *out,
                                                 glyd_error *err);

/* The text of a model folder's template: chat_template.jinja, else chat_template.json, else
 * tokenizer_config.json's chat_template, which may be a list of named ones: `name` picks one
 * ("tool_use"), and "default" is taken where `name` is NULL or not among them.
 * Errors: E_NOTFOUND where there is none, E_FORMAT, E_LIMIT, E_IO. */
GLYD_MUST_CHECK glyd_status glyd_template_find(const char *folder, const char *name, glyd_buf *text,
                                               glyd_error *err);

/* The special tokens of a model folder by name ("bos_token": "<s>"), for `special_tokens` above:
 * from special_tokens_map.json and tokenizer_config.json, which wins. An object, empty where the
 * folder has neither file; the caller owns it. Errors: E_FORMAT, E_LIMIT, E_IO, E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_special_tokens_read(const char *folder, json_t **tokens,
                                                     glyd_error *err);

#endif
