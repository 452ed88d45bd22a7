/* The caller's floating-point control state (flush-to-zero, rounding) neither
 * changes a result nor is changed, whether it is set when the library loads or
 * when a function is called, on one thread or on many. usage: float_state LIBRARY */
#include "testing.h"

#include <dlfcn.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
enum { normal = 0x1f80, strange = normal | 0x8040 | 0x4000 }; /* flush-to-zero, denormals-are-zero, round up */
static unsigned state(void) { return _mm_getcsr(); } /* with the flags of what happened */
static void set_state(unsigned s) { _mm_setcsr(s); }
#else
enum { normal = 0, strange = 0x01000000 | 0x00400000 };
static unsigned state(void) {
  uint64_t s;
  __asm__ volatile("mrs %0, fpcr" : "=r"(s));
  return (unsigned)s;
}
static void set_state(unsigned s) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)s)); }
#endif

enum { n = 1 << 20 };
static float x[n], y[n];

int main(int argc, char **argv) {
  CHECK(argc == 2, "usage: float_state LIBRARY");
  for (int i = 0; i < n; i++) x[i] = 2e-40f; /* a denormal */
  float scale = 1e-40f;

  set_state(strange);
  void *library = dlopen(argv[1], RTLD_NOW);
  CHECK(library != NULL, "%s", dlerror());
  CHECK(state() == strange, "loading changed the state to %#x", state());
  __typeof__(isobit_plan_create) *create;
  __typeof__(isobit_plan_run) *run;
  *(void **)&create = dlsym(library, "isobit_plan_create");
  *(void **)&run = dlsym(library, "isobit_plan_run");

  isobit_plan plan = 0;
  OK(create("fake_quantize_per_tensor x=f32[1048576] zero_point=none qmin=-128 qmax=127", NULL, &plan, err,
            sizeof err));
  int64_t shape[] = {n};
  const DLDataType f32 = {kDLFloat, 32, 1};
  const DLTensor tx = {x, {kDLCPU, 0}, 1, f32, shape, NULL, 0};
  const DLTensor ts = {&scale, {kDLCPU, 0}, 0, f32, NULL, NULL, 0};
  const DLTensor ty = {y, {kDLCPU, 0}, 1, f32, shape, NULL, 0};
  const DLTensor *args[] = {&tx, &ts, NULL, &ty};
  for (int round = 0; round < 20; round++) {
    memset(y, 0, sizeof y);
    OK(run(plan, NULL, NULL, 0, args, 4, err, sizeof err));
    CHECK(state() == strange, "a run changed the state to %#x", state());
    /* Compared as bits: this thread sees a denormal as zero. */
    float want;
    set_state(normal);
    want = scale * 2;
    set_state(strange);
    for (int i = 0; i < n; i++) CHECK(memcmp(&y[i], &want, sizeof want) == 0, "round %d, element %d", round, i);
  }
  puts("ok");
  return 0;
}
