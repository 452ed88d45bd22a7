// Reads a safetensors file: eight bytes with the size of a JSON header, the
// header, the tensors. For little-endian machines, as isobit's C library is.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

class SafeTensors {
public:
  explicit SafeTensors(const std::string &path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail("cannot be opened");
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    uint64_t size = 0;
    if (bytes_.size() < sizeof size) fail("is too short");
    std::memcpy(&size, bytes_.data(), sizeof size);
    if (size > bytes_.size() - sizeof size) fail("is shorter than its header");
    at_ = sizeof size;
    start_ = end_ = at_ + size;
    object([this](const std::string &name) { entry(name); });
  }

  // The elements of a tensor. dtype as in the file: F32, I8, U8, I64.
  template <class T> std::vector<T> get(const std::string &name, const char *dtype) const {
    const Entry &e = find(name);
    if (e.dtype != dtype) fail(name + " is " + e.dtype + ", not " + dtype);
    uint64_t count = 1;
    bool fits = true;
    for (const int64_t extent : e.shape) fits = !__builtin_mul_overflow(count, extent, &count) && fits;
    if (!fits || e.begin > e.end || e.end > bytes_.size() - start_ || (e.end - e.begin) % sizeof(T) != 0 ||
        (e.end - e.begin) / sizeof(T) != count)
      fail(name + " has offsets that do not fit its shape");
    std::vector<T> values(count);
    if (!values.empty()) std::memcpy(values.data(), &bytes_[start_ + e.begin], values.size() * sizeof(T));
    return values;
  }

  std::vector<int64_t> shape(const std::string &name) const { return find(name).shape; }

private:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0;
  };

  [[noreturn]] void fail(const std::string &what) const { throw std::runtime_error(path_ + ": " + what); }

  const Entry &find(const std::string &name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) fail("has no tensor " + name);
    return found->second;
  }

  // The header's part of JSON: objects, strings, whole numbers and lists of them.
  void entry(const std::string &name) {
    if (name == "__metadata__") return object([this](const std::string &) { string(); });
    Entry &e = entries_[name];
    object([&](const std::string &key) {
      if (key == "dtype") {
        e.dtype = string();
      } else if (key == "shape") {
        e.shape = numbers();
      } else if (key == "data_offsets") {
        const auto offsets = numbers();
        if (offsets.size() != 2) fail(name + " has no two offsets");
        e.begin = static_cast<uint64_t>(offsets[0]);
        e.end = static_cast<uint64_t>(offsets[1]);
      } else {
        fail("has an unknown key " + key);
      }
    });
  }

  char peek() {
    while (at_ < end_ && std::strchr(" \t\r\n", bytes_[at_])) at_++;
    return at_ < end_ ? bytes_[at_] : '\0';
  }

  void expect(char c) {
    if (peek() != c) fail("has a header that this program cannot read");
    at_++;
  }

  // Calls member(key) for each member, which reads the value.
  template <class Member> void object(Member member) {
    list('{', '}', [&] {
      const std::string key = string();
      expect(':');
      member(key);
    });
  }

  template <class Item> void list(char open, char close, Item item) {
    expect(open);
    for (bool first = true; peek() != close; first = false) {
      if (!first) expect(',');
      item();
    }
    expect(close);
  }

  std::string string() {
    std::string s;
    for (expect('"'); at_ < end_ && bytes_[at_] != '"'; at_++) {
      if (bytes_[at_] == '\\') fail("has an escaped character in its header");
      s += bytes_[at_];
    }
    expect('"');
    return s;
  }

  std::vector<int64_t> numbers() {
    std::vector<int64_t> result;
    list('[', ']', [&] {
      peek();
      int64_t n = 0;
      size_t digits = 0;
      for (; digits < 18 && at_ < end_ && bytes_[at_] >= '0' && bytes_[at_] <= '9'; digits++)
        n = n * 10 + (bytes_[at_++] - '0');
      if (digits == 0) fail("has a header that this program cannot read");
      result.push_back(n);
    });
    return result;
  }

  std::string path_;
  std::vector<char> bytes_;
  std::map<std::string, Entry> entries_;
  size_t at_ = 0, start_ = 0, end_ = 0;
};
