/* glyd_gpu_bench.cu - products from packed weights against cuBLAS, timed in one run.
 *
 * usage: glyd_gpu_bench [-l LAYOUTS] [-s SHAPES] [-m TOKENS] [-p cublas|fixed] [-c CSV] [-k COMMIT]
 *                       [-w] [-u]
 *   LAYOUTS, SHAPES, TOKENS are lists with commas; a shape is a name of the table below, the name
 *   of a model there (all its shapes), "all", or OxK.
 *   -s may be written --shapes
 *   -w  try every configuration of the kernel instead of the chosen one
 *   -u  time unpacking, too
 *
 * Weights are Gaussian with a scale a row between 0.6 and 1.4 times 0.02; X is Gaussian. Each time
 * is the median of 9 replays of a graph of 24 products over copies of the weights that together
 * are several times the second-level cache; cuBLAS and glyd take turns. Prints microseconds of
 * both, their ratio, the bytes a second of packed weights, bits a weight, and whether all results
 * have the same bits.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "cuda/linear.h"
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 24, REPLAYS = 9, LIST_MAX = 64 };

typedef struct named_shape {
    const char *model, *name;
    int64_t rows, cols;
} named_shape;

static const named_shape shapes[] = {
    {"qwen3-8b", "qkv", 6144, 4096},
    {"qwen3-8b", "o", 4096, 4096},
    {"qwen3-8b", "gate_up", 24576, 4096},
    {"qwen3-8b", "down", 4096, 12288},
    {"qwen3-8b", "lm_head", 151936, 4096},
    {"qwen3-0.6b", "q06_qkv", 4096, 1024},
    {"qwen3-0.6b", "q06_o", 1024, 2048},
    {"qwen3-0.6b", "q06_gate_up", 6144, 1024},
    {"qwen3-0.6b", "q06_down", 1024, 3072},
    {"qwen3-0.6b", "q06_lm_head", 151936, 1024},
    {"qwen3-4b", "q4_qkv", 6144, 2560},
    {"qwen3-4b", "q4_o", 2560, 4096},
    {"qwen3-4b", "q4_gate_up", 19456, 2560},
    {"qwen3-4b", "q4_down", 2560, 9728},
    {"qwen3-4b", "q4_lm_head", 151936, 2560},
    {"qwen3-32b", "q32_qkv", 10240, 5120},
    {"qwen3-32b", "q32_o", 5120, 8192},
    {"qwen3-32b", "q32_gate_up", 51200, 5120},
    {"qwen3-32b", "q32_down", 5120, 25600},
    {"qwen3-32b", "q32_lm_head", 151936, 5120},
    {"llama-3.1-8b", "l8_qkv", 6144, 4096},
    {"llama-3.1-8b", "l8_o", 4096, 4096},
    {"llama-3.1-8b", "l8_gate_up", 28672, 4096},
    {"llama-3.1-8b", "l8_down", 4096, 14336},
    {"llama-3.1-8b", "l8_lm_head", 128256, 4096},
    {"llama-3.1-70b", "l70_qkv", 10240, 8192},
    {"llama-3.1-70b", "l70_o", 8192, 8192},
    {"llama-3.1-70b", "l70_gate_up", 57344, 8192},
    {"llama-3.1-70b", "l70_down", 8192, 28672},
    {"llama-3.1-70b", "l70_lm_head", 128256, 8192},
};

/* cublas_v2.h overloads the name, so that its type has to be spelled out. */
typedef cublasStatus_t (*gemm_function)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                        int, int, const void *, const void *, cudaDataType, int,
                                        const void *, cudaDataType, int, const void *, void *,
                                        cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);

typedef struct cublas {
    decltype(&cublasCreate_v2) create;
    decltype(&cublasSetWorkspace_v2) set_workspace;
    decltype(&cublasSetStream_v2) set_stream;
    gemm_function gemm;
    cublasHandle_t handle;
    glyd_gpu_plans *plans;
} cublas;

