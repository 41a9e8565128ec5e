/* model.c - opening a model folder: every role found, and its shape and dtype checked.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "model/model.h"
#include "base/error.h"
#include "model/config.h"
#include "model/families.h"
#include "model/roles.h"
#include "save/folder.h"
#include <stdlib.h>
#include <string.h>

struct glyd_model {
    glyd_config config;
    glyd_folder *folder;
    const glyd_tensor **role; /* GLYD_ROLES * n_layers; NULL where there is none */
};

static size_t slot_of(glyd_role role, int layer)
{
    return (size_t)layer * GLYD_ROLES + (size_t)role;
}

static glyd_status check_tensor(const glyd_tensor *t, const glyd_shape *shape, glyd_error *err)
{
    char want[GLYD_SHAPE_TEXT_BYTES], have[GLYD_SHAPE_TEXT_BYTES];
    GLYD_NEED(glyd_shape_equal(&t->shape, shape), err,
              "tensor %s has the shape %s, but config.json asks for %s", t->name,
              glyd_shape_text(&t->shape, have), glyd_shape_text(shape, want));
    GLYD_TRY(glyd_tensor_need_bf16(t, err));
    if (!t->is_packed && (uintptr_t)t->data.data % 2 != 0)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "tensor %s begins at an odd byte of its file: write the checkpoint again with "
                  "save_pretrained()",
                  t->name);
    return GLYD_OK;
}

static glyd_status find_role(glyd_model *model, glyd_role role, int layer, glyd_error *err)
{
    char name[GLYD_ROLE_TENSOR_BYTES];
    glyd_shape shape;
    glyd_role_tensor(role, layer, &model->config, name, &shape);
    const glyd_tensor *t = glyd_folder_tensor(model->folder, name);
    GLYD_NEED(t, err, "tensor %s is missing: %s has no weights for it", name, model->folder->path);
    GLYD_TRY(check_tensor(t, &shape, err));
    model->role[slot_of(role, layer)] = t;
    return GLYD_OK;
}

static int by_address(const void *a, const void *b)
{
    const glyd_tensor *x = *(const glyd_tensor *const *)a, *y = *(const glyd_tensor *const *)b;
    return x < y ? -1 : x > y;
}

/* A tensor without a role would be weights that the model silently ignores. */
static glyd_status refuse_extra(const glyd_model *model, size_t n_slots, glyd_error *err)
{
    const glyd_tensor **used = calloc(n_slots, sizeof(*used));
    if (!used)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the roles of %s", model->folder->path);
    size_t n = 0;
    for (size_t i = 0; i < n_slots; i++) {
        if (model->role[i])
            used[n++] = model->role[i];
    }
    qsort(used, n, sizeof(*used), by_address);
    glyd_status status = GLYD_OK;
    size_t at = 0;
    for (size_t i = 0; status == GLYD_OK && i < model->folder->n_tensors; i++) {
        const glyd_tensor *t = &model->folder->tensor[i];
        while (at < n && used[at] < t)
            at++;
        if ((at == n || used[at] != t) && !glyd_tensor_is_spare(t->name, &model->config))
            status = glyd_error_set(err, GLYD_E_CORRUPT,
                                    "tensor %s is extra: a %s model with this config.json has none "
                                    "of that name",
                                    t->name, model->config.family);
    }
    free(used);
    return status;
}

static glyd_status find_roles(glyd_model *model, glyd_error *err)
{
    const glyd_config *config = &model->config;
    size_t n_slots = (size_t)config->n_layers * GLYD_ROLES;
    model->role = calloc(n_slots, sizeof(*model->role));
    if (!model->role)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the roles of %d layers", config->n_layers);
    for (int role = 0; role < GLYD_ROLES; role++) {
        if (!glyd_role_exists((glyd_role)role, config))
            continue;
        int n_layers = glyd_role_in_layer((glyd_role)role) ? config->n_layers : 1;
        for (int layer = 0; layer < n_layers; layer++)
            GLYD_TRY(find_role(model, (glyd_role)role, layer, err));
    }
    return refuse_extra(model, n_slots, err);
}

