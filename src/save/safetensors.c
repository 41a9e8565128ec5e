/* safetensors.c - reading and checking the safetensors format.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "save/safetensors.h"
#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *glyd_dtype_name(glyd_dtype dtype)
{
    static const char *const names[] = {
#define NAME(name, bits) #name,
        GLYD_DTYPE_LIST(NAME)
#undef NAME
    };
    return dtype < GLYD_DTYPES ? names[dtype] : NULL;
}

int glyd_dtype_bits(glyd_dtype dtype)
{
    static const int bits_of[] = {
#define BITS(name, bits) bits,
        GLYD_DTYPE_LIST(BITS)
#undef BITS
    };
    return bits_of[dtype];
}

glyd_status glyd_dtype_from_name(const char *name, glyd_dtype *dtype)
{
    for (int i = 0; i < GLYD_DTYPES; i++) {
        if (strcmp(glyd_dtype_name((glyd_dtype)i), name) == 0) {
            *dtype = (glyd_dtype)i;
            return GLYD_OK;
        }
    }
    return GLYD_E_UNSUPPORTED;
}

glyd_status glyd_shape_from_json(const json_t *array, const char *where, const char *name,
                                 glyd_shape *shape, glyd_error *err)
{
    GLYD_NEED(json_is_array(array), err, "%s: tensor %s has no shape", where, name);
    size_t n = json_array_size(array);
    GLYD_NEED(n <= GLYD_DIMS_MAX, err, "%s: tensor %s has %zu dimensions; at most %d are read",
              where, name, n, GLYD_DIMS_MAX);
    *shape = (glyd_shape){.n_dims = (int)n};
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(array, i);
        GLYD_NEED(json_is_integer(dim) && json_integer_value(dim) >= 0, err,
                  "%s: tensor %s: dimension %zu is not a whole number", where, name, i);
        shape->dim[i] = json_integer_value(dim);
    }
    return GLYD_OK;
}

glyd_status glyd_shape_bytes(const glyd_shape *shape, glyd_dtype dtype, const char *where,
                             const char *name, uint64_t *bytes, glyd_error *err)
{
    uint64_t bits = (uint64_t)glyd_dtype_bits(dtype);
    for (int i = 0; i < shape->n_dims; i++) {
        GLYD_NEED(!__builtin_mul_overflow(bits, (uint64_t)shape->dim[i], &bits), err,
                  "%s: tensor %s has more elements than 64 bits can count", where, name);
    }
    GLYD_NEED(bits % 8 == 0, err, "%s: tensor %s does not end on a whole byte", where, name);
    *bytes = bits / 8;
    return GLYD_OK;
}

uint64_t glyd_shape_elements(const glyd_shape *shape)
{
    uint64_t n = 1;
    for (int i = 0; i < shape->n_dims; i++)
        n *= (uint64_t)shape->dim[i];
    return n;
}

bool glyd_shape_equal(const glyd_shape *a, const glyd_shape *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < a->n_dims; i++) {
        if (a->dim[i] != b->dim[i])
            return false;
    }
    return true;
}

const char *glyd_shape_text(const glyd_shape *shape, char text[GLYD_SHAPE_TEXT_BYTES])
{
    size_t n = 0;
    text[n++] = '[';
    for (int i = 0; i < shape->n_dims; i++) {
        n += (size_t)snprintf(text + n, GLYD_SHAPE_TEXT_BYTES - n, i ? ", %lld" : "%lld",
                              (long long)shape->dim[i]);
    }
    snprintf(text + n, GLYD_SHAPE_TEXT_BYTES - n, "]");
    return text;
}

static glyd_status read_entry(const char *name, const json_t *json, const char *where,
                              glyd_safetensors_entry *entry, glyd_error *err)
{
    GLYD_NEED(json_is_object(json), err, "%s: the entry of tensor %s is not an object", where,
              name);
    GLYD_NEED(json_object_size(json) == 3, err,
              "%s: the entry of tensor %s must have dtype, shape and data_offsets, nothing else",
              where, name);
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    GLYD_NEED(dtype, err, "%s: tensor %s has no dtype", where, name);
    if (glyd_dtype_from_name(dtype, &entry->dtype) != GLYD_OK)
        GLYD_FAIL(err, GLYD_E_CORRUPT, "%s: tensor %s has the unknown dtype %s", where, name,
                  dtype);
    GLYD_TRY(glyd_shape_from_json(json_object_get(json, "shape"), where, name, &entry->shape, err));

    const json_t *offsets = json_object_get(json, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    GLYD_NEED(json_array_size(offsets) == 2 && json_is_integer(begin) && json_is_integer(end) &&
                  json_integer_value(begin) >= 0,
              err, "%s: tensor %s has no two data_offsets", where, name);
    GLYD_NEED(json_integer_value(begin) <= json_integer_value(end), err,
              "%s: tensor %s ends before it begins", where, name);
    entry->name = name;
    entry->begin = (uint64_t)json_integer_value(begin);
    entry->end = (uint64_t)json_integer_value(end);

    uint64_t bytes = 0;
    GLYD_TRY(glyd_shape_bytes(&entry->shape, entry->dtype, where, name, &bytes, err));
    char text[GLYD_SHAPE_TEXT_BYTES];
    GLYD_NEED(entry->end - entry->begin == bytes, err,
              "%s: tensor %s, %s of shape %s, takes %llu bytes, but its data_offsets give it %llu",
              where, name, dtype, glyd_shape_text(&entry->shape, text), (unsigned long long)bytes,
              (unsigned long long)(entry->end - entry->begin));
    return GLYD_OK;
}

static glyd_status read_metadata(const json_t *metadata, const char *where, glyd_error *err)
{
    GLYD_NEED(json_is_object(metadata), err, "%s: __metadata__ is not an object", where);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        GLYD_NEED(json_is_string(value), err, "%s: __metadata__ \"%s\" is not a string", where,
                  key);
    }
    return GLYD_OK;
}

static int by_offset(const void *a, const void *b)
{
    const glyd_safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name); /* empty tensors: any fixed order */
}

