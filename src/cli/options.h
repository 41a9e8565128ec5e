/* options.h - the one table of options: parsing, --help, and which command takes which.
 *
 * To add an option: a line in GLYD_OPTION_LIST. To add a command: a line in main.c's table and its
 * bit here.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_CLI_OPTIONS_H
#define GLYD_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Commands, as bits of an option's set. */
enum {
    GLYD_FOR_PACK = 1 << 0,
    GLYD_FOR_VERIFY = 1 << 1,
    GLYD_FOR_UNPACK = 1 << 2,
    GLYD_FOR_PLAN = 1 << 3,
    GLYD_FOR_RUN = 1 << 4,
    GLYD_FOR_SERVE = 1 << 5,
    GLYD_FOR_MODELS = GLYD_FOR_RUN | GLYD_FOR_SERVE,
    GLYD_FOR_BENCH = 1 << 6,
    GLYD_FOR_SAVES = GLYD_FOR_PACK | GLYD_FOR_VERIFY | GLYD_FOR_UNPACK,
    GLYD_FOR_ALL = -1,
};

/* X(id, short name or 0, long name, argument or NULL, help, commands) */
#define GLYD_OPTION_LIST(X)                                                                        \
    X(HELP, 'h', "help", NULL, "show this help", GLYD_FOR_ALL)                                     \
    X(LAYOUT, 'l', "layout", "NAME", "mma (the smallest, default) or mma12", GLYD_FOR_PACK)        \
    X(THREADS, 't', "threads", "N", "threads to use (default: one a core)",                        \
      GLYD_FOR_SAVES | GLYD_FOR_MODELS | GLYD_FOR_BENCH)                                           \
    X(PROMPT, 'p', "prompt", "TEXT", "print one answer and exit; - reads standard input",          \
      GLYD_FOR_RUN)                                                                                \
    X(CONTEXT, 'c', "context", "N",                                                                \
      "tokens that prompt and answer may have (default: the model's, at most 8192)", GLYD_FOR_RUN) \
    X(SERVE_CONTEXT, 'c', "context", "N",                                                          \
      "tokens that prompt and answer may have (default: the model's, less where memory is short)", \
      GLYD_FOR_SERVE)                                                                              \
    X(HOST, 0, "host", "ADDRESS", "address to listen on (default: 127.0.0.1)", GLYD_FOR_SERVE)     \
    X(PORT, 0, "port", "N", "port to listen on (default: 8000; 0: any)", GLYD_FOR_SERVE)           \
    X(PAGE_PORT, 0, "port", "N",                                                                   \
      "port of the chat page (default: 8000, or the next that is free; 0: any)", GLYD_FOR_RUN)     \
    X(NO_PAGE, 0, "no-page", NULL, "no chat page and API beside the terminal", GLYD_FOR_RUN)       \
    X(API_KEY, 0, "api-key", "KEY", "ask for this key (also: GLYD_API_KEY, VLLM_API_KEY)",         \
      GLYD_FOR_SERVE)                                                                              \
    X(SERVED_NAME, 0, "served-model-name", "NAMES",                                                \
      "names of the model, by commas (default: the folder's)", GLYD_FOR_SERVE)                     \
    X(ORIGINS, 0, "allowed-origins", "ORIGINS", "sites whose pages may ask, by commas; *: all",    \
      GLYD_FOR_SERVE)                                                                              \
    X(HOSTS, 0, "allowed-hosts", "NAMES", "names that the server goes by, by commas",              \
      GLYD_FOR_SERVE)                                                                              \
    X(PARALLEL, 0, "parallel", "N", "answers made at once (default: 4)", GLYD_FOR_SERVE)           \
    X(QUEUE, 0, "queue", "N", "requests that may wait (default: 256); more get 503",               \
      GLYD_FOR_SERVE)                                                                              \
    X(DRAIN, 0, "drain", "SECONDS", "time that answers get at the end (default: 30)",              \
      GLYD_FOR_SERVE)                                                                              \
    X(TOOL_PARSER, 0, "tool-call-parser", "NAME", "format of tool calls (default: the model's)",   \
      GLYD_FOR_SERVE)                                                                              \
    X(REASONING_PARSER, 0, "reasoning-parser", "NAME",                                             \
      "format of reasoning (default: the model's)", GLYD_FOR_SERVE)                                \
    X(LOG_PROMPTS, 0, "log-prompts", NULL, "write prompts to the log too", GLYD_FOR_SERVE)         \
    X(QUIET_LOG, 'q', "quiet", NULL, "no log of requests", GLYD_FOR_SERVE)                         \
    X(MAX_TOKENS, 'n', "max-tokens", "N", "tokens of an answer at most", GLYD_FOR_RUN)             \
    X(TEMPERATURE, 0, "temperature", "T", "0 always takes the likeliest token", GLYD_FOR_RUN)      \
    X(TOP_K, 0, "top-k", "N", "draw among the N likeliest; 0: among all", GLYD_FOR_RUN)            \
    X(TOP_P, 0, "top-p", "P", "draw among the fewest that reach probability P", GLYD_FOR_RUN)      \
    X(MIN_P, 0, "min-p", "P", "leave out those below P times the likeliest", GLYD_FOR_RUN)         \
    X(REPETITION_PENALTY, 0, "repetition-penalty", "F", "above 1: tokens seen become less likely", \
      GLYD_FOR_RUN)                                                                                \
    X(SEED, 's', "seed", "N", "the same seed draws the same answer", GLYD_FOR_RUN)                 \
    X(BACKEND, 0, "backend", "NAME", "auto or cpu; of serve also vllm", GLYD_FOR_MODELS)           \
    X(LOGITS_HASH, 0, "logits-hash", NULL,                                                         \
      "print the SHA-256 of the prompt's logits instead of an answer", GLYD_FOR_RUN)               \
    X(HOLD, 'l', "layout", "NAME",                                                                 \
      "how to hold the weights: auto (the fastest), mma, mma12 or bf16", GLYD_FOR_MODELS)          \
    X(SHARD_SIZE, 0, "shard-size", "GB", "bf16 weights that share a file (default: 5)",            \
      GLYD_FOR_PACK)                                                                               \
    X(ANY, 0, "any", NULL, "also a model of a type that glyd cannot run itself", GLYD_FOR_PACK)    \
    X(MEMORY, 'm', "memory", "GB", "plan for this much memory (default: what is available)",       \
      GLYD_FOR_PLAN)                                                                               \
    X(USERS, 0, "parallel", "N", "requests at once (default: 1, then 8)", GLYD_FOR_BENCH)          \
    X(PROMPT_TOKENS, 0, "prompt-tokens", "N", "tokens of a prompt (default: 256)", GLYD_FOR_BENCH) \
    X(ANSWER_TOKENS, 'n', "answer-tokens", "N", "tokens of an answer (default: 64)",               \
      GLYD_FOR_BENCH)                                                                              \
    X(ROUNDS, 0, "rounds", "N", "times that each is done (default: 3)", GLYD_FOR_BENCH)            \
    X(JSON, 0, "json", NULL, "print the result as JSON",                                           \
      GLYD_FOR_SAVES | GLYD_FOR_PLAN | GLYD_FOR_BENCH)                                             \
    X(QUIET, 'q', "quiet", NULL, "no progress bar", GLYD_FOR_SAVES)