glyd_status glyd_model_open(const char *folder, glyd_model **out, glyd_error *err)
{
    *out = NULL;
    glyd_model *model = calloc(1, sizeof *model);
    if (!model)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for the model %s", folder);
    glyd_status status = glyd_folder_exists(folder, err);
    if (status == GLYD_OK)
        status = glyd_config_read(folder, &model->config, err);
    if (status == GLYD_OK)
        status = glyd_folder_open(folder, &model->folder, err);
    if (status == GLYD_OK)
        status = find_roles(model, err);
    if (status != GLYD_OK) {
        glyd_model_close(model);
        return status;
    }
    *out = model;
    return GLYD_OK;
}

void glyd_model_close(glyd_model *model)
{
    if (!model)
        return;
    glyd_folder_close(model->folder);
    free(model->role);
    free(model);
}

const glyd_config *glyd_model_config(const glyd_model *model)
{
    return &model->config;
}

bool glyd_model_is_packed(const glyd_model *model)
{
    return model->folder->manifest != NULL;
}

const glyd_folder *glyd_model_folder(const glyd_model *model)
{
    return model->folder;
}

void glyd_model_roles(const glyd_model *model, glyd_tensor_role *role)
{
    const glyd_folder *folder = model->folder;
    for (int layer = 0; layer < model->config.n_layers; layer++) {
        for (int r = 0; r < GLYD_ROLES; r++) {
            const glyd_tensor *t = model->role[slot_of((glyd_role)r, layer)];
            glyd_tensor_role *entry = t ? &role[t - folder->tensor] : NULL;
            if (!entry || entry->name)
                continue; /* a tied head is the embedding, which has its role already */
            entry->name = glyd_role_name((glyd_role)r);
            entry->layer = glyd_role_in_layer((glyd_role)r) ? layer : -1;
        }
    }
    const glyd_tensor *head = glyd_folder_tensor(folder, GLYD_HEAD_TENSOR);
    if (head)
        role[head - folder->tensor].twin = model->role[slot_of(GLYD_ROLE_EMBED, 0)];
}

static glyd_status tensor_of(const glyd_model *model, glyd_role role, int layer,
                             const glyd_tensor **t, glyd_error *err)
{
    bool known = role >= 0 && role < GLYD_ROLES && layer >= 0 && layer < model->config.n_layers;
    *t = known ? model->role[slot_of(role, layer)] : NULL;
    if (!*t)
        GLYD_FAIL(err, GLYD_E_NOTFOUND, "a %s model has no %s in layer %d", model->config.family,
                  known ? glyd_role_name(role) : "such role", layer);
    return GLYD_OK;
}

glyd_status glyd_model_peek(const glyd_model *model, glyd_role role, int layer, glyd_matrix *m,
                            glyd_error *err)
{
    const glyd_tensor *t;
    GLYD_TRY(tensor_of(model, role, layer, &t, err));
    if (t->is_packed) {
        *m = t->matrix;
        return GLYD_OK;
    }
    *m = (glyd_matrix){.layout = GLYD_LAYOUT_BF16};
    m->rows = t->shape.n_dims == 2 ? t->shape.dim[0] : 1;
    m->cols = t->shape.dim[t->shape.n_dims - 1];
    m->array[GLYD_ARRAY_SM] = t->data;
    return GLYD_OK;
}

glyd_status glyd_model_weight(const glyd_model *model, glyd_role role, int layer, glyd_matrix *m,
                              glyd_error *err)
{
    GLYD_TRY(glyd_model_peek(model, role, layer, m, err));
    glyd_status status = glyd_check(m, NULL, err);
    if (status != GLYD_OK)
        return glyd_error_prefix(err, status, "tensor %s", model->role[slot_of(role, layer)]->name);
    return GLYD_OK;
}
