/* manifest.h - glyd.json, the manifest of a save.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SAVE_MANIFEST_H
#define GLYD_SAVE_MANIFEST_H

#include "save/folder.h"

#define GLYD_MANIFEST_FILE "glyd.json"

void glyd_manifest_free(struct glyd_manifest *manifest); /* NULL is allowed */

/* Fill the tensors of a folder that has a manifest. */
GLYD_MUST_CHECK glyd_status glyd_folder_open_save(glyd_folder *folder, glyd_error *err);

#endif
