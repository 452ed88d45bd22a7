/* Plans by the text of their problem: isobit.Plan. */
#include "_C.h"

#include <string.h>

/* ---- handles ---- */

static PyObject *checked(isobit_status status, const char *err) {
  if (!status) Py_RETURN_NONE;
  lib_raise(status, err);
  return NULL;
}

/* plan_create(problem, row, max_workspace, num_threads) -> handle */
PyObject *plan_create(PyObject *module, PyObject *args) {
  (void)module;
  isobit_preference p = {.struct_size = sizeof p, .mark_names = 1};
  const char *problem;
  long long limit;
  int threads;
  if (!PyArg_ParseTuple(args, "szLi", &problem, &p.row, &limit, &threads) || lib_ready()) return NULL;
  p.max_workspace = limit;
  p.num_threads = threads;
  uint64_t workspace;
  isobit_plan handle = make_plan(problem, &p, &workspace);
  return handle ? PyLong_FromUnsignedLongLong(handle) : NULL;
}

PyObject *plan_workspace_size(PyObject *module, PyObject *handle) {
  (void)module;
  uint64_t bytes = 0;
  char err[ERR_SIZE] = "";
  unsigned long long h = PyLong_AsUnsignedLongLong(handle);
  if (PyErr_Occurred() || lib_ready()) return NULL;
  isobit_status status = lib.plan_workspace_size(h, &bytes, err, sizeof err);
  if (status) return checked(status, err);
  return PyLong_FromUnsignedLongLong(bytes);
}

PyObject *plan_destroy(PyObject *module, PyObject *handle) {
  (void)module;
  char err[ERR_SIZE] = "";
  unsigned long long h = PyLong_AsUnsignedLongLong(handle);
  if (PyErr_Occurred() || lib_ready()) return NULL;
  return checked(lib.plan_destroy(h, err, sizeof err), err);
}

/* ---- a run ---- */

/* How messages call the arguments of a plan, which the extension has no names of. */
static const char *const positions[MAX_ARGS] = {"tensor 0", "tensor 1", "tensor 2",  "tensor 3",
                                                "tensor 4", "tensor 5", "tensor 6",  "tensor 7",
                                                "tensor 8", "tensor 9", "tensor 10", "tensor 11"};

/* A call: its tensors, and which of them are written. */
typedef struct {
  tensor_arg args[MAX_ARGS];
  unsigned char present[MAX_ARGS];
  PyObject *written[MAX_ARGS]; /* torch's, borrowed */
  int n, n_written;
} plan_args;

static int take_written(plan_args *c, int i) {
  tensor_arg *a = &c->args[i];
  if (a->read_only) {
    int is_copy = a->read_only == DLPACK_FLAG_BITMASK_IS_COPIED;
    const char *what = is_copy ? "a copy, as its __dlpack__ says," : "read-only";
    PyErr_Format(argument_error, "isobit: %s is %s and would be written", positions[i], what);
    return -1;
  }
  if (!is_torch(a->object)) return 0;
  int wants = wants_gradient(a->object, &a->t);
  if (wants > 0)
    PyErr_Format(PyExc_RuntimeError, "isobit: %s: an output requires a gradient; use torch.no_grad()", positions[i]);
  int is_inference = wants ? 0 : is_inference_tensor(a->object);
  if (is_inference > 0)
    PyErr_Format(PyExc_RuntimeError, "isobit: %s: an output is an inference tensor; want a clone, or inference mode",
                 positions[i]);
  c->written[c->n_written++] = a->object;
  return wants || is_inference ? -1 : 0;
}

static int take_all(plan_args *c, PyObject *tensors, PyObject *writes) {
  Py_ssize_t n = PyTuple_Size(tensors), n_writes = PyTuple_Size(writes);
  if (n > MAX_ARGS) {
    PyErr_Format(argument_error, "isobit: %zd tensors came; want at most %d", n, MAX_ARGS);
    return -1;
  }
  for (; c->n < n; c->n++) {
    int i = c->n;
    PyObject *o = PyTuple_GetItem(tensors, i);
    if (!(c->present[i] = o != Py_None)) continue;
    if (tensor_take(o, &c->args[i], "isobit", positions[i]) ||
        (i < n_writes && PyTuple_GetItem(writes, i) == Py_True && take_written(c, i))) {
      c->n++;
      return -1;
    }
  }
  return 0;
}

