/* engine.h - run a model: token ids in, token ids out.
 *
 * An engine holds one model (a bf16 Hugging Face folder or a glyd save) and answers requests. Text,
 * chat templates and tools live above it. What it promises:
 *   - packed weights give the logits of the same weights held as bf16, bit for bit;
 *   - a sequence's tokens do not depend on what else runs, on how its prompt was cut into chunks,
 *     on what it shares with other sequences, on being preempted, or on the number of threads;
 *   - memory is planned before anything is loaded, and nothing is allocated while tokens run;
 *   - a prompt that does not fit is refused with both numbers, never cut.
 *
 *     glyd_engine_options options = glyd_engine_options_default("model");
 *     glyd_engine *engine;
 *     glyd_ticket *ticket;
 *     glyd_result result;
 *     glyd_engine_open(&options, &engine, &err);
 *     glyd_request request = glyd_request_default(engine);
 *     request.ids = ids, request.n_ids = n, request.on_token = print_token;
 *     glyd_engine_submit(engine, &request, &ticket, &err);
 *     glyd_ticket_wait(ticket, &result);
 *     glyd_ticket_free(ticket);
 *     glyd_engine_close(engine);
 *
 * Threads    the engine runs on a thread of its own, and callbacks come from it: they must not
 *            block for long, and may cancel tickets but not wait for them, submit, or close.
 *            Everything else may be called from any thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ENGINE_H
#define GLYD_ENGINE_H

#include "glyd/codec.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum glyd_backend_kind {
    GLYD_BACKEND_AUTO = 0, /* the fastest that is there */
    GLYD_BACKEND_CPU = 1,
    GLYD_BACKEND_CUDA = 2,
} glyd_backend_kind;

typedef struct glyd_engine_options {
    const char *folder; /* a bf16 Hugging Face model folder or a glyd save */
    glyd_backend_kind backend;
    /* How weights are held. NULL: as the backend multiplies fastest; a CPU expands mma's streams to
     * mma12 codes when it loads. Otherwise this layout, which must be the model's, mma12 for an mma
     * save, or bf16, to which any save is unpacked. Borrowed as `folder` is. */
    const glyd_layout *layout;
    int n_threads;    /* 0: one a core that this process may use */
    bool pin;         /* each thread stays on its core */
    int context;      /* tokens a sequence may have, prompt included; 0: the model's, <= 8192 */
    int n_sequences;  /* sequences that run at once */
    int chunk_tokens; /* tokens of one step, at most: how finely prompts are cut */
    /* Tokens of all sequences together; 0: n_sequences * context. With fewer, the sequence that
     * came last gives up its pages when they run out, and reads its tokens again later. */
    int64_t kv_tokens;
    int queue_max;        /* requests that may wait beside n_sequences that run; 0: any number */
    bool no_prefix_cache; /* every prompt is read from its first token on */
} glyd_engine_options;

/* One sequence, the model's context up to 8192, every core, any number waiting, prefix cache on.
 * `folder` is borrowed until the call that takes the options returns. */
GLYD_API glyd_engine_options glyd_engine_options_default(const char *folder);

/* What a model takes, in bytes. */
typedef struct glyd_plan {
    glyd_layout layout;    /* of most weights, as they are held */
    int64_t n_weights;     /* values, tied ones once */
    size_t weight_bytes;   /* as held; on a CPU mapped from the file, not copied, */
    size_t expanded_bytes; /* but for these of them: mma12 codes or bf16 made at load */
    size_t kv_bytes;       /* the whole KV pool */
    size_t kv_token_bytes; /* of it, one token */
    size_t scratch_bytes;  /* activations, logits, page tables, sampler */
    size_t total_bytes;    /* the sum of the three */
    int context;           /* tokens a sequence may have */
    int context_model;     /* what the model was made for */
    int n_sequences;
    int64_t kv_tokens; /* tokens the KV pool holds */
} glyd_plan;

/* Bits a weight, as held; 0 for a model without weights. */
GLYD_API double glyd_plan_bits(const glyd_plan *plan);

/* Compute the plan from headers and config alone: no weight is read.
 * Errors: as glyd_engine_open. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_engine_plan(const glyd_engine_options *options,
                                                      glyd_plan *plan, glyd_error *err);

typedef struct glyd_engine glyd_engine;

/* Open a model and start its thread. Errors: E_NOTFOUND, E_UNSUPPORTED (family, dtype, backend),
 * E_FORMAT, E_CORRUPT, E_ARG (options), E_LIMIT (a context longer than the model's), E_NOMEM. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_engine_open(const glyd_engine_options *options,
                                                      glyd_engine **engine, glyd_error *err);

/* Cancel what runs, join the thread, free all. Tickets stay valid until they are freed. NULL is
 * allowed. */
