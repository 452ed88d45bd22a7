/* isobit.h - the C interface of isobit, for C and for C++11; no other header is needed.
 *
 * Isobit runs tensor operations (quantization, embedding, grid_sample, linear
 * layers, forward and backward) with the same result bits from C, C++, Go and
 * Python, on every instruction set and thread count.
 *
 * The interface names no operation. A problem is a line of text; it becomes a
 * plan; a plan runs on tensors that the caller owns:
 *
 *   isobit_plan plan;
 *   char err[256];
 *   isobit_plan_create("quantize_per_channel x=f32[2,3] zero_point=none q=s8 axis=0 qmin=-128 qmax=127",
 *                      NULL, &plan, err, sizeof err);
 *   const DLTensor *args[] = {&x, &scale, NULL, &q};
 *   isobit_plan_run(plan, NULL, NULL, 0, args, 4, err, sizeof err);
 *   isobit_plan_destroy(plan, err, sizeof err);
 *
 * Link with -lisobit, or load the library with dlopen: load it lazily, since a
 * child of fork() cannot use a library that its parent had loaded.
 *
 * Conventions, for every function that returns isobit_status:
 *  - 0 (ISOBIT_OK) is success. Otherwise one sentence that names the operation
 *    and the argument, what came and what was wanted is written to err: at most
 *    err_size bytes with the terminating NUL, cut at a whole UTF-8 character.
 *    err may be NULL with err_size 0. On success err is left as it was.
 *  - A call that fails has written nothing to any output tensor (except where
 *    the status is ISOBIT_DEVICE or ISOBIT_INTERNAL).
 *  - Any thread may call at any time. A plan may run in many threads at once.
 *  - The floating-point control state of the caller (flush-to-zero, rounding
 *    mode) neither affects a result nor is changed.
 *  - Besides the errors listed, any function may return ISOBIT_FORKED or
 *    ISOBIT_INTERNAL.
 *  - No call throws, exits, raises a signal or prints (ISOBIT_VERBOSE=1 in the
 *    environment prints a line per plan to stderr, and before it one per row that
 *    was passed over; an internal error prints its stack there). But a pointer to
 *    memory that does not exist ends the process, and so does the lack of memory
 *    or threads for Go's runtime: it reserves addresses and starts threads when
 *    the library is loaded.
 *  - Runs allocate memory that later runs use again: 2 MB a thread, 5 to 15 KB a plan on
 *    few elements (more where several threads run it), and contiguous copies of inputs
 *    that are not contiguous, or expanded: images and upstream gradients (grid_sample,
 *    embeddings), tables of which many rows are read, and packed codes
 *    (dequantize_backward).
 *  - Signal handlers of the program need SA_ONSTACK (sigaction). Without it a handler
 *    may run on a stack of a few kilobytes, and write past its end; with it, on the
 *    thread's sigaltstack, or on one of 32 KB where there is none. The runtime's own
 *    handlers run there, too, so a sigaltstack needs 8 KB at least.
 *    SIGURG is the runtime's own: the program's handler does not see it.
 */
#ifndef ISOBIT_H_
#define ISOBIT_H_

#include <stddef.h>
#include <stdint.h>

/* Version of this header. isobit_version() is that of the loaded library. */
#define ISOBIT_VERSION "0.1.0"
/* Raised when a function changes or goes; also the N in libisobit.so.N. A
 * program built against N runs with every library of the same N that is not
 * older: functions are only added, and structs only grow at their end. */
#define ISOBIT_ABI_VERSION 1

/* ---- DLPack 1.3 -----------------------------------------------------------
 * The same declarations as upstream's dlpack.h, under the same include guard:
 * that file may be included before or after this one. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C
#endif
#define DLPACK_DLL
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 3
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17,
  kDLTrn = 18
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U,
  kDLBool = 6U,
  kDLFloat8_e3m4 = 7U,
  kDLFloat8_e4m3 = 8U,
  kDLFloat8_e4m3b11fnuz = 9U,
  kDLFloat8_e4m3fn = 10U,
  kDLFloat8_e4m3fnuz = 11U,
  kDLFloat8_e5m2 = 12U,
  kDLFloat8_e5m2fnuz = 13U,
  kDLFloat8_e8m0fnu = 14U,
  kDLFloat6_e2m3fn = 15U,
  kDLFloat6_e3m2fn = 16U,
  kDLFloat4_e2m1fn = 17U
} DLDataTypeCode;

typedef struct {
  uint8_t code; /* a DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape; /* in elements */
  int64_t *strides; /* in elements */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags; /* DLPACK_FLAG_BITMASK_* */
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

