/* _C: what Python calls. The package's own modules use it; users have isobit.*. */
#include "_C.h"

#include <string.h>

/* ---- set-up ---- */

/* Keeps an object in the place of the one before, if any. */
static PyObject *keep(PyObject **place, PyObject *object) {
  Py_INCREF(object);
  Py_XDECREF(*place);
  *place = object;
  Py_RETURN_NONE;
}

static PyObject *set_finder(PyObject *module, PyObject *finder) {
  (void)module;
  return keep(&lib_finder, finder);
}

static PyObject *set_error(PyObject *module, PyObject *type) {
  (void)module;
  return keep(&argument_error, type);
}

static int add_dtype(PyObject *item, PyObject *cpu) {
  int code, bits;
  torch_dtype *d = &torch.dtypes[torch.n_dtypes];
  if (torch.n_dtypes == MAX_DTYPES || !PyArg_ParseTuple(item, "Oiis", &d->object, &code, &bits, &d->name)) return -1;
  d->code = (uint8_t)code;
  d->bits = (uint8_t)bits;
  d->kw = Py_BuildValue("{sO}", "dtype", d->object);
  d->kw_cpu = Py_BuildValue("{sOsO}", "dtype", d->object, "device", cpu);
  if (!d->kw || !d->kw_cpu) return -1;
  Py_INCREF(item); /* for what it holds */
  torch.n_dtypes++;
  return 0;
}

static int set_dtypes(PyObject *dtypes, PyObject *cpu) {
  torch.n_dtypes = 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(dtypes); i++)
    if (!cpu || add_dtype(PyTuple_GetItem(dtypes, i), cpu)) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "set_torch: malformed dtypes");
      return -1;
    }
  return 0;
}

/* set_torch(functions: dict, dtypes: tuple[(dtype, code, bits, name)]): called once, at import */
static PyObject *set_torch(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *functions, *dtypes;
  if (!PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &functions, &PyTuple_Type, &dtypes)) return NULL;
  const struct {
    const char *name;
    PyObject **object;
    torch_function *function;
  } wanted[] = {
      {"Tensor", &torch.types[0], NULL},
      {"Parameter", &torch.types[1], NULL},
      {"elsewhere", &torch.elsewhere, NULL},
      {"empty", &torch.empty, NULL},
      {"empty_like", &torch.empty_like, NULL},
      {"is_neg", &torch.is_neg, NULL},
      {"get_num_threads", &torch.get_num_threads, NULL},
      {"raw_stream", &torch.raw_stream, NULL},
      {"forward_ad", &torch.forward_ad, NULL},
      {"sees_functions", &torch.sees_functions, NULL},
      {"profiler", &torch.profiler, NULL},
      {"empty_strided_cpu", NULL, &torch.empty_strided_cpu},
      {"increment_version", NULL, &torch.increment_version},
      {"is_grad_enabled", NULL, &torch.is_grad_enabled},
      {"is_autocast_enabled", NULL, &torch.is_autocast_enabled},
      {"transforms_are_active", NULL, &torch.transforms_are_active},
      {"in_inference_mode", NULL, &torch.in_inference_mode},
      {"dispatch_modes", NULL, &torch.dispatch_modes},
      {"function_modes", NULL, &torch.function_modes},
      {"tracing_state", NULL, &torch.tracing_state},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    PyObject *found = PyDict_GetItemString(functions, wanted[i].name);
    if (!found) return PyErr_Format(PyExc_KeyError, "set_torch: %s is missing", wanted[i].name);
    Py_INCREF(found);
    if (wanted[i].object)
      *wanted[i].object = found;
    else
      find_function(wanted[i].function, found);
  }
  torch.device = PyUnicode_InternFromString("device");
  torch.current_level = PyUnicode_InternFromString("_current_level");
  torch.is_profiling = PyUnicode_InternFromString("_is_profiler_enabled");
  if (!torch.device || !torch.current_level || !torch.is_profiling ||
      property_named(&torch.requires_grad, torch.types[0], "requires_grad") ||
      property_named(&torch.version, torch.types[0], "_version"))
    return NULL;
  if (set_dtypes(dtypes, PyDict_GetItemString(functions, "cpu"))) return NULL;
  Py_RETURN_NONE;
}

/* ---- the rest ---- */

