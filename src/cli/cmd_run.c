/* cmd_run.c - glyd run MODEL: chat in the terminal, and on a page beside it, or one answer.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/report.h"
#include "cli/serving.h"
#include "cli/terminal.h"
#include "server/server.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PROMPT_BYTES_MAX = 256 << 20,
    PAGE_PORTS = 10, /* tried from the usual one on */
};

typedef struct session {
    glyd_engine *engine;
    glyd_chat *chat;
    glyd_server *page;    /* NULL: not served */
    glyd_request request; /* sampling and tokens_max of every answer */
    bool thinking;
} session;

static const char help_text[] = "/bye    leave (Ctrl-D too)\n"
                                "/clear  start over\n"
                                "/think  turn thinking on and off, where the model can\n"
                                "/help   this list\n"
                                "Ctrl-C  stop the answer; twice, leave\n";

static void print_settings(const char *model, const glyd_engine_info *info)
{
    const glyd_plan *plan = &info->plan;
    char weights[GLYD_SIZE_TEXT_BYTES], kv[GLYD_SIZE_TEXT_BYTES];
    fprintf(stderr, "%s: %s, %s %.2f bits, weights %s, context %d (%s), %s, %d thread%s\n", model,
            info->family, glyd_layout_name(plan->layout), glyd_plan_bits(plan),
            glyd_size_text(plan->weight_bytes, weights), plan->context,
            glyd_size_text(plan->kv_bytes, kv), info->backend, info->n_threads,
            info->n_threads == 1 ? "" : "s");
}

static bool read_sampling(const glyd_args *args, glyd_request *request)
{
    const glyd_command *command = &glyd_cmd_run;
    glyd_sampling *s = &request->sampling;
    int64_t top_k = s->top_k, tokens_max = request->tokens_max;
    int64_t seed = (int64_t)((uint64_t)time(NULL) & INT64_MAX);
    if (!glyd_args_real(command, args, GLYD_OPTION_TEMPERATURE, 0, 100, &s->temperature) ||
        !glyd_args_real(command, args, GLYD_OPTION_TOP_P, 1e-6, 1, &s->top_p) ||
        !glyd_args_real(command, args, GLYD_OPTION_MIN_P, 0, 1, &s->min_p) ||
        !glyd_args_real(command, args, GLYD_OPTION_REPETITION_PENALTY, 0.01, 100,
                        &s->repetition_penalty) ||
        !glyd_args_int(command, args, GLYD_OPTION_TOP_K, 0, INT32_MAX, &top_k) ||
        !glyd_args_int(command, args, GLYD_OPTION_SEED, 0, INT64_MAX, &seed) ||
        !glyd_args_int(command, args, GLYD_OPTION_MAX_TOKENS, 1, INT32_MAX, &tokens_max))
        return false;
    s->top_k = (int)top_k;
    s->seed = (uint64_t)seed;
    request->tokens_max = (int)tokens_max;
    return true;
}

static bool read_options(const glyd_args *args, glyd_engine_options *options, glyd_layout *layout)
{
    int64_t context = 0, port = 0;
    if (!glyd_args_int(&glyd_cmd_run, args, GLYD_OPTION_CONTEXT, 1, INT32_MAX, &context) ||
        !glyd_args_int(&glyd_cmd_run, args, GLYD_OPTION_PAGE_PORT, 0, UINT16_MAX, &port) ||
        !glyd_model_args(&glyd_cmd_run, args, options, layout))
        return false;
    options->context = (int)context;
    return true;
}

static bool write_answer(void *arg, const char *text, size_t bytes)
{
    (void)arg;
    if (fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0)
        return true;
    if (errno != EINTR)
        return false;
    clearerr(stdout); /* Ctrl-C on a terminal that was paused: it cancels the answer itself */
    return true;
}

/* Ask, print the answer as it is made. Returns an exit code; *n_breaks: how often Ctrl-C came. */
static int answer(session *s, glyd_span question, int *n_breaks)
{
    glyd_ids ids = {0};
    glyd_error error = {0};
    glyd_ticket *ticket = NULL;
    glyd_result result = {0};
    glyd_status status =
        glyd_chat_ask(s->chat, (const char *)question.data, question.bytes, &ids, &error);
    if (status == GLYD_OK) {
        status = glyd_chat_start(s->chat, &ids, &s->request, &ticket, &error);
        if (status != GLYD_OK)
            glyd_chat_take_back(s->chat);
    }
    glyd_ids_free(&ids);
    if (status == GLYD_OK) {
        glyd_interrupt_cancels(ticket);
        status = glyd_chat_wait(s->chat, ticket, write_answer, NULL, &result, &error);
        glyd_interrupt_cancels(NULL);
        glyd_ticket_free(ticket);
        printf("\n");
    }
    *n_breaks = glyd_interrupts_take();
    if (status != GLYD_OK)
        return glyd_exit_of_error(&error);
    if (result.finish == GLYD_FINISH_CONTEXT)
        glyd_message("the context of %d tokens is full: /clear starts over, --context N makes room",
                     glyd_engine_describe(s->engine)->plan.context);
    return result.finish == GLYD_FINISH_CANCELLED ? GLYD_EXIT_FAILED : GLYD_EXIT_DONE;
}

