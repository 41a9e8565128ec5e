/* kcheck.cu - every GPU operation, on a grid of shapes, tokens and inputs, bit for bit.
 *
 * usage: kcheck [-r]      -r: the reduced grid, for compute-sanitizer
 *
 *   unpack, embed   against the values that were packed
 *   linear          each configuration that the library could choose, for several plans, against
 *                   the plain kernel; and the plain kernel against cuBLAS with cuBLAS's own plan
 *
 * Inputs are ordinary, of wide range, cancelling, with NaN and infinity, denormal, and heavy with
 * escapes. Results lie between guard zones and start out poisoned. Prints what differs and a count;
 * exits 1 where anything differs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "cuda/linear.h"
#include "values.cuh"
#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 512, POISON = 0xa5 };

typedef cublasStatus_t (*gemm_function)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                        int, int, const void *, const void *, cudaDataType, int,
                                        const void *, cudaDataType, int, const void *, void *,
                                        cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);

typedef struct cublas {
    cublasHandle_t handle;
    gemm_function gemm; /* NULL: there is no cuBLAS here */
    glyd_gpu_plans *plans;
} cublas;

/* One case: values on the host and the device, and the packed matrix there. */
typedef struct subject {
    int64_t rows, cols, tokens, x_stride, y_stride;
    input_kind kind;
    uint16_t *w, *x, *bias;       /* host */
    uint16_t *d_w, *d_x, *d_bias; /* device */
    uint16_t *d_y, *y, *y_plain;  /* device with guards; two host copies, without */
    glyd_matrix packed;           /* device */
    void *workspace;
    size_t workspace_bytes;
} subject;

typedef struct counts {
    long ran, failed, skipped;
} counts;

static void subject_make(subject *s)
{
    size_t n_w = (size_t)(s->rows * s->cols), n_x = (size_t)(s->tokens * s->x_stride);
    size_t n_y = (size_t)(s->tokens * s->y_stride);
    s->w = (uint16_t *)malloc(n_w * 2 + 2);
    s->x = (uint16_t *)malloc(n_x * 2 + 2);
    s->bias = (uint16_t *)malloc((size_t)s->rows * 2 + 2);
    s->y = (uint16_t *)malloc((n_y + 2 * GUARD) * 2);
    s->y_plain = (uint16_t *)malloc((n_y + 2 * GUARD) * 2);
    for (int64_t r = 0; r < s->rows; r++) {
        for (int64_t c = 0; c < s->cols; c++)
            s->w[r * s->cols + c] = make_value(s->kind, r, c, 0.02f);
        s->bias[r] = bf16_of(gaussian());
    }
    for (size_t i = 0; i < n_x; i++) {
        /* What lies between the rows is no part of X: no kernel may use it. */
        bool inside = (int64_t)i % s->x_stride < s->cols;
        input_kind kind = s->kind == INPUT_NONFINITE ? INPUT_ORDINARY : s->kind;
        s->x[i] = inside ? make_value(kind, 0, (int64_t)i % s->x_stride, 1) : 0x7fc0;
    }
    s->d_w = (uint16_t *)device_copy(s->w, n_w * 2);
    s->d_x = (uint16_t *)device_copy(s->x, n_x * 2);
    s->d_bias = (uint16_t *)device_copy(s->bias, (size_t)s->rows * 2);
    s->d_y = (uint16_t *)device_alloc((n_y + 2 * GUARD) * 2);
}

/* Pack; false where the layout would not be smaller and the values came back as they are. */
static bool subject_pack(subject *s, glyd_layout layout)
{
    glyd_buf buf = {};
    glyd_matrix m;
    glyd_error err;
    if (glyd_pack(layout, s->w, s->rows, s->cols, s->cols, NULL, &buf, &m, &err) != GLYD_OK)
        die("pack", err.text);
    bool packed = m.layout == layout;
    s->packed = m;
    for (int i = 0; packed && i < GLYD_ARRAYS; i++) {
        if (m.array[i].bytes)
            s->packed.array[i].data = (uint8_t *)device_copy(m.array[i].data, m.array[i].bytes);
    }
    glyd_buf_free(&buf);
    s->workspace_bytes = packed ? glyd_gpu_linear_workspace(&s->packed, s->tokens) : 0;
    s->workspace = s->workspace_bytes ? device_alloc(s->workspace_bytes) : NULL;
    return packed;
}

