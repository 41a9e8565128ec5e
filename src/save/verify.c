/* verify.c - every tensor of a save decoded and hashed again, and every other file.
 *
 * A task is one tensor or one file, the largest first, so that the threads end together. What is
 * reported is the first fault in the order of the checkpoint, whichever thread found it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/error.h"
#include "glyd/save.h"
#include "save/check_tensor.h"
#include "save/manifest.h"
#include "save/pack_tensor.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct task {
    uint64_t bytes; /* in the checkpoint */
    size_t index;   /* below n_tensors: a tensor; else a file */
} task;

typedef struct verifying {
    const glyd_folder *folder;
    const glyd_save_options *options;
    int n_threads;
    task *task;
    size_t n_tasks;
    uint16_t **scratch; /* by worker, as large as any tensor's chunk */
    uint64_t bytes_total;
    _Atomic uint64_t bytes_done;
    atomic_bool stop; /* cancelled: the tasks left end at once */
    pthread_mutex_t lock;
    size_t fault; /* index of the first one known; SIZE_MAX: none */
    glyd_error error;
} verifying;

static void note_fault(verifying *v, size_t index, const glyd_error *error)
{
    pthread_mutex_lock(&v->lock);
    if (index < v->fault) {
        v->fault = index;
        v->error = *error;
    }
    pthread_mutex_unlock(&v->lock);
}

/* Progress is told by the calling thread alone, which is worker 0. */
static void note_progress(verifying *v, uint64_t bytes, int worker)
{
    uint64_t done = atomic_fetch_add(&v->bytes_done, bytes) + bytes;
    const glyd_save_options *o = v->options;
    if (worker == 0 && o->progress && o->progress(o->progress_arg, done, v->bytes_total) != 0)
        atomic_store(&v->stop, true);
}

typedef struct hashing {
    verifying *v;
    glyd_sha256 hash;
    glyd_status status;
    int worker;
} hashing;

static int hash_bytes(void *arg, glyd_span bytes)
{
    hashing *h = arg;
    h->status = glyd_sha256_update(&h->hash, bytes.data, bytes.bytes);
    note_progress(h->v, bytes.bytes, h->worker);
    return h->status != GLYD_OK || atomic_load(&h->v->stop);
}

static glyd_status hash_tensor(verifying *v, const glyd_tensor *t, int worker,
                               char hex[GLYD_SHA256_HEX_BYTES], glyd_error *err)
{
    hashing h = {.v = v, .worker = worker};
    GLYD_TRY(glyd_sha256_start(&h.hash));
    int64_t rows = t->is_packed ? glyd_chunk_rows(t->matrix.cols, v->n_threads) : 0;
    glyd_status status = glyd_tensor_read(t, rows, v->scratch[worker], NULL, hash_bytes, &h, err);
    if (status == GLYD_OK)
        status = h.status;
    if (status == GLYD_OK)
        return glyd_sha256_finish(&h.hash, hex);
    glyd_sha256_drop(&h.hash);
    return status;
}

static glyd_status verify_tensor(verifying *v, size_t i, int worker, glyd_error *err)
{
    const glyd_tensor *t = &v->folder->tensor[i];
    const glyd_manifest_tensor *said = &v->folder->manifest->tensor[i];
    char hex[GLYD_SHA256_HEX_BYTES];
    GLYD_TRY(glyd_tensor_check_arrays(t, NULL, err));
    glyd_status status = hash_tensor(v, t, worker, hex, err);
    if (status == GLYD_E_NOMEM)
        GLYD_FAIL(err, status, "out of memory for the checksum of tensor %s", t->name);
    GLYD_TRY(status);
    if (!atomic_load(&v->stop) && strcmp(hex, said->sha256) != 0)
        GLYD_FAIL(err, GLYD_E_MISMATCH,
                  "tensor %s is damaged: its weights do not have the SHA-256 "
                  "that was saved",
                  t->name);
    glyd_tensor_drop(v->folder, t);
    return GLYD_OK;
}

static glyd_status verify_file(verifying *v, size_t i, glyd_error *err)
{
    const glyd_manifest_file *said = &v->folder->manifest->file[i];
    char path[GLYD_PATH_BYTES], hex[GLYD_SHA256_HEX_BYTES];
    glyd_map map;
    GLYD_TRY(glyd_fs_member(v->folder->path, said->file, path, err));
    GLYD_TRY(glyd_map_open(path, &map, err));
    glyd_status status = glyd_sha256_of(map.span.data, map.span.bytes, hex);
    uint64_t bytes = map.span.bytes;
    glyd_map_close(&map);
    if (status != GLYD_OK)
        GLYD_FAIL(err, status, "out of memory for the checksum of %s", said->file);
    if (bytes != said->bytes || strcmp(hex, said->sha256) != 0)
        GLYD_FAIL(err, GLYD_E_MISMATCH, "%s was changed since the model was packed", said->file);
    return GLYD_OK;
}

