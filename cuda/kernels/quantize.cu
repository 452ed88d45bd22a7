#include "quant_map.cuh"

// q = clamp(rint(x / s) + z)
template <i32 KIND> struct Quantize {
  static constexpr bool backward = false, divides = true;
  template <class A, class T> static constexpr bool quick = sizeof(T) == 4;
  template <class A, class T> using Params = typename LevelsOf<KIND, T>::type;
  template <class T> static DEVICE T run(T, T u, const Param<T> &p) { return quantized(u, p.z, p.lo, p.hi, KIND); }
  template <class S, class X, i32 V> static DEVICE Words<S, V> quickly(const Params<X, f32> &p, const Words<X, V> &in) {
    if constexpr (KIND) {
      return p.template codes<S>(in);
    } else {
      f32 x[V];
      p.prepare(x, in);
      return p.template codes<S>(x);
    }
  }
};

// dx = inside ? dy / s : +0
template <i32 KIND> struct QuantizeBackward {
  static constexpr bool backward = true, divides = true;
  template <class A, class T> static constexpr bool quick = sizeof(T) == 4;
  template <class A, class T> using Params = Levels<T, 1>;
  template <class T> static DEVICE T run(T dy, T u, const Param<T> &p) { return p.inside(u) ? dy / p.s : (T)0; }
  template <class S, class G, i32 V>
  static DEVICE Words<S, V> quickly(const Levels<f32, 1> &p, const Words<G, V> &grad, const Words<S, V> &in) {
    f32 dy[V], x[V];
    unpack(dy, grad);
    p.prepare(x, in);
#pragma unroll
    for (i32 j = 0; j < V; j++) dy[j] = p.template within<KIND>(x[j]) ? p.divided(dy[j]) : 0;
    return pack_numbers<S>(dy);
  }
};

#define QUANTIZE(X, Q) \
  KERNEL_FIT(quantize_##X##_##Q, MapArgs, 5) { map<X, X, Q, Compute<X>::type, Quantize<Float8<Q>::kind>>(a); }
#define QUANTIZE_BACKWARD(X, G) \
  KERNEL_FIT(quantize_backward_##G##_##X, MapArgs, 4) { map_kinds<G, X, X, Compute<X>::type, QuantizeBackward>(a); }

EACH_CODE_OF(QUANTIZE, f32)
EACH_CODE_OF(QUANTIZE, f64)
EACH_CODE_OF(QUANTIZE, f16)
EACH_CODE_OF(QUANTIZE, bf16)
EACH_FLOAT_OF(QUANTIZE_BACKWARD, f32)
EACH_FLOAT_OF(QUANTIZE_BACKWARD, f64)
EACH_FLOAT_OF(QUANTIZE_BACKWARD, f16)
EACH_FLOAT_OF(QUANTIZE_BACKWARD, bf16)
