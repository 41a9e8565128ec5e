/* arena.c - memory of the template interpreter: arena, growing text, lists and dicts.
 *
 * Chunks are malloc'ed, each at least twice as large as what is asked for up to a bound, so that a
 * small template costs one or two of them. Freed all at once.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "jinja/value.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, CHUNK_BYTES = 16384, CHUNK_BYTES_MAX = 1 << 20 };

struct jinja_chunk {
    jinja_chunk *older;
    size_t used, capacity;
    _Alignas(ALIGN) char data[];
};

static void *refuse(jinja_arena *arena, glyd_status status)
{
    if (arena->status != GLYD_OK)
        return NULL;
    if (status == GLYD_E_LIMIT)
        arena->status = glyd_error_set(arena->err, status,
                                       "chat template: over the limit of %zu bytes of memory",
                                       arena->bytes_max);
    else
        arena->status = glyd_error_set(arena->err, status, "chat template: out of memory");
    return NULL;
}

static jinja_chunk *add_chunk(jinja_arena *arena, size_t bytes)
{
    size_t capacity = arena->chunk ? 2 * arena->chunk->capacity : CHUNK_BYTES;
    if (capacity > CHUNK_BYTES_MAX)
        capacity = CHUNK_BYTES_MAX;
    if (capacity < bytes)
        capacity = bytes;
    if (arena->bytes > arena->bytes_max || bytes > arena->bytes_max - arena->bytes)
        return refuse(arena, GLYD_E_LIMIT);
    if (capacity > arena->bytes_max - arena->bytes)
        capacity = bytes;
    jinja_chunk *chunk = malloc(sizeof *chunk + capacity);
    if (!chunk)
        return refuse(arena, GLYD_E_NOMEM);
    *chunk = (jinja_chunk){.older = arena->chunk, .capacity = capacity};
    arena->chunk = chunk;
    arena->bytes += capacity;
    return chunk;
}

void *glyd_jinja_alloc(jinja_arena *arena, size_t bytes)
{
    if (arena->status != GLYD_OK)
        return NULL;
    if (bytes > SIZE_MAX / 4)
        return refuse(arena, GLYD_E_LIMIT);
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes == 0)
        bytes = ALIGN;
    jinja_chunk *chunk = arena->chunk;
    if (!chunk || chunk->capacity - chunk->used < bytes)
        chunk = add_chunk(arena, bytes);
    if (!chunk)
        return NULL;
    void *data = chunk->data + chunk->used;
    chunk->used += bytes;
    return data;
}

void *glyd_jinja_zalloc(jinja_arena *arena, size_t bytes)
{
    void *data = glyd_jinja_alloc(arena, bytes);
    if (data)
        memset(data, 0, bytes);
    return data;
}

void *glyd_jinja_grow(jinja_arena *arena, void *data, size_t bytes_old, size_t bytes_new)
{
    jinja_chunk *chunk = arena->chunk;
    size_t old = (bytes_old + ALIGN - 1) / ALIGN * ALIGN;
    if (arena->status == GLYD_OK && data && chunk && old <= chunk->used &&
        (char *)data == chunk->data + chunk->used - old && bytes_new < SIZE_MAX / 4) {
        size_t more = (bytes_new + ALIGN - 1) / ALIGN * ALIGN - old;
        if (more <= chunk->capacity - chunk->used) {
            chunk->used += more;
            return data;
        }
    }
    void *grown = glyd_jinja_alloc(arena, bytes_new);
    if (grown && bytes_old)
        memcpy(grown, data, bytes_old);
    return grown;
}

void glyd_jinja_arena_free(jinja_arena *arena)
{
    for (jinja_chunk *chunk = arena->chunk; chunk;) {
        jinja_chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
    arena->chunk = NULL;
    arena->bytes = 0;
}

glyd_status glyd_jinja_put(jinja_builder *b, const char *data, size_t bytes)
{
    if (b->bytes_max && bytes > b->bytes_max - b->bytes) {
        b->arena->status =
            glyd_error_set(b->arena->err, GLYD_E_LIMIT,
                           "chat template: over the limit of %zu bytes of output", b->bytes_max);
        return b->arena->status;
    }
    if (bytes > b->capacity - b->bytes) {
        size_t capacity = 2 * b->capacity;
        if (capacity < 64)
            capacity = 64;
        if (capacity - b->bytes < bytes)
            capacity = b->bytes + bytes;
        char *grown = glyd_jinja_grow(b->arena, b->data, b->capacity, capacity);
        if (!grown)
            return b->arena->status;
        b->data = grown;
        b->capacity = capacity;
    }
    if (bytes)
        memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
    return GLYD_OK;
}

glyd_status glyd_jinja_put_text(jinja_builder *b, const char *text)
{
    return glyd_jinja_put(b, text, strlen(text));
}

glyd_status glyd_jinja_put_string(jinja_builder *b, const jinja_string *s)
{
    return glyd_jinja_put(b, s->data, s->bytes);
}

glyd_status glyd_jinja_put_point(jinja_builder *b, int32_t point)
{
    char bytes[4];
    return glyd_jinja_put(b, bytes, glyd_jinja_encode(point, bytes));
}

glyd_status glyd_jinja_put_repeated(jinja_builder *b, const jinja_string *s, size_t times)
{
    if (s->bytes == 0 || times == 0)
        return GLYD_OK;
    if (times > b->arena->bytes_max / s->bytes) {
        refuse(b->arena, GLYD_E_LIMIT);
        return b->arena->status;
    }
    for (size_t i = 0; i < times; i++)
        GLYD_TRY(glyd_jinja_put_string(b, s));
    return GLYD_OK;
}

glyd_status glyd_jinja_build(jinja_builder *b, jinja_value *out)
{
    const jinja_string *s = glyd_jinja_string_view(b->arena, b->data ? b->data : "", b->bytes);
    if (!s)
        return b->arena->status;
    *out = jinja_text(s);
    return GLYD_OK;
}

jinja_list *glyd_jinja_list_new(jinja_arena *arena, size_t capacity)
{
    if (capacity > SIZE_MAX / 4 / sizeof(jinja_value))
        return refuse(arena, GLYD_E_LIMIT);
    jinja_list *list = glyd_jinja_alloc(arena, sizeof *list);
    if (!list)
        return NULL;
    *list = (jinja_list){.capacity = capacity};
    list->items = glyd_jinja_alloc(arena, capacity * sizeof *list->items);
    return list->items ? list : NULL;
}

glyd_status glyd_jinja_list_add(jinja_arena *arena, jinja_list *list, jinja_value item)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity < 4 ? 8 : 2 * list->capacity;
        jinja_value *items = glyd_jinja_grow(arena, list->items, list->capacity * sizeof *items,
                                             capacity * sizeof *items);
        if (!items)
            return arena->status;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = item;
    return GLYD_OK;
}

jinja_dict *glyd_jinja_dict_new(jinja_arena *arena, size_t capacity)
{
    if (capacity > SIZE_MAX / 4 / sizeof(jinja_value))
        return refuse(arena, GLYD_E_LIMIT);
    jinja_dict *dict = glyd_jinja_alloc(arena, sizeof *dict);
    if (!dict)
        return NULL;
    *dict = (jinja_dict){.capacity = capacity};
    dict->keys = glyd_jinja_alloc(arena, capacity * sizeof *dict->keys);
    dict->values = glyd_jinja_alloc(arena, capacity * sizeof *dict->values);
    return dict->keys && dict->values ? dict : NULL;
}

glyd_status glyd_jinja_dict_add(jinja_arena *arena, jinja_dict *dict, jinja_value key,
                                jinja_value value)
{
    if (dict->n == dict->capacity) {
        size_t capacity = dict->capacity < 4 ? 8 : 2 * dict->capacity;
        size_t old = dict->capacity * sizeof(jinja_value), grown = capacity * sizeof(jinja_value);
        jinja_value *keys = glyd_jinja_grow(arena, dict->keys, old, grown);
        jinja_value *values = keys ? glyd_jinja_grow(arena, dict->values, old, grown) : NULL;
        if (!values)
            return arena->status;
        dict->keys = keys;
        dict->values = values;
        dict->capacity = capacity;
    }
    dict->keys[dict->n] = key;
    dict->values[dict->n++] = value;
    return GLYD_OK;
}

jinja_value *glyd_jinja_dict_text(const jinja_dict *dict, const jinja_string *key)
{
    for (size_t i = 0; i < dict->n; i++) {
        if (dict->keys[i].kind == JINJA_STRING &&
            glyd_jinja_string_equal(dict->keys[i].as.string, key))
            return &dict->values[i];
    }
    return NULL;
}
