/* json.c - reading untrusted JSON with jansson.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/json.h"
#include "base/error.h"
#include "base/map.h"

glyd_status glyd_json_parse(glyd_span text, const char *where, json_t **root, glyd_error *err)
{
    json_error_t e;
    *root = json_loadb(text.data ? (const char *)text.data : "", text.bytes, JSON_REJECT_DUPLICATES,
                       &e);
    if (!*root && !e.text[0]) /* what jansson says when an allocation fails: nothing */
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for %s", where);
    if (!*root)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: line %d, column %d: %s", where, e.line, e.column,
                  e.text);
    return GLYD_OK;
}

glyd_status glyd_json_read(const char *path, size_t bytes_max, json_t **root, glyd_error *err)
{
    glyd_buf text = {0};
    glyd_status status = glyd_file_read(path, bytes_max, &text, err);
    if (status == GLYD_OK)
        status = glyd_json_parse((glyd_span){text.data, text.bytes}, path, root, err);
    glyd_buf_free(&text);
    return status;
}

static const json_t *member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static glyd_status absent_member(const char *key, const char *where, glyd_error *err)
{
    GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"%s\" is missing", where, key);
}

static glyd_status wrong_type(const char *key, const char *type, const char *where, glyd_error *err)
{
    GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"%s\" must be %s", where, key, type);
}

glyd_status glyd_json_int(const json_t *object, const char *key, int64_t min, int64_t max,
                          const char *where, int64_t *value, glyd_error *err)
{
    const json_t *v = member(object, key);
    if (!v)
        return absent_member(key, where, err);
    if (!json_is_integer(v))
        return wrong_type(key, "an integer", where, err);
    int64_t n = json_integer_value(v);
    if (n < min || n > max)
        GLYD_FAIL(err, GLYD_E_FORMAT, "%s: \"%s\" is %lld; it must be between %lld and %lld", where,
                  key, (long long)n, (long long)min, (long long)max);
    *value = n;
    return GLYD_OK;
}

glyd_status glyd_json_int_or(const json_t *object, const char *key, int64_t min, int64_t max,
                             int64_t absent, const char *where, int64_t *value, glyd_error *err)
{
    if (!member(object, key)) {
        *value = absent;
        return GLYD_OK;
    }
    return glyd_json_int(object, key, min, max, where, value, err);
}

glyd_status glyd_json_real(const json_t *object, const char *key, const char *where, double *value,
                           glyd_error *err)
{
    const json_t *v = member(object, key);
    if (!v)
        return absent_member(key, where, err);
    if (!json_is_number(v))
        return wrong_type(key, "a number", where, err);
    *value = json_number_value(v);
    return GLYD_OK;
}

glyd_status glyd_json_real_or(const json_t *object, const char *key, double absent,
                              const char *where, double *value, glyd_error *err)
{
    if (!member(object, key)) {
        *value = absent;
        return GLYD_OK;
    }
    return glyd_json_real(object, key, where, value, err);
}

glyd_status glyd_json_bool_or(const json_t *object, const char *key, bool absent, const char *where,
                              bool *value, glyd_error *err)
{
    const json_t *v = member(object, key);
    if (v && !json_is_boolean(v))
        return wrong_type(key, "true or false", where, err);
    *value = v ? json_is_true(v) : absent;
    return GLYD_OK;
}

glyd_status glyd_json_text(const json_t *object, const char *key, const char *where,
                           const char **value, glyd_error *err)
{
    const json_t *v = member(object, key);
    if (!v)
        return absent_member(key, where, err);
    if (!json_is_string(v))
        return wrong_type(key, "a string", where, err);
    *value = json_string_value(v);
    return GLYD_OK;
}

glyd_status glyd_json_text_or(const json_t *object, const char *key, const char *absent,
                              const char *where, const char **value, glyd_error *err)
{
    if (!member(object, key)) {
        *value = absent;
        return GLYD_OK;
    }
    return glyd_json_text(object, key, where, value, err);
}
