/* plan_cublas.cu - how this GPU's cuBLAS would cut a product's sum, asked of its own heuristic.
 *
 * cuBLAS sums K in `split-K` slices whose float32 sums it adds in order (reduction in the compute
 * type), and otherwise in one chain: docs/KERNELS.md says how that was found. The question is
 * asked as PyTorch asks it: 32 MiB of workspace, pointers aligned to 256 bytes, bf16 in and out.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include <cublasLt.h>
#include <dlfcn.h>

static constexpr size_t WORKSPACE_BYTES = (size_t)32 << 20;

/* The functions of libcublasLt that are called. */
#define LT_FUNCTIONS(X)                                                                            \
    X(create, cublasLtCreate)                                                                      \
    X(destroy, cublasLtDestroy)                                                                    \
    X(product_init, cublasLtMatmulDescInit_internal)                                               \
    X(product_set, cublasLtMatmulDescSetAttribute)                                                 \
    X(shape_init, cublasLtMatrixLayoutInit_internal)                                               \
    X(preference_init, cublasLtMatmulPreferenceInit_internal)                                      \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute)                                        \
    X(ask, cublasLtMatmulAlgoGetHeuristic)                                                         \
    X(config_get, cublasLtMatmulAlgoConfigGetAttribute)

typedef struct lt {
    void *library;
#define LT_MEMBER(member, function) decltype(&function) member;
    LT_FUNCTIONS(LT_MEMBER)
#undef LT_MEMBER
} lt;

static glyd_status lt_open(lt *l, glyd_error *err)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
    for (int i = 0; i < 3 && !l->library; i++)
        l->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!l->library)
        GLYD_FAIL(err, GLYD_E_NOTFOUND, "plan: no libcublasLt.so on this machine");
#define LT_FIND(member, function)                                                                  \
    if (!(l->member = (decltype(l->member))dlsym(l->library, #function)))                          \
        GLYD_FAIL(err, GLYD_E_NOTFOUND, "plan: libcublasLt has no " #function);
    LT_FUNCTIONS(LT_FIND)
#undef LT_FIND
    return GLYD_OK;
}

/* The heuristic's first choice. */
static glyd_status lt_ask(const lt *l, int64_t rows, int64_t cols, int64_t tokens, int has_bias,
                          cublasLtMatmulHeuristicResult_t *result, glyd_error *err)
{
    cublasLtHandle_t handle = NULL;
    if (l->create(&handle))
        GLYD_FAIL(err, GLYD_E_DEVICE, "plan: cublasLtCreate failed");
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t w, x, y;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasOperation_t transposed = CUBLAS_OP_T;
    cublasLtEpilogue_t bias = CUBLASLT_EPILOGUE_BIAS;
    int found = 0;
    /* Column-major: W is [cols, rows] transposed, X [cols, tokens], Y [rows, tokens]. */
    int failed =
        l->product_init(&product, sizeof product, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
        l->product_set(&product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed) ||
        (has_bias && l->product_set(&product, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias)) ||
        l->shape_init(&w, sizeof w, CUDA_R_16BF, (uint64_t)cols, (uint64_t)rows, cols) ||
        l->shape_init(&x, sizeof x, CUDA_R_16BF, (uint64_t)cols, (uint64_t)tokens, cols) ||
        l->shape_init(&y, sizeof y, CUDA_R_16BF, (uint64_t)rows, (uint64_t)tokens, rows) ||
        l->preference_init(&preference, sizeof preference) ||
        l->preference_set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORKSPACE_BYTES,
                          sizeof WORKSPACE_BYTES) ||
        l->ask(handle, &product, &w, &x, &y, &y, &preference, 1, result, &found);
    l->destroy(handle);
    if (failed || !found)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "plan: cublasLt has no algorithm for %lld x %lld by %lld", (long long)rows,
                  (long long)cols, (long long)tokens);
    return GLYD_OK;
}

static glyd_status lt_plan(const lt *l, int64_t cols, cublasLtMatmulHeuristicResult_t *result,
                           glyd_gpu_plan *plan, glyd_error *err)
{
    int slices = 0;
    uint32_t scheme = 0;
    size_t written;
    if (l->config_get(&result->algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &slices, sizeof slices,
                      &written) ||
        l->config_get(&result->algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme,
                      &written))
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "plan: cublasLt does not say how it sums");
    if (slices < 1)
        slices = 1;
    bool in_slices = slices == 1 || scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (!in_slices || slices > GLYD_GPU_SLICES_MAX ||
        (slices > 1 && (slices - 1) * glyd_gpu_slice_blocks(cols, slices) >= glyd_blocks_of(cols)))
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "plan: cublasLt sums in %d slices by scheme %u", slices,
                  scheme);
    plan->slices = slices;
    return GLYD_OK;
}

extern "C" glyd_status glyd_gpu_plan_cublas(int64_t rows, int64_t cols, int64_t tokens,
                                            int has_bias, glyd_gpu_plan *plan, glyd_error *err)
{
    if (rows < 1 || rows > GLYD_ROWS_MAX || cols < 1 || cols > GLYD_COLS_MAX || tokens < 1)
        GLYD_FAIL(err, GLYD_E_ARG, "plan: %lld x %lld by %lld tokens", (long long)rows,
                  (long long)cols, (long long)tokens);
    lt l = {};
    cublasLtMatmulHeuristicResult_t result = {};
    glyd_status status = lt_open(&l, err);
    if (status == GLYD_OK)
        status = lt_ask(&l, rows, cols, tokens, has_bias, &result, err);
    if (status == GLYD_OK)
        status = lt_plan(&l, cols, &result, plan, err);
    if (l.library)
        dlclose(l.library);
    return status;
}
