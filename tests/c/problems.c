/* Problems and preferences of which no plan is made: the status, and a text that
 * names what is wrong. */
#include "testing.h"

static void problems(void) {
  static const struct {
    const char *problem, *word;
  } bad[] = {
      {"", "op \"\" is not known"},
      {"no_such_op x=f32[2]", "no_such_op"},
      {"quantize_per_tensor qmin=-128 qmax=127", ": x "},
      {"quantize_per_tensor x=f32[2,3] q=s8 qmin=-128", "qmax"},
      {"quantize_per_tensor x=f32[2,3] q=s8 qmin=5 qmax=-5", ": qmin is 5, above qmax"},
      {"quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=300", "qmax"},
      {"quantize_per_tensor x=f32[2,3 q=s8 qmin=-128 qmax=127", ": x "},
      {"quantize_per_tensor x=f32[2,-3] q=s8 qmin=-128 qmax=127", ": x "},
      {"quantize_per_tensor x=f99[2,3] q=s8 qmin=-128 qmax=127", "f99"},
      {"quantize_per_tensor x=s8[2,3] q=s8 qmin=-128 qmax=127", ": x "},
      {"quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127 qmax=127", "qmax"},
      {"quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127 colour=red", "colour"},
      {"quantize_per_tensor x=f32[2,3]  q=s8 qmin=-128 qmax=127", "single spaces"},
      {"quantize_per_tensor x=f32[1,1,1,1,1,1,1,1,1] q=s8 qmin=-128 qmax=127", ": x "},
      {"quantize_per_tensor x=f32[4294967296,4294967296] q=s8 qmin=-128 qmax=127", ": x "},
      {"quantize_per_channel x=f32[2,3] q=s8 axis=2 qmin=-128 qmax=127", "axis"},
      {"quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127 device=tpu:0", "device"},
      {"grid_sample input=f32[1,1,2,2] grid=f32[1,1,2,2] mode=cubist", "mode"},
      /* Bytes that are not UTF-8, or not to be seen, are written out. */
      {"\xff\xfe", "op \"\\xff\\xfe\" is not known"},
      {"quantize_per_tensor x=f32[2,3] q=s8 qmin=-8 qmax=\xc3", "\"qmax=\\xc3\""},
      {"quantize_per_tensor x=f32[2,3] q=s8 \1qmin=-8", "\"\\x01qmin=-8\""},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    isobit_plan p = 7;
    char err[512] = "";
    const isobit_status status = isobit_plan_create(bad[i].problem, NULL, &p, err, sizeof err);
    CHECK(status == ISOBIT_INVALID_PROBLEM, "%s: status %d: %s", bad[i].problem, status, err);
    CHECK(strstr(err, bad[i].word), "%s: \"%s\" is not in: %s", bad[i].problem, bad[i].word, err);
    CHECK(p == 0, "%s: the handle is not 0", bad[i].problem);
  }
  isobit_plan p;
  FAILS(ISOBIT_INVALID_ARGUMENT, "problem", isobit_plan_create(NULL, NULL, &p, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "plan",
        isobit_plan_create("quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127", NULL, NULL, err, sizeof err));
}

static void preferences(void) {
  const char *problem = "quantize_per_tensor x=f32[2,3] q=s8 qmin=-128 qmax=127";
  isobit_preference preference = {.struct_size = sizeof preference, .row = "go", .num_threads = 2};
  isobit_plan p;
  OK(isobit_plan_create(problem, &preference, &p, err, sizeof err));
  OK(isobit_plan_destroy(p, err, sizeof err));
  preference.row = "no_such_row";
  FAILS(ISOBIT_INVALID_PROBLEM, "no_such_row", isobit_plan_create(problem, &preference, &p, err, sizeof err));
  /* A forgotten struct_size is an error, not a preference without effect; a caller
   * of a later version is served unless it asks for what this one does not know. */
  preference.row = "go";
  preference.struct_size = 0;
  FAILS(ISOBIT_INVALID_ARGUMENT, "struct_size", isobit_plan_create(problem, &preference, &p, err, sizeof err));
  preference.struct_size = sizeof preference - 1;
  FAILS(ISOBIT_INVALID_ARGUMENT, "struct_size", isobit_plan_create(problem, &preference, &p, err, sizeof err));
  preference.struct_size = SIZE_MAX; /* no size: nothing as long is read */
  FAILS(ISOBIT_INVALID_ARGUMENT, "struct_size", isobit_plan_create(problem, &preference, &p, err, sizeof err));
  preference.struct_size = sizeof preference;
  preference.num_threads = 1025;
  FAILS(ISOBIT_INVALID_PROBLEM, "1025 threads", isobit_plan_create(problem, &preference, &p, err, sizeof err));
  struct {
    isobit_preference known;
    int64_t later;
  } longer = {{.struct_size = sizeof longer, .row = "go"}, 0};
  OK(isobit_plan_create(problem, &longer.known, &p, err, sizeof err));
  OK(isobit_plan_destroy(p, err, sizeof err));
  for (int i = 0; i < 2; i++) {
    longer.later = i ? INT64_MIN : 1; /* one bit of either end */
    FAILS(ISOBIT_INVALID_ARGUMENT, "struct_size", isobit_plan_create(problem, &longer.known, &p, err, sizeof err));
  }
  CHECK(isobit_plan_create(problem, &longer.known, &p, NULL, 100) == ISOBIT_INVALID_ARGUMENT, "without a buffer");
  /* Zeros, but more of them than any version has. */
  static const isobit_preference all[200] = {{.struct_size = sizeof all}};
  FAILS(ISOBIT_INVALID_ARGUMENT, "struct_size is 6400", isobit_plan_create(problem, all, &p, err, sizeof err));
  /* A workspace limit is kept: this problem needs one byte more. */
  const char *needs = "embedding_backward grad_output=f32[4096,8] indices=i64[4096] grad_weight=f32[512,8]";
  OK(isobit_plan_create(needs, NULL, &p, err, sizeof err));
  uint64_t bytes = 0;
  OK(isobit_plan_workspace_size(p, &bytes, err, sizeof err));
  OK(isobit_plan_destroy(p, err, sizeof err));
  CHECK(bytes > 1, "this test needs a problem with a workspace");
  const isobit_preference negative = {.struct_size = sizeof negative, .max_workspace = -1};
  FAILS(ISOBIT_INVALID_PROBLEM, "-1", isobit_plan_create(needs, &negative, &p, err, sizeof err));
  const isobit_preference limit = {.struct_size = sizeof limit, .max_workspace = (int64_t)bytes - 1};
  FAILS(ISOBIT_UNSUPPORTED, "workspace", isobit_plan_create(needs, &limit, &p, err, sizeof err));
}

/* Marks stand beside names, not beside the same words elsewhere, and only where they were asked for. */
static void marks(void) {
  isobit_preference marked = {.struct_size = sizeof marked, .mark_names = 2};
  isobit_plan p;
  const char *problem = "quantize_per_tensor x=f32[2,3] q=s8 qmin=5 qmax=4";
  FAILS(ISOBIT_INVALID_PROBLEM, "preference has mark_names 2; want 0 or 1",
        isobit_plan_create(problem, &marked, &p, err, sizeof err));
  marked.mark_names = 1;
  FAILS(ISOBIT_INVALID_PROBLEM, "quantize_per_tensor: qmin is 5, above qmax, which is 4",
        isobit_plan_create(problem, NULL, &p, err, sizeof err));
  FAILS(ISOBIT_INVALID_PROBLEM, "\1quantize_per_tensor\1: \1qmin\1 is 5, above \1qmax\1, which is 4",
        isobit_plan_create(problem, &marked, &p, err, sizeof err));
  problem = "quantize_per_tensor x=f32[2,3] scale=f32 zero_point=f32 q=f8e4m3 qmin=-1 qmax=1";
  FAILS(ISOBIT_INVALID_PROBLEM, "\1zero_point\1 is \1f32\1; \1f8e4m3\1 codes have a scale only: want none",
        isobit_plan_create(problem, &marked, &p, err, sizeof err));
  problem = "quantize_per_tensor x=f32[2,3] q=s8 qmin=-8 qmax=7";
  OK(isobit_plan_create(problem, &marked, &p, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "\1quantize_per_tensor\1: \1args\1 has 0 tensors; want 4: \1x\1, ",
        isobit_plan_run(p, NULL, NULL, 0, NULL, 0, err, sizeof err));
  FAILS(ISOBIT_INVALID_ARGUMENT, "\1args\1 has 0 tensors", isobit_plan_can_implement(p, NULL, 0, err, sizeof err));
  tensor x, scale, zero_point, q;
  make_tensor(&x, "f32[2,3]"), make_tensor(&scale, "f32[1]"), make_tensor(&zero_point, "i32[1]");
  make_tensor(&q, "s8[2,3]");
  set_value(&scale, 0, 1), set_value(&zero_point, 0, 0);
  const DLTensor *args[] = {&x.dl, &scale.dl, &zero_point.dl, &q.dl};
  OK(isobit_plan_run(p, NULL, NULL, 0, args, 4, err, sizeof err));
  free_tensor(&x), free_tensor(&scale), free_tensor(&zero_point), free_tensor(&q);
  OK(isobit_plan_destroy(p, err, sizeof err));
  marked.row = "abacus";
  FAILS(ISOBIT_INVALID_PROBLEM, "\1quantize_per_tensor\1: \1preference\1 names ",
        isobit_plan_create(problem, &marked, &p, err, sizeof err));
  FAILS(ISOBIT_INVALID_PROBLEM, "\"relu\" is not known; want an op of OPS.md or isobit_support",
        isobit_plan_create("relu x=f32[2]", NULL, &p, err, sizeof err));
}

int main(void) {
  problems();
  preferences();
  marks();
  puts("ok");
  return 0;
}
