/* config.c - config.json and generation_config.json of a folder to one glyd_config.
 *
 * What changes a model's results and is not built is refused by name, never ignored.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "model/config.h"
#include "base/error.h"
#include "model/families.h"
#include "save/folder.h"
#include <string.h>

static const char CONFIG_FILE[] = "config.json";
static const char GENERATION_FILE[] = "generation_config.json";

enum {
    CONFIG_BYTES_MAX = 16 << 20,
    LAYERS_MAX = 10000,
    DIM_MAX = 1 << 24, /* hidden, ffn, vocab */
    HEADS_MAX = 1 << 16,
    HEAD_DIM_MAX = 4096,
    CONTEXT_MAX = 1 << 30,
};

static glyd_status read_int(const json_t *root, const char *key, int64_t max, int *value,
                            glyd_error *err)
{
    int64_t n;
    GLYD_TRY(glyd_json_int(root, key, 1, max, CONFIG_FILE, &n, err));
    *value = (int)n;
    return GLYD_OK;
}

static glyd_status read_int_or(const json_t *root, const char *key, int64_t min, int64_t max,
                               int absent, int *value, glyd_error *err)
{
    int64_t n;
    GLYD_TRY(glyd_json_int_or(root, key, min, max, absent, CONFIG_FILE, &n, err));
    *value = (int)n;
    return GLYD_OK;
}

/* Switches that must be off, because what they ask for is not built. */
static glyd_status refuse_switches(const json_t *root, glyd_error *err)
{
    static const char *const switches[] = {"attention_bias", "mlp_bias", "add_cross_attention",
                                           "is_encoder_decoder"};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool on;
        GLYD_TRY(glyd_json_bool_or(root, switches[i], false, CONFIG_FILE, &on, err));
        if (on)
            GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: \"%s\" is true, which is not supported",
                      CONFIG_FILE, switches[i]);
    }
    const char *act;
    GLYD_TRY(glyd_json_text_or(root, "hidden_act", "silu", CONFIG_FILE, &act, err));
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: the activation \"%s\" is not supported; silu is",
                  CONFIG_FILE, act);
    return GLYD_OK;
}

static glyd_status refuse_quantized(const json_t *root, glyd_error *err)
{
    const json_t *quantization = json_object_get(root, "quantization_config");
    if (!json_is_object(quantization))
        return GLYD_OK;
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
              "%s: the weights are quantized (%s): take the bf16 checkpoint that they were made "
              "from",
              CONFIG_FILE, method ? method : "quantization_config");
}

static glyd_status read_sizes(const json_t *root, const glyd_family *family, glyd_config *config,
                              glyd_error *err)
{
    GLYD_TRY(read_int(root, "num_hidden_layers", LAYERS_MAX, &config->n_layers, err));
    GLYD_TRY(read_int(root, "hidden_size", DIM_MAX, &config->hidden, err));
    GLYD_TRY(read_int(root, "intermediate_size", DIM_MAX, &config->ffn, err));
    GLYD_TRY(read_int(root, "vocab_size", DIM_MAX, &config->vocab, err));
    GLYD_TRY(read_int(root, "num_attention_heads", HEADS_MAX, &config->n_heads, err));

    /* The class default holds where the member is absent; a null means as many as heads. */
    bool is_null = json_is_null(json_object_get(root, "num_key_value_heads"));
    int kv_heads =
        is_null || !family->kv_heads_default ? config->n_heads : family->kv_heads_default;
    GLYD_TRY(
        read_int_or(root, "num_key_value_heads", 1, HEADS_MAX, kv_heads, &config->n_kv_heads, err));
    if (config->n_heads % config->n_kv_heads != 0)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: %d heads cannot share %d key and value heads evenly",
                  CONFIG_FILE, config->n_heads, config->n_kv_heads);

    is_null = json_is_null(json_object_get(root, "head_dim"));
    int head_dim = is_null || !family->head_dim_default ? config->hidden / config->n_heads
                                                        : family->head_dim_default;
    GLYD_TRY(read_int_or(root, "head_dim", 1, HEAD_DIM_MAX, head_dim, &config->head_dim, err));
    if (config->head_dim < 2 || config->head_dim % 2 != 0)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: heads of %d values; an even number is needed",
                  CONFIG_FILE, config->head_dim);
    return read_int_or(root, "max_position_embeddings", 1, CONTEXT_MAX, family->context_default,
                       &config->context, err);
}

