/* bench_codec.c - bits a weight and speeds of the codec, on this machine.
 *
 * Prints lines `id value unit`. Without arguments: Gaussian weights, 4096 x 4096, sigma 0.02, each
 * row scaled by a factor between 0.6 and 1.4. With --file PATH ROWS COLS: raw bf16 from a file,
 * sizes only but for --speed. --variant NAME takes slower inner loops, --runs N other run lengths.
 * Speeds are of bf16 bytes, the median of several rounds, on one thread (--threads N for more).
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "base/sha256.h"
#include "codec/pack.h"
#include "codec/unpack.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7 };

typedef struct options {
    const char *file;
    int64_t rows, cols;
    int threads, run_blocks, speed;
    glyd_variant variant;
} options;

typedef struct bench {
    options o;
    const glyd_variants *variants;
    glyd_pool *pool;
    uint16_t *bf16, *back;
    size_t bytes; /* of bf16 */
    glyd_buf out;
    glyd_matrix m;
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double uniform(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)((*state * 0x2545F4914F6CDD1DULL) >> 11) * 0x1p-53;
}

static uint16_t round_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void fill_gaussian(uint16_t *to, int64_t rows, int64_t cols)
{
    uint64_t state = 20260801;
    for (int64_t row = 0; row < rows; row++) {
        double scale = 0.02 * (0.6 + 0.8 * uniform(&state));
        for (int64_t col = 0; col < cols; col++) {
            double radius = sqrt(-2 * log(1 - uniform(&state)));
            to[row * cols + col] =
                round_bf16((float)(scale * radius * cos(6.283185307179586 * uniform(&state))));
        }
    }
}

/* Entropy of the exponents, in bits. */
static double exponent_entropy(const uint16_t *bf16, size_t n)
{
    double entropy = 0;
    size_t count[256] = {0};
    for (size_t i = 0; i < n; i++)
        count[bf16[i] >> 7 & 255]++;
    for (int e = 0; e < 256; e++)
        entropy -= count[e] ? (double)count[e] / (double)n * log2((double)count[e] / (double)n) : 0;
    return entropy;
}

static void do_pack(bench *b, glyd_layout layout)
{
    glyd_pack_choice choice = {layout, b->o.run_blocks, b->variants};
    glyd_error err;
    if (glyd_pack_with(&choice, b->bf16, b->o.rows, b->o.cols, b->o.cols, b->pool, &b->out, &b->m,
                       &err) != GLYD_OK) {
        fprintf(stderr, "pack: %s\n", err.text);
        exit(1);
    }
}

static void do_unpack(bench *b, glyd_layout layout)
{
    (void)layout;
    if (glyd_unpack_with(b->variants, &b->m, 0, b->o.rows, b->back, b->o.cols, b->pool, NULL) !=
        GLYD_OK)
        exit(1);
}

static void do_check(bench *b, glyd_layout layout)
{
    (void)layout;
    glyd_error err;
    if (glyd_check(&b->m, b->pool, &err) != GLYD_OK) {
        fprintf(stderr, "check: %s\n", err.text);
        exit(1);
    }
}

