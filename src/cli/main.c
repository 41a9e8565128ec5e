/* main.c - the glyd program: finds the command and runs it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/commands.h"
#include "cli/report.h"
#include "glyd/status.h"
#include <stdio.h>
#include <string.h>

static const glyd_command *const commands[] = {&glyd_cmd_run,    &glyd_cmd_serve,  &glyd_cmd_pack,
                                               &glyd_cmd_verify, &glyd_cmd_unpack, &glyd_cmd_plan,
                                               &glyd_cmd_bench};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* Commands that glyd is going to have. */
static const char *const not_built[] = {"fit", "login", "fetch", "tokenize", "template", "doctor"};

static void print_help(void)
{
    printf("usage: glyd COMMAND [options] [arguments]\n\n"
           "bf16 language models held in 10.7 to 12 bits a weight, bit for bit\n\ncommands\n");
    for (int i = 0; i < N_COMMANDS; i++) {
        char left[48];
        const char *summary = commands[i]->summary;
        snprintf(left, sizeof left, "%s %s", commands[i]->name, commands[i]->operands);
        printf("  %-20s %.*s\n", left, (int)strcspn(summary, "\n"), summary);
    }
    printf("\nglyd COMMAND --help tells a command's options; glyd --version the version.\n");
}

static int run_command(const glyd_command *command, int argc, char **argv)
{
    glyd_args args;
    if (!glyd_args_parse(command, argc, argv, &args))
        return GLYD_EXIT_USAGE;
    if (args.value[GLYD_OPTION_HELP]) {
        glyd_help_print(command);
        return GLYD_EXIT_DONE;
    }
    int code = command->run(&args);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        glyd_message("cannot write the result to standard output");
        return code == GLYD_EXIT_DONE ? GLYD_EXIT_FAILED : code;
    }
    return code;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help();
        return GLYD_EXIT_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("glyd %s\n", glyd_version());
        return GLYD_EXIT_DONE;
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return run_command(commands[i], argc - 2, argv + 2);
    }
    for (size_t i = 0; i < sizeof not_built / sizeof *not_built; i++) {
        if (strcmp(not_built[i], name) == 0) {
            glyd_message("%s is not built yet", name);
            return GLYD_EXIT_USAGE;
        }
    }
    if (!name[0])
        glyd_message("no command; see glyd --help");
    else if (argc > 2)
        glyd_message("%s: there is no such command, and compressing files is not built yet; see "
                     "glyd --help",
                     name);
    else
        glyd_message("there is no command %s; see glyd --help", name);
    return GLYD_EXIT_USAGE;
}
