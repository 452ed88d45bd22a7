/* The arguments of a call: attributes and inputs. */
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
    PyErr_Format(PyExc_TypeError, "%s: %s must be %s, not %R", c->op->name, c->op->attributes[i].marked, wanted, o);
  }
  return -1;
}

static int to_int(PyObject *o, int64_t *out) {
  if (!PyLong_CheckExact(o)) {
    if (PyBool_Check(o) || !PyIndex_Check(o)) return -1;
  }
  *out = PyLong_AsLongLong(o);
  return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Each of these fills a value from an object, and returns NULL, or what is wanted instead of it. */

static const char *read_int(value *v, PyObject *o) { return to_int(o, &v->i) ? "an int" : NULL; }

static const char *read_float(value *v, PyObject *o) {
  if (PyBool_Check(o)) return "a float";
  v->f = PyFloat_AsDouble(o);
  return v->f == -1 && PyErr_Occurred() ? "a float" : NULL;
}

static const char *read_bool(value *v, PyObject *o) {
  v->i = o == Py_True;
  return PyBool_Check(o) ? NULL : "a bool";
}

static const char *read_word(value *v, PyObject *o) {
  const char *known = "one of the words that it knows";
  v->s = PyUnicode_AsUTF8AndSize(o, &v->size);
  if (!v->s) return "a str";
  if (v->size < 1 || v->size > MAX_WORD) return known;
  for (Py_ssize_t j = 0; j < v->size; j++) {
    char ch = v->s[j];
    if (!(ch == '_' || (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9'))) return known;
  }
  return NULL;
}

static const char *read_list(value *v, PyObject *o) {
  const char *list = "a short list of ints";
  if (!PyTuple_Check(o) && !PyList_Check(o)) return list;
  v->size = PySequence_Size(o);
  if (v->size < 0 || v->size > MAX_LIST) return list;
  for (Py_ssize_t i = 0; i < v->size; i++) {
    PyObject *item = PySequence_GetItem(o, i);
    int bad = !item || to_int(item, &v->list[i]);
    Py_XDECREF(item);
    if (bad) return list;
  }
  return NULL;
}

static const char *read_dtype(value *v, PyObject *o) {
  for (v->i = 0; v->i < torch.n_dtypes; v->i++)
    if (torch.dtypes[v->i].object == o) return NULL;
  return "a torch.dtype that isobit knows";
}

/* ... of the codes among the inputs, or, where these are bytes that hold two each, of what they hold. */
static const char *read_codes_dtype(call *c, value *v, PyObject *o) {
  const char *wanted = read_dtype(v, o), *of_input = "the dtype of input";
  if (wanted) return wanted;
  const torch_dtype *d = &torch.dtypes[v->i];
  tensor_arg *a = &c->args[c->op->coded];
  if (d->bits != 4) return d->code != a->t.dtype.code || d->bits != a->t.dtype.bits ? of_input : NULL;
  if (a->t.dtype.code != kDLUInt || a->t.dtype.bits != 8 || a->t.ndim == 0) return of_input;
  a->packed = d;
  a->last = (int64_t)(2 * (uint64_t)a->t.shape[a->t.ndim - 1]);
  return NULL;
}

static const char *read_codes_extent(call *c, value *v, PyObject *o, int optional) {
  if (to_int(o, &v->i)) return "an int";
  tensor_arg *codes = &c->args[c->op->coded];
  if (codes->packed)
    codes->last = v->i;
  else if (optional && codes->t.ndim && v->i != codes->t.shape[codes->t.ndim - 1])
    return "None or input's last extent, as its codes are not packed";
  return NULL;
}

int read_attribute(call *c, int i, PyObject *o) {
  const op_attribute *a = &c->op->attributes[i];
  value *v = &c->values[i];
  const char *wanted = NULL;
  v->kind = o == Py_None && a->optional ? 0 : a->kind;
  switch (v->kind) { /* see op_attribute */
  case 'i':
  case 'I':
    wanted = read_int(v, o);
    break;
  case 'f':
  case 'F':
    wanted = read_float(v, o);
    break;
  case 'b':
  case 'B':
  case 'w':
    wanted = read_bool(v, o);
    break;
  case 's':
    wanted = read_word(v, o);
    break;
  case 'l':
  case 'L':
    wanted = read_list(v, o);
    break;
  case 'd':
    wanted = read_dtype(v, o);
    break;
  case 'm':
    wanted = read_codes_dtype(c, v, o);
    break;
  case 'e':
    wanted = read_codes_extent(c, v, o, a->optional);
    break;
  }
  return wanted ? bad_attribute(c, i, o, wanted) : 0;
}

/* ---- inputs ---- */

static void take_extents(call *c, int i, const int64_t *extents, int64_t rank) {
  DLTensor *t = &c->args[i].t;
  t->ndim = (int32_t)rank;
  t->shape = c->extents[i];
  memcpy(t->shape, extents, (size_t)rank * sizeof *extents);
}

void take_shape(call *c, int i, const int64_t *extents, int64_t rank, DLDataType dtype) {
  DLTensor *t = &c->args[i].t;
  t->device.device_type = kDLExtDev;
  t->dtype = dtype;
  take_extents(c, i, extents, rank);
}

/* The type and shape of a fake tensor or one on meta, whose extents are ints. */
static int read_shape(call *c, int i, PyObject *o) {
  memset(&c->args[i], 0, sizeof c->args[i]);
  c->args[i].object = o;
  int64_t extents[MAX_RANK];
  PyObject *shape = PyObject_GetAttrString(o, "shape"), *dtype = PyObject_GetAttrString(o, "dtype");
  Py_ssize_t rank = shape ? PyTuple_Size(shape) : -1;
  DLDataType type = {UINT8_MAX, 0, 1}; /* of none that isobit knows */
  for (Py_ssize_t d = 0; d < rank && d < MAX_RANK; d++) extents[d] = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
  for (int k = 0; k < torch.n_dtypes; k++)
    if (torch.dtypes[k].object == dtype) type = (DLDataType){torch.dtypes[k].code, torch.dtypes[k].bits, 1};
  Py_XDECREF(shape);
  Py_XDECREF(dtype);
  if (PyErr_Occurred()) return -1;
  take_shape(c, i, extents, rank < MAX_RANK ? rank : MAX_RANK, type);
  c->args[i].t.ndim = (int32_t)rank; /* more is refused next */
  return 0;
}

static int transpose(call *c, DLTensor *t) {
  if (t->ndim != 2) return -1;
  c->strides[0] = t->strides ? t->strides[1] : 1;
  c->strides[1] = t->strides ? t->strides[0] : t->shape[1];
  take_extents(c, 1, (int64_t[]){t->shape[1], t->shape[0]}, 2);
  t->strides = c->strides;
  return 0;
}

/* Fills args[i] from o: 0, or -1, with an exception where the call is strict. */
static int fill(call *c, int i, PyObject *o) {
  const char *name = c->op->tensors[i].marked;
  if (!c->strict && !is_plain(o)) return -1;
  c->taken[i] = 1;
  if (c->only_shapes ? read_shape(c, i, o) : tensor_take(o, &c->args[i], c->op->name, name)) return -1;
  /* Of no elements may be what a torch.func transform wraps, too, which else has no memory to read. */
  if (!c->strict && !c->args[i].t.data && transform_is_active()) return -1;
  if (c->transposed && i == 1 && transpose(c, &c->args[1].t)) return -1; /* such a call is not strict */
  if (c->args[i].t.ndim <= MAX_RANK) return 0;
  PyErr_Format(argument_error, "%s: %s has %d dimensions; want at most %d", c->op->name, name, (int)c->args[i].t.ndim,
               MAX_RANK);
  return -1;
}

int take(call *c, int i, PyObject *o) {
  int failed = fill(c, i, o);
  if (!c->strict) {
    int constant = i < c->op->n_in && (c->constant || c->op->tensors[i].constant);
    int ask = !failed && i && !c->recorded && !constant; /* the first was asked at once */
    int differentiated = ask ? wants_gradient(o, &c->args[i].t) : 0;
    if (failed || differentiated) {
      PyErr_Clear();
      c->differentiated = differentiated > 0;
      c->missed = 1;
      return -1;
    }
  }
  if (failed) return -1;
  c->present[i] = 1;
  return 0;
}

/* Whether Python converts input i first, within autocast. */
static int is_cast(call *c, int i) {
  if (c->strict || !c->op->tensors[i].cast || c->args[i].t.dtype.bits != 16) return 0;
  int enabled = autocast_is_enabled();
  c->missed = enabled > 0;
  return enabled;
}

int take_input(call *c, int i, PyObject *o) {
  const op_tensor *t = &c->op->tensors[i];
  if (o == Py_None && t->optional) return 0;
  if (t->number && tensor_number(o, &c->args[i], t->number == NUMBER_AS_FLOAT)) {
    /* Host memory: with the others on a device, the dispatcher's path makes it a tensor there. */
    c->present[i] = 1;
    if (i > 0 && c->args[0].t.device.device_type != kDLCPU && !c->strict) c->missed = 1;
    return c->missed ? -1 : 0;
  }
  return take(c, i, o) || is_cast(c, i) ? -1 : 0;
}

/* ---- products of more dimensions than two ---- */

/* A tensor of so many dimensions, of which the first stands for all that are left over. Its extents and strides go to
 * space: 0, or -1 where no one stride leads through these. */
static int fold(DLTensor *t, int rank, int64_t *space) {
  int kept = t->ndim - rank + 1; /* the first dimension that stays as it is */
  int64_t n = 1, step = 0, next = 0; /* next: the stride that goes on where these end */
  if (!t->strides) return -1;
  for (int i = kept - 1; i >= 0; i--) {
    if (t->shape[i] == 1) continue;
    if (n == 1)
      step = t->strides[i];
    else if (t->strides[i] != next)
      return -1;
    /* Where nothing lies in memory, extents and strides are as large as anyone likes. */
    if (__builtin_mul_overflow(n, t->shape[i], &n) || __builtin_mul_overflow(step, n, &next)) return -1;
  }
  space[0] = n;
  space[rank] = step;
  memcpy(space + 1, t->shape + kept, (size_t)(rank - 1) * sizeof *space);
  memcpy(space + rank + 1, t->strides + kept, (size_t)(rank - 1) * sizeof *space);
  t->ndim = rank;
  t->shape = space;
  t->strides = space + rank;
  return 0;
}

/* Parameters of the rows of factor `of`, in its dimensions, the last of which may be 1, as a list. */
static int fold_parameters(call *c, int i, const DLTensor *of) {
  DLTensor *t = &c->args[i].t;
  int rows = of->ndim - 1;
  if (rows < 0 || (t->ndim != rows && !(t->ndim == rows + 1 && t->shape[rows] == 1))) return -1;
  if (memcmp(t->shape, of->shape, (size_t)rows * sizeof *t->shape) != 0) return -1;
  return t->ndim == 1 ? 0 : fold(t, 1, c->folded[i]);
}

/* Both factors, the second of which is input w, and the output. */
static int fold_factors(call *c, int w) {
  DLTensor *x = &c->args[0].t, *other = &c->args[w].t;
  int rank = other->ndim == 2 ? 2 : 3, out = c->op->n_in;
  if (x->ndim < 1 || other->ndim < 2 || (x->ndim == rank && other->ndim <= 3)) return 0;
  if (rank == 3) {
    size_t before = (size_t)(other->ndim - 2) * sizeof *other->shape;
    if (x->ndim != other->ndim || memcmp(x->shape, other->shape, before) != 0) return -1;
    if (fold(other, rank, c->folded[w])) return -1;
  }
  return fold(x, rank, c->folded[0]) || fold(&c->args[out].t, rank, c->folded[out]) ? -1 : 0;
}

/* In Python, a view of each and one of the result take longer than a small product. */
int fold_rows(call *c) {
  int w = 0;
  if (c->strict) return 0;
  for (int i = 1; i < c->op->n_in && !c->missed; i++) {
    if (c->op->tensors[i].in_text && !w) w = i;
    if (c->op->tensors[i].per_row && c->present[i]) c->missed = fold_parameters(c, i, &c->args[w].t) < 0;
  }
  if (!c->missed) c->missed = fold_factors(c, w) < 0;
  return c->missed ? -1 : 0;
}
