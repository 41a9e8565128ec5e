/* status.h - status codes and error texts, shared by every public header.
 *
 * Every function that can fail returns a glyd_status. Where the failure can come from data (a file,
 * a model, an argument a user typed), the function takes a `glyd_error *err` last: it may be NULL,
 * it is untouched on success, and on failure it holds one line that says what is wrong, where, and
 * what to do. Libraries never print, exit, or read the environment.
 *
 * Threads    no hidden state; a glyd_error belongs to one thread at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_STATUS_H
#define GLYD_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GLYD_API          __attribute__((visibility("default")))
#define GLYD_MUST_CHECK   __attribute__((warn_unused_result))
#define GLYD_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define GLYD_API
#define GLYD_MUST_CHECK
#define GLYD_PRINTF(f, a)
#endif

/* X(name, value, text). Values are pinned for ever and spaced by theme: 10 the call, 20 the data,
 * 30 the machine, 40 the GPU. */
#define GLYD_STATUS_LIST(X)                                                                        \
    X(OK, 0, "ok")                                                                                 \
    X(E_ARG, 10, "invalid argument")                                                               \
    X(E_UNSUPPORTED, 11, "not supported")                                                          \
    X(E_LIMIT, 12, "over a limit")                                                                 \
    X(E_CANCELLED, 13, "cancelled")                                                                \
    X(E_EXISTS, 14, "already exists")                                                              \
    X(E_BUSY, 15, "busy: try again later")                                                         \
    X(E_CORRUPT, 20, "corrupt data")                                                               \
    X(E_FORMAT, 21, "not the format it should be")                                                 \
    X(E_MISMATCH, 22, "data does not match its checksum")                                          \
    X(E_NOMEM, 30, "out of memory")                                                                \
    X(E_IO, 31, "input or output failed")                                                          \
    X(E_NOTFOUND, 32, "not found")                                                                 \
    X(E_NOSPACE, 33, "no space left")                                                              \
    X(E_DEVICE, 40, "the GPU or its driver failed")                                                \
    X(E_NODEVICE, 41, "no usable GPU")

typedef enum glyd_status {
#define GLYD_STATUS_ENUM(name, value, text) GLYD_##name = (value),
    GLYD_STATUS_LIST(GLYD_STATUS_ENUM)
#undef GLYD_STATUS_ENUM
} glyd_status;

enum { GLYD_ERROR_TEXT_BYTES = 512 };

typedef struct glyd_error {
    glyd_status status;
    char text[GLYD_ERROR_TEXT_BYTES]; /* one line, UTF-8, no newline, always terminated */
} glyd_error;

/* The fixed text of a status, for example "corrupt data". Never NULL; unknown values say so. */
GLYD_API const char *glyd_status_text(glyd_status status);

/* The library's version, for example "0.1.0". */
GLYD_API const char *glyd_version(void);

#ifdef __cplusplus
}
#endif
#endif
