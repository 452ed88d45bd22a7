// Runs kernels on the CPU: reads cases from stdin, writes results to stdout.
//
// A case is: order; buffers (address, bytes, their contents); launches (kernel
// name, grid, block, arguments). The answer is a status and the buffers'
// contents. Buffers are mapped where the test says, with nothing mapped
// behind them, so that an access beyond the end faults.
//
// Threads of a block are fibers that run until they wait at a barrier. The
// order of threads and blocks, ascending or descending, is part of the case: a
// result that depends on it has a race.
#include "shim.h"
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

Dim3 threadIdx, blockIdx, blockDim, gridDim;
Kernel *Kernel::all;

namespace {

enum State { fresh, ready, at_block, at_warp, done };

struct Fiber {
  ucontext_t start;
  jmp_buf at;
  std::vector<char> stack;
  int thread = -1;
};

struct Block {
  KernelBody body;
  const void *args;
  bool descending, trapped;
  std::vector<State> state;
  std::vector<Fiber *> fiber;
  std::vector<unsigned> slot;
  int unstarted; // how many threads have not begun; they begin in order
} block;

std::vector<Fiber *> idle;
Fiber *current;
jmp_buf scheduler;
const char *running = "nothing";

[[noreturn]] void fail(const char *why) {
  fprintf(stderr, "shim: %s: %s\n", running, why);
  _exit(3);
}

int nth(int i) { return block.descending ? (int)block.state.size() - 1 - i : i; }

void enter(int thread) {
  current->thread = thread;
  block.fiber[thread] = current;
  threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / blockDim.x / blockDim.y};
}

// A fiber runs threads one after the other until one of them waits.
void fiber_main() {
  for (;;) {
    while (block.unstarted > 0) {
      int thread = nth((int)block.state.size() - block.unstarted--);
      enter(thread);
      block.state[thread] = ready;
      block.body(block.args);
      block.state[thread] = done;
    }
    if (!_setjmp(current->at)) _longjmp(scheduler, 2);
  }
}

void resume(Fiber *f) {
  current = f;
  switch (_setjmp(scheduler)) {
  case 0:
    if (f->stack.empty()) {
      f->stack.resize(256 << 10);
      getcontext(&f->start);
      f->start.uc_stack.ss_sp = f->stack.data();
      f->start.uc_stack.ss_size = f->stack.size();
      makecontext(&f->start, fiber_main, 0);
      setcontext(&f->start);
    }
    _longjmp(f->at, 1);
  case 2:
    idle.push_back(current); // its threads have finished
  }
}

void wait_at(State s) {
  int thread = current->thread;
  block.state[thread] = s;
  if (!_setjmp(current->at)) _longjmp(scheduler, 1);
  enter(thread);
}

// Lets those go on whose whole block, or warp, has arrived.
bool release() {
  int n = (int)block.state.size(), waiting = 0;
  bool any = false;
  for (int t = 0; t < n; t++) waiting += block.state[t] == at_block;
  if (waiting == n) {
    for (State &s : block.state) s = ready;
    return true;
  }
  for (int w = 0; w < n; w += 32) {
    int end = w + 32 < n ? w + 32 : n, arrived = 0;
    for (int t = w; t < end; t++) arrived += block.state[t] == at_warp;
    if (arrived != end - w) continue;
    for (int t = w; t < end; t++) block.state[t] = ready;
    any = true;
  }
  return any;
}

void run_block(Kernel *k, const void *args, bool descending) {
  int n = blockDim.x * blockDim.y * blockDim.z;
  block.body = k->body;
  block.args = args;
  block.descending = descending;
  block.state.assign(n, fresh);
  block.fiber.assign(n, nullptr);
  block.slot.assign(n, 0);
  block.unstarted = n;
  for (;;) {
    while (block.unstarted > 0) {
      Fiber *f = idle.empty() ? new Fiber : idle.back();
      if (!idle.empty()) idle.pop_back();
      resume(f);
      if (block.trapped) return;
    }
    int finished = 0;
    bool went = false;
    for (int i = 0; i < n; i++) {
      int t = nth(i);
      finished += block.state[t] == done;
      if (block.state[t] != ready) continue;
      resume(block.fiber[t]);
      if (block.trapped) return;
      went = true;
    }
    if (finished == n) return;
    if (!went && !release()) fail("threads wait at different barriers, or some have left");
  }
}

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

int run_launch(bool descending) {
  std::string name(read_value<uint64_t>(), 0);
  if (fread(&name[0], 1, name.size(), stdin) != name.size()) _exit(0);
  running = name.c_str();
  gridDim = read_value<Dim3>();
  blockDim = read_value<Dim3>();
  std::vector<char> args(read_value<uint64_t>());
  if (fread(args.data(), 1, args.size(), stdin) != args.size()) _exit(0);
  if (block.trapped) return 1;
  Kernel *k = Kernel::all;
  while (k && name != k->name) k = k->next;
  if (!k) fail("no such kernel");
  if (k->args_size != args.size()) fail("its arguments have another size");
  unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
  for (unsigned i = 0; i < blocks && !block.trapped; i++) {
    unsigned b = descending ? blocks - 1 - i : i;
    blockIdx = {b % gridDim.x, b / gridDim.x % gridDim.y, b / gridDim.x / gridDim.y};
    run_block(k, args.data(), descending);
  }
  return block.trapped;
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
    if (p != b.page()) fail("cannot map a buffer");
    memset(p, 0xa5, b.mapped());
    if (fread(b.data(), 1, b.size, stdin) != b.size) _exit(0);
  }
  block.trapped = false;
  uint64_t launches = read_value<uint64_t>(), status = 0;
  for (uint64_t i = 0; i < launches; i++) status |= run_launch(descending);
  fwrite(&status, sizeof status, 1, stdout);
  for (Buffer &b : buffers) {
    if (b.size == 0) continue;
    for (char *p = b.page(); p < b.data(); p++) {
      if (*p != (char)0xa5) fail("wrote before a buffer");
    }
    fwrite(b.data(), 1, b.size, stdout);
    munmap(b.page(), b.mapped());
  }
  fflush(stdout);
}

void on_fault(int) { fail("access outside of a buffer"); }

} // namespace

void __syncthreads() { wait_at(at_block); }
void __syncwarp() { wait_at(at_warp); }

unsigned __match_any_sync(unsigned mask, unsigned value) {
  int self = current->thread, warp = self / 32 * 32;
  if (mask != 0xffffffffu || (int)block.state.size() < warp + 32) fail("a part of a warp votes");
  block.slot[self] = value;
  wait_at(at_warp);
  unsigned peers = 0;
  for (int t = 0; t < 32; t++) peers |= (unsigned)(block.slot[warp + t] == value) << t;
  wait_at(at_warp);
  return peers;
}

void __trap() {
  block.trapped = true;
  _longjmp(scheduler, 1);
}

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