typedef struct options {
    const char *layouts, *shapes, *tokens, *commit;
    bool fixed, sweep, unpack;
    FILE *csv;
} options;

/* One matrix on the device: copies of it as bf16 and packed, and what products need. */
typedef struct subject {
    named_shape shape;
    glyd_layout layout;
    int copies;
    uint16_t *bf16;
    size_t bf16_bytes;
    glyd_matrix packed[LIST_MAX];
    double bits;
    uint16_t *x, *y, *y_cublas, *spare;
    void *workspace;
    size_t workspace_bytes;
} subject;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "glyd_gpu_bench: %s: %s\n", what, why);
    exit(1);
}

static void check_cuda(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        die(what, cudaGetErrorString(error));
}

static void check_glyd(glyd_status status, const glyd_error *err)
{
    if (status != GLYD_OK)
        die(glyd_status_text(status), err->text);
}

static void *device_alloc(size_t bytes)
{
    void *p;
    check_cuda(cudaMalloc(&p, bytes), "memory");
    return p;
}

static __device__ uint32_t hash(uint64_t i)
{
    i = (i ^ i >> 31) * 0x9e3779b97f4a7c15u;
    i = (i ^ i >> 29) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(i >> 32);
}

/* Gaussian values of a standard deviation that differs from row to row where `spread` is set. */
static __global__ void fill_kernel(uint16_t *to, int64_t rows, int64_t cols, float deviation,
                                   float spread, uint64_t seed)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * cols;
         i += (int64_t)gridDim.x * blockDim.x) {
        float u = ((float)hash(seed + 2 * (uint64_t)i) + 0.5f) / 4294967296.0f;
        float v = (float)hash(seed + 2 * (uint64_t)i + 1) / 4294967296.0f;
        float row = (float)hash(seed + (uint64_t)(i / cols) * 77773) / 4294967296.0f;
        float scale = deviation * (1 + spread * (2 * row - 1));
        __nv_bfloat16 b = __float2bfloat16_rn(sqrtf(-2 * logf(u)) * cosf(6.2831853f * v) * scale);
        to[i] = *(uint16_t *)&b;
    }
}

static void cublas_open(cublas *c, cudaStream_t stream)
{
    void *library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcublas.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        die("cuBLAS", dlerror());
    c->create = (decltype(c->create))dlsym(library, "cublasCreate_v2");
    c->set_workspace = (decltype(c->set_workspace))dlsym(library, "cublasSetWorkspace_v2");
    c->set_stream = (decltype(c->set_stream))dlsym(library, "cublasSetStream_v2");
    c->gemm = (gemm_function)dlsym(library, "cublasGemmEx");
    if (!c->create || !c->set_workspace || !c->set_stream || !c->gemm || c->create(&c->handle) ||
        c->set_stream(c->handle, stream) ||
        c->set_workspace(c->handle, device_alloc(32 << 20), 32 << 20))
        die("cuBLAS", "cannot start");
    glyd_error err;
    check_glyd(glyd_gpu_plans_create(NULL, &c->plans, &err), &err);
}

static void run_cublas(const cublas *c, const subject *s, int copy, int64_t tokens)
{
    float one = 1, zero = 0;
    int rows = (int)s->shape.rows, cols = (int)s->shape.cols;
    if (c->gemm(c->handle, CUBLAS_OP_T, CUBLAS_OP_N, rows, (int)tokens, cols, &one,
                (const uint8_t *)s->bf16 + (size_t)copy * s->bf16_bytes, CUDA_R_16BF, cols, s->x,
                CUDA_R_16BF, cols, &zero, s->y_cublas, CUDA_R_16BF, rows, CUBLAS_COMPUTE_32F,
                CUBLAS_GEMM_DEFAULT))
        die("cuBLAS", "a product failed");
}

