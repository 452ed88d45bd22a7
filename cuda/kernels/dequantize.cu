#include "quant_map.cuh"

// y = (q - z) * s
struct Dequantize {
  static constexpr bool backward = false, divides = false;
  template <class A, class T> static constexpr bool quick = values_of<A, T> != any_values;
  template <class A, class T> using Params = Values<A, T>;
  template <class H, class T> static DEVICE T run(H q, T, const Param<T> &p) { return (T)(q - (H)p.z) * p.s; }
  template <class S, class A, i32 V> static DEVICE Words<S, V> quickly(const Values<A, f32> &p, const Words<A, V> &q) {
    f32 y[V];
    return p.values(y, q) ? pack_usual<S>(y) : pack_numbers<S>(y);
  }
};

// dq = dy * s, where the parameters have no gradient
struct DequantizeBackward {
  static constexpr bool backward = false, divides = false;
  template <class A, class T> static constexpr bool quick = false;
  template <class A, class T> using Params = Plain<T>;
  template <class T> static DEVICE T run(T dy, T, const Param<T> &p) { return dy * p.s; }
};

#define DEQUANTIZE(Y, Q) \
  KERNEL_FIT(dequantize_##Q##_##Y, MapArgs, 6) { map<Q, Y, Y, Compute<Y>::type, Dequantize>(a); }
#define DEQUANTIZE_BACKWARD(Y) \
  KERNEL_FIT(dequantize_backward_##Y, MapArgs, 4) { map<Y, Y, Y, Compute<Y>::type, DequantizeBackward>(a); }

EACH_CODE_OF(DEQUANTIZE, f32)
EACH_CODE_OF(DEQUANTIZE, f64)
EACH_CODE_OF(DEQUANTIZE, f16)
EACH_CODE_OF(DEQUANTIZE, bf16)
EACH_FLOAT(DEQUANTIZE_BACKWARD)
