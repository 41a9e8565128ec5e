/* test_tokenizer.c - what the oracle tests do not reach: refusals, limits, hostile input, broken
 * UTF-8 in streams, and time that grows with the text and not with its square.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "test.h"
#include "text/regex.h"
#include "text/text.h"
#include "text/unicode.h"
#include <stdbool.h>

#define MODEL_PLAIN                                                                                \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3,"              \
    "\"\xc3\xa2\":4,\"\xc4\xa4\":5,\"\xc2\xac\":6},\"merges\":[\"a b\"]}"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define ADDED      "\"added_tokens\":[{\"id\":7,\"content\":\"<s>\",\"special\":true}]"
#define WHOLE                                                                                      \
    "{" ADDED ",\"pre_tokenizer\":" BYTE_LEVEL ",\"decoder\":" BYTE_LEVEL "," MODEL_PLAIN "}"

static glyd_status parse(const char *json, glyd_tokenizer **tokenizer, glyd_error *err)
{
    return glyd_tokenizer_parse((glyd_span){(const uint8_t *)json, strlen(json)}, tokenizer, err);
}

static glyd_tokenizer *opened(const char *json)
{
    glyd_tokenizer *tokenizer = NULL;
    glyd_error err = {0};
    if (parse(json, &tokenizer, &err) != GLYD_OK)
        fail_msg("%s", err.text);
    return tokenizer;
}

static void expect_ids(const glyd_tokenizer *tokenizer, const char *text, unsigned flags,
                       const int32_t *want, size_t n)
{
    glyd_ids ids = {0};
    assert_ok(glyd_tokenizer_encode(tokenizer, text, strlen(text), flags, &ids, NULL));
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.data, want, n * sizeof *want);
    glyd_ids_free(&ids);
}

static void test_encodes_and_tells(void **state)
{
    (void)state;
    glyd_tokenizer *tokenizer = opened(WHOLE);
    expect_ids(tokenizer, "ab ab<s>a", GLYD_ENCODE_PARSE_SPECIAL, (const int32_t[]){2, 3, 2, 7, 0},
               5);
    expect_ids(tokenizer, "<s>a", 0, (const int32_t[]){0}, 1); /* what is unknown is dropped */
    assert_int_equal(glyd_tokenizer_vocab_size(tokenizer), 8);
    assert_int_equal(glyd_tokenizer_id(tokenizer, "<s>"), 7);
    assert_int_equal(glyd_tokenizer_id(tokenizer, "<t>"), -1);
    assert_true(glyd_tokenizer_is_special(tokenizer, 7));
    assert_false(glyd_tokenizer_is_special(tokenizer, 2));
    assert_false(glyd_tokenizer_is_special(tokenizer, -5));
    assert_int_equal(glyd_tokenizer_token(tokenizer, 2).bytes, 2);
    assert_null(glyd_tokenizer_token(tokenizer, 8).data);
    glyd_tokenizer_close(tokenizer);
}

static void test_streams_whole_characters(void **state)
{
    (void)state;
    glyd_tokenizer *tokenizer = opened(WHOLE);
    glyd_detok *detok;
    glyd_buf text = {0};
    const int32_t euro[] = {4, 5, 6}; /* the three bytes of U+20AC */
    assert_ok(glyd_detok_create(tokenizer, GLYD_DECODE_SKIP_SPECIAL, &detok, NULL));
    for (int again = 0; again < 2; again++) {
        text.bytes = 0;
        assert_ok(glyd_detok_push(detok, euro[0], &text, NULL));
        assert_ok(glyd_detok_push(detok, 7, &text, NULL));
        assert_ok(glyd_detok_push(detok, euro[1], &text, NULL));
        assert_int_equal(text.bytes, 0);
        assert_ok(glyd_detok_push(detok, euro[2], &text, NULL));
        assert_int_equal(text.bytes, 3);
        assert_memory_equal(text.data, "\xe2\x82\xac", 3);
        assert_ok(glyd_detok_push(detok, euro[0], &text, NULL));
        assert_ok(glyd_detok_push(detok, 0, &text, NULL));
        assert_memory_equal(text.data + 3,
                            "\xef\xbf\xbd"
                            "a",
                            4);
        assert_ok(glyd_detok_push(detok, euro[0], &text, NULL));
        assert_int_equal(text.bytes, 7);
        assert_ok(glyd_detok_finish(detok, &text, NULL));
        assert_int_equal(text.bytes, 10);
    }
    glyd_detok_free(detok);
    glyd_buf_free(&text);
    glyd_tokenizer_close(tokenizer);
}

