/* test_safetensors.c - every rule of the safetensors format, kept and broken.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/map.h"
#include "save/safetensors.h"
#include "save/writer.h"
#include <unistd.h>

#define TENSOR(name, dtype, shape, begin, end)                                                     \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
    "]}"

/* A file of this header and this many bytes of data. */
static void make_file(glyd_buf *file, const char *header, size_t data_bytes)
{
    static const uint8_t zeros[64];
    uint64_t n = strlen(header);
    file->bytes = 0;
    assert_ok(glyd_buf_append(file, &n, sizeof n));
    assert_ok(glyd_buf_append(file, header, n));
    assert_ok(glyd_buf_append(file, zeros, data_bytes));
}

static glyd_status parse(const glyd_buf *file, glyd_safetensors *st, glyd_error *err)
{
    return glyd_safetensors_parse((glyd_span){file->data, file->bytes}, "x", st, err);
}

static void test_reads(void **state)
{
    (void)state;
    glyd_buf file = {0};
    glyd_safetensors st;
    make_file(
        &file,
        "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("b", "BF16", "[2,3]", 4, 16) "," TENSOR(
            "a", "F32", "[]", 0, 4) "," TENSOR("empty", "I64", "[0,5]", 16, 16) "}   ",
        16);
    assert_ok(parse(&file, &st, NULL));
    assert_int_equal(st.n_tensors, 3);
    assert_string_equal(st.tensor[0].name, "a");
    assert_string_equal(st.tensor[1].name, "b");
    assert_int_equal(st.tensor[1].dtype, GLYD_DTYPE_BF16);
    assert_int_equal(st.tensor[1].shape.n_dims, 2);
    assert_int_equal(st.tensor[1].shape.dim[1], 3);
    assert_int_equal(st.data.bytes, 16);
    assert_ptr_equal(glyd_safetensors_find(&st, "b"), &st.tensor[1]);
    assert_null(glyd_safetensors_find(&st, "c"));
    assert_string_equal(json_string_value(json_object_get(st.metadata, "format")), "pt");
    glyd_safetensors_free(&st);
    make_file(&file, "{}", 0);
    assert_ok(parse(&file, &st, NULL));
    assert_int_equal(st.n_tensors, 0);
    assert_null(glyd_safetensors_find(&st, "b"));
    glyd_safetensors_free(&st);
    glyd_buf_free(&file);
}

typedef struct bad_header {
    const char *header, *text;
} bad_header;

static void test_refuses(void **state)
{
    (void)state;
    static const bad_header cases[] = {
        {"", "not a JSON object"},
        {" {}", "not a JSON object"},
        {"[]", "not a JSON object"},
        {"{", "line 1"},
        {"{}{}", "line 1"},
        {"{\"a\":1}", "is not an object"},
        {"{" TENSOR("a", "F32", "[2]", 0, 8) "," TENSOR("a", "F32", "[2]", 8, 16) "}", "duplicate"},
        {"{" TENSOR("a", "F32", "[2]", 0, 8) "," TENSOR("b", "F32", "[2]", 4, 12) "}", "overlaps"},
        {"{" TENSOR("a", "F32", "[2]", 0, 8) "," TENSOR("b", "F32", "[2]", 0, 8) "}", "overlaps"},
        {"{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("b", "F32", "[2]", 8, 16) "}",
         "4 bytes before tensor b"},
        {"{" TENSOR("a", "F32", "[2]", 8, 16) "}", "8 bytes before tensor a"},
        {"{" TENSOR("a", "F32", "[2]", 0, 8) "}", "8 bytes after the last tensor"},
        {"{" TENSOR("a", "F32", "[5]", 0, 20) "}", "cut short"},
        {"{" TENSOR("a", "F32", "[4]", 16, 0) "}", "ends before it begins"},
        {"{" TENSOR("a", "F32", "[4]", -4, 12) "}", "no two data_offsets"},
        {"{" TENSOR("a", "F32", "[3]", 0, 16) "}", "takes 12 bytes"},
        {"{" TENSOR("a", "XYZ", "[4]", 0, 16) "}", "unknown dtype XYZ"},
        {"{" TENSOR("a", "F32", "4", 0, 16) "}", "has no shape"},
        {"{" TENSOR("a", "F32", "[4.0]", 0, 16) "}", "not a whole number"},
        {"{" TENSOR("a", "F32", "[-4]", 0, 16) "}", "not a whole number"},
        {"{" TENSOR("a", "F32", "[9223372036854775807,9]", 0, 16) "}", "64 bits can count"},
        {"{" TENSOR("a", "F4", "[31]", 0, 16) "}", "whole byte"},
        {"{\"__metadata__\":{\"a\":1}," TENSOR("a", "F32", "[4]", 0, 16) "}", "not a string"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", "must have dtype, shape and data_offsets"},
    };
    glyd_buf file = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        glyd_safetensors st;
        glyd_error err = {0};
        make_file(&file, cases[i].header, 16);
        assert_int_not_equal(parse(&file, &st, &err), GLYD_OK);
        if (!strstr(err.text, cases[i].text))
            fail_msg("case %zu says: %s", i, err.text);
        assert_null(st.root);
        assert_null(st.tensor);
    }
    glyd_buf_free(&file);
}

