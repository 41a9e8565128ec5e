/* reply.h - pieces of answers that several endpoints share.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_REPLY_H
#define GLYD_SERVER_REPLY_H

#include "server/generation.h"

/* All NULL where there is no memory. */
json_t *glyd_usage_json(const glyd_usage *usage, bool with_details);
json_t *glyd_text_json(const glyd_buf *text);
json_t *glyd_stop_reason_json(const glyd_sequence *s); /* the string or id that ended it, or null */

/* The members that every object of a reply begins with: id, object, created, model. `prefix` is put
 * before the exchange's id. */
json_t *glyd_reply_head(const glyd_generation *g, const char *prefix, const char *object);

/* The last of a stream of chunks: usage where it was asked for, and "[DONE]". */
void glyd_reply_end_chunks(const glyd_generation *g, const char *prefix, const char *object);

/* A whole reply of such an object: every sequence's choice, and usage. NULL: no memory. */
json_t *glyd_reply_choices(const glyd_generation *g, const char *prefix, const char *object,
                           json_t *(*choice)(const glyd_sequence *s));

/* Append `value` (taken; NULL: no memory) to an array. False: no memory. */
bool glyd_array_add(json_t *array, json_t *value);

/* A mistake in the midst of a stream, in OpenAI's form, and the end. */
void glyd_reply_fail_stream(glyd_generation *g, const glyd_error *error);

/* "data: [DONE]" and the end. */
void glyd_reply_done_stream(glyd_exchange *x);

#endif
