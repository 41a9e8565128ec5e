/* test_save_fault.c - allocations of pack, verify, unpack and open made to fail: said so, nothing
 * leaks, and nothing is left on the disk.
 *
 * failing_malloc.h has how; under sanitizers this test has nothing to test.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "failing_malloc.h"
#include "tiny_model.h"

#include "glyd/save.h"
#include "model/model.h"
#include <openssl/crypto.h>

static bool json_failed, crypto_failed; /* the one that failed was that library's */

/* jansson calls a failed allocation a syntax error, or loses a character of a string: its failures
 * must end a call, with whatever status. */
static void *json_allocate(size_t bytes)
{
    long failed = n_failed;
    void *block = malloc(bytes);
    json_failed = json_failed || n_failed > failed;
    return block;
}

/* libcrypto keeps some blocks for good when another fails: they are not counted. */
static void *crypto_malloc(size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    long failed = n_failed;
    void *block = malloc(bytes);
    crypto_failed = crypto_failed || n_failed > failed;
    n_live -= block != NULL;
    return block;
}

static void *crypto_realloc(void *block, size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    bool is_new = block == NULL;
    long failed = n_failed;
    block = realloc(block, bytes);
    crypto_failed = crypto_failed || n_failed > failed;
    n_live -= is_new && block != NULL;
    return block;
}

static void crypto_free(void *block, const char *file, int line)
{
    (void)file, (void)line;
    n_live += block != NULL;
    free(block);
}

/* The first allocations one by one, then fewer and fewer: a pack makes thousands. */
static long next_try(long at)
{
    return at + 1 + at / 64;
}

typedef struct room {
    char folder[64];
    char model[GLYD_PATH_BYTES], save[GLYD_PATH_BYTES], back[GLYD_PATH_BYTES];
} room;

static glyd_status do_pack(const room *r, glyd_error *err)
{
    const glyd_save_options options = {.n_threads = 1};
    return glyd_save_pack(r->model, r->save, &options, NULL, err);
}

static glyd_status do_verify(const room *r, glyd_error *err)
{
    const glyd_save_options options = {.n_threads = 1};
    return glyd_save_verify(r->save, &options, NULL, err);
}

static glyd_status do_unpack(const room *r, glyd_error *err)
{
    const glyd_save_options options = {.n_threads = 1};
    return glyd_save_unpack(r->save, r->back, &options, NULL, err);
}

static glyd_status do_open(const room *r, glyd_error *err)
{
    glyd_model *model;
    glyd_status status = glyd_model_open(r->save, &model, err);
    if (status == GLYD_OK)
        glyd_model_close(model);
    return status;
}

static size_t count_names(const char *folder)
{
    glyd_fs_names names;
    assert_ok(glyd_fs_list(folder, &names, NULL));
    size_t n = names.n;
    glyd_fs_names_free(&names);
    return n;
}

static void check_faults(const room *r, glyd_status (*call)(const room *r, glyd_error *err),
                         const char *made)
{
    size_t n_names = count_names(r->folder);
    long n_tries = 0;
    glyd_status status = GLYD_E_NOMEM;
    for (long at = 0; status != GLYD_OK; at = next_try(at)) {
        glyd_error err = {GLYD_OK, ""};
        long live = n_live;
        n_failed = 0;
        json_failed = crypto_failed = false;
        fail_at = at;
        status = call(r, &err);
        fail_at = -1;
        assert_int_equal(n_live, live);
        if (n_failed == 0)
            break;
        n_tries++;
        if (status == GLYD_OK) { /* a library did without */
            assert_true(json_failed || crypto_failed);
            glyd_fs_remove_folder(made);
            status = GLYD_E_NOMEM;
            continue;
        }
        assert_int_equal(err.status, status);
        assert_true(err.text[0] != 0);
        if (!json_failed)
            assert_int_equal(status, GLYD_E_NOMEM);
        assert_int_equal(count_names(r->folder), n_names);
    }
    assert_int_equal(status, GLYD_OK);
    assert_true(n_tries > 60);
}

static void test_failed_allocations(void **state)
{
    (void)state;
    if (!OWN_MALLOC)
        skip();
    assert_int_equal(CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free), 1);
    json_set_alloc_funcs(json_allocate, free);
    room r;
    tiny_room(r.folder);
    assert_ok(glyd_fs_join(r.model, r.folder, "model", NULL));
    assert_ok(glyd_fs_join(r.save, r.folder, "save", NULL));
    assert_ok(glyd_fs_join(r.back, r.folder, "back", NULL));
    tiny_write(r.model, TINY_CONFIG("qwen2", ", \"tie_word_embeddings\": true"));
    /* Once without a fault, so that what libraries keep for good is there. */
    assert_ok(do_pack(&r, NULL));
    assert_ok(do_verify(&r, NULL));
    glyd_fs_remove_folder(r.save);

    check_faults(&r, do_pack, r.save);
    check_faults(&r, do_verify, "");
    check_faults(&r, do_open, "");
    check_faults(&r, do_unpack, r.back);
    glyd_fs_remove_folder(r.model);
    glyd_fs_remove_folder(r.save);
    glyd_fs_remove_folder(r.back);
    assert_int_equal(rmdir(r.folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failed_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
