/* cpu.h - which instruction-set variants this processor can run.
 *
 * Kernels come in variants that give the same bits: plain C, AVX2 and AVX-512. Each part keeps one
 * table of functions a variant and picks a table once, from glyd_cpu_variant(); tests walk all
 * tables up to it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_BASE_CPU_H
#define GLYD_BASE_CPU_H

typedef enum glyd_variant {
    GLYD_VARIANT_C = 0,
    GLYD_VARIANT_AVX2 = 1,   /* AVX2, FMA, BMI1, BMI2, F16C: what files named *_avx2.c may use */
    GLYD_VARIANT_AVX512 = 2, /* those and AVX-512 F, BW, VL, DQ: files named *_avx512.c */
    GLYD_VARIANTS = 3,
} glyd_variant;

/* The best variant that the processor and the operating system support. */
glyd_variant glyd_cpu_variant(void);

/* "c", "avx2", "avx512". */
const char *glyd_variant_name(glyd_variant variant);

/* Cores that this process may use, at least 1: what a pool of 0 threads takes. */
int glyd_cpu_count(void);

#endif