/* Tells autograd of all writes. */
static int count_written(const plan_args *c) {
  if (!c->n_written) return 0;
  PyObject *tensors = PyTuple_New(c->n_written);
  for (int i = 0; tensors && i < c->n_written; i++) {
    Py_INCREF(c->written[i]);
    PyTuple_SetItem(tensors, i, c->written[i]);
  }
  int failed = !tensors || increment_versions(tensors);
  Py_XDECREF(tensors);
  return failed ? -1 : 0;
}

/* plan_call(plan, tensors, run): checks, and runs where run is true. plan is the tuple of the handle, the generation
 * that it is good for, the size of its workspace, and, per tensor, whether it is written. None is an absent tensor.
 * False, with nothing done, where the generation is another one. */
PyObject *plan_call(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
  (void)module, (void)nargs;
  if (lib_ready()) return NULL;
  unsigned long long handle = PyLong_AsUnsignedLongLong(PyTuple_GetItem(args[0], 0));
  unsigned long long generation = PyLong_AsUnsignedLongLong(PyTuple_GetItem(args[0], 1));
  unsigned long long workspace = PyLong_AsUnsignedLongLong(PyTuple_GetItem(args[0], 2));
  if (PyErr_Occurred()) return NULL;
  if (generation != lib_generation) Py_RETURN_FALSE;
  int run = args[2] == Py_True, failed;
  plan_args c;
  c.n = c.n_written = 0;
  failed = take_all(&c, args[1], PyTuple_GetItem(args[0], 3));
  if (!failed && run) {
    failed = plan_run(handle, workspace, c.args, c.present, c.n) || count_written(&c);
  } else if (!failed) {
    failed = plan_check(handle, c.args, c.present, c.n);
  }
  for (int i = 0; i < c.n; i++)
    if (c.present[i]) tensor_release(&c.args[i]);
  if (failed) return NULL;
  Py_RETURN_TRUE;
}

/* ---- texts of the library: asked for its size, then for the text ---- */

enum { DESCRIBE, SUPPORT, INFO };

static isobit_status ask(int what, isobit_plan handle, char *buffer, size_t size, size_t *needed, char *err) {
  isobit_status status;
  Py_BEGIN_ALLOW_THREADS; /* info opens the driver of GPUs */
  if (what == DESCRIBE)
    status = lib.plan_describe(handle, buffer, size, needed, err, ERR_SIZE);
  else
    status = (what == SUPPORT ? lib.support : lib.info)(buffer, size, needed, err, ERR_SIZE);
  Py_END_ALLOW_THREADS;
  return status;
}

static PyObject *text_of(int what, isobit_plan handle) {
  char err[ERR_SIZE] = "";
  size_t size = 0, needed = 0;
  if (lib_ready()) return NULL;
  isobit_status status = ask(what, handle, NULL, 0, &needed, err);
  char *buffer = NULL;
  while (needed > size) { /* again if a thread of the host's made it longer meanwhile */
    PyMem_Free(buffer);
    size = needed;
    if (!(buffer = PyMem_Malloc(size))) return PyErr_NoMemory();
    status = ask(what, handle, buffer, size, &needed, err);
  }
  PyObject *text = status || !buffer ? checked(status, err) : PyUnicode_FromString(buffer);
  PyMem_Free(buffer);
  return text;
}

PyObject *plan_describe(PyObject *module, PyObject *handle) {
  (void)module;
  unsigned long long h = PyLong_AsUnsignedLongLong(handle);
  return PyErr_Occurred() ? NULL : text_of(DESCRIBE, h);
}
PyObject *support(PyObject *module, PyObject *none) { return (void)module, (void)none, text_of(SUPPORT, 0); }
PyObject *info(PyObject *module, PyObject *none) { return (void)module, (void)none, text_of(INFO, 0); }
