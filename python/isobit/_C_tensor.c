/* Python objects to DLTensor: by the exchange table of their type where it has
 * one (PyTorch 2.10 and later), otherwise by __dlpack__. */
#include "_C.h"

#include <string.h>

/* ---- the exchange table, looked up once per type ---- */

enum { TYPE_CACHE = 16 };
static struct {
  PyTypeObject *type;
  const DLPackExchangeAPI *api;
} types[TYPE_CACHE];
static int n_types;

static const DLPackExchangeAPI *look_up_api(PyTypeObject *type) {
  PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
  const DLPackExchangeAPIHeader *api = NULL;
  if (capsule) {
    if (PyCapsule_IsValid(capsule, "dlpack_exchange_api")) api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule);
  }
  PyErr_Clear();
  while (api && api->version.major != DLPACK_MAJOR_VERSION) api = api->prev_api;
  const DLPackExchangeAPI *table = (const DLPackExchangeAPI *)api;
  return table && table->dltensor_from_py_object_no_sync ? table : NULL;
}

static const DLPackExchangeAPI *exchange_api(PyTypeObject *type) {
  for (int i = 0; i < n_types; i++)
    if (types[i].type == type) return types[i].api;
  const DLPackExchangeAPI *api = look_up_api(type);
  if (n_types < TYPE_CACHE) {
    Py_INCREF((PyObject *)type); /* so that no other type gets its address */
    types[n_types].type = type;
    types[n_types++].api = api;
  }
  return api;
}

/* ---- __dlpack__ ---- */

static PyObject *call_dlpack(PyObject *object, PyObject *stream) {
  PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
  if (!method) return NULL;
  PyObject *empty = PyTuple_New(0),
           *kw = Py_BuildValue("{s(ii)}", "max_version", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  PyObject *capsule = NULL;
  if (empty && kw && (!stream || PyDict_SetItemString(kw, "stream", stream) == 0)) {
    capsule = PyObject_Call(method, empty, kw);
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) { /* a producer older than DLPack 1.0 */
      PyErr_Clear();
      PyDict_DelItemString(kw, "max_version");
      capsule = PyObject_Call(method, empty, kw);
    }
  }
  Py_XDECREF(empty);
  Py_XDECREF(kw);
  Py_DECREF(method);
  return capsule;
}

/* The stream on which the producer must have finished: PyTorch's current one. */
static int producer_stream(PyObject *object, PyObject **stream, const char *op, const char *name) {
  *stream = NULL;
  PyObject *device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  int type = 0, index = 0;
  if (!device) return -1;
  int is_pair = PyTuple_Check(device) && PyArg_ParseTuple(device, "ii", &type, &index);
  if (!is_pair) PyErr_Format(PyExc_TypeError, "%s: %s: its __dlpack_device__ gave %R; want two ints", op, name, device);
  Py_DECREF(device);
  if (!is_pair) return -1;
  if (type != kDLCUDA && type != kDLCUDAManaged) return 0;
  PyObject *raw = PyObject_CallFunction(torch.raw_stream, "i", index);
  if (!raw) return -1;
  if (PyLong_AsLongLong(raw) == 0) { /* DLPack's name for the default stream is 1 */
    Py_DECREF(raw);
    raw = PyLong_FromLong(1);
  }
  *stream = raw;
  return raw ? 0 : -1;
}

/* PyTorch before 2.10 exports neither a tensor that requires a gradient nor, where
 * as_bytes, one of 8-bit floats. */
static PyObject *exportable(PyObject *object, int as_bytes) {
  PyObject *detached = PyObject_CallMethod(object, "detach", NULL);
  if (!detached || !as_bytes) return detached;
  PyObject *bytes = PyObject_CallMethod(detached, "view", "O", torch.dtypes[find_dtype(kDLUInt, 8)].object);
  Py_DECREF(detached);
  return bytes;
}

