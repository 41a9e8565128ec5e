/* params.h - how an answer is to be made: the fields that all endpoints share.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_PARAMS_H
#define GLYD_SERVER_PARAMS_H

#include "server/state.h"
#include "server/stop_strings.h"

enum {
    GLYD_CHOICES_MAX = 128,    /* of "n" */
    GLYD_SEQUENCES_MAX = 1024, /* of one request: prompts times choices */
    GLYD_TOKENS_UNSET = -1,
};

typedef struct glyd_params {
    glyd_sampling sampling;
    int tokens_max; /* GLYD_TOKENS_UNSET: not given */
    int tokens_min;
    int n; /* choices */
    bool stream, include_usage, usage_in_each;
    bool ignore_eos, include_stop, skip_special, return_token_ids;
    bool hides_reasoning;
    glyd_stop_strings stops; /* in the request's JSON */
    int32_t stop_ids[GLYD_REQUEST_STOP_IDS_MAX];
    int n_stop_ids;
    glyd_logit_bias bias[GLYD_REQUEST_BIASES_MAX];
    int n_bias;
    int n_logprobs, n_prompt_logprobs; /* -1: none */
} glyd_params;

/* The model's own sampling, one choice, no stop strings. */
void glyd_params_default(const glyd_server *server, glyd_params *params);

/* Read what chat and completions requests have in common from x->request. False: answered. */
bool glyd_params_read(glyd_exchange *x, glyd_params *params);

/* Read a stop string or an array of them from a member of the request. */
bool glyd_params_read_stops(glyd_exchange *x, const char *name, glyd_params *params);

/* A fresh seed where the request has none. */
uint64_t glyd_params_draw_seed(void);

/* Check a prompt's length against the context, and fill in tokens_max where it is not given: with
 * `usual` (0: all that fits) or less. False: answered with both numbers. */
bool glyd_params_fit(glyd_exchange *x, int n_prompt, int usual, int *tokens_max);

#endif