static void test_refuses_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        glyd_status status;
        const char *says;
    } cases[] = {
        {"[]", GLYD_E_FORMAT, "object"},
        {"{", GLYD_E_FORMAT, "line 1"},
        {"{}", GLYD_E_FORMAT, "\"model\""},
        {"{\"model\":{\"type\":\"Unigram\"}}", GLYD_E_UNSUPPORTED, "Unigram"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}",
         GLYD_E_UNSUPPORTED, "dropout"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}",
         GLYD_E_UNSUPPORTED, "end_of_word_suffix"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", GLYD_E_FORMAT, "merge 0"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", GLYD_E_FORMAT, "not a pair"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\",1]]}}", GLYD_E_FORMAT, "not a pair"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", GLYD_E_FORMAT, "another token"},
        {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", GLYD_E_FORMAT, "-1"},
        {"{\"model\":{\"vocab\":{\"a\":2000000000},\"merges\":[]}}", GLYD_E_FORMAT, "2000000000"},
        {"{\"model\":{\"vocab\":{\"a\":0.5},\"merges\":[]}}", GLYD_E_FORMAT, "not an integer"},
        {"{\"model\":{\"vocab\":[],\"merges\":[]}}", GLYD_E_FORMAT, "vocab"},
        {"{\"normalizer\":{\"type\":\"Lowercase\"}," MODEL_PLAIN "}", GLYD_E_UNSUPPORTED,
         "normalizer: type Lowercase"},
        {"{\"pre_tokenizer\":{\"type\":\"Punctuation\"}," MODEL_PLAIN "}", GLYD_E_UNSUPPORTED,
         "pre_tokenizer: type Punctuation"},
        {"{\"post_processor\":{\"type\":\"BertProcessing\"}," MODEL_PLAIN "}", GLYD_E_UNSUPPORTED,
         "post_processor: type BertProcessing"},
        {"{\"decoder\":{\"type\":\"WordPiece\"}," MODEL_PLAIN "}", GLYD_E_UNSUPPORTED,
         "decoder: type WordPiece"},
        {"{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
         "{\"type\":\"ByteFallback\"}]}," MODEL_PLAIN "}",
         GLYD_E_UNSUPPORTED, "ByteFallback after Fuse"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},"
         "\"behavior\":\"Isolated\"}," MODEL_PLAIN "}",
         GLYD_E_UNSUPPORTED, "intersection of classes (&&)"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},"
         "\"behavior\":\"Isolated\"}," MODEL_PLAIN "}",
         GLYD_E_UNSUPPORTED, "empty pattern"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
         "\"behavior\":\"Odd\"}," MODEL_PLAIN "}",
         GLYD_E_UNSUPPORTED, "Odd"},
        {"{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\"}]," MODEL_PLAIN "}", GLYD_E_UNSUPPORTED,
         "id 9 in the file but 7"},
        {"{\"added_tokens\":[{\"id\":0,\"content\":\"a\"},{\"id\":0,\"content\":\"a\"}]"
         "," MODEL_PLAIN "}",
         GLYD_E_FORMAT, "twice"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
         "{\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[99]}}}," MODEL_PLAIN "}",
         GLYD_E_FORMAT, "not in the vocabulary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        glyd_tokenizer *tokenizer;
        glyd_error err = {0};
        assert_int_equal(parse(cases[i].json, &tokenizer, &err), cases[i].status);
        if (!strstr(err.text, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].says);
    }
}

