/* Many threads: one plan shared by all, and plans made and destroyed meanwhile. */
#include "testing.h"

#include <pthread.h>

enum { threads = 8, rounds = 200, n = 3000 };

static isobit_plan shared;
static float x[n], scale = 0.25f, want[n];

static void run_shared(float *y) {
  int64_t shape[] = {n};
  const DLDataType f32 = {kDLFloat, 32, 1};
  const DLTensor tx = {x, {kDLCPU, 0}, 1, f32, shape, NULL, 0};
  const DLTensor ts = {&scale, {kDLCPU, 0}, 0, f32, NULL, NULL, 0};
  const DLTensor ty = {y, {kDLCPU, 0}, 1, f32, shape, NULL, 0};
  const DLTensor *args[] = {&tx, &ts, NULL, &ty};
  OK(isobit_plan_run(shared, NULL, NULL, 0, args, 4, err, sizeof err));
}

static void *work(void *arg) {
  float *y = malloc(sizeof want);
  for (int i = 0; i < rounds; i++) {
    run_shared(y);
    CHECK(memcmp(y, want, sizeof want) == 0, "another result in a thread");
    const isobit_plan own = make_plan("quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127");
    uint64_t bytes;
    OK(isobit_plan_workspace_size(own, &bytes, err, sizeof err));
    OK(isobit_plan_destroy(own, err, sizeof err));
    FAILS(ISOBIT_INVALID_HANDLE, "plan", isobit_plan_workspace_size(own, &bytes, err, sizeof err));
    if (i % 50 == 0) OK(isobit_set_num_threads(1 + i / 50 % 3, err, sizeof err));
  }
  free(y);
  return arg;
}

int main(void) {
  for (int i = 0; i < n; i++) x[i] = (float)(i - n / 2) * 0.013f;
  shared = make_plan("fake_quantize_per_tensor x=f32[3000] zero_point=none qmin=-128 qmax=127");
  run_shared(want);
  pthread_t all[threads];
  for (int i = 0; i < threads; i++) CHECK(pthread_create(&all[i], NULL, work, NULL) == 0, "pthread_create");
  for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
  puts("ok");
  return 0;
}
