// Runs the blocks of a kernel. Threads of a block are fibers that run until
// they wait at a barrier. Threads and blocks go in ascending or in descending
// order: a result that depends on it has a race.
#include "shim.h"
#include <csetjmp>
#include <deque>
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

// Copies of 16 bytes to shared memory, in groups of which the last is open.
struct Copy {
  void *to;
  const void *from; // nullptr: zeros
  int bytes;
};
typedef std::deque<std::vector<Copy>> Copies;

struct Slot { // what a thread shows to its warp
  char bytes[32];
};

struct Block {
  KernelBody body;
  const void *args;
  bool descending, trapped;
  std::vector<State> state;
  std::vector<Fiber *> fiber;
  std::vector<Slot> slot[2]; // what was shown, and before that
  std::vector<char> turn;
  std::vector<Copies> copies;
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
  for (auto &slot : block.slot) slot.assign(n, {});
  block.turn.assign(n, 0);
  block.copies.assign(n, Copies(1));
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

const char (*shim_show(unsigned mask, const void *value, unsigned size))[32] {
  int self = current->thread, warp = self / 32 * 32;
  if (mask != 0xffffffffu || (int)block.state.size() < warp + 32) shim_fail("a part of a warp votes");
  block.turn[self] ^= 1; // two sets of slots: nobody is two votes ahead
  Slot *slots = &block.slot[(int)block.turn[self]][warp];
  memcpy(slots[self - warp].bytes, value, size);
  wait_at(at_warp);
  return &slots->bytes;
}

// A GPU copies at some time between the call and the wait for it: here at once
// or when waited for, which blocks take in turns.
void start_copy(void *to, const void *from, bool inside, int bytes) {
  Copies &c = block.copies[current->thread];
  c.back().push_back({to, inside ? from : nullptr, bytes});
  if ((size_t)to % bytes != 0 || (inside && (size_t)from % bytes != 0)) shim_fail("a copy is not aligned");
  if (blockIdx.x % 2 == block.descending) return;
  copies_commit();
  copies_wait_but(0);
}

void copies_commit() { block.copies[current->thread].emplace_back(); }

void copies_wait_but(int last) {
  Copies &c = block.copies[current->thread];
  for (; (int)c.size() > last + 1; c.pop_front()) {
    for (Copy &copy : c.front()) copy.from ? memcpy(copy.to, copy.from, copy.bytes) : memset(copy.to, 0, copy.bytes);
  }
}

void load_matrices(unsigned (&r)[4], const void *row) {
  if ((size_t)row % 16 != 0) shim_fail("a row of a matrix is not aligned");
  Shown<const char *> rows(~0u, (const char *)row);
  for (int i = 0; i < 4; i++) memcpy(&r[i], rows.of(8 * i + shim_lane() / 4) + shim_lane() % 4 * 4, 4);
  __syncwarp(); // a row may be overwritten after this
}

void multiply_codes(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  struct Factors {
    unsigned value[6];
  };
  Shown<Factors> shown(~0u, {{a[0], a[1], a[2], a[3], b0, b1}});
  const int lane = shim_lane();
  for (int i = 0; i < 4; i++) {
    int row = i / 2, column = lane % 4 * 2 + i % 2; // row: whether one of the last eight
    for (int k = 0; k < 32; k += 4) {
      unsigned x = shown.of(lane / 4 * 4 + k % 16 / 4).value[row + k / 16 * 2];
      c[i] = dot4(x, shown.of(column * 4 + k % 16 / 4).value[4 + k / 16], c[i]);
    }
  }
}

void __trap() {
  block.trapped = true;
  _longjmp(scheduler, 1);
}
