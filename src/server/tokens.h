/* tokens.h - token ids as clients see them: their text, their bytes, and lists of ids.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_TOKENS_H
#define GLYD_SERVER_TOKENS_H

#include "server/state.h"

/* Append the text of one id alone: where its bytes are no whole characters, with U+FFFD. */
GLYD_MUST_CHECK glyd_status glyd_token_text(const glyd_server *server, int32_t id, glyd_buf *text);

/* Append its bytes as they are. */
GLYD_MUST_CHECK glyd_status glyd_token_bytes(const glyd_server *server, int32_t id,
                                             glyd_buf *bytes);

/* A JSON string of the text, a JSON array of the bytes, a JSON array of ids. NULL: no memory. */
json_t *glyd_token_text_json(const glyd_server *server, int32_t id);
json_t *glyd_token_bytes_json(const glyd_server *server, int32_t id);
json_t *glyd_ids_json(const glyd_ids *ids);

/* A log-probability as JSON has it: none is below -9999. */
json_t *glyd_logprob_json(double logprob);

/* Append an id. Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_ids_add(glyd_ids *ids, int32_t id);

/* Read an array of ids. False: the exchange was answered. */
bool glyd_ids_read(glyd_exchange *x, const char *name, const json_t *array, glyd_ids *ids);

#endif
