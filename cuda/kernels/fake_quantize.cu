#include "quant_map.cuh"

// y = (q - z) * s, q = clamp(rint(x / s) + z)
template <i32 KIND> struct FakeQuantize {
  static constexpr bool backward = false, divides = true;
  template <class A, class T> static constexpr bool quick = sizeof(T) == 4;
  template <class A, class T> using Params = typename LevelsOf<KIND, T>::type;
  template <class T> static DEVICE T run(T, T u, const Param<T> &p) { return (p.code(u) - p.z) * p.s; }
  template <class S, i32 V> static DEVICE Words<S, V> quickly(const Params<S, f32> &p, const Words<S, V> &in) {
    if constexpr (KIND) {
      return p.rounded(in);
    } else {
      f32 x[V];
      p.prepare(x, in);
#pragma unroll
      for (i32 j = 0; j < V; j++) x[j] = (p.level(x[j]) - p.shift) * p.s;
      return pack_usual<S>(x);
    }
  }
};

// dx = inside ? dy : +0, where the parameters have no gradient
template <i32 KIND> struct FakeQuantizeBackward {
  static constexpr bool backward = true, divides = true;
  template <class A, class T> static constexpr bool quick = sizeof(T) == 4;
  template <class A, class T> using Params = Levels<T, 1>;
  template <class T> static DEVICE T run(T dy, T u, const Param<T> &p) { return p.inside(u) ? dy : (T)0; }
  template <class S, i32 V>
  static DEVICE Words<S, V> quickly(const Levels<f32, 1> &p, const Words<S, V> &dy, const Words<S, V> &in) {
    f32 x[V];
    u32 out[V];
    p.prepare(x, in);
#pragma unroll
    for (i32 j = 0; j < V; j++) out[j] = p.template within<KIND>(x[j]) ? dy.bits(j) : 0;
    return pack_words<S>(out);
  }
};

#define FAKE_QUANTIZE(X)                                                                               \
  KERNEL_FIT(fake_quantize_##X, MapArgs, 5) { map_kinds<X, X, X, Compute<X>::type, FakeQuantize>(a); } \
  KERNEL_FIT(fake_quantize_backward_##X, MapArgs, 4) { map_kinds<X, X, X, Compute<X>::type, FakeQuantizeBackward>(a); }

EACH_FLOAT(FAKE_QUANTIZE)
