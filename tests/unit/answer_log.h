/* answer_log.h - an answer's events as one text, so that two runs can be compared.
 *
 * Content is C(text), reasoning R(text), a call B<index>(name) A(arguments) E+ or E-. Neighbours of
 * one kind are one piece. The order of events is checked on the way.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_ANSWER_LOG_H
#define GLYD_ANSWER_LOG_H

#include "base/buf.h"
#include "text/answer.h"
#include "text/unicode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct answer_log {
    glyd_buf text;
    int last; /* kind of the piece that is open; -1: none */
    int n_begun, n_ended;
    bool takes_any; /* the answer may be no UTF-8: pieces of characters are passed on */
} answer_log;

#define LOG_NEED(condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "events: %s is not so\n", #condition);                                 \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static inline void log_put(answer_log *log, const void *data, size_t bytes)
{
    LOG_NEED(glyd_buf_append(&log->text, data, bytes) == GLYD_OK);
}

static inline void log_close(answer_log *log)
{
    if (log->last >= 0)
        log_put(log, ")", 1);
    log->last = -1;
}

static inline glyd_status log_event(void *arg, const glyd_answer_event *e, glyd_error *err)
{
    static const char letters[] = "CRBA";
    answer_log *log = arg;
    char head[32];
    (void)err;
    LOG_NEED(e->kind == GLYD_ANSWER_CALL_END || e->text.bytes > 0);
    LOG_NEED(log->takes_any || glyd_utf8_valid(e->text.data, e->text.bytes) == e->text.bytes);
    if (e->kind == GLYD_ANSWER_CALL_BEGIN)
        LOG_NEED(e->index == log->n_begun++ && log->n_ended == e->index);
    if (e->kind == GLYD_ANSWER_CALL_ARGUMENTS)
        LOG_NEED(e->index == log->n_begun - 1 && log->n_ended == e->index);
    if (e->kind == GLYD_ANSWER_CALL_END)
        LOG_NEED(e->index == log->n_ended++ && log->n_begun == log->n_ended);
    if (e->kind <= GLYD_ANSWER_REASONING)
        LOG_NEED(log->n_begun == log->n_ended);
    if (log->last != (int)e->kind || e->kind == GLYD_ANSWER_CALL_BEGIN) {
        log_close(log);
        if (e->kind == GLYD_ANSWER_CALL_END) {
            log_put(log, e->is_complete ? "E+" : "E-", 2);
            return GLYD_OK;
        }
        int n = e->kind == GLYD_ANSWER_CALL_BEGIN
                    ? snprintf(head, sizeof head, "B%d(", e->index)
                    : snprintf(head, sizeof head, "%c(", letters[e->kind]);
        log_put(log, head, (size_t)n);
        log->last = (int)e->kind;
    }
    log_put(log, e->text.data, e->text.bytes);
    return GLYD_OK;
}

#endif
