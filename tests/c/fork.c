/* The library, loaded with dlopen, in children of fork(): one whose parent had
 * loaded it gets a clear status from every function and never hangs; one that
 * loads it itself works. usage: fork LIBRARY */
#include "testing.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static void *library;

static void *symbol(const char *name) {
  void *found = dlsym(library, name);
  CHECK(found != NULL, "%s", name);
  return found;
}

/* dlsym's object pointer as a function pointer, the way POSIX has it. */
#define LOOKUP(name) *(void **)&name = symbol("isobit_" #name)

static __typeof__(isobit_version) *version;
static __typeof__(isobit_plan_create) *plan_create;
static __typeof__(isobit_plan_can_implement) *plan_can_implement;
static __typeof__(isobit_plan_workspace_size) *plan_workspace_size;
static __typeof__(isobit_plan_describe) *plan_describe;
static __typeof__(isobit_plan_run) *plan_run;
static __typeof__(isobit_plan_destroy) *plan_destroy;
static __typeof__(isobit_set_num_threads) *set_num_threads;
static __typeof__(isobit_set_parallel) *set_parallel;
static __typeof__(isobit_get_num_threads) *get_num_threads;
static __typeof__(isobit_support) *support;
static __typeof__(isobit_info) *info;

static const char *const problem = "fake_quantize_per_tensor x=f32[3] zero_point=none qmin=-128 qmax=127";
static isobit_plan plan;

static void load(const char *path) {
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL, "%s", dlerror());
  LOOKUP(version);
  LOOKUP(plan_create);
  LOOKUP(plan_can_implement);
  LOOKUP(plan_workspace_size);
  LOOKUP(plan_describe);
  LOOKUP(plan_run);
  LOOKUP(plan_destroy);
  LOOKUP(set_num_threads);
  LOOKUP(set_parallel);
  LOOKUP(get_num_threads);
  LOOKUP(support);
  LOOKUP(info);
}

static void use(void) {
  float x[] = {0.4f, 1.6f, -2.5f}, scale = 1, y[3];
  int64_t shape[] = {3};
  const DLDataType f32 = {kDLFloat, 32, 1};
  const DLTensor tx = {x, {kDLCPU, 0}, 1, f32, shape, NULL, 0}, ts = {&scale, {kDLCPU, 0}, 0, f32, NULL, NULL, 0};
  const DLTensor ty = {y, {kDLCPU, 0}, 1, f32, shape, NULL, 0};
  const DLTensor *args[] = {&tx, &ts, NULL, &ty};
  OK(plan_create(problem, NULL, &plan, err, sizeof err));
  OK(plan_run(plan, NULL, NULL, 0, args, 4, err, sizeof err));
  CHECK(y[0] == 0 && y[1] == 2 && y[2] == -2, "%g %g %g", (double)y[0], (double)y[1], (double)y[2]);
}

static void forked(void) {
  uint64_t bytes;
  int32_t n;
  size_t needed;
  isobit_plan p = 7;
  FAILS(ISOBIT_FORKED, "forked", plan_create(problem, NULL, &p, err, sizeof err));
  CHECK(p == 0, "the handle is not 0");
  FAILS(ISOBIT_FORKED, "forked", plan_can_implement(plan, NULL, 0, err, sizeof err));
  FAILS(ISOBIT_FORKED, "forked", plan_workspace_size(plan, &bytes, err, sizeof err));
  FAILS(ISOBIT_FORKED, "forked", plan_describe(plan, NULL, 0, &needed, err, sizeof err));
  FAILS(ISOBIT_FORKED, "forked", plan_run(plan, NULL, NULL, 0, NULL, 0, err, sizeof err));
  FAILS(ISOBIT_FORKED, "forked", plan_destroy(plan, err, sizeof err));
  FAILS(ISOBIT_FORKED, "forked", set_num_threads(2, err, sizeof err));
  FAILS(ISOBIT_FORKED, "forked", set_parallel(NULL, err, sizeof err));
  FAILS(ISOBIT_FORKED, "forked", get_num_threads(&n, err, sizeof err));
  FAILS(ISOBIT_FORKED, "forked", support(NULL, 0, &needed, err, sizeof err));
  FAILS(ISOBIT_FORKED, "forked", info(NULL, 0, &needed, err, sizeof err));
  CHECK(plan_destroy(plan, NULL, 0) == ISOBIT_FORKED, "without a buffer");
  CHECK(plan_destroy(plan, NULL, 100) == ISOBIT_FORKED, "without a buffer, whatever its size");
  CHECK(strcmp(version(), ISOBIT_VERSION) == 0, "%s", version());
}

/* Runs f in a child and waits; the alarm turns a hang into a failure. */
static void in_child(const char *what, const char *path, void (*f)(void)) {
  const pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    alarm(20);
    if (path) load(path);
    f();
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %#x", what, (unsigned)status);
}

static void forked_again(void) {
  forked();
  in_child("a child's child", NULL, forked);
}

int main(int argc, char **argv) {
  CHECK(argc == 2, "usage: fork LIBRARY");
  in_child("loaded in the child only", argv[1], use);
  load(argv[1]);
  in_child("loaded but not used by the parent", NULL, forked);
  use();
  in_child("used by the parent", NULL, forked_again);
  use(); /* the parent goes on */
  CHECK(dlclose(library) == 0, "dlclose");
  puts("ok");
  return 0;
}