/* One window for every layer, or none. Mixed layers are refused. */
static glyd_status read_window(const json_t *root, const glyd_family *family, glyd_config *config,
                               glyd_error *err)
{
    bool used = family->windowed;
    if (!used)
        GLYD_TRY(glyd_json_bool_or(root, "use_sliding_window", false, CONFIG_FILE, &used, err));
    const json_t *window = json_object_get(root, "sliding_window");
    int absent = window ? 0 : family->window_default; /* a null: none */
    int value;
    GLYD_TRY(read_int_or(root, "sliding_window", 0, CONTEXT_MAX, absent, &value, err));
    config->sliding_window = used ? value : 0;

    int n_full = config->sliding_window ? 0 : config->n_layers;
    const json_t *types = json_object_get(root, "layer_types");
    if (json_is_array(types)) {
        n_full = 0;
        size_t i;
        const json_t *type;
        json_array_foreach(types, i, type)
        {
            const char *name = json_string_value(type);
            if (name && strcmp(name, "full_attention") == 0)
                n_full++;
            else if (!name || strcmp(name, "sliding_attention") != 0)
                GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: layers of type \"%s\" are not supported",
                          CONFIG_FILE, name ? name : "?");
        }
        if ((int)json_array_size(types) != config->n_layers)
            GLYD_FAIL(err, GLYD_E_FORMAT, "%s: layer_types has %zu entries for %d layers",
                      CONFIG_FILE, json_array_size(types), config->n_layers);
    } else if (config->sliding_window && !family->windowed) {
        /* Qwen: the first max_window_layers see everything. */
        GLYD_TRY(read_int_or(root, "max_window_layers", 0, LAYERS_MAX, 28, &n_full, err));
        n_full = n_full < config->n_layers ? n_full : config->n_layers;
    }
    if (n_full == config->n_layers)
        config->sliding_window = 0;
    else if (n_full != 0)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "%s: a sliding window in %d of %d layers is not supported", CONFIG_FILE,
                  config->n_layers - n_full, config->n_layers);
    return GLYD_OK;
}

typedef struct rope_text {
    const char *name;
    glyd_rope_kind kind;
} rope_text;

static const rope_text rope_kinds[] = {
    {"default", GLYD_ROPE_DEFAULT}, {"linear", GLYD_ROPE_LINEAR},   {"llama3", GLYD_ROPE_LLAMA3},
    {"yarn", GLYD_ROPE_YARN},       {"dynamic", GLYD_ROPE_DYNAMIC},
};

static glyd_status read_rope_kind(const json_t *scaling, glyd_rope *rope, glyd_error *err)
{
    const char *type;
    GLYD_TRY(glyd_json_text_or(scaling, "rope_type", NULL, CONFIG_FILE, &type, err));
    if (!type)
        GLYD_TRY(glyd_json_text_or(scaling, "type", "default", CONFIG_FILE, &type, err));
    for (size_t i = 0; i < sizeof rope_kinds / sizeof *rope_kinds; i++) {
        if (strcmp(rope_kinds[i].name, type) == 0) {
            rope->kind = rope_kinds[i].kind;
            return GLYD_OK;
        }
    }
    GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: the rope type \"%s\" is not supported", CONFIG_FILE,
              type);
}

static glyd_status positive(double value, const char *key, glyd_error *err)
{
    if (!(value > 0 && value < 1e30))
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"%s\" must be a positive number", CONFIG_FILE, key);
    return GLYD_OK;
}

static glyd_status read_positive(const json_t *object, const char *key, double *value,
                                 glyd_error *err)
{
    GLYD_TRY(glyd_json_real(object, key, CONFIG_FILE, value, err));
    return positive(*value, key, err);
}

static glyd_status read_positive_or(const json_t *object, const char *key, double absent,
                                    double *value, glyd_error *err)
{
    GLYD_TRY(glyd_json_real_or(object, key, absent, CONFIG_FILE, value, err));
    return positive(*value, key, err);
}