static void verify_task(void *arg, int64_t number, int worker)
{
    verifying *v = arg;
    const task *t = &v->task[number];
    if (atomic_load(&v->stop))
        return;
    glyd_error error = {GLYD_OK, ""};
    size_t n_tensors = v->folder->n_tensors;
    glyd_status status;
    if (t->index < n_tensors) {
        status = verify_tensor(v, t->index, worker, &error);
    } else {
        status = verify_file(v, t->index - n_tensors, &error);
        note_progress(v, t->bytes, worker);
    }
    if (status != GLYD_OK)
        note_fault(v, t->index, &error);
}

static int largest_first(const void *a, const void *b)
{
    const task *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static glyd_status plan_tasks(verifying *v, glyd_error *err)
{
    const glyd_manifest *m = v->folder->manifest;
    uint64_t scratch = 0;
    v->task = calloc(m->n_tensors + m->n_files + 1, sizeof *v->task);
    v->scratch = calloc((size_t)v->n_threads, sizeof(*v->scratch));
    bool good = v->task && v->scratch;
    for (size_t i = 0; good && i < m->n_tensors; i++) {
        const glyd_tensor *t = &v->folder->tensor[i];
        if (glyd_tensor_is_copy(v->folder, i))
            continue; /* the tensor that it is the same as is verified */
        v->task[v->n_tasks++] = (task){glyd_tensor_bytes(t), i};
        if (!t->is_packed)
            continue;
        uint64_t chunk =
            (uint64_t)glyd_chunk_rows(t->matrix.cols, v->n_threads) * (uint64_t)t->matrix.cols * 2;
        scratch = chunk > scratch ? chunk : scratch;
    }
    for (size_t i = 0; good && i < m->n_files; i++)
        v->task[v->n_tasks++] = (task){m->file[i].bytes, m->n_tensors + i};
    for (int w = 0; good && w < v->n_threads; w++)
        good = (v->scratch[w] = malloc(scratch + 1)) != NULL;
    if (!good)
        GLYD_FAIL(err, GLYD_E_NOMEM, "out of memory for verifying %s", v->folder->path);
    for (size_t i = 0; i < v->n_tasks; i++)
        v->bytes_total += v->task[i].bytes;
    if (v->n_tasks > 1)
        qsort(v->task, v->n_tasks, sizeof *v->task, largest_first);
    return GLYD_OK;
}

static bool is_listed(const glyd_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->n_files; i++) {
        if (strcmp(m->file[i].file, name) == 0)
            return true;
    }
    for (size_t i = 0; i < m->n_shards; i++) {
        if (strcmp(m->shard[i].file, name) == 0)
            return true;
    }
    return strcmp(name, GLYD_MANIFEST_FILE) == 0;
}

static glyd_status count_unlisted(const glyd_folder *folder, glyd_save_report *report,
                                  glyd_error *err)
{
    glyd_fs_names names;
    GLYD_TRY(glyd_fs_list(folder->path, &names, err));
    for (size_t i = 0; i < names.n; i++)
        report->n_left_out +=
            names.name[i][0] != '.' && !is_listed(folder->manifest, names.name[i]);
    glyd_fs_names_free(&names);
    return GLYD_OK;
}

static glyd_status verify_all(verifying *v, glyd_pool *pool, glyd_save_report *report,
                              glyd_error *err)
{
    glyd_report_save(v->folder, report);
    GLYD_TRY(plan_tasks(v, err));
    GLYD_TRY(count_unlisted(v->folder, report, err));
    glyd_pool_run(pool, (int64_t)v->n_tasks, verify_task, v);
    if (v->fault == SIZE_MAX)
        note_progress(v, 0, 0); /* the other threads may have ended last */
    if (v->fault != SIZE_MAX)
        GLYD_FAIL(err, v->error.status, "%s", v->error.text);
    if (atomic_load(&v->stop))
        GLYD_FAIL(err, GLYD_E_CANCELLED, "cancelled: %s was not verified to the end",
                  v->folder->path);
    return GLYD_OK;
}

glyd_status glyd_save_verify(const char *save, const glyd_save_options *options,
                             glyd_save_report *report, glyd_error *err)
{
    const glyd_save_options defaults = {0};
    glyd_save_report unasked;
    report = report ? report : &unasked;
    *report = (glyd_save_report){0};
    verifying v = {.options = options ? options : &defaults,
                   .lock = PTHREAD_MUTEX_INITIALIZER,
                   .fault = SIZE_MAX};
    glyd_folder *folder = NULL;
    glyd_pool *pool = NULL;
    glyd_status status = glyd_folder_open(save, &folder, err);
    if (status == GLYD_OK)
        status = glyd_folder_need_save(folder, err);
    if (status == GLYD_OK)
        status =
            glyd_pool_create(&(glyd_pool_options){.n_threads = v.options->n_threads}, &pool, err);
    if (status == GLYD_OK) {
        v.folder = folder;
        v.n_threads = glyd_pool_size(pool);
        status = verify_all(&v, pool, report, err);
    }
    for (int w = 0; v.scratch && w < v.n_threads; w++)
        free(v.scratch[w]);
    free(v.scratch);
    free(v.task);
    glyd_pool_free(pool);
    glyd_folder_close(folder);
    return status;
}