/* The 8-bit float type of a tensor of torch's, or NULL. */
static const torch_dtype *float8_of(PyObject *tensor) {
  PyObject *dtype = PyObject_GetAttrString(tensor, "dtype");
  const torch_dtype *found = NULL;
  for (int i = 0; dtype && i < torch.n_dtypes; i++) {
    const torch_dtype *d = &torch.dtypes[i];
    if (d->object == dtype && d->bits == 8 && d->code != kDLInt && d->code != kDLUInt) found = d;
  }
  Py_XDECREF(dtype);
  PyErr_Clear();
  return found;
}

/* Takes what a capsule of __dlpack__ holds: 0, or -1 with an exception. */
static int open_capsule(PyObject *capsule, tensor_arg *a, const char *op, const char *name) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    DLManagedTensorVersioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    PyCapsule_SetName(capsule, "used_dltensor_versioned");
    a->versioned = m;
    if (m->version.major != DLPACK_MAJOR_VERSION) {
      PyErr_Format(PyExc_TypeError, "%s: %s speaks DLPack %u; want %d", op, name, m->version.major,
                   DLPACK_MAJOR_VERSION);
      return -1;
    }
    a->t = m->dl_tensor;
    a->read_only = (int)(m->flags & (DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED));
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    a->unversioned = PyCapsule_GetPointer(capsule, "dltensor");
    PyCapsule_SetName(capsule, "used_dltensor");
    a->t = a->unversioned->dl_tensor;
  } else {
    PyErr_Format(PyExc_TypeError, "%s: %s: its __dlpack__ gave no DLPack capsule", op, name);
    return -1;
  }
  if (a->t.ndim < 0 || (a->t.ndim > 0 && !a->t.shape)) {
    PyErr_Format(PyExc_TypeError, "%s: %s: its __dlpack__ gave %d dimensions without a shape", op, name,
                 (int)a->t.ndim);
    return -1;
  }
  return 0;
}

static int take_by_dlpack(PyObject *object, tensor_arg *a, const char *op, const char *name) {
  if (!PyObject_HasAttrString(object, "__dlpack__") || !PyObject_HasAttrString(object, "__dlpack_device__")) {
    PyObject *type = PyType_GetName(Py_TYPE(object));
    PyErr_Format(PyExc_TypeError, "%s: %s must be a tensor, not %V", op, name, type, "this object");
    Py_XDECREF(type);
    return -1;
  }
  PyObject *stream, *capsule = NULL;
  const torch_dtype *float8 = is_torch(object) ? float8_of(object) : NULL;
  PyObject *exported = is_torch(object) ? exportable(object, float8 != NULL) : (Py_INCREF(object), object);
  if (!exported) return -1;
  if (producer_stream(exported, &stream, op, name) == 0) capsule = call_dlpack(exported, stream);
  Py_DECREF(exported);
  Py_XDECREF(stream);
  if (!capsule) return -1;
  int result = open_capsule(capsule, a, op, name);
  if (float8) a->t.dtype = (DLDataType){float8->code, float8->bits, 1};
  Py_DECREF(capsule);
  return result;
}

/* ---- both ---- */

static int check_memory(const tensor_arg *a, const char *op, const char *name) {
  if (!a->t.data && tensor_count(&a->t) != 0) {
    PyErr_Format(argument_error, "%s: %s has no memory (a fake, meta or otherwise symbolic tensor)", op, name);
    return -1;
  }
  /* The table, and __dlpack__ before PyTorch 2.10, answer a negative view with its bytes as they lie. */
  if (!is_float_dtype(a->t.dtype)) return 0;
  int is_neg = is_negative(a->object);
  if (is_neg < 0) {
    PyErr_Clear(); /* not torch's tensor: it has no such bit */
    return 0;
  }
  if (is_neg) PyErr_Format(argument_error, "%s: %s is a negative view: call resolve_neg() first", op, name);
  return is_neg ? -1 : 0;
}

