/* json.h - reading untrusted JSON with jansson, and typed access that names what is wrong.
 *
 * Parsing refuses duplicate keys and nesting deeper than jansson's limit (2048). Objects keep the
 * order of the text. Every getter's `where` is a prefix for the error text, such as "config.json".
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_BASE_JSON_H
#define GLYD_BASE_JSON_H

#include "glyd/base.h"
#include <jansson.h>
#include <stdbool.h>

/* Parse `text`; the caller owns the result (json_decref). Errors: E_FORMAT with line and column,
 * E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_json_parse(glyd_span text, const char *where, json_t **root,
                                            glyd_error *err);

/* Read and parse a file of at most `bytes_max` bytes. */
GLYD_MUST_CHECK glyd_status glyd_json_read(const char *path, size_t bytes_max, json_t **root,
                                           glyd_error *err);

/* Members of an object. E_FORMAT where the member has another type or is out of [min, max].
 * An absent or null member: `*_or` gives the default, the others fail. Strings are borrowed. */
GLYD_MUST_CHECK glyd_status glyd_json_int(const json_t *object, const char *key, int64_t min,
                                          int64_t max, const char *where, int64_t *value,
                                          glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_json_int_or(const json_t *object, const char *key, int64_t min,
                                             int64_t max, int64_t absent, const char *where,
                                             int64_t *value, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_json_real(const json_t *object, const char *key, const char *where,
                                           double *value, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_json_real_or(const json_t *object, const char *key, double absent,
                                              const char *where, double *value, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_json_bool_or(const json_t *object, const char *key, bool absent,
                                              const char *where, bool *value, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_json_text(const json_t *object, const char *key, const char *where,
                                           const char **value, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_json_text_or(const json_t *object, const char *key,
                                              const char *absent, const char *where,
                                              const char **value, glyd_error *err);

#endif
