/* Plans: the cache from a call's key to its plan, and the run. */
#define _GNU_SOURCE
#include "_C.h"

#include <stdlib.h>
#include <string.h>

/* A set-associative table: bounded, and no entry ever moves. The least
 * recently used entry of a full set that no thread is running gives way. With
 * this many ways hardly a set is full before half of the table is: each plan
 * that is made again leaves calls behind for Go's collector. */
enum { SETS = 256, WAYS = 16 };
static plan_entry table[SETS][WAYS];
static uint64_t hits, misses, now; /* now: the clock of last uses */
int threads_told;

static uint32_t hash_of(const plan_key *k) {
  uint64_t h = 0x9E3779B97F4A7C15u ^ k->size, word;
  uint32_t i = 0;
  for (; i + 8 <= k->size; i += 8) {
    memcpy(&word, k->bytes + i, 8);
    h = (h ^ word) * 0xFF51AFD7ED558CCDu;
    h ^= h >> 32;
  }
  word = 0;
  memcpy(&word, k->bytes + i, k->size - i);
  h = (h ^ word) * 0xFF51AFD7ED558CCDu;
  return (uint32_t)(h ^ (h >> 29));
}

static int is_of(const plan_entry *e, const plan_key *k) {
  return e->key && e->generation == lib_generation && e->key_size == k->size &&
         memcmp(e->key, k->bytes, k->size) == 0 && (!e->workspace || e->threads == threads_told);
}

plan_entry *plan_find(const plan_key *k, plan_entry *likely) {
  plan_entry *found = likely && is_of(likely, k) ? likely : NULL;
  if (!found) {
    uint32_t hash = hash_of(k);
    plan_entry *set = table[hash % SETS];
    for (int i = 0; i < WAYS && !found; i++)
      if (set[i].hash == hash && is_of(&set[i], k)) found = &set[i];
  }
  if (!found) return NULL;
  hits++;
  found->used = ++now;
  return found;
}

static void drop(plan_entry *e) {
  /* A handle of an earlier load belongs to a library that is gone (a fork). */
  if (e->key && e->generation == lib_generation) lib.plan_destroy(e->handle, NULL, 0);
  free(e->key);
  memset(e, 0, sizeof *e);
}

/* The entry to use for a new plan, empty; NULL when all of its set are running. */
static plan_entry *make_room(uint32_t hash) {
  plan_entry *set = table[hash % SETS], *victim = NULL;
  for (int i = 0; i < WAYS; i++) {
    plan_entry *e = &set[i];
    int stale = e->key && e->generation != lib_generation;
    if (!e->key || stale) {
      drop(e);
      return e;
    }
    if (e->running == 0 && (!victim || e->used < victim->used)) victim = e;
  }
  if (victim) drop(victim);
  return victim;
}

isobit_plan make_plan(const char *text, const isobit_preference *preference, uint64_t *workspace) {
  char err[ERR_SIZE] = "";
  isobit_plan handle = 0;
  isobit_status status;
  Py_BEGIN_ALLOW_THREADS; /* on a GPU kernels are loaded */
  status = lib.plan_create(text, preference, &handle, err, sizeof err);
  if (!status) status = lib.plan_workspace_size(handle, workspace, err, sizeof err);
  Py_END_ALLOW_THREADS;
  if (!status) return handle;
  if (handle) lib.plan_destroy(handle, NULL, 0);
  lib_raise(status, err);
  return 0;
}

plan_entry *plan_add(const plan_key *k, const char *text) {
  const isobit_preference preference = {.struct_size = sizeof preference, .mark_names = 1};
  uint64_t workspace = 0;
  int threads = threads_told; /* the workspace is sized by it; another thread may change threads_told meanwhile */
  isobit_plan handle = make_plan(text, &preference, &workspace);
  if (!handle) return NULL;
  uint32_t hash = hash_of(k);
  plan_entry *e = make_room(hash);
  if (!e) {
    lib.plan_destroy(handle, NULL, 0);
    PyErr_SetString(PyExc_RuntimeError, "isobit: too many plans are running at once");
    return NULL;
  }
  e->key = malloc(k->size);
  if (!e->key) {
    lib.plan_destroy(handle, NULL, 0);
    PyErr_NoMemory();
    return NULL;
  }
  memcpy(e->key, k->bytes, k->size);
  e->key_size = k->size;
  e->hash = hash;
  e->handle = handle;
  e->workspace = workspace;
  e->threads = threads;
  e->generation = lib_generation;
  e->running = 0;
  e->used = ++now;
  misses++;
  return e;
}

void plan_counts(int *entries, uint64_t *hit, uint64_t *miss) {
  *entries = 0;
  for (int s = 0; s < SETS; s++)
    for (int w = 0; w < WAYS; w++) *entries += table[s][w].key != NULL;
  *hit = hits;
  *miss = misses;
}

/* ---- threads ---- */

int threads_fixed;
static unsigned threads_generation; /* the load that threads_told was told to */