static void do_sha256(bench *b, glyd_layout layout)
{
    (void)layout;
    char hex[GLYD_SHA256_HEX_BYTES];
    if (glyd_sha256_of(b->bf16, b->bytes, hex) != GLYD_OK)
        exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report_speed(bench *b, const char *id, void (*run)(bench *, glyd_layout),
                         glyd_layout layout)
{
    double seconds[ROUNDS];
    run(b, layout);
    for (int i = 0; i < ROUNDS; i++) {
        double start = now();
        run(b, layout);
        seconds[i] = now() - start;
    }
    qsort(seconds, ROUNDS, sizeof *seconds, by_value);
    printf("codec.%s %.1f MB/s\n", id, (double)b->bytes / seconds[ROUNDS / 2] * 1e-6);
}

static void report_layout(bench *b, glyd_layout layout)
{
    const char *name = glyd_layout_name(layout);
    char id[64];
    do_pack(b, layout);
    do_check(b, layout);
    memset(b->back, 0xa5, b->bytes);
    do_unpack(b, layout);
    if (memcmp(b->bf16, b->back, b->bytes) != 0) {
        fprintf(stderr, "%s: unpacked weights differ\n", name);
        exit(1);
    }
    double weights = (double)b->o.rows * (double)b->o.cols;
    printf("codec.%s.bits %.4f bits/weight\n", name,
           8 * (double)glyd_matrix_bytes(&b->m) / weights);
    printf("codec.%s.escapes %.6f of the weights\n", name,
           (double)(b->m.array[GLYD_ARRAY_ESCAPES].bytes / 4) / weights);
    if (!b->o.speed)
        return;
    snprintf(id, sizeof id, "%s.pack", name);
    report_speed(b, id, do_pack, layout);
    snprintf(id, sizeof id, "%s.unpack", name);
    report_speed(b, id, do_unpack, layout);
    snprintf(id, sizeof id, "%s.check", name);
    report_speed(b, id, do_check, layout);
}

static void usage(void)
{
    fprintf(stderr, "usage: bench_codec [--file PATH ROWS COLS] [--speed] [--threads N] "
                    "[--variant c|avx2|avx512] [--runs BLOCKS]\n");
    exit(2);
}

static int64_t read_number(const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || value < 1 || value > 1 << 30)
        usage();
    return value;
}

static options read_options(int argc, char **argv)
{
    options o = {.rows = 4096,
                 .cols = 4096,
                 .threads = 1,
                 .run_blocks = GLYD_RUN_BLOCKS,
                 .speed = 1,
                 .variant = glyd_cpu_variant()};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--file") && i + 3 < argc) {
            o.file = argv[i + 1];
            o.rows = read_number(argv[i + 2]);
            o.cols = read_number(argv[i + 3]);
            o.speed = 0;
            i += 3;
        } else if (!strcmp(argv[i], "--speed")) {
            o.speed = 1;
        } else if (!strcmp(argv[i], "--threads") && i + 1 < argc) {
            o.threads = (int)read_number(argv[++i]);
        } else if (!strcmp(argv[i], "--runs") && i + 1 < argc) {
            o.run_blocks = (int)read_number(argv[++i]);
        } else if (!strcmp(argv[i], "--variant") && i + 1 < argc) {
            int v = 0;
            for (i++; v < GLYD_VARIANTS && strcmp(argv[i], glyd_variant_name((glyd_variant)v));)
                v++;
            if (v > (int)glyd_cpu_variant())
                usage();
            o.variant = (glyd_variant)v;
        } else {
            usage();
        }
    }
    return o;
}

int main(int argc, char **argv)
{
    bench b = {.o = read_options(argc, argv)};
    size_t n = (size_t)(b.o.rows * b.o.cols);
    b.variants = glyd_variants_get(b.o.variant);
    b.bytes = n * 2;
    b.bf16 = malloc(b.bytes);
    b.back = malloc(b.bytes);
    glyd_pool_options threads = {.n_threads = b.o.threads};
    if (!b.bf16 || !b.back || glyd_pool_create(&threads, &b.pool, NULL) != GLYD_OK)
        return 1;
    if (b.o.file) {
        FILE *file = fopen(b.o.file, "rb");
        if (!file || fread(b.bf16, 2, n, file) != n) {
            fprintf(stderr, "%s: not %zu values\n", b.o.file, n);
            return 1;
        }
        fclose(file);
    } else {
        fill_gaussian(b.bf16, b.o.rows, b.o.cols);
    }
    printf("codec.variant %s name\n", glyd_variant_name(b.o.variant));
    printf("codec.threads %d threads\n", glyd_pool_size(b.pool));
    printf("codec.floor %.4f bits/weight\n", 8 + exponent_entropy(b.bf16, n));
    report_layout(&b, GLYD_LAYOUT_MMA12);
    report_layout(&b, GLYD_LAYOUT_MMA);
    if (b.o.speed)
        report_speed(&b, "sha256", do_sha256, GLYD_LAYOUT_BF16);
    glyd_pool_free(b.pool);
    glyd_buf_free(&b.out);
    free(b.bf16);
    free(b.back);
    return 0;
}
