// isobit.hpp: plans, the cache, errors, workspaces, threads.
#include "testing.hpp"

#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

const char *const scatter = "embedding_backward grad_output=f32[4096,8] indices=i64[4096] grad_weight=f32[512,8]";

// The example at the top of isobit.hpp.
void example() {
  std::vector<float> x{0.1f, -2.5f, 7.0f, 1.0f, 2.0f, 3.0f}, scale{0.05f, 0.1f};
  std::vector<int8_t> q(x.size());
  isobit::run("quantize_per_channel x=f32[2,3] zero_point=none q=s8 axis=0 qmin=-128 qmax=127",
              {{x, {2, 3}}, scale, {}, {q, {2, 3}}});
  CHECK((q == std::vector<int8_t>{2, -50, 127, 10, 20, 30}));
}

void errors() {
  std::vector<float> x(6), scale(2);
  std::vector<int8_t> q(6);
  CHECK(thrown("no_such_op", [] { isobit::Plan("no_such_op x=f32[2]"); }) == ISOBIT_INVALID_PROBLEM);
  CHECK(thrown("qmax", [] { isobit::run("quantize_per_tensor x=f32[2] q=s8 qmin=0", {}); }) == ISOBIT_INVALID_PROBLEM);
  CHECK(thrown("NUL", [] { isobit::run(quantize + std::string("\0 garbage", 9), {}); }) == ISOBIT_INVALID_PROBLEM);
  const isobit::Plan plan(quantize);
  CHECK(thrown("x", [&] { plan.run({x, scale, {}, {q, {2, 3}}}); }) == ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("x", [&] { plan.can_implement({x, scale, {}, {q, {2, 3}}}); }) == ISOBIT_INVALID_ARGUMENT);
  plan.can_implement({{x, {2, 3}}, scale, {}, {q, {2, 3}}});
  isobit_preference preference{};
  preference.row = "no_such_row";
  CHECK(thrown("no_such_row", [&] { isobit::Plan(quantize, preference); }) == ISOBIT_INVALID_PROBLEM);
}

void plans() {
  const auto cached = isobit::Plan::cached(quantize);
  CHECK(cached == isobit::Plan::cached(quantize));
  CHECK(cached->describe().find("quantize_per_channel") != std::string::npos);
  isobit::Plan a(quantize), b(scatter);
  const isobit_plan a_handle = a.handle();
  b = std::move(a);
  isobit::Plan c = std::move(b);
  CHECK(c.handle() == a_handle);
  const std::vector<float> x(6), scale(2);
  const std::vector<int8_t> codes(6);
  CHECK(thrown("q is const", [&] { c.run({{x, {2, 3}}, scale, {}, {codes, {2, 3}}}); }) == ISOBIT_INVALID_ARGUMENT);
  {
    const isobit::Plan ends = std::move(c);
  }
  CHECK(isobit_plan_destroy(a_handle, nullptr, 0) == ISOBIT_INVALID_HANDLE);
  CHECK(thrown("not a handle", [&] { c.describe(); }) == ISOBIT_INVALID_HANDLE);
  auto moved = std::make_unique<isobit::Plan>(scatter);
  const uint64_t bytes = moved->workspace_size();
  const isobit::Plan outlives = std::move(*moved);
  moved.reset();
  CHECK(bytes > 0 && outlives.workspace_size() == bytes && !outlives.describe().empty());
  CHECK(isobit::support().find("grid_sample") != std::string::npos);
  CHECK(isobit::info().find(isobit::version()) != std::string::npos);
  const int32_t before = isobit::get_num_threads();
  isobit::set_num_threads(before + 1);
  CHECK(isobit::get_num_threads() == before + 1);
  isobit::set_num_threads(before);
}

std::string problem_of(size_t n) {
  return "fake_quantize_per_tensor x=f32[" + std::to_string(n) + "] qmin=-128 qmax=127";
}

