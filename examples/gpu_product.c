/* gpu_product.c - pack a matrix, copy it to a GPU, and multiply by it there as it is packed.
 *
 * cc gpu_product.c -lglyd -lglyd_gpu -lcudart
 * SPDX-License-Identifier: Apache-2.0
 */
#include <cuda_runtime_api.h>
#include <glyd/glyd_gpu.h>
#include <stdio.h>

enum { ROWS = 1024, COLS = 2048, TOKENS = 3 };

static uint16_t weights[ROWS * COLS], x[TOKENS * COLS], y[TOKENS * ROWS];

static void *to_device(const void *from, size_t bytes)
{
    void *to = NULL;
    if (cudaMalloc(&to, bytes) || cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice))
        return NULL;
    return to;
}

int main(void)
{
    /* bf16 of 1/64 to 2/64 with alternating signs, and of ones: any values will do. */
    for (int i = 0; i < ROWS * COLS; i++)
        weights[i] = (uint16_t)(0x3c80 | (i * 37 & 0x7f) | (i & 1) << 15);
    for (int i = 0; i < TOKENS * COLS; i++)
        x[i] = 0x3f80;

    glyd_error err = {0};
    glyd_buf packed = {0};
    glyd_matrix w;
    if (glyd_pack(GLYD_LAYOUT_MMA12, weights, ROWS, COLS, COLS, NULL, &packed, &w, &err))
        goto failed;
    for (int i = 0; i < GLYD_ARRAYS; i++) {
        if (w.array[i].bytes)
            w.array[i].data = to_device(w.array[i].data, w.array[i].bytes);
    }

    glyd_gpu_linear_args args = {
        .weight = &w,
        .x = to_device(x, sizeof x),
        .x_stride = COLS,
        .tokens = TOKENS,
        .y = to_device(y, sizeof y),
        .y_stride = ROWS,
        .plan = glyd_gpu_plan_fixed(ROWS, COLS),
    };
    if (glyd_gpu_linear(&args, NULL, &err))
        goto failed;
    if (cudaMemcpy(y, args.y, sizeof y, cudaMemcpyDeviceToHost)) {
        fputs("gpu_product: the copy back failed\n", stderr);
        return 1;
    }
    printf("%d x %d weights in %zu bytes; y[0] = bf16 %04x\n", ROWS, COLS, glyd_matrix_bytes(&w),
           y[0]);
    glyd_buf_free(&packed);
    return 0;

failed:
    fprintf(stderr, "gpu_product: %s\n", err.text);
    return 1;
}