static int by_name(const void *a, const void *b)
{
    const glyd_safetensors_entry *x = *(const glyd_safetensors_entry *const *)a;
    const glyd_safetensors_entry *y = *(const glyd_safetensors_entry *const *)b;
    return strcmp(x->name, y->name);
}

const glyd_safetensors_entry *glyd_safetensors_find(const glyd_safetensors *st, const char *name)
{
    const glyd_safetensors_entry key = {.name = name}, *p = &key;
    const glyd_safetensors_entry *const *found =
        st->n_tensors ? bsearch(&p, st->by_name, st->n_tensors, sizeof(*st->by_name), by_name)
                      : NULL;
    return found ? *found : NULL;
}

static glyd_status read_entries(glyd_safetensors *st, const char *where, uint64_t *data_bytes,
                                glyd_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(st->root, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            GLYD_TRY(read_metadata(value, where, err));
            st->metadata = value;
            continue;
        }
        GLYD_TRY(read_entry(name, value, where, &st->tensor[st->n_tensors], err));
        st->n_tensors++;
    }
    if (st->n_tensors > 1)
        qsort(st->tensor, st->n_tensors, sizeof *st->tensor, by_offset);

    uint64_t at = 0;
    for (size_t i = 0; i < st->n_tensors; i++) {
        const glyd_safetensors_entry *t = &st->tensor[i];
        GLYD_NEED(t->begin >= at, err, "%s: tensor %s overlaps tensor %s", where, t->name,
                  st->tensor[i ? i - 1 : 0].name);
        GLYD_NEED(t->begin == at, err, "%s: %llu bytes before tensor %s belong to no tensor", where,
                  (unsigned long long)(t->begin - at), t->name);
        at = t->end;
    }
    *data_bytes = at;
    for (size_t i = 0; i < st->n_tensors; i++)
        st->by_name[i] = &st->tensor[i];
    if (st->n_tensors > 1)
        qsort(st->by_name, st->n_tensors, sizeof(*st->by_name), by_name);
    return GLYD_OK;
}

glyd_status glyd_safetensors_parse_header(glyd_span header, const char *where, glyd_safetensors *st,
                                          uint64_t *data_bytes, glyd_error *err)
{
    *st = (glyd_safetensors){.header = header};
    GLYD_NEED(header.bytes > 0 && header.data[0] == '{', err,
              "%s: the header is not a JSON object: this is no safetensors file", where);
    glyd_status status = glyd_json_parse(header, where, &st->root, err);
    if (status != GLYD_OK)
        goto done;
    st->tensor = calloc(json_object_size(st->root) + 1, sizeof *st->tensor);
    st->by_name = calloc(json_object_size(st->root) + 1, sizeof(*st->by_name));
    if (!st->tensor || !st->by_name) {
        status = glyd_error_set(err, GLYD_E_NOMEM, "out of memory for the tensors of %s", where);
        goto done;
    }
    status = read_entries(st, where, data_bytes, err);
done:
    if (status != GLYD_OK)
        glyd_safetensors_free(st);
    return status;
}

glyd_status glyd_safetensors_parse(glyd_span file, const char *where, glyd_safetensors *st,
                                   glyd_error *err)
{
    *st = (glyd_safetensors){0};
    GLYD_NEED(file.bytes >= GLYD_SAFETENSORS_LENGTH_BYTES, err,
              "%s has %zu bytes: too short for a safetensors file", where, file.bytes);
    uint64_t header_bytes = 0;
    for (int i = 0; i < GLYD_SAFETENSORS_LENGTH_BYTES; i++)
        header_bytes |= (uint64_t)file.data[i] << (8 * i);
    size_t rest = file.bytes - GLYD_SAFETENSORS_LENGTH_BYTES;
    GLYD_NEED(header_bytes <= GLYD_SAFETENSORS_HEADER_BYTES_MAX, err,
              "%s: a header of %llu bytes is over the format's limit of %d", where,
              (unsigned long long)header_bytes, GLYD_SAFETENSORS_HEADER_BYTES_MAX);
    GLYD_NEED(header_bytes <= rest, err,
              "%s: the header should have %llu bytes, but the file ends after %zu: it is cut short",
              where, (unsigned long long)header_bytes, rest);

    uint64_t data_bytes = 0;
    glyd_span header = {file.data + GLYD_SAFETENSORS_LENGTH_BYTES, (size_t)header_bytes};
    GLYD_TRY(glyd_safetensors_parse_header(header, where, st, &data_bytes, err));
    st->data = (glyd_span){header.data + header.bytes, rest - header.bytes};
    if (data_bytes == st->data.bytes)
        return GLYD_OK;
    size_t have = st->data.bytes;
    glyd_safetensors_free(st);
    if (data_bytes > have)
        GLYD_FAIL(err, GLYD_E_CORRUPT,
                  "%s is cut short: its tensors take %llu bytes, %zu are there", where,
                  (unsigned long long)data_bytes, have);
    GLYD_FAIL(err, GLYD_E_CORRUPT, "%s: %llu bytes after the last tensor belong to no tensor",
              where, (unsigned long long)(have - data_bytes));
}

void glyd_safetensors_free(glyd_safetensors *st)
{
    json_decref(st->root);
    free(st->tensor);
    free(st->by_name);
    *st = (glyd_safetensors){0};
}
