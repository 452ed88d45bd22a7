#include "quant.cuh"

// q = clamp(rint(x / s) + z)
struct Quantize {
  static constexpr bool backward = false;
  template <class T> static DEVICE T run(T x, T, const Param<T> &p) { return p.code(x); }
};

// dx = inside ? dy / s : +0
struct QuantizeBackward {
  static constexpr bool backward = true;
  template <class T> static DEVICE T run(T dy, T x, const Param<T> &p) { return p.inside(x) ? dy / p.s : (T)0; }
};

#define QUANTIZE(X, Q) \
  KERNEL(quantize_##X##_##Q, MapArgs) { map<X, X, Q, Compute<X>::type, Quantize>(a); }
#define QUANTIZE_BACKWARD(X, G) \
  KERNEL(quantize_backward_##G##_##X, MapArgs) { map<G, X, X, Compute<X>::type, QuantizeBackward>(a); }

EACH_CODE_OF(QUANTIZE, f32)
EACH_CODE_OF(QUANTIZE, f64)
EACH_CODE_OF(QUANTIZE, f16)
EACH_CODE_OF(QUANTIZE, bf16)
EACH_FLOAT_OF(QUANTIZE_BACKWARD, f32)
EACH_FLOAT_OF(QUANTIZE_BACKWARD, f64)
EACH_FLOAT_OF(QUANTIZE_BACKWARD, f16)
EACH_FLOAT_OF(QUANTIZE_BACKWARD, bf16)
