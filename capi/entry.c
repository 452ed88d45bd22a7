/* The public functions of isobit.h. Each is C, so that what must hold before Go
 * is entered can be seen to here, and then calls its twin in exports.go or library.go. */
#include "_cgo_export.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- fork -------------------------------------------------------------------
 * Of the Go runtime's threads only the calling one lives on in a forked child,
 * so that entering Go there hangs sooner or later. The child must never do it. */

static volatile int in_forked_child;

static void note_fork(void) { in_forked_child = 1; }

static isobit_status forked_error(char *err, size_t err_size) {
  if (err && err_size)
    snprintf(err, err_size,
             "isobit: this process was forked from one that had already loaded isobit, which cannot run "
             "here; start it by spawn or forkserver, or load isobit in the child only");
  return ISOBIT_FORKED;
}

/* ---- floating-point control state -------------------------------------------
 * Rounding mode and flush-to-zero belong to the thread. Results must not depend
 * on the caller's, and the caller must find its own again. */

#if defined(__x86_64__)
#include <xmmintrin.h>
typedef unsigned fp_state;
enum { FP_FLAGS = 0x3f, FP_USUAL = 0x1f80 }; /* what happened so far; to nearest, denormals kept, exceptions masked */
/* Written only where it differs, since that takes longer than to read it. Nothing here asks for flags. */
static inline fp_state fp_enter(void) {
  const fp_state before = _mm_getcsr();
  if ((before & ~(unsigned)FP_FLAGS) != FP_USUAL) _mm_setcsr(FP_USUAL);
  return before;
}
static inline void fp_leave(fp_state before) {
  if (_mm_getcsr() != before) _mm_setcsr(before);
}
#elif defined(__aarch64__)
typedef uint64_t fp_state;
static inline void fp_leave(fp_state before) { __asm__ volatile("msr fpcr, %0" : : "r"(before)); }
static inline fp_state fp_enter(void) {
  fp_state before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  fp_leave(0);
  return before;
}
#else
typedef int fp_state;
static inline fp_state fp_enter(void) { return 0; }
static inline void fp_leave(fp_state before) { (void)before; }
#endif

/* A thread starts with the state of the one that made it, and the Go runtime
 * makes its first thread while the library loads. So the state is set before
 * that (a numbered constructor runs before the runtime's unnumbered one) and
 * given back after it (constructors of one number run in the order of linking,
 * where Go's object comes first). tests/c/float_state.c holds both. */

static fp_state before_load;

__attribute__((constructor(101))) static void load_begin(void) { before_load = fp_enter(); }

__attribute__((constructor)) static void load_end(void) {
  fp_leave(before_load);
  pthread_atfork(NULL, NULL, note_fork);
}

/* ---- the functions ------------------------------------------------------------ */

/* That of the call which the thread is in, for what the program's own functions do meanwhile. */
static _Thread_local fp_state callers;

#define RETURN_FROM_GO(call)                                 \
  do {                                                       \
    if (in_forked_child) return forked_error(err, err_size); \
    const fp_state outer = callers, before = fp_enter();     \
    callers = before;                                        \
    const isobit_status status = (call);                     \
    callers = outer;                                         \
    fp_leave(before);                                        \
    return status;                                           \
  } while (0)

const char *isobit_version(void) { return ISOBIT_VERSION; }

int32_t isobit_abi_version(void) { return ISOBIT_ABI_VERSION; }

enum {
  LARGEST_STRUCT = 4096, /* what any version's struct stays below */
  PAGE = 4096 /* the first of addresses and the last are never memory: NULL and a little, MAP_FAILED */
};

/* A caller of a later version has a longer struct: its new fields must be 0, so
 * that no wish is silently dropped. A later version of this file that adds a
 * field must also take today's size. */
static int known_fields_only(const isobit_preference *p) {
  if (p->struct_size < sizeof *p || p->struct_size > LARGEST_STRUCT) return 0; /* not a size at all */
  const char *bytes = (const char *)p;
  for (size_t i = sizeof *p; i < p->struct_size; i++)
    if (bytes[i]) return 0;
  return 1;
}