static void test_every_cut_is_refused(void **state)
{
    (void)state;
    glyd_buf file = {0};
    make_file(&file, "{" TENSOR("a", "F32", "[2]", 0, 8) "," TENSOR("b", "U8", "[8]", 8, 16) "}",
              16);
    for (size_t bytes = 0; bytes < file.bytes; bytes++) {
        glyd_safetensors st;
        uint8_t *exact = malloc(bytes + (bytes == 0)); /* so that a read too far is found */
        memcpy(exact, file.data, bytes);
        assert_int_not_equal(glyd_safetensors_parse((glyd_span){exact, bytes}, "x", &st, NULL),
                             GLYD_OK);
        free(exact);
    }
    glyd_buf_free(&file);
}

static void test_dtypes(void **state)
{
    (void)state;
    for (int i = 0; i < GLYD_DTYPES; i++) {
        glyd_dtype dtype;
        assert_ok(glyd_dtype_from_name(glyd_dtype_name((glyd_dtype)i), &dtype));
        assert_int_equal(dtype, i);
    }
    assert_null(glyd_dtype_name(GLYD_DTYPES));
}

/* Whatever the names, the room that was announced is enough, and what was written is read again. */
static void test_writer(void **state)
{
    (void)state;
    static const char *const names[] = {"plain", "with \"quotes\" \\ and \n\t\x01", "caf\xc3\xa9"};
    char room[] = "/tmp/glyd-test-XXXXXX", path[GLYD_PATH_BYTES], sha256[GLYD_SHA256_HEX_BYTES];
    assert_non_null(mkdtemp(room));
    assert_ok(glyd_fs_join(path, room, "x.safetensors", NULL));
    glyd_writer writer;
    uint64_t room_bytes = 0, bytes;
    for (int i = 0; i < 3; i++) {
        uint64_t entry;
        assert_ok(glyd_writer_entry_bytes(names[i], 1, &entry));
        room_bytes += entry;
    }
    assert_ok(glyd_writer_open(&writer, path, room_bytes, NULL));
    const glyd_shape shape = {.n_dims = 1, .dim = {64}};
    static uint8_t data[3][64];
    for (int i = 0; i < 3; i++) {
        memset(data[i], i + 1, 64);
        assert_ok(glyd_writer_add(&writer, names[i], GLYD_DTYPE_U8, &shape,
                                  (glyd_span){data[i], 64}, NULL));
    }
    assert_int_equal(
        glyd_writer_add(&writer, names[1], GLYD_DTYPE_U8, &shape, (glyd_span){data[0], 64}, NULL),
        GLYD_E_UNSUPPORTED);
    assert_ok(glyd_writer_commit(&writer, &bytes, sha256, NULL));
    glyd_writer_drop(&writer);

    glyd_map map;
    glyd_safetensors st;
    assert_ok(glyd_map_open(path, &map, NULL));
    assert_int_equal(map.span.bytes, bytes);
    assert_ok(glyd_safetensors_parse(map.span, path, &st, NULL));
    assert_int_equal((size_t)(st.data.data - map.span.data) % 64, 0);
    for (int i = 0; i < 3; i++) {
        const glyd_safetensors_entry *e = glyd_safetensors_find(&st, names[i]);
        assert_non_null(e);
        assert_memory_equal(st.data.data + e->begin, data[i], 64);
    }
    glyd_safetensors_free(&st);
    glyd_map_close(&map);
    glyd_fs_remove_folder(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
