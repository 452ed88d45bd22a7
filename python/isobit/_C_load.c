/* Finds and opens libisobit, on first use and again in a forked child. */
#define _GNU_SOURCE
#include "_C.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif

library lib;
int lib_usable;
unsigned lib_generation;
PyObject *argument_error;
PyObject *lib_finder;

static char *loaded_path;
static void *loaded; /* also a library that lacks something: one that was opened stays */

/* Go's threads start with the floating-point control state of the thread that
 * loads the library: it must be the default one, whatever the caller set. */
static void *open_with_default_floats(const char *path) {
#if defined(__x86_64__)
  unsigned saved = _mm_getcsr();
  _mm_setcsr(0x1F80);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  _mm_setcsr(saved);
#else
  fenv_t saved;
  fegetenv(&saved);
  fesetenv(FE_DFL_ENV);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  fesetenv(&saved);
#endif
  return handle;
}

/* Go does not survive fork(): its threads are gone in the child. The child
 * forgets the library, and loads a copy of its own if it needs one. Only the
 * forking thread lives on, and it held the GIL, so no state here is torn. */
static int is_forked;

static void forget_in_child(void) {
  lib_usable = 0;
  loaded = NULL;
  is_forked = 1;
}

int lib_watch_forks(void) { return pthread_atfork(NULL, NULL, forget_in_child); }

#if defined(__linux__)
static int copy_file(int from, int to) {
  char buffer[1 << 16];
  for (;;) {
    ssize_t n = read(from, buffer, sizeof buffer);
    if (n == 0) return 0;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    for (ssize_t done = 0; done < n;) {
      ssize_t w = write(to, buffer + done, (size_t)(n - done));
      if (w < 0 && errno == EINTR) continue;
      if (w < 0) return -1;
      done += w;
    }
  }
}

/* The loader would answer a name that it has seen with that library, and a
 * child of a child may get its parent's number again: a slash for each load
 * keeps the names apart. */
static void *open_descriptor(int fd) {
  const char folder[] = "/proc/self/fd/";
  char name[sizeof folder + 1024 + 16];
  size_t slashes = lib_generation % 1024;
  memcpy(name, folder, sizeof folder);
  memset(name + strlen(folder), '/', slashes);
  PyOS_snprintf(name + strlen(folder) + slashes, 16, "%d", fd);
  return open_with_default_floats(name);
}

/* The loader would answer the same path with the parent's copy, which is dead
 * here. A file in memory with the same content is another library to it. */
static void *open_copy(const char *path) {
  void *handle = NULL;
  const char *why = NULL;
  int from = open(path, O_RDONLY | O_CLOEXEC);
  int to = memfd_create("libisobit.so", MFD_CLOEXEC);
  if (from < 0 || to < 0 || copy_file(from, to) < 0)
    why = strerror(errno);
  else if (!(handle = open_descriptor(to)))
    why = dlerror();
  if (!handle)
    PyErr_Format(PyExc_RuntimeError,
                 "isobit: this process is a fork of one that had loaded %s, and loading a copy failed: %s. "
                 "Start workers with the spawn or forkserver method instead",
                 path, why ? why : "unknown error");
  if (from >= 0) close(from);
  if (to >= 0) close(to);
  return handle;
}
#else
static void *open_copy(const char *path) {
  PyErr_Format(PyExc_RuntimeError,
               "isobit: this process is a fork of one that had loaded %s, which only works on Linux. "
               "Start workers with the spawn or forkserver method instead",
               path);
  return NULL;
}
#endif

static void *open_first(void) {
  if (!lib_finder) {
    PyErr_SetString(PyExc_RuntimeError, "isobit._C: set_finder was not called");
    return NULL;
  }
  PyObject *path = PyObject_CallNoArgs(lib_finder);
  if (!path) return NULL;
  const char *text = PyUnicode_AsUTF8AndSize(path, NULL);
  void *handle = NULL;
  if (text) {
    handle = open_with_default_floats(text);
    if (!handle) {
      const char *why = dlerror();
      PyErr_Format(PyExc_RuntimeError, "isobit: loading %s failed: %s", text, why ? why : "unknown error");
    } else {
      loaded_path = strdup(text);
    }
  }
  Py_DECREF(path);
  return handle;
}

