/* config.h - what a call checks and how it is cut up: pure host code, testable without a GPU.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CUDA_CONFIG_H
#define GLYD_CUDA_CONFIG_H

#include "codec/format.h"
#include "glyd/glyd_gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum glyd_gpu_kernel {
    GLYD_GPU_KERNEL_PLAIN, /* any GPU from sm_80, no shared memory */
    GLYD_GPU_KERNEL_FEW,   /* sm_90: up to 32 tokens a tile, one warp a tile and slice */
    GLYD_GPU_KERNEL_MANY,  /* sm_90: 64 to 256 tokens a tile, warpgroup products */
    GLYD_GPU_KERNEL_WALK,  /* sm_90: the same in larger tiles, one after another */
} glyd_gpu_kernel;

/* Where FEW's multiplying warps have their codes from. */
typedef enum glyd_gpu_codes {
    GLYD_GPU_CODES_PLANE, /* layout mma12's, or expanded */
    GLYD_GPU_CODES_AHEAD, /* other warps of the CTA decode the streams */
    GLYD_GPU_CODES_HERE,  /* they decode the streams themselves */
} glyd_gpu_codes;

/* What the choice depends on. */
typedef struct glyd_gpu_shape {
    glyd_layout layout;
    int64_t rows, cols, tokens;
    int slices;
    int run_blocks; /* layout mma */
    int n_sms;
    int capability; /* 10 * major + minor */
} glyd_gpu_shape;

typedef struct glyd_gpu_config {
    glyd_gpu_kernel kernel;
    int token_tile;       /* tokens of a block of the grid */
    int tiles;            /* FEW: tiles of 16 rows a CTA; MANY, WALK: warpgroups of 64 rows a CTA */
    int pair;             /* MANY, WALK: two CTAs of neighbouring rows share their tokens */
    int stages;           /* depth of the ring in shared memory; WALK: of that of tokens, */
    int weight_stages;    /* and of that of weights */
    int expand;           /* layout mma: decode the codes into the workspace first */
    glyd_gpu_codes codes; /* where the product's kernel has its codes from */
    int decoders_log2, planes_log2; /* AHEAD: so many warps a unit, so many blocks ahead */
    int threads;                    /* of a CTA */
    int shared_bytes;               /* dynamic shared memory of a CTA */
    int64_t grid_rows, grid_tokens;
    int64_t walkers; /* WALK: CTAs of a slice, or pairs of them, that share the tiles */
} glyd_gpu_config;

enum {
    GLYD_GPU_SHARED_MAX = 232448, /* bytes a CTA of sm_90 may ask for */
    GLYD_GPU_SHARED_SM = 233472,  /* bytes of an SM; each CTA takes 1,024 more than it asks for */
    GLYD_GPU_TOKENS_MAX = 65535 * 16,    /* the plain kernel's grid */
    GLYD_GPU_FEW_BLOCKS = 2,             /* FEW: blocks of a stage */
    GLYD_GPU_FEW_AHEAD_WARPS_MAX = 26,   /* FEW with codes AHEAD: warps of a CTA */
    GLYD_GPU_WORDS_BYTES = 4096,         /* of words that a decoding warp has at hand */
    GLYD_GPU_LOOKUP_SCRATCH_BYTES = 384, /* what building a lookup needs */
    GLYD_GPU_FEW_UNITS_MAX = 12,         /* FEW: warps that multiply, tiles x slices, */
    GLYD_GPU_FEW_HERE_UNITS_MAX = 14,    /* and where they decode streams themselves */
    GLYD_GPU_CLUSTER_MAX = 8,            /* MANY, WALK: slices, each a CTA of a cluster */
    GLYD_GPU_WALK_OUT_BYTES = 768,       /* WALK: of results that a warp turns */
    GLYD_GPU_BARRIER_BYTES = 512,        /* of the ring, at the end of shared memory */
};

/* Blocks of a slice: all but the last have this many. */
GLYD_INLINE int64_t glyd_gpu_slice_blocks(int64_t cols, int slices)
{
    return glyd_blocks_of((cols + slices - 1) / slices);
}

void glyd_gpu_config_for(const glyd_gpu_shape *shape, glyd_gpu_config *config);

/* Candidate i of those that the choice is made from; 0 past the last. For tests and measurements:
 * where one does not fit, its kernel is PLAIN. */
int glyd_gpu_config_candidate(const glyd_gpu_shape *shape, int i, glyd_gpu_config *config);

/* Everything that glyd_gpu_linear refuses. */
GLYD_MUST_CHECK glyd_status glyd_gpu_linear_check(const glyd_gpu_linear_args *args,
                                                  glyd_error *err);
/* Refuse a GPU of capability major.minor that no kernel is compiled for. Errors: E_NODEVICE. */
GLYD_MUST_CHECK glyd_status glyd_gpu_capability_check(int major, int minor, glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_gpu_rows_check(const glyd_matrix *m, int64_t row0, int64_t rows,
                                                const void *out, int64_t stride, glyd_error *err);

#ifdef __cplusplus
}
#endif
#endif
