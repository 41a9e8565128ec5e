/* config.h - config.json and generation_config.json of a folder to one glyd_config.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_MODEL_CONFIG_H
#define GLYD_MODEL_CONFIG_H

#include "base/json.h"
#include "model/model.h"

/* `generation` may be NULL. config->family borrows from the family table. Errors: E_UNSUPPORTED
 * (what the file asks for is named), E_FORMAT. */
GLYD_MUST_CHECK glyd_status glyd_config_from_json(const json_t *root, const json_t *generation,
                                                  glyd_config *config, glyd_error *err);

/* Read both files of a folder. Errors also: E_NOTFOUND (no config.json). */
GLYD_MUST_CHECK glyd_status glyd_config_read(const char *folder, glyd_config *config,
                                             glyd_error *err);

#endif
