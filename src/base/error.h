/* error.h - how functions of the library fail.
 *
 * GLYD_TRY forwards a failure, GLYD_FAIL makes one, GLYD_NEED guards untrusted bytes, GLYD_ASSERT
 * marks what only a bug can break (on in release builds too).
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_BASE_ERROR_H
#define GLYD_BASE_ERROR_H

#include "glyd/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Write the text into err (if not NULL), return status. Newlines in the text become spaces. */
glyd_status glyd_error_set(glyd_error *err, glyd_status status, const char *format, ...)
    GLYD_PRINTF(3, 4);

/* Put "CONTEXT: " before a text that is already there. Returns err's status. */
glyd_status glyd_error_prefix(glyd_error *err, glyd_status status, const char *format, ...)
    GLYD_PRINTF(3, 4);

__attribute__((noreturn)) void glyd_assert_failed(const char *expression, const char *file,
                                                  int line);

#define GLYD_TRY(call)                                                                             \
    do {                                                                                           \
        glyd_status glyd_try_status = (call);                                                      \
        if (glyd_try_status != GLYD_OK)                                                            \
            return glyd_try_status;                                                                \
    } while (0)

/* As GLYD_TRY where there is something to clean up: sets `status` and jumps to `done`. */
#define GLYD_TRY_DONE(call)                                                                        \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != GLYD_OK)                                                                     \
            goto done;                                                                             \
    } while (0)

#define GLYD_FAIL(err, code, ...) return glyd_error_set((err), (code), __VA_ARGS__)

/* The one check for bytes that come from outside. */
#define GLYD_NEED(condition, err, ...)                                                             \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return glyd_error_set((err), GLYD_E_CORRUPT, __VA_ARGS__);                             \
    } while (0)

#define GLYD_ASSERT(condition)                                                                     \
    ((condition) ? (void)0 : glyd_assert_failed(#condition, __FILE__, __LINE__))

#ifdef __cplusplus
}
#endif
#endif