// The table of plans keeps the latest, and what a caller holds.
void cache() {
  const size_t most = isobit::Plan::max_cached;
  const auto held = isobit::Plan::cached(problem_of(1));
  const std::weak_ptr<const isobit::Plan> gone = isobit::Plan::cached(problem_of(2)),
                                          used = isobit::Plan::cached(problem_of(3));
  std::weak_ptr<const isobit::Plan> oldest; // of as many as are kept
  const isobit_plan handle = gone.lock()->handle();
  for (size_t n = 4; n < 2 * most; n++) {
    CHECK(isobit::Plan::cached(problem_of(3)) == used.lock());
    const auto plan = isobit::Plan::cached(problem_of(n));
    if (n == most + 1) oldest = plan;
  }
  CHECK(gone.expired() && !used.expired() && !oldest.expired());
  CHECK(isobit_plan_destroy(handle, nullptr, 0) == ISOBIT_INVALID_HANDLE);
  CHECK(isobit::Plan::cached(problem_of(2)) && isobit::Plan::cached(problem_of(1)) != held);
  const std::vector<float> x{1.25f}, scale{0.5f};
  const std::vector<int32_t> zero{0};
  std::vector<float> y(1);
  held->run({x, {scale.data(), {}}, {zero.data(), {}}, y});
  CHECK(y[0] == 1);
}

// Threads run more problems than the table keeps; no plan ends while it is used.
void cache_in_threads() {
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; t++)
    threads.emplace_back([t] {
      const std::vector<float> scale{0.5f};
      const std::vector<int32_t> zero{0};
      for (size_t i = 0; i < 3000; i++) {
        const size_t n = 1 + (i * (2 * t + 1)) % 1500;
        const std::vector<float> x(n, 3);
        std::vector<float> y(n);
        isobit::run(problem_of(n), {x, {scale.data(), {}}, {zero.data(), {}}, y});
        CHECK(y == x);
      }
    });
  for (std::thread &t : threads) t.join();
}

// Threads that ask for the same new plan at once get the one that is kept.
void one_plan_for_all_threads() {
  for (size_t n = 10000; n < 10050; n++) {
    std::array<std::shared_ptr<const isobit::Plan>, 4> all;
    std::atomic<size_t> there{0};
    std::vector<std::thread> threads;
    for (auto &plan : all)
      threads.emplace_back([&plan, &all, &there, n] {
        for (there++; there < all.size();) std::this_thread::yield();
        plan = isobit::Plan::cached(problem_of(n));
      });
    for (std::thread &t : threads) t.join();
    for (const auto &plan : all) CHECK(plan == isobit::Plan::cached(problem_of(n)));
  }
}

// Children of a process whose other thread may have the table's lock: they are told that they were forked, or find the
// plan, and none waits for a thread that it does not have.
void forks_beside_the_cache() {
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) isobit::Plan::cached(quantize);
  });
  for (int i = 0; i < 40; i++) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      try {
        isobit::Plan::cached(quantize);
      } catch (const isobit::Error &e) {
        _exit(e.status() == ISOBIT_FORKED ? 0 : 1);
      }
      _exit(0);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
  done = true;
  other.join();
}

// Every call that takes tensors takes them as a vector, too.
void vectors() {
  std::vector<float> x{1, 2, 3, 4, 5, 6}, scale{1, 0.5f};
  std::vector<int8_t> q(6);
  const std::vector<isobit::Tensor> args{{x, {2, 3}}, scale, {}, {q, {2, 3}}};
  const std::vector<int8_t> want{1, 2, 3, 8, 10, 12};
  const isobit::Plan plan(quantize);
  const auto check = [&] {
    CHECK(q == want);
    q.assign(6, 0);
  };
  plan.can_implement(args);
  CHECK(q == std::vector<int8_t>(6));
  plan.run(args);
  check();
  plan.run(args, nullptr, nullptr, 0);
  check();
  isobit::run(quantize, args);
  check();
  const std::vector<isobit::Tensor> few{args[0], args[1]};
  CHECK(thrown("2 tensors", [&] { plan.can_implement(few); }) == ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("2 tensors", [&] { plan.run(few, nullptr, nullptr, 0); }) == ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("17 tensors came; want at most 16", [&] { plan.run(std::vector<isobit::Tensor>(17)); }) ==
        ISOBIT_INVALID_ARGUMENT);
  CHECK(thrown("2 tensors", [&] { isobit::run(quantize, few); }) == ISOBIT_INVALID_ARGUMENT);
}