static bool is_command(glyd_span line, const char *name)
{
    return line.bytes == strlen(name) && memcmp(line.data, name, line.bytes) == 0;
}

/* A line that begins with "/". Returns whether to leave. */
static bool obey(session *s, glyd_span line)
{
    if (is_command(line, "/bye"))
        return true;
    if (is_command(line, "/clear")) {
        glyd_chat_clear(s->chat);
        fprintf(stderr, "forgotten\n");
    } else if (is_command(line, "/think")) {
        s->thinking = !s->thinking;
        glyd_chat_think(s->chat, s->thinking ? GLYD_THINKING_ON : GLYD_THINKING_OFF);
        fprintf(stderr, "thinking is %s\n", s->thinking ? "on" : "off");
    } else if (is_command(line, "/help")) {
        fputs(help_text, stderr);
    } else {
        fprintf(stderr, "no such command; /help lists them\n");
    }
    return false;
}

static int converse(session *s)
{
    glyd_terminal *terminal = glyd_terminal_open("> ");
    if (!terminal) {
        glyd_message("out of memory");
        return GLYD_EXIT_FAILED;
    }
    glyd_interrupt_cancels(NULL);
    int n_breaks = 0; /* Ctrl-C in a row: in an answer, then at the prompt */
    for (bool leave = false; !leave && n_breaks < 2 && !ferror(stdout);) {
        glyd_span line;
        glyd_line kind = glyd_terminal_read(terminal, &line);
        if (kind == GLYD_LINE_END)
            break;
        n_breaks = kind == GLYD_LINE_BREAK ? n_breaks + glyd_interrupts_take() : 0;
        if (kind == GLYD_LINE_BREAK)
            continue;
        if (line.bytes > 0 && line.data[0] == '/')
            leave = obey(s, line);
        else if (line.bytes > 0)
            (void)answer(s, line, &n_breaks); /* a failed answer leaves the conversation open */
    }
    glyd_terminal_close(terminal);
    return GLYD_EXIT_DONE;
}

/* A page is for people: where lines come from a file or a pipe, nobody would look at it. */
static bool wants_page(const glyd_args *args)
{
    return !args->value[GLYD_OPTION_PROMPT] && !args->value[GLYD_OPTION_NO_PAGE] &&
           isatty(STDIN_FILENO);
}

/* Serve the chat page and the API from the same engine. It logs nothing, so nothing comes between
 * what is typed. False where the port that was asked for cannot be had; any other trouble is told,
 * and the terminal's chat does without the page. */
static bool open_page(session *s, const char *folder, const glyd_args *args)
{
    glyd_server_options options = glyd_server_options_default(folder);
    const int usual = options.port;
    int64_t port = usual;
    bool is_given = args->value[GLYD_OPTION_PAGE_PORT] != NULL;
    (void)glyd_args_int(&glyd_cmd_run, args, GLYD_OPTION_PAGE_PORT, 0, UINT16_MAX, &port);
    options.port = (int)port;
    options.n_ports = is_given ? 1 : PAGE_PORTS;
    options.api_key = glyd_serving_key(args);
    signal(SIGPIPE, SIG_IGN);
    glyd_serving_raise_file_limit();
    /* Ctrl-C is for the thread that reads the terminal. */
    sigset_t interrupt, before;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &before);
    glyd_error error;
    glyd_status status = glyd_server_start(&options, s->engine, &s->page, &error);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != GLYD_OK) {
        if (is_given)
            glyd_message("%s", error.text);
        else if (status == GLYD_E_IO)
            glyd_message("no chat page: ports %d to %d are in use; --port N takes another", usual,
                         usual + PAGE_PORTS - 1);
        else
            glyd_message("no chat page: %s", error.text);
        return !is_given;
    }
    const glyd_server_info *info = glyd_server_describe(s->page);
    char taken[48] = "";
    if (!is_given && info->port != usual)
        snprintf(taken, sizeof taken, " (port %d is in use)", usual);
    fprintf(stderr, "chat page %s%s, API %s/v1\n", info->address, taken, info->address);
    return true;
}

/* Who still waits for an answer is told that it was cut off. */
static void close_page(session *s)
{
    int n_cut = glyd_server_stop(s->page, 0);
    if (n_cut > 0)
        glyd_message("%d answer%s of the chat page %s cut off", n_cut, n_cut == 1 ? "" : "s",
                     n_cut == 1 ? "was" : "were");
    s->page = NULL;
}

