#include "quant.cuh"

// y = (q - z) * s, q = clamp(rint(x / s) + z)
template <i32 KIND> struct FakeQuantize {
  static constexpr bool backward = false;
  template <class T> static DEVICE T run(T x, T, const Param<T> &p) { return (p.template code<KIND>(x) - p.z) * p.s; }
};

// dx = inside ? dy : +0, where the parameters have no gradient
template <i32 KIND> struct FakeQuantizeBackward {
  static constexpr bool backward = true;
  template <class T> static DEVICE T run(T dy, T x, const Param<T> &p) {
    return p.template inside<KIND>(x) ? dy : (T)0;
  }
};

#define FAKE_QUANTIZE(X)                                                                        \
  KERNEL(fake_quantize_##X, MapArgs) { map_kinds<X, X, X, Compute<X>::type, FakeQuantize>(a); } \
  KERNEL(fake_quantize_backward_##X, MapArgs) { map_kinds<X, X, X, Compute<X>::type, FakeQuantizeBackward>(a); }

EACH_FLOAT(FAKE_QUANTIZE)
