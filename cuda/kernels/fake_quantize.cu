#include "quant.cuh"

// y = (q - z) * s, q = clamp(rint(x / s) + z)
template <i32 KIND> struct FakeQuantize {
  static constexpr bool backward = false, divides = true;
  template <class T> static DEVICE T run(T, T u, const Param<T> &p) { return (p.template code<KIND>(u) - p.z) * p.s; }
};

// dx = inside ? dy : +0, where the parameters have no gradient
template <i32 KIND> struct FakeQuantizeBackward {
  static constexpr bool backward = true, divides = true;
  template <class T> static DEVICE T run(T dy, T u, const Param<T> &p) {
    return p.template inside<KIND>(u) ? dy : (T)0;
  }
};

#define FAKE_QUANTIZE(X)                                                                               \
  KERNEL_FIT(fake_quantize_##X, MapArgs, 4) { map_kinds<X, X, X, Compute<X>::type, FakeQuantize>(a); } \
  KERNEL_FIT(fake_quantize_backward_##X, MapArgs, 4) { map_kinds<X, X, X, Compute<X>::type, FakeQuantizeBackward>(a); }

EACH_FLOAT(FAKE_QUANTIZE)
