// Weights that are stored as codes in groups along their rows.
#pragma once
#include "packed.cuh"
#include "quant.cuh"

// The weight (q - z) * s, rounded, and so is a learned z: that of a column of a row, which has so many.
template <class T, class Args> DEVICE T weight_of(const Args &a, i64 row, i64 columns, i64 column) {
  i64 i = row * columns + column, group = row * a.groups + div_(column, a.group);
  bool packed = a.weight.dtype == s4_ || a.weight.dtype == u4_;
  T q = packed ? (T)packed_code(a.weight, i, columns) : get_any<T>(a.weight, i);
  T z = get_any<T>(a.zero, group);
  if (a.learned) z = round_zero(z, (T)a.lo, (T)a.hi);
  return (q - z) * get_any<T>(a.scale, group);
}