typedef int (*DLPackManagedTensorAllocator)(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                                            void (*SetError)(void *error_ctx, const char *kind, const char *message));
typedef int (*DLPackManagedTensorFromPyObjectNoSync)(void *py_object, DLManagedTensorVersioned **out);
typedef int (*DLPackManagedTensorToPyObjectNoSync)(DLManagedTensorVersioned *tensor, void **out_py_object);
typedef int (*DLPackDLTensorFromPyObjectNoSync)(void *py_object, DLTensor *out);
typedef int (*DLPackCurrentWorkStream)(DLDeviceType device_type, int32_t device_id, void **out_current_stream);

typedef struct DLPackExchangeAPIHeader {
  DLPackVersion version;
  struct DLPackExchangeAPIHeader *prev_api;
} DLPackExchangeAPIHeader;

typedef struct DLPackExchangeAPI {
  DLPackExchangeAPIHeader header;
  DLPackManagedTensorAllocator managed_tensor_allocator;
  DLPackManagedTensorFromPyObjectNoSync managed_tensor_from_py_object_no_sync;
  DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync;
  DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync;
  DLPackCurrentWorkStream current_work_stream;
} DLPackExchangeAPI;

#ifdef __cplusplus
}
#endif
#endif /* DLPACK_DLPACK_H_ */

/* ---- isobit --------------------------------------------------------------- */

#if defined(__GNUC__)
#define ISOBIT_API __attribute__((visibility("default")))
#elif defined(_WIN32)
#define ISOBIT_API __declspec(dllimport)
#else
#define ISOBIT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t isobit_status;
enum {
  ISOBIT_OK = 0,
  ISOBIT_INVALID_PROBLEM = 1, /* the problem's text or the preference is wrong */
  ISOBIT_INVALID_ARGUMENT = 2, /* a tensor does not fit the problem, or a pointer is NULL */
  ISOBIT_UNSUPPORTED = 3, /* no row takes the problem (with this preference) */
  ISOBIT_WORKSPACE_TOO_SMALL = 4, /* fewer bytes than isobit_plan_workspace_size says */
  ISOBIT_INVALID_HANDLE = 5, /* never a plan, or destroyed */
  ISOBIT_DEVICE = 6, /* no such device, no driver, or the driver failed */
  ISOBIT_FORKED = 7, /* the library was loaded before fork(); this is the child */
  ISOBIT_INTERNAL = 8 /* a bug in isobit; every later call answers the same */
};

/* A handle. 0 is never a plan, and a destroyed plan's handle is not used again
 * (until four billion others have taken its slot). */
typedef uint64_t isobit_plan;

/* How to choose a plan. Set struct_size to sizeof(isobit_preference), and fields
 * without a preference to 0; or pass NULL instead of the struct. */
typedef struct isobit_preference {
  size_t struct_size;
  int64_t max_workspace; /* bytes; 0: no limit. Rows that need more run on fewer threads, or are passed over */
  const char *row; /* a row by name, such as "go" or "avx2"; NULL or "": the best that fits */
  int32_t num_threads; /* 0 to 1024; 0: as isobit_get_num_threads says when the plan runs. Where the
                        * workspace has a part for each thread (matmul, the input's gradients of
                        * grid_sample), no more than it said when the plan was made */
  int32_t mark_names; /* 0 or 1; 1: errors of this plan, and of making it, have a byte 1 before and after the name of
                       * an op, an argument, an attribute, a type or a truth value, for callers with names of
                       * their own */
} isobit_preference;

