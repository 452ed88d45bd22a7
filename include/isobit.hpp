// isobit.hpp - isobit for C++17: plans that free themselves, exceptions in place of statuses, and
// tensors from pointers, vectors, arrays or spans. Header-only, over isobit.h.
//
//   #include <isobit.hpp>
//   #include <vector>
//   int main() {
//     std::vector<float> x{0.1f, -2.5f, 7.0f, 1.0f, 2.0f, 3.0f}, scale{0.05f, 0.1f};
//     std::vector<int8_t> q(x.size());
//     isobit::run("quantize_per_channel x=f32[2,3] zero_point=none q=s8 axis=0 qmin=-128 qmax=127",
//                 {{x, {2, 3}}, scale, {}, {q, {2, 3}}});
//   }
#ifndef ISOBIT_HPP_
#define ISOBIT_HPP_

#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "isobit.hpp needs C++17; isobit.h takes C++11 and C"
#endif
#if !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#error "isobit.hpp throws exceptions, which this compiler was told to leave out; isobit.h has statuses"
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include "isobit.h"

namespace isobit {

// What a failed call throws. status() is one of isobit.h's ISOBIT_* values and
// what() the library's sentence.
class Error : public std::runtime_error {
public:
  Error(isobit_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
  isobit_status status() const noexcept { return status_; }

private:
  isobit_status status_;
};

// The smaller floats, as their bits.
struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};
struct f8e4m3 { // the variant without infinities
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
};

namespace detail {

// Calls one of isobit.h's functions, whose last two parameters are the error
// buffer, and throws what it answers.
template <class Function, class... Args> void call(Function function, Args... args) {
  char err[1024];
  err[0] = 0;
  const isobit_status status = function(args..., err, sizeof err);
  if (status != ISOBIT_OK) throw Error(status, err);
}

// Reads a text from one of isobit.h's functions that take buf, size, needed. What
// another thread sets may make it longer between two calls.
template <class Function, class... Args> std::string text(Function function, Args... args) {
  std::string result;
  size_t needed = 0; // not known yet: the first call says it
  char err[1024];
  isobit_status status;
  do {
    result.resize(needed);
    err[0] = 0;
    status = function(args..., &result[0], result.size(), &needed, err, sizeof err);
  } while (status != ISOBIT_OK && needed > result.size());
  if (status != ISOBIT_OK) throw Error(status, err);
  result.resize(needed - 1);
  return result;
}

// bf16, or C++23's std::bfloat16_t, which has the size of std::float16_t and 8 bits of precision.
template <class T> constexpr bool is_bfloat() {
  if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::digits == 8;
  else
    return std::is_same_v<T, bf16>;
}

template <class T> constexpr DLDataType dtype_of() {
  constexpr uint16_t one = 1;
  constexpr uint8_t bits = sizeof(T) * 8;
  // The codes of 8-bit floats by number: a dlpack.h before 1.1 has no names for them.
  if constexpr (std::is_same_v<T, f8e4m3>)
    return {10, bits, one};
  else if constexpr (std::is_same_v<T, f8e5m2>)
    return {12, bits, one};
  else if constexpr (is_bfloat<T>())
    return {kDLBfloat, bits, one};
  else if constexpr (std::is_same_v<T, f16> || std::is_floating_point_v<T>)
    return {kDLFloat, bits, one};
  else {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>, "not an element type of isobit");
    return {std::is_signed_v<T> ? uint8_t{kDLInt} : uint8_t{kDLUInt}, bits, one};
  }
}

// What has its elements one after the other: its own, or another's.
template <class C> inline constexpr bool is_array = false;
template <class T, class A> inline constexpr bool is_array<std::vector<T, A>> = true;
template <class T, size_t size> inline constexpr bool is_array<std::array<T, size>> = true;
template <class T, size_t size> inline constexpr bool is_array<T[size]> = true;
template <class C> inline constexpr bool is_span = false;
#ifdef __cpp_lib_span
template <class T, size_t size> inline constexpr bool is_span<std::span<T, size>> = true;
#endif
// What may be an extent: integers, and what becomes one.
template <class N> inline constexpr bool is_extent = std::is_convertible_v<N, int64_t> && !std::is_floating_point_v<N>;
template <class C> using plain = std::remove_cv_t<std::remove_reference_t<C>>;
template <class C> using if_sequence = std::enable_if_t<is_array<plain<C>> || is_span<plain<C>>, int>;

} // namespace detail

