/* log.c - lines of the log.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "server/log.h"
#include "base/clock.h"
#include "server/generation.h"
#include "server/state.h"
#include <string.h>

static void write_line(const glyd_exchange *x, glyd_buf *line)
{
    const char *text = glyd_buf_text(line);
    if (text)
        x->server->log(x->server->log_arg, text);
    glyd_buf_free(line);
}

/* What a client wrote, so that it cannot end the line or steer a terminal. */
static glyd_status print_plain(glyd_buf *line, const char *text)
{
    glyd_status status = GLYD_OK;
    for (const unsigned char *c = (const unsigned char *)text; *c && status == GLYD_OK; c++) {
        bool is_plain = *c > 0x20 && *c < 0x7f && *c != '%';
        status = is_plain ? glyd_buf_append(line, c, 1) : glyd_buf_print(line, "%%%02X", *c);
    }
    return status;
}

void glyd_log_exchange(const glyd_exchange *x)
{
    if (!x->server->log)
        return;
    double now = glyd_clock_s();
    glyd_buf line = {0};
    glyd_status status = glyd_buf_print(&line, "%s ", x->id);
    if (status == GLYD_OK)
        status = print_plain(&line, x->method);
    if (status == GLYD_OK)
        status = glyd_buf_append(&line, " ", 1);
    if (status == GLYD_OK)
        status = print_plain(&line, x->path);
    if (status == GLYD_OK)
        status = glyd_buf_print(&line, " %d %lld bytes %.1f ms", x->status, (long long)x->bytes_out,
                                1e3 * (now - x->begun_s));
    if (status == GLYD_OK && x->finish)
        status = glyd_buf_print(&line, ", prompt %d cached %d, answer %d, %s", x->n_prompt,
                                x->n_cached, x->n_tokens, x->finish);
    if (status == GLYD_OK && x->first_s > 0)
        status = glyd_buf_print(&line, ", first token %.1f ms", 1e3 * (x->first_s - x->begun_s));
    if (status == GLYD_OK && x->is_cut)
        status = glyd_buf_print(&line, ", client left (%s)",
                                x->generation ? glyd_generation_reached(x->generation) : "request");
    write_line(x, &line);
}

void glyd_log_prompt(const glyd_exchange *x, glyd_span prompt)
{
    if (!x->server->log || !x->server->log_prompts)
        return;
    glyd_buf line = {0};
    json_t *text = json_stringn((const char *)prompt.data, prompt.bytes);
    if (text && glyd_buf_print(&line, "%s prompt ", x->id) == GLYD_OK &&
        glyd_json_append(&line, text) == GLYD_OK)
        write_line(x, &line);
    else
        glyd_buf_free(&line);
    json_decref(text);
}