typedef enum glyd_option {
#define GLYD_OPTION_ENUM(id, letter, name, argument, help, commands) GLYD_OPTION_##id,
    GLYD_OPTION_LIST(GLYD_OPTION_ENUM)
#undef GLYD_OPTION_ENUM
        GLYD_OPTIONS,
} glyd_option;

enum { GLYD_OPERANDS_MAX = 4 };

typedef struct glyd_args {
    const char *value[GLYD_OPTIONS]; /* NULL: not given; a switch that is: "" */
    const char *operand[GLYD_OPERANDS_MAX];
    int n_operands;
    char **rest; /* what follows "--" of `serve`, for the engine underneath */
    int n_rest;
} glyd_args;

typedef struct glyd_command {
    const char *name;
    const char *operands; /* "MODEL OUT" */
    const char *summary;  /* for --help */
    int n_operands;
    int bit; /* GLYD_FOR_... */
    int (*run)(const glyd_args *args);
} glyd_command;

/* Exit codes of the program. */
enum { GLYD_EXIT_DONE = 0, GLYD_EXIT_FAILED = 1, GLYD_EXIT_USAGE = 2, GLYD_EXIT_CORRUPT = 3 };

/* Read what follows the command's name. False: a message was printed, exit with GLYD_EXIT_USAGE. */
bool glyd_args_parse(const glyd_command *command, int argc, char **argv, glyd_args *args);

/* The value of an option as a number; *value stays where it was not given. False: as above. */
bool glyd_args_int(const glyd_command *command, const glyd_args *args, glyd_option option,
                   int64_t min, int64_t max, int64_t *value);
bool glyd_args_real(const glyd_command *command, const glyd_args *args, glyd_option option,
                    double min, double max, double *value);

/* Print the help of a command on stdout. */
void glyd_help_print(const glyd_command *command);

#endif