// A tensor's shape or strides, in elements: a list of integers such as {2, n}, what std::data and
// std::size take and holds int64_t, or a pointer and how many there are. Copied.
class Extents {
public:
  Extents() = default;
  // No std::initializer_list, in which a size_t would be narrowed, an error. One beyond int64_t becomes negative.
  template <class... N, std::enable_if_t<sizeof...(N) != 0 && (detail::is_extent<N> && ...), int> = 0>
  Extents(N... extents) : Extents(std::array<int64_t, sizeof...(N)>{static_cast<int64_t>(extents)...}) {}
  template <class C, class D = decltype(std::data(std::declval<const C &>())),
            std::enable_if_t<std::is_convertible_v<D, const int64_t *>, int> = 0>
  Extents(const C &c) : Extents(std::data(c), static_cast<size_t>(std::size(c))) {}
  Extents(const int64_t *data, size_t size) : size_(size) {
    if (size > extents_.size())
      throw Error(ISOBIT_INVALID_ARGUMENT, "isobit: a tensor has " + std::to_string(size) +
                                               " dimensions; want at most " + std::to_string(extents_.size()));
    if (size) std::copy_n(data, size, extents_.begin());
  }

  int64_t *data() { return extents_.data(); }
  size_t size() const { return size_; }

private:
  std::array<int64_t, 8> extents_{};
  size_t size_ = 0;
};

// A view of memory that somebody else owns: a DLTensor with room for its shape
// and strides. Copies see the same memory. The default Tensor is an absent
// optional argument, so {} stands for one in a list.
class Tensor {
public:
  Tensor() = default;

  // Compact, row-major memory of the given shape. const memory is for inputs: a
  // plan that would write to it throws. {} is the shape of a single value.
  template <class T> Tensor(T *data, const Extents &shape) : is_const_(std::is_const_v<T>) {
    set(data, detail::dtype_of<std::remove_cv_t<T>>(), shape);
  }

  // The same with strides, in elements.
  template <class T> Tensor(T *data, const Extents &shape, const Extents &strides) : is_const_(std::is_const_v<T>) {
    if (shape.size() != strides.size())
      throw Error(ISOBIT_INVALID_ARGUMENT, "isobit: a tensor's strides differ in number from its dimensions");
    set(data, detail::dtype_of<std::remove_cv_t<T>>(), shape, &strides);
  }

  // A vector, array or span as one dimension, or with a shape of as many elements. An array
  // of C's is one dimension, too; beside a shape it is a pointer, whose memory is not measured.
  // The memory must outlive the view and keep its size.
  template <class C, detail::if_sequence<C> = 0>
  Tensor(C &&c) : Tensor(std::forward<C>(c), {static_cast<int64_t>(std::size(c))}) {}
  template <class C, detail::if_sequence<C> = 0> Tensor(C &&c, const Extents &shape) : Tensor(std::data(c), shape) {
    static_assert(std::is_lvalue_reference_v<C> || detail::is_span<detail::plain<C>>,
                  "a temporary would be gone before the run");
    fits(std::size(c));
  }

  // Another library's tensor; its shape and strides are copied.
  Tensor(const DLTensor &t) {
    if (t.ndim < 0 || (t.ndim > 0 && !t.shape))
      throw Error(ISOBIT_INVALID_ARGUMENT, "isobit: a DLTensor without a shape");
    const auto rank = static_cast<size_t>(t.ndim);
    const Extents strides(t.strides, t.strides ? rank : 0);
    set(t.data, t.dtype, {t.shape, rank}, t.strides ? &strides : nullptr);
    tensor_.device = t.device;
    tensor_.byte_offset = t.byte_offset;
  }

