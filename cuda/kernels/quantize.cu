#include "quant.cuh"

// q = clamp(rint(x / s) + z)
template <i32 KIND> struct Quantize {
  static constexpr bool backward = false, divides = true;
  template <class T> static DEVICE T run(T, T u, const Param<T> &p) { return p.template code<KIND>(u); }
};

// dx = inside ? dy / s : +0
template <i32 KIND> struct QuantizeBackward {
  static constexpr bool backward = true, divides = true;
  template <class T> static DEVICE T run(T dy, T u, const Param<T> &p) {
    return p.template inside<KIND>(u) ? dy / p.s : (T)0;
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
