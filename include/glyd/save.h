/* save.h - packed models on disk: pack a checkpoint, verify a save, get the checkpoint back, plan.
 *
 * A checkpoint is a Hugging Face model folder with bf16 safetensors. A save is such a folder too,
 * its matrices packed and a manifest, glyd.json, beside them (docs/FORMAT.md, section 2).
 *
 * Whatever is written appears under its name only when it is whole and on the disk: until then it
 * is a hidden folder beside it, removed when a call fails or is cancelled.
 *
 * Threads    no hidden state; calls on different folders may run side by side.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SAVE_H
#define GLYD_SAVE_H

#include "glyd/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called from the calling thread, about every tensor or few megabytes, and once at the end. A
 * non-zero answer cancels: the call cleans up and returns E_CANCELLED. */
typedef int (*glyd_progress_fn)(void *arg, uint64_t bytes_done, uint64_t bytes_total);

/* Zero-initialise for the defaults. */
typedef struct glyd_save_options {
    int n_threads;             /* 0: one a core that this process may use */
    glyd_progress_fn progress; /* may be NULL */
    void *progress_arg;
    /* For glyd_save_pack only: */
    glyd_layout layout;   /* GLYD_LAYOUT_BF16, the zero: the smallest, which is `mma` */
    uint64_t shard_bytes; /* bf16 bytes whose packed arrays share a file; 0: 5 * 10^9 */
    int any_model;        /* non-zero: also a model of a type that glyd cannot run itself */
} glyd_save_options;

/* What a call did. */
typedef struct glyd_save_report {
    uint64_t n_tensors;        /* in the checkpoint */
    uint64_t n_packed;         /* of them, the others are as they were or a copy of another */
    uint64_t n_weights;        /* elements of all tensors, a copy of another not counted again */
    uint64_t bytes_checkpoint; /* of all tensors in the checkpoint */
    uint64_t bytes_save;       /* of all tensors and what belongs to them in the save */
    uint64_t n_files;          /* other files: config, tokenizer, templates */
    uint64_t
        n_left_out; /* pack: files and folders not taken; verify: files the save lacks word of */
    char layout[8]; /* "mma12" or "mma" */
} glyd_save_report;

/* Pack the checkpoint in `folder` into the new folder `out`, which must not exist nor lie inside
 * it. Every tensor is decoded again and compared. Peak memory: the largest tensor, as it is and
 * packed, and a few megabytes a thread. `report` may be NULL.
 * Errors: E_NOTFOUND, E_EXISTS, E_UNSUPPORTED (model type, dtype), E_CORRUPT or E_FORMAT (input),
 * E_NOSPACE, E_IO, E_NOMEM, E_CANCELLED. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_save_pack(const char *folder, const char *out,
                                                    const glyd_save_options *options,
                                                    glyd_save_report *report, glyd_error *err);

/* Decode every tensor of a save and compare its SHA-256, and every other file's. The error names
 * the first tensor or file that is wrong and, where the packed arrays tell, the blocks.
 * Errors: E_MISMATCH, E_CORRUPT, E_FORMAT, E_NOTFOUND, E_IO, E_NOMEM, E_CANCELLED. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_save_verify(const char *save,
                                                      const glyd_save_options *options,
                                                      glyd_save_report *report, glyd_error *err);

/* Write the checkpoint that a save was made from into the new folder `out`: its weight files byte
 * for byte, and the files that pack took with it. What is written was verified. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_save_unpack(const char *save, const char *out,
                                                      const glyd_save_options *options,
                                                      glyd_save_report *report, glyd_error *err);

enum { GLYD_LAYOUTS = 3 };

/* What running a model takes. Headers, config and manifest are read, no weight is. */
typedef struct glyd_save_plan {
    char model_type[32];
    int is_save;
    uint64_t n_weights;
    /* Bytes of the weights in each layout (indexed by glyd_layout). A save's own layout is exact,
     * and so is bf16; the others are what a matrix of ordinary weights takes. 0: not known. */
    uint64_t weight_bytes[GLYD_LAYOUTS];
    int weight_bytes_exact[GLYD_LAYOUTS];
    uint64_t kv_bytes_a_token; /* float32, as the CPU engine keeps it */
    int context;               /* tokens that the model was made for */
    uint64_t memory_available; /* on this machine now; 0: the system does not say */
    /* Tokens whose KV cache fits beside the weights, at most `context`; -1: the weights do not. */
    int64_t context_fits[GLYD_LAYOUTS];
} glyd_save_plan;

/* `folder` is a checkpoint or a save. `memory_bytes` 0: what is available on this machine. */
GLYD_API GLYD_MUST_CHECK glyd_status glyd_save_plan_make(const char *folder, uint64_t memory_bytes,
                                                         glyd_save_plan *plan, glyd_error *err);

#ifdef __cplusplus
}
#endif
#endif
