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

// An element of a parameter as it lies in memory: to convert it would be to wait for it.
struct Raw {
  u32 bits;

  DEVICE void load(const Tensor &t, i64 i) {
    if (t.dtype == none_) return;
    if (t.dtype == f32_ || t.dtype == i32_)
      bits = ((const u32 *)t.data)[i];
    else if (t.dtype == s8_ || t.dtype == u8_)
      bits = ((const u8 *)t.data)[i];
    else
      bits = ((const u16 *)t.data)[i];
  }
  // Of no tensor, 0.
  DEVICE f32 value(const Tensor &t) const {
    const i32 up = t.dtype == s8_ ? 24 : t.dtype == s16_ || t.dtype == bf16_ ? 16 : 0; // where its first bit belongs
    if (t.dtype == f16_) return half_to_float((u16)bits);
    if (t.dtype <= bf16_) return from_bits(bits << up);
    return (f32)((i32)(bits << up) >> up);
  }
};
