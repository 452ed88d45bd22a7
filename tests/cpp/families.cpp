// Runs every case of a file in the format of tests/cases.txt through isobit.hpp.
#include <isobit.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>

namespace {

[[noreturn]] void fail(const std::string &what) {
  std::cerr << what << "\n";
  std::exit(1);
}

// Exact conversions of the values in the file.
template <class T> struct Convert {
  static T from(double v) { return static_cast<T>(v); }
  static double to(T v) { return static_cast<double>(v); }
};

template <> struct Convert<isobit::bf16> {
  static isobit::bf16 from(double v) {
    const float f = static_cast<float>(v);
    uint32_t bits;
    std::memcpy(&bits, &f, sizeof bits);
    return {static_cast<uint16_t>(bits >> 16)};
  }
  static double to(isobit::bf16 v) {
    const uint32_t bits = uint32_t{v.bits} << 16;
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return static_cast<double>(f);
  }
};

template <> struct Convert<isobit::f8e4m3> { // as its bits
  static isobit::f8e4m3 from(double v) { return {static_cast<uint8_t>(v)}; }
  static double to(isobit::f8e4m3 v) { return v.bits; }
};

template <> struct Convert<isobit::f16> {
  static double to(isobit::f16 v) {
    const int e = v.bits >> 10 & 31, m = v.bits & 1023;
    const double a = e ? std::ldexp(1024 + m, e - 25) : std::ldexp(m, -24);
    return v.bits & 0x8000 ? -a : a;
  }
  static isobit::f16 from(double v) { // by search: the file's numbers are few
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
      const isobit::f16 h{static_cast<uint16_t>(bits)};
      if (to(h) == v && std::signbit(to(h)) == std::signbit(v)) return h;
    }
    fail("no f16 is " + std::to_string(v));
  }
};

std::vector<double> numbers(std::istream &line) {
  std::vector<double> all;
  for (double v; line >> v;) all.push_back(v);
  return all;
}

// One argument of a case: its tensor, and a comparison to make after the run.
struct Argument {
  isobit::Tensor tensor;
  std::function<void(const std::string &)> check = [](const std::string &) {};
};

template <class T> Argument make(bool reads, bool writes, const std::vector<int64_t> &shape, std::istream &line) {
  size_t count = 1;
  for (const int64_t d : shape) count *= static_cast<size_t>(d);
  const std::vector<double> given = numbers(line);
  if (given.size() != count * (reads + writes)) fail("the number of values does not fit the shape");
  const auto data = std::make_shared<std::vector<T>>(count);
  for (size_t i = 0; reads && i < count; i++) (*data)[i] = Convert<T>::from(given[i]);
  DLTensor dl = *isobit::Tensor(*data).dl();
  dl.ndim = static_cast<int32_t>(shape.size());
  dl.shape = const_cast<int64_t *>(shape.data());
  const std::vector<double> want(given.end() - static_cast<ptrdiff_t>(writes ? count : 0), given.end());
  return {dl, [data, want](const std::string &problem) {
            for (size_t i = 0; i < want.size(); i++) {
              const double got = Convert<T>::to((*data)[i]);
              if (got != want[i] || std::signbit(got) != std::signbit(want[i]))
                fail(problem + ": element " + std::to_string(i) + " is " + std::to_string(got) + ", want " +
                     std::to_string(want[i]));
            }
          }};
}

Argument read(const std::string &text) {
  std::istringstream line(text);
  std::string direction, type;
  line >> direction;
  if (direction == "none") return {};
  std::getline(line >> std::ws, type, '[');
  std::vector<int64_t> shape;
  while (line.peek() != ']') {
    int64_t d;
    line >> d;
    shape.push_back(d);
    if (line.peek() == ',') line.get();
  }
  line.get();
  const bool reads = direction != "out", writes = direction != "in";
  if (type == "f32") return make<float>(reads, writes, shape, line);
  if (type == "f64") return make<double>(reads, writes, shape, line);
  if (type == "f16") return make<isobit::f16>(reads, writes, shape, line);
  if (type == "bf16") return make<isobit::bf16>(reads, writes, shape, line);
  if (type == "s8") return make<int8_t>(reads, writes, shape, line);
  if (type == "u8") return make<uint8_t>(reads, writes, shape, line);
  if (type == "i32") return make<int32_t>(reads, writes, shape, line);
  if (type == "i64") return make<int64_t>(reads, writes, shape, line);
  if (type == "f8e4m3") return make<isobit::f8e4m3>(reads, writes, shape, line);
  fail("unknown type " + type);
}

void run(const std::string &problem, const std::vector<Argument> &args) {
  std::vector<isobit::Tensor> tensors;
  for (const Argument &a : args) tensors.push_back(a.tensor);
  isobit::Plan(problem).run(tensors);
  for (const Argument &a : args) a.check(problem);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) fail("usage: families CASES");
  std::ifstream file(argv[1]);
  if (!file) fail("cannot open the cases");
  std::string problem, line;
  std::vector<Argument> args;
  int cases = 0;
  const auto finish = [&] {
    if (!problem.empty()) {
      run(problem, args);
      cases++;
    }
    problem.clear();
    args.clear();
  };
  while (std::getline(file, line)) {
    if (line.empty())
      finish();
    else if (line[0] != '#' && problem.empty())
      problem = line;
    else if (line[0] != '#')
      args.push_back(read(line));
  }
  finish();
  std::cout << cases << " cases\n";
}
