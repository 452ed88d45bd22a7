/* The arguments of a call: attributes, inputs, outputs. */
#include "_C_op.h"

#include <string.h>

/* ---- attributes ---- */

static int bad_attribute(call *c, int i, PyObject *o, const char *wanted) {
  if (!c->strict) {
    PyErr_Clear();
    c->missed = 1;
    return -1;
  }
  if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: %s must be %s, not %R", c->op->name, c->op->attributes[i].name, wanted, o);
  }
  return -1;
}

static int read_int(PyObject *o, int64_t *out) {
  if (!PyLong_CheckExact(o)) {
    if (PyBool_Check(o) || !PyIndex_Check(o)) return -1;
  }
  *out = PyLong_AsLongLong(o);
  return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_list(PyObject *o, value *v) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return -1;
  v->size = PySequence_Size(o);
  if (v->size < 0 || v->size > MAX_LIST) return -1;
  for (Py_ssize_t i = 0; i < v->size; i++) {
    PyObject *item = PySequence_GetItem(o, i);
    int bad = !item || read_int(item, &v->list[i]);
    Py_XDECREF(item);
    if (bad) return -1;
  }
  return 0;
}

int read_attribute(call *c, int i, PyObject *o) {
  value *v = &c->values[i];
  v->kind = o == Py_None ? 0 : c->op->attributes[i].kind;
  switch (v->kind) {
  case 'i':
  case 'I':
    return read_int(o, &v->i) ? bad_attribute(c, i, o, "an int") : 0;
  case 'f':
    if (PyBool_Check(o)) return bad_attribute(c, i, o, "a float");
    v->f = PyFloat_AsDouble(o);
    return v->f == -1 && PyErr_Occurred() ? bad_attribute(c, i, o, "a float") : 0;
  case 'b':
  case 'w':
    if (!PyBool_Check(o)) return bad_attribute(c, i, o, "a bool");
    v->i = o == Py_True;
    return 0;
  case 's':
    if (!PyUnicode_Check(o)) return bad_attribute(c, i, o, "a str");
    v->s = PyUnicode_AsUTF8AndSize(o, &v->size);
    if (!v->s) return bad_attribute(c, i, o, "a str");
    for (Py_ssize_t j = 0; j < v->size; j++) {
      char ch = v->s[j];
      if (!(ch == '_' || (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9')) || v->size > 32)
        return bad_attribute(c, i, o, "one of the words that it knows");
    }
    if (v->size == 0) return bad_attribute(c, i, o, "one of the words that it knows");
    return 0;
  case 'l':
  case 'L':
    return read_list(o, v) ? bad_attribute(c, i, o, "a short list of ints") : 0;
  case 'd':
  case 'm':
    for (v->i = 0; v->i < torch.n_dtypes; v->i++)
      if (torch.dtypes[v->i].object == o) break;
    if (v->i == torch.n_dtypes) return bad_attribute(c, i, o, "a torch.dtype that isobit knows");
    if (v->kind == 'm' && (torch.dtypes[v->i].code != c->args[0].t.dtype.code ||
                           torch.dtypes[v->i].bits != c->args[0].t.dtype.bits))
      return bad_attribute(c, i, o, "the dtype of input");
    return 0;
  }
  return 0;
}

/* ---- inputs ---- */

/* Whether autograd would have to see this tensor: -1 with an exception. */
static int wants_gradient(PyObject *o) {
  PyObject *flag = PyObject_GetAttr(o, torch.requires_grad);
  if (!flag) return -1;
  int wants = flag == Py_True;
  Py_DECREF(flag);
  if (!wants) return 0;
  PyObject *enabled = PyObject_CallNoArgs(torch.is_grad_enabled);
  if (!enabled) return -1;
  wants = enabled == Py_True;
  Py_DECREF(enabled);
  return wants;
}

/* Fills args[i] from o; 0, or -1 with missed set or an exception. */
static int take(call *c, int i, PyObject *o) {
  const op_tensor *t = &c->op->tensors[i];
  if (!c->strict) {
    int wants = is_plain(o) ? wants_gradient(o) : 1;
    if (wants || tensor_take(o, &c->args[i], c->op->name, t->name)) {
      PyErr_Clear();
      c->missed = 1;
      return -1;
    }
    c->taken[i] = 1;
  } else {
    c->taken[i] = 1;
    if (tensor_take(o, &c->args[i], c->op->name, t->name)) return -1;
  }
  if (c->args[i].t.ndim > MAX_RANK) {
    PyErr_Format(PyExc_ValueError, "%s: %s has %d dimensions, at most %d work", c->op->name, t->name, (int)c->args[i].t.ndim, MAX_RANK);
    return -1;
  }
  c->present[i] = 1;
  return 0;
}

int take_input(call *c, int i, PyObject *o) {
  const op_tensor *t = &c->op->tensors[i];
  if (o == Py_None && t->optional) return 0;
  if (t->number && tensor_number(o, &c->args[i], t->number == 2)) {
    /* Host memory: with the others on a device, the dispatcher's path makes it a tensor there. */
    c->present[i] = 1;
    if (i > 0 && c->args[0].t.device.device_type != kDLCPU && !c->strict) c->missed = 1;
    return c->missed ? -1 : 0;
  }
  if (take(c, i, o)) return -1;
  if (t->writes && c->args[i].read_only) {
    PyErr_Format(PyExc_ValueError, "%s: %s is read-only and would be written", c->op->name, t->name);
    return -1;
  }
  return 0;
}

/* ---- outputs ---- */

static int output_dtype(call *c, const op_tensor *t) {
  DLDataType in = c->args[t->dtype_rule == DTYPE_OF_INPUT || t->dtype_rule == DTYPE_OF_PARAMETERS ? t->dtype_index : 0].t.dtype;
  DLDataType want = in;
  switch (t->dtype_rule) {
  case DTYPE_OF_ATTRIBUTE:
    if (c->values[t->dtype_index].kind) return (int)c->values[t->dtype_index].i;
    if (is_float_dtype(in)) break; /* no dtype named: that of float codes, else float32 */
    want.code = kDLFloat;
    want.bits = 32;
    break;
  case DTYPE_FIXED:
    return t->dtype_index;
  case DTYPE_OF_PARAMETERS: /* parameters are f32, or f64 beside f64 */
    want.code = kDLFloat;
    want.bits = in.code == kDLFloat && in.bits == 64 ? 64 : 32;
  }
  for (int i = 0; i < torch.n_dtypes; i++)
    if (torch.dtypes[i].code == want.code && torch.dtypes[i].bits == want.bits) return i;
  PyErr_Format(PyExc_TypeError, "%s: no torch.dtype for output %s", c->op->name, t->name);
  return -1;
}

static int append_slice(PyObject *shape, const int64_t *from, long long n, const shape_part *p) {
  long long low = p->low < 0 ? p->low + n : p->low, high = p->high < 0 ? p->high + n : p->high;
  if (high > n) high = n;
  if (low < 0) low = 0;
  for (long long d = low; d < high; d++) {
    PyObject *extent = PyLong_FromLongLong(from[d]);
    int bad = !extent || PyList_Append(shape, extent);
    Py_XDECREF(extent);
    if (bad) return -1;
  }
  return 0;
}

static PyObject *output_shape(call *c, const op_tensor *t) {
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < t->n_parts; i++) {
    const shape_part *p = &t->parts[i];
    const DLTensor *in = &c->args[p->index].t;
    const value *v = &c->values[p->index];
    shape_part whole = {0, 0, 0, 1};
    int bad = p->kind == PART_INPUT       ? append_slice(list, in->shape, in->ndim, p)
              : p->kind == PART_LITERAL   ? append_slice(list, (int64_t[]){p->low}, 1, &whole)
              : v->kind == 'L'            ? append_slice(list, v->list, v->size, p)
                                          : append_slice(list, &v->i, 1, &whole);
    if (bad) Py_CLEAR(list);
  }
  PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
  Py_XDECREF(list);
  return tuple;
}

static PyObject *allocate(call *c, const op_tensor *t) {
  int dtype = output_dtype(c, t);
  if (dtype < 0) return NULL;
  const torch_dtype *d = &torch.dtypes[dtype];
  const tensor_arg *like = t->like >= 0 ? &c->args[t->like] : NULL;
  PyObject *result = NULL, *args = PyTuple_New(1);
  if (!args) return NULL;
  if (like && is_plain(like->object) && tensor_is_compact(&like->t)) {
    int same = d->code == like->t.dtype.code && d->bits == like->t.dtype.bits;
    Py_INCREF(like->object);
    PyTuple_SetItem(args, 0, like->object);
    result = PyObject_Call(torch.empty_like, args, same ? NULL : d->kw);
  } else {
    PyObject *shape = output_shape(c, t), *kw = NULL;
    const tensor_arg *owner = &c->args[like ? t->like : 0];
    if (shape) {
      /* Extents as arguments of their own: torch parses a tuple of them more slowly. */
      if (PyTuple_Size(shape) > 0) {
        Py_DECREF(args);
        args = shape;
      } else {
        PyTuple_SetItem(args, 0, shape);
      }
      if (owner->t.device.device_type == kDLCPU) {
        Py_INCREF(kw = d->kw_cpu);
      } else {
        PyObject *device = PyObject_GetAttr(owner->object, torch.device);
        if (device) kw = Py_BuildValue("{sOsO}", "dtype", d->object, "device", device);
        Py_XDECREF(device);
      }
    }
    if (kw) result = PyObject_Call(torch.empty, args, kw);
    Py_XDECREF(kw);
  }
  Py_DECREF(args);
  return result;
}

int make_output(call *c, int i, PyObject *given) {
  const op_tensor *t = &c->op->tensors[i];
  if (t->wanted_by >= 0 && (int)c->values[t->wanted_by].i != t->wanted_if) return 0;
  if (given && given != Py_None) {
    Py_INCREF(given);
    c->made[i] = given;
    if (take(c, i, given)) return -1;
    if (!c->args[i].read_only) return 0;
    PyErr_Format(PyExc_ValueError, "%s: %s is read-only and would be written", c->op->name, t->name);
    return -1;
  }
  if (!(c->made[i] = allocate(c, t))) return -1;
  c->taken[i] = 1;
  if (tensor_read(c->made[i], &c->args[i], c->op->name, t->name)) return -1;
  c->present[i] = 1;
  return 0;
}
