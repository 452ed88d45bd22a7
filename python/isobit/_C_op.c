/* Ops: a signature is registered once; then only the first call with new types,
 * shapes or attributes makes a problem's text. See _signature.py for the signature's
 * Python form.
 *
 * A call's positional arguments: the inputs (tensor, Python number where a
 * parameter may be one, None where absent), the attributes, and optionally the
 * outputs (None: allocate). Six callables share the code:
 *   run         checks everything and raises
 *   fast        answers NotImplemented where the call needs torch's dispatcher: a
 *               gradient is wanted, a mode is active, a tensor is not plain, or no
 *               plan takes the problem (the dispatcher's path then says why)
 *   direct      as fast, but calls autograd's function where only a gradient is wanted
 *   transposed  as direct, of the transpose of the second input, a matrix
 *   check       as fast, but computes nothing: None where fast would compute
 *   infer       as run, for fake tensors: checks types and shapes, and answers None */
#include "_C_op.h"

#include <string.h>

static int run(call *c) {
  plan_key key;
  write_key(c, &key);
  plan_entry *e = plan_find(&key, c->op->last);
  if (!e || e->workspace) { /* of a size for the number of threads when the plan was made */
    int told = threads_told;
    if (threads_sync()) return -1;
    if (told != threads_told) e = plan_find(&key, NULL);
  }
  if (!e) {
    text_buffer text;
    if (write_text(c, &text) || !(e = plan_add(&key, text.bytes))) {
      c->missed = !c->strict;
      return -1;
    }
  }
  c->op->last = e;
  e->running++;
  int failed = c->only_check ? plan_check(e->handle, c->args, c->present, c->n)
                             : plan_run(e->handle, e->workspace, c->args, c->present, c->n);
  e->running--;
  if (failed && !c->strict) c->missed = 1; /* nothing was written: the dispatcher's path says why */
  return failed;
}

/* Whether an attribute names a dtype for the result that carries no gradient: integers, and floats of 8 bits. */
static int is_constant(const op *o, PyObject *const *args) {
  const op_tensor *t = &o->tensors[o->n_in];
  if (o->n_out != 1 || t->dtype_rule != DTYPE_OF_ATTRIBUTE) return 0;
  for (int i = 0; i < torch.n_dtypes; i++) {
    const torch_dtype *d = &torch.dtypes[i];
    if (d->object == args[o->n_in + t->dtype_index]) return d->bits < 16 || d->code == kDLInt || d->code == kDLUInt;
  }
  return 0;
}

static int prepare(call *c, PyObject *const *args, Py_ssize_t nargs) {
  const op *o = c->op;
  if (nargs < o->n_in + o->n_attr || nargs > o->n_in + o->n_attr + o->n_out) {
    PyErr_Format(PyExc_TypeError, "%s: %zd arguments came; want %d to %d", o->name, nargs, o->n_in + o->n_attr,
                 o->n_in + o->n_attr + o->n_out);
    return -1;
  }
  c->constant = is_constant(o, args);
  if (!c->strict && !c->recorded) {
    int may_ask = !c->constant && !o->tensors[0].constant && is_plain(args[0]);
    int elsewhere = may_ask ? asks_gradient(args[0]) : 0; /* first, since training comes here twice */
    c->differentiated = elsewhere > 0;
    if (!elsewhere) elsewhere = mode_is_active();
    if (elsewhere) {
      c->missed = elsewhere > 0;
      return -1;
    }
  }
  for (int i = 0; i < o->n_in; i++)
    if (take_input(c, i, args[i])) return -1;
  for (int i = 0; i < o->n_attr; i++)
    if (read_attribute(c, i, args[o->n_in + i])) return -1;
  for (int i = o->n_in, at = o->n_in + o->n_attr; i < c->n; i++, at++)
    if (make_output(c, i, at < nargs ? args[at] : NULL)) return -1;
  return o->tensors[0].rows ? fold_rows(c) : 0;
}

static PyObject *results(call *c) {
  const op *o = c->op;
  if (o->n_out == 0) Py_RETURN_NONE;
  if (o->n_out == 1) {
    PyObject *only = c->made[o->n_in];
    c->made[o->n_in] = NULL;
    return only;
  }
  PyObject *tuple = PyTuple_New(o->n_out);
  for (int i = 0; tuple && i < o->n_out; i++) {
    PyObject *item = c->made[o->n_in + i] ? c->made[o->n_in + i] : Py_None;
    Py_INCREF(item);
    PyTuple_SetItem(tuple, i, item);
  }
  return tuple;
}

/* Whether a call that wants a gradient needs autograd's function alone, and no mode, transform or cast: -1 with an
 * exception. */
