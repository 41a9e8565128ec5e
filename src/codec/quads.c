/* quads.c - patterns, encoding, and decoding in plain C.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/quads.h"
#include "base/error.h"
#include "codec/quads_decode.h"
#include <string.h>

enum { DIGIT = GLYD_QUAD_SYMBOLS - 1, SIX = DIGIT - 1 };

/* Which of the 625 tuples are patterns: bit t % 32 of word t / 32 says it of tuple t. All that have
 * no 6 are; of the others those 256 that save most digits (docs/FORMAT.md, "What was tried"). */
static const uint32_t PATTERNS[(GLYD_QUAD_TUPLES + 31) / 32] = {
    0xfff3ffff, 0xfffff7ff, 0xc2ffbdef, 0xff15ff73, 0xffff7fff, 0xffffffff, 0xf3ffffff,
    0xfef7fffe, 0xffffcfff, 0xbfffffff, 0xce2bfcff, 0xfbffdfff, 0xffffb80f, 0xc2bfee73,
    0x50802303, 0xff7c07d7, 0xfffff757, 0xfcfffdff, 0xf72d0ffb, 0x0001f37e,
};

static int is_pattern(int tuple)
{
    return PATTERNS[tuple / 32] >> tuple % 32 & 1;
}

static int symbol_of(int tuple, int byte)
{
    static const int place[4] = {125, 25, 5, 1};
    return tuple / place[byte] % GLYD_QUAD_SYMBOLS;
}

/* What is written for a tuple: itself, or with as few of its sixes as digits as makes it a pattern,
 * the lowest such tuple. */
static int written_for(int tuple)
{
    static const int place[4] = {125, 25, 5, 1};
    int best = tuple, fewest = is_pattern(tuple) ? 0 : 5;
    for (int set = 1; set < 16 && fewest; set++) {
        int other = tuple, n = 0, sixes = 1;
        for (int byte = 0; byte < 4; byte++) {
            if (!(set >> byte & 1))
                continue;
            sixes &= symbol_of(tuple, byte) == SIX;
            other += place[byte];
            n++;
        }
        if (sixes && is_pattern(other) && (n < fewest || (n == fewest && other < best))) {
            fewest = n;
            best = other;
        }
    }
    return best;
}

void glyd_quads_init(glyd_quads *q)
{
    uint16_t pattern[GLYD_QUAD_TUPLES];
    int n = 0;
    for (int tuple = 0; tuple < GLYD_QUAD_TUPLES; tuple++) {
        if (!is_pattern(tuple))
            continue;
        q->codes[n] = q->marks[n] = q->digits[n] = 0;
        for (int byte = 0; byte < 4; byte++) {
            int symbol = symbol_of(tuple, byte);
            if (symbol == DIGIT) {
                q->marks[n] |= 7U << 8 * byte;
                q->digits[n]++;
            } else {
                q->codes[n] |= (uint32_t)(9 - symbol) << 8 * byte;
            }
        }
        pattern[tuple] = (uint16_t)n++;
    }
    GLYD_ASSERT(n == GLYD_QUAD_PATTERNS);
    for (int tuple = 0; tuple < GLYD_QUAD_TUPLES; tuple++)
        q->index[tuple] = pattern[written_for(tuple)];
}

/* The quad of a code word's row half, a code a byte. */
static uint32_t quad_of(uint32_t word, int half)
{
    return word >> 4 * half & 0x0f0f0f0f;
}

static uint32_t index_of(const glyd_quads *q, uint32_t quad)
{
    int tuple = 0;
    for (int byte = 0; byte < 4; byte++) {
        int code = (int)(quad >> 8 * byte & 15);
        tuple = tuple * GLYD_QUAD_SYMBOLS + (code >= 6 && code <= 9 ? 9 - code : DIGIT);
    }
    return q->index[tuple];
}

/* The codes of a quad that can be written with at most `left` digits, of which it takes some. */
static uint32_t limit_quad(const glyd_quads *q, uint32_t quad, int *left)
{
    for (int byte = 0; byte < 4; byte++) {
        if ((quad >> 8 * byte & 15) >= GLYD_QUAD_CODES)
            quad = (quad & ~(15U << 8 * byte)) | (uint32_t)GLYD_QUAD_FILL << 8 * byte;
    }
    uint32_t index = index_of(q, quad);
    while (q->digits[index] > *left) {
        int byte = 3;
        while (!(q->marks[index] >> 8 * byte & 7))
            byte--;
        quad = (quad & ~(15U << 8 * byte)) | (uint32_t)GLYD_QUAD_FILL << 8 * byte;
        index = index_of(q, quad);
    }
    *left -= q->digits[index];
    return quad;
}

