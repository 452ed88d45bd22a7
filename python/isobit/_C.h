/* _C.h - what the files of the extension share. Stable ABI, no torch headers.
 *
 *   _C.c         the module: functions that Python calls, set-up
 *   _C_load.c    finds and opens libisobit, again in a forked child
 *   _C_torch.c   what torch is asked in every call
 *   _C_tensor.c  Python objects to DLTensor
 *   _C_plan.c    plans: cache by key, run
 *   _C_problem.c plans that users make of a text: isobit.Plan
 *   _C_op.c      ops: a signature registered once, called often, with
 *   _C_args.c    its arguments,
 *   _C_output.c  its outputs, and
 *   _C_key.c     its key and text
 *
 * Everything runs under the GIL, but for what takes long in the library: plans are made,
 * run and described without it. */
#ifndef ISOBIT_PYTHON_C_H_
#define ISOBIT_PYTHON_C_H_

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "isobit.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden) /* only PyInit__C leaves this library */
#endif

enum { MAX_ARGS = 12, MAX_ATTRS = 16, MAX_PARTS = 4, MAX_RANK = 8, MAX_LIST = 8, ERR_SIZE = 1024 };

/* ---- the library ---- */
typedef struct {
  __typeof__(&isobit_version) version;
  __typeof__(&isobit_abi_version) abi_version;
  __typeof__(&isobit_plan_create) plan_create;
  __typeof__(&isobit_plan_can_implement) plan_can_implement;
  __typeof__(&isobit_plan_workspace_size) plan_workspace_size;
  __typeof__(&isobit_plan_describe) plan_describe;
  __typeof__(&isobit_plan_run) plan_run;
  __typeof__(&isobit_plan_destroy) plan_destroy;
  __typeof__(&isobit_set_num_threads) set_num_threads;
  __typeof__(&isobit_get_num_threads) get_num_threads;
  __typeof__(&isobit_set_parallel) set_parallel;
  __typeof__(&isobit_support) support;
  __typeof__(&isobit_info) info;
} library;

extern library lib;
extern int lib_usable; /* lib is filled, and this process is the one that did it */
extern unsigned lib_generation; /* counts loads: a handle belongs to one of them */
extern PyObject *argument_error; /* isobit.ArgumentError */
extern PyObject *lib_finder; /* Python callable that answers the library's path */

int lib_watch_forks(void); /* once, before the first load; 0, or an error number */
int lib_load(void); /* 0, or -1 with an exception */
static inline int lib_ready(void) { return lib_usable ? 0 : lib_load(); }
PyObject *lib_path(void); /* new reference: str, or None while not loaded */
void lib_raise(isobit_status status, const char *message);

/* ---- torch, as registered by _C.set_torch ---- */
typedef struct {
  PyObject *object; /* torch.float32, ... */
  PyObject *kw; /* {"dtype": object} */
  PyObject *kw_cpu; /* {"dtype": object, "device": torch.device("cpu")} */
  uint8_t code, bits; /* DLPack's */
  const char *name; /* as in a problem's text */
} torch_dtype;

/* A function of torch's, and the C function behind it; flags: how that takes arguments, 0 where there is none. */
typedef struct {
  PyObject *callable, *self;
  PyCFunction function;
  int flags;
} torch_function;

/* A property of tensors, and the C function that gets it, or NULL. */
typedef struct {
  PyObject *name, *descriptor;
  descrgetfunc get;
} property;

enum { MAX_DTYPES = 16 };
typedef struct {
  PyObject *types[2]; /* torch.Tensor, torch.nn.Parameter */
  PyObject *elsewhere; /* an exception: autograd's function leaves a call to torch's dispatcher */
  PyObject *empty, *empty_like, *is_neg, *get_num_threads, *raw_stream, *forward_ad, *profiler, *sees_functions;
  torch_function is_grad_enabled, is_autocast_enabled, transforms_are_active, in_inference_mode, dispatch_modes,
      function_modes, tracing_state;
  torch_function empty_strided_cpu, increment_version;
  property requires_grad, version;
  PyObject *device, *current_level, *is_profiling; /* names of attributes */
  torch_dtype dtypes[MAX_DTYPES];
  int n_dtypes;
} torch_api;
extern torch_api torch;

