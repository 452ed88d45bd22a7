/* _C_op.h - an op's signature and one call of it, shared by _C_op.c, _C_args.c, _C_output.c and _C_key.c. */
#ifndef ISOBIT_PYTHON_C_OP_H_
#define ISOBIT_PYTHON_C_OP_H_

#include "_C.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

enum { DTYPE_OF_INPUT, DTYPE_OF_ATTRIBUTE, DTYPE_FIXED, DTYPE_OF_PARAMETERS };
enum { NO_NUMBER, NUMBER_AS_IS, NUMBER_AS_FLOAT };
enum { PART_INPUT, PART_LITERAL, PART_ATTRIBUTE, PART_AT, PART_BLOCKS };

typedef struct {
  int kind, index;
  long long low, high; /* a slice as in Python; PART_LITERAL: low is the value */
} shape_part;

enum { MAX_NAME = 62, MAX_WORD = 32 };
/* A name as messages have it: between two bytes 1, by which _op.py finds it and says what torch's schema calls it. */
typedef char marked_name[MAX_NAME + 3];

typedef struct {
  const char *name;
  marked_name marked;
  int in_text; /* the text and the key carry the shape */
  /* inputs */
  int optional;
  int cast; /* torch's autocast may convert it, where it has 16 bits */
  int number; /* whether a Python number may stand for it: NO_NUMBER, ... */
  int constant; /* no gradient reaches it */
  int rows; /* a product's, of other numbers of dimensions than the op has: see fold_rows */
  int per_row; /* ... one for each row of the factor before it */
  /* outputs */
  int dtype_rule, dtype_index; /* DTYPE_FIXED: an index into torch.dtypes */
  int wanted_by; /* the bool attribute that says whether it is wanted, or -1 */
  int wanted_if; /* ... by this value */
  int like; /* the input in whose order its elements lie, or -1: row-major */
  int n_parts;
  shape_part parts[MAX_PARTS];
  PyObject *made_by; /* how the last output was allocated: arguments, for a shape and a dtype */
  int made_rank, made_dtype;
  int64_t made_shape[MAX_RANK];
} op_tensor;

typedef struct {
  const char *name;
  marked_name marked;
  char kind; /* i f b s l: int, float, bool, word, ints, in the text
              * d w I F B L: dtype of an output, output wanted, int, float, bool, ints: not in the text
              * m: the dtype of the codes among the inputs; e: their last extent, where packed
              * x: for the backward only, ignored here */
  int in_text; /* and in the key */
  int optional; /* may be None */
} op_attribute;

typedef struct {
  const char *name, *plan;
  int id, n_in, n_out, n_attr;
  int coded; /* the input that holds codes */
  op_tensor tensors[MAX_ARGS]; /* inputs, then outputs */
  op_attribute attributes[MAX_ATTRS];
  PyObject *spec; /* keeps the names alive */
  PyObject *function, *transposed_function; /* autograd's for direct and transposed calls, or NULL */
  plan_entry *last; /* that a call ran, or NULL */
} op;

typedef struct {
  char kind; /* 0: None */
  int64_t i;
  double f;
  const char *s;
  Py_ssize_t size; /* of s or list */
  int64_t list[MAX_LIST];
} value;

typedef struct {
  op *op;
  int strict, missed; /* missed: answer NotImplemented */
  int differentiated; /* ... since a gradient is wanted */
  int recorded; /* within autograd's function: gradients and modes were asked for, and none is */
  int constant; /* its results carry no gradient */
  int only_check; /* nothing is computed */
  int only_shapes; /* tensors have no memory */
  int transposed; /* input 1 is a matrix, of which the transpose is meant */
  int n;
  tensor_arg args[MAX_ARGS];
  unsigned char present[MAX_ARGS], taken[MAX_ARGS], given[MAX_ARGS]; /* given: by out= */
  value values[MAX_ATTRS];
  PyObject *made[MAX_ARGS]; /* new references to outputs */
  int64_t extents[MAX_ARGS][MAX_RANK]; /* where only_shapes or transposed */
  int64_t strides[2]; /* where transposed */
  int64_t folded[MAX_ARGS][6]; /* extents and strides of what fold_rows changed */
} call;

/* _C_args.c and _C_output.c: each 0, or -1 with an exception or, in a fast call, with missed set */
int take(call *c, int i, PyObject *o); /* fills args[i] from o */
void take_shape(call *c, int i, const int64_t *extents, int64_t rank, DLDataType dtype); /* ... of what has no memory */
int take_input(call *c, int i, PyObject *o);
int fold_rows(call *c); /* makes operands of a product, of any number of dimensions, matrices or pairs of them */
int read_attribute(call *c, int i, PyObject *o);
int make_output(call *c, int i, PyObject *given);
int count_writes(call *c); /* tells autograd that the given outputs were written */

/* _C_key.c */
typedef struct {
  char bytes[4096];
  size_t size;
} text_buffer;
void write_key(const call *c, plan_key *k);
int write_text(const call *c, text_buffer *b); /* 0, or -1 with an exception */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif /* ISOBIT_PYTHON_C_OP_H_ */
