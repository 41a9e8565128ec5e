/* terminal.h - lines typed by a person, and Ctrl-C.
 *
 * On a terminal: line editing with history (libedit), kept for the session only. Otherwise lines
 * of standard input as they are.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CLI_TERMINAL_H
#define GLYD_CLI_TERMINAL_H

#include "glyd/base.h"
#include "glyd/engine.h"

typedef struct glyd_terminal glyd_terminal;

/* NULL: out of memory. */
glyd_terminal *glyd_terminal_open(const char *prompt);
void glyd_terminal_close(glyd_terminal *t); /* NULL is allowed */

typedef enum glyd_line {
    GLYD_LINE_TEXT,  /* *text has it, without its newline, until the next call */
    GLYD_LINE_BREAK, /* Ctrl-C: what was typed is dropped */
    GLYD_LINE_END,   /* Ctrl-D or the end of input */
} glyd_line;

glyd_line glyd_terminal_read(glyd_terminal *t, glyd_span *text);

/* From here on Ctrl-C cancels `ticket`; NULL: it is only counted. */
void glyd_interrupt_cancels(glyd_ticket *ticket);

/* How often Ctrl-C came since the last call. */
int glyd_interrupts_take(void);

#endif