static glyd_gpu_linear_args linear_args(const subject *s, int copy, int64_t tokens,
                                        glyd_gpu_plan plan)
{
    glyd_gpu_linear_args a = {};
    a.weight = &s->packed[copy];
    a.x = s->x;
    a.x_stride = s->shape.cols;
    a.tokens = tokens;
    a.y = s->y;
    a.y_stride = s->shape.rows;
    a.plan = plan;
    a.workspace = s->workspace;
    a.workspace_bytes = s->workspace_bytes;
    return a;
}

static int compare_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* A graph of CALLS calls of `enqueue(copy)`. */
template <typename F>
static cudaGraphExec_t capture(const subject *s, cudaStream_t stream, F enqueue)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < CALLS; i++)
        enqueue(i % s->copies);
    check_cuda(cudaStreamEndCapture(stream, &graph), "capture");
    check_cuda(cudaGraphInstantiate(&exec, graph, 0), "graph");
    check_cuda(cudaGraphLaunch(exec, stream), "graph");
    cudaGraphDestroy(graph);
    return exec;
}

/* Microseconds a call of each of `n` graphs: medians of REPLAYS, the graphs taking turns, so that
 * the clocks, which follow the load, are the same for all. */
static void replay(cudaStream_t stream, const cudaGraphExec_t *graphs, int n, double *us)
{
    float ms[2][REPLAYS];
    cudaEvent_t begin, end;
    check_cuda(cudaEventCreate(&begin), "event");
    check_cuda(cudaEventCreate(&end), "event");
    for (int i = 0; i < n * REPLAYS; i++) {
        check_cuda(cudaEventRecord(begin, stream), "event");
        check_cuda(cudaGraphLaunch(graphs[i % n], stream), "graph");
        check_cuda(cudaEventRecord(end, stream), "event");
        check_cuda(cudaEventSynchronize(end), "graph");
        check_cuda(cudaEventElapsedTime(&ms[i % n][i / n], begin, end), "event");
    }
    for (int i = 0; i < n; i++) {
        qsort(ms[i], REPLAYS, sizeof **ms, compare_float);
        us[i] = ms[i][REPLAYS / 2] * 1e3 / CALLS;
        cudaGraphExecDestroy(graphs[i]);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
}

template <typename F> static double time_us(const subject *s, cudaStream_t stream, F enqueue)
{
    cudaGraphExec_t graph = capture(s, stream, enqueue);
    double us;
    replay(stream, &graph, 1, &us);
    return us;
}

static int64_t n_unequal(const subject *s, int64_t tokens)
{
    size_t n = (size_t)(tokens * s->shape.rows);
    uint16_t *a = (uint16_t *)malloc(2 * n * sizeof *a), *b = a + n;
    int64_t unequal = 0;
    check_cuda(cudaMemcpy(a, s->y, n * 2, cudaMemcpyDeviceToHost), "copy");
    check_cuda(cudaMemcpy(b, s->y_cublas, n * 2, cudaMemcpyDeviceToHost), "copy");
    for (size_t i = 0; i < n; i++)
        unequal += a[i] != b[i];
    free(a);
    return unequal;
}

/* Pack on the host, copy to the device as often as it takes to leave the cache. */
static void subject_pack(subject *s, glyd_layout layout, const uint16_t *host, glyd_pool *pool)
{
    glyd_buf buf = {};
    glyd_matrix m;
    glyd_error err;
    check_glyd(
        glyd_pack(layout, host, s->shape.rows, s->shape.cols, s->shape.cols, pool, &buf, &m, &err),
        &err);
    s->layout = m.layout;
    s->bits = 8.0 * (double)glyd_matrix_bytes(&m) / (double)(s->shape.rows * s->shape.cols);
    for (int copy = 0; copy < s->copies; copy++) {
        s->packed[copy] = m;
        for (int i = 0; i < GLYD_ARRAYS; i++) {
            if (!m.array[i].bytes)
                continue;
            uint8_t *to = (uint8_t *)device_alloc(m.array[i].bytes);
            check_cuda(cudaMemcpy(to, m.array[i].data, m.array[i].bytes, cudaMemcpyHostToDevice),
                       "copy");
            s->packed[copy].array[i].data = to;
        }
    }
    s->workspace_bytes = glyd_gpu_linear_workspace(&s->packed[0], 1);
    s->workspace = s->workspace_bytes ? device_alloc(s->workspace_bytes) : NULL;
    glyd_buf_free(&buf);
}

static void subject_unpack_free(subject *s)
{
    for (int copy = 0; copy < s->copies; copy++) {
        for (int i = 0; i < GLYD_ARRAYS; i++)
            cudaFree((void *)s->packed[copy].array[i].data);
    }
    cudaFree(s->workspace);
}

static void print_row(const options *o, const subject *s, int64_t tokens, int slices, double cublas,
                      double us, int64_t unequal, const char *what)
{
    double rate = s->bits / 8 * (double)(s->shape.rows * s->shape.cols) / us / 1e6;
    printf("%-12s %6lld x %-5lld M %-5lld %-5s S %d  cublas %8.2f  glyd %8.2f us  %5.3fx  "
           "%5.2f TB/s  %6.3f bits  %s %s\n",
           s->shape.name, (long long)s->shape.rows, (long long)s->shape.cols, (long long)tokens,
           glyd_layout_name(s->layout), slices, cublas, us, cublas / us, rate, s->bits,
           unequal ? "NOT EQUAL" : "equal", what);
    if (unequal)
        printf("   %lld of %lld differ\n", (long long)unequal, (long long)(tokens * s->shape.rows));
    if (o->csv && !*what) {
        cudaDeviceProp device;
        check_cuda(cudaGetDeviceProperties(&device, 0), "device");
        char date[16];
        time_t now = time(NULL);
        strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
        fprintf(o->csv, "%s,%s,%lld,%lld,%lld,%s,%s:%d,%.2f,%.2f,%.4f,%.4f,%s,%s,%s,%s\n",
                s->shape.model, s->shape.name, (long long)s->shape.rows, (long long)s->shape.cols,
                (long long)tokens, glyd_layout_name(s->layout), o->fixed ? "fixed" : "cublas",
                slices, cublas, us, cublas / us, s->bits, unequal ? "no" : "yes", device.name,
                o->commit, date);
        fflush(o->csv);
    }
    fflush(stdout);
}

/* Every tile count and number of CTAs an SM of the few-token kernel, every tile of the other. */
static void sweep(const options *o, const subject *s, int64_t tokens, glyd_gpu_plan plan,
                  double cublas, cudaStream_t stream)
{
    glyd_gpu_shape shape = {};
    shape.layout = s->layout;
    shape.rows = s->shape.rows;
    shape.cols = s->shape.cols;
    shape.tokens = tokens;
    shape.slices = plan.slices;
    shape.run_blocks = s->packed[0].run_blocks;
    shape.n_sms = 132;
    shape.capability = 90;
    glyd_error err;
    for (int i = 0;; i++) {
        glyd_gpu_config config;
        if (!glyd_gpu_config_candidate(&shape, i, &config))
            break;
        if (config.kernel == GLYD_GPU_KERNEL_PLAIN)
            continue;
        check_cuda(cudaMemset(s->y, 0xff, (size_t)(tokens * s->shape.rows * 2)), "memset");
        double us = time_us(s, stream, [&](int copy) {
            glyd_gpu_linear_args a = linear_args(s, copy, tokens, plan);
            check_glyd(glyd_gpu_linear_with(&a, &config, stream, &err), &err);
        });
        char what[128];
        snprintf(what, sizeof what,
                 "kernel %d tile %d x %d pair %d, %d stages, %d threads, %d B, codes %d:%d",
                 config.kernel, config.token_tile, config.tiles, config.pair, config.stages,
                 config.threads, config.shared_bytes, (int)config.codes, config.decoders_log2);
        print_row(o, s, tokens, plan.slices, cublas, us, n_unequal(s, tokens), what);
    }
}

static void bench_tokens(const options *o, const cublas *c, const subject *s, int64_t tokens,
                         cudaStream_t stream)
{
    glyd_gpu_plan plan = glyd_gpu_plan_fixed(s->shape.rows, s->shape.cols);
    glyd_error err;
    if (!o->fixed)
        check_glyd(
            glyd_gpu_plan_cublas(c->plans, s->shape.rows, s->shape.cols, tokens, 0, &plan, &err),
            &err);
    check_cuda(cudaMemset(s->y, 0xff, (size_t)(tokens * s->shape.rows * 2)), "memset");
    const cudaGraphExec_t graphs[2] = {
        capture(s, stream, [&](int copy) { run_cublas(c, s, copy, tokens); }),
        capture(s, stream,
                [&](int copy) {
                    glyd_gpu_linear_args a = linear_args(s, copy, tokens, plan);
                    check_glyd(glyd_gpu_linear(&a, stream, &err), &err);
                }),
    };
    double us[2];
    replay(stream, graphs, 2, us);
    double cublas = us[0];
    print_row(o, s, tokens, plan.slices, cublas, us[1], n_unequal(s, tokens), "");
    if (o->sweep)
        sweep(o, s, tokens, plan, cublas, stream);
}

static void bench_unpack(const subject *s, cudaStream_t stream)
{
    glyd_error err;
    size_t bytes = s->bf16_bytes;
    double copy_us = time_us(s, stream, [&](int copy) {
        check_cuda(cudaMemcpyAsync(s->spare, (const uint8_t *)s->bf16 + (size_t)copy * bytes, bytes,
                                   cudaMemcpyDeviceToDevice, stream),
                   "copy");
    });
    double us = time_us(s, stream, [&](int copy) {
        check_glyd(glyd_gpu_unpack(&s->packed[copy], 0, s->shape.rows, s->spare, s->shape.cols,
                                   stream, &err),
                   &err);
    });
    double moved = (double)bytes * (1 + s->bits / 16);
    printf("%-12s unpack %-5s %8.2f us  %.2f TB/s read and written, copy %.2f TB/s: %.0f %%\n",
           s->shape.name, glyd_layout_name(s->layout), us, moved / us / 1e6,
           2.0 * (double)bytes / copy_us / 1e6, 100 * moved / us / (2.0 * (double)bytes / copy_us));
}

/* Call fn for each part of a list with commas. */
template <typename F> static void each(const char *list, F fn)
{
    char part[64];
    while (*list) {
        size_t n = strcspn(list, ",");
        snprintf(part, sizeof part, "%.*s", (int)n, list);
        fn(part);
        list += n + (list[n] == ',');
    }
}

/* Call fn for each shape that a name stands for. */
template <typename F> static void each_shape(const char *name, F fn)
{
    bool found = false;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (strcmp(shapes[i].name, name) && strcmp(shapes[i].model, name) && strcmp("all", name))
            continue;
        fn(shapes[i]);
        found = true;
    }
    long long rows, cols;
    if (found)
        return;
    if (sscanf(name, "%lldx%lld", &rows, &cols) != 2)
        die(name, "no such shape");
    named_shape s = {"-", "shape", rows, cols};
    fn(s);
}