static int can_record(const call *c, PyObject *const *args, Py_ssize_t nargs) {
  const op *o = c->op;
  for (Py_ssize_t i = o->n_in + o->n_attr; i < nargs; i++)
    if (args[i] != Py_None) return 0;
  int cast = 0;
  for (int i = 0; i < o->n_in; i++) {
    const op_tensor *t = &o->tensors[i];
    int number = t->number && (PyFloat_CheckExact(args[i]) || PyLong_CheckExact(args[i]));
    if (!number && !(args[i] == Py_None && t->optional) && !is_plain(args[i])) return 0;
    cast |= t->cast;
  }
  if (cast) cast = autocast_is_enabled();
  if (cast) return cast < 0 ? -1 : 0;
  int elsewhere = mode_is_active(); /* a trace records a function that raises an exception, too */
  if (!elsewhere) elsewhere = transform_is_active();
  return elsewhere < 0 ? -1 : !elsewhere;
}

static PyObject *tuple_of(PyObject *const *items, Py_ssize_t n, Py_ssize_t room) {
  PyObject *tuple = PyTuple_New(room);
  for (Py_ssize_t i = 0; tuple && i < n; i++) {
    Py_INCREF(items[i]);
    PyTuple_SetItem(tuple, i, items[i]);
  }
  return tuple;
}

/* The op whose autograd function this thread has begun, and its first input, by which the function's call of the op is
 * known: what Python runs before that, as a finalizer or a profiler, may call the op, too. */
static _Thread_local struct {
  const op *op;
  PyObject *input;
} recording;

/* autograd's function of the inputs and, where there are attributes, of all arguments as one: it looks at each. */
static PyObject *record(call *c, PyObject *const *args, Py_ssize_t nargs) {
  const op *o = c->op;
  PyObject *function = c->transposed ? o->transposed_function : o->function;
  if (!function || can_record(c, args, nargs) <= 0) return NULL;
  PyObject *all = tuple_of(args, o->n_in, o->n_in + (o->n_attr > 0)), *whole = NULL;
  if (all && o->n_attr) PyTuple_SetItem(all, o->n_in, whole = tuple_of(args, o->n_in + o->n_attr, o->n_in + o->n_attr));
  recording.op = o;
  recording.input = args[0];
  PyObject *result = all && (whole || !o->n_attr) ? PyObject_Call(function, all, NULL) : NULL;
  recording.op = NULL;
  Py_XDECREF(all);
  c->missed = !result && PyErr_ExceptionMatches(torch.elsewhere);
  return result;
}

enum { STRICT = 1, ONLY_CHECK = 2, ONLY_SHAPES = 4, RECORD = 8, TRANSPOSED = 16 }; /* see call */

static PyObject *invoke(PyObject *self, PyObject *const *args, Py_ssize_t nargs, int flags) {
  call c;
  c.op = PyCapsule_GetPointer(self, "isobit.op");
  if (!c.op || lib_ready()) return NULL;
  c.strict = flags & STRICT;
  c.only_check = flags & ONLY_CHECK;
  c.only_shapes = flags & ONLY_SHAPES;
  c.transposed = flags & TRANSPOSED;
  c.missed = c.differentiated = 0;
  c.recorded = recording.op == c.op && nargs > 0 && recording.input == args[0];
  if (c.recorded) recording.op = NULL;
  c.n = c.op->n_in + c.op->n_out;
  memset(c.present, 0, sizeof c.present);
  memset(c.taken, 0, sizeof c.taken);
  memset(c.given, 0, sizeof c.given);
  memset(c.made, 0, sizeof c.made);
  PyObject *result = NULL;
  if (prepare(&c, args, nargs) == 0 && run(&c) == 0) {
    if (c.only_check)
      Py_INCREF(result = Py_None);
    else if (count_writes(&c) == 0)
      result = results(&c);
  }
  for (int i = 0; i < c.n; i++) {
    if (c.taken[i]) tensor_release(&c.args[i]);
    Py_XDECREF(c.made[i]);
  }
  if (!result && !c.strict && c.op->n_out == 1 && c.given[c.op->n_in]) c.missed = 1; /* Python says what out= did */
  if (c.differentiated && flags & RECORD) { /* and so there is no result */
    PyErr_Clear();
    result = record(&c, args, nargs);
  }
  if (!result && c.missed) {
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
  }
  return result;
}

static PyObject *op_run(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return invoke(self, args, nargs, STRICT);
}
static PyObject *op_fast(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return invoke(self, args, nargs, 0);
}
static PyObject *op_direct(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return invoke(self, args, nargs, RECORD);
}
static PyObject *op_transposed(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return invoke(self, args, nargs, TRANSPOSED | RECORD);
}
static PyObject *op_check(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return invoke(self, args, nargs, ONLY_CHECK);
}
static PyObject *op_infer(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return invoke(self, args, nargs, STRICT | ONLY_CHECK | ONLY_SHAPES);
}

/* ---- registration ---- */

/* set_function(direct or transposed, function): what records a call for autograd, of the inputs and the tuple of all
 * arguments. */
PyObject *op_set_function(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *call, *function;
  if (!PyArg_ParseTuple(args, "O!O", &PyCFunction_Type, &call, &function)) return NULL;
  op *o = PyCapsule_GetPointer(PyCFunction_GetSelf(call), "isobit.op");
  if (!o) return NULL;
  Py_INCREF(function);
  if (PyCFunction_GetFunction(call) == (PyCFunction)(void (*)(void))op_transposed)
    o->transposed_function = function;
  else
    o->function = function;
  Py_RETURN_NONE;
}

