// A workspace that isobit.hpp gives to a run lies within memory that it allocated, also where a plan needs a little
// more than the one before.
#include "testing.hpp"

namespace {

struct {
  const char *begin, *end;
} latest; // the last large block

constexpr size_t beyond = 16; // a multiple of 64 a block begins, so that a workspace, which is aligned, begins later

std::string problem_of(size_t n) {
  const std::string rows = std::to_string(n);
  return "embedding_backward grad_output=f32[" + rows + ",8] indices=i64[" + rows + "] grad_weight=f32[512,8]";
}

size_t runs = 0;

} // namespace

void *operator new(size_t size) {
  char *block = static_cast<char *>(std::aligned_alloc(64, (size + beyond + 63) / 64 * 64)) + beyond;
  if (size > 4096) latest = {block, block + size};
  return block;
}
void operator delete(void *block) noexcept {
  if (block) std::free(static_cast<char *>(block) - beyond);
}
void operator delete(void *block, size_t) noexcept { operator delete(block); }

// Stands in for the library's: it only looks at the workspace.
isobit_status isobit_plan_run(isobit_plan, void *, void *workspace, uint64_t size, const DLTensor *const *, int32_t,
                              char *, size_t) {
  const char *begin = static_cast<const char *>(workspace);
  CHECK(reinterpret_cast<uintptr_t>(begin) % 64 == 0);
  CHECK(latest.begin <= begin && begin + size <= latest.end);
  runs++;
  return ISOBIT_OK;
}

int main() {
  uint64_t last = 0;
  for (size_t n = 4096; n < 4120; n++) {
    const isobit::Plan plan(problem_of(n));
    CHECK(plan.workspace_size() > last && plan.workspace_size() < last + (last ? 64 : 1 << 20));
    last = plan.workspace_size();
    plan.run({});
  }
  CHECK(runs == 24);
  std::cout << "ok\n";
}
