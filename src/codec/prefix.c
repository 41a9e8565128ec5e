/* prefix.c - which pairs get a code, and length-limited Huffman codes by package-merge.
 *
 * Package-merge: a symbol with an n-bit code is a coin of each of the denominations 2^-1 ... 2^-n,
 * each worth the symbol's count. From the smallest denomination up, coins are paired into packages
 * that join the next one's list; the first 2n - 2 entries of the last list are the cheapest choice
 * that makes the code complete, and a symbol's length is the number of its coins among them.
 * Every list is sorted by weight, a leaf before a package of the same weight, leaves by symbol: the
 * result is a function of the counts alone.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/prefix.h"
#include <string.h>

enum {
    LIST_MAX = 2 * GLYD_PAIRS,
    /* One pair in so many must use a code for it to be worth its place, as an escape is priced at
     * 256 bits: 32 for its entry, the rest for the time that it costs a product. It is
     * 256 * 2048 / log2(e). */
    PAIRS_A_CODE = 363409,
};

uint64_t glyd_prefix_prune(uint64_t count[GLYD_PAIRS], const uint8_t keep[GLYD_PAIRS], int fill,
                           uint8_t instead[GLYD_PAIRS])
{
    int both = fill | fill << 4;
    uint64_t total = 0, escapes = 0;
    uint8_t rare[GLYD_PAIRS];
    for (int s = 0; s < GLYD_PAIRS; s++)
        total += count[s];
    for (int s = 0; s < GLYD_PAIRS; s++)
        rare[s] = !keep[s] && s != both && count[s] < total / PAIRS_A_CODE;
    for (int s = 0; s < GLYD_PAIRS; s++) {
        int keep_first = (s & 15) | fill << 4, keep_second = (s & 0xf0) | fill;
        int to = count[keep_first] >= count[keep_second] ? keep_first : keep_second;
        if (rare[to])
            to = keep_first ^ keep_second ^ to;
        if (rare[to])
            to = both;
        instead[s] = (uint8_t)(rare[s] ? to : s);
    }
    for (int s = 0; s < GLYD_PAIRS; s++) {
        if (instead[s] == s)
            continue;
        int changed = instead[s] ^ s;
        escapes += count[s] * (uint64_t)(((changed & 15) != 0) + ((changed & 0xf0) != 0));
        count[instead[s]] += count[s];
        count[s] = 0;
    }
    return escapes;
}

typedef struct leaf {
    uint64_t count;
    int symbol;
} leaf;

/* The symbols to be coded, lightest first. */
static int sort_leaves(leaf leaves[GLYD_PAIRS], const uint64_t count[GLYD_PAIRS])
{
    int used = 0, n = 0;
    for (int s = 0; s < GLYD_PAIRS; s++)
        used += count[s] > 0;
    int spare = used < 2 ? 2 - used : 0;
    for (int s = 0; s < GLYD_PAIRS; s++) {
        if (count[s] == 0 && spare-- <= 0)
            continue;
        int at = n++;
        for (; at > 0 && leaves[at - 1].count > count[s]; at--)
            leaves[at] = leaves[at - 1];
        leaves[at] = (leaf){count[s], s};
    }
    return n;
}

/* One denomination's list: the n leaves merged with the pairs of the list below. Writes weights,
 * and whether each entry is a leaf; returns the length. */
static int merge_list(const leaf *leaves, int n, const uint64_t *below, int n_below,
                      uint64_t *weight, uint8_t *is_leaf)
{
    int length = 0, l = 0, p = 0;
    while (l < n || p + 1 < n_below) {
        int package = p + 1 < n_below;
        uint64_t sum = package ? below[p] + below[p + 1] : 0;
        int take_leaf = l < n && (!package || leaves[l].count <= sum);
        weight[length] = take_leaf ? leaves[l].count : sum;
        is_leaf[length++] = (uint8_t)take_leaf;
        l += take_leaf;
        p += take_leaf ? 0 : 2;
    }
    return length;
}

static void choose_lengths(uint8_t bits[GLYD_PAIRS], const leaf *leaves, int n)
{
    uint8_t is_leaf[GLYD_CODE_BITS_MAX][LIST_MAX];
    uint64_t weight[2][LIST_MAX];
    int length = 0;
    for (int level = 0; level < GLYD_CODE_BITS_MAX; level++)
        length =
            merge_list(leaves, n, weight[level & 1], length, weight[~level & 1], is_leaf[level]);
    for (int level = GLYD_CODE_BITS_MAX - 1, take = 2 * n - 2; level >= 0; level--) {
        int n_leaves = 0;
        for (int i = 0; i < take; i++)
            n_leaves += is_leaf[level][i];
        for (int i = 0; i < n_leaves; i++)
            bits[leaves[i].symbol]++;
        take = 2 * (take - n_leaves);
    }
}

void glyd_prefix_init(glyd_prefix *prefix, const uint64_t count[GLYD_PAIRS])
{
    leaf leaves[GLYD_PAIRS];
    int n = sort_leaves(leaves, count);
    memset(prefix, 0, sizeof *prefix);
    choose_lengths(prefix->bits, leaves, n);
    uint32_t code = 0;
    for (int bits = 1; bits <= GLYD_CODE_BITS_MAX; bits++, code <<= 1) {
        for (int s = 0; s < GLYD_PAIRS; s++) {
            if (prefix->bits[s] == bits)
                prefix->code[s] = (uint16_t)glyd_prefix_reverse(code++, bits);
        }
    }
}

void glyd_prefix_write(const glyd_prefix *prefix, uint8_t table[GLYD_TABLE_BYTES])
{
    memset(table, 0, GLYD_TABLE_BYTES);
    uint8_t *symbol = table + GLYD_TABLE_SYMBOLS_OFFSET;
    for (int bits = 1; bits <= GLYD_CODE_BITS_MAX; bits++) {
        uint16_t count = 0;
        for (int s = 0; s < GLYD_PAIRS; s++) {
            if (prefix->bits[s] == bits) {
                *symbol++ = (uint8_t)s;
                count++;
            }
        }
        memcpy(table + 2 * bits, &count, sizeof count);
    }
}
