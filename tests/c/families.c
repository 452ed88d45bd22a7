/* Runs every case of a file in the format of tests/cases.txt:
 *
 *   families CASES           on the CPU
 *   families CASES cuda:1    on a stand-in for CUDA's driver, whose memory is the host's
 */
#include "testing.h"

enum { max_args = 16, max_line = 4096 };

typedef struct argument {
  int present, is_output;
  tensor value, want;
} argument;

static const char *device_name; /* NULL for the CPU */
static DLDevice device = {kDLCPU, 0};
static void *stream; /* the stand-in takes launches on one stream, whose address is this */

static void use_device(const char *name) {
  CHECK(sscanf(name, "cuda:%d", &device.device_id) == 1, "not a CUDA device: %s", name);
  device.device_type = kDLCUDA;
  device_name = name;
  stream = (void *)0x5757;
}

/* Reads one argument's line: the values of an input, or what is wanted of an output. */
static void read_argument(argument *a, char *line) {
  char *direction = strtok(line, " \n");
  if (strcmp(direction, "none") == 0) return;
  const char *text = strtok(NULL, " \n");
  a->present = 1;
  a->is_output = strcmp(direction, "in") != 0;
  make_tensor(&a->value, text);
  make_tensor(&a->want, text);
  tensor *fill[] = {&a->value, &a->want};
  for (int k = strcmp(direction, "out") == 0; k <= a->is_output; k++)
    for (int64_t i = 0; i < a->value.count; i++) {
      const char *word = strtok(NULL, " \n");
      CHECK(word != NULL, "too few values for %s", text);
      set_value(fill[k], i, strtod(word, NULL));
    }
  CHECK(strtok(NULL, " \n") == NULL, "too many values for %s", text);
}

static void run_case(char *problem, argument *args, int n) {
  const DLTensor *pointers[max_args];
  if (device_name) strcat(strcat(problem, " device="), device_name);
  for (int i = 0; i < n; i++) args[i].value.dl.device = device;
  for (int i = 0; i < n; i++) pointers[i] = args[i].present ? &args[i].value.dl : NULL;
  const isobit_plan plan = make_plan(problem);
  OK(isobit_plan_can_implement(plan, pointers, n, err, sizeof err));
  uint64_t bytes = 0;
  OK(isobit_plan_workspace_size(plan, &bytes, err, sizeof err));
  void *workspace = bytes ? malloc(bytes) : NULL;
  OK(isobit_plan_run(plan, stream, workspace, bytes, pointers, n, err, sizeof err));
  OK(isobit_plan_destroy(plan, err, sizeof err));
  free(workspace);
  for (int i = 0; i < n; i++) {
    if (!args[i].present) continue;
    for (int64_t k = 0; args[i].is_output && k < args[i].value.count; k++) {
      const double got = get_value(&args[i].value, k), want = get_value(&args[i].want, k);
      CHECK(got == want && signbit(got) == signbit(want), "%s: argument %d, element %d is %g, want %g", problem, i,
            (int)k, got, want);
    }
    free_tensor(&args[i].value);
    free_tensor(&args[i].want);
  }
}

int main(int argc, char **argv) {
  CHECK(argc == 2 || argc == 3, "usage: families CASES [cuda:N | ISOBIT_ROWS=...]");
  if (argc == 3 && strchr(argv[2], '='))
    putenv(argv[2]); /* the library is loaded already */
  else if (argc == 3)
    use_device(argv[2]);
  FILE *file = fopen(argv[1], "r");
  CHECK(file != NULL, "cannot open %s", argv[1]);
  char line[max_line], problem[max_line + 32] = "";
  argument args[max_args];
  int n = 0, cases = 0;
  for (int more = 1; more;) {
    more = fgets(line, sizeof line, file) != NULL;
    if (more && line[0] == '#') continue;
    if (more && line[0] != '\n') {
      if (problem[0] == 0) {
        line[strcspn(line, "\n")] = 0;
        strcpy(problem, line);
        memset(args, 0, sizeof args);
        n = 0;
      } else {
        CHECK(n < max_args, "too many arguments: %s", problem);
        read_argument(&args[n++], line);
      }
    } else if (problem[0]) {
      run_case(problem, args, n);
      cases++;
      problem[0] = 0;
    }
  }
  fclose(file);
  printf("%d cases\n", cases);
  return 0;
}
