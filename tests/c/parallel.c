/* Runs on threads of the program's own, whose floating-point state is strange, as
 * many as were asked for, more, fewer or none: the same bits. */
#include "testing.h"

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>

enum { n = 1 << 20 };
static float x[n], y[n], want[n];
static atomic_int calls, asked;

/* Asks the processor: fegetround() on x86-64 knows another unit than the one that computes. */
static int rounds_to_nearest(void) {
  volatile float three = 3;
  return 1 / three == 1.0f / 3 && -1 / three == -1.0f / 3;
}

static int rounds_down(void) {
  volatile float three = 3;
  return 1 / three != 1.0f / 3 && -1 / three == -1.0f / 3;
}

struct part {
  void (*body)(void *);
  void *data;
};

static void *thread(void *arg) {
  const struct part *part = arg;
  fesetround(FE_UPWARD);
  part->body(part->data);
  CHECK(!rounds_to_nearest(), "the thread's rounding mode was changed");
  return NULL;
}

static void run_on(int threads, struct part part) {
  pthread_t all[16];
  calls++;
  CHECK(!rounds_to_nearest(), "the program's function does not run with the caller's rounding mode");
  for (int i = 0; i < threads; i++) CHECK(pthread_create(&all[i], NULL, thread, &part) == 0, "pthread_create");
  for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
  CHECK(memcmp(y, want, sizeof want) == 0, "the program's threads left work to the calling one");
}

static void as_asked(void (*body)(void *), void *data, int32_t max_threads) {
  asked = max_threads;
  run_on(max_threads, (struct part){body, data});
}
static void one(void (*body)(void *), void *data, int32_t max_threads) {
  asked = max_threads;
  run_on(1, (struct part){body, data});
}
static void many(void (*body)(void *), void *data, int32_t max_threads) {
  asked = max_threads;
  run_on(16, (struct part){body, data});
}
static void lazy(void (*body)(void *), void *data, int32_t max_threads) {
  (void)body, (void)data;
  asked = max_threads;
  calls++;
}

/* A function that uses isobit itself, rounding another way, in the middle of a run that calls it again. */
static void nested(void (*body)(void *), void *data, int32_t max_threads) {
  (void)body, (void)data, (void)max_threads;
  char text[4096];
  calls++;
  CHECK(rounds_down(), "call %d does not have the rounding mode of the run's caller", calls);
  fesetround(FE_UPWARD);
  OK(isobit_info(text, sizeof text, NULL, err, sizeof err));
  fesetround(FE_DOWNWARD);
}

static void sums(void) {
  tensor grad_output, indices, grad_weight;
  make_tensor(&grad_output, "f32[4096,64]");
  grad_output.dl.strides = (int64_t[]){1, 4096}; /* which are made rows before they are summed */
  make_tensor(&indices, "i64[4096]");
  make_tensor(&grad_weight, "f32[4096,64]");
  memset(grad_output.dl.data, 0, 4096 * 64 * 4);
  memset(indices.dl.data, 0, 4096 * 8);
  const DLTensor *args[] = {&grad_output.dl, &indices.dl, &grad_weight.dl};
  const isobit_plan plan =
      make_plan("embedding_backward grad_output=f32[4096,64] indices=i64[4096] grad_weight=f32[4096,64]");
  uint64_t size = 0;
  OK(isobit_plan_workspace_size(plan, &size, err, sizeof err));
  void *workspace = malloc(size);
  OK(isobit_plan_run(plan, NULL, workspace, size, args, 3, err, sizeof err));
  OK(isobit_plan_destroy(plan, err, sizeof err));
  free(workspace);
  free_tensor(&grad_output), free_tensor(&indices), free_tensor(&grad_weight);
}

static void run(const char *problem, float *to) {
  int64_t shape[] = {n};
  float scale = 0.3f;
  const DLDataType f32 = {kDLFloat, 32, 1};
  const DLTensor tx = {x, {kDLCPU, 0}, 1, f32, shape, NULL, 0};
  const DLTensor ts = {&scale, {kDLCPU, 0}, 0, f32, NULL, NULL, 0};
  const DLTensor ty = {to, {kDLCPU, 0}, 1, f32, shape, NULL, 0};
  const DLTensor *args[] = {&tx, &ts, NULL, &ty};
  const isobit_plan plan = make_plan(problem);
  OK(isobit_plan_run(plan, NULL, NULL, 0, args, 4, err, sizeof err));
  OK(isobit_plan_destroy(plan, err, sizeof err));
}

int main(void) {
  const char *problem = "fake_quantize_per_tensor x=f32[1048576] zero_point=none qmin=-128 qmax=127";
  for (int i = 0; i < n; i++) x[i] = (float)(i - n / 2) * 0.00013f;
  OK(isobit_set_num_threads(1, err, sizeof err));
  run(problem, want);
  OK(isobit_set_num_threads(3, err, sizeof err));
  fesetround(FE_DOWNWARD); /* what the program's own threads do meanwhile is rounded as it says */
  const isobit_parallel hosts[] = {as_asked, one, many, lazy};
  for (int i = 0; i < 4; i++) {
    OK(isobit_set_parallel(hosts[i], err, sizeof err));
    for (int round = 0; round < 20; round++) {
      memset(y, 0, sizeof y);
      run(problem, y);
      CHECK(asked == 3, "asked for %d threads", asked);
      CHECK(memcmp(y, want, sizeof want) == 0, "another result on host %d", i);
    }
  }
  CHECK(calls == 80, "%d calls", calls);
  OK(isobit_set_parallel(nested, err, sizeof err));
  sums();
  CHECK(calls > 81, "the run has one part: this test needs two");
  const int so_far = calls;
  CHECK(rounds_down(), "the caller's rounding mode was changed");
  OK(isobit_set_parallel(NULL, err, sizeof err));
  char text[1024];
  OK(isobit_info(text, sizeof text, NULL, err, sizeof err));
  CHECK(strstr(text, "\"parallel\":\"isobit\""), "%s", text);
  memset(y, 0, sizeof y);
  run(problem, y);
  CHECK(calls == so_far && memcmp(y, want, sizeof want) == 0, "isobit's own threads");
  puts("ok");
  return 0;
}