void find_function(torch_function *f, PyObject *callable); /* fills f */
PyObject *call_function_with(const torch_function *f, PyObject *args);
int increment_versions(PyObject *tensors); /* tells autograd of writes: 0, or -1 with an exception */
int property_named(property *p, PyObject *type, const char *name); /* 0, or -1 with an exception */
/* Each 0, 1, or -1 with an exception. */
int grad_is_enabled(void);
int autocast_is_enabled(void);
int transform_is_active(void); /* one of torch.func */
int mode_is_active(void); /* a mode, torch.jit.trace, forward-mode AD or a profiler has to see the op itself */
int is_negative(PyObject *object); /* torch's, with the negative bit set */
int asks_gradient(PyObject *tensor); /* of torch's, and gradients are recorded */
int wants_gradient(PyObject *object, const DLTensor *t); /* autograd would have to see it */
int is_inference_tensor(PyObject *tensor); /* torch's, and this is outside of inference mode: not to be written */

/* ---- tensors ---- */
typedef struct {
  DLTensor t;
  PyObject *object; /* borrowed */
  const DLPackExchangeAPI *api;
  DLManagedTensorVersioned *versioned; /* to be released, where the object came by __dlpack__ */
  DLManagedTensor *unversioned;
  int read_only; /* the flags of __dlpack__ that say so: torch's tensors never are */
  const torch_dtype *packed; /* bytes that hold two codes of this type each, last of them in a row; or NULL */
  int64_t last;
  union {
    double f;
    int64_t i;
  } scalar; /* the memory of a Python number */
} tensor_arg;

int is_plain(PyObject *object); /* exactly torch.Tensor or torch.nn.Parameter */
int is_torch(PyObject *object); /* or of a class derived of them, which __class__ may say of others, too */
/* 0, or -1 with an exception; take also checks that its memory is what it seems. */
int tensor_read(PyObject *object, tensor_arg *a, const char *op, const char *name);
int tensor_take(PyObject *object, tensor_arg *a, const char *op, const char *name);
/* Makes a Python int or float (or int as float) a tensor of rank 0: 1 if it was one. */
int tensor_number(PyObject *object, tensor_arg *a, int as_float);
void tensor_release(tensor_arg *a);
int64_t tensor_count(const DLTensor *t);
/* Shape and type as the problem has them: those of the codes where they are packed. */
const int64_t *tensor_shape(const tensor_arg *a, int64_t space[MAX_RANK]);
DLDataType tensor_dtype(const tensor_arg *a);
static inline int is_cuda(DLDevice device) {
  return device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
}
const char *dtype_name(DLDataType dtype); /* as in a problem's text, or NULL */
int is_float_dtype(DLDataType dtype);
int find_dtype(uint8_t code, uint8_t bits); /* an index into torch.dtypes, or -1 */

/* ---- plans ---- */
typedef struct {
  isobit_plan handle;
  uint64_t workspace;
  uint64_t used; /* clock of the last use */
  unsigned generation;
  int threads; /* that the library was told of when the plan was made */
  int running; /* calls that are inside the library with it */
  uint32_t hash;
  uint32_t key_size;
  unsigned char *key;
} plan_entry;

typedef struct {
  unsigned char bytes[2048];
  uint32_t size;
} plan_key;

isobit_plan make_plan(const char *text, const isobit_preference *preference,
                      uint64_t *workspace); /* without the GIL; 0 with an exception */
plan_entry *plan_find(const plan_key *k, plan_entry *likely); /* likely: an entry to look at first, or NULL */
plan_entry *plan_add(const plan_key *k, const char *text); /* NULL with an exception */
void plan_counts(int *entries, uint64_t *hits, uint64_t *misses);
int plan_check(isobit_plan handle, const tensor_arg *args, const unsigned char *present,
               int n); /* as plan_run, computes nothing */
int plan_run(isobit_plan handle, uint64_t workspace, tensor_arg *args, const unsigned char *present, int n);

extern int threads_fixed; /* set_num_threads was called: 0 or the count */
extern int threads_told; /* what the library was told last */
int threads_sync(void); /* 0, or -1 with an exception */

/* ---- memory ---- */
extern int huge_pages; /* set_huge_pages */
void use_huge_pages(void *memory, int64_t bytes); /* before it is written for the first time */

/* ---- plans by their text, as Python calls them ---- */
PyObject *plan_create(PyObject *module, PyObject *args);
PyObject *plan_call(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *plan_workspace_size(PyObject *module, PyObject *handle);
PyObject *plan_destroy(PyObject *module, PyObject *handle);
PyObject *plan_describe(PyObject *module, PyObject *handle);
PyObject *support(PyObject *module, PyObject *none);
PyObject *info(PyObject *module, PyObject *none);

/* ---- ops ---- */
PyObject *op_define(PyObject *module, PyObject *args);
PyObject *op_set_function(PyObject *module, PyObject *args);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif /* ISOBIT_PYTHON_C_H_ */
