/* test_template.c - limits, hostile templates, error lines, and where a folder keeps its template.
 *
 * That the results are Jinja's is tested against jinja2 in tests/text/test_templates.py.
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "test.h"
#include "text/template.h"
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

static const char hello[] = "[{\"role\": \"user\", \"content\": \"Hello\"}]";

typedef struct result {
    glyd_status status;
    char text[4096]; /* of the output, or of the error */
} result;

static result render_with(const char *text, size_t bytes, const glyd_template_input *base,
                          const glyd_template_limits *limits)
{
    result r = {0};
    glyd_error err = {0};
    glyd_buf out = {0};
    glyd_template *tmpl = NULL;
    glyd_template_input in = *base;
    json_t *messages = in.messages ? NULL : json_loads(hello, 0, NULL);
    if (messages)
        in.messages = messages;
    r.status = glyd_template_compile((glyd_span){(const uint8_t *)text, bytes}, &tmpl, &err);
    if (r.status == GLYD_OK)
        r.status = glyd_template_render(tmpl, &in, limits, &out, &err);
    if (r.status == GLYD_OK && out.bytes && out.bytes < sizeof r.text)
        memcpy(r.text, out.data, out.bytes);
    else if (r.status != GLYD_OK)
        snprintf(r.text, sizeof r.text, "%s", err.text);
    if (r.status != GLYD_OK) {
        assert_int_equal(out.bytes, 0);
        assert_int_equal(err.status, r.status);
    }
    glyd_template_free(tmpl);
    glyd_buf_free(&out);
    json_decref(messages);
    return r;
}

static result render(const char *text, const glyd_template_limits *limits)
{
    return render_with(text, strlen(text), &(glyd_template_input){0}, limits);
}

static void expect(const char *text, const char *wanted)
{
    result r = render(text, NULL);
    assert_int_equal(r.status, GLYD_OK);
    assert_string_equal(r.text, wanted);
}

