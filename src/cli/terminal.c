/* terminal.c - lines typed by a person, and Ctrl-C.
 *
 * A signal handler can reach nothing but static state, so the ticket to cancel, the count, and a
 * pipe are static. Ctrl-C may come on any thread and at any time, also just before a read: the
 * handler writes to the pipe, and whoever waits for a key waits for the pipe too.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "cli/terminal.h"
#include "base/buf.h"
#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
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
static int wake[2] = {-1, -1}; /* the pipe: read end, write end */

static void take_interrupt(int signal)
{
    (void)signal;
    int saved = errno;
    atomic_fetch_add(&n_interrupts, 1);
    if (write(wake[1], "", 1) < 0) {
        /* The pipe is full, so it wakes anyhow; or there is none, and a read is interrupted. */
    }
    errno = saved;
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

/* Read a byte of the terminal: 1, 0 at the end, -1 when Ctrl-C came (errno is EINTR) or on error.
 */
static int read_byte(unsigned char *byte)
{
    for (;;) {
        struct pollfd files[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = wake[0], .events = POLLIN}};
        if (poll(files, 2, -1) < 0 && errno != EINTR)
            return -1;
        char drained[64];
        if (read(wake[0], drained, sizeof drained) > 0) {
            errno = EINTR;
            return -1;
        }
        if (!files[0].revents)
            continue;
        ssize_t n = read(STDIN_FILENO, byte, 1);
        if (n >= 0 || errno != EINTR)
            return (int)n;
    }
}

/* libedit's reader of characters: UTF-8, whatever is broken as U+FFFD. */
static int read_character(EditLine *edit, wchar_t *character)
{
    (void)edit;
    unsigned char byte;
    int n = read_byte(&byte);
    if (n <= 0)
        return n;
    int n_more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
    wchar_t c = n_more ? byte & (0x3f >> n_more) : byte;
    bool whole = byte < 0x80 || n_more > 0;
    for (; n_more > 0 && whole; n_more--) {
        n = read_byte(&byte);
        if (n <= 0)
            return n;
        whole = (byte & 0xc0) == 0x80;
        c = c << 6 | (byte & 0x3f);
    }
    *character = whole && c <= 0x10ffff ? c : 0xfffd;
    return 1;
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
    el_set(t->edit, EL_GETCFN, read_character);
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
        /* libedit measures and writes characters by the locale. */
        if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
            setlocale(LC_CTYPE, "C.UTF-8");
        if (wake[0] < 0 && pipe2(wake, O_NONBLOCK | O_CLOEXEC) != 0) {
            free(t);
            return NULL;
        }
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