GLYD_API void glyd_engine_close(glyd_engine *engine);

/* What is known of an open model; everything lives as long as the engine. */
typedef struct glyd_engine_info {
    const char *family;  /* "llama", "mistral", "qwen2", "qwen3" */
    const char *backend; /* "cpu (avx512)", ... */
    int n_threads;
    int vocab;
    int32_t bos_id; /* -1: none */
    const int32_t *stop_ids;
    int n_stop_ids;
    glyd_plan plan;
} glyd_engine_info;

GLYD_API const glyd_engine_info *glyd_engine_describe(const glyd_engine *engine);

/* How the next token is drawn. In this order: ids that may not come next are left out
 * (request.allow, tokens_min); logit_bias is added; repetition, frequency and presence penalty; at
 * temperature 0 the largest logit; else divide by the temperature, keep the top_k largest, of these
 * the fewest whose probability reaches top_p, of these the ones of at least min_p times the
 * largest, and draw. Equal logits rank by lowest id. Draw i of a request is a function of `seed`
 * and i alone. */
typedef struct glyd_sampling {
    double temperature;        /* 0: greedy */
    int top_k;                 /* 0: all */
    double top_p;              /* 1: all */
    double min_p;              /* 0: all */
    double repetition_penalty; /* 1: none; applies to ids of the prompt and of the answer */
    double presence_penalty;   /* 0: none; taken once from the logit of each id of the answer */
    double frequency_penalty;  /* 0: none; taken as often as the id is in the answer */
    uint64_t seed;
} glyd_sampling;

enum {
    GLYD_REQUEST_STOP_IDS_MAX = 64,
    GLYD_REQUEST_BIASES_MAX = 1024,
    GLYD_REQUEST_LOGPROBS_MAX = 20,
};

/* `bias` is added to the logit of `id`; finite. */
typedef struct glyd_logit_bias {
    int32_t id;
    float bias;
} glyd_logit_bias;

/* Log-probabilities are log-softmax, in double, of the model's own logits: before bias, penalties
 * and temperature. */
typedef struct glyd_token_logprob {
    int32_t id;
    double logprob;
} glyd_token_logprob;

/* A token of an answer or of a prompt; everything lives until the callback returns. Where no
 * log-probabilities were asked for, all but `id` is 0. */
typedef struct glyd_token {
    int32_t id;
    double logprob;
    int rank;                      /* 1: no id is likelier */
    const glyd_token_logprob *top; /* the n_top likeliest ids, in order of rank */
    int n_top;
} glyd_token;

typedef enum glyd_finish {
    GLYD_FINISH_STOP = 0,      /* a stop id was drawn; it is not passed to on_token */
    GLYD_FINISH_LENGTH = 1,    /* tokens_max tokens were made; none: the prompt was read */
    GLYD_FINISH_CONTEXT = 2,   /* the context is full */
    GLYD_FINISH_CANCELLED = 3, /* glyd_ticket_cancel, glyd_engine_drain or glyd_engine_close */
    GLYD_FINISH_ERROR = 4,     /* see result.error */
} glyd_finish;

/* The fixed name of a finish: "stop", "length", "context", "cancelled", "error". */
GLYD_API const char *glyd_finish_name(glyd_finish finish);

typedef struct glyd_result {
    glyd_finish finish;
    int32_t stop_id; /* the id that stopped it; -1 otherwise */
    int n_prompt;    /* tokens of the prompt, */
    int n_reused;    /* of these, found in the prefix cache */
    int n_tokens;    /* tokens made, stop id not counted */
    double queue_s;  /* from submit to the first step */
    double prompt_s; /* from the first step to the first token */
    double decode_s; /* from the first token to the last */
    glyd_error error;
} glyd_result;

