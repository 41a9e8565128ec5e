/* test_save.c - pack, verify and unpack as calls: progress, cancelling, checksums, manifests.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tiny_model.h"

#include "base/crc32c.h"
#include "base/map.h"
#include "glyd/save.h"
#include "save/manifest.h"

typedef struct room {
    char folder[64];
    char model[GLYD_PATH_BYTES], save[GLYD_PATH_BYTES], back[GLYD_PATH_BYTES];
} room;

static void room_open(room *r)
{
    tiny_room(r->folder);
    assert_ok(glyd_fs_join(r->model, r->folder, "model", NULL));
    assert_ok(glyd_fs_join(r->save, r->folder, "save", NULL));
    assert_ok(glyd_fs_join(r->back, r->folder, "back", NULL));
    tiny_write(r->model, TINY_CONFIG("qwen2", ", \"tie_word_embeddings\": true"));
}

static void room_close(room *r)
{
    glyd_fs_remove_folder(r->model);
    glyd_fs_remove_folder(r->save);
    glyd_fs_remove_folder(r->back);
    assert_int_equal(rmdir(r->folder), 0); /* and nothing else was there */
}

static void assert_names(const char *folder, size_t n)
{
    glyd_fs_names names;
    assert_ok(glyd_fs_list(folder, &names, NULL));
    assert_int_equal(names.n, n);
    glyd_fs_names_free(&names);
}

typedef struct watch {
    int calls, cancel_at; /* cancel_at 0: never */
    uint64_t last, total;
} watch;

static int watch_progress(void *arg, uint64_t done, uint64_t total)
{
    watch *w = arg;
    w->calls++;
    assert_true(done >= w->last && done <= total);
    assert_true(w->total == 0 || w->total == total);
    w->last = done;
    w->total = total;
    return w->calls == w->cancel_at;
}

static void test_progress(void **state)
{
    (void)state;
    room r;
    room_open(&r);
    glyd_save_report report;
    watch w = {0};
    glyd_save_options options = {.n_threads = 1, .progress = watch_progress, .progress_arg = &w};
    assert_ok(glyd_save_pack(r.model, r.save, &options, &report, NULL));
    assert_true(w.calls >= 20 && w.last == w.total && w.total == report.bytes_checkpoint);
    w = (watch){0};
    assert_ok(glyd_save_verify(r.save, &options, NULL, NULL));
    assert_true(w.calls >= 20 && w.last == w.total);
    w = (watch){0};
    assert_ok(glyd_save_unpack(r.save, r.back, &options, NULL, NULL));
    assert_true(w.calls >= 20 && w.last == w.total && w.total == report.bytes_checkpoint);
    room_close(&r);
}

/* At whatever call the answer is "stop", nothing is left but what was there. */
static void test_cancel(void **state)
{
    (void)state;
    room r;
    room_open(&r);
    watch w = {0};
    glyd_save_options options = {.n_threads = 2, .progress = watch_progress, .progress_arg = &w};
    for (int at = 1; at <= 25; at += 4) {
        w = (watch){.cancel_at = at};
        assert_int_equal(glyd_save_pack(r.model, r.save, &options, NULL, NULL), GLYD_E_CANCELLED);
        assert_names(r.folder, 1);
    }
    w = (watch){0};
    assert_ok(glyd_save_pack(r.model, r.save, &options, NULL, NULL));
    for (int at = 1; at <= 25; at += 4) {
        w = (watch){.cancel_at = at};
        assert_int_equal(glyd_save_unpack(r.save, r.back, &options, NULL, NULL), GLYD_E_CANCELLED);
        assert_names(r.folder, 2);
    }
    w = (watch){.cancel_at = 1};
    options.n_threads = 1;
    assert_int_equal(glyd_save_verify(r.save, &options, NULL, NULL), GLYD_E_CANCELLED);
    room_close(&r);
}

static void test_options(void **state)
{
    (void)state;
    room r;
    room_open(&r);
    glyd_error err;
    glyd_save_options options = {.layout = (glyd_layout)7};
    assert_int_equal(glyd_save_pack(r.model, r.save, &options, NULL, &err), GLYD_E_ARG);
    options = (glyd_save_options){.n_threads = -1};
    assert_int_equal(glyd_save_pack(r.model, r.save, &options, NULL, &err), GLYD_E_ARG);
    assert_ok(glyd_save_pack(r.model, r.save, NULL, NULL, NULL));
    assert_ok(glyd_save_verify(r.save, NULL, NULL, NULL));
    assert_int_equal(glyd_save_pack(r.model, r.save, NULL, NULL, &err), GLYD_E_EXISTS);
    assert_ok(glyd_save_unpack(r.save, r.back, NULL, NULL, NULL));
    room_close(&r);
}

/* Any change of a byte of the manifest, and any cut, is found by parsing it alone. */
static void test_manifest(void **state)
{
    (void)state;
    room r;
    room_open(&r);
    assert_ok(glyd_save_pack(r.model, r.save, NULL, NULL, NULL));
    char path[GLYD_PATH_BYTES];
    assert_ok(glyd_fs_join(path, r.save, GLYD_MANIFEST_FILE, NULL));
    glyd_buf text = {0};
    assert_ok(glyd_file_read(path, 1 << 20, &text, NULL));
    glyd_manifest *manifest;
    assert_ok(glyd_manifest_parse((glyd_span){text.data, text.bytes}, &manifest, NULL));
    assert_int_equal(manifest->n_shards, 1);
    assert_int_equal(manifest->n_weights, 1);
    glyd_manifest_free(manifest);
    for (size_t i = 0; i < text.bytes; i += i < text.bytes - 100 ? 37 : 1) {
        text.data[i] ^= 4;
        assert_int_not_equal(
            glyd_manifest_parse((glyd_span){text.data, text.bytes}, &manifest, NULL), GLYD_OK);
        text.data[i] ^= 4;
        assert_int_not_equal(glyd_manifest_parse((glyd_span){text.data, i}, &manifest, NULL),
                             GLYD_OK);
        assert_null(manifest);
    }
    glyd_buf_free(&text);
    room_close(&r);
}

static void test_crc32c(void **state)
{
    (void)state;
    assert_int_equal(glyd_crc32c("123456789", 9), 0xe3069283); /* the standard's check value */
    assert_int_equal(glyd_crc32c("", 0), 0);
    uint8_t bytes[257];
    uint64_t seed = 42;
    for (size_t n = 1; n <= sizeof bytes; n += 64) {
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)test_random(&seed);
        uint32_t want = glyd_crc32c(bytes, n);
        for (int64_t bit = 0; bit < (int64_t)n * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_equal(glyd_crc32c_flipped_bit(want, glyd_crc32c(bytes, n), n), bit);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        if (n > 8) {
            bytes[0] ^= 1;
            bytes[n - 1] ^= 1;
            assert_int_equal(glyd_crc32c_flipped_bit(want, glyd_crc32c(bytes, n), n), -1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_options),  cmocka_unit_test(test_manifest),
        cmocka_unit_test(test_crc32c),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
