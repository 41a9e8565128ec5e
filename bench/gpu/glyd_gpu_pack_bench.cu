/* glyd_gpu_pack_bench.cu - packing on the GPU: bytes of bf16 a second.
 *
 * usage: glyd_gpu_pack_bench [-c CSV] [-k COMMIT]
 *
 * Each of a model's matrices (Qwen3-8B's), Gaussian with rows scaled by 0.6 to 1.4, is packed as
 * callers pack it: the plan, which waits, and the arrays, by the clock from the call until the
 * stream is done. Memory is there already. Prints the median of 9 in GB/s, of all and of the second
 * call alone.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "glyd/glyd_gpu.h"
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 9 };

static const struct {
    const char *name;
    int64_t rows, cols;
} shapes[] = {
    {"qkv", 6144, 4096},
    {"gate_up", 24576, 4096},
    {"down", 4096, 12288},
    {"lm_head", 151936, 4096},
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "glyd_gpu_pack_bench: %s: %s\n", what, why);
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

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static __device__ float even(uint64_t i)
{
    i *= 0x9e3779b97f4a7c15ull;
    i = (i ^ i >> 31) * 0xbf58476d1ce4e5b9ull;
    return ((float)(i >> 40) + 0.5f) / 16777216.0f;
}

static __global__ void fill_kernel(uint16_t *to, int64_t rows, int64_t cols)
{
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        float scale = 0.02f * (0.6f + 0.8f * even((uint64_t)row << 40));
        for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
            uint64_t i = (uint64_t)(row * cols + col);
            float v = sqrtf(-2 * logf(even(2 * i))) * cosf(6.2831853f * even(2 * i + 1)) * scale;
            to[row * cols + col] = __bfloat16_as_ushort(__float2bfloat16_rn(v));
        }
    }
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct options {
    FILE *csv;
    const char *commit, *machine;
} options;

static void print_row(const options *o, const char *what, const char *shape, glyd_layout layout,
                      double bytes, double *us)
{
    qsort(us, REPEATS, sizeof *us, compare_double);
    double rate = bytes / us[REPEATS / 2] / 1e3;
    printf("%-6s %-5s %-8s %9.1f us  %7.1f GB/s\n", what, glyd_layout_name(layout), shape,
           us[REPEATS / 2], rate);
    if (!o->csv)
        return;
    char date[16];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    fprintf(o->csv, "gpu.%s.%s.%s,%.1f,GB/s,%d,%.1f,%.1f,%s,%s,%s\n", what,
            glyd_layout_name(layout), shape, rate, REPEATS, bytes / us[REPEATS - 1] / 1e3,
            bytes / us[0] / 1e3, o->machine, o->commit, date);
}

static void bench(const options *o, int shape, glyd_layout layout, const uint16_t *bf16)
{
    int64_t rows = shapes[shape].rows, cols = shapes[shape].cols;
    double all[REPEATS + 1], second[REPEATS + 1]; /* the first one warms up */
    glyd_gpu_pack_args args = {};
    glyd_matrix m, planned;
    glyd_error err;
    args.layout = layout;
    args.rows = rows;
    args.cols = args.stride = cols;
    args.bf16 = bf16;
    args.workspace_bytes = glyd_gpu_pack_workspace(layout, rows, cols);
    check_cuda(cudaMalloc(&args.workspace, args.workspace_bytes), "memory");
    check_glyd(glyd_gpu_pack_survey(&args, NULL, &m, &err), &err);
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        if (m.array[i].bytes)
            check_cuda(cudaMalloc((void **)&m.array[i].data, m.array[i].bytes), "memory");
    }
    for (int i = 0; i <= REPEATS; i++) {
        double begin = now_us();
        check_glyd(glyd_gpu_pack_survey(&args, NULL, &planned, &err), &err);
        check_cuda(cudaDeviceSynchronize(), "plan");
        double middle = now_us();
        check_glyd(glyd_gpu_pack(&args, &m, NULL, &err), &err);
        check_cuda(cudaDeviceSynchronize(), "pack");
        all[i] = now_us() - begin;
        second[i] = now_us() - middle;
    }
    double bytes = (double)(rows * cols) * 2;
    print_row(o, "pack", shapes[shape].name, layout, bytes, all + 1);
    print_row(o, "write", shapes[shape].name, layout, bytes, second + 1);
    for (int i = 0; i < GLYD_ARRAYS; i++)
        cudaFree((void *)m.array[i].data);
    cudaFree(args.workspace);
}

int main(int argc, char **argv)
{
    options o = {};
    o.commit = "-";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "-c") == 0)
            o.csv = fopen(argv[i + 1], "a");
        else if (strcmp(argv[i], "-k") == 0)
            o.commit = argv[i + 1];
        else
            die(argv[i], "no such option");
    }
    cudaDeviceProp device;
    check_cuda(cudaGetDeviceProperties(&device, 0), "device");
    o.machine = device.name;
    if (o.csv && ftell(o.csv) == 0)
        fprintf(o.csv, "id,value,unit,n,p10,p90,machine,commit,date\n");
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) {
        uint16_t *bf16;
        check_cuda(cudaMalloc((void **)&bf16, (size_t)(shapes[i].rows * shapes[i].cols) * 2),
                   "memory");
        fill_kernel<<<2048, 256>>>(bf16, shapes[i].rows, shapes[i].cols);
        check_cuda(cudaDeviceSynchronize(), "fill");
        bench(&o, i, GLYD_LAYOUT_MMA12, bf16);
        bench(&o, i, GLYD_LAYOUT_MMA, bf16);
        cudaFree(bf16);
    }
    if (o.csv)
        fclose(o.csv);
    return 0;
}
