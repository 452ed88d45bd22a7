/* What a DLTensor may look like: strides of every kind, offsets, rank 0, empty. */
#include "testing.h"

static const char *const problem = "fake_quantize_per_tensor x=f32[2,3] zero_point=none qmin=-128 qmax=127";

static float data[64], one = 1;
static float out[64];

/* Runs y = x (integers, scale 1) and checks y against the logical order 1..6. */
static void same(const DLTensor *x, const DLTensor *y, const int *where) {
  const DLTensor scale = {&one, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0};
  const DLTensor *args[] = {x, &scale, NULL, y};
  const isobit_plan plan = make_plan(problem);
  for (int i = 0; i < 64; i++) out[i] = -1;
  OK(isobit_plan_run(plan, NULL, NULL, 0, args, 4, err, sizeof err));
  OK(isobit_plan_destroy(plan, err, sizeof err));
  int seen = 0;
  for (int i = 0; i < 64; i++) seen += out[i] != -1;
  CHECK(seen == 6, "%d elements written", seen);
  for (int i = 0; i < 6; i++) CHECK(out[where[i]] == (float)(i + 1), "element %d is %g", i, (double)out[where[i]]);
}

int main(void) {
  const DLDataType f32 = {kDLFloat, 32, 1};
  const DLDevice cpu = {kDLCPU, 0};
  static const int in_order[] = {0, 1, 2, 3, 4, 5}, columns[] = {0, 2, 4, 1, 3, 5}, backwards[] = {5, 4, 3, 2, 1, 0};
  int64_t shape[] = {2, 3}, compact[] = {3, 1}, transposed[] = {1, 2}, wide[] = {20, 5}, minus[] = {-3, -1};
  const DLTensor y = {out, cpu, 2, f32, shape, compact, 0};

  for (int i = 0; i < 6; i++) data[i] = (float)(i + 1);
  DLTensor x = {data, cpu, 2, f32, shape, NULL, 0};
  same(&x, &y, in_order);
  DLTensor to_columns = y;
  to_columns.strides = transposed;
  same(&x, &to_columns, columns);
  DLTensor reversed = y;
  reversed.strides = minus;
  reversed.byte_offset = 5 * sizeof(float);
  same(&x, &reversed, backwards);

  memset(data, 0, sizeof data);
  for (int i = 0; i < 6; i++) data[2 + i / 3 * 20 + i % 3 * 5] = (float)(i + 1);
  x.strides = wide;
  x.byte_offset = 2 * sizeof(float);
  same(&x, &y, in_order);

  for (int i = 0; i < 6; i++) data[6 - i] = (float)(i + 1);
  x.strides = minus;
  x.byte_offset = 6 * sizeof(float);
  same(&x, &y, in_order);

  DLTensor pinned = x;
  pinned.device.device_type = kDLCUDAHost;
  same(&pinned, &y, in_order);

  /* Expanded: one value seen six times. */
  float seven = 7;
  int64_t still[] = {0, 0};
  const DLTensor expanded = {&seven, cpu, 2, f32, shape, still, 0};
  const DLTensor scale = {&one, cpu, 0, f32, NULL, NULL, 0};
  const DLTensor *args[] = {&expanded, &scale, NULL, &y};
  isobit_plan plan = make_plan(problem);
  OK(isobit_plan_run(plan, NULL, NULL, 0, args, 4, err, sizeof err));
  for (int i = 0; i < 6; i++) CHECK(out[i] == 7, "element %d is %g", i, (double)out[i]);
  OK(isobit_plan_destroy(plan, err, sizeof err));

  /* Rank 0, and no elements at all, where data is not looked at. */
  float value = 3, result = 0;
  const DLTensor x0 = {&value, cpu, 0, f32, NULL, NULL, 0}, y0 = {&result, cpu, 0, f32, NULL, NULL, 0};
  const DLTensor *scalars[] = {&x0, &scale, NULL, &y0};
  plan = make_plan("fake_quantize_per_tensor x=f32[] zero_point=none qmin=-128 qmax=127");
  OK(isobit_plan_run(plan, NULL, NULL, 0, scalars, 4, err, sizeof err));
  CHECK(result == 3, "%g", (double)result);
  OK(isobit_plan_destroy(plan, err, sizeof err));

  int64_t empty_shape[] = {0, 3};
  const DLTensor nothing = {NULL, cpu, 2, f32, empty_shape, NULL, 0};
  DLTensor odd = nothing;
  odd.data = (void *)(uintptr_t)1;
  const DLTensor *empties[] = {&nothing, &scale, NULL, &odd};
  plan = make_plan("fake_quantize_per_tensor x=f32[0,3] zero_point=none qmin=-128 qmax=127");
  OK(isobit_plan_run(plan, NULL, NULL, 0, empties, 4, err, sizeof err));
  OK(isobit_plan_destroy(plan, err, sizeof err));
  puts("ok");
  return 0;
}