/* set_num_threads(n): 0 follows torch again */
static PyObject *set_num_threads(PyObject *module, PyObject *count) {
  (void)module;
  int n = (int)PyLong_AsLong(count), before = threads_fixed; /* Python looked at its range */
  if (PyErr_Occurred() || lib_ready()) return NULL;
  threads_fixed = n;
  if (threads_sync()) {
    threads_fixed = before;
    return NULL;
  }
  Py_RETURN_NONE;
}

static PyObject *get_num_threads(PyObject *module, PyObject *none) {
  (void)module, (void)none;
  if (threads_fixed) return PyLong_FromLong(threads_fixed);
  return PyObject_CallNoArgs(torch.get_num_threads);
}

static PyObject *set_huge_pages(PyObject *module, PyObject *on) {
  (void)module;
  int value = PyObject_IsTrue(on);
  if (value < 0) return NULL;
  huge_pages = value;
  Py_RETURN_NONE;
}

static PyObject *get_huge_pages(PyObject *module, PyObject *none) {
  (void)module, (void)none;
  return PyBool_FromLong(huge_pages);
}

/* use_huge_pages(address, bytes), of memory that was not written yet */
static PyObject *huge_pages_for(PyObject *module, PyObject *args) {
  (void)module;
  unsigned long long address;
  long long bytes;
  if (!PyArg_ParseTuple(args, "KL", &address, &bytes)) return NULL;
  use_huge_pages((void *)(uintptr_t)address, bytes);
  Py_RETURN_NONE;
}

static PyObject *path(PyObject *module, PyObject *none) { return (void)module, (void)none, lib_path(); }

static PyObject *version(PyObject *module, PyObject *none) {
  (void)module, (void)none;
  return lib_ready() ? NULL : PyUnicode_FromString(lib.version());
}

/* generation() -> int: a handle of plan_create is good while this stays (a forked child loads anew) */
static PyObject *generation(PyObject *module, PyObject *none) {
  (void)module, (void)none;
  return lib_ready() ? NULL : PyLong_FromUnsignedLong(lib_generation);
}

static PyObject *is_loaded(PyObject *module, PyObject *none) {
  (void)module, (void)none;
  return PyBool_FromLong(lib_usable);
}

static PyObject *cache_info(PyObject *module, PyObject *none) {
  (void)module, (void)none;
  int entries;
  uint64_t hits, misses;
  plan_counts(&entries, &hits, &misses);
  return Py_BuildValue("iKK", entries, (unsigned long long)hits, (unsigned long long)misses);
}

static PyMethodDef methods[] = {
    {"set_finder", set_finder, METH_O, NULL},
    {"set_error", set_error, METH_O, NULL},
    {"set_torch", set_torch, METH_VARARGS, NULL},
    {"define", op_define, METH_VARARGS, NULL},
    {"set_function", op_set_function, METH_VARARGS, NULL},
    {"plan_create", plan_create, METH_VARARGS, NULL},
    {"plan_call", (PyCFunction)(void (*)(void))plan_call, METH_FASTCALL, NULL},
    {"plan_workspace_size", plan_workspace_size, METH_O, NULL},
    {"plan_destroy", plan_destroy, METH_O, NULL},
    {"plan_describe", plan_describe, METH_O, NULL},
    {"support", support, METH_NOARGS, NULL},
    {"info", info, METH_NOARGS, NULL},
    {"set_num_threads", set_num_threads, METH_O, NULL},
    {"get_num_threads", get_num_threads, METH_NOARGS, NULL},
    {"set_huge_pages", set_huge_pages, METH_O, NULL},
    {"get_huge_pages", get_huge_pages, METH_NOARGS, NULL},
    {"use_huge_pages", huge_pages_for, METH_VARARGS, NULL},
    {"path", path, METH_NOARGS, NULL},
    {"version", version, METH_NOARGS, NULL},
    {"generation", generation, METH_NOARGS, NULL},
    {"is_loaded", is_loaded, METH_NOARGS, NULL},
    {"cache_info", cache_info, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "isobit._C",
    "The C side of isobit. Use the functions of isobit instead.",
    -1,
    methods,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__C(void) {
  static int is_watching; /* the module may be made again */
  if (!is_watching && lib_watch_forks()) return PyErr_NoMemory();
  is_watching = 1;
  return PyModule_Create(&definition);
}
