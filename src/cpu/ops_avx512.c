/* ops_avx512.c - the operations of ops.h for AVX-512.
 * SPDX-License-Identifier: Apache-2.0
 */
#define OPS_TABLE glyd_ops_avx512
#include "cpu/ops_body.h"
