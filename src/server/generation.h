/* generation.h - the sequences that answer one request, from submit to the last token.
 *
 * The engine's callbacks only put tokens into a queue and wake a worker. The worker turns them into
 * text, finds stop strings and hands the rest, token by token, to the endpoint's writer: the same
 * calls whether the answer is streamed or sent as a whole, so that both give the same text.
 *
 * Threads    a generation is worked on by one worker at a time; glyd_generation_cancel from any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_GENERATION_H
#define GLYD_SERVER_GENERATION_H

#include "constraint/constraint.h"
#include "server/params.h"

typedef struct glyd_sequence {
    glyd_generation *generation;
    int index;           /* of the choice, as clients see it */
    int prompt;          /* which prompt */
    void *state;         /* the writer's own */
    glyd_answer *answer; /* owned; takes the text apart for the writer's `event`; may be NULL */
    glyd_constraint *constraint; /* owned; what the model may write; NULL: anything */
    int n_made;                  /* tokens so far; at the end the stop token too */
    int n_reasoning;             /* of these, reasoning */
    const char *finish;          /* set at the end: "stop", "length", "abort", "error" */
    int which_stop;              /* the stop string that ended it; -1: none */
    int32_t stop_id;             /* a stop_token_ids' id that ended it; -1: none */
    glyd_result result;          /* the engine's */
    struct glyd_feed *feed;      /* generation.c's */
} glyd_sequence;

/* What an endpoint does with an answer. Worker's thread. */
typedef struct glyd_writer {
    /* A token of the prompt, where prompt_logprobs are asked for; in order, before the answer. */
    void (*prompt_token)(glyd_sequence *s, int index, const glyd_token *token); /* may be NULL */
    /* A token and the text it adds (may be empty). An id of -1: text without a token of its own. */
    void (*token)(glyd_sequence *s, const glyd_token *token, glyd_span text);
    /* What a token meant, where the sequence has an `answer`; after `token`. */
    void (*event)(glyd_sequence *s, const glyd_answer_event *event);
    void (*flush)(glyd_sequence *s);  /* there are no more tokens for now */
    void (*end)(glyd_sequence *s);    /* `finish` is set; after the last flush */
    void (*done)(glyd_generation *g); /* all sequences have ended: reply, or end the stream */
    void (*fail)(glyd_generation *g, const glyd_error *error); /* in the midst of a stream */
    void (*free_sequence)(void *state);                        /* of a sequence; may be NULL */
    void (*free_generation)(void *state);                      /* of a generation; may be NULL */
} glyd_writer;

struct glyd_generation {
    glyd_exchange *x;
    const glyd_writer *writer;
    void *state; /* the writer's own */
    glyd_params params;
    glyd_ids *prompts; /* owned */
    int n_prompts;
    glyd_sequence *sequences;
    int n_sequences;
    time_t created;
    glyd_grammar *grammar;  /* owned; of the constraints; may be NULL */
    struct glyd_flow *flow; /* generation.c's */
};

/* Takes `prompts` (n_prompts of them, on the heap) also where it fails. NULL: out of memory. */
glyd_generation *glyd_generation_create(glyd_exchange *x, const glyd_writer *writer,
                                        const glyd_params *params, glyd_ids *prompts,
                                        int n_prompts);

/* Submit. From here on the exchange owns the generation. Where the engine does not take the first
 * sequence the exchange is answered with why. */
void glyd_generation_start(glyd_generation *g);

/* For one that was not started; NULL is allowed. The exchange calls it for one that was. */
void glyd_generation_free(glyd_generation *g);

/* Stop all sequences. With the exchange's lock held. */
void glyd_generation_cancel(glyd_generation *g);

/* End a sequence early, as if the model had stopped. From a writer's functions. */
void glyd_sequence_stop(glyd_sequence *s);

/* End everything with an error. From a writer's functions. */
void glyd_generation_fail(glyd_generation *g, const glyd_error *error);

typedef struct glyd_usage {
    int64_t prompt, cached;    /* tokens of prompts, and those found in the prefix cache */
    int64_t answer, reasoning; /* tokens of answers, and those that were reasoning */
} glyd_usage;

/* How far it has come: "queue", "prompt", "answer"; a constant. Once it is over. */
const char *glyd_generation_reached(const glyd_generation *g);

glyd_usage glyd_generation_usage(const glyd_generation *g);

#endif
