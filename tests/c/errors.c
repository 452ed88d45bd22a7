/* Every kind of error of calls and runs, with its status and a text that names what
 * is wrong, and the promise that a failed call writes nothing. */
#include "testing.h"

static tensor x, scale, zero_point, q;
static isobit_plan plan;

static isobit_status run(const DLTensor *a, const DLTensor *b, const DLTensor *c, const DLTensor *d, char *err,
                         size_t err_size) {
  const DLTensor *args[] = {a, b, c, d};
  return isobit_plan_run(plan, NULL, NULL, 0, args, 4, err, err_size);
}

/* Runs with one field of x changed, and checks both run and can_implement. */
#define BAD_X(word, change)                                                                               \
  do {                                                                                                    \
    tensor bad = x;                                                                                       \
    bad.dl.shape = bad.shape;                                                                             \
    change;                                                                                               \
    const DLTensor *args[] = {&bad.dl, &scale.dl, &zero_point.dl, &q.dl};                                 \
    FAILS(ISOBIT_INVALID_ARGUMENT, word, isobit_plan_run(plan, NULL, NULL, 0, args, 4, err, sizeof err)); \
    FAILS(ISOBIT_INVALID_ARGUMENT, word, isobit_plan_can_implement(plan, args, 4, err, sizeof err));      \
  } while (0)

