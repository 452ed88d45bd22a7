/* What a call costs beside its work. Prints; fails only where it is far off. */
#include "testing.h"

#include <time.h>

enum { calls = 100000 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void) {
  const isobit_plan plan = make_plan("fake_quantize_per_channel_backward grad_output=f32[2,2] axis=0 qmin=-8 qmax=7");
  tensor t[5];
  static const char *const shapes[] = {"f32[2,2]", "f32[2,2]", "f32[2]", "i32[2]", "f32[2,2]"};
  const DLTensor *args[7] = {NULL};
  for (int i = 0; i < 5; i++) {
    make_tensor(&t[i], shapes[i]);
    for (int64_t k = 0; k < t[i].count; k++) set_value(&t[i], k, i == 3 ? 0 : 1);
    args[i] = &t[i].dl;
  }
  double best_query = 1e9, best_run = 1e9;
  for (int round = 0; round < 5; round++) {
    uint64_t bytes;
    double start = now();
    for (int i = 0; i < calls; i++) isobit_plan_workspace_size(plan, &bytes, NULL, 0);
    best_query = fmin(best_query, (now() - start) / calls);
    start = now();
    for (int i = 0; i < calls; i++) isobit_plan_run(plan, NULL, NULL, 0, args, 7, NULL, 0);
    best_run = fmin(best_run, (now() - start) / calls);
  }
  OK(isobit_plan_run(plan, NULL, NULL, 0, args, 7, err, sizeof err));
  printf("a query %.0f ns, a run of 4 elements %.0f ns\n", best_query, best_run);
  CHECK(best_query < 2000 && best_run < 20000, "calls cost far more than they should");
  return 0;
}