isobit_status isobit_plan_create(const char *problem, const isobit_preference *preference, isobit_plan *plan, char *err,
                                 size_t err_size) {
  static const isobit_preference none;
  if (plan) *plan = 0;
  if (!preference)
    preference = &none;
  else if (!known_fields_only(preference)) {
    if (err && err_size)
      snprintf(err, err_size,
               "isobit: preference.struct_size is %zu; want %zu, or more with zeros in what this version does not know",
               preference->struct_size, sizeof none);
    return ISOBIT_INVALID_ARGUMENT;
  }
  RETURN_FROM_GO(goPlanCreate((char *)problem, preference->max_workspace, (char *)preference->row,
                              preference->num_threads, preference->mark_names, plan, err, err_size));
}

isobit_status isobit_plan_can_implement(isobit_plan plan, const DLTensor *const *args, int32_t nargs, char *err,
                                        size_t err_size) {
  RETURN_FROM_GO(goPlanCanImplement(plan, (DLTensor **)args, nargs, err, err_size));
}

isobit_status isobit_plan_workspace_size(isobit_plan plan, uint64_t *bytes, char *err, size_t err_size) {
  RETURN_FROM_GO(goPlanWorkspaceSize(plan, bytes, err, err_size));
}

isobit_status isobit_plan_describe(isobit_plan plan, char *buf, size_t size, size_t *needed, char *err,
                                   size_t err_size) {
  RETURN_FROM_GO(goPlanDescribe(plan, buf, size, needed, err, err_size));
}

isobit_status isobit_plan_run(isobit_plan plan, void *stream, void *workspace, uint64_t workspace_size,
                              const DLTensor *const *args, int32_t nargs, char *err, size_t err_size) {
  /* A stream may be a small number, which Go must not see as a pointer: its stack
   * scanner ends the process. The same for the workspace. */
  if (workspace_size == 0 || (uintptr_t)workspace + PAGE < 2 * PAGE) workspace = NULL;
  RETURN_FROM_GO(
      goPlanRun(plan, (uintptr_t)stream, workspace, workspace_size, (DLTensor **)args, nargs, err, err_size));
}

isobit_status isobit_plan_destroy(isobit_plan plan, char *err, size_t err_size) {
  RETURN_FROM_GO(goPlanDestroy(plan, err, err_size));
}

isobit_status isobit_set_num_threads(int32_t n, char *err, size_t err_size) {
  RETURN_FROM_GO(goSetNumThreads(n, err, err_size));
}

isobit_status isobit_get_num_threads(int32_t *n, char *err, size_t err_size) {
  RETURN_FROM_GO(goGetNumThreads(n, err, err_size));
}

/* ---- the program's threads ------------------------------------------------------ */

static _Atomic(isobit_parallel) host_parallel;

isobit_status isobit_set_parallel(isobit_parallel parallel, char *err, size_t err_size) {
  atomic_store(&host_parallel, parallel);
  RETURN_FROM_GO(goSetParallel(parallel != NULL, err, err_size));
}

typedef struct {
  int32_t ticket, max_threads;
  atomic_int entered;
} host_run;

static void host_body(void *data) {
  static atomic_uint threads; /* numbered as they come */
  static _Thread_local int32_t thread = -1;
  if (thread < 0) thread = (int32_t)(atomic_fetch_add(&threads, 1) % 65536);
  host_run *run = data;
  if (in_forked_child || atomic_fetch_add(&run->entered, 1) >= run->max_threads) return;
  const fp_state before = fp_enter();
  goWork(run->ticket, thread);
  fp_leave(before);
}

/* Called by Go. */
void run_on_host(int32_t ticket, int32_t max_threads) {
  const isobit_parallel parallel = atomic_load(&host_parallel);
  host_run run = {ticket, max_threads, 0};
  if (!parallel) return;
  fp_leave(callers);
  parallel(host_body, &run, max_threads);
  fp_enter();
}

isobit_status isobit_support(char *buf, size_t size, size_t *needed, char *err, size_t err_size) {
  RETURN_FROM_GO(goSupport(buf, size, needed, err, err_size));
}

isobit_status isobit_info(char *buf, size_t size, size_t *needed, char *err, size_t err_size) {
  RETURN_FROM_GO(goInfo(buf, size, needed, err, err_size));
}
