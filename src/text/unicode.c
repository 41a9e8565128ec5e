/* unicode.c - UTF-8, and the character data that tokenizers depend on.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/unicode.h"
#include "base/buf.h"
#include "base/error.h"
#include <string.h>
#include <utf8proc.h>

#include "text/unicode_tables.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const glyd_unicode_range *find(const glyd_unicode_range *table, size_t n, uint32_t point)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle].last < point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && table[low].first <= point ? &table[low] : NULL;
}

const glyd_unicode_range *glyd_unicode_added(size_t *n)
{
    *n = COUNT(added_since_14);
    return added_since_14;
}

bool glyd_unicode_is_normalised_since_9(uint32_t point)
{
    return find(normalised_since_9, COUNT(normalised_since_9), point) != NULL;
}

bool glyd_unicode_is_space(uint32_t point)
{
    return (point >= 0x9 && point <= 0xd) || point == 0x20 || point == 0x85 || point == 0xa0 ||
           point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
           point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000;
}

/* Letters that are symbols by category: the enclosed alphabets. */
static bool is_other_alphabetic(uint32_t point)
{
    return (point >= 0x24b6 && point <= 0x24e9) || (point >= 0x1f130 && point <= 0x1f149) ||
           (point >= 0x1f150 && point <= 0x1f169) || (point >= 0x1f170 && point <= 0x1f189);
}

bool glyd_unicode_is_word(uint32_t point)
{
    const glyd_unicode_range *range = find(added_since_14, COUNT(added_since_14), point);
    const char *category =
        range ? range->category : utf8proc_category_string((utf8proc_int32_t)point);
    return category[0] == 'L' || category[0] == 'M' || strcmp(category, "Nd") == 0 ||
           strcmp(category, "Nl") == 0 || strcmp(category, "Pc") == 0 || point == 0x200c ||
           point == 0x200d || is_other_alphabetic(point);
}

int glyd_utf8_decode(const uint8_t *s, size_t n, uint32_t *point)
{
    uint32_t a = s[0];
    if (a < 0x80) {
        *point = a;
        return 1;
    }
    if (a < 0xc2 || a > 0xf4)
        return 0;
    int bytes = a < 0xe0 ? 2 : a < 0xf0 ? 3 : 4;
    if (n < (size_t)bytes)
        return 0;
    uint32_t value = a & (0x7fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (s[i] & 0x3fu);
    }
    if ((bytes == 3 && (value < 0x800 || (value >= 0xd800 && value < 0xe000))) ||
        (bytes == 4 && (value < 0x10000 || value > 0x10ffff)))
        return 0;
    *point = value;
    return bytes;
}

int glyd_utf8_encode(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    int bytes = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (int i = bytes - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (char)((0xf0u << (4 - bytes)) | point);
    return bytes;
}

int glyd_utf8_broken(const uint8_t *s, size_t n, bool *whole)
{
    *whole = true;
    uint8_t a = s[0];
    if (a < 0xc2 || a > 0xf4)
        return 1;
    int bytes = a < 0xe0 ? 2 : a < 0xf0 ? 3 : 4;
    /* The second byte has a narrower range after E0, ED, F0 and F4. */
    uint8_t low = a == 0xe0 ? 0xa0 : a == 0xf0 ? 0x90 : 0x80;
    uint8_t high = a == 0xed ? 0x9f : a == 0xf4 ? 0x8f : 0xbf;
    int i = 1;
    for (; i < bytes && (size_t)i < n; i++) {
        if (s[i] < low || s[i] > high)
            return i;
        low = 0x80;
        high = 0xbf;
    }
    *whole = i == bytes;
    return i;
}

size_t glyd_utf8_valid(const uint8_t *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= sizeof eight) {
            memcpy(&eight, s + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                i += sizeof eight;
                continue;
            }
        }
        uint32_t point;
        int bytes = glyd_utf8_decode(s + i, n - i, &point);
        if (bytes == 0)
            return i;
        i += (size_t)bytes;
    }
    return n;
}

glyd_status glyd_utf8_append_clean(glyd_buf *out, const uint8_t *s, size_t n)
{
    while (n > 0) {
        size_t valid = glyd_utf8_valid(s, n);
        GLYD_TRY(glyd_buf_append(out, s, valid));
        s += valid;
        n -= valid;
        if (n == 0)
            break;
        bool whole;
        int bytes = glyd_utf8_broken(s, n, &whole);
        GLYD_TRY(glyd_buf_append(out, "\xef\xbf\xbd", 3));
        s += bytes;
        n -= (size_t)bytes;
    }
    return GLYD_OK;
}