/* The library's version, such as "0.1.0". Never NULL; works in a forked child too. */
ISOBIT_API const char *isobit_version(void);
/* The library's ISOBIT_ABI_VERSION. Works in a forked child too. */
ISOBIT_API int32_t isobit_abi_version(void);

/* Makes a plan from a problem's text: `op key=value key=value ...`, where a key
 * is a tensor (`x=f32[64,128]`: dtype and shape; `q=s8`: dtype, where the shape
 * follows from others; `zero_point=none`: absent) or an attribute (`axis=0`,
 * `mode=bilinear`, `block_size=[1,32]`). Keys may come in any order; what has a
 * default may be left out. `device=cuda:0` puts the tensors on a GPU.
 * OPS.md, beside isobit's README, is the reference of operations; isobit_support
 * lists them and isobit_plan_describe a plan's arguments.
 * On a GPU it loads kernels; nothing runs. Writes 0 to *plan on failure.
 * Errors: INVALID_PROBLEM, INVALID_ARGUMENT, UNSUPPORTED, DEVICE. */
ISOBIT_API isobit_status isobit_plan_create(const char *problem, const isobit_preference *preference, isobit_plan *plan,
                                            char *err, size_t err_size);

/* Says whether isobit_plan_run would take these tensors, without running.
 * args: see isobit_plan_run. A tensor on kDLExtDev stands for one without memory: its
 * type and shape are checked, its data may be NULL, and values (indices, offsets, zero
 * points) are not read. Errors: INVALID_ARGUMENT, INVALID_HANDLE. */
ISOBIT_API isobit_status isobit_plan_can_implement(isobit_plan plan, const DLTensor *const *args, int32_t nargs,
                                                   char *err, size_t err_size);

/* Writes to *bytes the exact size of the workspace that isobit_plan_run needs;
 * often 0. Errors: INVALID_HANDLE, INVALID_ARGUMENT (bytes is NULL). */
ISOBIT_API isobit_status isobit_plan_workspace_size(isobit_plan plan, uint64_t *bytes, char *err, size_t err_size);

/* Writes the plan as JSON: problem, category, row, arch, workspace_size,
 * precision_guarantee, and args, a list of {name, dtype, shape, direction,
 * optional, present} in the order in which isobit_plan_run takes them; shape is
 * that of the DLTensor, for s4 and u4 in bytes. row is the row selected, that is the way
 * to compute; what its kernels do not take, the definition ("go") computes, with the same
 * bits.
 * direction is "in", "out", or "inout" of an output that is read first.
 * precision_guarantee.same_everywhere is false where the last bits depend on the
 * processor (embedding_renorm with other norms than 0, 1, 2, inf and -inf).
 * Writes the JSON's size in bytes, its NUL included, to *needed (may be NULL). With
 * buf NULL it writes nothing else. If buf has fewer bytes, the status is
 * INVALID_ARGUMENT and buf stays as it was. Errors: INVALID_HANDLE, INVALID_ARGUMENT. */
ISOBIT_API isobit_status isobit_plan_describe(isobit_plan plan, char *buf, size_t size, size_t *needed, char *err,
                                              size_t err_size);

