/* bench_linear.c - the speed of products by layout, variant, threads and tokens.
 *
 *   bench_linear [--tokens N] [--rounds N] [--shape ROWSxCOLS]... [--threads N] [--variant NAME]
 *                [--working-set MB]
 *
 * Every case runs once a round over as many copies of its matrix as no cache holds (384 MB unless
 * told otherwise); rounds interleave the cases, and a figure is its median. Lines are `id value
 * unit`. `read` is this machine's bandwidth for reading the same bytes and nothing else. Cases of
 * one thread count its processor time, so that other programs spoil less.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "cpu/linear_kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    ROUNDS_MAX = 101,
    SHAPES_MAX = 32,
    CASES_MAX = 64,
    THREADS_MAX = 2,
    WORKING_SET_MB = 384,
    READ_CHUNK = 1 << 18,
};

typedef struct shape {
    int64_t rows, cols;
} shape;

static const shape default_shapes[] = {
    {576, 576},   {192, 576},  {1536, 576},  {576, 1536},  {49152, 576},
    {2048, 2048}, {512, 2048}, {8192, 2048}, {2048, 8192}, {128256, 2048},
};

typedef struct options {
    int64_t tokens;
    int rounds, threads_max, variant_only, working_set_mb, n_shapes;
    shape shapes[SHAPES_MAX];
} options;

/* Copies of one matrix, laid out one after another. */
typedef struct copies {
    glyd_matrix *m;
    glyd_linear_weight *weights;
    int n;
    size_t bytes; /* of one */
    uint8_t *memory;
    size_t memory_bytes;
    void *lookup;
} copies;

typedef struct bench_case {
    char id[96];
    const copies *of;
    int variant; /* -1: only read */
    int threads;
    double seconds[ROUNDS_MAX];
} bench_case;

static void fail(const char *what)
{
    fprintf(stderr, "bench_linear: %s\n", what);
    exit(1);
}

static double now(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1DULL;
}