static glyd_status read_yarn(const json_t *scaling, glyd_rope *rope, glyd_error *err)
{
    GLYD_TRY(read_positive_or(scaling, "beta_fast", 32, &rope->beta_fast, err));
    GLYD_TRY(read_positive_or(scaling, "beta_slow", 1, &rope->beta_slow, err));
    GLYD_TRY(glyd_json_real_or(scaling, "attention_factor", 0, CONFIG_FILE, &rope->attention_factor,
                               err));
    if (rope->attention_factor < 0)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"attention_factor\" is negative", CONFIG_FILE);
    static const char *const unbuilt[] = {"mscale", "mscale_all_dim"};
    for (size_t i = 0; i < sizeof unbuilt / sizeof *unbuilt; i++) {
        const json_t *value = json_object_get(scaling, unbuilt[i]);
        if (value && !json_is_null(value))
            GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: \"%s\" of yarn is not supported", CONFIG_FILE,
                      unbuilt[i]);
    }
    bool truncate;
    GLYD_TRY(glyd_json_bool_or(scaling, "truncate", true, CONFIG_FILE, &truncate, err));
    if (!truncate)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "%s: \"truncate\": false of yarn is not supported",
                  CONFIG_FILE);
    return GLYD_OK;
}

/* Old files have rope_theta beside "rope_scaling", new ones all of it in "rope_parameters". */
static glyd_status read_rope(const json_t *root, glyd_config *config, glyd_error *err)
{
    glyd_rope *rope = &config->rope;
    *rope = (glyd_rope){.factor = 1, .original_positions = config->context};
    const json_t *scaling = json_object_get(root, "rope_parameters");
    if (!json_is_object(scaling))
        scaling = json_object_get(root, "rope_scaling");
    double theta;
    GLYD_TRY(read_positive_or(root, "rope_theta", 10000, &theta, err));
    double partial;
    GLYD_TRY(read_positive_or(root, "partial_rotary_factor", 1, &partial, err));
    rope->theta = theta;
    if (json_is_object(scaling)) {
        GLYD_TRY(read_positive_or(scaling, "rope_theta", theta, &rope->theta, err));
        GLYD_TRY(read_positive_or(scaling, "partial_rotary_factor", partial, &partial, err));
        GLYD_TRY(read_rope_kind(scaling, rope, err));
    }
    if (partial != 1)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED,
                  "%s: \"partial_rotary_factor\" is %g; only 1 is supported", CONFIG_FILE, partial);
    if (rope->kind == GLYD_ROPE_DEFAULT)
        return GLYD_OK;
    GLYD_TRY(read_positive(scaling, "factor", &rope->factor, err));
    static const char original[] = "original_max_position_embeddings";
    if (rope->kind == GLYD_ROPE_LLAMA3) {
        GLYD_TRY(read_positive(scaling, "low_freq_factor", &rope->low_freq_factor, err));
        GLYD_TRY(read_positive(scaling, "high_freq_factor", &rope->high_freq_factor, err));
        GLYD_TRY(read_positive(scaling, original, &rope->original_positions, err));
        if (rope->high_freq_factor <= rope->low_freq_factor)
            GLYD_FAIL(err, GLYD_E_FORMAT, "%s: high_freq_factor must be over low_freq_factor",
                      CONFIG_FILE);
    } else if (rope->kind == GLYD_ROPE_YARN) {
        GLYD_TRY(
            read_positive_or(scaling, original, config->context, &rope->original_positions, err));
        GLYD_TRY(read_yarn(scaling, rope, err));
    }
    return GLYD_OK;
}

static glyd_status add_stop_id(glyd_config *config, const json_t *id, const char *where,
                               glyd_error *err)
{
    json_int_t value = json_integer_value(id);
    if (!json_is_integer(id) || value < 0 || value >= config->vocab)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"eos_token_id\" must be ids below the vocabulary of %d",
                  where, config->vocab);
    for (int i = 0; i < config->n_stop_ids; i++) {
        if (config->stop_ids[i] == value)
            return GLYD_OK;
    }
    if (config->n_stop_ids == GLYD_STOP_IDS_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT, "%s: more than %d eos ids", where, GLYD_STOP_IDS_MAX);
    config->stop_ids[config->n_stop_ids++] = (int32_t)value;
    return GLYD_OK;
}

static glyd_status add_stop_ids(glyd_config *config, const json_t *root, const char *where,
                                glyd_error *err)
{
    const json_t *eos = json_object_get(root, "eos_token_id");
    if (!eos || json_is_null(eos))
        return GLYD_OK;
    if (!json_is_array(eos))
        return add_stop_id(config, eos, where, err);
    size_t i;
    const json_t *id;
    json_array_foreach(eos, i, id)
    {
        GLYD_TRY(add_stop_id(config, id, where, err));
    }
    return GLYD_OK;
}