static void subject_unpack(subject *s)
{
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        if (s->packed.array[i].bytes)
            cudaFree((void *)s->packed.array[i].data);
    }
    cudaFree(s->workspace);
}

static void subject_free(subject *s)
{
    cudaFree(s->d_w);
    cudaFree(s->d_x);
    cudaFree(s->d_bias);
    cudaFree(s->d_y);
    free(s->w);
    free(s->x);
    free(s->bias);
    free(s->y);
    free(s->y_plain);
}

static void report(const subject *s, counts *n, const char *what, bool same)
{
    n->ran++;
    if (same)
        return;
    n->failed++;
    printf("FAILED %s: %s %lld x %lld, %lld tokens, %s\n", what, glyd_layout_name(s->packed.layout),
           (long long)s->rows, (long long)s->cols, (long long)s->tokens, input_names[s->kind]);
}

/* Poison `elements` of results and the guards around them. */
static uint16_t *poison(subject *s, int64_t elements)
{
    check_cuda(cudaMemset(s->d_y, POISON, (size_t)(elements + 2 * GUARD) * 2), "poison");
    return s->d_y + GUARD;
}

/* Fetch results; false where a guard was written. */
static bool fetch(const subject *s, int64_t elements, uint16_t *to)
{
    check_cuda(cudaDeviceSynchronize(), "kernel");
    check_cuda(cudaMemcpy(to, s->d_y, (size_t)(elements + 2 * GUARD) * 2, cudaMemcpyDeviceToHost),
               "copy");
    bool whole = true;
    for (int i = 0; i < GUARD; i++)
        whole &= to[i] == 0xa5a5 && to[GUARD + elements + i] == 0xa5a5;
    return whole;
}

static glyd_gpu_linear_args linear_args(const subject *s, int slices, bool bias)
{
    glyd_gpu_linear_args a = {};
    a.weight = &s->packed;
    a.x = s->d_x;
    a.x_stride = s->x_stride;
    a.tokens = s->tokens;
    a.bias = bias ? s->d_bias : NULL;
    a.y = s->d_y + GUARD;
    a.y_stride = s->y_stride;
    a.plan.slices = slices;
    a.workspace = s->workspace;
    a.workspace_bytes = s->workspace_bytes;
    return a;
}

/* A NaN's payload is the hardware's affair; that it is one is not. */
static bool same_results(const subject *s, const uint16_t *a, const uint16_t *b)
{
    for (int64_t i = 0; i < s->tokens * s->y_stride; i++) {
        uint16_t x = a[GUARD + i], y = b[GUARD + i];
        bool nan = (x & 0x7fff) > 0x7f80 && (y & 0x7fff) > 0x7f80;
        if (x != y && !(nan && i % s->y_stride < s->rows))
            return false;
    }
    return true;
}

static glyd_gpu_shape shape_of(const subject *s, int slices)
{
    glyd_gpu_shape shape = {};
    cudaDeviceProp device;
    check_cuda(cudaGetDeviceProperties(&device, 0), "device");
    shape.layout = s->packed.layout;
    shape.rows = s->rows;
    shape.cols = s->cols;
    shape.tokens = s->tokens;
    shape.slices = slices;
    shape.run_blocks = s->packed.run_blocks;
    shape.n_sms = device.multiProcessorCount;
    shape.capability = 10 * device.major + device.minor;
    return shape;
}

