/* bad_input.cu - whatever is wrong, the GPU library says so, and the process and its context live.
 *
 * usage: bad_input [-n]      -n: there is no driver or no device here: every call must say so
 *
 * With a device: null and misaligned pointers, wrong sizes and shapes, an unsupported GPU, a
 * corrupt matrix (which the check on the host finds before anything is launched), too little
 * memory; after every refusal a product must still give its right result.
 *
 * Prints what is wrong and a count; exits 1 where anything is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "cuda/config.h"
#include "values.cuh"

enum { ROWS = 150, COLS = 500, TOKENS = 3, X_STRIDE = 512, POISON = 0xa5 };

typedef struct counts {
    long ran, failed;
} counts;

/* A matrix on the device, its product's arguments and the right result. */
typedef struct subject {
    glyd_buf buf;
    glyd_matrix host, device;
    glyd_gpu_linear_args args;
    uint16_t *w, *d_w, y[TOKENS * ROWS], expected[TOKENS * ROWS];
} subject;

static void expect(counts *n, const char *what, glyd_status status, glyd_status wanted,
                   const glyd_error *err)
{
    n->ran++;
    bool told = wanted == GLYD_OK || (err->status == wanted && err->text[0]);
    if (status == wanted && told)
        return;
    n->failed++;
    printf("FAILED %s: %s (%s), not %s\n", what, glyd_status_text(status), err->text,
           glyd_status_text(wanted));
}

static void subject_make(subject *s, glyd_layout layout)
{
    glyd_error err = {};
    s->w = (uint16_t *)malloc(ROWS * COLS * 2);
    for (int i = 0; i < ROWS * COLS; i++)
        s->w[i] = make_value(INPUT_ORDINARY, i / COLS, i % COLS, 0.02f);
    uint16_t x[TOKENS * X_STRIDE];
    for (int i = 0; i < TOKENS * X_STRIDE; i++)
        x[i] = make_value(INPUT_ORDINARY, 0, i, 1);
    if (glyd_pack(layout, s->w, ROWS, COLS, COLS, NULL, &s->buf, &s->host, &err))
        die("pack", err.text);
    s->device = s->host;
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        if (s->host.array[i].bytes)
            s->device.array[i].data =
                (uint8_t *)device_copy(s->host.array[i].data, s->host.array[i].bytes);
    }
    s->d_w = (uint16_t *)device_copy(s->w, ROWS * COLS * 2);
    s->args = {};
    s->args.weight = &s->device;
    s->args.x = (uint16_t *)device_copy(x, sizeof x);
    s->args.x_stride = X_STRIDE;
    s->args.tokens = TOKENS;
    s->args.y = (uint16_t *)device_alloc(sizeof s->y);
    s->args.y_stride = ROWS;
    s->args.plan.slices = 1;
    s->args.workspace_bytes = glyd_gpu_linear_workspace(&s->device, TOKENS);
    s->args.workspace = device_alloc(s->args.workspace_bytes);
}

static void multiply(subject *s, uint16_t *y)
{
    glyd_error err = {};
    check_cuda(cudaMemset(s->args.y, 0xff, sizeof s->y), "memset");
    if (glyd_gpu_linear(&s->args, NULL, &err) != GLYD_OK)
        die("a good product", err.text);
    check_cuda(cudaMemcpy(y, s->args.y, sizeof s->y, cudaMemcpyDeviceToHost), "copy");
}

/* The context is as it was. */
static void still_works(subject *s, counts *n, const char *what)
{
    n->ran++;
    multiply(s, s->y);
    cudaError_t left = cudaGetLastError();
    if (memcmp(s->y, s->expected, sizeof s->y) == 0 && left == cudaSuccess)
        return;
    n->failed++;
    printf("FAILED after %s: %s\n", what,
           left == cudaSuccess ? "a product differs" : cudaGetErrorString(left));
}

