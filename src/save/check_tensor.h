/* check_tensor.h - whether a tensor of a save still is what it was.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SAVE_CHECK_TENSOR_H
#define GLYD_SAVE_CHECK_TENSOR_H

#include "glyd/save.h"
#include "save/folder.h"

/* Compare the checksums of a packed tensor's pieces; the error names the array and, where it is one
 * flipped bit, that bit and the rows and columns it belongs to. Then check the arrays for decoding,
 * but for the streams, which glyd_tensor_read checks. Tensors that are as they are pass. Errors:
 * E_MISMATCH, E_CORRUPT, E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_tensor_check_arrays(const glyd_tensor *tensor, glyd_pool *pool,
                                                     glyd_error *err);

/* The bf16 bytes of rows of a packed tensor, or of the whole of another, in pieces: `take` is
 * called with each, in order; it must not fail but may answer non-zero to stop. `scratch` holds
 * glyd_chunk_rows() rows, and is not used for tensors that are as they are. */
typedef int (*glyd_take_fn)(void *arg, glyd_span bytes);
GLYD_MUST_CHECK glyd_status glyd_tensor_read(const glyd_tensor *tensor, int64_t chunk_rows,
                                             uint16_t *scratch, glyd_pool *pool, glyd_take_fn take,
                                             void *arg, glyd_error *err);

/* Tell the system that the tensor's pages are needed no more. */
void glyd_tensor_drop(const glyd_folder *folder, const glyd_tensor *tensor);

/* Bytes of the tensor in the checkpoint, and in the save. */
uint64_t glyd_tensor_bytes(const glyd_tensor *tensor);
uint64_t glyd_tensor_stored_bytes(const glyd_tensor *tensor);

/* Whether the manifest says that another tensor holds the same bytes, kept once. */
bool glyd_tensor_is_copy(const glyd_folder *folder, size_t index);

/* What a report says of the tensors and files of a save. */
void glyd_report_save(const glyd_folder *folder, glyd_save_report *report);

#endif
