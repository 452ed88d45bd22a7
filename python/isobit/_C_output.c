/* The outputs of a call: shapes, types, memory. */
#define _GNU_SOURCE
#include "_C_op.h"

#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

/* ---- huge pages ---- */

int huge_pages = 1;

/* A large output is new memory from the system, whose page faults cost more than most ops: with
 * pages of 2 MiB there are 512 times fewer. Only pages that lie wholly within the memory are asked
 * for, so that none is taken for the sake of its ends. A refusal changes nothing. */
enum { HUGE_PAGE = 2 << 20, LARGE = 4 << 20 };

void use_huge_pages(void *memory, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (!huge_pages || bytes < LARGE) return;
  uintptr_t begin = ((uintptr_t)memory + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
  uintptr_t end = ((uintptr_t)memory + (uintptr_t)bytes) & ~(uintptr_t)(HUGE_PAGE - 1);
  if (begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
  (void)memory, (void)bytes;
#endif
}

/* ---- shape and type ---- */

static int output_dtype(call *c, const op_tensor *t) {
  const tensor_arg *of = &c->args[t->dtype_rule == DTYPE_OF_INPUT ? t->dtype_index : 0];
  if (t->dtype_rule == DTYPE_OF_INPUT && !c->present[t->dtype_index]) { /* nor is there its shape, which t has, too */
    PyErr_Format(argument_error, "%s: %s is None; want %s=False", c->op->name, c->op->tensors[t->dtype_index].marked,
                 c->op->attributes[t->wanted_by].marked);
    return -1;
  }
  DLDataType in = of->t.dtype, want = in;
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
  int found = find_dtype(want.code, want.bits);
  if (found >= 0) return found;
  PyObject *named = PyObject_GetAttrString(of->object, "dtype");
  if (named)
    PyErr_Format(PyExc_TypeError, "%s: %s is %S, which isobit does not compute with", c->op->name,
                 c->op->tensors[of - c->args].marked, named);
  Py_XDECREF(named);
  return -1;
}

typedef struct {
  int64_t extents[MAX_RANK];
  int rank, overflow;
} shape;

static void append(shape *s, int64_t extent) {
  if (s->rank == MAX_RANK)
    s->overflow = 1;
  else
    s->extents[s->rank++] = extent;
}

static void append_slice(shape *s, const int64_t *from, long long n, const shape_part *p) {
  long long low = p->low < 0 ? p->low + n : p->low, high = p->high < 0 ? p->high + n : p->high;
  if (high > n) high = n;
  for (long long d = low < 0 ? 0 : low; d < high; d++) append(s, from[d]);
}

/* ceil(extent / size) of each extent; sizes that the plan will refuse count as 1. */
static void append_blocks(shape *s, const int64_t *extents, int n, const int64_t *sizes, int n_sizes) {
  for (int d = 0; d < n; d++) {
    int64_t size = d < n_sizes && sizes[d] > 0 ? sizes[d] : 1;
    append(s, extents[d] / size + (extents[d] % size != 0));
  }
}

static void append_part(call *c, shape *s, const shape_part *p) {
  const tensor_arg *in = &c->args[p->index];
  const value *v = &c->values[p->index];
  int64_t space[MAX_RANK], axis;
  switch (p->kind) {
  case PART_INPUT:
    append_slice(s, tensor_shape(in, space), in->t.ndim, p);
    return;
  case PART_LITERAL:
    append(s, p->low);
    return;
  case PART_ATTRIBUTE:
    if (v->kind == 'L')
      append_slice(s, v->list, v->size, p);
    else
      append(s, v->i);
    return;
  case PART_AT: /* the extent of input 0 along the attribute */
    in = &c->args[0];
    axis = v->i < 0 ? v->i + in->t.ndim : v->i;
    append(s, axis >= 0 && axis < in->t.ndim ? in->t.shape[axis] : 0);
    return;
  case PART_BLOCKS: /* the blocks of input 0: of its last dimension, or of each */
    in = &c->args[0];
    if (v->kind == 'l')
      append_blocks(s, in->t.shape, in->t.ndim, v->list, (int)v->size);
    else if (in->t.ndim)
      append_blocks(s, in->t.shape + in->t.ndim - 1, 1, &v->i, 1);
  }
}

/* ---- memory ---- */

/* The arguments of torch's function for a shape and a dtype on the CPU, kept from call to call. */
static PyObject *arguments(op_tensor *t, const shape *s, int dtype) {
  if (t->made_by && t->made_dtype == dtype && t->made_rank == s->rank &&
      memcmp(t->made_shape, s->extents, (size_t)s->rank * sizeof *s->extents) == 0) {
    Py_INCREF(t->made_by);
    return t->made_by;
  }
  PyObject *sizes = PyTuple_New(s->rank), *strides = PyTuple_New(s->rank), *args = NULL;
  int64_t stride = 1;
  for (int i = s->rank - 1; sizes && strides && i >= 0; i--) {
    PyTuple_SetItem(sizes, i, PyLong_FromLongLong(s->extents[i]));
    PyTuple_SetItem(strides, i, PyLong_FromLongLong(stride));
    if (s->extents[i] > 1 && __builtin_mul_overflow(stride, s->extents[i], &stride))
      stride = INT64_MAX; /* with which torch refuses the shape, and says what it is */
  }
  if (sizes && strides && !PyErr_Occurred())
    args = torch.empty_strided_cpu.callable == Py_None ? PyTuple_Pack(1, sizes)
                                                       : PyTuple_Pack(3, sizes, strides, torch.dtypes[dtype].object);
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  if (!args) return NULL;
  Py_XDECREF(t->made_by);
  Py_INCREF(t->made_by = args);
  t->made_dtype = dtype;
  t->made_rank = s->rank;
  memcpy(t->made_shape, s->extents, (size_t)s->rank * sizeof *s->extents);
  return args;
}

static PyObject *allocate(call *c, op_tensor *t, const shape *s, int dtype) {
  const torch_dtype *d = &torch.dtypes[dtype];
  const tensor_arg *owner = &c->args[0];
  PyObject *result = NULL, *args = arguments(t, s, dtype);
  if (!args) return NULL;
  if (owner->t.device.device_type != kDLCPU) {
    PyObject *device = PyObject_GetAttr(owner->object, torch.device);
    PyObject *kw = device ? Py_BuildValue("{sOsO}", "dtype", d->object, "device", device) : NULL;
    PyObject *sizes = kw ? PyTuple_Pack(1, PyTuple_GetItem(args, 0)) : NULL;
    if (sizes) result = PyObject_Call(torch.empty, sizes, kw);
    Py_XDECREF(sizes);
    Py_XDECREF(kw);
    Py_XDECREF(device);
  } else if (torch.empty_strided_cpu.callable == Py_None) {
    result = PyObject_Call(torch.empty, args, d->kw_cpu);
  } else {
    result = call_function_with(&torch.empty_strided_cpu, args);
  }
  Py_DECREF(args);
  return result;
}

/* Whether elements lie in row-major order, one after the other. */
static int is_in_rows(const DLTensor *t) {
  int64_t stride = 1;
  for (int i = t->ndim - 1; t->strides && i >= 0; i--) {
    if (t->strides[i] != stride) return 0;
    stride *= t->shape[i] > 1 ? t->shape[i] : 1;
  }
  return 1;
}

/* As torch's elementwise functions have it: channels last stay so. */
static PyObject *allocate_like(const tensor_arg *input, int dtype) {
  PyObject *args = PyTuple_Pack(1, input->object);
  PyObject *result = args ? PyObject_Call(torch.empty_like, args, torch.dtypes[dtype].kw) : NULL;
  Py_XDECREF(args);
  return result;
}

/* Codes of 4 bits lie two to a byte: what is allocated are bytes. */
static int pack(call *c, tensor_arg *a, shape *s, int dtype) {
  const torch_dtype *d = &torch.dtypes[dtype];
  if (d->bits != 4) return dtype;
  if (s->rank == 0) {
    c->missed = !c->strict;
    PyErr_Format(argument_error, "%s: %s has shape []; want at least one dimension to pack along", c->op->name,
                 c->op->tensors[0].marked);
    return -1;
  }
  a->packed = d;
  a->last = s->extents[s->rank - 1];
  s->extents[s->rank - 1] = a->last / 2 + a->last % 2;
  return find_dtype(kDLUInt, 8);
}

/* ---- out= ---- */

/* A shape as a list, for a message: a new reference. */
static PyObject *list_of(const int64_t *extents, int n) {
  PyObject *list = PyList_New(n);
  for (int d = 0; list && d < n; d++) PyList_SetItem(list, d, PyLong_FromLongLong(extents[d]));
  return list;
}

/* Refuses what torch would allocate with a negative extent. */
static int check_extents(call *c, const op_tensor *t, const shape *s) {
  int d = 0;
  while (d < s->rank && s->extents[d] >= 0) d++;
  if (d == s->rank) return 0;
  PyObject *list = list_of(s->extents, s->rank);
  c->missed = !c->strict;
  if (list) PyErr_Format(argument_error, "%s: %s has shape %S; want no negative extent", c->op->name, t->marked, list);
  Py_XDECREF(list);
  return -1;
}

/* Takes an output that the caller gave, of the type and the shape that a new one would have. */
static int take_given(call *c, int i, PyObject *given, const shape *s, int dtype) {
  const tensor_arg *a = &c->args[i];
  const torch_dtype *want = &torch.dtypes[dtype];
  Py_INCREF(given);
  c->made[i] = given;
  if (take(c, i, given)) return -1;
  int is_inference = c->strict ? 0 : is_inference_tensor(given);
  if (is_inference) {
    c->missed = is_inference > 0; /* Python says so */
    return -1;
  }
  if (a->t.dtype.code != want->code || a->t.dtype.bits != want->bits) {
    PyObject *dtype_of = PyObject_GetAttrString(given, "dtype");
    PyErr_Format(argument_error, "%s: out is %S; want %S", c->op->name, dtype_of ? dtype_of : Py_None, want->object);
    Py_XDECREF(dtype_of);
    return -1;
  }
  if (a->t.ndim == s->rank && memcmp(a->t.shape, s->extents, (size_t)s->rank * sizeof *s->extents) == 0) return 0;
  PyObject *came = list_of(a->t.shape, a->t.ndim), *wanted = list_of(s->extents, s->rank);
  if (came && wanted) PyErr_Format(argument_error, "%s: out has shape %S; want %S", c->op->name, came, wanted);
  Py_XDECREF(came);
  Py_XDECREF(wanted);
  return -1;
}

int count_writes(call *c) {
  int failed = 0;
  for (int i = c->op->n_in; i < c->n && !failed; i++) {
    if (!c->given[i]) continue;
    PyObject *tensors = PyTuple_Pack(1, c->made[i]);
    failed = !tensors || increment_versions(tensors);
    Py_XDECREF(tensors);
  }
  return failed ? -1 : 0;
}

/* A new tensor for output i: row-major, or as the input lies that it is like. */
static int take_new(call *c, int i, const shape *s, int dtype, int is_packed) {
  op_tensor *t = &c->op->tensors[i];
  tensor_arg *a = &c->args[i];
  const tensor_arg *like = t->like >= 0 && !is_packed ? &c->args[t->like] : NULL;
  int in_rows = !like || like->packed || is_in_rows(&like->t);
  c->made[i] = in_rows ? allocate(c, t, s, dtype) : allocate_like(like, dtype);
  c->taken[i] = c->made[i] != NULL;
  if (!c->made[i] || tensor_read(c->made[i], a, c->op->name, t->marked)) {
    /* What makes it too large, or negative, the dispatcher's path says; within a torch.func transform even a new
     * tensor may be a wrapper. */
    c->missed = !c->strict;
    return -1;
  }
  if (a->t.device.device_type == kDLCPU) use_huge_pages(a->t.data, tensor_count(&a->t) * torch.dtypes[dtype].bits / 8);
  return 0;
}

int make_output(call *c, int i, PyObject *given) {
  op_tensor *t = &c->op->tensors[i];
  tensor_arg *a = &c->args[i], packed = {.packed = NULL};
  shape s = {.rank = 0};
  if (t->wanted_by >= 0 && (int)c->values[t->wanted_by].i != t->wanted_if) return 0;
  int dtype = output_dtype(c, t);
  if (dtype < 0) {
    c->missed = !c->strict;
    return -1;
  }
  for (int k = 0; k < t->n_parts; k++) append_part(c, &s, &t->parts[k]);
  if (s.overflow) {
    c->missed = !c->strict;
    PyErr_Format(argument_error, "%s: %s has too many dimensions; want at most %d", c->op->name, t->marked, MAX_RANK);
    return -1;
  }
  if (check_extents(c, t, &s)) return -1;
  if ((dtype = pack(c, &packed, &s, dtype)) < 0) return -1;
  if (given && given != Py_None) {
    c->given[i] = 1;
    if (take_given(c, i, given, &s, dtype)) return -1;
  } else if (c->only_shapes) {
    memset(a, 0, sizeof *a);
    take_shape(c, i, s.extents, s.rank, (DLDataType){torch.dtypes[dtype].code, torch.dtypes[dtype].bits, 1});
  } else if (take_new(c, i, &s, dtype, packed.packed != NULL)) {
    return -1;
  }
  c->present[i] = 1;
  a->packed = packed.packed;
  a->last = packed.last;
  return 0;
}