int glyd_quads_limit(const glyd_quads *q, uint32_t codes[GLYD_BLOCK_CODE_WORDS])
{
    uint32_t changed = 0;
    for (int lane = 0; lane < GLYD_LANES; lane++) {
        uint32_t *word = codes + glyd_code_word(lane, 0);
        for (int half = 0; half < 2; half++) {
            int left = GLYD_QUAD_DIGITS_MAX;
            for (int group = 0; group < GLYD_BLOCK_GROUPS; group++) {
                uint32_t quad = quad_of(word[group], half);
                uint32_t change = (quad ^ limit_quad(q, quad, &left)) << 4 * half;
                word[group] ^= change;
                changed |= change;
            }
        }
    }
    return changed != 0;
}

int glyd_quads_count(const glyd_quads *q, const uint32_t codes[GLYD_BLOCK_CODE_WORDS])
{
    int digits = 0;
    for (int i = 0; i < GLYD_BLOCK_CODE_WORDS; i++)
        digits += q->digits[index_of(q, quad_of(codes[i], 0))] +
                  q->digits[index_of(q, quad_of(codes[i], 1))];
    return digits;
}

/* Bits being written from the low end. */
typedef struct bit_writer {
    uint8_t *to;
    uint64_t held;
    int n_held;
} bit_writer;

static void put_bits(bit_writer *w, uint32_t bits, int n)
{
    w->held |= (uint64_t)bits << w->n_held;
    w->n_held += n;
    if (w->n_held >= 32) {
        uint32_t word = (uint32_t)w->held;
        memcpy(w->to, &word, sizeof word);
        w->to += sizeof word;
        w->held >>= 32;
        w->n_held -= 32;
    }
}

/* A quad's digits, in order. */
static void put_digits(const glyd_quads *q, bit_writer *w, uint32_t index, uint32_t quad)
{
    for (int byte = 0; byte < 4; byte++) {
        uint32_t code = quad >> 8 * byte & 15;
        if (q->marks[index] >> 8 * byte & 7)
            put_bits(w, code == GLYD_QUAD_CODES - 1 ? 7 : code, 3);
    }
}

static void encode_lane(const glyd_quads *q, const uint32_t *words, int lane, uint8_t *index,
                        bit_writer *w)
{
    uint64_t packed = 0;
    for (int k = 0; k < 2 * GLYD_BLOCK_GROUPS; k++) {
        uint32_t quad = quad_of(words[k % GLYD_BLOCK_GROUPS], k / GLYD_BLOCK_GROUPS);
        uint32_t i = index_of(q, quad);
        put_digits(q, w, i, quad);
        if (k < 7)
            packed |= (uint64_t)i << 9 * k;
        else
            packed |= (uint64_t)(i >> 8) << 63;
        index[8 * GLYD_LANES + lane] = (uint8_t)i; /* the last one stays */
    }
    memcpy(index + 8 * lane, &packed, sizeof packed);
}

void glyd_quads_encode(const glyd_quads *q, const uint32_t *codes, int blocks,
                       const uint32_t *escapes, int n_escapes, uint8_t *index, uint8_t *record)
{
    bit_writer w = {.to = record};
    put_bits(&w, (uint32_t)n_escapes, GLYD_QUAD_HEAD_BITS);
    for (int i = 0; i < n_escapes; i++)
        put_bits(&w, escapes[i] & ((1U << GLYD_QUAD_ESCAPE_BITS) - 1), GLYD_QUAD_ESCAPE_BITS);
    for (int block = 0; block < blocks; block++, index += GLYD_QUAD_INDEX_BYTES) {
        for (int lane = 0; lane < GLYD_LANES; lane++, codes += GLYD_BLOCK_GROUPS)
            encode_lane(q, codes, lane, index, &w);
    }
    if (w.n_held)
        put_bits(&w, 0, 32 - w.n_held);
}

int glyd_quads_escapes(const uint8_t *record, int64_t bytes, int64_t block, uint32_t *escapes)
{
    int n = glyd_load_u16(record, 0);
    if (n > GLYD_QUAD_ESCAPES_MAX || glyd_quads_record_bytes(0, n) > bytes)
        return -1;
    for (int i = 0; i < n; i++) {
        int64_t at = GLYD_QUAD_HEAD_BITS + (int64_t)GLYD_QUAD_ESCAPE_BITS * i;
        uint64_t bits = glyd_quads_bits(record, bytes, at);
        escapes[i] = (uint32_t)block << 18 | (uint32_t)(bits & ((1U << GLYD_QUAD_ESCAPE_BITS) - 1));
    }
    return n;
}

/* The low bits, in order, to where `marks` has ones: three in each of some bytes. */
static inline uint64_t deposit(uint64_t bits, uint64_t marks)
{
    uint64_t digits = 0;
    for (int shift = 0; shift < 64; shift += 8) {
        uint64_t mark = marks >> shift & 7;
        digits |= (bits & mark) << shift;
        bits >>= mark ? 3 : 0;
    }
    return digits;
}

int64_t glyd_quads_decode_c(const glyd_quads *q, const uint8_t *index, const uint8_t *record,
                            int64_t bytes, int blocks, uint32_t *codes)
{
    GLYD_QUADS_DECODE(deposit);
}