static void tensors(void) {
  OK(run(&x.dl, &scale.dl, &zero_point.dl, &q.dl, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, ": x ", run(NULL, &scale.dl, &zero_point.dl, &q.dl, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, ": q ", run(&x.dl, &scale.dl, &zero_point.dl, NULL, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "zero_point", run(&x.dl, &scale.dl, NULL, &q.dl, err, sizeof err));
  BAD_X(": x ", bad.dl.data = NULL);
  BAD_X(": x ", bad.dl.data = (void *)(uintptr_t)64);
  BAD_X("no memory", bad.dl.data = (void *)(UINTPTR_MAX - 4095));
  BAD_X("byte_offset", bad.dl.byte_offset = 64 - (uint64_t)(uintptr_t)bad.dl.data);
  BAD_X("byte_offset", bad.dl.byte_offset = UINT64_MAX - 3);
  BAD_X("byte_offset", bad.dl.byte_offset = UINT64_C(1) << 63);
  BAD_X("byte_offset", bad.dl.data = (void *)(UINTPTR_MAX - 8191); bad.dl.byte_offset = 65536);
  BAD_X("ndim", bad.dl.ndim = -1);
  BAD_X("ndim", bad.dl.ndim = 9);
  BAD_X("has shape [2, 3, 0, 0, 0, 0, 0, 0]", bad.dl.ndim = 8);
  BAD_X(": x ", bad.dl.ndim = 1);
  BAD_X("shape", bad.dl.shape = NULL);
  BAD_X("NULL shape with ndim 1", bad.dl.shape = NULL; bad.dl.ndim = 1);
  BAD_X(": x ", bad.shape[0] = 3);
  BAD_X(": x ", bad.shape[1] = -3);
  BAD_X("dtype", bad.dl.dtype.lanes = 4);
  BAD_X("dtype", bad.dl.dtype.code = kDLComplex);
  BAD_X("dtype", bad.dl.dtype.code = kDLFloat8_e5m2 + 1); /* one beyond isobit's */
  BAD_X("dtype", bad.dl.dtype.code = 200);
  BAD_X("dtype", bad.dl.dtype.bits = 24);
  BAD_X("dtype", bad.dl.dtype.bits = 65);
  BAD_X("dtype", bad.dl.dtype.bits = 200);
  BAD_X("bool[2, 3]", bad.dl.dtype = ((DLDataType){kDLBool, 8, 1}));
  BAD_X("f64", bad.dl.dtype.bits = 64);
  BAD_X("multiple of its element size", bad.dl.byte_offset = 1);
  BAD_X("reach beyond all memory", bad.dl.strides = (int64_t[2]){INT64_MIN});
  BAD_X(": x has shape [4611686018427387904, 4]", bad.shape[0] = INT64_C(1) << 62; bad.shape[1] = 4);
  BAD_X("device", bad.dl.device.device_type = kDLMetal);
  BAD_X(": x ", bad.dl.device.device_type = kDLCUDA);
  BAD_X("cuda:3", bad.dl.device = ((DLDevice){kDLCUDAManaged, 3}));
  /* What is not there yet has a type and a shape, and does not run. */
  DLTensor later = x.dl;
  later.device.device_type = kDLExtDev;
  later.data = NULL;
  const DLTensor *coming[] = {&later, &scale.dl, &zero_point.dl, &q.dl};
  OK(isobit_plan_can_implement(plan, coming, 4, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, ": x is on meta", isobit_plan_run(plan, NULL, NULL, 0, coming, 4, err, sizeof err));
  later.ndim = 1;
  FAILS(ISOBIT_INVALID_ARGUMENT, ": x has shape", isobit_plan_can_implement(plan, coming, 4, err, sizeof err));
  /* Outputs may overlap neither inputs nor each other, nor themselves. */
  DLTensor alias = q.dl;
  alias.data = x.dl.data;
  FAILS(ISOBIT_INVALID_ARGUMENT, "overlap", run(&x.dl, &scale.dl, &zero_point.dl, &alias, err, sizeof err));
  int64_t zero_strides[] = {0, 1};
  DLTensor folded = q.dl;
  folded.strides = zero_strides;
  FAILS(ISOBIT_INVALID_ARGUMENT, ": q ", run(&x.dl, &scale.dl, &zero_point.dl, &folded, err, sizeof err));
  /* Zero points on the host are checked before anything is written. */
  *(int32_t *)zero_point.dl.data = 200;
  memset(q.dl.data, 0x5a, 6);
  FAILS(ISOBIT_INVALID_ARGUMENT, "zero_point", run(&x.dl, &scale.dl, &zero_point.dl, &q.dl, err, sizeof err));
  for (int i = 0; i < 6; i++) CHECK(((uint8_t *)q.dl.data)[i] == 0x5a, "a failed run wrote element %d", i);
  *(int32_t *)zero_point.dl.data = 0;
}

static void counts(void) {
  const DLTensor *args[16] = {&x.dl, &scale.dl, &zero_point.dl, &q.dl};
  FAILS(ISOBIT_INVALID_ARGUMENT, "3", isobit_plan_run(plan, NULL, NULL, 0, args, 3, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "5", isobit_plan_run(plan, NULL, NULL, 0, args, 5, err, sizeof err));
  DLTensor bad = x.dl; /* one beyond the plan's */
  bad.ndim = -1;
  args[4] = &bad;
  FAILS(ISOBIT_INVALID_ARGUMENT, "args[4]", isobit_plan_run(plan, NULL, NULL, 0, args, 5, err, sizeof err));
  args[4] = NULL;
  FAILS(ISOBIT_INVALID_ARGUMENT, "has 12 tensors", isobit_plan_run(plan, NULL, NULL, 0, args, 12, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "nargs is 13", isobit_plan_run(plan, NULL, NULL, 0, args, 13, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "has 0 tensors", isobit_plan_run(plan, NULL, NULL, 0, NULL, 0, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "NULL with nargs 1", isobit_plan_run(plan, NULL, NULL, 0, NULL, 1, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "nargs", isobit_plan_run(plan, NULL, NULL, 0, args, -1, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "nargs", isobit_plan_run(plan, NULL, NULL, 0, args, 1 << 30, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "args", isobit_plan_run(plan, NULL, NULL, 0, NULL, 4, err, sizeof err));
}

static void workspaces(void) {
  const isobit_plan p =
      make_plan("embedding_backward grad_output=f32[4096,8] indices=i64[4096] grad_weight=f32[512,8]");
  tensor grad_output, indices, grad_weight;
  make_tensor(&grad_output, "f32[4096,8]");
  make_tensor(&indices, "i64[4096]");
  make_tensor(&grad_weight, "f32[512,8]");
  memset(grad_output.dl.data, 0, 4096 * 8 * 4);
  memset(indices.dl.data, 0, 4096 * 8);
  const DLTensor *args[] = {&grad_output.dl, &indices.dl, &grad_weight.dl};
  uint64_t bytes;
  OK(isobit_plan_workspace_size(p, &bytes, err, sizeof err));
  CHECK(bytes > 0, "this test needs a problem with a workspace");
  char *workspace = malloc(bytes);
  FAILS(ISOBIT_WORKSPACE_TOO_SMALL, "workspace", isobit_plan_run(p, NULL, NULL, 0, args, 3, err, sizeof err));
  FAILS(ISOBIT_WORKSPACE_TOO_SMALL, "workspace",
        isobit_plan_run(p, NULL, workspace, bytes - 1, args, 3, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "workspace", isobit_plan_run(p, NULL, NULL, bytes, args, 3, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "grad_output",
        isobit_plan_run(p, NULL, grad_output.dl.data, bytes, args, 3, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "workspace",
        isobit_plan_run(p, NULL, (void *)(uintptr_t)8, bytes, args, 3, err, sizeof err));
  /* Memory that mmap did not give, and an end that is beyond all addresses. */
  FAILS(ISOBIT_INVALID_ARGUMENT, "workspace",
        isobit_plan_run(p, NULL, (void *)UINTPTR_MAX, bytes, args, 3, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "workspace",
        isobit_plan_run(p, NULL, (void *)(UINTPTR_MAX - 8191), bytes, args, 3, err, sizeof err));
  CHECK(((unsigned char *)grad_weight.dl.data)[0] == 0xa5, "a failed run wrote");
  OK(isobit_plan_run(p, NULL, workspace, bytes, args, 3, err, sizeof err));
  OK(isobit_plan_run(p, NULL, workspace, UINT64_MAX, args, 3, err, sizeof err)); /* more is fine */
  free(workspace);
  free_tensor(&grad_output), free_tensor(&indices), free_tensor(&grad_weight);
}

static void handles(void) {
  const isobit_plan p = make_plan("quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127");
  OK(isobit_plan_destroy(p, err, sizeof err));
  const isobit_plan again = make_plan("quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127");
  CHECK(again != p, "a destroyed handle was given out again");
  const isobit_plan bad[] = {0, p, again + 1, again + ((isobit_plan)1 << 32), UINT64_MAX};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    uint64_t bytes;
    FAILS(ISOBIT_INVALID_HANDLE, "plan", isobit_plan_run(bad[i], NULL, NULL, 0, NULL, 0, err, sizeof err));
    FAILS(ISOBIT_INVALID_HANDLE, "plan", isobit_plan_can_implement(bad[i], NULL, 0, err, sizeof err));
    FAILS(ISOBIT_INVALID_HANDLE, "plan", isobit_plan_workspace_size(bad[i], &bytes, err, sizeof err));
    FAILS(ISOBIT_INVALID_HANDLE, "plan", isobit_plan_describe(bad[i], NULL, 0, NULL, err, sizeof err));
    FAILS(ISOBIT_INVALID_HANDLE, "plan", isobit_plan_destroy(bad[i], err, sizeof err));
  }
  FAILS(ISOBIT_INVALID_ARGUMENT, "bytes", isobit_plan_workspace_size(again, NULL, err, sizeof err));
  OK(isobit_plan_destroy(again, err, sizeof err));
  /* More plans than the table starts with, all different. */
  enum { many = 1000 };
  static isobit_plan all[many];
  for (int i = 0; i < many; i++) all[i] = make_plan("quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127");
  for (int i = 0; i < many; i++) OK(isobit_plan_destroy(all[i], err, sizeof err));
}

static void texts(void) {
  size_t needed = 0, same = 0;
  OK(isobit_plan_describe(plan, NULL, 0, &needed, err, sizeof err));
  char *json = malloc(needed);
  memset(json, 'x', needed);
  char want[64];
  snprintf(want, sizeof want, "buf has %zu bytes; want %zu", needed - 1, needed);
  FAILS(ISOBIT_INVALID_ARGUMENT, want, isobit_plan_describe(plan, json, needed - 1, &same, err, sizeof err));
  CHECK(json[0] == 'x' && same == needed, "too small a buffer was written, or needed differs");
  OK(isobit_plan_describe(plan, json, needed, NULL, err, sizeof err));
  CHECK(strlen(json) + 1 == needed, "needed is %d for %d", (int)needed, (int)strlen(json));
  CHECK(strstr(json, "\"scale\"") && strstr(json, "\"problem\""), "%s", json);
  free(json);
  static char big[1 << 20];
  OK(isobit_support(big, sizeof big, NULL, err, sizeof err));
  CHECK(strstr(big, "grid_sample_backward"), "%s", big);
  OK(isobit_info(big, sizeof big, NULL, err, sizeof err));
  CHECK(strstr(big, ISOBIT_VERSION) && strstr(big, "\"cuda\":\""), "%s", big);
  /* An error's text is cut to its buffer, and may be unwanted. */
  char small[8];
  memset(small, 'x', sizeof small);
  CHECK(isobit_plan_destroy(0, small, 5) == ISOBIT_INVALID_HANDLE, "status");
  CHECK(strlen(small) == 4 && small[5] == 'x', "written beyond the buffer");
  CHECK(isobit_plan_destroy(0, NULL, 0) == ISOBIT_INVALID_HANDLE, "status");
  CHECK(isobit_plan_destroy(0, NULL, 100) == ISOBIT_INVALID_HANDLE, "status");
  CHECK(isobit_plan_destroy(0, big, SIZE_MAX) == ISOBIT_INVALID_HANDLE, "status");
  CHECK(isobit_info(big, SIZE_MAX, NULL, NULL, 0) == ISOBIT_OK, "status");
}

static void settings(void) {
  int32_t before = 0, n = 0;
  OK(isobit_get_num_threads(&before, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "isobit_set_num_threads: n is -1; want 0 to 1024",
        isobit_set_num_threads(-1, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "n", isobit_get_num_threads(NULL, err, sizeof err));
  OK(isobit_set_num_threads(3, err, sizeof err));
  OK(isobit_get_num_threads(&n, err, sizeof err));
  CHECK(n == 3, "%d threads", n);
  OK(isobit_set_num_threads(before, err, sizeof err));
  CHECK(strcmp(isobit_version(), ISOBIT_VERSION) == 0, "%s", isobit_version());
  CHECK(isobit_abi_version() == ISOBIT_ABI_VERSION, "%d", isobit_abi_version());
}

/* Without a driver a CUDA problem is an error; with one, host memory is. */
static void cuda(void) {
  isobit_plan p = 0;
  char err[512] = "";
  isobit_status status = isobit_plan_create("quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127 device=cuda:0",
                                            NULL, &p, err, sizeof err);
  if (status == ISOBIT_OK) {
    const DLTensor *args[] = {&x.dl, &scale.dl, &zero_point.dl, &q.dl};
    status = isobit_plan_run(p, NULL, NULL, 0, args, 4, err, sizeof err);
    CHECK(status == ISOBIT_INVALID_ARGUMENT || status == ISOBIT_DEVICE, "status %d: %s", status, err);
  } else
    CHECK(status == ISOBIT_DEVICE || status == ISOBIT_UNSUPPORTED, "status %d: %s", status, err);
  CHECK(strstr(err, "cuda") || strstr(err, "CUDA"), "%s", err);
}

int main(void) {
  make_tensor(&x, "f32[2,3]");
  make_tensor(&scale, "f32[1]");
  make_tensor(&zero_point, "i32[1]");
  make_tensor(&q, "s8[2,3]");
  for (int i = 0; i < 6; i++) set_value(&x, i, i);
  set_value(&scale, 0, 1);
  set_value(&zero_point, 0, 0);
  plan = make_plan("quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127");
  tensors();
  counts();
  workspaces();
  handles();
  texts();
  settings();
  cuda();
  puts("ok");
  return 0;
}
