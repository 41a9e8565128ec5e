/* options.c - the one table of options.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/options.h"
#include "cli/report.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct option_row {
    char letter;
    const char *name, *argument, *help;
    int commands;
} option_row;

static const option_row rows[GLYD_OPTIONS] = {
#define ROW(id, letter, name, argument, help, commands) {letter, name, argument, help, commands},
    GLYD_OPTION_LIST(ROW)
#undef ROW
};

static bool wrong_usage(const glyd_command *command, const char *what, const char *detail)
{
    glyd_message("%s%s; see glyd %s --help", what, detail, command->name);
    return false;
}

static int find_long(const glyd_command *command, const char *name, size_t n)
{
    for (int i = 0; i < GLYD_OPTIONS; i++) {
        if ((rows[i].commands & command->bit) && strlen(rows[i].name) == n &&
            strncmp(rows[i].name, name, n) == 0)
            return i;
    }
    return -1;
}

static int find_letter(const glyd_command *command, char letter)
{
    for (int i = 0; i < GLYD_OPTIONS; i++) {
        if ((rows[i].commands & command->bit) && rows[i].letter == letter)
            return i;
    }
    return -1;
}

/* `text` is an argument that begins with "-"; `value` is what follows "=" or a letter, or NULL. */
static bool take_option(const glyd_command *command, const char *text, char **argv, int argc,
                        int *at, glyd_args *args)
{
    bool is_long = text[1] == '-';
    const char *value = is_long ? strchr(text, '=') : text[2] ? text + 2 : NULL;
    int i = is_long ? find_long(command, text + 2,
                                value ? (size_t)(value - text - 2) : strlen(text + 2))
                    : find_letter(command, text[1]);
    if (i < 0)
        return wrong_usage(command, "unknown option ", text);
    if (is_long && value)
        value++;
    if (!rows[i].argument) {
        if (value)
            return wrong_usage(command, "no value belongs to ", text);
        args->value[i] = "";
        return true;
    }
    if (!value && *at + 1 < argc)
        value = argv[++*at];
    if (!value)
        return wrong_usage(command, "a value is missing after ", text);
    args->value[i] = value;
    return true;
}

bool glyd_args_parse(const glyd_command *command, int argc, char **argv, glyd_args *args)
{
    *args = (glyd_args){0};
    bool options = true;
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        if (options && strcmp(text, "--") == 0) {
            options = false;
            if (command->bit == GLYD_FOR_SERVE && args->n_operands == command->n_operands) {
                args->rest = argv + i + 1;
                args->n_rest = argc - i - 1;
                break;
            }
        } else if (options && text[0] == '-' && text[1]) {
            if (!take_option(command, text, argv, argc, &i, args))
                return false;
        } else if (args->n_operands == command->n_operands) {
            return wrong_usage(command, "one argument too many: ", text);
        } else {
            args->operand[args->n_operands++] = text;
        }
    }
    if (!args->value[GLYD_OPTION_HELP] && args->n_operands < command->n_operands)
        return wrong_usage(command, "arguments needed: ", command->operands);
    return true;
}

static bool wrong_value(const glyd_command *command, glyd_option option, const char *value,
                        const char *range)
{
    glyd_message("--%s %s: %s is needed; see glyd %s --help", rows[option].name, value, range,
                 command->name);
    return false;
}

bool glyd_args_int(const glyd_command *command, const glyd_args *args, glyd_option option,
                   int64_t min, int64_t max, int64_t *value)
{
    const char *text = args->value[option];
    if (!text)
        return true;
    char *end, range[80];
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || errno || n < min || n > max) {
        snprintf(range, sizeof range, "a whole number from %lld to %lld", (long long)min,
                 (long long)max);
        return wrong_value(command, option, text, range);
    }
    *value = n;
    return true;
}

bool glyd_args_real(const glyd_command *command, const glyd_args *args, glyd_option option,
                    double min, double max, double *value)
{
    const char *text = args->value[option];
    if (!text)
        return true;
    char *end, range[80];
    double x = strtod(text, &end);
    if (end == text || *end || !isfinite(x) || x < min || x > max) {
        snprintf(range, sizeof range, "a number from %g to %g", min, max);
        return wrong_value(command, option, text, range);
    }
    *value = x;
    return true;
}

void glyd_help_print(const glyd_command *command)
{
    printf("usage: glyd %s [options] %s\n\n%s\n\noptions\n", command->name, command->operands,
           command->summary);
    for (int i = 0; i < GLYD_OPTIONS; i++) {
        const option_row *row = &rows[i];
        if (!(row->commands & command->bit))
            continue;
        char left[64];
        snprintf(left, sizeof left, "%s%c%s--%s %s", row->letter ? "-" : " ",
                 row->letter ? row->letter : ' ', row->letter ? ", " : "  ", row->name,
                 row->argument ? row->argument : "");
        printf("  %-26s %s\n", left, row->help);
    }
}