/* The library's count follows torch.get_num_threads() unless it was set. */
int threads_sync(void) {
  int want = threads_fixed;
  if (!want) {
    PyObject *n = PyObject_CallNoArgs(torch.get_num_threads);
    if (!n) return -1;
    want = (int)PyLong_AsLong(n);
    Py_DECREF(n);
    if (want == -1 && PyErr_Occurred()) return -1;
  }
  if (want <= 0 || (want == threads_told && threads_generation == lib_generation)) return 0;
  char err[ERR_SIZE] = "";
  isobit_status status = lib.set_num_threads(want, err, sizeof err);
  if (status == ISOBIT_INVALID_ARGUMENT) /* isobit.set_num_threads takes no such number */
    PyErr_Format(argument_error, "isobit: torch.get_num_threads() is %d; want 1 to 1024, or isobit.set_num_threads(n)",
                 want);
  else if (status)
    lib_raise(status, err);
  if (status) return -1;
  threads_told = want;
  threads_generation = lib_generation;
  return 0;
}

/* ---- run ---- */

enum { SMALL_WORKSPACE = 8192, ALIGN = 64 };
/* Runs on fewer elements stay on this thread and end in about the time that
 * it takes to hand the GIL over and back. */
static const uint64_t SMALL_RUN = 4096;

/* Device memory comes from torch's allocator, so that it is right for streams and graph capture. */
static PyObject *device_workspace(const tensor_arg *a, uint64_t size) {
  PyObject *args = Py_BuildValue("(K)", (unsigned long long)size), *result = NULL;
  int bytes = find_dtype(kDLUInt, 8);
  if (args && bytes >= 0) {
    PyObject *device = PyUnicode_FromFormat("cuda:%d", (int)a->t.device.device_id);
    PyObject *kw = Py_BuildValue("{sOsN}", "dtype", torch.dtypes[bytes].object, "device", device);
    if (kw) result = PyObject_Call(torch.empty, args, kw);
    Py_XDECREF(kw);
  }
  Py_XDECREF(args);
  if (!result && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "isobit: no workspace for this device");
  return result;
}

/* torch's current stream on a tensor's device. */
static int current_stream(const tensor_arg *a, void **stream) {
  if (a->api) return a->api->current_work_stream(a->t.device.device_type, a->t.device.device_id, stream);
  PyObject *raw = PyObject_CallFunction(torch.raw_stream, "i", (int)a->t.device.device_id);
  if (!raw) return -1;
  *stream = PyLong_AsVoidPtr(raw);
  Py_DECREF(raw);
  return PyErr_Occurred() ? -1 : 0;
}

int plan_check(isobit_plan handle, const tensor_arg *args, const unsigned char *present, int n) {
  const DLTensor *pointers[MAX_ARGS];
  char err[ERR_SIZE] = "";
  for (int i = 0; i < n; i++) pointers[i] = present[i] ? &args[i].t : NULL;
  isobit_status status = lib.plan_can_implement(handle, pointers, n, err, sizeof err);
  if (status) lib_raise(status, err);
  return status ? -1 : 0;
}

/* Memory for a plan's intermediate results. */
typedef struct {
  void *address;
  void *heap; /* to be freed; else NULL */
  PyObject *on_device; /* the tensor that owns it, on a GPU; else NULL */
  char stack[SMALL_WORKSPACE + ALIGN];
} workspace;

static int find_workspace(workspace *w, uint64_t size, const tensor_arg *on_gpu) {
  w->address = w->heap = NULL;
  w->on_device = NULL;
  if (!size) return 0;
  if (on_gpu) {
    w->on_device = device_workspace(on_gpu, size);
    PyObject *address = w->on_device ? PyObject_CallMethod(w->on_device, "data_ptr", NULL) : NULL;
    if (address) w->address = PyLong_AsVoidPtr(address);
    Py_XDECREF(address);
    if (!PyErr_Occurred()) return 0;
    Py_XDECREF(w->on_device);
    return -1;
  }
  if (size <= SMALL_WORKSPACE) {
    w->address = (void *)(((uintptr_t)w->stack + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    return 0;
  }
  if (posix_memalign(&w->heap, ALIGN, size)) {
    PyErr_Format(PyExc_MemoryError, "isobit: no memory for a workspace of %llu bytes", (unsigned long long)size);
    return -1;
  }
  use_huge_pages(w->heap, (int64_t)size);
  w->address = w->heap;
  return 0;
}

static void release_workspace(workspace *w) {
  free(w->heap);
  Py_XDECREF(w->on_device);
}

int plan_run(isobit_plan handle, uint64_t workspace_size, tensor_arg *args, const unsigned char *present, int n) {
  const DLTensor *pointers[MAX_ARGS];
  const tensor_arg *on_gpu = NULL; /* the first tensor on a GPU */
  uint64_t elements = 0;
  for (int i = 0; i < n; i++) {
    pointers[i] = present[i] ? &args[i].t : NULL;
    if (!present[i]) continue;
    elements += (uint64_t)tensor_count(&args[i].t);
    if (!on_gpu && is_cuda(args[i].t.device)) on_gpu = &args[i];
  }
  void *stream = NULL;
  if (on_gpu && current_stream(on_gpu, &stream)) return -1;
  int small = !on_gpu && elements < SMALL_RUN;
  if (!small && threads_sync()) return -1;
  workspace w;
  if (find_workspace(&w, workspace_size, on_gpu)) return -1;

  isobit_status status;
  char err[ERR_SIZE];
  err[0] = 0;
  if (small) {
    status = lib.plan_run(handle, stream, w.address, workspace_size, pointers, n, err, sizeof err);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    status = lib.plan_run(handle, stream, w.address, workspace_size, pointers, n, err, sizeof err);
    Py_END_ALLOW_THREADS;
  }
  release_workspace(&w);
  if (status) lib_raise(status, err);
  return status ? -1 : 0;
}
