/* bases.c - surveys of rows, and bases that line rows of different scale up.
 *
 * Lining up (layout mma): all rows share one prefix code, so their windows should lie alike about
 * their distributions. All rows start with the one base that leaves fewest escapes in all (the
 * lowest of those), or as near as their surveys reach. Then in rounds, until none changes or
 * GLYD_BASES_ROUNDS are over, every row takes the base under which it costs least (the lowest of
 * those) by the code lengths of the round before: of each code, log2(total / count) in 1/256 bits;
 * of an escape, GLYD_BASES_ESCAPE_BITS more than the cheapest.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/bases.h"
#include <string.h>

/* The base of the window that holds most of these exponents, the lowest of those. */
static int fullest_window(const uint64_t count[256])
{
    uint64_t in_window = 0, most = 0;
    int best = 0;
    for (int e = 0; e < 256; e++) {
        in_window += count[e] - (e >= GLYD_WINDOW ? count[e - GLYD_WINDOW] : 0);
        if (e >= GLYD_WINDOW - 1 && in_window > most) {
            most = in_window;
            best = e - (GLYD_WINDOW - 1);
        }
    }
    return best;
}

void glyd_survey_row(glyd_survey *survey, const uint16_t *bf16, int64_t n)
{
    uint32_t count[2][256] = {{0}}; /* two, as the next weight often has the same exponent */
    for (int64_t i = 0; i < n; i++)
        count[i & 1][bf16[i] >> 7 & 255]++;
    uint64_t all[256];
    for (int e = 0; e < 256; e++)
        all[e] = (uint64_t)count[0][e] + count[1][e];
    /* The bins reach 8 to either side of the window that holds most. */
    int origin = fullest_window(all) - (GLYD_SURVEY_BINS - GLYD_WINDOW) / 2;
    origin = origin < 0 ? 0 : origin > GLYD_SURVEY_ORIGIN_MAX ? GLYD_SURVEY_ORIGIN_MAX : origin;
    survey->origin = (uint8_t)origin;
    survey->outside = (uint32_t)n;
    for (int i = 0; i < GLYD_SURVEY_BINS; i++) {
        survey->count[i] = (uint32_t)all[origin + i];
        survey->outside -= survey->count[i];
    }
}

/* Bases that leave the window within the survey's bins. */
static int clamp_base(const glyd_survey *survey, int base)
{
    int low = survey->origin, high = survey->origin + GLYD_SURVEY_BINS - GLYD_WINDOW;
    return base < low ? low : base > high ? high : base;
}

uint32_t glyd_base_escapes(const glyd_survey *survey, int base)
{
    uint32_t escapes = survey->outside;
    for (int i = 0; i < GLYD_SURVEY_BINS; i++) {
        int code = survey->origin + i - base;
        escapes += code < 0 || code >= GLYD_WINDOW ? survey->count[i] : 0;
    }
    return escapes;
}

int glyd_base_fewest(const glyd_survey *survey)
{
    uint32_t fewest = UINT32_MAX;
    int best = survey->origin;
    for (int i = 0; i <= GLYD_SURVEY_BINS - GLYD_WINDOW; i++) {
        uint32_t escapes = glyd_base_escapes(survey, survey->origin + i);
        if (escapes < fewest) {
            fewest = escapes;
            best = survey->origin + i;
        }
    }
    return best;
}

/* The window that holds most of all rows' exponents; those that no survey counts are left out. */
static void start_alike(const glyd_survey *surveys, int64_t rows, uint8_t *bases)
{
    uint64_t count[256] = {0};
    for (int64_t r = 0; r < rows; r++) {
        for (int i = 0; i < GLYD_SURVEY_BINS; i++)
            count[surveys[r].origin + i] += surveys[r].count[i];
    }
    int best = fullest_window(count);
    for (int64_t r = 0; r < rows; r++)
        bases[r] = (uint8_t)clamp_base(&surveys[r], best);
}

/* How often each code comes, escapes aside. */
static void count_codes(const glyd_survey *surveys, int64_t rows, const uint8_t *bases,
                        uint64_t count[GLYD_WINDOW])
{
    memset(count, 0, GLYD_WINDOW * sizeof *count);
    for (int64_t r = 0; r < rows; r++) {
        const uint32_t *from = surveys[r].count + (bases[r] - surveys[r].origin);
        for (int code = 0; code < GLYD_WINDOW; code++)
            count[code] += from[code];
    }
}

static int cheapest_base(const glyd_survey *survey, const uint32_t cost[GLYD_WINDOW + 1])
{
    uint64_t least = UINT64_MAX, escapes = survey->outside;
    int best = 0;
    for (int i = GLYD_WINDOW; i < GLYD_SURVEY_BINS; i++)
        escapes += survey->count[i];
    for (int i = 0; i <= GLYD_SURVEY_BINS - GLYD_WINDOW; i++) {
        uint64_t sum = escapes * cost[GLYD_WINDOW];
        for (int code = 0; code < GLYD_WINDOW; code++)
            sum += (uint64_t)survey->count[i + code] * cost[code];
        if (sum < least) {
            least = sum;
            best = i;
        }
        if (i < GLYD_SURVEY_BINS - GLYD_WINDOW) /* the window moves on by one */
            escapes += (uint64_t)survey->count[i] - survey->count[i + GLYD_WINDOW];
    }
    return survey->origin + best;
}

void glyd_bases_align(const glyd_survey *surveys, int64_t rows, uint8_t *bases, int *fill)
{
    uint64_t count[GLYD_WINDOW];
    int changed = 1;
    start_alike(surveys, rows, bases);
    for (int round = 0; round < GLYD_BASES_ROUNDS && changed; round++) {
        uint32_t cost[GLYD_WINDOW + 1];
        count_codes(surveys, rows, bases, count);
        glyd_bases_cost(count, cost);
        changed = 0;
        for (int64_t r = 0; r < rows; r++) {
            uint8_t base = (uint8_t)cheapest_base(&surveys[r], cost);
            changed |= base != bases[r];
            bases[r] = base;
        }
    }
    count_codes(surveys, rows, bases, count);
    *fill = glyd_bases_fill(count);
}