/* Runs the plan: reads the inputs, writes every element of the outputs. An output
 * whose direction is "inout" is read, too: accumulate=true adds to what it holds,
 * and embedding_renorm writes only the rows of weight that it scales.
 *
 * args holds nargs tensors in the order of isobit_plan_describe, inputs before
 * outputs (embedding_renorm's weight, which is both, comes first); NULL where an
 * optional one is absent (`none`). The DLTensors are only read, during the call.
 * Per tensor:
 *  - ndim is 0 to 8; shape may be NULL only when ndim is 0.
 *  - strides are in elements, may be NULL (compact, row-major) and may be 0 or
 *    negative; an output's elements must not overlap.
 *  - data may be NULL only when the tensor is empty; byte_offset is added to it.
 *    Together they are a multiple of the element's size.
 *  - dtype has lanes 1: f32, f64, f16, bf16, f8e4m3 (DLPack's e4m3fn), f8e5m2, s8,
 *    u8, s16, u16, i32 or i64. Codes of 4 bits (s4, u4) are passed in pairs,
 *    as u8 with ceil(D / 2) bytes along the last dimension, the lower half first.
 *  - device: kDLCPU or kDLCUDAHost for the CPU; kDLCUDA or kDLCUDAManaged for a
 *    problem with device=cuda:N.
 *  - Outputs must overlap neither inputs nor each other. But the same tensor may
 *    be an output and one of the inputs that isobit_support lists as its
 *    in_place, and tensors that alternate in memory, such as columns of one matrix,
 *    do not overlap. The memory's length is not part of a DLTensor, so it cannot be
 *    checked.
 *
 * workspace: at least isobit_plan_workspace_size bytes on the plan's device; NULL
 * with 0 when that is 0. Its address is a multiple of 8, on a GPU of 16; a multiple
 * of 64 makes matrix products on a CPU faster. Its content has no meaning between
 * calls; each of several calls at the same time needs its own.
 * stream: a cudaStream_t / CUstream for a CUDA plan; NULL for the CPU, where
 * the work is finished on return.
 *
 * Errors: INVALID_ARGUMENT, WORKSPACE_TOO_SMALL, INVALID_HANDLE, DEVICE. */
ISOBIT_API isobit_status isobit_plan_run(isobit_plan plan, void *stream, void *workspace, uint64_t workspace_size,
                                         const DLTensor *const *args, int32_t nargs, char *err, size_t err_size);

/* Destroys a plan: its handle is invalid from then on. Runs of it that are under way
 * finish normally.
 * Errors: INVALID_HANDLE (also for a second destroy). */
ISOBIT_API isobit_status isobit_plan_destroy(isobit_plan plan, char *err, size_t err_size);

/* Sets the number of threads that a run may use, the caller's included, up to
 * 1024; 0 is one per processor, as at the start. Plans that exist follow it, but
 * see num_threads above. It never changes a result. Errors: INVALID_ARGUMENT. */
ISOBIT_API isobit_status isobit_set_num_threads(int32_t n, char *err, size_t err_size);

/* Writes that number. Errors: INVALID_ARGUMENT (n is NULL). */
ISOBIT_API isobit_status isobit_get_num_threads(int32_t *n, char *err, size_t err_size);

/* A thread pool of the program's: parallel calls body(data) on up to max_threads
 * of its threads at once, and returns when the calls have returned. Fewer calls,
 * or none, will do: the calling thread does what is left. Calls beyond
 * max_threads return at once. Neither parallel nor its threads may leave such a
 * call by an exception or longjmp. */
typedef void (*isobit_parallel)(void (*body)(void *data), void *data, int32_t max_threads);

/* Makes runs use the program's threads instead of isobit's own, so that two thread
 * pools do not compete for the same cores; NULL: isobit's own again. With OpenMP,
 * for example, parallel calls body(data) in `#pragma omp parallel`. It never changes
 * a result. A run that has begun may go on with what was set before, or with this:
 * a pool stays until the runs that may know it have returned. Errors: none of its own. */
ISOBIT_API isobit_status isobit_set_parallel(isobit_parallel parallel, char *err, size_t err_size);

/* Writes what runs where as JSON: a list of operations with their arguments
 * (dtypes, shapes, defaults), attributes, formulas, sections of NUMERICS.md,
 * devices and rows, and what each is.
 * buf, size and needed as in isobit_plan_describe. Errors: INVALID_ARGUMENT. */
ISOBIT_API isobit_status isobit_support(char *buf, size_t size, size_t *needed, char *err, size_t err_size);

/* Writes the state of the library as JSON: version, abi, go, os, arch, isa (the
 * largest instruction set in use, which ISOBIT_ROWS caps), threads, parallel
 * (whose threads those are: "isobit" or "host"), cuda ("available", or why there
 * are no CUDA devices; it opens the driver). buf, size and needed as in
 * isobit_plan_describe. Errors: INVALID_ARGUMENT. */
ISOBIT_API isobit_status isobit_info(char *buf, size_t size, size_t *needed, char *err, size_t err_size);

#ifdef __cplusplus
}
#endif
#endif /* ISOBIT_H_ */
