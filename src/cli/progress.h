/* progress.h - the progress bar and Ctrl-C, for the commands that read or write whole models.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CLI_PROGRESS_H
#define GLYD_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct glyd_bar {
    const char *verb; /* "packing" */
    bool visible;     /* stderr is a terminal and nobody asked for quiet */
    double start_s, drawn_s;
} glyd_bar;

/* Also makes Ctrl-C ask for a clean end, and a second one end at once. */
void glyd_bar_start(glyd_bar *bar, const char *verb, bool quiet);

/* A glyd_progress_fn whose `arg` is the bar: non-zero after Ctrl-C. */
int glyd_bar_update(void *bar, uint64_t bytes_done, uint64_t bytes_total);

/* Wipe the line. Returns the seconds since the start. */
double glyd_bar_end(glyd_bar *bar);

#endif