static int mark(marked_name to, const char *name) {
  return PyOS_snprintf(to, sizeof(marked_name), "\1%s\1", name) < (int)sizeof(marked_name) ? 0 : -1;
}

/* Each of these fills a part of an op from a tuple of its signature: 0, or -1. */

static int define_input(op *o, int i, PyObject *from) {
  op_tensor *t = &o->tensors[i];
  int codes;
  if (!PyArg_ParseTuple(from, "sppippppp", &t->name, &t->in_text, &t->optional, &t->number, &codes, &t->cast,
                        &t->constant, &t->rows, &t->per_row))
    return -1;
  if (codes) o->coded = i;
  return mark(t->marked, t->name);
}

static int define_attribute(op_attribute *a, PyObject *from) {
  int kind;
  if (!PyArg_ParseTuple(from, "sCp", &a->name, &kind, &a->optional)) return -1;
  a->kind = (char)kind;
  a->in_text = strchr("ifbsl", kind) != NULL;
  return mark(a->marked, a->name);
}

static int define_output(op_tensor *t, PyObject *from) {
  PyObject *parts;
  if (!PyArg_ParseTuple(from, "spiiiiiO!", &t->name, &t->in_text, &t->dtype_rule, &t->dtype_index, &t->wanted_by,
                        &t->wanted_if, &t->like, &PyTuple_Type, &parts))
    return -1;
  t->n_parts = (int)PyTuple_Size(parts);
  if (t->n_parts > MAX_PARTS) return -1;
  for (int i = 0; i < t->n_parts; i++) {
    shape_part *p = &t->parts[i];
    if (!PyArg_ParseTuple(PyTuple_GetItem(parts, i), "iiLL", &p->kind, &p->index, &p->low, &p->high)) return -1;
  }
  return mark(t->marked, t->name);
}

static int define_op(op *o, PyObject *args) {
  PyObject *ins, *attrs, *outs;
  if (!PyArg_ParseTuple(args, "ssO!O!O!", &o->name, &o->plan, &PyTuple_Type, &ins, &PyTuple_Type, &attrs, &PyTuple_Type,
                        &outs))
    return -1;
  o->n_in = (int)PyTuple_Size(ins);
  o->n_attr = (int)PyTuple_Size(attrs);
  o->n_out = (int)PyTuple_Size(outs);
  if (o->n_in < 1 || o->n_in + o->n_out > MAX_ARGS || o->n_attr > MAX_ATTRS) {
    PyErr_SetString(PyExc_ValueError, "define: too many or too few arguments");
    return -1;
  }
  for (int i = 0; i < o->n_in; i++)
    if (define_input(o, i, PyTuple_GetItem(ins, i))) return -1;
  for (int i = 0; i < o->n_attr; i++)
    if (define_attribute(&o->attributes[i], PyTuple_GetItem(attrs, i))) return -1;
  for (int i = 0; i < o->n_out; i++)
    if (define_output(&o->tensors[o->n_in + i], PyTuple_GetItem(outs, i))) return -1;
  return 0;
}

/* define(name, plan, inputs, attributes, outputs) -> (run, fast, direct, transposed, check, infer); see _signature.py
 */
PyObject *op_define(PyObject *module, PyObject *args) {
  (void)module;
  static int next_id;
  static PyMethodDef methods[] = {
      {"run", (PyCFunction)(void (*)(void))op_run, METH_FASTCALL, NULL},
      {"fast", (PyCFunction)(void (*)(void))op_fast, METH_FASTCALL, NULL},
      {"direct", (PyCFunction)(void (*)(void))op_direct, METH_FASTCALL, NULL},
      {"transposed", (PyCFunction)(void (*)(void))op_transposed, METH_FASTCALL, NULL},
      {"check", (PyCFunction)(void (*)(void))op_check, METH_FASTCALL, NULL},
      {"infer", (PyCFunction)(void (*)(void))op_infer, METH_FASTCALL, NULL},
  };
  op *o = PyMem_Calloc(1, sizeof *o); /* ops live as long as the process */
  if (!o) return PyErr_NoMemory();
  PyObject *self = define_op(o, args) ? NULL : PyCapsule_New(o, "isobit.op", NULL);
  if (!self) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "define: malformed signature");
    PyMem_Free(o);
    return NULL;
  }
  o->id = next_id++;
  Py_INCREF(args);
  o->spec = args;
  Py_ssize_t n = sizeof methods / sizeof *methods;
  PyObject *calls = PyTuple_New(n);
  for (Py_ssize_t i = 0; calls && i < n; i++) {
    PyObject *callable = PyCFunction_NewEx(&methods[i], self, NULL);
    if (callable) {
      PyTuple_SetItem(calls, i, callable);
    } else {
      Py_DECREF(calls);
      calls = NULL;
    }
  }
  Py_DECREF(self);
  return calls;
}
