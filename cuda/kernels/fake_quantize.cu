#include "quant_map.cuh"

// y = (q - z) * s, q = clamp(rint(x / s) + z)
template <i32 KIND> struct FakeQuantize {
  static constexpr bool backward = false, divides = true;
  template <class T> static constexpr bool quick = sizeof(T) == 4;
  template <class T> using Params = Levels<T, KIND != no_float8>;
  template <class T> static DEVICE T run(T, T u, const Param<T> &p) { return (p.template code<KIND>(u) - p.z) * p.s; }
  template <class S> static DEVICE S quickly(f32, f32 x, const Params<f32> &p) {
    return Narrow<S>::from((KIND ? p.template float8_of<KIND>(x) : p.level(x) - p.shift) * p.s);
  }
};

// dx = inside ? dy : +0, where the parameters have no gradient
template <i32 KIND> struct FakeQuantizeBackward {
  static constexpr bool backward = true, divides = true;
  template <class T> static constexpr bool quick = sizeof(T) == 4;
  template <class T> using Params = Levels<T, 1>;
  template <class T> static DEVICE T run(T dy, T u, const Param<T> &p) {
    return p.template inside<KIND>(u) ? dy : (T)0;
  }
  template <class S> static DEVICE S quickly(f32 dy, f32 x, const Levels<f32, 1> &p) {
    return Narrow<S>::from(p.template within<KIND>(x) ? dy : 0);
  }
};

#define FAKE_QUANTIZE(X)                                                                               \
  KERNEL_FIT(fake_quantize_##X, MapArgs, 4) { map_kinds<X, X, X, Compute<X>::type, FakeQuantize>(a); } \
  KERNEL_FIT(fake_quantize_backward_##X, MapArgs, 4) { map_kinds<X, X, X, Compute<X>::type, FakeQuantizeBackward>(a); }

EACH_FLOAT(FAKE_QUANTIZE)
