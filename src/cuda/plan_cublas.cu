/* plan_cublas.cu - in which order this GPU's cuBLAS sums a product: asked of its heuristic,
 * checked.
 *
 * cuBLAS sums K in slices whose float32 sums it adds in order, and otherwise in one chain:
 * docs/KERNELS.md. The calls are those of PyTorch's F.linear:
 *   no bias              cublasGemmEx
 *   bias                 cublasLtMatmul by the heuristic's first choice, the bias in its epilogue
 *   bias, K = 1 or O = 1  cublasGemmEx onto a Y that holds the bias
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cuda/launch.cuh"
#include "cuda/plan_check.h"
#include <cublas_v2.h>
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdlib.h>

/* What PyTorch gives cuBLAS and cublasLt on Hopper unless it is told otherwise. */
static constexpr size_t BLAS_BYTES = (size_t)32 << 20, LT_BYTES = (size_t)1 << 20;

/* cublas_v2.h overloads the name, so that its type has to be spelled out. */
typedef cublasStatus_t (*gemm_function)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                        int, int, const void *, const void *, cudaDataType, int,
                                        const void *, cudaDataType, int, const void *, void *,
                                        cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);

/* The functions of the two libraries that are called: member, type, name. */
#define BLAS_FUNCTIONS(X)                                                                          \
    X(create, decltype(&cublasCreate_v2), "cublasCreate_v2")                                       \
    X(destroy, decltype(&cublasDestroy_v2), "cublasDestroy_v2")                                    \
    X(set_stream, decltype(&cublasSetStream_v2), "cublasSetStream_v2")                             \
    X(set_workspace, decltype(&cublasSetWorkspace_v2), "cublasSetWorkspace_v2")                    \
    X(gemm, gemm_function, "cublasGemmEx")
#define LT_FUNCTIONS(X)                                                                            \
    X(lt_create, decltype(&cublasLtCreate), "cublasLtCreate")                                      \
    X(lt_destroy, decltype(&cublasLtDestroy), "cublasLtDestroy")                                   \
    X(product_init, decltype(&cublasLtMatmulDescInit_internal), "cublasLtMatmulDescInit_internal") \
    X(product_set, decltype(&cublasLtMatmulDescSetAttribute), "cublasLtMatmulDescSetAttribute")    \
    X(shape_init, decltype(&cublasLtMatrixLayoutInit_internal),                                    \
      "cublasLtMatrixLayoutInit_internal")                                                         \
    X(preference_init, decltype(&cublasLtMatmulPreferenceInit_internal),                           \
      "cublasLtMatmulPreferenceInit_internal")                                                     \
    X(preference_set, decltype(&cublasLtMatmulPreferenceSetAttribute),                             \
      "cublasLtMatmulPreferenceSetAttribute")                                                      \
    X(ask, decltype(&cublasLtMatmulAlgoGetHeuristic), "cublasLtMatmulAlgoGetHeuristic")            \
    X(config_get, decltype(&cublasLtMatmulAlgoConfigGetAttribute),                                 \
      "cublasLtMatmulAlgoConfigGetAttribute")                                                      \
    X(multiply, decltype(&cublasLtMatmul), "cublasLtMatmul")

typedef struct cublas_functions {
    void *blas_library, *lt_library;
#define MEMBER(member, type, name) type member;
    BLAS_FUNCTIONS(MEMBER)
    LT_FUNCTIONS(MEMBER)
#undef MEMBER
} cublas_functions;

/* Device memory that grows. */
typedef struct device_buffer {
    void *data;
    size_t bytes;
} device_buffer;

enum { BUFFER_W, BUFFER_X, BUFFER_BIAS, BUFFER_Y, BUFFERS };

struct glyd_gpu_plans {
    int device;
    cublas_functions call;
    cublasHandle_t blas;
    cublasLtHandle_t lt;
    cudaStream_t stream;
    glyd_gpu_plans_options options;
    void *workspace;     /* for both, in device memory */
    uint32_t *different; /* GLYD_PLAN_SCHEMES_MAX, in device memory */
    device_buffer buffer[BUFFERS];
    int64_t w_rows, w_cols; /* of the W that is in its buffer */
    glyd_plan_cache cache;
};

/* cublasLt's descriptions of a product. */
typedef struct lt_product {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t w, x, y;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t choice;
} lt_product;

/* The one that this process has loaded already (PyTorch's, say), else the newest there is. */
static void *open_library(const char *name)
{
    static const char *const versions[] = {".so.13", ".so.12", ".so"};
    static const int flags[] = {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL};
    void *library = NULL;
    for (int i = 0; i < 6 && !library; i++) {
        char file[32];
        snprintf(file, sizeof file, "lib%s%s", name, versions[i % 3]);
        library = dlopen(file, flags[i / 3]);
    }
    return library;
}