/* Says which argument an exception of torch's is about, in the first line of what it says. */
static void name_failure(const char *op, const char *name) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  PyObject *lines = text ? PyObject_CallMethod(text, "splitlines", NULL) : NULL;
  PyObject *first = lines && PyList_Size(lines) > 0 ? PyList_GetItem(lines, 0) : NULL;
  PyErr_Clear();
  if (first)
    PyErr_Format(PyExc_TypeError, "%s: %s cannot be read as a DLPack tensor: %S", op, name, first);
  else
    PyErr_Format(PyExc_TypeError, "%s: %s cannot be read as a DLPack tensor", op, name);
  Py_XDECREF(lines);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

int tensor_read(PyObject *object, tensor_arg *a, const char *op, const char *name) {
  a->object = object;
  a->versioned = NULL;
  a->unversioned = NULL;
  a->read_only = 0;
  a->packed = NULL;
  a->api = exchange_api(Py_TYPE(object));
  int failed = a->api ? a->api->dltensor_from_py_object_no_sync(object, &a->t) : take_by_dlpack(object, a, op, name);
  if (failed) {
    if (a->api || is_torch(object) || PyErr_ExceptionMatches(PyExc_BufferError)) name_failure(op, name);
    return -1;
  }
  return 0;
}

int tensor_take(PyObject *object, tensor_arg *a, const char *op, const char *name) {
  return tensor_read(object, a, op, name) ? -1 : check_memory(a, op, name);
}

int tensor_number(PyObject *object, tensor_arg *a, int as_float) {
  int is_float = PyFloat_CheckExact(object);
  if (!is_float && !PyLong_CheckExact(object)) return 0;
  memset(a, 0, sizeof *a);
  a->object = object;
  if (is_float || as_float) {
    is_float = 1;
    a->scalar.f = PyFloat_AsDouble(object);
  } else {
    a->scalar.i = PyLong_AsLongLong(object);
  }
  if (PyErr_Occurred()) { /* an int that fits neither */
    PyErr_Clear();
    return 0;
  }
  a->t.data = &a->scalar;
  a->t.device.device_type = kDLCPU;
  a->t.dtype.code = is_float ? kDLFloat : kDLInt;
  a->t.dtype.bits = 64;
  a->t.dtype.lanes = 1;
  return 1;
}

void tensor_release(tensor_arg *a) {
  if (!a->versioned && !a->unversioned) return;
  PyObject *type, *value, *trace; /* a deleter may run Python, which an exception that is set disturbs */
  PyErr_Fetch(&type, &value, &trace);
  if (a->versioned && a->versioned->deleter) a->versioned->deleter(a->versioned);
  if (a->unversioned && a->unversioned->deleter) a->unversioned->deleter(a->unversioned);
  PyErr_Restore(type, value, trace);
}

int64_t tensor_count(const DLTensor *t) {
  uint64_t n = 1; /* of expanded tensors, and a producer's, it may exceed 64 bits; plans refuse them */
  for (int i = 0; i < t->ndim; i++) n *= (uint64_t)t->shape[i];
  return (int64_t)n;
}

const int64_t *tensor_shape(const tensor_arg *a, int64_t space[MAX_RANK]) {
  if (!a->packed) return a->t.shape;
  memcpy(space, a->t.shape, (size_t)a->t.ndim * sizeof *space);
  space[a->t.ndim - 1] = a->last;
  return space;
}

DLDataType tensor_dtype(const tensor_arg *a) {
  return a->packed ? (DLDataType){a->packed->code, a->packed->bits, 1} : a->t.dtype;
}

int find_dtype(uint8_t code, uint8_t bits) {
  for (int i = 0; i < torch.n_dtypes; i++)
    if (torch.dtypes[i].code == code && torch.dtypes[i].bits == bits) return i;
  return -1;
}

int is_float_dtype(DLDataType dtype) { return dtype.code == kDLFloat || dtype.code == kDLBfloat; }

const char *dtype_name(DLDataType dtype) {
  int found = find_dtype(dtype.code, dtype.bits);
  return found < 0 ? NULL : torch.dtypes[found].name;
}
