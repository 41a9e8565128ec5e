/* ops_c.c - the operations of ops.h for any processor.
 * SPDX-License-Identifier: Apache-2.0
 */
#define OPS_TABLE glyd_ops_c
#include "cpu/ops_body.h"
