// The quantize family without divisions, conversions and rounding instructions, for
// parameters of usual sizes: the same bits, several times as fast.
#pragma once
#include "quant.cuh"
#include "words.cuh"

template <class S> constexpr bool is_float = false;
template <> constexpr bool is_float<f32> = true;
template <> constexpr bool is_float<f64> = true;
template <> constexpr bool is_float<f16> = true;
template <> constexpr bool is_float<bf16> = true;

// Parameters of ops that are quick anyway.
template <class T> struct Plain : Param<T> {
  static constexpr bool quick = true;
};

// What makes codes of a short type numbers from 0 on, or -1 for other types.
template <class Q> constexpr i32 code_bias = -1;
template <> constexpr i32 code_bias<s8> = 128;
template <> constexpr i32 code_bias<u8> = 0;
template <> constexpr i32 code_bias<s16> = 32768;
template <> constexpr i32 code_bias<u16> = 0;

// Parameters that make values of codes Q, of short ones without converting them: from
// 2^23 on the last bits of an f32 are a whole number.
enum { any_values, whole_values, float8_values };
template <class Q, class T>
constexpr i32 values_of = sizeof(T) > 4       ? any_values
                          : Float8<Q>::kind   ? float8_values
                          : code_bias<Q> >= 0 ? whole_values
                                              : any_values;

template <class Q, class T, i32 = values_of<Q, T>> struct Values : Plain<T> {};
template <class Q> struct Values<Q, f32, whole_values> : Param<f32> {
  static constexpr f32 unit = 1 << 23;
  f32 base;
  bool quick;

  DEVICE void load_at(const Quant &q, i64 scale, i64 zero) {
    Param<f32>::load_at(q, scale, zero);
    base = unit + code_bias<Q> + z;
    quick = abs_(z) <= 1 << 20 && s - s == 0;
  }
  DEVICE Values lent(u32 lane) const {
    Values p = *this;
    p.s = __shfl_sync(0xffffffff, s, lane);
    p.z = __shfl_sync(0xffffffff, z, lane);
    p.base = unit + code_bias<Q> + p.z;
    return p;
  }
  // The value of code j in a word of them, less so much.
  DEVICE f32 value(u32 word, i32 j, f32 less = 0) const {
    u32 select = sizeof(Q) == 1 ? 0x7440 + j : j ? 0x7432 : 0x7410;
    return (from_bits(__byte_perm(word, bits_of(unit), select)) - (base + less)) * s;
  }
  template <i32 V> DEVICE void values(f32 (&v)[V], const Words<Q, V> &codes) const {
    const i32 each = Words<Q, V>::each;
    const u32 bias = code_bias<Q> * (each == 4 ? 0x01010101u : 0x00010001u);
#pragma unroll
    for (i32 j = 0; j < V; j++) v[j] = value(codes.w.v[j / each] ^ bias, j % each);
  }
};

template <i32 V> DEVICE bool may_have_nan(const f32 (&x)[V]) {
  f32 sum = x[0];
#pragma unroll
  for (i32 j = 1; j < V; j++) sum += x[j];
  return sum != sum;
}

// 8-bit floats: the bits of one are the first ones of an f32 that is so many times as small.
template <class Q> struct Values<Q, f32, float8_values> : Param<f32> {
  static constexpr i32 kind = Float8<Q>::kind;
  f32 scaled;
  bool quick;

  DEVICE void load_at(const Quant &q, i64 scale, i64 zero) {
    Param<f32>::load_at(q, scale, zero);
    scaled = s * power_of_two(126 + float8_least(kind), s);
    quick = z == 0 && abs_(s) <= 64 && s != 0;
  }
  DEVICE Values lent(u32 lane) const {
    Values p = *this;
    p.s = __shfl_sync(0xffffffff, s, lane);
    p.z = __shfl_sync(0xffffffff, z, lane);
    p.scaled = __shfl_sync(0xffffffff, scaled, lane);
    return p;
  }
  template <i32 V> DEVICE void values(f32 (&v)[V], const Words<Q, V> &codes) const {
    const u32 beyond = kind == e4m3 ? 0x01010101 : 0x04040404; // carries from infinities and NaNs
    u32 special = 0;
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      u32 w = codes.w.v[j / 4], top = w << (24 - 8 * (j % 4));
      special |= (w & 0x7f7f7f7f) + beyond;
      v[j] = from_bits((top & 0x7f000000) >> (1 + float8_mantissa(kind)) | (top & 1u << 31)) * scaled;
    }
    if ((special & 0x80808080) == 0) return;
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      u32 b = codes.bits(j) & 0x7f;
      if (kind == e5m2 && b == 0x7c) v[j] = v[j] < 0 ? -from_bits(0x7f800000u) : from_bits(0x7f800000u);
      if (b > (kind == e4m3 ? 0x7e : 0x7c)) v[j] = from_bits(0x7fc00000u);
    }
  }
};

// Parameters that make whole steps of x / s.
template <class T, i32 MARGIN = 0> struct Levels : Param<T> {
  static constexpr bool quick = false;
};