static glyd_status open_libraries(cublas_functions *c, glyd_error *err)
{
    c->blas_library = open_library("cublas");
    c->lt_library = open_library("cublasLt"); /* now there is the one that belongs to it */
    if (!c->lt_library || !c->blas_library)
        GLYD_FAIL(err, GLYD_E_NOTFOUND, "plans: no lib%s.so on this machine: install cuBLAS",
                  c->lt_library ? "cublas" : "cublasLt");
#define FIND(library, member, type, name)                                                          \
    if (!(c->member = (type)dlsym(c->library, name)))                                              \
        GLYD_FAIL(err, GLYD_E_NOTFOUND, "plans: cuBLAS has no %s: it is too old", name);
#define FIND_BLAS(member, type, name) FIND(blas_library, member, type, name)
#define FIND_LT(member, type, name)   FIND(lt_library, member, type, name)
    BLAS_FUNCTIONS(FIND_BLAS)
    LT_FUNCTIONS(FIND_LT)
#undef FIND_LT
#undef FIND_BLAS
#undef FIND
    return GLYD_OK;
}

static glyd_status open_device(glyd_gpu_plans *p, glyd_error *err)
{
    GLYD_TRY(cuda_status(cudaGetDevice(&p->device), "plans", err));
    GLYD_TRY(
        cuda_status(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking), "plans", err));
    const glyd_gpu_plans_options *o = &p->options;
    size_t bytes = o->cublas_bytes > o->cublaslt_bytes ? o->cublas_bytes : o->cublaslt_bytes;
    GLYD_TRY(cuda_status(cudaMalloc(&p->workspace, bytes), "plans: workspace", err));
    GLYD_TRY(cuda_status(
        cudaMalloc((void **)&p->different, GLYD_PLAN_SCHEMES_MAX * sizeof *p->different), "plans",
        err));
    if (p->call.create(&p->blas) || p->call.lt_create(&p->lt) ||
        p->call.set_stream(p->blas, p->stream) ||
        p->call.set_workspace(p->blas, p->workspace, o->cublas_bytes))
        GLYD_FAIL(err, GLYD_E_DEVICE, "plans: cuBLAS does not start");
    return GLYD_OK;
}

extern "C" glyd_status glyd_gpu_plans_create(const glyd_gpu_plans_options *options,
                                             glyd_gpu_plans **plans, glyd_error *err)
{
    glyd_gpu_plans *p = (glyd_gpu_plans *)calloc(1, sizeof *p);
    if (!p)
        GLYD_FAIL(err, GLYD_E_NOMEM, "plans: out of memory");
    p->options.cublas_bytes = options && options->cublas_bytes ? options->cublas_bytes : BLAS_BYTES;
    p->options.cublaslt_bytes =
        options && options->cublaslt_bytes ? options->cublaslt_bytes : LT_BYTES;
    glyd_status status = cuda_status(cudaGetDevice(&p->device), "plans", err);
    if (status == GLYD_OK)
        status = open_libraries(&p->call, err);
    if (status == GLYD_OK)
        status = open_device(p, err);
    if (status == GLYD_OK)
        *plans = p;
    else
        glyd_gpu_plans_free(p);
    return status;
}

extern "C" void glyd_gpu_plans_trim(glyd_gpu_plans *plans)
{
    for (int i = 0; i < BUFFERS; i++) {
        cudaFree(plans->buffer[i].data);
        plans->buffer[i] = {};
    }
    plans->w_rows = plans->w_cols = 0;
}

extern "C" void glyd_gpu_plans_free(glyd_gpu_plans *plans)
{
    if (!plans)
        return;
    glyd_gpu_plans_trim(plans);
    if (plans->blas)
        plans->call.destroy(plans->blas);
    if (plans->lt)
        plans->call.lt_destroy(plans->lt);
    cudaFree(plans->workspace);
    cudaFree(plans->different);
    if (plans->stream)
        cudaStreamDestroy(plans->stream);
    if (plans->call.blas_library)
        dlclose(plans->call.blas_library);
    if (plans->call.lt_library)
        dlclose(plans->call.lt_library);
    (void)cudaGetLastError(); /* where there is no device, nothing above needed freeing */
    glyd_plan_cache_free(&plans->cache);
    free(plans);
}

static glyd_status buffer_need(device_buffer *b, int64_t elements, uint16_t **to, glyd_error *err)
{
    size_t bytes = (size_t)elements * sizeof(uint16_t);
    if (bytes > b->bytes) {
        cudaFree(b->data);
        *b = {};
        GLYD_TRY(cuda_status(cudaMalloc(&b->data, bytes), "plans: a product to compare with", err));
        b->bytes = bytes;
    }
    *to = (uint16_t *)b->data;
    return GLYD_OK;
}

