/* cmd_plan.c - glyd plan MODEL
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/commands.h"
#include "cli/report.h"
#include "glyd/engine.h"
#include "glyd/save.h"
#include <stdio.h>

static int print_json(const glyd_save_plan *plan)
{
    json_t *layouts = json_object();
    for (int i = 0; layouts && i < GLYD_LAYOUTS; i++) {
        json_t *layout = json_pack(
            "{s:I,s:b,s:I}", "weight_bytes", (json_int_t)plan->weight_bytes[i], "exact",
            plan->weight_bytes_exact[i], "context_fits", (json_int_t)plan->context_fits[i]);
        if (json_object_set_new(layouts, glyd_layout_name((glyd_layout)i), layout) != 0) {
            json_decref(layouts);
            layouts = NULL;
        }
    }
    return glyd_json_print(
        json_pack("{s:s,s:b,s:I,s:I,s:i,s:I,s:o}", "model_type", plan->model_type, "is_save",
                  plan->is_save, "weights", (json_int_t)plan->n_weights, "kv_bytes_a_token",
                  (json_int_t)plan->kv_bytes_a_token, "context", plan->context, "memory_available",
                  (json_int_t)plan->memory_available, "layouts", layouts));
}

static void print_layout(const glyd_save_plan *plan, int layout)
{
    char text[GLYD_SIZE_TEXT_BYTES];
    uint64_t bytes = plan->weight_bytes[layout], bf16 = plan->weight_bytes[GLYD_LAYOUT_BF16];
    printf("%-6s %s%s", glyd_layout_name((glyd_layout)layout),
           plan->weight_bytes_exact[layout] ? "" : "about ", glyd_size_text(bytes, text));
    if (layout != GLYD_LAYOUT_BF16 && bf16)
        printf(" (%.0f %% of bf16)", 100 * (double)bytes / (double)bf16);
    if (plan->context_fits[layout] < 0)
        printf(", does not fit\n");
    else
        printf(", context %lld of %d\n", (long long)plan->context_fits[layout], plan->context);
}

/* What glyd run takes, by the engine's own plan; nothing where the engine cannot run the model. */
static void print_run(const char *folder)
{
    glyd_engine_options options = glyd_engine_options_default(folder);
    glyd_plan plan;
    char total[GLYD_SIZE_TEXT_BYTES], weights[GLYD_SIZE_TEXT_BYTES], kv[GLYD_SIZE_TEXT_BYTES];
    if (glyd_engine_plan(&options, &plan, NULL) != GLYD_OK)
        return;
    printf("run    %s on this CPU: weights %s held as %s, KV cache %s for a context of %d\n",
           glyd_size_text(plan.total_bytes, total), glyd_size_text(plan.weight_bytes, weights),
           glyd_layout_name(plan.layout), glyd_size_text(plan.kv_bytes, kv), plan.context);
}

static int run(const glyd_args *args)
{
    double memory_gb = 0;
    if (!glyd_args_real(&glyd_cmd_plan, args, GLYD_OPTION_MEMORY, 1e-3, 1e6, &memory_gb))
        return GLYD_EXIT_USAGE;
    glyd_save_plan plan;
    glyd_error error;
    if (glyd_save_plan_make(args->operand[0], (uint64_t)(memory_gb * 1e9), &plan, &error) !=
        GLYD_OK)
        return glyd_exit_of_error(&error);
    if (args->value[GLYD_OPTION_JSON])
        return print_json(&plan);
    char text[GLYD_SIZE_TEXT_BYTES];
    printf("model  %s, %llu weights, a %s\n", plan.model_type, (unsigned long long)plan.n_weights,
           plan.is_save ? "glyd save" : "bf16 checkpoint");
    printf("memory %s %s\n", glyd_size_text(plan.memory_available, text),
           memory_gb > 0 ? "as asked" : "available on this machine");
    for (int i = 0; i < GLYD_LAYOUTS; i++)
        print_layout(&plan, i);
    printf("KV     %llu bytes a token, %s for the whole context\n",
           (unsigned long long)plan.kv_bytes_a_token,
           glyd_size_text(plan.kv_bytes_a_token * (uint64_t)plan.context, text));
    print_run(args->operand[0]);
    return GLYD_EXIT_DONE;
}

const glyd_command glyd_cmd_plan = {
    .name = "plan",
    .operands = "MODEL",
    .summary = "what running a model takes on this machine\n\n"
               "MODEL is a bf16 model folder or a glyd save; only headers are read.",
    .n_operands = 1,
    .bit = GLYD_FOR_PLAN,
    .run = run,
};