/* Each wrong argument of a product, one at a time. */
static void check_linear(subject *s, counts *n)
{
#define WRONG(change)                                                                              \
    do {                                                                                           \
        glyd_gpu_linear_args a = s->args;                                                          \
        glyd_matrix m = s->device;                                                                 \
        glyd_error err = {};                                                                       \
        a.weight = &m;                                                                             \
        change;                                                                                    \
        expect(n, "linear: " #change, glyd_gpu_linear(&a, NULL, &err), GLYD_E_ARG, &err);          \
        still_works(s, n, #change);                                                                \
    } while (0)
    WRONG(a.weight = NULL);
    WRONG(a.x = NULL);
    WRONG(a.x++);
    WRONG(a.y = NULL);
    WRONG(a.y = (uint16_t *)((uint8_t *)a.y + 1));
    WRONG(a.bias = (const uint16_t *)((uint8_t *)a.x + 1));
    WRONG(a.x_stride = COLS / 8 * 8);
    WRONG(a.x_stride = X_STRIDE + 4);
    WRONG(a.y_stride = ROWS - 1);
    WRONG(a.tokens = -1);
    WRONG(a.tokens = INT64_MAX);
    WRONG(a.plan.slices = 0);
    WRONG(a.plan.slices = 17);
    WRONG(a.plan.slices = 5);
    WRONG(m.rows = ROWS + 32);
    WRONG(m.cols = -1);
    WRONG(m.array[GLYD_ARRAY_SM].data = NULL);
    WRONG(m.array[GLYD_ARRAY_CODES].data += 8);
    WRONG(m.array[GLYD_ARRAY_SM].bytes -= 64);
    WRONG(m.array[GLYD_ARRAY_ESCAPES].bytes += 4);
    if (s->args.workspace_bytes) {
        WRONG(a.workspace = NULL);
        WRONG(a.workspace_bytes--);
        WRONG(a.workspace = (uint8_t *)a.workspace + 16);
        WRONG(m.run_blocks = 0);
    }
#undef WRONG
}

static void check_others(subject *s, counts *n)
{
    glyd_error err = {};
    uint16_t *out = s->d_w; /* never written */
    const glyd_matrix *m = &s->device;
    glyd_matrix bf16 = {};
    bf16.layout = GLYD_LAYOUT_BF16;
    expect(n, "unpack: NULL", glyd_gpu_unpack(NULL, 0, 1, out, COLS, NULL, &err), GLYD_E_ARG, &err);
    expect(n, "unpack: no output", glyd_gpu_unpack(m, 0, 1, NULL, COLS, NULL, &err), GLYD_E_ARG,
           &err);
    expect(n, "unpack: rows", glyd_gpu_unpack(m, ROWS - 1, 2, out, COLS, NULL, &err), GLYD_E_ARG,
           &err);
    expect(n, "unpack: stride", glyd_gpu_unpack(m, 0, 1, out, COLS - 1, NULL, &err), GLYD_E_ARG,
           &err);
    expect(n, "unpack: layout", glyd_gpu_unpack(&bf16, 0, 0, out, COLS, NULL, &err),
           GLYD_E_UNSUPPORTED, &err);
    expect(n, "embed: no ids", glyd_gpu_embed(m, NULL, 1, out, COLS, NULL, &err), GLYD_E_ARG, &err);
    expect(n, "embed: -1 ids", glyd_gpu_embed(m, NULL, -1, out, COLS, NULL, &err), GLYD_E_ARG,
           &err);
    still_works(s, n, "unpack and embed");
    for (int capability = 0; capability < 80; capability += 75)
        expect(n, "an old GPU", glyd_gpu_capability_check(capability / 10, capability % 10, &err),
               GLYD_E_NODEVICE, &err);
    expect(n, "this GPU's kind", glyd_gpu_capability_check(9, 0, &err), GLYD_OK, &err);
}

/* Streams for which the caller has 64 bytes too few: what is behind them stays as it is. */
static void check_short_streams(const glyd_gpu_pack_args *args, glyd_matrix m, counts *n)
{
    enum { SHORT = 64 };
    uint8_t behind[SHORT];
    glyd_error err = {};
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        if (m.array[i].bytes)
            m.array[i].data = (uint8_t *)device_alloc(m.array[i].bytes);
    }
    uint8_t *codes = (uint8_t *)m.array[GLYD_ARRAY_CODES].data;
    m.array[GLYD_ARRAY_CODES].bytes -= SHORT;
    size_t left = m.array[GLYD_ARRAY_CODES].bytes;
    check_cuda(cudaMemset(codes, POISON, left + SHORT), "poison");
    expect(n, "pack: short streams", glyd_gpu_pack(args, &m, NULL, &err), GLYD_OK, &err);
    check_cuda(cudaMemcpy(behind, codes + left, SHORT, cudaMemcpyDeviceToHost), "copy");
    n->ran++;
    for (int i = 0; i < SHORT; i++) {
        if (behind[i] == POISON)
            continue;
        n->failed++;
        printf("FAILED pack: short streams: byte %d behind them was written\n", i);
        break;
    }
    for (int i = 0; i < GLYD_ARRAYS; i++)
        cudaFree((void *)m.array[i].data);
}

static void check_pack(subject *s, counts *n)
{
    glyd_gpu_pack_args good = {};
    good.layout = s->host.layout;
    good.rows = ROWS;
    good.cols = good.stride = COLS;
    good.bf16 = s->d_w;
    good.workspace_bytes = glyd_gpu_pack_workspace(good.layout, ROWS, COLS);
    good.workspace = device_alloc(good.workspace_bytes);
    glyd_matrix planned;
    glyd_error err = {};
#define WRONG(change)                                                                              \
    do {                                                                                           \
        glyd_gpu_pack_args a = good;                                                               \
        glyd_matrix m = planned;                                                                   \
        change;                                                                                    \
        expect(n, "pack: " #change, glyd_gpu_pack_survey(&a, NULL, &m, &err), GLYD_E_ARG, &err);   \
    } while (0)
    WRONG(a.layout = GLYD_LAYOUT_BF16);
    WRONG(a.rows = 0);
    WRONG(a.cols = (int64_t)GLYD_COLS_MAX + 1);
    WRONG(a.stride = COLS - 1);
    WRONG(a.bf16 = NULL);
    WRONG(a.bf16 = (const uint16_t *)((const uint8_t *)a.bf16 + 1));
    WRONG(a.workspace = NULL);
    WRONG(a.workspace = (uint8_t *)a.workspace + 16);
    WRONG(a.workspace_bytes--);
#undef WRONG
    expect(n, "pack: NULL", glyd_gpu_pack_survey(&good, NULL, NULL, &err), GLYD_E_ARG, &err);
    expect(n, "pack: plan", glyd_gpu_pack_survey(&good, NULL, &planned, &err), GLYD_OK, &err);
    expect(n, "pack: no arrays", glyd_gpu_pack(&good, &planned, NULL, &err), GLYD_E_ARG, &err);
    expect(n, "pack: no matrix", glyd_gpu_pack(&good, NULL, NULL, &err), GLYD_E_ARG, &err);
    if (planned.layout == GLYD_LAYOUT_MMA)
        check_short_streams(&good, planned, n);
    planned.rows++;
    expect(n, "pack: another matrix", glyd_gpu_pack(&good, &planned, NULL, &err), GLYD_E_ARG, &err);
    cudaFree(good.workspace);
    still_works(s, n, "packing");
}

/* Bytes that have the right sizes and are wrong inside: the host's check finds them, so that a
 * caller who checks never sends them. */
static void check_corrupt(subject *s, counts *n)
{
    for (int i = GLYD_ARRAY_BASES; i < GLYD_ARRAYS; i++) {
        glyd_matrix m = s->host;
        size_t bytes = m.array[i].bytes;
        if (!bytes)
            continue;
        uint8_t *changed = (uint8_t *)aligned_alloc(64, bytes);
        memset(changed, 0xff, bytes);
        m.array[i].data = changed;
        glyd_error err = {};
        expect(n, glyd_array_name((glyd_array)i), glyd_check(&m, NULL, &err), GLYD_E_CORRUPT, &err);
        free(changed);
    }
}

/* Plans while nearly all memory is taken. */
static void check_memory(subject *s, counts *n)
{
    glyd_gpu_plans *plans;
    glyd_gpu_plan plan = {};
    glyd_error err = {};
    glyd_status status = glyd_gpu_plans_create(NULL, &plans, &err);
    expect(n, "plans", status, GLYD_OK, &err);
    if (status != GLYD_OK)
        return;
    expect(n, "plan: shape", glyd_gpu_plan_cublas(plans, 0, 64, 1, 0, &plan, &err), GLYD_E_ARG,
           &err);
    expect(n, "plan: NULL", glyd_gpu_plan_cublas(NULL, 64, 64, 1, 0, &plan, &err), GLYD_E_ARG,
           &err);
    expect(n, "plan: no plan", glyd_gpu_plan_cublas(plans, 64, 64, 1, 0, NULL, &err), GLYD_E_ARG,
           &err);
    size_t left, all, keep = (size_t)512 << 20;
    void *hog;
    check_cuda(cudaMemGetInfo(&left, &all), "memory");
    check_cuda(cudaMalloc(&hog, left - keep), "memory");
    expect(n, "plan: memory", glyd_gpu_plan_cublas(plans, 65536, 16384, 1, 0, &plan, &err),
           GLYD_E_NOMEM, &err);
    still_works(s, n, "too little memory");
    expect(n, "plan: a smaller one", glyd_gpu_plan_cublas(plans, 4096, 4096, 8, 0, &plan, &err),
           GLYD_OK, &err);
    glyd_gpu_plans_free(plans);
    cudaFree(hog);
    still_works(s, n, "plans");
}

/* Every call that needs a device says that there is none. */
static void check_no_device(counts *n)
{
    static uint64_t memory[256]; /* stands for device memory: nothing may be launched */
    glyd_matrix m = {};
    m.layout = GLYD_LAYOUT_MMA12;
    m.rows = 16;
    m.cols = 64;
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        int64_t bytes = glyd_array_bytes(m.layout, (glyd_array)i, m.rows, m.cols, 0);
        m.array[i].data = (uint8_t *)(((uintptr_t)memory + 63) / 64 * 64);
        m.array[i].bytes = bytes < 0 ? 0 : (size_t)bytes;
    }
    uint16_t *any = (uint16_t *)(((uintptr_t)memory + 255) / 256 * 256);
    glyd_gpu_linear_args a = {};
    a.weight = &m;
    a.x = a.y = any;
    a.x_stride = a.y_stride = 64;
    a.tokens = 1;
    a.plan.slices = 1;
    glyd_gpu_pack_args p = {};
    p.layout = GLYD_LAYOUT_MMA12;
    p.rows = 16;
    p.cols = p.stride = 64;
    p.bf16 = any;
    p.workspace = any;
    p.workspace_bytes = glyd_gpu_pack_workspace(p.layout, p.rows, p.cols);
    glyd_gpu_plans *plans = NULL;
    glyd_error err = {};
    for (int i = 0; i < 2; i++) { /* and again, after it has failed once */
        expect(n, "linear", glyd_gpu_linear(&a, NULL, &err), GLYD_E_NODEVICE, &err);
        expect(n, "unpack", glyd_gpu_unpack(&m, 0, 16, any, 64, NULL, &err), GLYD_E_NODEVICE, &err);
        expect(n, "embed", glyd_gpu_embed(&m, (const int32_t *)any, 1, any, 64, NULL, &err),
               GLYD_E_NODEVICE, &err);
        expect(n, "pack", glyd_gpu_pack_survey(&p, NULL, &m, &err), GLYD_E_NODEVICE, &err);
        expect(n, "plans", glyd_gpu_plans_create(NULL, &plans, &err), GLYD_E_NODEVICE, &err);
    }
}

int main(int argc, char **argv)
{
    counts n = {};
    if (argc > 1 && strcmp(argv[1], "-n") == 0) {
        check_no_device(&n);
    } else {
        for (int layout = GLYD_LAYOUT_MMA12; layout <= GLYD_LAYOUT_MMA; layout++) {
            subject s = {};
            subject_make(&s, (glyd_layout)layout);
            if (s.host.layout != layout)
                die("the matrix", "was not packed");
            multiply(&s, s.expected);
            check_linear(&s, &n);
            check_others(&s, &n);
            check_pack(&s, &n);
            check_corrupt(&s, &n);
            check_memory(&s, &n);
            glyd_buf_free(&s.buf);
        }
    }
    printf("bad_input: %ld checks, %ld failed\n", n.ran, n.failed);
    return n.failed ? 1 : 0;
}
