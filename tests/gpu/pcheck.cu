/* pcheck.cu - packing on the GPU against glyd_pack: the same layout and the same bytes.
 *
 * usage: pcheck [-r]      -r: the reduced grid, for compute-sanitizer
 *
 * Over shapes (tiny, odd, a model's), strides, alignments of the weights, layouts and inputs
 * (ordinary, wide, cancelling, infinities and NaN, denormals, escapes). Arrays start out poisoned
 * and lie between guards. The second call runs under graph capture, too. Prints what differs and a
 * count; exits 1 where anything differs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"
#include "glyd/glyd_gpu.h"
#include "values.cuh"

enum { GUARD = 256, POISON = 0xa5 };

/* Weights on the host and, `offset` elements into their memory, on the device. */
typedef struct subject {
    int64_t rows, cols, stride;
    int offset;
    input_kind kind;
    uint16_t *w;
    uint8_t *d_w;
} subject;

typedef struct counts {
    long ran, failed, as_bf16;
} counts;

static void subject_make(subject *s)
{
    size_t n = (size_t)(s->rows * s->stride);
    s->w = (uint16_t *)malloc(n * 2);
    for (size_t i = 0; i < n; i++) {
        int64_t row = (int64_t)i / s->stride, col = (int64_t)i % s->stride;
        s->w[i] = col < s->cols ? make_value(s->kind, row, col, 0.02f) : 0x7fc0;
    }
    s->d_w = (uint8_t *)device_alloc(n * 2 + 16);
    check_cuda(cudaMemcpy(s->d_w + s->offset * 2, s->w, n * 2, cudaMemcpyHostToDevice), "copy");
}

static void report(const subject *s, counts *n, glyd_layout layout, const char *what, bool ok)
{
    n->ran++;
    if (ok)
        return;
    n->failed++;
    printf("FAILED %s: %s %lld x %lld, stride %lld, %d in, %s\n", what, glyd_layout_name(layout),
           (long long)s->rows, (long long)s->cols, (long long)s->stride, s->offset,
           input_names[s->kind]);
}

/* Memory for a planned matrix: poisoned, guarded, one piece an array. */
static void arrays_make(glyd_matrix *m)
{
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        if (!m->array[i].bytes)
            continue;
        uint8_t *p = (uint8_t *)device_alloc(m->array[i].bytes + 2 * GUARD);
        check_cuda(cudaMemset(p, POISON, m->array[i].bytes + 2 * GUARD), "poison");
        m->array[i].data = p + GUARD;
    }
}

/* The first array that differs from the reference or whose guards were written; -1: none. */
static int arrays_compare(const glyd_matrix *m, const glyd_matrix *reference)
{
    int found = -1;
    for (int i = GLYD_ARRAYS - 1; i >= 0; i--) {
        size_t bytes = m->array[i].bytes;
        if (bytes != reference->array[i].bytes)
            return i;
        if (!bytes)
            continue;
        uint8_t *host = (uint8_t *)malloc(bytes + 2 * GUARD);
        check_cuda(
            cudaMemcpy(host, m->array[i].data - GUARD, bytes + 2 * GUARD, cudaMemcpyDeviceToHost),
            "copy");
        bool same = memcmp(host + GUARD, reference->array[i].data, bytes) == 0;
        for (int g = 0; g < GUARD; g++)
            same = same && host[g] == POISON && host[GUARD + bytes + g] == POISON;
        if (!same)
            found = i;
        free(host);
    }
    return found;
}

static void arrays_free(glyd_matrix *m)
{
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        if (m->array[i].data)
            cudaFree((uint8_t *)m->array[i].data - GUARD);
    }
}

/* The second call on a stream of its own, which is captured and replayed. */
static bool pack_captured(const glyd_gpu_pack_args *args, const glyd_matrix *m)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    glyd_error err;
    check_cuda(cudaDeviceSynchronize(), "plan"); /* was in another stream */
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    bool ok = glyd_gpu_pack(args, m, stream, &err) == GLYD_OK;
    check_cuda(cudaStreamEndCapture(stream, &graph), "capture");
    check_cuda(cudaGraphInstantiate(&exec, graph, 0), "graph");
    check_cuda(cudaGraphLaunch(exec, stream), "graph");
    check_cuda(cudaStreamSynchronize(stream), "graph");
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    return ok;
}

static void check_layout(const subject *s, glyd_layout layout, bool captured, counts *n)
{
    glyd_buf buf = {};
    glyd_matrix reference, m;
    glyd_error err = {};
    if (glyd_pack(layout, s->w, s->rows, s->cols, s->stride, NULL, &buf, &reference, &err))
        die("pack", err.text);
    glyd_gpu_pack_args args = {};
    args.layout = layout;
    args.rows = s->rows;
    args.cols = s->cols;
    args.stride = s->stride;
    args.bf16 = (const uint16_t *)(s->d_w + s->offset * 2);
    args.workspace_bytes = glyd_gpu_pack_workspace(layout, s->rows, s->cols);
    args.workspace = device_alloc(args.workspace_bytes);
    check_cuda(cudaMemset(args.workspace, POISON, args.workspace_bytes), "poison");
    bool ok = glyd_gpu_pack_survey(&args, NULL, &m, &err) == GLYD_OK;
    report(s, n, layout, ok ? "plan" : err.text,
           ok && m.layout == reference.layout && m.run_blocks == reference.run_blocks);
    if (ok) {
        n->as_bf16 += m.layout == GLYD_LAYOUT_BF16;
        arrays_make(&m);
        ok = captured ? pack_captured(&args, &m) : glyd_gpu_pack(&args, &m, NULL, &err) == GLYD_OK;
        check_cuda(cudaDeviceSynchronize(), "pack");
        int differs = arrays_compare(&m, &reference);
        report(s, n, layout, differs < 0 ? "pack" : glyd_array_name((glyd_array)differs),
               ok && differs < 0);
        arrays_free(&m);
    }
    cudaFree(args.workspace);
    glyd_buf_free(&buf);
}

static void check_case(int64_t rows, int64_t cols, input_kind kind, int variant, counts *n)
{
    subject s = {};
    s.rows = rows;
    s.cols = cols;
    s.kind = kind;
    s.offset = variant % 3;                         /* 2 is aligned again */
    s.stride = cols + (variant & 1 ? 7 : cols % 2); /* odd and even ones */
    subject_make(&s);
    check_layout(&s, GLYD_LAYOUT_MMA12, variant % 2, n);
    check_layout(&s, GLYD_LAYOUT_MMA, variant % 2, n);
    cudaFree(s.d_w);
    free(s.w);
}

int main(int argc, char **argv)
{
    bool reduced = argc > 1 && strcmp(argv[1], "-r") == 0;
    static const int64_t shapes[][2] = {
        {160, 512}, {33, 1100}, {1, 1},      {1, 4096},    {16, 64},     {17, 333},    {500, 2112},
        {4000, 1},  {3, 20000}, {100, 2048}, {1024, 4096}, {2000, 1001}, {17000, 100},
    };
    const int n_shapes = reduced ? 2 : (int)(sizeof shapes / sizeof *shapes);
    counts n = {};
    for (int i = 0; i < n_shapes; i++) {
        for (int kind = 0; kind < INPUT_KINDS; kind++)
            check_case(shapes[i][0], shapes[i][1], (input_kind)kind, i + kind, &n);
    }
    printf("pcheck: %ld checks, %ld failed, %ld matrices as bf16\n", n.ran, n.failed, n.as_bf16);
    return n.failed ? 1 : 0;
}
