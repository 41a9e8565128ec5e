/* load.h - little-endian words from bytes of any alignment.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CODEC_LOAD_H
#define GLYD_CODEC_LOAD_H

#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are used as they lie");

static inline uint32_t glyd_load_u32(const uint8_t *from, int64_t index)
{
    uint32_t value;
    memcpy(&value, from + 4 * index, sizeof value);
    return value;
}

static inline uint16_t glyd_load_u16(const uint8_t *from, int64_t index)
{
    uint16_t value;
    memcpy(&value, from + 2 * index, sizeof value);
    return value;
}

#endif