// In f32 where quick: x / s by a product with 1 / s, whose error of less than 2 units in
// the last place one fused step corrects, for every pair of significands (TestQuotientStep).
// x is clamped to MARGIN codes beyond those from lo to hi, which keeps all of it in range.
// A NaN becomes 0, or with a MARGIN the least, which is outside.
template <i32 MARGIN> struct Levels<f32, MARGIN> : Param<f32> {
  static constexpr f32 shift = 12582912; // 1.5 * 2^23: numbers near it are whole
  static constexpr f32 tiny = 1.0f / (1ll << 60), large = 1 << 20;
  f32 inverse, step, least, most;
  bool quick;

  DEVICE void load_at(const Quant &q, i64 scale, i64 zero) {
    Param<f32>::load_at(q, scale, zero);
    inverse = 1 / s;
    step = q.reciprocal ? 0 : inverse;
    bound();
    quick = s >= tiny && s <= 1 / tiny && abs_(z) <= large && lo >= -large && hi <= large;
    if (float8) quick = quick && lo < 0 && hi > 0; // no bound takes a zero's sign
  }
  DEVICE void bound() {
    least = (lo - z - MARGIN) * s;
    most = (hi - z + MARGIN) * s;
  }
  // The parameters that another lane of the warp has.
  DEVICE Levels lent(u32 lane) const {
    Levels p = *this;
    p.s = __shfl_sync(0xffffffff, s, lane);
    p.z = __shfl_sync(0xffffffff, z, lane);
    p.inverse = __shfl_sync(0xffffffff, inverse, lane);
    p.step = step == 0 ? 0 : p.inverse;
    p.bound();
    return p;
  }
  // Unpacks numbers and, without a MARGIN, makes NaNs 0.
  template <class X, i32 V> DEVICE void prepare(f32 (&x)[V], const Words<X, V> &in) const {
    unpack(x, in);
    if (MARGIN || !may_have_nan(x)) return;
#pragma unroll
    for (i32 j = 0; j < V; j++) x[j] = x[j] == x[j] ? x[j] : 0;
  }
  // Near 0 only as exact as rounding it to a code asks; -0 may be +0.
  DEVICE f32 quotient(f32 x) const {
    x = fminf(fmaxf(x, least), most);
    f32 u = x * inverse;
    return fma_(fma_(-s, u, x), step, u);
  }
  // rint(x / s) + shift
  DEVICE f32 level(f32 x) const { return quotient(x) + shift; }
  template <i32 KIND> DEVICE bool within(f32 x) const {
    f32 u = quotient(x);
    return KIND ? u >= lo && u <= hi : u + shift >= lo - z + shift && u + shift <= hi - z + shift;
  }
  template <class S, i32 V> DEVICE Words<S, V> codes(f32 (&x)[V]) const {
    u32 w[V];
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      x[j] = level(x[j]) + z;
      w[j] = bits_of(x[j]) - (sizeof(S) == 4 ? bits_of(shift) : 0); // of which the last bits are 0
      x[j] -= shift;
    }
    if constexpr (is_float<S>)
      return pack_numbers<S>(x);
    else
      return pack_words<S>(w);
  }
  // The size of round_float8 of the clamped x / s, by a sum whose last bit is the code's.
  template <i32 KIND> DEVICE f32 float8_size(f32 x) const {
    const u32 normal = (u32)(float8_least(KIND) + 127) << 23;
    f32 u = fminf(fmaxf(quotient(x), lo), hi);
    u32 exponent = bits_of(u) & 0x7f800000;
    f32 sum = from_bits((exponent > normal ? exponent : normal) + ((u32)(23 - float8_mantissa(KIND)) << 23));
    return abs_(u) + sum - sum;
  }
  template <i32 KIND, class S, i32 V> DEVICE Words<S, V> float8_codes(const f32 (&x)[V]) const {
    u32 w[V];
#pragma unroll
    for (i32 j = 0; j < V; j++) { // the bits of a size, scaled, begin as those of an f32 do
      u32 b = bits_of(float8_size<KIND>(x[j]) * power_of_two(-126 - float8_least(KIND), s));
      w[j] = b >> (23 - float8_mantissa(KIND)) | (bits_of(x[j]) >> 24 & 0x80);
    }
    if (may_have_nan(x)) {
#pragma unroll
      for (i32 j = 0; j < V; j++) w[j] = x[j] == x[j] ? w[j] : KIND == e4m3 ? 0x7f : 0x7e;
    }
    return pack_words<S>(w);
  }
  template <i32 KIND, i32 V> DEVICE void float8_rounded(f32 (&x)[V]) const {
    const bool nan = may_have_nan(x);
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      f32 v = from_bits(bits_of(float8_size<KIND>(x[j])) | (bits_of(x[j]) & 1u << 31)) * s;
      x[j] = nan && x[j] != x[j] ? x[j] : v;
    }
  }
  // v / s of any v.
  DEVICE f32 divided(f32 v) const {
    f32 size = abs_(v);
    if (!(size <= 1 / tiny && (size >= tiny || size == 0))) return v / s;
    f32 u = v * inverse;
    u = fma_(fma_(-s, u, v), inverse, u);
    return from_bits(bits_of(u) | (bits_of(v) & 1u << 31)); // of a zero, too
  }
};
