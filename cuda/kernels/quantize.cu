#include "quant_map.cuh"

// q = clamp(rint(x / s) + z)
template <i32 KIND> struct Quantize {
  static constexpr bool backward = false, divides = true;
  template <class T> static constexpr bool quick = sizeof(T) == 4;
  template <class T> using Params = Levels<T, KIND != no_float8>;
  template <class T> static DEVICE T run(T, T u, const Param<T> &p) { return p.template code<KIND>(u); }
  template <class S> static DEVICE S quickly(f32, f32 x, const Params<f32> &p) {
    if constexpr (KIND)
      return {p.template float8_bits<KIND>(p.template float8_of<KIND>(x))};
    else
      return p.template code_of<S>(p.level(x) + p.z);
  }
};

// dx = inside ? dy / s : +0
template <i32 KIND> struct QuantizeBackward {
  static constexpr bool backward = true, divides = true;
  template <class T> static constexpr bool quick = sizeof(T) == 4;
  template <class T> using Params = Levels<T, 1>;
  template <class T> static DEVICE T run(T dy, T u, const Param<T> &p) {
    return p.template inside<KIND>(u) ? dy / p.s : (T)0;
  }
  template <class S> static DEVICE S quickly(f32 dy, f32 x, const Levels<f32, 1> &p) {
    return Narrow<S>::from(p.template within<KIND>(x) ? p.divided(dy) : 0);
  }
};

#define QUANTIZE(X, Q) \
  KERNEL_FIT(quantize_##X##_##Q, MapArgs, 4) { map<X, X, Q, Compute<X>::type, Quantize<Float8<Q>::kind>>(a); }
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
