/* plan.h - from options and a model's config to every size the engine allocates.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_PLAN_H
#define GLYD_ENGINE_PLAN_H

#include "engine/backend.h"
#include "glyd/engine.h"
#include "model/model.h"

/* The backend of a kind. Errors: E_UNSUPPORTED, E_NODEVICE. */
GLYD_MUST_CHECK glyd_status glyd_backend_find(glyd_backend_kind kind, const glyd_backend **backend,
                                              glyd_error *err);

/* Fill in defaults, check the options against the model, and sum up memory. Reads headers only. */
GLYD_MUST_CHECK glyd_status glyd_plan_make(const glyd_engine_options *options,
                                           const glyd_model *model, const glyd_backend *backend,
                                           glyd_sizes *sizes, glyd_plan *plan, glyd_error *err);

#endif