static void bench_shape(const options *o, const cublas *c, named_shape shape, glyd_pool *pool,
                        cudaStream_t stream)
{
    subject s = {};
    s.shape = shape;
    int64_t rows = s.shape.rows, cols = s.shape.cols, tokens_max = 1;
    each(o->tokens, [&](const char *part) {
        if (atoll(part) > tokens_max)
            tokens_max = atoll(part);
    });
    s.bf16_bytes = (size_t)(rows * cols * 2);
    s.copies = (int)((size_t)300000000 / s.bf16_bytes + 2);
    if (s.copies > CALLS)
        s.copies = CALLS;
    s.bf16 = (uint16_t *)device_alloc(s.bf16_bytes * (size_t)s.copies);
    s.spare = (uint16_t *)device_alloc(s.bf16_bytes);
    s.x = (uint16_t *)device_alloc((size_t)(tokens_max * cols * 2));
    s.y = (uint16_t *)device_alloc((size_t)(tokens_max * rows * 2));
    s.y_cublas = (uint16_t *)device_alloc((size_t)(tokens_max * rows * 2));
    fill_kernel<<<1024, 256, 0, stream>>>(s.bf16, rows, cols, 0.02f, 0.4f, 1);
    fill_kernel<<<1024, 256, 0, stream>>>(s.x, tokens_max, cols, 1.0f, 0.0f, 1ull << 40);
    check_cuda(cudaStreamSynchronize(stream), "fill");
    for (int i = 1; i < s.copies; i++)
        check_cuda(cudaMemcpy((uint8_t *)s.bf16 + (size_t)i * s.bf16_bytes, s.bf16, s.bf16_bytes,
                              cudaMemcpyDeviceToDevice),
                   "copy");
    uint16_t *host = (uint16_t *)malloc(s.bf16_bytes);
    check_cuda(cudaMemcpy(host, s.bf16, s.bf16_bytes, cudaMemcpyDeviceToHost), "copy");
    each(o->layouts, [&](const char *layout_name) {
        glyd_layout layout;
        if (glyd_layout_from_name(layout_name, &layout) != GLYD_OK)
            die(layout_name, "no such layout");
        subject_pack(&s, layout, host, pool);
        if (o->unpack)
            bench_unpack(&s, stream);
        each(o->tokens, [&](const char *part) { bench_tokens(o, c, &s, atoll(part), stream); });
        subject_unpack_free(&s);
    });
    free(host);
    cudaFree(s.bf16);
    cudaFree(s.spare);
    cudaFree(s.x);
    cudaFree(s.y);
    cudaFree(s.y_cublas);
}

