/* crc32c.h - CRC-32C (Castagnoli), the checksum of pieces of packed arrays.
 *
 * It finds every error of one, two or three bits in a piece and every burst of up to 32, and a
 * single flipped bit can be located from it, which a hash cannot.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_BASE_CRC32C_H
#define GLYD_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t glyd_crc32c(const void *data, size_t bytes);

/* The bit whose flip turns a piece with checksum `want` into one with checksum `have`, counted from
 * the lowest bit of the first byte; -1 where no single bit of `bytes` bytes does. */
int64_t glyd_crc32c_flipped_bit(uint32_t want, uint32_t have, size_t bytes);

#endif
