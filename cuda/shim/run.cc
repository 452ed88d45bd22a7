// Runs kernels on the CPU: reads cases from stdin, writes results to stdout.
//
// A case is: order; buffers (address, bytes, their contents); launches (kernel
// name, grid, block, arguments). The answer is a status and the buffers'
// contents. Buffers are mapped where the test says, with nothing mapped
// behind them, so that an access beyond the end faults.
#include "shim.h"
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

template <class T> T read_value() {
  T v;
  if (fread(&v, sizeof v, 1, stdin) != 1) _exit(0);
  return v;
}

struct Buffer {
  uint64_t address, size;
  char *data() { return (char *)address; }
  char *page() { return (char *)(address & ~4095ull); }
  size_t mapped() { return (address + size - (uint64_t)page() + 4095) & ~4095ull; }
};

bool run_launch(bool descending, bool skip) {
  std::string name(read_value<uint64_t>(), 0);
  if (fread(&name[0], 1, name.size(), stdin) != name.size()) _exit(0);
  Dim3 grid = read_value<Dim3>(), threads = read_value<Dim3>();
  std::vector<char> args(read_value<uint64_t>());
  if (fread(args.data(), 1, args.size(), stdin) != args.size()) _exit(0);
  return skip || shim_run(name.c_str(), grid, threads, args.data(), args.size(), descending);
}

void run_case() {
  bool descending = read_value<uint64_t>();
  std::vector<Buffer> buffers(read_value<uint64_t>());
  for (Buffer &b : buffers) {
    b.address = read_value<uint64_t>();
    b.size = read_value<uint64_t>();
    if (b.size == 0) continue;
    void *p =
        mmap(b.page(), b.mapped(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != b.page()) shim_fail("cannot map a buffer");
    memset(p, 0xa5, b.mapped());
    if (fread(b.data(), 1, b.size, stdin) != b.size) _exit(0);
  }
  uint64_t launches = read_value<uint64_t>(), status = 0;
  for (uint64_t i = 0; i < launches; i++) status |= !run_launch(descending, status);
  fwrite(&status, sizeof status, 1, stdout);
  for (Buffer &b : buffers) {
    if (b.size == 0) continue;
    for (char *p = b.page(); p < b.data(); p++) {
      if (*p != (char)0xa5) shim_fail("wrote before a buffer");
    }
    fwrite(b.data(), 1, b.size, stdout);
    munmap(b.page(), b.mapped());
  }
  fflush(stdout);
}

void on_fault(int) { shim_fail("access outside of a buffer"); }

} // namespace

int main() {
  stack_t alternate = {};
  alternate.ss_size = 64 << 10;
  alternate.ss_sp = malloc(alternate.ss_size);
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_handler = on_fault;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
  for (;;) run_case();
}