/* The text of --prompt; "-" is standard input, in `store`. */
static bool read_prompt(const char *value, glyd_buf *store, glyd_span *prompt)
{
    *prompt = (glyd_span){(const uint8_t *)value, strlen(value)};
    if (strcmp(value, "-") != 0)
        return true;
    for (;;) {
        if (store->bytes > PROMPT_BYTES_MAX || glyd_buf_reserve(store, 65536) != GLYD_OK) {
            glyd_message("the prompt on standard input is too long");
            return false;
        }
        size_t n = fread(store->data + store->bytes, 1, 65536, stdin);
        if (n == 0)
            break;
        store->bytes += n;
    }
    while (store->bytes > 0 && store->data[store->bytes - 1] == '\n')
        store->bytes--;
    *prompt = (glyd_span){store->data, store->bytes};
    return true;
}

static int print_logits_hash(session *s, glyd_span prompt)
{
    glyd_ids ids = {0};
    glyd_error error = {0};
    char hex[GLYD_LOGITS_HASH_BYTES];
    glyd_status status =
        glyd_chat_ask(s->chat, (const char *)prompt.data, prompt.bytes, &ids, &error);
    if (status == GLYD_OK)
        status = glyd_engine_logits_hash(s->engine, ids.data, (int)ids.n, hex, &error);
    glyd_ids_free(&ids);
    if (status != GLYD_OK)
        return glyd_exit_of_error(&error);
    printf("%s\n", hex);
    return GLYD_EXIT_DONE;
}

static int run_session(session *s, const glyd_args *args)
{
    const char *value = args->value[GLYD_OPTION_PROMPT];
    if (!value)
        return converse(s);
    glyd_buf store = {0};
    glyd_span prompt;
    int code = GLYD_EXIT_USAGE;
    int n_breaks;
    if (read_prompt(value, &store, &prompt))
        code = args->value[GLYD_OPTION_LOGITS_HASH] ? print_logits_hash(s, prompt)
                                                    : answer(s, prompt, &n_breaks);
    glyd_buf_free(&store);
    return code;
}

static int run(const glyd_args *args)
{
    const char *folder = args->operand[0];
    glyd_engine_options options = glyd_engine_options_default(folder);
    glyd_layout layout;
    glyd_request checked = {.tokens_max = -1}; /* wrong usage is told before a model is loaded */
    if (!read_options(args, &options, &layout) || !read_sampling(args, &checked))
        return GLYD_EXIT_USAGE;
    if (args->value[GLYD_OPTION_LOGITS_HASH] && !args->value[GLYD_OPTION_PROMPT]) {
        glyd_message("--logits-hash needs a --prompt");
        return GLYD_EXIT_USAGE;
    }
    if (args->value[GLYD_OPTION_PAGE_PORT] &&
        (args->value[GLYD_OPTION_PROMPT] || args->value[GLYD_OPTION_NO_PAGE])) {
        glyd_message("--port is the chat page's, which --prompt and --no-page leave out");
        return GLYD_EXIT_USAGE;
    }
    session s = {0};
    glyd_error error = {0};
    glyd_status status = GLYD_OK;
    if (wants_page(args))
        status = glyd_serving_beside(&options, &error);
    if (status == GLYD_OK)
        status = glyd_engine_open(&options, &s.engine, &error);
    if (status == GLYD_OK)
        status = glyd_chat_open(folder, s.engine, &s.chat, &error);
    int code = GLYD_EXIT_USAGE;
    if (status != GLYD_OK) {
        code = glyd_exit_of_error(&error);
    } else {
        s.request = glyd_request_default(s.engine);
        bool answers_once = args->value[GLYD_OPTION_PROMPT] != NULL;
        if (!read_sampling(args, &s.request))
            code = GLYD_EXIT_USAGE;
        else {
            if (!answers_once || isatty(STDERR_FILENO))
                print_settings(folder, glyd_engine_describe(s.engine));
            if (!answers_once && !glyd_chat_has_template(s.chat))
                fprintf(stderr, "no chat template: the model continues what you type\n");
            if (wants_page(args) && !open_page(&s, folder, args))
                code = GLYD_EXIT_FAILED;
            else
                code = run_session(&s, args);
        }
    }
    close_page(&s);
    glyd_engine_close(s.engine);
    glyd_chat_close(s.chat);
    return code;
}

const glyd_command glyd_cmd_run = {
    .name = "run",
    .operands = "MODEL",
    .summary = "chat with a model in the terminal and the browser\n\n"
               "MODEL is a bf16 Hugging Face model folder or a glyd save. With --prompt one answer "
               "is\nprinted. In the chat, /help lists the commands; the page and the API are "
               "served beside\nit, for this machine alone, where a terminal is typed at. Sampling "
               "follows the model's\ngeneration_config.json unless an option says otherwise.",
    .n_operands = 1,
    .bit = GLYD_FOR_RUN,
    .run = run,
};
