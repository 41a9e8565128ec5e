/* ops_avx2.c - the operations of ops.h for AVX2 and FMA.
 * SPDX-License-Identifier: Apache-2.0
 */
#define OPS_TABLE glyd_ops_avx2
#include "cpu/ops_body.h"
