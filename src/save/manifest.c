/* manifest.c - glyd.json, the manifest of a save.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "save/manifest.h"
#include "base/error.h"

void glyd_manifest_free(struct glyd_manifest *manifest)
{
    GLYD_ASSERT(!manifest);
}

glyd_status glyd_folder_open_save(glyd_folder *folder, glyd_error *err)
{
    GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s is a glyd save", folder->path);
}
