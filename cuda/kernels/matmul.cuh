// What the kernels of matmul share (NUMERICS.md, section 8).
#pragma once
#include "dtypes.cuh"

// One factor: a batch of matrices whose elements lie anyhow. A line is a row
// of input or a column of other; k counts along it.
struct Factor {
  const void *data;
  i64 lines, batch, line, k; // lines of one matrix; strides in elements
};

struct MatmulArgs {
  i64 batch, m, n, k;
  Factor input, other; // [batch, m, k], [batch, k, n]
  void *y; // [batch, m, n]
  i64 y_batch, y_row, y_column; // strides in elements
  Tensor bias; // [n]
  i32 has_bias;
  i32 input_across, other_across; // for tiles: neighbours in memory belong to neighbouring lines, not to neighbouring k
  i32 pad;
};

// The bias of a column, or -0, which changes no sum.
template <class T> DEVICE T bias_of(const MatmulArgs &a, i64 n) {
  return a.has_bias ? get_float<T>(a.bias.data, a.bias.dtype, offset_of(a.bias, n)) : -(T)0;
}