static void expect_error(const char *text, glyd_status status, const char *part)
{
    result r = render(text, NULL);
    assert_int_equal(r.status, status);
    if (!strstr(r.text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, r.text);
}

static void test_renders(void **state)
{
    (void)state;
    expect("{% for m in messages %}<{{ m.role }}>{{ m['content'] }}{% endfor %}", "<user>Hello");
    expect("", "");
    expect("\n", "");
    expect("{{ tools is none }}{{ add_generation_prompt }}{{ x is defined }}", "TrueFalseFalse");
}

static void test_errors_have_lines(void **state)
{
    (void)state;
    expect_error("one\ntwo\n{{ nosuch.thing }}", GLYD_E_FORMAT, "line 3: 'nosuch' is undefined");
    expect_error("{% if true %}\n\n{{ 1 + 'a' }}{% endif %}", GLYD_E_FORMAT, "line 3: ");
    expect_error("a\n{% for x in %}", GLYD_E_FORMAT, "line 2: expected an expression");
    expect_error("a\n{% if x %}\n", GLYD_E_FORMAT, "'if' is still open");
    expect_error("\n\n{% nosuch %}", GLYD_E_FORMAT, "line 3: Encountered unknown tag 'nosuch'");
    expect_error("{#\n\n", GLYD_E_FORMAT, "a comment is not closed");
    expect_error("{% raw %}\n", GLYD_E_FORMAT, "a raw block is not closed");
    expect_error("{{ 'a\n", GLYD_E_FORMAT, "a string is not closed");
    expect_error("{{ 99999999999999999999 }}", GLYD_E_FORMAT, "beyond 64 bits");
    expect_error("{{ 9223372036854775807 + 1 }}", GLYD_E_LIMIT, "64 bits");
    expect_error("{% break %}", GLYD_E_FORMAT, "'break' outside a loop");
    expect_error("{% for i in [1] %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
                 GLYD_E_FORMAT, "'continue' outside a loop");
}

static void test_refuses_by_name(void **state)
{
    (void)state;
    expect_error("\n{% include 'x' %}", GLYD_E_UNSUPPORTED, "line 2: the tag 'include'");
    expect_error("{% block x %}{% endblock %}", GLYD_E_UNSUPPORTED, "'block'");
    expect_error("{{ 'x'|urlize }}", GLYD_E_UNSUPPORTED, "the filter 'urlize'");
    expect_error("{{ 'x'|nosuch }}", GLYD_E_FORMAT, "No filter named 'nosuch'");
    expect_error("{{ 'x' is nosuch }}", GLYD_E_FORMAT, "No test named 'nosuch'");
    expect_error("{{ 'x'.encode() }}", GLYD_E_UNSUPPORTED, "str.encode()");
    expect_error("{{ self }}", GLYD_E_UNSUPPORTED, "the name 'self'");
    expect_error("{{ strftime_now('%Y') }}", GLYD_E_ARG, "asks for the date");
    expect_error("{{ [].append(1) }}", GLYD_E_FORMAT,
                 "access to attribute 'append' of 'list' object is unsafe.");
}

static void test_raised_message_is_the_text(void **state)
{
    (void)state;
    result r =
        render("\n{{ raise_exception('Only user turns, please: ' ~ messages|length) }}", NULL);
    assert_int_equal(r.status, GLYD_E_ARG);
    assert_string_equal(r.text, "Only user turns, please: 1");
    /* A message too long for an error is cut between characters. */
    r = render("{{ raise_exception('\u00e9' * 400) }}", NULL);
    assert_int_equal(r.status, GLYD_E_ARG);
    assert_int_equal(strlen(r.text) % 2, 0);
    assert_in_range(strlen(r.text), 400, GLYD_ERROR_TEXT_BYTES - 1);
}

static void expect_limit(const char *text, const glyd_template_limits *limits, const char *part)
{
    result r = render(text, limits);
    assert_int_equal(r.status, GLYD_E_LIMIT);
    if (!strstr(r.text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, r.text);
}

static void test_limits(void **state)
{
    (void)state;
    static const char endless[] =
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    expect_limit(endless, NULL, "limit of 20000000 steps");
    expect_limit("{{ 1 + 1 }}{{ 1 + 1 }}", &(glyd_template_limits){.steps = 5}, "limit of 5 steps");
    expect_limit("{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}", NULL,
                 "limit of 1000 levels");
    expect_limit("{{ 'x' * 101 }}", &(glyd_template_limits){.output_bytes = 100},
                 "limit of 100 bytes of output");
    expect_limit("{{ 'x' * 99999999999 }}", NULL, "bytes of memory");
    expect_limit("{{ [0] * 99999999999 }}", NULL, "bytes of memory");
    expect_limit("{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}"
                 "{% endfor %}",
                 NULL, "bytes of memory");
    /* Small to write, exponential to walk. */
    static const char shared[] = "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(60) %}"
                                 "{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}";
    char text[512];
    snprintf(text, sizeof text, "%s{{ n.a == n.b }}", shared);
    expect_limit(text, NULL, "steps");
    snprintf(text, sizeof text, "%s{{ n.a | tojson | length }}", shared);
    expect_limit(text, &(glyd_template_limits){.memory_bytes = 1 << 20}, "bytes of memory");
    result r = render("{{ 'x' * 100 }}", &(glyd_template_limits){.output_bytes = 100});
    assert_int_equal(r.status, GLYD_OK);
}

/* `open` n times, `middle`, `close` n times. */
static result render_nested(const char *open, const char *middle, const char *close, size_t n)
{
    size_t a = strlen(open), b = strlen(middle), c = strlen(close);
    char *text = malloc(n * (a + c) + b + 1), *at = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++, at += a)
        memcpy(at, open, a);
    memcpy(at, middle, b);
    at += b;
    for (size_t i = 0; i < n; i++, at += c)
        memcpy(at, close, c);
    result r = render_with(text, (size_t)(at - text), &(glyd_template_input){0}, NULL);
    free(text);
    return r;
}

static void test_hostile_nesting(void **state)
{
    (void)state;
    static const struct {
        const char *open, *middle, *close;
    } cases[] = {
        {"{% if 1 %}", "x", "{% endif %}"},
        {"{% for a in [1] %}", "x", "{% endfor %}"},
        {"{% macro m() %}", "x", "{% endmacro %}"},
        {"{{ ", "1", ""},
        {"", "{{ 1", " + 1"},
        {"", "{{ x", ".y"},
        {"", "{{ x", "|upper"},
        {"", "{{ 1", " if 1 else 2"},
        {"", "{{ x", " is defined"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        result r = render_nested(cases[i].open, cases[i].middle, cases[i].close, 40000);
        assert_int_not_equal(r.status, GLYD_OK);
    }
    /* Inside one tag, closed properly. `not` needs no depth. */
    static const char *const pairs[][2] = {{"(", ")"},   {"[", "]"},  {"-", ""},
                                           {"{1:", "}"}, {"f(", ")"}, {"not ", ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        glyd_buf text = {0};
        assert_ok(glyd_buf_print(&text, "{{ "));
        for (int n = 0; n < 200; n++)
            assert_ok(glyd_buf_print(&text, "%s", pairs[i][0]));
        assert_ok(glyd_buf_print(&text, "1"));
        for (int n = 0; n < 200; n++)
            assert_ok(glyd_buf_print(&text, "%s", pairs[i][1]));
        assert_ok(glyd_buf_print(&text, " }}"));
        result r = render(glyd_buf_text(&text), NULL);
        assert_int_equal(r.status, i == 5 ? GLYD_OK : GLYD_E_LIMIT);
        assert_true(i != 5 || strcmp(r.text, "True") == 0);
        glyd_buf_free(&text);
    }
}

/* Every allocation of a render fails in turn: the memory limit grows until none does. */
static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    static const char text[] =
        "{% macro m(a, b=[1, 2], c={'k': 1.5}) %}{{ caller(a) }}{{ kwargs }}{% endmacro %}"
        "{% for x in messages|selectattr('role', 'eq', 'user')|sort(attribute='content') %}"
        "{% call(y) m(x.role|upper, z='w') %}{{ y ~ loop.index }}{% endcall %}"
        "{{ x|tojson(indent=2) }}{{ 'a,b'.split(',')[::-1] }}{{ '%s'|format(x)|replace('u', 'v') }}"
        "{% set s | trim %} {{ [x, (1,)]|string|indent }} {% endset %}{{ s }}{{ y is defined }}"
        "{% endfor %}";
    int failed = 0;
    for (size_t bytes = 16;; bytes += 16) {
        result r = render(text, &(glyd_template_limits){.memory_bytes = bytes});
        if (r.status == GLYD_OK)
            break;
        assert_int_equal(r.status, GLYD_E_LIMIT);
        assert_non_null(strstr(r.text, "bytes of memory"));
        failed++;
    }
    assert_in_range(failed, 100, 100000);
}

static void test_deep_input(void **state)
{
    (void)state;
    json_t *inner = json_array();
    for (int i = 0; i < 1500; i++) {
        json_t *outer = json_array();
        json_array_append_new(outer, inner);
        inner = outer;
    }
    result r = render_with("{{ messages }}", 14, &(glyd_template_input){.messages = inner}, NULL);
    assert_int_equal(r.status, GLYD_E_LIMIT);
    assert_non_null(strstr(r.text, "1000 levels of nesting"));
    json_decref(inner);
}

static void test_bad_input(void **state)
{
    (void)state;
    json_t *object = json_object();
    json_t *taken = json_pack("{s:i}", "messages", 1);
    result r = render_with("x", 1, &(glyd_template_input){.messages = object}, NULL);
    assert_int_equal(r.status, GLYD_E_ARG);
    r = render_with("x", 1, &(glyd_template_input){.extra = taken}, NULL);
    assert_int_equal(r.status, GLYD_E_ARG);
    assert_non_null(strstr(r.text, "\"messages\""));
    r = render_with("\xff\xfe", 2, &(glyd_template_input){0}, NULL);
    assert_int_equal(r.status, GLYD_E_FORMAT);
    assert_non_null(strstr(r.text, "not UTF-8"));
    json_decref(object);
    json_decref(taken);
    static char large[GLYD_TEMPLATE_BYTES_MAX + 1];
    memset(large, 'x', sizeof large);
    r = render_with(large, sizeof large, &(glyd_template_input){0}, NULL);
    assert_int_equal(r.status, GLYD_E_LIMIT);
}

static void test_mentions(void **state)
{
    (void)state;
    static const char text[] = "{% if enable_thinking %}{% endif %}";
    glyd_template *tmpl;
    assert_ok(
        glyd_template_compile((glyd_span){(const uint8_t *)text, sizeof text - 1}, &tmpl, NULL));
    assert_true(glyd_template_mentions(tmpl, "enable_thinking"));
    assert_false(glyd_template_mentions(tmpl, "tools"));
    glyd_template_free(tmpl);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static void expect_found(const char *folder, const char *name, const char *wanted)
{
    glyd_buf text = {0};
    glyd_error err = {0};
    assert_ok(glyd_template_find(folder, name, &text, &err));
    assert_int_equal(text.bytes, strlen(wanted));
    assert_memory_equal(text.data, wanted, text.bytes);
    glyd_buf_free(&text);
}

static void test_find(void **state)
{
    (void)state;
    char folder[] = "/tmp/glyd_template_XXXXXX";
    glyd_buf text = {0};
    glyd_error err = {0};
    assert_non_null(mkdtemp(folder));
    assert_int_equal(glyd_template_find(folder, NULL, &text, &err), GLYD_E_NOTFOUND);
    assert_non_null(strstr(err.text, "has no chat template"));
    write_file(folder, "tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
    assert_int_equal(glyd_template_find(folder, NULL, &text, &err), GLYD_E_NOTFOUND);
    write_file(folder, "tokenizer_config.json", "{\"chat_template\": 5}");
    assert_int_equal(glyd_template_find(folder, NULL, &text, &err), GLYD_E_FORMAT);
    write_file(folder, "tokenizer_config.json", "{\"chat_template\": \"config\"}");
    expect_found(folder, NULL, "config");
    write_file(folder, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"default\", \"template\": \"d\"},"
               "{\"name\": \"tool_use\", \"template\": \"t\"}]}");
    expect_found(folder, NULL, "d");
    expect_found(folder, "tool_use", "t");
    expect_found(folder, "rag", "d");
    write_file(folder, "chat_template.json", "{\"chat_template\": \"json\"}");
    expect_found(folder, NULL, "json");
    write_file(folder, "chat_template.jinja", "jinja");
    expect_found(folder, NULL, "jinja");
    remove_file(folder, "chat_template.jinja");
    remove_file(folder, "chat_template.json");
    remove_file(folder, "tokenizer_config.json");
    rmdir(folder);
    glyd_buf_free(&text);
}

/* Numbers read and print with a point whatever the program's locale says. */
static void test_locale_does_not_matter(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "C"};
    const char *set = NULL;
    for (size_t i = 0; !set && i < sizeof names / sizeof *names; i++)
        set = setlocale(LC_ALL, names[i]);
    expect("{{ 1.5 + '2.25'|float }} {{ 0.1 }} {{ 2.345|round(1) }} {{ '%.1f' % 2.5 }}",
           "3.75 0.1 2.3 2.5");
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_renders),
        cmocka_unit_test(test_errors_have_lines),
        cmocka_unit_test(test_refuses_by_name),
        cmocka_unit_test(test_raised_message_is_the_text),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_hostile_nesting),
        cmocka_unit_test(test_each_allocation_may_fail),
        cmocka_unit_test(test_deep_input),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_mentions),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