static void test_opens_a_folder(void **state)
{
    (void)state;
    glyd_tokenizer *tokenizer;
    glyd_error err = {0};
    assert_int_equal(glyd_tokenizer_open("tests/unit/no-such-folder", &tokenizer, &err),
                     GLYD_E_NOTFOUND);
    assert_non_null(strstr(err.text, "no-such-folder has no tokenizer.json"));
}

/* A text of n times one letter, in pieces of any length, takes n log n steps: a million letters in
 * one piece are done at once, where n * n would take hours. */
static void test_long_pieces(void **state)
{
    (void)state;
    enum { N = 1000 * 1000 };
    glyd_tokenizer *tokenizer = opened("{\"model\":{\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2},"
                                       "\"merges\":[\"a a\",\"aa aa\"]}}");
    char *text = malloc(N);
    glyd_ids ids = {0};
    assert_non_null(text);
    memset(text, 'a', N);
    assert_ok(glyd_tokenizer_encode(tokenizer, text, N, 0, &ids, NULL));
    assert_int_equal(ids.n, N / 4);
    for (size_t i = 0; i < ids.n; i++)
        assert_int_equal(ids.data[i], 2);
    glyd_ids_free(&ids);
    free(text);
    glyd_tokenizer_close(tokenizer);
}

/* A pattern made to backtrack for ever ends with an error. */
static void test_hostile_pattern(void **state)
{
    (void)state;
    glyd_tokenizer *tokenizer =
        opened("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a+)+[bc]\"},"
               "\"behavior\":\"Isolated\"}," MODEL_PLAIN "}");
    char text[4096];
    glyd_ids ids = {0};
    glyd_error err = {0};
    memset(text, 'a', sizeof text);
    assert_int_equal(glyd_tokenizer_encode(tokenizer, text, sizeof text, 0, &ids, &err),
                     GLYD_E_LIMIT);
    assert_non_null(strstr(err.text, "too many steps"));
    assert_int_equal(ids.n, 0);
    glyd_ids_free(&ids);
    glyd_tokenizer_close(tokenizer);
}

static void test_breaks_utf8_as_python_does(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int n_replaced;
    } cases[] = {
        {"\xff", 1},         {"\xc3", 1},         {"\xe2\x82", 1},     {"\xf0\x9f\x98", 1},
        {"\xed\xa0\x80", 3}, {"\xc0\x80", 2},     {"\xe0\x80\x80", 3}, {"\xf4\x90\x80\x80", 4},
        {"\x80\x80", 2},     {"\xf0\x9f\xc3", 2}, {"\xe2\xe2\x82", 2}, {"\xf0\x80\x80\x80", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        glyd_buf out = {0};
        const uint8_t *bytes = (const uint8_t *)cases[i].bytes;
        assert_ok(glyd_utf8_append_clean(&out, bytes, strlen(cases[i].bytes)));
        assert_int_equal(out.bytes, 3 * cases[i].n_replaced);
        for (size_t at = 0; at < out.bytes; at += 3)
            assert_memory_equal(out.data + at, "\xef\xbf\xbd", 3);
        glyd_buf_free(&out);
    }
    for (uint32_t point = 0; point < 0x110000; point++) {
        char text[4];
        uint32_t back = UINT32_MAX;
        int n = glyd_utf8_encode(point, text);
        bool is_scalar = point < 0xd800 || point >= 0xe000;
        assert_int_equal(glyd_utf8_decode((const uint8_t *)text, (size_t)n, &back),
                         is_scalar ? n : 0);
        assert_true(!is_scalar || back == point);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encodes_and_tells),
        cmocka_unit_test(test_streams_whole_characters),
        cmocka_unit_test(test_refuses_by_name),
        cmocka_unit_test(test_opens_a_folder),
        cmocka_unit_test(test_long_pieces),
        cmocka_unit_test(test_hostile_pattern),
        cmocka_unit_test(test_breaks_utf8_as_python_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
