/* What torch is asked in every call. Functions and properties of torch that are written in C are called
 * by their C pointers: a call through Python takes twice as long. */
#include "_C.h"

torch_api torch;

int is_plain(PyObject *object) {
  PyObject *type = (PyObject *)Py_TYPE(object);
  return type == torch.types[0] || type == torch.types[1];
}

int is_torch(PyObject *object) { return PyType_IsSubtype(Py_TYPE(object), (PyTypeObject *)torch.types[0]); }

/* ---- calls ---- */

void find_function(torch_function *f, PyObject *callable) {
  f->callable = callable;
  f->flags = 0;
  if (Py_TYPE(callable) != &PyCFunction_Type) return;
  f->flags = PyCFunction_GetFlags(callable);
  f->self = PyCFunction_GetSelf(callable);
  f->function = PyCFunction_GetFunction(callable);
}

static PyObject *call_function(const torch_function *f) {
  if (f->flags == METH_NOARGS) return f->function(f->self, NULL);
  if (f->flags == (METH_FASTCALL | METH_KEYWORDS)) {
    typedef PyObject *(*with_keywords)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    return ((with_keywords)(void (*)(void))f->function)(f->self, NULL, 0, NULL);
  }
  return PyObject_CallNoArgs(f->callable);
}

PyObject *call_function_with(const torch_function *f, PyObject *args) {
  return f->flags == METH_VARARGS ? f->function(f->self, args) : PyObject_Call(f->callable, args, NULL);
}

int increment_versions(PyObject *tensors) {
  const torch_function *f = &torch.increment_version;
  PyObject *none =
      f->flags == METH_O ? f->function(f->self, tensors) : PyObject_CallFunctionObjArgs(f->callable, tensors, NULL);
  Py_XDECREF(none);
  return none ? 0 : -1;
}

/* Whether the answer is True: -1 with an exception. */
static int is_true_result(PyObject *answer) {
  if (!answer) return -1;
  int is_true = answer == Py_True;
  Py_DECREF(answer);
  return is_true;
}

int grad_is_enabled(void) { return is_true_result(call_function(&torch.is_grad_enabled)); }

int autocast_is_enabled(void) { return is_true_result(call_function(&torch.is_autocast_enabled)); }

int transform_is_active(void) { return is_true_result(call_function(&torch.transforms_are_active)); }

/* ---- modes ---- */

/* An attribute of a module, or NULL with an exception: a borrowed reference. */
static PyObject *item_of(PyObject *module, PyObject *name) {
  PyObject *found = PyDict_GetItemWithError(PyModule_GetDict(module), name);
  if (!found && !PyErr_Occurred()) PyErr_SetObject(PyExc_AttributeError, name);
  return found;
}

/* Whether a number is not 0: -1 with an exception. */
static int is_nonzero_result(PyObject *number) {
  if (!number) return -1;
  long n = PyLong_AsLong(number);
  Py_DECREF(number);
  return n == -1 && PyErr_Occurred() ? -1 : n != 0;
}

int mode_is_active(void) {
  int active = is_nonzero_result(call_function(&torch.dispatch_modes));
  if (active) return active;
  active = is_nonzero_result(call_function(&torch.function_modes));
  if (active > 0)
    active = is_true_result(PyObject_CallNoArgs(torch.sees_functions)); /* the default device is one, too */
  if (active) return active;
  PyObject *state = call_function(&torch.tracing_state);
  if (!state) return -1;
  active = state != Py_None;
  Py_DECREF(state);
  if (active) return 1;
  PyObject *level = item_of(torch.forward_ad, torch.current_level); /* -1: no dual tensors */
  if (!level) return -1;
  if (PyLong_AsLong(level) >= 0) return 1;
  PyObject *profiling = item_of(torch.profiler, torch.is_profiling);
  return profiling ? profiling == Py_True : -1;
}

/* ---- tensors ---- */

int property_named(property *p, PyObject *type, const char *name) {
  p->name = PyUnicode_InternFromString(name);
  p->descriptor = p->name ? PyObject_GetAttr(type, p->name) : NULL;
  if (!p->descriptor) return -1;
  p->get = (descrgetfunc)PyType_GetSlot(Py_TYPE(p->descriptor), Py_tp_descr_get);
  return 0;
}

static PyObject *get(const property *p, PyObject *tensor) {
  if (!p->get || !is_plain(tensor)) return PyObject_GetAttr(tensor, p->name);
  return p->get(p->descriptor, tensor, (PyObject *)Py_TYPE(tensor));
}

int asks_gradient(PyObject *tensor) {
  int asks = is_true_result(get(&torch.requires_grad, tensor));
  return asks > 0 ? grad_is_enabled() : asks;
}

int wants_gradient(PyObject *o, const DLTensor *t) {
  return t->dtype.code == kDLInt || t->dtype.code == kDLUInt ? 0 : asks_gradient(o);
}

int is_inference_tensor(PyObject *tensor) {
  /* Only inference tensors lack a version; torch's is_inference takes twice the time. */
  PyObject *version = get(&torch.version, tensor);
  Py_XDECREF(version);
  if (version) return 0;
  PyErr_Clear();
  int there = is_true_result(call_function(&torch.in_inference_mode));
  return there < 0 ? -1 : !there;
}

int is_negative(PyObject *object) {
  static PyCFunction is_neg; /* of any tensor of torch's */
  if (!is_plain(object)) return is_true_result(PyObject_CallFunctionObjArgs(torch.is_neg, object, NULL));
  if (!is_neg) {
    torch_function f;
    PyObject *method = PyObject_GetAttrString(object, "is_neg");
    if (!method) return -1;
    find_function(&f, method);
    Py_DECREF(method);
    if (f.flags != METH_NOARGS) return is_true_result(PyObject_CallFunctionObjArgs(torch.is_neg, object, NULL));
    is_neg = f.function;
  }
  return is_true_result(is_neg(object, NULL));
}
