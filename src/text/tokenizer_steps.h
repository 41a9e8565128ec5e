/* tokenizer_steps.h - reading the parts of tokenizer.json that are steps.
 *
 * Each function takes the part's JSON, NULL or null for none, and appends to the tokenizer's steps.
 * Errors: E_UNSUPPORTED (names the type), E_FORMAT, E_LIMIT, E_NOMEM.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_TEXT_TOKENIZER_STEPS_H
#define GLYD_TEXT_TOKENIZER_STEPS_H

#include "base/json.h"
#include "text/tokenizer.h"

GLYD_MUST_CHECK glyd_status glyd_load_normalizer(glyd_tokenizer *t, const json_t *part,
                                                 glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_load_pretokenizer(glyd_tokenizer *t, const json_t *part,
                                                   glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_load_postprocessor(glyd_tokenizer *t, const json_t *part,
                                                    glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_load_decoder(glyd_tokenizer *t, const json_t *part,
                                              glyd_error *err);

#endif
