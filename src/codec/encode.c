/* encode.c - the encoder of layout `mma`: lanes' bits first, then the deal.
 *
 * Each lane's codes are first written to words of its own. Then the decoder's procedure is played
 * through with the bits each step takes, and a word dealt is a word written.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/encode.h"
#include <string.h>

static void write_lane(glyd_encoder *encoder, int lane, const glyd_prefix *prefix,
                       const uint32_t *codes, int blocks)
{
    uint32_t *word = encoder->words[lane];
    uint64_t buffer = 0;
    int filled = 0, step = 0;
    for (int block = 0; block < blocks; block++) {
        const uint32_t *from = codes + block * GLYD_BLOCK_CODE_WORDS + glyd_code_word(lane, 0);
        for (int group = 0; group < GLYD_BLOCK_GROUPS; group++) {
            for (int q = 0; q < 2; q++, step++) {
                uint32_t pairs = from[group] >> 8 * q;
                uint32_t first = (pairs & 15) | (pairs >> 12 & 0xf0);
                uint32_t second = (pairs >> 4 & 15) | (pairs >> 16 & 0xf0);
                int n = prefix->bits[first];
                buffer |= (uint64_t)prefix->code[first] << filled;
                buffer |= (uint64_t)prefix->code[second] << (filled + n);
                n += prefix->bits[second];
                filled += n;
                encoder->bits[step][lane] = (uint8_t)n;
                if (filled >= 32) {
                    *word++ = (uint32_t)buffer;
                    buffer >>= 32;
                    filled -= 32;
                }
            }
        }
    }
    word[0] = (uint32_t)buffer; /* zero where no bit is left */
    word[1] = word[2] = word[3] = 0;
}

static uint8_t *put_word(uint8_t *to, uint32_t word)
{
    memcpy(to, &word, sizeof word);
    return to + sizeof word;
}

int64_t glyd_encode_run(glyd_encoder *encoder, const glyd_prefix *prefix, const uint32_t *codes,
                        int blocks, uint8_t *out)
{
    uint8_t *to = out;
    int in_buffer[GLYD_LANES], next[GLYD_LANES];
    for (int lane = 0; lane < GLYD_LANES; lane++) {
        write_lane(encoder, lane, prefix, codes, blocks);
        in_buffer[lane] = 64;
        next[lane] = 2;
    }
    for (int i = 0; i < 2; i++) {
        for (int lane = 0; lane < GLYD_LANES; lane++)
            to = put_word(to, encoder->words[lane][i]);
    }
    int steps = blocks * GLYD_BLOCK_STEPS;
    for (int step = 0; step + 1 < steps; step++) {
        int refill = glyd_refill_bits(step, steps);
        for (int lane = 0; lane < GLYD_LANES; lane++) {
            in_buffer[lane] -= encoder->bits[step][lane];
            if (in_buffer[lane] > refill)
                continue;
            to = put_word(to, encoder->words[lane][next[lane]++]);
            in_buffer[lane] += 32;
        }
    }
    while ((to - out) % GLYD_RUN_ALIGN)
        to = put_word(to, 0);
    return to - out;
}