// Texts that become longer while they are read: numbers of threads with more digits.
void texts_that_change() {
  const int32_t before = isobit::get_num_threads();
  std::atomic<bool> over{false};
  std::thread changes([&] {
    while (!over)
      for (const int32_t n : {1, 1000}) isobit::set_num_threads(n);
  });
  for (int i = 0; i < 2000; i++) CHECK(isobit::info().back() == '}');
  over = true;
  changes.join();
  isobit::set_num_threads(before);
}

// A workspace of each thread's own, and the caller's.
void workspaces() {
  std::vector<float> grad(4096 * 8, 1), all(512 * 8);
  std::vector<int64_t> indices(4096);
  for (size_t i = 0; i < indices.size(); i++) indices[i] = static_cast<int64_t>(i % 512);
  const auto cached = isobit::Plan::cached(scatter);
  const isobit::Plan &plan = *cached;
  CHECK(plan.workspace_size() > 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      std::vector<float> mine(512 * 8);
      for (int round = 0; round < 20; round++) {
        isobit::run(scatter, {{grad, {4096, 8}}, indices, {mine, {512, 8}}});
        CHECK(mine == std::vector<float>(512 * 8, 8));
      }
    });
  for (std::thread &t : threads) t.join();
  std::vector<char> own(plan.workspace_size());
  plan.run({{grad, {4096, 8}}, indices, {all, {512, 8}}}, nullptr, own.data(), own.size());
  CHECK(all == std::vector<float>(512 * 8, 8));
  CHECK(thrown("workspace", [&] {
          plan.run({{grad, {4096, 8}}, indices, {all, {512, 8}}}, nullptr, own.data(), own.size() - 1);
        }) == ISOBIT_WORKSPACE_TOO_SMALL);
}

// Threads that a run borrows may run other plans meanwhile, the calling one among them: each has a
// workspace of its own.
void nested_runs() {
  constexpr int64_t n = 1 << 16, rows = 512;
  static const auto sums_of = [](int64_t step) {
    std::vector<float> grad(n * 4), sums(rows * 4);
    std::vector<int64_t> indices(n);
    for (int64_t i = 0; i < n; i++) {
      indices[static_cast<size_t>(i)] = i * step % rows;
      grad[static_cast<size_t>(4 * i)] = static_cast<float>(i % 1000);
    }
    isobit::run("embedding_backward grad_output=f32[65536,4] indices=i64[65536] grad_weight=f32[512,4]",
                {{grad, {n, 4}}, indices, {sums, {rows, 4}}});
    return sums;
  };
  static const std::vector<float> inner = sums_of(3), outer = sums_of(1);
  static std::atomic<int> nested{0};
  static thread_local bool inside = false;
  const int32_t before = isobit::get_num_threads();
  isobit::set_num_threads(2);
  isobit::set_parallel([](void (*body)(void *), void *data, int32_t) {
    if (!inside) {
      inside = true;
      CHECK(sums_of(3) == inner);
      nested++;
      inside = false;
    }
    body(data);
  });
  for (int round = 0; round < 10; round++) CHECK(sums_of(1) == outer);
  CHECK(nested >= 10 && inner != outer);
  isobit::set_parallel(nullptr);
  isobit::set_num_threads(before);
}

// Runs plans when static objects are destroyed, which is after what belongs to
// the thread. A workspace of this size is memory of its own, gone when freed.
struct AtExit {
  ~AtExit() {
    constexpr size_t n = 1 << 20;
    const std::vector<float> grad(n, 1);
    const std::vector<int32_t> indices(n, 1);
    std::vector<float> sums(2);
    for (int round = 0; round < 2; round++) {
      sums.assign(2, 0);
      isobit::run("embedding_backward grad_output=f32[1048576,1] indices=i32[1048576] grad_weight=f32[2,1]",
                  {{grad, {n, 1}}, indices, {sums, {2, 1}}});
      CHECK(sums[1] == n);
    }
  }
  void run_now() { AtExit(*this); }
} at_exit;

} // namespace

int main() {
  at_exit.run_now();
  example();
  errors();
  plans();
  cache();
  cache_in_threads();
  one_plan_for_all_threads();
  forks_beside_the_cache();
  vectors();
  texts_that_change();
  workspaces();
  nested_runs();
  std::cout << "ok\n";
}
