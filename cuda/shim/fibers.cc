// Runs the blocks of a kernel. Threads of a block are fibers that run until
// they wait at a barrier. Threads and blocks go in ascending or in descending
// order: a result that depends on it has a race.
#include "shim.h"
#include <csetjmp>
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
  std::vector<unsigned> slot[2]; // of votes
  std::vector<char> turn;
  int unstarted; // how many threads have not begun; they begin in order
} block;

std::vector<Fiber *> idle;
Fiber *current;
jmp_buf scheduler;

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
  for (auto &slot : block.slot) slot.assign(n, 0);
  block.turn.assign(n, 0);
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
    if (!went && !release()) shim_fail("threads wait at different barriers, or some have left");
  }
}

} // namespace

const char *shim_running = "nothing";

void shim_fail(const char *why) {
  fprintf(stderr, "shim: %s: %s\n", shim_running, why);
  _exit(3);
}

bool shim_run(const char *name, Dim3 grid, Dim3 threads, const void *args, unsigned args_size, bool descending) {
  shim_running = name;
  Kernel *k = Kernel::all;
  while (k && strcmp(k->name, name) != 0) k = k->next;
  if (!k) shim_fail("no such kernel");
  if (args_size && k->args_size != args_size) shim_fail("its arguments have another size");
  gridDim = grid;
  blockDim = threads;
  block.trapped = false;
  unsigned blocks = grid.x * grid.y * grid.z;
  for (unsigned i = 0; i < blocks && !block.trapped; i++) {
    unsigned b = descending ? blocks - 1 - i : i;
    blockIdx = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    run_block(k, args, descending);
  }
  return !block.trapped;
}

void __syncthreads() { wait_at(at_block); }
void __syncwarp() { wait_at(at_warp); }

// What each thread of the warp has passed; it stays until the next vote but one.
const unsigned *shim_exchange(unsigned mask, unsigned value) {
  int self = current->thread, warp = self / 32 * 32;
  if (mask != 0xffffffffu || (int)block.state.size() < warp + 32) shim_fail("a part of a warp votes");
  block.turn[self] ^= 1; // two sets of slots: nobody is two votes ahead
  unsigned *slots = &block.slot[block.turn[self]][warp];
  slots[self - warp] = value;
  wait_at(at_warp);
  return slots;
}

void __trap() {
  block.trapped = true;
  _longjmp(scheduler, 1);
}
