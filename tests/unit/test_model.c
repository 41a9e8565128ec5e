/* test_model.c - configurations of every family, and weights by role from checkpoint and save.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tiny_model.h"

#include "glyd/save.h"
#include "model/model.h"

static glyd_status read_config(const char *text, const char *generation, glyd_config *config,
                               glyd_error *err)
{
    json_t *root, *more = NULL;
    assert_ok(glyd_json_parse((glyd_span){(const uint8_t *)text, strlen(text)}, "c", &root, NULL));
    if (generation)
        assert_ok(glyd_json_parse((glyd_span){(const uint8_t *)generation, strlen(generation)}, "g",
                                  &more, NULL));
    glyd_status status = glyd_config_from_json(root, more, config, err);
    json_decref(root);
    json_decref(more);
    return status;
}

static void test_defaults_of_families(void **state)
{
    (void)state;
#define BARE                                                                                       \
    "\"hidden_size\": 4096, \"num_hidden_layers\": 2, \"num_attention_heads\": 32, "               \
    "\"intermediate_size\": 64, \"vocab_size\": 99}"
    glyd_config c;
    assert_ok(read_config("{\"model_type\": \"llama\", " BARE, NULL, &c, NULL));
    assert_int_equal(c.n_kv_heads, 32);
    assert_int_equal(c.head_dim, 128);
    assert_int_equal(c.context, 2048);
    assert_int_equal(c.sliding_window, 0);
    assert_true(c.rope.theta == 10000 && c.rms_eps == 1e-6 && !c.tied_head && c.bos_id == -1);
    assert_true(c.temperature < 0 && c.top_k < 0 && c.n_stop_ids == 0);
    assert_ok(read_config("{\"model_type\": \"mistral\", " BARE, NULL, &c, NULL));
    assert_int_equal(c.n_kv_heads, 8);
    assert_int_equal(c.sliding_window, 4096);
    assert_ok(read_config("{\"model_type\": \"qwen2\", " BARE, NULL, &c, NULL));
    assert_true(c.qkv_bias && !c.qk_norm && c.sliding_window == 0);
    assert_ok(read_config("{\"model_type\": \"qwen3\", \"head_dim\": null, " BARE, NULL, &c, NULL));
    assert_int_equal(c.head_dim, 128);
    assert_true(!c.qkv_bias && c.qk_norm);
    assert_ok(read_config("{\"model_type\": \"mistral\", \"num_key_value_heads\": null, "
                          "\"sliding_window\": null, " BARE,
                          NULL, &c, NULL));
    assert_int_equal(c.n_kv_heads, 32);
    assert_int_equal(c.sliding_window, 0);
}

static void test_sliding_windows(void **state)
{
    (void)state;
    glyd_config c;
    assert_ok(read_config(TINY_CONFIG("qwen2", ", \"use_sliding_window\": true, "
                                               "\"sliding_window\": 32, \"max_window_layers\": 0"),
                          NULL, &c, NULL));
    assert_int_equal(c.sliding_window, 32);
    assert_ok(read_config(TINY_CONFIG("qwen2", ", \"use_sliding_window\": true, "
                                               "\"sliding_window\": 32, \"max_window_layers\": 9"),
                          NULL, &c, NULL));
    assert_int_equal(c.sliding_window, 0);
    glyd_error err;
    assert_int_equal(
        read_config(TINY_CONFIG("qwen3", ", \"use_sliding_window\": true, \"sliding_window\": 32, "
                                         "\"max_window_layers\": 1"),
                    NULL, &c, &err),
        GLYD_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "in 1 of 2 layers"));
    assert_ok(read_config(TINY_CONFIG("qwen3", ", \"sliding_window\": null, \"layer_types\": "
                                               "[\"full_attention\", \"full_attention\"]"),
                          NULL, &c, NULL));
    assert_int_equal(c.sliding_window, 0);
    assert_ok(read_config(TINY_CONFIG("mistral", ", \"sliding_window\": 64"), NULL, &c, NULL));
    assert_int_equal(c.sliding_window, 64);
}

/* The old spelling and the new one give the same. */
static void test_rope_spellings(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
        "\"original_max_position_embeddings\": 64, \"rope_type\": \"llama3\"",
        "\"factor\": 4.0, \"original_max_position_embeddings\": 32, \"rope_type\": \"yarn\", "
        "\"beta_fast\": 16",
        "\"factor\": 2, \"rope_type\": \"linear\"",
        "\"factor\": 2, \"rope_type\": \"dynamic\"",
        "\"rope_type\": \"default\"",
    };
    static const glyd_rope_kind kinds[] = {GLYD_ROPE_LLAMA3, GLYD_ROPE_YARN, GLYD_ROPE_LINEAR,
                                           GLYD_ROPE_DYNAMIC, GLYD_ROPE_DEFAULT};
    char old_text[1024], new_text[1024], more[512];
    for (int i = 0; i < 5; i++) {
        glyd_config a, b;
        snprintf(more, sizeof more, ", \"rope_theta\": 500000.0, \"rope_scaling\": {%s}}",
                 bodies[i]);
        snprintf(old_text, sizeof old_text, "%.*s%s", (int)strlen(TINY_CONFIG("llama", "")) - 1,
                 TINY_CONFIG("llama", ""), more);
        snprintf(more, sizeof more, ", \"rope_parameters\": {%s, \"rope_theta\": 500000.0}}",
                 bodies[i]);
        snprintf(new_text, sizeof new_text, "%.*s%s", (int)strlen(TINY_CONFIG("llama", "")) - 1,
                 TINY_CONFIG("llama", ""), more);
        assert_ok(read_config(old_text, NULL, &a, NULL));
        assert_ok(read_config(new_text, NULL, &b, NULL));
        assert_int_equal(a.rope.kind, kinds[i]);
        assert_true(a.rope.theta == 500000);
        assert_memory_equal(&a.rope, &b.rope, sizeof a.rope);
    }
    glyd_config c;
    assert_ok(read_config(TINY_CONFIG("qwen2", ", \"rope_scaling\": {\"type\": \"yarn\", "
                                               "\"factor\": 4.0}"),
                          NULL, &c, NULL));
    assert_true(c.rope.kind == GLYD_ROPE_YARN && c.rope.beta_fast == 32 && c.rope.beta_slow == 1 &&
                c.rope.attention_factor == 0 && c.rope.original_positions == 128);
    assert_ok(read_config(TINY_CONFIG("llama", ", \"rope_scaling\": null"), NULL, &c, NULL));
    assert_int_equal(c.rope.kind, GLYD_ROPE_DEFAULT);
}

