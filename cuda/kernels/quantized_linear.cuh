// What the kernels of quantized_linear share (NUMERICS.md, section 7).
#pragma once
#include "dtypes.cuh"

struct LinearArgs {
  i64 m, n, k;
  Tensor x, x_scale, weight, weight_scale, bias, y; // x [m, k], weight [n, k]
  i64 x_pitch, weight_pitch; // bytes between rows, where packed
  i32 packed, has_bias; // packed: four codes can be loaded at once
};

const i32 linear_threads = 256;

// y = float(acc) * (sa * sw) + bias.
template <class S, class T> DEVICE S linear_value(const LinearArgs &a, T acc, T x_scale, T weight_scale, T bias) {
  T y = acc * (x_scale * weight_scale);
  if (a.has_bias) y += bias;
  return Narrow<S>::from(y);
}
