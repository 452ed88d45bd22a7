// What the tests of isobit.hpp share.
#ifndef ISOBIT_TESTS_TESTING_HPP_
#define ISOBIT_TESTS_TESTING_HPP_

#include <isobit.hpp>

#include <cstdlib>
#include <iostream>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " << #condition << "\n"; \
      std::exit(1);                                                           \
    }                                                                         \
  } while (0)

inline const char *const quantize = "quantize_per_channel x=f32[2,3] zero_point=none q=s8 axis=0 qmin=-128 qmax=127";

// The status of what f throws; its text must have the word in it.
template <class F> isobit_status thrown(const char *word, F f) {
  try {
    f();
  } catch (const isobit::Error &e) {
    if (std::string(e.what()).find(word) == std::string::npos)
      std::cerr << "\"" << word << "\" is not in: " << e.what() << "\n";
    CHECK(std::string(e.what()).find(word) != std::string::npos);
    return e.status();
  }
  return ISOBIT_OK;
}

#endif
