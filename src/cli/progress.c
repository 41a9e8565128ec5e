/* progress.c - the progress bar and Ctrl-C.
 *
 * The bar is drawn with a carriage return and spaces alone, at most ten times a second: no colour,
 * so that NO_COLOR has nothing to turn off.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "cli/progress.h"
#include "cli/report.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CELLS = 24, LINE_CHARS = 78 };
static const double REDRAW_S = 0.1;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void glyd_bar_start(glyd_bar *bar, const char *verb, bool quiet)
{
    *bar = (glyd_bar){.verb = verb, .visible = !quiet && isatty(STDERR_FILENO)};
    bar->start_s = now_s();
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESETHAND | SA_RESTART; /* the second one has the default effect */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A file over the limit is then an error of the write, which is handled. */
    signal(SIGXFSZ, SIG_IGN);
}

static void draw(const glyd_bar *bar, double seconds, uint64_t done, uint64_t total)
{
    double share = total ? (double)done / (double)total : 1;
    int filled = (int)(share * CELLS);
    char cells[CELLS + 1], text[GLYD_SIZE_TEXT_BYTES], line[128];
    memset(cells, '-', CELLS);
    memset(cells, '#', (size_t)(filled < CELLS ? filled : CELLS));
    cells[CELLS] = 0;
    snprintf(line, sizeof line, "%s [%s] %3d %% of %s, %.0f s left", bar->verb, cells,
             (int)(share * 100), glyd_size_text(total, text),
             share > 0 ? seconds * (1 - share) / share : 0);
    fprintf(stderr, "\r%-*.*s", LINE_CHARS, LINE_CHARS, line);
    fflush(stderr);
}

int glyd_bar_update(void *arg, uint64_t bytes_done, uint64_t bytes_total)
{
    glyd_bar *bar = arg;
    if (bar->visible) {
        double now = now_s();
        if (now - bar->drawn_s >= REDRAW_S) {
            bar->drawn_s = now;
            draw(bar, now - bar->start_s, bytes_done, bytes_total);
        }
    }
    return interrupted;
}

double glyd_bar_end(glyd_bar *bar)
{
    if (bar->visible && bar->drawn_s > 0)
        fprintf(stderr, "\r%*s\r", LINE_CHARS, "");
    return now_s() - bar->start_s;
}
