/* terminal.c - lines typed by a person, and Ctrl-C.
 *
 * A signal handler can reach nothing but static state, so the ticket to cancel and the count are
 * the program's two static variables.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "cli/terminal.h"
#include "base/buf.h"
#include <errno.h>
#include <histedit.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HISTORY_LINES = 1000 };

struct glyd_terminal {
    const char *prompt;
    EditLine *edit; /* NULL: not a terminal */
    History *history;
    char *line; /* not a terminal: what getline holds */
    size_t line_bytes;
};

static atomic_int n_interrupts;
static _Atomic(glyd_ticket *) ticket_to_cancel;

static void take_interrupt(int signal)
{
    (void)signal;
    atomic_fetch_add(&n_interrupts, 1);
    glyd_ticket *ticket = atomic_load(&ticket_to_cancel);
    if (ticket)
        glyd_ticket_cancel(ticket);
}

void glyd_interrupt_cancels(glyd_ticket *ticket)
{
    atomic_store(&ticket_to_cancel, ticket);
    struct sigaction action = {.sa_handler = take_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL); /* no SA_RESTART: a read at the prompt must come back */
    if (ticket && atomic_load(&n_interrupts) > 0)
        glyd_ticket_cancel(ticket); /* Ctrl-C came while the question was being read */
}

int glyd_interrupts_take(void)
{
    return atomic_exchange(&n_interrupts, 0);
}

static char *prompt_of(EditLine *edit)
{
    glyd_terminal *t = NULL;
    el_get(edit, EL_CLIENTDATA, &t);
    return (char *)(uintptr_t)t->prompt;
}

static void open_editor(glyd_terminal *t)
{
    t->edit = el_init("glyd", stdin, stdout, stderr);
    t->history = history_init();
    if (!t->edit || !t->history)
        return;
    HistEvent event;
    history(t->history, &event, H_SETSIZE, HISTORY_LINES);
    history(t->history, &event, H_SETUNIQUE, 1);
    el_set(t->edit, EL_CLIENTDATA, t);
    el_set(t->edit, EL_PROMPT, prompt_of);
    el_set(t->edit, EL_EDITOR, "emacs");
    el_set(t->edit, EL_SIGNAL, 0);
    el_set(t->edit, EL_HIST, history, t->history);
    el_source(t->edit, NULL);
}

glyd_terminal *glyd_terminal_open(const char *prompt)
{
    glyd_terminal *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->prompt = prompt;
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
        open_editor(t);
        if (!t->edit || !t->history) {
            glyd_terminal_close(t);
            return NULL;
        }
    }
    return t;
}

void glyd_terminal_close(glyd_terminal *t)
{
    if (!t)
        return;
    if (t->edit)
        el_end(t->edit);
    if (t->history)
        history_end(t->history);
    free(t->line);
    free(t);
}

static glyd_line read_plain(glyd_terminal *t, glyd_span *text)
{
    errno = 0;
    ssize_t n = getline(&t->line, &t->line_bytes, stdin);
    if (n < 0) {
        bool interrupted = errno == EINTR;
        clearerr(stdin);
        return interrupted ? GLYD_LINE_BREAK : GLYD_LINE_END;
    }
    if (n > 0 && t->line[n - 1] == '\n')
        n--;
    *text = (glyd_span){(const uint8_t *)t->line, (size_t)n};
    return GLYD_LINE_TEXT;
}

glyd_line glyd_terminal_read(glyd_terminal *t, glyd_span *text)
{
    if (!t->edit)
        return read_plain(t, text);
    int n = 0;
    const char *line = el_gets(t->edit, &n);
    if (!line || n <= 0) {
        bool interrupted = n < 0 && errno == EINTR;
        if (interrupted)
            el_reset(t->edit);
        printf("\n");
        return interrupted ? GLYD_LINE_BREAK : GLYD_LINE_END;
    }
    if (line[n - 1] == '\n')
        n--;
    if (n > 0) {
        HistEvent event;
        history(t->history, &event, H_ENTER, line);
    }
    *text = (glyd_span){(const uint8_t *)line, (size_t)n};
    return GLYD_LINE_TEXT;
}