static void test_stop_ids_and_sampling(void **state)
{
    (void)state;
    glyd_config c;
    assert_ok(read_config(TINY_CONFIG("llama", ", \"eos_token_id\": [7, 9], \"bos_token_id\": 5"),
                          "{\"eos_token_id\": [9, 11], \"temperature\": 0.6, \"top_k\": 20, "
                          "\"top_p\": 0.95, \"min_p\": 0, \"repetition_penalty\": 1.1}",
                          &c, NULL));
    assert_int_equal(c.n_stop_ids, 3);
    assert_int_equal(c.stop_ids[0], 7);
    assert_int_equal(c.stop_ids[1], 9);
    assert_int_equal(c.stop_ids[2], 11);
    assert_int_equal(c.bos_id, 5);
    assert_true(c.temperature == 0.6 && c.top_k == 20 && c.top_p == 0.95 && c.min_p == 0 &&
                c.repetition_penalty == 1.1);
    assert_ok(read_config(TINY_CONFIG("llama", ""), "{\"temperature\": 0.6, \"do_sample\": false}",
                          &c, NULL));
    assert_true(c.temperature == 0);
    glyd_error err;
    assert_int_equal(read_config(TINY_CONFIG("llama", ", \"eos_token_id\": 256"), NULL, &c, &err),
                     GLYD_E_FORMAT);
}

/* Every role of two models, decoded, is the same. */
static void assert_same_weights(const glyd_model *a, const glyd_model *b)
{
    const glyd_config *config = glyd_model_config(a);
    for (int layer = 0; layer < config->n_layers; layer++) {
        for (int role = 0; role < GLYD_ROLES; role++) {
            glyd_matrix m, n;
            glyd_status status = glyd_model_weight(a, (glyd_role)role, layer, &m, NULL);
            assert_int_equal(glyd_model_weight(b, (glyd_role)role, layer, &n, NULL), status);
            bool there = glyd_role_exists((glyd_role)role, config) &&
                         (layer == 0 || glyd_role_in_layer((glyd_role)role));
            assert_int_equal(status, there ? GLYD_OK : GLYD_E_NOTFOUND);
            if (!there)
                continue;
            assert_int_equal(m.layout, GLYD_LAYOUT_BF16);
            assert_true(m.rows == n.rows && m.cols == n.cols);
            assert_int_equal(m.array[GLYD_ARRAY_SM].bytes, m.rows * m.cols * 2);
            uint16_t *bf16 = malloc(m.array[GLYD_ARRAY_SM].bytes);
            assert_ok(glyd_unpack(&n, 0, n.rows, bf16, n.cols, NULL, NULL));
            assert_memory_equal(bf16, m.array[GLYD_ARRAY_SM].data, m.array[GLYD_ARRAY_SM].bytes);
            free(bf16);
        }
    }
}