static glyd_status read_generation(const json_t *root, glyd_config *config, glyd_error *err)
{
    GLYD_TRY(add_stop_ids(config, root, GENERATION_FILE, err));
    GLYD_TRY(
        glyd_json_real_or(root, "temperature", -1, GENERATION_FILE, &config->temperature, err));
    GLYD_TRY(glyd_json_real_or(root, "top_p", -1, GENERATION_FILE, &config->top_p, err));
    GLYD_TRY(glyd_json_real_or(root, "min_p", -1, GENERATION_FILE, &config->min_p, err));
    GLYD_TRY(glyd_json_real_or(root, "repetition_penalty", -1, GENERATION_FILE,
                               &config->repetition_penalty, err));
    bool do_sample;
    GLYD_TRY(glyd_json_bool_or(root, "do_sample", true, GENERATION_FILE, &do_sample, err));
    if (!do_sample)
        config->temperature = 0;
    int64_t top_k;
    GLYD_TRY(glyd_json_int_or(root, "top_k", -1, INT32_MAX, -1, GENERATION_FILE, &top_k, err));
    config->top_k = (int)top_k;
    return GLYD_OK;
}

glyd_status glyd_config_from_json(const json_t *root, const json_t *generation, glyd_config *config,
                                  glyd_error *err)
{
    *config = (glyd_config){.bos_id = -1,
                            .temperature = -1,
                            .top_p = -1,
                            .min_p = -1,
                            .repetition_penalty = -1,
                            .top_k = -1};
    if (!json_is_object(root))
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s is not a JSON object", CONFIG_FILE);
    const char *type;
    GLYD_TRY(glyd_json_text(root, "model_type", CONFIG_FILE, &type, err));
    const glyd_family *family = glyd_family_of(type);
    if (!family)
        GLYD_FAIL(err, GLYD_E_UNSUPPORTED, "models of type \"%s\" are not supported; %s are", type,
                  GLYD_FAMILY_NAMES);
    config->family = family->model_type;
    config->qkv_bias = family->qkv_bias;
    config->qk_norm = family->qk_norm;
    GLYD_TRY(refuse_quantized(root, err));
    GLYD_TRY(refuse_switches(root, err));
    GLYD_TRY(read_sizes(root, family, config, err));
    GLYD_TRY(read_window(root, family, config, err));
    GLYD_TRY(read_positive_or(root, "rms_norm_eps", 1e-6, &config->rms_eps, err));
    GLYD_TRY(read_rope(root, config, err));
    GLYD_TRY(glyd_json_bool_or(root, "tie_word_embeddings", false, CONFIG_FILE, &config->tied_head,
                               err));
    GLYD_TRY(add_stop_ids(config, root, CONFIG_FILE, err));
    const json_t *bos = json_object_get(root, "bos_token_id");
    if (json_is_integer(bos) && json_integer_value(bos) >= 0 &&
        json_integer_value(bos) < config->vocab)
        config->bos_id = (int32_t)json_integer_value(bos);
    return generation ? read_generation(generation, config, err) : GLYD_OK;
}

glyd_status glyd_config_read(const char *folder, glyd_config *config, glyd_error *err)
{
    char path[GLYD_PATH_BYTES];
    json_t *root = NULL, *generation = NULL;
    glyd_status status = glyd_fs_member(folder, CONFIG_FILE, path, NULL);
    if (status == GLYD_E_NOTFOUND)
        GLYD_FAIL(err, status, "%s has no %s: it is no Hugging Face model folder", folder,
                  CONFIG_FILE);
    GLYD_TRY(glyd_fs_member(folder, CONFIG_FILE, path, err));
    GLYD_TRY_DONE(glyd_json_read(path, CONFIG_BYTES_MAX, &root, err));
    if (glyd_fs_member(folder, GENERATION_FILE, path, NULL) != GLYD_E_NOTFOUND) {
        GLYD_TRY_DONE(glyd_fs_member(folder, GENERATION_FILE, path, err));
        GLYD_TRY_DONE(glyd_json_read(path, CONFIG_BYTES_MAX, &generation, err));
    }
    status = glyd_config_from_json(root, generation, config, err);
done:
    json_decref(root);
    json_decref(generation);
    return status;
}