/* Every configuration against the plain kernel's results. */
static void check_linear(subject *s, int slices, bool bias, counts *n)
{
    glyd_error err = {};
    int64_t elements = s->tokens * s->y_stride;
    glyd_gpu_linear_args a = linear_args(s, slices, bias);
    if (glyd_gpu_linear_check(&a, &err) != GLYD_OK) {
        n->skipped++;
        return;
    }
    glyd_gpu_shape shape = shape_of(s, slices);
    glyd_gpu_config config = {};
    config.kernel = GLYD_GPU_KERNEL_PLAIN;
    config.expand = s->packed.layout == GLYD_LAYOUT_MMA;
    poison(s, elements);
    if (glyd_gpu_linear_with(&a, &config, NULL, &err) != GLYD_OK)
        die("plain", err.text);
    report(s, n, "linear plain, guards", fetch(s, elements, s->y_plain));
    poison(s, elements);
    bool ok = glyd_gpu_linear(&a, NULL, &err) == GLYD_OK;
    ok = fetch(s, elements, s->y) && ok && same_results(s, s->y, s->y_plain);
    report(s, n, "linear", ok);
    int seen_kernel = -1, seen_tile = -1, seen_tiles = -1, seen_decoders = -1, seen_codes = -1;
    int seen_pair = -1;
    for (int i = 0; glyd_gpu_config_candidate(&shape, i, &config); i++) {
        if (config.kernel == GLYD_GPU_KERNEL_PLAIN)
            continue;
        /* Depths of the ring differ by the CTAs an SM: one of each shape will do. */
        if (seen_kernel == (int)config.kernel && seen_tile == config.token_tile &&
            seen_tiles == config.tiles && seen_decoders == config.decoders_log2 &&
            seen_codes == (int)config.codes && seen_pair == config.pair)
            continue;
        seen_kernel = (int)config.kernel;
        seen_tile = config.token_tile;
        seen_tiles = config.tiles;
        seen_decoders = config.decoders_log2;
        seen_codes = (int)config.codes;
        seen_pair = config.pair;
        poison(s, elements);
        ok = glyd_gpu_linear_with(&a, &config, NULL, &err) == GLYD_OK;
        ok = fetch(s, elements, s->y) && ok && same_results(s, s->y, s->y_plain);
        char what[128];
        snprintf(what, sizeof what,
                 "linear kernel %d, tile %d x %d, pair %d, %d slices, codes %d:%d",
                 (int)config.kernel, config.token_tile, config.tiles, config.pair, slices,
                 (int)config.codes, config.decoders_log2);
        report(s, n, what, ok);
    }
}

/* The plain kernel with cuBLAS's plan against cuBLAS. */
static void check_cublas(subject *s, const cublas *c, counts *n)
{
    glyd_gpu_plan plan;
    glyd_error err;
    if (!c->gemm || s->x_stride != s->cols || s->y_stride != s->rows || s->cols % 8 ||
        s->rows % 8 ||
        glyd_gpu_plan_cublas(c->plans, s->rows, s->cols, s->tokens, 0, &plan, &err) != GLYD_OK) {
        n->skipped++;
        return;
    }
    int64_t elements = s->tokens * s->y_stride;
    float one = 1, zero = 0;
    uint16_t *y = poison(s, elements);
    if (c->gemm(c->handle, CUBLAS_OP_T, CUBLAS_OP_N, (int)s->rows, (int)s->tokens, (int)s->cols,
                &one, s->d_w, CUDA_R_16BF, (int)s->cols, s->d_x, CUDA_R_16BF, (int)s->cols, &zero,
                y, CUDA_R_16BF, (int)s->rows, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT))
        die("cuBLAS", "a product failed");
    if (!fetch(s, elements, s->y_plain))
        die("cuBLAS", "wrote outside its results");
    glyd_gpu_linear_args a = linear_args(s, plan.slices, false);
    poison(s, elements);
    bool ok = glyd_gpu_linear(&a, NULL, &err) == GLYD_OK;
    ok = fetch(s, elements, s->y) && ok && same_results(s, s->y, s->y_plain);
    report(s, n, "linear against cuBLAS", ok);
}

static void check_unpack(subject *s, counts *n)
{
    glyd_error err;
    int64_t first[] = {0, s->rows / 3, s->rows - 1}, stride = s->cols + 5;
    for (int i = 0; i < 3; i++) {
        int64_t rows = i == 0 ? s->rows : s->rows - first[i];
        if (rows * stride > s->tokens * s->y_stride)
            rows = s->tokens * s->y_stride / stride;
        uint16_t *out = poison(s, rows * stride);
        bool ok = glyd_gpu_unpack(&s->packed, first[i], rows, out, stride, NULL, &err) == GLYD_OK;
        ok = fetch(s, rows * stride, s->y) && ok;
        for (int64_t r = 0; r < rows; r++)
            ok = ok && memcmp(s->y + GUARD + r * stride, s->w + (first[i] + r) * s->cols,
                              (size_t)s->cols * 2) == 0;
        report(s, n, "unpack", ok);
    }
}

