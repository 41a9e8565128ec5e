/* metrics.h - figures for Prometheus, under vLLM's names, so that its dashboards work.
 *
 * Threads    any; each call takes a short lock that the engine's thread never waits for.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_METRICS_H
#define GLYD_SERVER_METRICS_H

#include "glyd/engine.h"

typedef struct glyd_metrics glyd_metrics;

GLYD_MUST_CHECK glyd_status glyd_metrics_create(glyd_metrics **metrics, glyd_error *err);
void glyd_metrics_free(glyd_metrics *metrics); /* NULL is allowed */

/* The first token of a sequence, and the time since the token before, in seconds. */
void glyd_metrics_first_token(glyd_metrics *metrics, double since_request_s);
void glyd_metrics_next_token(glyd_metrics *metrics, double since_token_s);

/* A sequence that is over; `finish`: "stop", "length", "abort", "error". */
void glyd_metrics_finish(glyd_metrics *metrics, const char *finish, const glyd_result *result,
                         double since_request_s);

/* Append the text that GET /metrics answers. */
GLYD_MUST_CHECK glyd_status glyd_metrics_print(glyd_metrics *metrics, const char *model,
                                               const glyd_engine_info *info,
                                               const glyd_stats *stats, glyd_buf *out);

#endif
