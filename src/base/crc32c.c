/* crc32c.c - CRC-32C (Castagnoli), with the processor's own instruction where it has one.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/crc32c.h"
#include <string.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

/* The remainders of the 16 values of four bits, for the polynomial 0x82f63b78 (reflected). */
static const uint32_t nibbles[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static uint32_t update_plain(uint32_t crc, const uint8_t *p, size_t bytes)
{
    for (; bytes > 0; bytes--) {
        crc ^= *p++;
        crc = crc >> 4 ^ nibbles[crc & 15];
        crc = crc >> 4 ^ nibbles[crc & 15];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t update_sse42(uint32_t crc, const uint8_t *p,
                                                               size_t bytes)
{
    uint64_t wide = crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; bytes > 0; bytes--)
        crc = _mm_crc32_u8(crc, *p++);
    return crc;
}
#endif

uint32_t glyd_crc32c(const void *data, size_t bytes)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2"))
        return ~update_sse42(UINT32_MAX, data, bytes);
#endif
    return ~update_plain(UINT32_MAX, data, bytes);
}

/* The checksum is linear: flipping a bit changes it by that bit's own remainder, whatever the other
 * bits are. Walk from the last bit of the piece to the first, a shift a bit. */
int64_t glyd_crc32c_flipped_bit(uint32_t want, uint32_t have, size_t bytes)
{
    const uint32_t change = want ^ have;
    uint32_t remainder = 0x82f63b78; /* of the last byte's highest bit */
    for (int64_t bit = (int64_t)bytes * 8 - 1; bit >= 0; bit--) {
        if (remainder == change)
            return bit;
        remainder = remainder >> 1 ^ (remainder & 1 ? 0x82f63b78 : 0);
    }
    return -1;
}