static void check_family(const char *config, bool tied)
{
    char room[64], folder[GLYD_PATH_BYTES], save[GLYD_PATH_BYTES];
    glyd_error err = {0};
    tiny_room(room);
    assert_ok(glyd_fs_join(folder, room, "model", NULL));
    assert_ok(glyd_fs_join(save, room, "save", NULL));
    tiny_write(folder, config);
    glyd_model *model, *packed;
    if (glyd_model_open(folder, &model, &err) != GLYD_OK)
        fail_msg("%s", err.text);
    assert_false(glyd_model_is_packed(model));
    for (int layout = GLYD_LAYOUT_MMA12; layout <= GLYD_LAYOUT_MMA; layout++) {
        const glyd_save_options options = {.n_threads = 2, .layout = (glyd_layout)layout};
        assert_ok(glyd_save_pack(folder, save, &options, NULL, &err));
        assert_ok(glyd_model_open(save, &packed, &err));
        assert_true(glyd_model_is_packed(packed));
        glyd_matrix embed, head;
        assert_ok(glyd_model_weight(packed, GLYD_ROLE_EMBED, 0, &embed, NULL));
        assert_int_equal(embed.layout, layout);
        assert_ok(glyd_model_weight(packed, GLYD_ROLE_HEAD, 0, &head, NULL));
        assert_int_equal(embed.array[0].data == head.array[0].data, tied);
        assert_same_weights(model, packed);
        glyd_model_close(packed);
        glyd_fs_remove_folder(save);
    }
    glyd_matrix m;
    assert_int_equal(glyd_model_weight(model, GLYD_ROLE_EMBED, 9, &m, &err), GLYD_E_NOTFOUND);
    assert_int_equal(glyd_model_weight(model, GLYD_ROLES, 0, &m, &err), GLYD_E_NOTFOUND);
    glyd_model_close(model);
    glyd_fs_remove_folder(folder);
    glyd_fs_remove_folder(room);
}

static void test_families(void **state)
{
    (void)state;
    check_family(TINY_CONFIG("llama", ", \"tie_word_embeddings\": true"), true);
    check_family(TINY_CONFIG("mistral", ""), false);
    check_family(TINY_CONFIG("qwen2", ", \"tie_word_embeddings\": true"), true);
    check_family(TINY_CONFIG("qwen3", ""), false);
}

static void test_plan(void **state)
{
    (void)state;
    char room[64], folder[GLYD_PATH_BYTES];
    tiny_room(room);
    assert_ok(glyd_fs_join(folder, room, "model", NULL));
    tiny_write(folder, TINY_CONFIG("llama", ", \"tie_word_embeddings\": true"));
    glyd_save_plan plan;
    assert_ok(glyd_save_plan_make(folder, 1000000, &plan, NULL));
    /* embedding, final norm, and two layers of q, k, v, o, three of the network and two norms */
    uint64_t weights = 256 * 64 + 64 + 2 * (64 * 64 * 2 + 32 * 64 * 2 + 3 * 192 * 64 + 2 * 64);
    assert_int_equal(plan.n_weights, weights);
    assert_int_equal(plan.weight_bytes[GLYD_LAYOUT_BF16], 2 * weights);
    assert_true(plan.weight_bytes[GLYD_LAYOUT_MMA12] < 2 * weights);
    assert_true(plan.weight_bytes[GLYD_LAYOUT_MMA] < plan.weight_bytes[GLYD_LAYOUT_MMA12]);
    assert_int_equal(plan.kv_bytes_a_token, 2 * 2 * 2 * 16 * 4);
    assert_int_equal(plan.context_fits[GLYD_LAYOUT_BF16], 128);
    assert_ok(glyd_save_plan_make(folder, 2 * weights + 512 * 7 + 3, &plan, NULL));
    assert_int_equal(plan.context_fits[GLYD_LAYOUT_BF16], 7);
    assert_int_equal(plan.context_fits[GLYD_LAYOUT_MMA], 128);
    assert_ok(glyd_save_plan_make(folder, 1000, &plan, NULL));
    assert_int_equal(plan.context_fits[GLYD_LAYOUT_MMA], -1);
    glyd_fs_remove_folder(folder);
    glyd_fs_remove_folder(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_of_families),
        cmocka_unit_test(test_sliding_windows),
        cmocka_unit_test(test_rope_spellings),
        cmocka_unit_test(test_stop_ids_and_sampling),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