typedef struct glyd_request {
    const int32_t *ids; /* the prompt; copied by submit */
    int n_ids;
    int tokens_max; /* -1: until the context is full; 0: the prompt is read, no token is made */
    int tokens_min; /* no stop id is drawn before this many tokens */
    glyd_sampling sampling;
    const int32_t *stop_ids; /* besides the model's own; copied by submit */
    int n_stop_ids;
    bool ignore_stop;                  /* draw on past the model's stop ids (benchmarks) */
    const glyd_logit_bias *logit_bias; /* copied by submit; biases of the same id add up */
    int n_logit_bias;
    int n_logprobs; /* of an answer's tokens: -1 none, 0 the token's own, n: and the n largest */
    /* The same for tokens 1 to n_ids - 1 of the prompt, all of which is then read anew. */
    int n_prompt_logprobs;

    void *arg; /* passed to the callbacks, each of which may be NULL */
    void (*on_prompt_token)(void *arg, int index, const glyd_token *token);
    void (*on_token)(void *arg, const glyd_token *token);
    /* Called before each draw, after on_token of the token before: clear the bits of ids that may
     * not come next, bit id % 64 of allowed[id / 64]. All are set on entry, those of stop ids too:
     * clear these where the answer may not end. Where nothing is left, or false is returned, the
     * request finishes with an error (E_LIMIT). */
    bool (*allow)(void *arg, uint64_t *allowed);
    void (*on_finish)(void *arg, const glyd_result *result); /* last */
} glyd_request;

/* An empty prompt, no limit, no log-probabilities, and the sampling that generation_config.json
 * asks for (greedy where it asks for nothing). Begin with it: 0 means something in most fields. */
GLYD_API glyd_request glyd_request_default(const glyd_engine *engine);

/* A request that was accepted. Free it once; freeing one that still runs cancels it. */
typedef struct glyd_ticket glyd_ticket;

/* Queue a request. Errors: E_ARG (empty prompt, an id out of the vocabulary, something out of
 * range), E_LIMIT (the prompt leaves no room in the context: the text has both numbers), E_BUSY
 * (queue_max requests wait: try again later), E_NOMEM, E_CANCELLED (the engine is draining or
 * closing). *ticket is set before the first callback. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_engine_submit(glyd_engine *engine,
                                                        const glyd_request *request,
                                                        glyd_ticket **ticket, glyd_error *err);

/* Ask a request to stop: it finishes before the next layer of the model runs, wherever it is. Any
 * thread, any time before the free, signal handlers included. */
GLYD_API void glyd_ticket_cancel(glyd_ticket *ticket);

/* Wait until on_finish has returned; `result` may be NULL. */
GLYD_API void glyd_ticket_wait(glyd_ticket *ticket, glyd_result *result);

GLYD_API void glyd_ticket_free(glyd_ticket *ticket); /* NULL is allowed */

enum { GLYD_STEP_SIZES = 14 };

/* What the engine does and has done since it was opened. */
typedef struct glyd_stats {
    int n_running; /* sequences in the batch */
    int n_waiting; /* requests in the queue, and sequences that gave up their pages */
    int kv_pages;
    int kv_pages_used;      /* by sequences; what only the prefix cache holds is free */
    int64_t prefix_queries; /* tokens of prompts that were looked for in the prefix cache, */
    int64_t prefix_hits;    /* and found */
    int64_t prompt_tokens;  /* of all prompts begun */
    int64_t answer_tokens;
    int64_t n_preemptions; /* sequences that gave up their pages */
    int64_t n_steps;
    int step_tokens; /* of the last step */
    /* Steps by their size: of 1 token, and of more up to 8, 16, 32, ... 16384; the last: of more.
     */
    int64_t steps_of_size[GLYD_STEP_SIZES];
    int64_t steps_tokens; /* of all steps */
} glyd_stats;

/* Fill in `stats`. Any thread; takes no lock, so the figures need not be of one moment. */
GLYD_API void glyd_engine_stats(const glyd_engine *engine, glyd_stats *stats);

/* Take no more requests (submit answers E_CANCELLED), wait until all have finished, and after
 * timeout_s seconds cancel those that have not. Returns how many that were. Not from a callback;
 * the engine is then fit only to be closed. */
GLYD_API int glyd_engine_drain(glyd_engine *engine, double timeout_s);

enum { GLYD_LOGITS_HASH_BYTES = 65 };

/* SHA-256 of the float32 logits of every position of a prompt, position after position: 64
 * lower-case digits and a terminator. The same for packed and bf16 weights, for every number of
 * threads and every chunk size on one backend. Waits for its turn; not from a callback.
 * Errors: as glyd_engine_submit. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_engine_logits_hash(glyd_engine *engine,
                                                             const int32_t *ids, int n_ids,
                                                             char hex[GLYD_LOGITS_HASH_BYTES],
                                                             glyd_error *err);

#ifdef __cplusplus
}
#endif
#endif
