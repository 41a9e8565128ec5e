/* pack_model.c - packing a checkpoint that was checked to be a whole model.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "glyd/save.h"
#include "model/roles.h"
#include <stdlib.h>

static glyd_status pack_with_roles(const glyd_folder *folder, const glyd_model *model,
                                   const char *out, const glyd_save_options *options,
                                   glyd_save_report *report, glyd_error *err)
{
    if (folder->manifest)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s is a glyd save already: give its bf16 checkpoint",
                  folder->path);
    glyd_tensor_role *role = calloc(folder->n_tensors + 1, sizeof *role);
    if (!role)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the roles of %s", folder->path);
    if (model)
        glyd_model_roles(model, role);
    glyd_status status = glyd_pack_folder(folder, role, out, options, report, err);
    free(role);
    return status;
}

/* A model of any type must have something to pack at least. */
static glyd_status need_matrix(const glyd_folder *folder, glyd_error *err)
{
    for (size_t i = 0; i < folder->n_tensors; i++) {
        if (folder->tensor[i].shape.n_dims == 2)
            return glyd_tensor_need_bf16(&folder->tensor[i], err);
    }
    GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s has no matrix to pack", folder->path);
}

static glyd_status pack_any(const char *path, const char *out, const glyd_save_options *options,
                            glyd_save_report *report, glyd_error *err)
{
    glyd_folder *folder;
    GLYD_TRY(glyd_folder_open(path, &folder, err));
    glyd_status status = need_matrix(folder, err);
    if (status == GLYD_OK)
        status = pack_with_roles(folder, NULL, out, options, report, err);
    glyd_folder_close(folder);
    return status;
}

glyd_status glyd_save_pack(const char *folder, const char *out, const glyd_save_options *options,
                           glyd_save_report *report, glyd_error *err)
{
    const glyd_save_options defaults = {0};
    glyd_save_report unasked;
    options = options ? options : &defaults;
    report = report ? report : &unasked;
    *report = (glyd_save_report){0};
    if (!glyd_layout_name(options->layout))
        GLYD_FAIL(err, GLYD_E_ARG, "there is no layout %d", (int)options->layout);
    glyd_model *model;
    glyd_status status = glyd_model_open(folder, &model, err);
    if (status == GLYD_E_UNSUPPORTED && options->any_model)
        return pack_any(folder, out, options, report, err);
    GLYD_TRY(status);
    status = pack_with_roles(glyd_model_folder(model), model, out, options, report, err);
    glyd_model_close(model);
    return status;
}