static void parse(options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "-w") == 0) {
            o->sweep = true;
            continue;
        }
        if (strcmp(argv[i], "-u") == 0) {
            o->unpack = true;
            continue;
        }
        if (!value)
            die(argv[i], "needs a value");
        i++;
        if (strcmp(argv[i - 1], "-l") == 0)
            o->layouts = value;
        else if (strcmp(argv[i - 1], "-s") == 0 || strcmp(argv[i - 1], "--shapes") == 0)
            o->shapes = value;
        else if (strcmp(argv[i - 1], "-m") == 0)
            o->tokens = value;
        else if (strcmp(argv[i - 1], "-p") == 0)
            o->fixed = strcmp(value, "fixed") == 0;
        else if (strcmp(argv[i - 1], "-k") == 0)
            o->commit = value;
        else if (strcmp(argv[i - 1], "-c") == 0)
            o->csv = fopen(value, "a");
        else
            die(argv[i - 1], "no such option");
    }
}

int main(int argc, char **argv)
{
    options o = {};
    o.layouts = "mma12,mma";
    o.shapes = "qkv,o,gate_up,down,lm_head";
    o.tokens = "1,2,4,8,16,32,64,128,256,512,1024,2048,4096";
    o.commit = "-";
    parse(&o, argc, argv);
    if (o.csv && ftell(o.csv) == 0)
        fprintf(o.csv, "model,name,O,K,M,layout,plan,us_cublas,us_glyd,ratio,bits,equal,machine,"
                       "commit,date\n");
    cudaStream_t stream;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    cublas c = {};
    cublas_open(&c, stream);
    glyd_pool *pool;
    glyd_error err;
    glyd_pool_options pool_options = {};
    check_glyd(glyd_pool_create(&pool_options, &pool, &err), &err);
    each(o.shapes, [&](const char *name) {
        each_shape(name, [&](named_shape s) { bench_shape(&o, &c, s, pool, stream); });
    });
    glyd_gpu_plans_free(c.plans);
    glyd_pool_free(pool);
    if (o.csv)
        fclose(o.csv);
    return 0;
}
