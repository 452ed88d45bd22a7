/* A call as the key of its plan and, where that is new, as the problem's text. */
#include "_C_op.h"

#include <stdarg.h>
#include <string.h>

_Static_assert(sizeof((plan_key){0}.bytes) >= 12 + MAX_ARGS * (4 + 8 * MAX_RANK) + MAX_ATTRS * (2 + 8 * MAX_LIST) &&
                   MAX_WORD <= 8 * MAX_LIST,
               "a key has room for every call");

static void key_put(plan_key *k, const void *bytes, size_t size) {
  memcpy(k->bytes + k->size, bytes, size);
  k->size += (uint32_t)size;
}

void write_key(const call *c, plan_key *k) {
  k->size = 0;
  int32_t head[3] = {c->op->id, (int32_t)c->args[0].t.device.device_type, c->args[0].t.device.device_id};
  key_put(k, head, sizeof head);
  for (int i = 0; i < c->n; i++) {
    const tensor_arg *a = &c->args[i];
    const DLTensor *t = &a->t;
    int64_t space[MAX_RANK];
    int shaped = c->present[i] && c->op->tensors[i].in_text;
    unsigned char tag[4] = {c->present[i], 0, 0, 0};
    if (c->present[i]) tag[1] = tensor_dtype(a).code, tag[2] = tensor_dtype(a).bits;
    if (shaped) tag[3] = (unsigned char)t->ndim;
    key_put(k, tag, sizeof tag);
    if (shaped) key_put(k, tensor_shape(a, space), (size_t)t->ndim * 8);
  }
  for (int i = 0; i < c->op->n_attr; i++) {
    const value *v = &c->values[i];
    unsigned char tag[2] = {(unsigned char)v->kind, (unsigned char)v->size};
    if (!c->op->attributes[i].in_text) continue;
    if (v->kind != 's' && v->kind != 'l') tag[1] = 0;
    key_put(k, tag, sizeof tag);
    if (v->kind == 'i' || v->kind == 'b') key_put(k, &v->i, 8);
    if (v->kind == 'f') key_put(k, &v->f, 8);
    if (v->kind == 's') key_put(k, v->s, (size_t)v->size);
    if (v->kind == 'l') key_put(k, v->list, (size_t)v->size * 8);
  }
}

static void append(text_buffer *b, const char *format, ...) {
  va_list args;
  va_start(args, format);
  size_t room = sizeof b->bytes - b->size;
  int n = PyOS_vsnprintf(b->bytes + b->size, room, format, args);
  va_end(args);
  if (n > 0) b->size += (size_t)n < room ? (size_t)n : room - 1;
}

static void append_ints(text_buffer *b, const int64_t *values, long long n) {
  append(b, "[");
  for (long long i = 0; i < n; i++) append(b, i ? ",%lld" : "%lld", (long long)values[i]);
  append(b, "]");
}

static int append_tensor(text_buffer *b, const call *c, int i) {
  const op_tensor *t = &c->op->tensors[i];
  const tensor_arg *a = &c->args[i];
  if (!c->present[i]) {
    append(b, " %s=none", t->name);
    return 0;
  }
  const char *dtype = dtype_name(tensor_dtype(a));
  if (!dtype) {
    PyObject *named = PyObject_GetAttrString(a->object, "dtype");
    if (named) PyErr_Format(PyExc_TypeError, "%s: %s is %S, which isobit does not know", c->op->name, t->marked, named);
    Py_XDECREF(named);
    return -1;
  }
  int64_t space[MAX_RANK];
  append(b, " %s=%s", t->name, dtype);
  if (t->in_text) append_ints(b, tensor_shape(a, space), a->t.ndim);
  return 0;
}

static int append_attribute(text_buffer *b, const char *name, const value *v) {
  if (v->kind == 'i') append(b, " %s=%lld", name, (long long)v->i);
  if (v->kind == 'b') append(b, " %s=%s", name, v->i ? "true" : "false");
  if (v->kind == 's') append(b, " %s=%s", name, v->s);
  if (v->kind == 'l') append(b, " %s=", name), append_ints(b, v->list, v->size);
  if (v->kind != 'f') return 0;
  char *text = PyOS_double_to_string(v->f, 'r', 0, 0, NULL);
  if (!text) return -1;
  append(b, " %s=%s", name, text);
  PyMem_Free(text);
  return 0;
}

int write_text(const call *c, text_buffer *b) {
  b->size = 0;
  append(b, "%s", c->op->plan);
  for (int i = 0; i < c->n; i++)
    if (append_tensor(b, c, i)) return -1;
  for (int i = 0; i < c->op->n_attr; i++)
    if (append_attribute(b, c->op->attributes[i].name, &c->values[i])) return -1;
  DLDevice device = c->args[0].t.device;
  if (is_cuda(device)) append(b, " device=cuda:%d", (int)device.device_id);
  return 0;
}
