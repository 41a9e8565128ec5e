/* template.c - compiling and rendering chat templates: the interpreter's front door.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "text/template.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/map.h"
#include "jinja/run.h"
#include <stdlib.h>
#include <string.h>

enum {
    COMPILE_BYTES_MAX = 256 << 20,
    STEPS_DEFAULT = 20 * 1000 * 1000,
    DEPTH_DEFAULT = 1000,
    OUTPUT_BYTES_DEFAULT = 16 << 20,
    MEMORY_BYTES_DEFAULT = 256 << 20,
    CONFIG_BYTES_MAX = 64 << 20,
};

struct glyd_template {
    jinja_arena arena;
    jinja_names names;
    jinja_nodes body;
};

static glyd_status compile(glyd_template *tmpl, glyd_span text)
{
    char *copy = glyd_jinja_alloc(&tmpl->arena, text.bytes);
    if (!copy)
        return tmpl->arena.status;
    if (text.bytes)
        memcpy(copy, text.data, text.bytes);
    jinja_parser parser = {.arena = &tmpl->arena};
    GLYD_TRY(glyd_jinja_lex(&parser, copy, text.bytes));
    GLYD_TRY(glyd_jinja_parse(&parser, &tmpl->body));
    tmpl->names = parser.names;
    return GLYD_OK;
}

glyd_status glyd_template_compile(glyd_span text, glyd_template **out, glyd_error *err)
{
    if (text.bytes > GLYD_TEMPLATE_BYTES_MAX)
        GLYD_FAIL(err, GLYD_E_LIMIT, "chat template: %zu bytes; at most %d are compiled",
                  text.bytes, GLYD_TEMPLATE_BYTES_MAX);
    if (!glyd_jinja_is_utf8((const char *)text.data, text.bytes))
        GLYD_FAIL(err, GLYD_E_FORMAT, "chat template: not UTF-8");
    glyd_template *tmpl = calloc(1, sizeof *tmpl);
    if (!tmpl)
        GLYD_FAIL(err, GLYD_E_NOMEM, "chat template: out of memory");
    tmpl->arena.bytes_max = COMPILE_BYTES_MAX;
    tmpl->arena.err = err;
    glyd_status status = compile(tmpl, text);
    tmpl->arena.err = NULL;
    if (status != GLYD_OK) {
        glyd_template_free(tmpl);
        return status;
    }
    *out = tmpl;
    return GLYD_OK;
}

void glyd_template_free(glyd_template *tmpl)
{
    if (!tmpl)
        return;
    glyd_jinja_arena_free(&tmpl->arena);
    free(tmpl);
}

static const jinja_string *word(const glyd_template *tmpl, const char *name)
{
    for (size_t i = 0; i < tmpl->names.n; i++) {
        if (glyd_jinja_string_is(tmpl->names.items[i], name))
            return tmpl->names.items[i];
    }
    return NULL;
}

bool glyd_template_mentions(const glyd_template *tmpl, const char *name)
{
    return word(tmpl, name) != NULL;
}

/* --- input --- */

static glyd_status from_json(jinja_run *r, const json_t *json, jinja_value *out);

static glyd_status list_from_json(jinja_run *r, const json_t *json, jinja_value *out)
{
    jinja_list *list = glyd_jinja_list_new(&r->arena, json_array_size(json));
    if (!list)
        return r->arena.status;
    for (size_t i = 0; i < json_array_size(json); i++) {
        jinja_value item;
        GLYD_TRY(from_json(r, json_array_get(json, i), &item));
        GLYD_TRY(glyd_jinja_list_add(&r->arena, list, item));
    }
    *out = jinja_seq(JINJA_LIST, list);
    return GLYD_OK;
}

/* Strings and keys are borrowed from the JSON, which outlives the run. */
static glyd_status dict_from_json(jinja_run *r, const json_t *json, jinja_value *out)
{
    jinja_dict *dict = glyd_jinja_dict_new(&r->arena, json_object_size(json));
    if (!dict)
        return r->arena.status;
    /* jansson's iterators take a json_t that is not const, and leave it alone. */
    json_t *object = (json_t *)(uintptr_t)json;
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        const jinja_string *key = glyd_jinja_string_view(&r->arena, name, strlen(name));
        jinja_value value;
        if (!key)
            return r->arena.status;
        GLYD_TRY(from_json(r, json_object_iter_value(at), &value));
        GLYD_TRY(glyd_jinja_dict_add(&r->arena, dict, jinja_text(key), value));
    }
    *out = (jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    return GLYD_OK;
}

