/* roles.h - an open model's folder, and the role of each of its tensors.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_MODEL_ROLES_H
#define GLYD_MODEL_ROLES_H

#include "model/model.h"
#include "save/pack.h"

const glyd_folder *glyd_model_folder(const glyd_model *model);

/* role[i] of folder->tensor[i]; the caller gives zeroed room for all tensors. */
void glyd_model_roles(const glyd_model *model, glyd_tensor_role *role);

#endif
