/* pack.h - packing the tensors of an open checkpoint into a save.
 *
 * What the tensors mean is the caller's knowledge: it gives each one's role, and has checked that
 * they make a model.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SAVE_PACK_H
#define GLYD_SAVE_PACK_H

#include "glyd/save.h"
#include "save/folder.h"

typedef struct glyd_tensor_role {
    const char *name;        /* such as "attn_q"; NULL: none */
    int layer;               /* -1: not in a layer */
    const glyd_tensor *twin; /* may hold the same bytes, which are then kept once; or NULL */
} glyd_tensor_role;

/* `role[i]` belongs to checkpoint->tensor[i]. */
GLYD_MUST_CHECK glyd_status glyd_pack_folder(const glyd_folder *checkpoint,
                                             const glyd_tensor_role *role, const char *out,
                                             const glyd_save_options *options,
                                             glyd_save_report *report, glyd_error *err);

#endif
