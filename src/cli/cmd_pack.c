/* cmd_pack.c - glyd pack MODEL OUT
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/cmd_save.h"
#include "cli/commands.h"
#include "cli/report.h"

static int run(const glyd_args *args)
{
    glyd_bar bar;
    glyd_save_options options;
    double shard_gb = 0;
    const char *layout = args->value[GLYD_OPTION_LAYOUT];
    if (!glyd_args_real(&glyd_cmd_pack, args, GLYD_OPTION_SHARD_SIZE, 1e-6, 1e6, &shard_gb) ||
        !glyd_save_args(&glyd_cmd_pack, args, "packing", &bar, &options))
        return GLYD_EXIT_USAGE;
    if (layout && (glyd_layout_from_name(layout, &options.layout) != GLYD_OK ||
                   options.layout == GLYD_LAYOUT_BF16)) {
        glyd_message("--layout %s: mma or mma12 is needed; see glyd pack --help", layout);
        return GLYD_EXIT_USAGE;
    }
    options.shard_bytes = (uint64_t)(shard_gb * 1e9);
    options.any_model = args->value[GLYD_OPTION_ANY] != NULL;

    glyd_save_report report;
    glyd_error error;
    glyd_status status =
        glyd_save_pack(args->operand[0], args->operand[1], &options, &report, &error);
    double seconds = glyd_bar_end(&bar);
    if (status != GLYD_OK)
        return glyd_exit_of_error(&error);
    return glyd_save_print(args, args->operand[1], &report, seconds);
}

const glyd_command glyd_cmd_pack = {
    .name = "pack",
    .operands = "MODEL OUT",
    .summary = "pack a bf16 model and save it\n\n"
               "MODEL is a Hugging Face model folder with bf16 safetensors. OUT is a new folder: "
               "the same\nmodel with its weights packed, every one of them decoded again and "
               "compared.",
    .n_operands = 2,
    .bit = GLYD_FOR_PACK,
    .run = run,
};