/* PyTorch computes on OpenMP's threads, which look out for more work after each
 * op. Other threads would only get into their way. The team is always of the
 * size that torch.set_num_threads gave it, unless isobit.set_num_threads asks for
 * more: another size costs new threads. */
static void (*omp_parallel)(void (*body)(void *), void *data, unsigned threads, unsigned flags);
static int (*omp_max_threads)(void);

static void on_torch_threads(void (*body)(void *), void *data, int32_t max_threads) {
  unsigned as_torch = 0;
  omp_parallel(body, data, max_threads > omp_max_threads() ? (unsigned)max_threads : as_torch, 0);
}

/* In a forked child OpenMP's threads are gone; isobit has its own there. */
static int use_torch_threads(void) {
  char err[ERR_SIZE] = "";
  void *parallel = dlsym(RTLD_DEFAULT, "GOMP_parallel"), *max_threads = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
  if (is_forked || !parallel || !max_threads) return 0;
  memcpy(&omp_parallel, &parallel, sizeof parallel);
  memcpy(&omp_max_threads, &max_threads, sizeof max_threads);
  isobit_status status = lib.set_parallel(on_torch_threads, err, sizeof err);
  if (status != ISOBIT_OK) lib_raise(status, err);
  return status == ISOBIT_OK ? 0 : -1;
}

int lib_load(void) {
  if (!loaded) loaded = loaded_path ? open_copy(loaded_path) : open_first();
  if (!loaded) return -1;
  if (lib_usable) return 0; /* another thread was first, while the finder ran */
  struct {
    const char *name;
    void *slot;
  } symbols[] = {
      {"isobit_version", &lib.version},
      {"isobit_abi_version", &lib.abi_version},
      {"isobit_plan_create", &lib.plan_create},
      {"isobit_plan_can_implement", &lib.plan_can_implement},
      {"isobit_plan_workspace_size", &lib.plan_workspace_size},
      {"isobit_plan_describe", &lib.plan_describe},
      {"isobit_plan_run", &lib.plan_run},
      {"isobit_plan_destroy", &lib.plan_destroy},
      {"isobit_set_num_threads", &lib.set_num_threads},
      {"isobit_get_num_threads", &lib.get_num_threads},
      {"isobit_set_parallel", &lib.set_parallel},
      {"isobit_support", &lib.support},
      {"isobit_info", &lib.info},
  };
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *address = dlsym(loaded, symbols[i].name);
    if (!address) {
      PyErr_Format(PyExc_RuntimeError, "isobit: %s lacks %s: it is another or an older library", loaded_path,
                   symbols[i].name);
      return -1;
    }
    memcpy(symbols[i].slot, &address, sizeof address);
  }
  if (lib.abi_version() != ISOBIT_ABI_VERSION) {
    PyErr_Format(PyExc_RuntimeError, "isobit: %s has ABI version %d, this package needs %d", loaded_path,
                 (int)lib.abi_version(), ISOBIT_ABI_VERSION);
    return -1;
  }
  if (use_torch_threads() < 0) return -1;
  lib_generation++;
  lib_usable = 1;
  return 0;
}

PyObject *lib_path(void) {
  if (!loaded_path) Py_RETURN_NONE;
  return PyUnicode_FromString(loaded_path);
}

void lib_raise(isobit_status status, const char *message) {
  PyObject *type = PyExc_RuntimeError;
  if (status == ISOBIT_INVALID_PROBLEM || status == ISOBIT_INVALID_ARGUMENT) type = argument_error;
  if (status == ISOBIT_UNSUPPORTED) type = PyExc_NotImplementedError;
  PyErr_SetString(type, message[0] ? message : "isobit: the library gave no message");
}
