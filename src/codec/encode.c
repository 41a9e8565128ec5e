/* encode.c - the encoder of layout `mma`: streams' bits first, then the deal.
 *
 * Each stream's codes are first written to words of its own. Then the decoder's procedure is played
 * through with the bits each step takes, and a word dealt is a word written.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/encode.h"
#include <string.h>

static uint32_t pair_of(uint32_t code, int reg)
{
    code >>= 4 * reg;
    return (code & 15) | (code >> 12 & 0xf0);
}

static void write_stream(glyd_encoder *encoder, int stream, int streams, const glyd_prefix *prefix,
                         const uint32_t *codes, int blocks)
{
    uint32_t *word = encoder->words[stream];
    uint64_t buffer = 0;
    int filled = 0, block_steps = glyd_block_steps(streams);
    for (int i = 0; i < blocks * block_steps; i++) {
        int step = i % block_steps, group = glyd_step_group(streams, step);
        uint32_t code = codes[i / block_steps * GLYD_BLOCK_CODE_WORDS +
                              glyd_code_word(stream % GLYD_LANES, group)];
        uint32_t first = pair_of(code, glyd_step_register(streams, stream, step, 0));
        uint32_t second = pair_of(code, glyd_step_register(streams, stream, step, 1));
        int n = prefix->bits[first];
        buffer |= (uint64_t)prefix->code[first] << filled;
        buffer |= (uint64_t)prefix->code[second] << (filled + n);
        n += prefix->bits[second];
        filled += n;
        encoder->bits[i][stream] = (uint8_t)n;
        if (filled >= 32) {
            *word++ = (uint32_t)buffer;
            buffer >>= 32;
            filled -= 32;
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
                        int blocks, int streams, uint8_t *out)
{
    uint8_t *to = out;
    int held[GLYD_STREAMS_MAX], next[GLYD_STREAMS_MAX];
    for (int stream = 0; stream < streams; stream++) {
        write_stream(encoder, stream, streams, prefix, codes, blocks);
        held[stream] = 64;
        next[stream] = 2;
    }
    for (int i = 0; i < 2; i++) {
        for (int stream = 0; stream < streams; stream++)
            to = put_word(to, encoder->words[stream][i]);
    }
    int steps = blocks * glyd_block_steps(streams);
    for (int step = 0; step + 1 < steps; step++) {
        int refill = glyd_refill_bits(step, steps, streams);
        for (int stream = 0; stream < streams; stream++) {
            held[stream] -= encoder->bits[step][stream];
            if (held[stream] > refill)
                continue;
            to = put_word(to, encoder->words[stream][next[stream]++]);
            held[stream] += 32;
        }
    }
    while ((to - out) % GLYD_RUN_ALIGN)
        to = put_word(to, 0);
    return to - out;
}