  Tensor(const Tensor &other) { *this = other; }
  Tensor &operator=(const Tensor &other) {
    tensor_ = other.tensor_;
    is_const_ = other.is_const_;
    shape_ = other.shape_;
    strides_ = other.strides_;
    tensor_.shape = other.tensor_.shape ? shape_.data() : nullptr;
    tensor_.strides = other.tensor_.strides ? strides_.data() : nullptr;
    return *this;
  }

  // The same tensor, in the memory of another device: Tensor(p, {2, 3}).on({kDLCUDA, 0}).
  Tensor on(DLDevice device) const {
    Tensor there(*this);
    there.tensor_.device = device;
    return there;
  }

  bool present() const { return tensor_.shape != nullptr; }
  bool is_const() const { return is_const_; } // which an output must not be
  // The DLTensor, which lives as long as this Tensor; NULL when absent.
  const DLTensor *dl() const { return present() ? &tensor_ : nullptr; }

private:
  void set(const volatile void *data, DLDataType dtype, const Extents &shape, const Extents *strides = nullptr) {
    tensor_.data = const_cast<void *>(data); // plans write to what is not const alone
    tensor_.device = {kDLCPU, 0};
    tensor_.ndim = static_cast<int32_t>(shape.size());
    tensor_.dtype = dtype;
    shape_ = shape;
    tensor_.shape = shape_.data();
    if (strides) {
      strides_ = *strides;
      tensor_.strides = strides_.data();
    }
  }

  void fits(size_t size) const {
    uint64_t elements = 1; // unsigned, so that a product beyond it is no undefined behaviour
    for (int32_t i = 0; i < tensor_.ndim; i++) {
      const int64_t extent = tensor_.shape[i];
      if (extent < 0)
        throw Error(ISOBIT_INVALID_ARGUMENT,
                    "isobit: a shape has the extent " + std::to_string(extent) + "; want at least 0");
      elements *= static_cast<uint64_t>(extent);
    }
    if (elements != size)
      throw Error(ISOBIT_INVALID_ARGUMENT, "isobit: a shape has " + std::to_string(elements) +
                                               " elements; want those of its memory, " + std::to_string(size));
  }

  DLTensor tensor_{};
  bool is_const_ = false;
  Extents shape_{}, strides_{};
};

// A plan for one problem. Movable; run() and the rest may be called from many
// threads at once. See isobit.h for the problem's text.
class Plan {
public:
  explicit Plan(const std::string &problem) : Plan(problem, isobit_preference{}) {}

  // struct_size is filled in here.
  Plan(const std::string &problem, isobit_preference preference) : Plan() { // so that what throws here runs ~Plan
    preference.struct_size = sizeof preference;
    if (problem.find('\0') != std::string::npos)
      throw Error(ISOBIT_INVALID_PROBLEM, "isobit: a problem's text has a NUL in it");
    detail::call(isobit_plan_create, problem.c_str(), &preference, &handle_);
    detail::call(isobit_plan_workspace_size, handle_, &workspace_size_);
    on_cpu_ = problem.find("device=cuda") == std::string::npos;
    find_outputs(problem.substr(0, problem.find(' ')));
  }

  // How many plans cached() keeps; of more texts, the latest.
  static constexpr size_t max_cached = 1024;

  // The plan for this text, from a table of the process. A plan that the table no
  // longer keeps lives as long as somebody has a pointer to it.
  static std::shared_ptr<const Plan> cached(const std::string &problem) {
    // Never destroyed, so that a static object's destructor may still run plans.
    static auto &cache = *new Cache;
    if (auto plan = cache.find(problem)) return plan;
    auto plan = std::make_shared<const Plan>(problem); // no other thread waits for it
    return cache.add(problem, std::move(plan));
  }