/* Whether PyTorch has cublasLt compute it. */
static bool is_lt(const glyd_plan_product *p)
{
    return p->bias && p->rows > 1 && p->cols > 1;
}

/* Operands in place, Y poisoned, or holding the bias where cuBLAS is to add to it. */
static glyd_status prepare(glyd_gpu_plans *plans, const glyd_plan_key *key, glyd_plan_product *p,
                           glyd_error *err)
{
    *p = {};
    p->rows = key->rows;
    p->cols = key->cols;
    p->tokens = key->tokens;
    bool fill_w = plans->w_rows != key->rows || plans->w_cols != key->cols;
    plans->w_rows = plans->w_cols = 0;
    device_buffer *b = plans->buffer;
    GLYD_TRY(buffer_need(&b[BUFFER_W], key->rows * key->cols, &p->w, err));
    GLYD_TRY(buffer_need(&b[BUFFER_X], key->tokens * key->cols, &p->x, err));
    GLYD_TRY(buffer_need(&b[BUFFER_Y], key->tokens * key->rows, &p->y, err));
    if (key->has_bias)
        GLYD_TRY(buffer_need(&b[BUFFER_BIAS], key->rows, &p->bias, err));
    GLYD_TRY(glyd_k_plan_fill(p, fill_w, plans->stream, err));
    plans->w_rows = key->rows;
    plans->w_cols = key->cols;
    return glyd_k_plan_start(p, p->bias && !is_lt(p), plans->stream, err);
}

/* Describe a product to cublasLt and ask for its heuristic's first choice. */
static glyd_status lt_ask(const glyd_gpu_plans *plans, const glyd_plan_product *p, lt_product *d,
                          glyd_error *err)
{
    const cublas_functions *l = &plans->call;
    cublasOperation_t transposed = CUBLAS_OP_T;
    cublasLtEpilogue_t epilogue = p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    uint64_t rows = (uint64_t)p->rows, cols = (uint64_t)p->cols, tokens = (uint64_t)p->tokens;
    int found = 0;
    size_t bytes = is_lt(p) ? plans->options.cublaslt_bytes : plans->options.cublas_bytes;
    /* Column-major: W is [cols, rows] transposed, X [cols, tokens], Y [rows, tokens]. */
    int failed =
        l->product_init(&d->product, sizeof d->product, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
        l->product_set(&d->product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed) ||
        l->product_set(&d->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) ||
        (p->bias && l->product_set(&d->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias,
                                   sizeof p->bias)) ||
        l->shape_init(&d->w, sizeof d->w, CUDA_R_16BF, cols, rows, p->cols) ||
        l->shape_init(&d->x, sizeof d->x, CUDA_R_16BF, cols, tokens, p->cols) ||
        l->shape_init(&d->y, sizeof d->y, CUDA_R_16BF, rows, tokens, p->rows) ||
        l->preference_init(&d->preference, sizeof d->preference) ||
        l->preference_set(&d->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                          sizeof bytes) ||
        l->ask(plans->lt, &d->product, &d->w, &d->x, &d->y, &d->y, &d->preference, 1, &d->choice,
               &found);
    if (failed || !found)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "plan: cublasLt has no algorithm for %llu x %llu by %llu",
                  (unsigned long long)rows, (unsigned long long)cols, (unsigned long long)tokens);
    return GLYD_OK;
}

/* The order that the heuristic's choice speaks of; one chain where it says nothing of use. */
static glyd_plan_scheme lt_scheme(const glyd_gpu_plans *plans, lt_product *d, int64_t cols)
{
    glyd_plan_scheme scheme = {1, GLYD_BLOCK_COLS};
    int slices = 0;
    size_t written;
    if (!plans->call.config_get(&d->choice.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &slices,
                                sizeof slices, &written) &&
        slices > 1 && slices <= GLYD_GPU_SLICES_MAX)
        scheme.parts = slices;
    return glyd_plan_scheme_fits(scheme, cols) ? scheme : glyd_plan_scheme{1, GLYD_BLOCK_COLS};
}

/* The product, as PyTorch asks cuBLAS for it. */
static glyd_status multiply(const glyd_gpu_plans *plans, const glyd_plan_product *p, lt_product *d,
                            glyd_error *err)
{
    const cublas_functions *l = &plans->call;
    int rows = (int)p->rows, cols = (int)p->cols, tokens = (int)p->tokens, failed;
    float one = 1, zero = 0;
    if (is_lt(p)) {
        failed = l->multiply(plans->lt, &d->product, &one, p->w, &d->w, p->x, &d->x, &zero, p->y,
                             &d->y, p->y, &d->y, &d->choice.algo, plans->workspace,
                             plans->options.cublaslt_bytes, plans->stream);
    } else {
        failed = l->gemm(plans->blas, CUBLAS_OP_T, CUBLAS_OP_N, rows, tokens, cols, &one, p->w,
                         CUDA_R_16BF, cols, p->x, CUDA_R_16BF, cols, p->bias ? &one : &zero, p->y,
                         CUDA_R_16BF, rows, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
    }
    if (failed)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "plan: cuBLAS refuses %d x %d by %d: status %d", rows,
                  cols, tokens, failed);
    return GLYD_OK;
}

