/* cmd_save.c - what pack, verify and unpack share.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/cmd_save.h"
#include "cli/report.h"
#include <stdio.h>

enum { THREADS_MAX = 1024 };

bool glyd_save_args(const glyd_command *command, const glyd_args *args, const char *verb,
                    glyd_bar *bar, glyd_save_options *options)
{
    int64_t n_threads = 0;
    if (!glyd_args_int(command, args, GLYD_OPTION_THREADS, 1, THREADS_MAX, &n_threads))
        return false;
    *options = (glyd_save_options){
        .n_threads = (int)n_threads, .progress = glyd_bar_update, .progress_arg = bar};
    glyd_bar_start(bar, verb, args->value[GLYD_OPTION_QUIET] != NULL);
    return true;
}

static double bits_a_weight(const glyd_save_report *r)
{
    return r->n_weights ? 8 * (double)r->bytes_save / (double)r->n_weights : 0;
}

static int print_json(const char *out, const glyd_save_report *r, double seconds)
{
    return glyd_json_print(json_pack(
        "{s:s*,s:s,s:I,s:I,s:I,s:I,s:I,s:f,s:I,s:I,s:f}", "out", out, "layout", r->layout,
        "tensors", (json_int_t)r->n_tensors, "tensors_packed", (json_int_t)r->n_packed, "weights",
        (json_int_t)r->n_weights, "bytes_checkpoint", (json_int_t)r->bytes_checkpoint, "bytes_save",
        (json_int_t)r->bytes_save, "bits_a_weight", bits_a_weight(r), "files",
        (json_int_t)r->n_files, "left_out", (json_int_t)r->n_left_out, "seconds", seconds));
}

int glyd_save_print(const glyd_args *args, const char *out, const glyd_save_report *r,
                    double seconds)
{
    if (args->value[GLYD_OPTION_JSON])
        return print_json(out, r, seconds);
    char text[GLYD_SIZE_TEXT_BYTES];
    printf("tensors     %llu, %llu of them packed as %s\n", (unsigned long long)r->n_tensors,
           (unsigned long long)r->n_packed, r->layout);
    printf("checkpoint  %s of weights\n", glyd_size_text(r->bytes_checkpoint, text));
    printf("save        %s of weights, %.2f bits each\n", glyd_size_text(r->bytes_save, text),
           bits_a_weight(r));
    printf("other files %llu\n", (unsigned long long)r->n_files);
    printf("time        %.2f s, %s/s\n", seconds,
           glyd_size_text((uint64_t)((double)r->bytes_checkpoint / (seconds > 0 ? seconds : 1)),
                          text));
    return GLYD_EXIT_DONE;
}
