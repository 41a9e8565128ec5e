/* staging.h - a new folder that gets its name only when everything in it is on the disk.
 *
 * Until it is published it is a hidden folder beside its place, `.NAME.partial-PID`.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SAVE_STAGING_H
#define GLYD_SAVE_STAGING_H

#include "base/fs.h"
#include "base/sha256.h"

typedef struct glyd_staging {
    char name[GLYD_PATH_BYTES];    /* what it will be called */
    char partial[GLYD_PATH_BYTES]; /* what it is called now; empty: there is none */
} glyd_staging;

/* Make the hidden folder for `out`, which must not exist nor lie inside the folder `in`.
 * Errors: E_EXISTS, E_ARG (inside), E_NOTFOUND (no parent folder), E_IO, E_NOSPACE. */
GLYD_MUST_CHECK glyd_status glyd_staging_open(glyd_staging *staging, const char *in,
                                              const char *out, glyd_error *err);

/* Copy a file into it, giving its size and SHA-256. */
GLYD_MUST_CHECK glyd_status glyd_staging_copy(const glyd_staging *staging, const char *path,
                                              const char *name, uint64_t *bytes,
                                              char sha256[GLYD_SHA256_HEX_BYTES], glyd_error *err);

GLYD_MUST_CHECK glyd_status glyd_staging_publish(glyd_staging *staging, glyd_error *err);

/* Remove what was not published. */
void glyd_staging_drop(glyd_staging *staging);

#endif