  Plan(Plan &&other) noexcept : Plan() { *this = std::move(other); }
  Plan &operator=(Plan &&other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(workspace_size_, other.workspace_size_);
    std::swap(on_cpu_, other.on_cpu_);
    std::swap(outputs_, other.outputs_);
    return *this;
  }
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;
  ~Plan() {
    if (handle_ != 0) isobit_plan_destroy(handle_, nullptr, 0);
  }

  // Runs on the CPU with a workspace of the calling thread's, grown as needed.
  void run(std::initializer_list<Tensor> args) const { run(args.begin(), args.size()); }
  void run(const std::vector<Tensor> &args) const { run(args.data(), args.size()); }

  // Runs on a CUDA stream, or with the caller's own workspace.
  void run(std::initializer_list<Tensor> args, void *stream, void *workspace, uint64_t size) const {
    run(pointers(args.begin(), args.size()), stream, workspace, size);
  }
  void run(const std::vector<Tensor> &args, void *stream, void *workspace, uint64_t size) const {
    run(pointers(args.data(), args.size()), stream, workspace, size);
  }

  // Throws what run() would throw for these tensors, without running.
  void can_implement(std::initializer_list<Tensor> args) const { can_implement(pointers(args.begin(), args.size())); }
  void can_implement(const std::vector<Tensor> &args) const { can_implement(pointers(args.data(), args.size())); }

  uint64_t workspace_size() const { return workspace_size_; }
  std::string describe() const { return detail::text(isobit_plan_describe, handle_); } // JSON
  isobit_plan handle() const { return handle_; }

private:
  Plan() = default; // no plan

  // The argument list as isobit.h takes it.
  class Pointers {
  public:
    Pointers(const Tensor *args, size_t n) : size_(static_cast<int32_t>(n)) {
      if (n > pointers_.size())
        throw Error(ISOBIT_INVALID_ARGUMENT,
                    "isobit: " + std::to_string(n) + " tensors came; want at most " + std::to_string(pointers_.size()));
      std::transform(args, args + n, pointers_.begin(), [](const Tensor &t) { return t.dl(); });
    }
    const DLTensor *const *data() const { return pointers_.data(); }
    int32_t size() const { return size_; }

  private:
    std::array<const DLTensor *, 16> pointers_{};
    int32_t size_;
  };