static glyd_status from_json(jinja_run *r, const json_t *json, jinja_value *out)
{
    switch (json_typeof(json)) {
    case JSON_STRING: {
        const jinja_string *s =
            glyd_jinja_string_view(&r->arena, json_string_value(json), json_string_length(json));
        if (!s)
            return r->arena.status;
        *out = jinja_text(s);
        return GLYD_OK;
    }
    case JSON_INTEGER:
        *out = jinja_int(json_integer_value(json));
        return GLYD_OK;
    case JSON_REAL:
        *out = jinja_real(json_real_value(json));
        return GLYD_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = jinja_bool(json_is_true(json));
        return GLYD_OK;
    case JSON_NULL:
        *out = jinja_none();
        return GLYD_OK;
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    GLYD_TRY(glyd_jinja_deeper(r));
    GLYD_TRY(json_is_array(json) ? list_from_json(r, json, out) : dict_from_json(r, json, out));
    r->depth--;
    return GLYD_OK;
}

/* A variable that the template does not mention costs nothing: its name was never interned. */
static glyd_status set_value(jinja_run *r, const glyd_template *tmpl, const char *name,
                             jinja_value value)
{
    const jinja_string *interned = word(tmpl, name);
    return interned ? glyd_jinja_scope_set(r, r->scope, interned, value) : GLYD_OK;
}

static glyd_status set_json(jinja_run *r, const glyd_template *tmpl, const char *name,
                            const json_t *json)
{
    jinja_value value = jinja_none();
    if (!word(tmpl, name))
        return GLYD_OK;
    if (json)
        GLYD_TRY(from_json(r, json, &value));
    return set_value(r, tmpl, name, value);
}

static bool is_reserved(const char *name)
{
    return strcmp(name, "messages") == 0 || strcmp(name, "tools") == 0 ||
           strcmp(name, "documents") == 0 || strcmp(name, "add_generation_prompt") == 0;
}

static glyd_status set_members(jinja_run *r, const glyd_template *tmpl, const json_t *object)
{
    json_t *members = (json_t *)(uintptr_t)object;
    for (void *at = json_object_iter(members); at; at = json_object_iter_next(members, at)) {
        const char *name = json_object_iter_key(at);
        if (is_reserved(name))
            return glyd_error_set(r->arena.err, GLYD_E_ARG,
                                  "chat template: the extra variable \"%s\" would replace the "
                                  "request's own",
                                  name);
        GLYD_TRY(set_json(r, tmpl, name, json_object_iter_value(at)));
    }
    return GLYD_OK;
}

static glyd_status set_input(jinja_run *r, const glyd_template *tmpl,
                             const glyd_template_input *input)
{
    const json_t *tools = json_array_size(input->tools) ? input->tools : NULL;
    r->scope = glyd_jinja_scope_new(r, NULL);
    if (!r->scope)
        return r->arena.status;
    if (input->special_tokens)
        GLYD_TRY(set_members(r, tmpl, input->special_tokens));
    if (input->extra)
        GLYD_TRY(set_members(r, tmpl, input->extra));
    GLYD_TRY(set_json(r, tmpl, "messages", input->messages));
    GLYD_TRY(set_json(r, tmpl, "tools", tools));
    GLYD_TRY(set_json(r, tmpl, "documents", input->documents));
    return set_value(r, tmpl, "add_generation_prompt", jinja_bool(input->add_generation_prompt));
}

static glyd_status check_input(const glyd_template_input *input, glyd_error *err)
{
    if (!json_is_array(input->messages))
        GLYD_FAIL(err, GLYD_E_ARG, "chat template: the messages must be an array");
    if (input->tools && !json_is_array(input->tools) && !json_is_null(input->tools))
        GLYD_FAIL(err, GLYD_E_ARG, "chat template: the tools must be an array");
    if (input->documents && !json_is_array(input->documents) && !json_is_null(input->documents))
        GLYD_FAIL(err, GLYD_E_ARG, "chat template: the documents must be an array");
    if (input->special_tokens && !json_is_object(input->special_tokens))
        GLYD_FAIL(err, GLYD_E_ARG, "chat template: the special tokens must be an object");
    if (input->extra && !json_is_object(input->extra))
        GLYD_FAIL(err, GLYD_E_ARG, "chat template: the extra variables must be an object");
    return GLYD_OK;
}

static jinja_run new_run(const glyd_template *tmpl, const glyd_template_input *input,
                         const glyd_template_limits *limits, glyd_error *err)
{
    jinja_run r = {
        .arena = {.bytes_max =
                      limits && limits->memory_bytes ? limits->memory_bytes : MEMORY_BYTES_DEFAULT,
                  .err = err},
        .word_loop = word(tmpl, "loop"),
        .word_caller = word(tmpl, "caller"),
        .word_varargs = word(tmpl, "varargs"),
        .word_kwargs = word(tmpl, "kwargs"),
        .line = 1,
        .depth_max = limits && limits->depth > 0 ? limits->depth : DEPTH_DEFAULT,
        .steps_max = limits && limits->steps ? limits->steps : STEPS_DEFAULT,
    };
    if (input->now) {
        r.now = *input->now;
        r.has_now =
            r.now.tm_wday >= 0 && r.now.tm_wday < 7 && r.now.tm_mon >= 0 && r.now.tm_mon < 12;
    }
    return r;
}

glyd_status glyd_template_render(const glyd_template *tmpl, const glyd_template_input *input,
                                 const glyd_template_limits *limits, glyd_buf *out, glyd_error *err)
{
    GLYD_TRY(check_input(input, err));
    jinja_run r = new_run(tmpl, input, limits, err);
    jinja_builder text = {.arena = &r.arena,
                          .bytes_max = limits && limits->output_bytes ? limits->output_bytes
                                                                      : OUTPUT_BYTES_DEFAULT};
    glyd_status status;
    r.out = &text;
    GLYD_TRY_DONE(set_input(&r, tmpl, input));
    GLYD_TRY_DONE(glyd_jinja_exec(&r, &tmpl->body));
    status = glyd_buf_append(out, text.data, text.bytes);
    if (status != GLYD_OK)
        glyd_error_set(err, status, "chat template: out of memory");
done:
    glyd_jinja_arena_free(&r.arena);
    return status;
}

/* --- finding a folder's template --- */

static const char *string_member(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* One of a list of {name, template}. */
static const char *pick_named(const json_t *list, const char *name)
{
    const char *fallback = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *entry_name = string_member(entry, "name");
        if (entry_name && name && strcmp(entry_name, name) == 0)
            return string_member(entry, "template");
        if (entry_name && strcmp(entry_name, "default") == 0)
            fallback = string_member(entry, "template");
    }
    return fallback;
}

/* The template in a JSON file; E_NOTFOUND where the file or its member is not there. */
static glyd_status find_in_json(const char *path, const char *name, glyd_buf *text, glyd_error *err)
{
    json_t *root = NULL;
    GLYD_TRY(glyd_json_read(path, CONFIG_BYTES_MAX, &root, err));
    const json_t *member = json_object_get(root, "chat_template");
    const char *found =
        json_is_array(member) ? pick_named(member, name) : json_string_value(member);
    glyd_status status = GLYD_E_NOTFOUND;
    if (found && strlen(found) > GLYD_TEMPLATE_BYTES_MAX)
        status = glyd_error_set(err, GLYD_E_LIMIT, "%s: the chat template is over %d bytes", path,
                                GLYD_TEMPLATE_BYTES_MAX);
    else if (found)
        status = glyd_buf_append(text, found, strlen(found));
    else if (member && !json_is_null(member))
        status = glyd_error_set(err, GLYD_E_FORMAT,
                                "%s: \"chat_template\" must be a string, or a list of {\"name\", "
                                "\"template\"} with a \"default\"",
                                path);
    if (status == GLYD_E_NOMEM)
        glyd_error_set(err, status, "out of memory for the chat template of %s", path);
    json_decref(root);
    return status;
}

glyd_status glyd_template_find(const char *folder, const char *name, glyd_buf *text,
                               glyd_error *err)
{
    static const char *const json_files[] = {"chat_template.json", "tokenizer_config.json"};
    char path[GLYD_PATH_BYTES];
    glyd_status status = glyd_fs_member(folder, "chat_template.jinja", path, err);
    if (status == GLYD_OK)
        status = glyd_file_read(path, GLYD_TEMPLATE_BYTES_MAX, text, err);
    for (size_t i = 0; i < 2 && status == GLYD_E_NOTFOUND; i++) {
        status = glyd_fs_member(folder, json_files[i], path, err);
        if (status == GLYD_OK)
            status = find_in_json(path, name, text, err);
    }
    if (status == GLYD_E_NOTFOUND)
        glyd_error_set(err, status,
                       "%s has no chat template: none of chat_template.jinja, chat_template.json "
                       "and tokenizer_config.json holds one",
                       folder);
    return status;
}