/* Set *found to the first of n schemes that gives all results that are compared; parts 0: none. */
static glyd_status compare(const glyd_gpu_plans *plans, const glyd_plan_product *p,
                           const glyd_plan_scheme *schemes, int n, glyd_plan_scheme *found,
                           glyd_error *err)
{
    uint32_t different[GLYD_PLAN_SCHEMES_MAX];
    size_t bytes = (size_t)n * sizeof *different;
    GLYD_TRY(cuda_status(cudaMemsetAsync(plans->different, 0, bytes, plans->stream), "plans", err));
    GLYD_TRY(glyd_k_plan_compare(p, schemes, n, plans->different, plans->stream, err));
    GLYD_TRY(cuda_status(
        cudaMemcpyAsync(different, plans->different, bytes, cudaMemcpyDeviceToHost, plans->stream),
        "plans", err));
    GLYD_TRY(cuda_status(cudaStreamSynchronize(plans->stream), "plans", err));
    *found = {};
    for (int i = n - 1; i >= 0; i--) {
        if (!different[i])
            *found = schemes[i];
    }
    return GLYD_OK;
}

static glyd_status find_scheme(glyd_gpu_plans *plans, const glyd_plan_key *key,
                               glyd_plan_scheme *scheme, glyd_error *err)
{
    glyd_plan_product p;
    lt_product d = {};
    GLYD_TRY(prepare(plans, key, &p, err));
    GLYD_TRY(lt_ask(plans, &p, &d, err));
    GLYD_TRY(multiply(plans, &p, &d, err));
    glyd_plan_scheme likely = lt_scheme(plans, &d, key->cols), tried[GLYD_PLAN_SCHEMES_MAX];
    GLYD_TRY(compare(plans, &p, &likely, 1, scheme, err));
    if (scheme->parts)
        return GLYD_OK;
    int n = 0;
    for (int i = 0; n < GLYD_PLAN_SCHEMES_MAX && glyd_plan_scheme_candidate(i, &tried[n]); i++)
        n += glyd_plan_scheme_fits(tried[n], key->cols);
    return compare(plans, &p, tried, n, scheme, err);
}

static glyd_status check_key(const glyd_gpu_plans *plans, const glyd_plan_key *key, glyd_error *err)
{
    if (!plans || key->rows < 1 || key->rows > GLYD_ROWS_MAX || key->cols < 1 ||
        key->cols > GLYD_COLS_MAX || key->tokens < 1 || key->tokens > GLYD_GPU_TOKENS_MAX ||
        key->tokens * key->rows > (int64_t)1 << 42)
        GLYD_FAIL(err, GLYD_E_ARG, "plan: %lld x %lld by %lld tokens", (long long)key->rows,
                  (long long)key->cols, (long long)key->tokens);
    int device;
    GLYD_TRY(cuda_status(cudaGetDevice(&device), "plans", err));
    if (device != plans->device)
        GLYD_FAIL(err, GLYD_E_ARG, "plan: device %d, where these plans are of device %d", device,
                  plans->device);
    return GLYD_OK;
}

extern "C" glyd_status glyd_gpu_plan_cublas(glyd_gpu_plans *plans, int64_t rows, int64_t cols,
                                            int64_t tokens, int has_bias, glyd_gpu_plan *plan,
                                            glyd_error *err)
{
    glyd_plan_key key = {rows, cols, tokens, has_bias != 0};
    glyd_plan_scheme scheme;
    if (!plan || !plans || !glyd_plan_cache_find(&plans->cache, &key, &scheme)) {
        GLYD_TRY(check_key(plan ? plans : NULL, &key, err));
        GLYD_TRY(find_scheme(plans, &key, &scheme, err));
        if (glyd_plan_cache_add(&plans->cache, &key, scheme) != GLYD_OK)
            GLYD_FAIL(err, GLYD_E_NOMEM, "plan: out of memory");
    }
    if (!glyd_plan_scheme_is_plan(scheme))
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "plan: not reproduced: cuBLAS sums %lld x %lld by %lld tokens in %s (%d, %d)",
                  (long long)rows, (long long)cols, (long long)tokens,
                  !scheme.parts   ? "an order that is not known"
                  : !scheme.align ? "interleaved chains"
                                  : "slices that are no plan's",
                  scheme.parts, scheme.align);
    plan->slices = scheme.parts;
    return GLYD_OK;
}