  // From the plan's JSON, in which an argument's name comes before its direction.
  void find_outputs(const std::string &op) {
    const std::string text = describe(), name = "{\"name\":\"", direction = "\"direction\":\"";
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
      at += name.size();
      const bool is_input = text.compare(text.find(direction, at) + direction.size(), 3, "in\"") == 0;
      outputs_.push_back(is_input ? "" : op + ": " + text.substr(at, text.find('"', at) - at));
    }
  }

  Pointers pointers(const Tensor *args, size_t n) const {
    for (size_t i = 0; i < std::min(n, outputs_.size()); i++)
      if (args[i].is_const() && !outputs_[i].empty())
        throw Error(ISOBIT_INVALID_ARGUMENT, outputs_[i] + " is const; it is an output");
    return {args, n};
  }

  // Plans by their texts: where each is in a list, those used last in front.
  class Cache {
  public:
    std::shared_ptr<const Plan> find(const std::string &problem) {
      const auto lock = locked();
      const auto found = places_.find(problem);
      if (found == places_.end()) return nullptr;
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }

    // Answers the plan that is kept: another thread's, if that was first.
    std::shared_ptr<const Plan> add(const std::string &problem, std::shared_ptr<const Plan> plan) {
      std::shared_ptr<const Plan> dropped; // destroyed after the lock is given back
      const auto lock = locked();
      const auto found = places_.find(problem);
      if (found != places_.end()) return found->second->second;
      entries_.emplace_front(problem, std::move(plan));
      places_.emplace(problem, entries_.begin());
      if (entries_.size() > max_cached) {
        dropped = std::move(entries_.back().second);
        places_.erase(entries_.back().first);
        entries_.pop_back();
      }
      return entries_.front().second;
    }

  private:
    // A child forked while another thread had the lock would wait for ever: the library knows whether this is one.
    std::unique_lock<std::mutex> locked() {
      std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
      if (!lock) {
        int32_t n = 0;
        detail::call(isobit_get_num_threads, &n);
        lock.lock();
      }
      return lock;
    }

    using Entries = std::list<std::pair<std::string, std::shared_ptr<const Plan>>>;
    std::mutex mutex_{};
    Entries entries_{};
    std::unordered_map<std::string, Entries::iterator> places_{};
  };

  void run(const Pointers &p, void *stream, void *workspace, uint64_t size) const {
    detail::call(isobit_plan_run, handle_, stream, workspace, size, p.data(), p.size());
  }

  void can_implement(const Pointers &p) const { detail::call(isobit_plan_can_implement, handle_, p.data(), p.size()); }

  void run(const Tensor *args, size_t n) const {
    const Pointers p = pointers(args, n);
    if (workspace_size_ == 0) return run(p, nullptr, nullptr, 0);
    if (!on_cpu_)
      throw Error(ISOBIT_INVALID_ARGUMENT, "isobit: this plan needs a workspace on its device: pass one to run()");
    Scratch scratch;
    run(p, nullptr, scratch.of(workspace_size_), workspace_size_);
  }

  // Memory of the calling thread's, which nobody else has until the run is over: a pool that
  // isobit_set_parallel knows may have the thread run another plan meanwhile.
  class Scratch {
  public:
    Scratch() : memory_(std::exchange(idle(), nullptr)) {
      if (!memory_) memory_ = std::make_unique<Memory>();
    }
    ~Scratch() { delete std::exchange(idle(), memory_.release()); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    void *of(uint64_t size) {
      constexpr size_t align = 64;
      if (memory_->size() < size + align) {
        memory_->clear(); // nothing to keep, so nothing to move
        memory_->resize(static_cast<size_t>(size) + align);
      }
      const auto address = reinterpret_cast<uintptr_t>(memory_->data());
      return memory_->data() + (align - address % align) % align;
    }

  private:
    using Memory = std::vector<unsigned char>;

    // A pointer, which nothing destroys: static objects are destroyed after the
    // owner, and may still run plans.
    static Memory *&idle() {
      thread_local Memory *memory = nullptr;
      struct Owner {
        Memory *&owned;
        ~Owner() { delete std::exchange(owned, nullptr); }
      };
      thread_local const Owner owner{memory};
      (void)owner;
      return memory;
    }

    std::unique_ptr<Memory> memory_;
  };

  isobit_plan handle_ = 0;
  uint64_t workspace_size_ = 0;
  bool on_cpu_ = true;
  std::vector<std::string> outputs_{}; // for each argument the words for it, if it is written to
};

// Runs a problem once: its plan comes from Plan::cached, which keeps the latest
// max_cached. A program of more problems than that keeps Plans of its own.
inline void run(const std::string &problem, std::initializer_list<Tensor> args) { Plan::cached(problem)->run(args); }
inline void run(const std::string &problem, const std::vector<Tensor> &args) { Plan::cached(problem)->run(args); }

inline std::string version() { return isobit_version(); }
inline std::string support() { return detail::text(isobit_support); } // JSON
inline std::string info() { return detail::text(isobit_info); } // JSON
inline void set_num_threads(int32_t n) { detail::call(isobit_set_num_threads, n); }
// parallel: see isobit_set_parallel; it must not throw.
inline void set_parallel(isobit_parallel parallel) { detail::call(isobit_set_parallel, parallel); }
inline int32_t get_num_threads() {
  int32_t n = 0;
  detail::call(isobit_get_num_threads, &n);
  return n;
}

} // namespace isobit
#endif // ISOBIT_HPP_