/* Normal weights of deviation 0.02, rows scaled by 0.6 to 1.4, by Box and Muller. */
static uint16_t *make_weights(shape s)
{
    uint16_t *w = malloc((size_t)(s.rows * s.cols) * sizeof *w);
    if (!w)
        fail("out of memory");
    uint64_t random = 1;
    enum { TABLE = 1 << 16 };
    static float table[TABLE];
    for (int i = 0; i < TABLE; i++) {
        double u = ((double)(next_random(&random) >> 11) + 1) * 0x1p-53;
        double v = (double)(next_random(&random) >> 11) * 0x1p-53;
        table[i] = (float)(0.02 * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
    }
    for (int64_t r = 0; r < s.rows; r++) {
        float scale = 0.6F + 0.8F * (float)(next_random(&random) >> 40) * 0x1p-24F;
        for (int64_t k = 0; k < s.cols; k++) {
            uint64_t any = next_random(&random);
            float value = table[any % TABLE] * scale * (1 + (float)(any >> 40) * 0x1p-26F);
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            w[r * s.cols + k] = (uint16_t)(bits >> 16);
        }
    }
    return w;
}

static copies make_copies(glyd_layout layout, const uint16_t *w, shape s, const options *o)
{
    glyd_buf buf = {0};
    glyd_matrix m;
    if (glyd_pack(layout, w, s.rows, s.cols, s.cols, NULL, &buf, &m, NULL) != GLYD_OK)
        fail("packing failed");
    size_t bytes = 0;
    for (int a = 0; a < GLYD_ARRAYS; a++)
        bytes += (m.array[a].bytes + 63) / 64 * 64;
    copies c = {.n = (int)(((size_t)o->working_set_mb << 20) / bytes) + 1, .bytes = bytes};
    c.memory_bytes = bytes * (size_t)c.n;
    c.memory =
        mmap(NULL, c.memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    c.m = calloc((size_t)c.n, sizeof *c.m);
    c.weights = calloc((size_t)c.n, sizeof *c.weights);
    c.lookup = aligned_alloc(64, 64 + (glyd_linear_lookup_bytes(&m) + 63) / 64 * 64);
    if (c.memory == MAP_FAILED || !c.m || !c.weights || !c.lookup)
        fail("out of memory");
    uint8_t *at = c.memory;
    for (int i = 0; i < c.n; i++) {
        c.m[i] = m;
        for (int a = 0; a < GLYD_ARRAYS; a++) {
            if (m.array[a].bytes)
                memcpy(at, m.array[a].data, m.array[a].bytes);
            c.m[i].array[a].data = at;
            at += (m.array[a].bytes + 63) / 64 * 64;
        }
        if (glyd_linear_weight_init(&c.weights[i], &c.m[i], c.lookup, NULL) != GLYD_OK)
            fail("a bad table");
    }
    glyd_buf_free(&buf);
    return c;
}

static void free_copies(copies *c)
{
    munmap(c->memory, c->memory_bytes);
    free(c->m);
    free(c->weights);
    free(c->lookup);
}

/* --- cases ---------------------------------------------------------------------------------- */

typedef struct reading {
    const uint8_t *data;
    size_t bytes;
    uint64_t sums[THREADS_MAX][8];
} reading;

static void read_chunk(void *arg, int64_t task, int worker)
{
    reading *r = arg;
    size_t at = (size_t)task * READ_CHUNK;
    size_t end = at + READ_CHUNK < r->bytes ? at + READ_CHUNK : r->bytes / 64 * 64;
    uint64_t sum[8] = {0};
    for (; at + 64 <= end; at += 64) {
        uint64_t words[8];
        memcpy(words, r->data + at, sizeof words);
        __builtin_prefetch(r->data + at + 4096);
        for (int i = 0; i < 8; i++)
            sum[i] += words[i];
    }
    for (int i = 0; i < 8; i++)
        r->sums[worker][i] += sum[i];
}

static void run_case(bench_case *c, int round, const options *o, const float *x, float *y,
                     void *scratch, glyd_pool **pools)
{
    const copies *of = c->of;
    int64_t rows = of->m[0].rows, cols = of->m[0].cols;
    double start = now(c->threads);
    if (c->variant < 0) {
        static reading r;
        r.data = of->memory;
        r.bytes = of->memory_bytes;
        glyd_pool_run(pools[c->threads], (int64_t)(r.bytes / READ_CHUNK), read_chunk, &r);
    }
    for (int i = 0; c->variant >= 0 && i < of->n; i++) {
        glyd_linear_part part = {.weight = &of->weights[i], .y = y, .y_stride = rows};
        glyd_linear_by(c->variant, &part, 1, x, cols, o->tokens, scratch, pools[c->threads]);
    }
    c->seconds[round] = (now(c->threads) - start) / of->n;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_case(bench_case *c, const options *o)
{
    qsort(c->seconds, (size_t)o->rounds, sizeof *c->seconds, compare);
    double seconds = c->seconds[o->rounds / 2];
    double weights = (double)c->of->m[0].rows * (double)c->of->m[0].cols;
    printf("%s.bandwidth %.2f GB/s\n", c->id, (double)c->of->bytes / seconds * 1e-9);
    if (c->variant >= 0)
        printf("%s.weights %.2f Gw/s\n", c->id, weights * (double)o->tokens / seconds * 1e-9);
}

static int add_cases(bench_case *cases, const copies *of, const char *layout, shape s,
                     const options *o)
{
    int n = 0;
    for (int threads = 1; threads <= o->threads_max; threads++)
        for (int v = -1; v <= (int)glyd_cpu_variant(); v++) {
            if (v == GLYD_VARIANT_C || (v >= 0 && o->variant_only >= 0 && v != o->variant_only))
                continue;
            bench_case *c = &cases[n++];
            *c = (bench_case){.of = of, .variant = v, .threads = threads};
            snprintf(c->id, sizeof c->id, "linear.%lldx%lld.m%lld.%s.%s.t%d", (long long)s.rows,
                     (long long)s.cols, (long long)o->tokens, layout,
                     v < 0 ? "read" : glyd_variant_name(v), threads);
        }
    return n;
}

static void run_shape(shape s, const options *o, glyd_pool **pools)
{
    uint16_t *w = make_weights(s);
    copies of[3];
    static bench_case cases[CASES_MAX];
    int n_cases = 0;
    for (int layout = 0; layout < 3; layout++) {
        of[layout] = make_copies(layout, w, s, o);
        n_cases += add_cases(cases + n_cases, &of[layout], glyd_layout_name(layout), s, o);
    }
    free(w);
    float *x = calloc((size_t)(o->tokens * s.cols), sizeof *x);
    float *y = calloc((size_t)(o->tokens * s.rows), sizeof *y);
    size_t bytes = glyd_linear_scratch_bytes(s.cols, o->tokens, o->threads_max);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!x || !y || !scratch)
        fail("out of memory");
    uint64_t random = 2;
    for (int64_t i = 0; i < o->tokens * s.cols; i++)
        x[i] = (float)(int32_t)(next_random(&random) >> 32) * 0x1p-31F;
    for (int round = 0; round < o->rounds; round++)
        for (int i = 0; i < n_cases; i++)
            run_case(&cases[i], round, o, x, y, scratch, pools);
    for (int i = 0; i < n_cases; i++)
        print_case(&cases[i], o);
    fflush(stdout);
    free(x);
    free(y);
    free(scratch);
    for (int layout = 0; layout < 3; layout++)
        free_copies(&of[layout]);
}

static options parse(int argc, char **argv)
{
    options o = {.tokens = 1,
                 .rounds = 7,
                 .threads_max = 2,
                 .variant_only = -1,
                 .working_set_mb = WORKING_SET_MB};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[++i] : "";
        int number = (int)strtol(value, NULL, 10);
        long long rows, cols;
        if (!strcmp(name, "--tokens"))
            o.tokens = number;
        else if (!strcmp(name, "--rounds"))
            o.rounds = number;
        else if (!strcmp(name, "--threads"))
            o.threads_max = number;
        else if (!strcmp(name, "--working-set"))
            o.working_set_mb = number;
        else if (!strcmp(name, "--variant"))
            o.variant_only = !strcmp(value, "avx2") ? GLYD_VARIANT_AVX2 : GLYD_VARIANT_AVX512;
        else if (!strcmp(name, "--shape") && o.n_shapes < SHAPES_MAX &&
                 sscanf(value, "%lldx%lld", &rows, &cols) == 2)
            o.shapes[o.n_shapes++] = (shape){rows, cols};
        else
            fail("options: --tokens N, --rounds N, --threads N, --variant NAME, --working-set MB, "
                 "--shape RxC");
    }
    if (o.tokens < 1 || o.rounds < 1 || o.rounds > ROUNDS_MAX || o.threads_max < 1 ||
        o.threads_max > THREADS_MAX)
        fail("an option is out of range");
    if (o.n_shapes == 0) {
        o.n_shapes = sizeof default_shapes / sizeof *default_shapes;
        memcpy(o.shapes, default_shapes, sizeof default_shapes);
    }
    return o;
}

int main(int argc, char **argv)
{
    options o = parse(argc, argv);
    glyd_pool *pools[THREADS_MAX + 1] = {NULL};
    for (int n = 2; n <= o.threads_max; n++)
        if (glyd_pool_create(&(glyd_pool_options){.n_threads = n}, &pools[n], NULL) != GLYD_OK)
            fail("no threads");
    for (int i = 0; i < o.n_shapes; i++)
        run_shape(o.shapes[i], &o, pools);
    for (int n = 2; n <= o.threads_max; n++)
        glyd_pool_free(pools[n]);
    return 0;
}
