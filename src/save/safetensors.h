/* safetensors.h - reading and checking the safetensors format.
 *
 * A file is 8 bytes (the header's length, little-endian), the header (a JSON object: tensor name to
 * dtype, shape and data_offsets, plus "__metadata__"), and the tensors' bytes. Reading checks every
 * rule of the format: the header's length against the file and 100 MB, no duplicate names, known
 * dtypes, shapes against bytes, no overlap, no hole, and no byte beyond the last tensor.
 *
 * Ownership  names and spans point into the parsed header and the caller's bytes; both must live.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SAVE_SAFETENSORS_H
#define GLYD_SAVE_SAFETENSORS_H

#include "base/json.h"

/* X(name, bits of an element) */
#define GLYD_DTYPE_LIST(X)                                                                         \
    X(BF16, 16)                                                                                    \
    X(F16, 16)                                                                                     \
    X(F32, 32)                                                                                     \
    X(F64, 64)                                                                                     \
    X(C64, 64)                                                                                     \
    X(BOOL, 8)                                                                                     \
    X(U8, 8)                                                                                       \
    X(I8, 8)                                                                                       \
    X(U16, 16)                                                                                     \
    X(I16, 16)                                                                                     \
    X(U32, 32)                                                                                     \
    X(I32, 32)                                                                                     \
    X(U64, 64)                                                                                     \
    X(I64, 64)                                                                                     \
    X(F8_E4M3, 8)                                                                                  \
    X(F8_E5M2, 8)                                                                                  \
    X(F8_E8M0, 8)                                                                                  \
    X(F8_E4M3FNUZ, 8)                                                                              \
    X(F8_E5M2FNUZ, 8)                                                                              \
    X(F6_E2M3, 6)                                                                                  \
    X(F6_E3M2, 6)                                                                                  \
    X(F4, 4)

typedef enum glyd_dtype {
#define GLYD_DTYPE_ENUM(name, bits) GLYD_DTYPE_##name,
    GLYD_DTYPE_LIST(GLYD_DTYPE_ENUM)
#undef GLYD_DTYPE_ENUM
        GLYD_DTYPES,
} glyd_dtype;

const char *glyd_dtype_name(glyd_dtype dtype);
int glyd_dtype_bits(glyd_dtype dtype);
GLYD_MUST_CHECK glyd_status glyd_dtype_from_name(const char *name, glyd_dtype *dtype);

enum {
    GLYD_DIMS_MAX = 8,
    GLYD_SAFETENSORS_HEADER_BYTES_MAX = 100 * 1000 * 1000, /* the format's own limit */
    GLYD_SAFETENSORS_LENGTH_BYTES = 8,
};

typedef struct glyd_shape {
    int n_dims;
    int64_t dim[GLYD_DIMS_MAX];
} glyd_shape;

/* Read a shape from a JSON array, and the bytes that it takes in a dtype. Errors: E_CORRUPT. */
GLYD_MUST_CHECK glyd_status glyd_shape_from_json(const json_t *array, const char *where,
                                                 const char *name, glyd_shape *shape,
                                                 glyd_error *err);
GLYD_MUST_CHECK glyd_status glyd_shape_bytes(const glyd_shape *shape, glyd_dtype dtype,
                                             const char *where, const char *name, uint64_t *bytes,
                                             glyd_error *err);
uint64_t glyd_shape_elements(const glyd_shape *shape); /* of a shape whose bytes were counted */
bool glyd_shape_equal(const glyd_shape *a, const glyd_shape *b);

enum { GLYD_SHAPE_TEXT_BYTES = 32 * GLYD_DIMS_MAX };
/* "[4096, 1024]", for error texts. Returns text. */
const char *glyd_shape_text(const glyd_shape *shape, char text[GLYD_SHAPE_TEXT_BYTES]);

typedef struct glyd_safetensors_entry {
    const char *name;
    glyd_dtype dtype;
    glyd_shape shape;
    uint64_t begin, end; /* in the data, which follows the header */
} glyd_safetensors_entry;

typedef struct glyd_safetensors {
    json_t *root;                   /* the header */
    const json_t *metadata;         /* "__metadata__", or NULL */
    glyd_span header, data;         /* header: the JSON text with its padding */
    glyd_safetensors_entry *tensor; /* ascending by offset */
    size_t n_tensors;
    const glyd_safetensors_entry **by_name;
} glyd_safetensors;

/* Parse a whole file. `where` names it in error texts. On failure st is empty. */
GLYD_MUST_CHECK glyd_status glyd_safetensors_parse(glyd_span file, const char *where,
                                                   glyd_safetensors *st, glyd_error *err);

/* Parse a header on its own; st->data is empty and `*data_bytes` is what the tensors take. */
GLYD_MUST_CHECK glyd_status glyd_safetensors_parse_header(glyd_span header, const char *where,
                                                          glyd_safetensors *st,
                                                          uint64_t *data_bytes, glyd_error *err);

/* NULL where there is no tensor of that name. */
const glyd_safetensors_entry *glyd_safetensors_find(const glyd_safetensors *st, const char *name);

void glyd_safetensors_free(glyd_safetensors *st);

#endif