static void check_embed(subject *s, counts *n)
{
    enum { IDS = 5 };
    glyd_error err;
    int32_t ids[IDS] = {0, (int32_t)s->rows - 1, (int32_t)s->rows, -1, (int32_t)(s->rows / 2)};
    if (IDS * s->cols > s->tokens * s->y_stride) {
        n->skipped++;
        return;
    }
    int32_t *d_ids = (int32_t *)device_copy(ids, sizeof ids);
    uint16_t *out = poison(s, IDS * s->cols);
    bool ok = glyd_gpu_embed(&s->packed, d_ids, IDS, out, s->cols, NULL, &err) == GLYD_OK;
    ok = fetch(s, IDS * s->cols, s->y) && ok;
    for (int i = 0; i < IDS; i++) {
        bool inside = ids[i] >= 0 && ids[i] < s->rows;
        for (int64_t c = 0; c < s->cols; c++)
            ok = ok && s->y[GUARD + i * s->cols + c] == (inside ? s->w[ids[i] * s->cols + c] : 0);
    }
    report(s, n, "embed", ok);
    cudaFree(d_ids);
}

static void cublas_open(cublas *c)
{
    void *library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcublas.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    auto create = (decltype(&cublasCreate_v2))dlsym(library, "cublasCreate_v2");
    auto workspace = (decltype(&cublasSetWorkspace_v2))dlsym(library, "cublasSetWorkspace_v2");
    c->gemm = (gemm_function)dlsym(library, "cublasGemmEx");
    if (!create || !workspace || !c->gemm || create(&c->handle) ||
        workspace(c->handle, device_alloc(32 << 20), 32 << 20))
        die("cuBLAS", "cannot start");
    glyd_error err;
    if (glyd_gpu_plans_create(NULL, &c->plans, &err) != GLYD_OK)
        die("plans", err.text);
}

static void check_case(int64_t rows, int64_t cols, int64_t tokens, input_kind kind, bool odd,
                       const cublas *c, counts *n)
{
    subject s = {};
    s.rows = rows;
    s.cols = cols;
    s.tokens = tokens;
    s.kind = kind;
    s.x_stride = odd ? (cols + 15) / 8 * 8 : (cols + 7) / 8 * 8;
    s.y_stride = odd ? rows + 3 : rows;
    subject_make(&s);
    const glyd_layout layouts[] = {GLYD_LAYOUT_MMA12, GLYD_LAYOUT_MMA};
    for (int i = 0; i < 2; i++) {
        if (!subject_pack(&s, layouts[i])) {
            n->skipped++;
            continue;
        }
        check_unpack(&s, n);
        check_embed(&s, n);
        const int plans[] = {1, 2, 3, 5};
        for (int p = 0; p < 4; p++)
            check_linear(&s, plans[p], p & 1, n);
        if (kind != INPUT_NONFINITE)
            check_cublas(&s, c, n);
        subject_unpack(&s);
    }
    subject_free(&s);
}

int main(int argc, char **argv)
{
    bool reduced = argc > 1 && strcmp(argv[1], "-r") == 0;
    /* The third is for CTAs that walk several tiles each. */
    static const int64_t shapes[][2] = {{160, 512}, {208, 1000},  {8976, 200},
                                        {1, 4096},  {17, 333},    {500, 2112},
                                        {64, 64},   {1024, 4096}, {2048, 3072}};
    static const int64_t tokens[] = {1, 2, 7, 8, 9, 16, 31, 33, 64, 65, 100, 128, 200, 256, 300};
    const int n_shapes = reduced ? 3 : (int)(sizeof shapes / sizeof *shapes);
    const int n_tokens = (int)(sizeof tokens / sizeof *tokens);
    cublas c = {};
    if (!reduced)
        cublas_open(&c);
    counts n = {};
    for (int i = 0; i < n_shapes; i++) {
        for (int t = 0; t < n_tokens; t += reduced ? 4 : 1) {
            for (int kind = 0; kind < INPUT_KINDS; kind++) {
                bool large = shapes[i][0] * shapes[i][1] > 1 << 21;
                if ((large && kind != INPUT_ORDINARY && (t + kind) % 5) ||
                    (reduced && (kind != INPUT_ESCAPES || (i == 2 && tokens[t] != 200))))
                    continue;
                check_case(shapes[i][0], shapes[i][1], tokens[t], (input_kind)kind, t % 3 == 1, &c,
                           &n);
            }
        }
    }
    glyd_gpu_plans_free(c.plans);
    printf("kcheck: %ld checks, %ld failed, %ld skipped\n", n.ran, n.failed, n.skipped);
    return n.failed ? 1 : 0;
}
