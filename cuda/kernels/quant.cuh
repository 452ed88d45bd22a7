// What the quantize family shares: which parameter belongs to an element, and
// the rules of NUMERICS.md, section 3.
#pragma once
#include "dtypes.cuh"

// A divisor of numbers below 2^31: n / by is n * multiplier >> shift.
struct Ratio {
  u32 by, multiplier, shift;
  DEVICE u32 of(u32 n) const { return (u32)((u64)n * multiplier >> shift); }
};

// The elements of a problem and the parameters that they belong to.
//
// With dims == 0 the elements are rows of inner elements; row r belongs to
// parameters (r % rows) * groups + column / group. That is every granularity
// but some blocks in several dimensions: per tensor (1 row of 1 group), per
// channel (1 row of a group for each channel), per token or group likewise.
// Otherwise element (i0, i1, ...) of extent belongs to parameter
// (i0 / block[0], i1 / block[1], ...) of count.
struct Quant {
  i64 n, params;
  i64 inner, rows, groups, group;
  i64 extent[max_rank], block[max_rank], count[max_rank];
  i32 dims, reciprocal, float8, pad; // float8: which 8-bit float codes are, or 0
  f64 lo, hi; // quant_min, quant_max
  Tensor scale, zero;
};

// rint, clamp and their neighbours, as in the definitions.
template <class T> DEVICE T clamp_(T v, T lo, T hi) { return v < lo ? lo : v > hi ? hi : v; }

// The zero point that a learned one stands for; never -0.
template <class T> DEVICE T round_zero(T z, T lo, T hi) {
  if (z != z) z = 0;
  return clamp_(rint_(z), lo, hi) + (T)0;
}

template <class T> DEVICE T quantized(T u, T z, T lo, T hi, i32 float8) {
  if (float8) return round_float8(clamp_(u, lo, hi), float8);
  if (u != u) return clamp_(z, lo, hi);
  return clamp_(rint_(u) + z, lo, hi);
}

// The parameters of one element, in the compute type.
template <class T> struct Param {
  T s, z, lo, hi;
  i32 float8;

  DEVICE void load(const Quant &q, i64 c) { load_at(q, offset_of(q.scale, c), offset_of(q.zero, c)); }
  DEVICE void load_at(const Quant &q, i64 scale, i64 zero) {
    lo = (T)q.lo;
    hi = (T)q.hi;
    float8 = q.float8;
    z = 0;
    if (q.scale.dtype == f32_ && (q.zero.dtype == i32_ || q.zero.dtype == none_)) { // what most have
      s = (T)((const f32 *)q.scale.data)[scale];
      if (q.zero.dtype == i32_) z = (T)((const i32 *)q.zero.data)[zero];
      return;
    }
#pragma unroll 1
    for (i32 k = 0; k < 2; k++) { // code for one
      s = z;
      z = get_as<T>(k ? q.zero.data : q.scale.data, k ? q.zero.dtype : q.scale.dtype, k ? zero : scale);
    }
    if (q.zero.dtype >= f32_ && q.zero.dtype <= bf16_) z = round_zero(z, lo, hi);
  }
  DEVICE T divide(bool reciprocal, T x) const { return reciprocal ? x * ((T)1 / s) : x / s; }
  DEVICE T code(T u) const { return quantized(u, z, lo, hi, float8); }
  DEVICE bool inside(T u) const {
    T t = place(u, float8);
    return t >= lo && t <= hi;
  }
  // Where u = x / s falls among the codes: to be compared with lo and hi.
  DEVICE T place(T u, i32 kind) const { return kind ? u : rint_(u) + z; }
};

// The parameter that an element belongs to, where dims == 0.
DEVICE i64 row_param(const Quant &q, i64 i) {
  if (q.params == 1) return 0;
  i64 row = i < q.inner ? 0 : div_(i, q.inner), column = i - row * q.inner;
  if (q.rows == 1)
    row = 0;
  else if (row >= q.rows)
    row -= div_(row, q.rows) * q.rows;
  return row * q.groups + (q.groups > 1 ? div_(column, q.group) : 0);
}

// The same of any.
DEVICE i64 param_of(const Quant &q, i64 i) {
  if (q.dims == 0) return row_param(q, i);
  i64 c = 0, pitch = 1;
#pragma unroll 1
  for (i32 d = q.dims - 1; d >= 0; d--) {
    i64 next = div_(i, q.extent[d]);
    c += div_(i - next * q.extent[d], q.block[d]) * pitch;
    pitch *= q.count[d];
    i = next;
  }
  return c;
}
