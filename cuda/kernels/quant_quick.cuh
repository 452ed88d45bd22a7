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

// A scale with which no step leaves the numbers that f32 has all bits of.
constexpr f32 tiny_scale = 1.0f / (1ll << 60);
DEVICE bool is_usual(f32 s) { return abs_(s) >= tiny_scale && abs_(s) <= 1 / tiny_scale; }

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
    quick = abs_(z) <= 1 << 20 && is_usual(s);
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
  // The values of codes; true if they are pack_usual's.
  template <i32 V> DEVICE bool values(f32 (&v)[V], const Words<Q, V> &codes) const {
    const i32 each = Words<Q, V>::each;
    const u32 bias = code_bias<Q> * (each == 4 ? 0x01010101u : 0x00010001u);
#pragma unroll
    for (i32 j = 0; j < V; j++) v[j] = value(codes.w.v[j / each] ^ bias, j % each);
    return true;
  }
};

template <i32 V> DEVICE bool may_have_nan(const f32 (&x)[V]) {
  f32 sum = x[0];
#pragma unroll
  for (i32 j = 1; j < V; j++) sum += x[j];
  return sum != sum;
}

// 8-bit floats by way of f16: it begins as f8e5m2 does, and f8e4m3 with a bit between
// sign and exponent, when the value is this part of it.
template <i32 KIND> constexpr f32 float8_part = KIND == e4m3 ? 1.0f / 256 : 1;
template <class Q> struct Values<Q, f32, float8_values> : Param<f32> {
  static constexpr i32 kind = Float8<Q>::kind;
  f32 whole;
  bool quick;

  DEVICE void load_at(const Quant &q, i64 scale, i64 zero) {
    Param<f32>::load_at(q, scale, zero);
    whole = s / float8_part<kind>;
    quick = z == 0 && is_usual(s);
  }
  DEVICE Values lent(u32 lane) const {
    Values p = *this;
    p.s = __shfl_sync(0xffffffff, s, lane);
    p.z = __shfl_sync(0xffffffff, z, lane);
    p.whole = p.s / float8_part<kind>;
    return p;
  }
  template <i32 V> DEVICE bool values(f32 (&v)[V], const Words<Q, V> &codes) const {
    const u32 beyond = kind == e4m3 ? 0x01010101 : 0x04040404; // carries from infinities and NaNs
    u32 special = 0;
#pragma unroll
    for (i32 j = 0; j < V; j += 2) {
      u32 w = codes.w.v[j / 4], two = __byte_perm(w, 0, j % 4 ? 0x3424 : 0x1404);
      if (kind == e4m3) two = (two & 0x80008000) | (two >> 1 & 0x3f803f80);
      special |= (w & 0x7f7f7f7f) + beyond;
      v[j] = half_to_float((u16)two) * whole;
      v[j + 1] = half_to_float((u16)(two >> 16)) * whole;
    }
    if ((special & 0x80808080) == 0) return true;
#pragma unroll
    for (i32 j = 0; kind == e4m3 && j < V; j++) {
      if ((codes.bits(j) & 0x7f) == 0x7f) v[j] = from_bits(0x7fc00000u);
    }
    return false;
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
  static constexpr f32 tiny = tiny_scale, large = 1 << 20;
  f32 inverse, step, least, most;
  bool quick;

  DEVICE void load_at(const Quant &q, i64 scale, i64 zero) {
    Param<f32>::load_at(q, scale, zero);
    inverse = 1 / s;
    step = q.reciprocal ? 0 : inverse;
    bound();
    quick = s >= tiny && s <= 1 / tiny && abs_(z) <= large && lo >= -large && hi <= large;
    if (float8) quick = quick && lo < 0 && hi > 0; // a denormal quotient may round to 0
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
      return pack_usual<S>(x);
    else
      return pack_words<S>(w);
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

// Parameters that make codes of KIND; bounds are themselves 8-bit floats (rounded, as the
// plan has them), so that a number just beyond one rounds to it.
template <i32 KIND, class T> struct Float8Levels : Param<T> {
  static constexpr bool quick = false;
};
template <i32 KIND> struct Float8Levels<KIND, f32> : Param<f32> {
  f32 whole, inverse, step, most; // of x / (s / float8_part)
  bool quick;

  DEVICE void load_at(const Quant &q, i64 scale, i64 zero) {
    Param<f32>::load_at(q, scale, zero);
    inverse = float8_part<KIND> / s;
    derive(q.reciprocal);
    quick = s > 0 && is_usual(s) && hi > 0 && lo == -hi;
  }
  DEVICE void derive(bool reciprocal) {
    whole = s / float8_part<KIND>;
    step = reciprocal ? 0 : inverse;
    most = hi * s;
  }
  DEVICE Float8Levels lent(u32 lane) const {
    Float8Levels p = *this;
    p.s = __shfl_sync(0xffffffff, s, lane);
    p.inverse = __shfl_sync(0xffffffff, inverse, lane);
    p.derive(step == 0);
    return p;
  }
  // The part of round_float8(|x / s|), clamped. The quotient, as Levels has it, times a
  // power of two and 1 ends where the result does: what is left beside it is rounded
  // there, ties to even. Small numbers are rounded alike.
  DEVICE f32 size(f32 x) const {
    const i32 drop = 23 - float8_mantissa(KIND);
    const f32 least = 1.5f * float8_part<KIND> * power_of_two(float8_least(KIND) + drop, x);
    f32 v = fminf(abs_(x), most), u = v * inverse;
    u = fma_(fma_(-whole, u, v), step, u);
    f32 far = fmaxf(u * ((1 << drop) + 1), least);
    return far - (far - u);
  }
  template <class S, class X, i32 V> DEVICE Words<S, V> codes(const Words<X, V> &in) const {
    f32 x[V];
    Words<S, V> out;
    unpack(x, in);
#pragma unroll
    for (i32 j = 0; j < V; j += 4) {
      const i32 up = KIND == e4m3;
      u32 a = two_halves(size(x[j]), size(x[j + 1])) << up, b = two_halves(size(x[j + 2]), size(x[j + 3])) << up;
      out.w.v[j / 4] = __byte_perm(a, b, 0x7531) | (first_bytes(in, j) & 0x80808080);
    }
    if (may_have_nan(x)) {
#pragma unroll
      for (i32 j = 0; j < V; j++) {
        const u32 byte = 0xffu << 8 * (j % 4), nan = 0x01010101 * (KIND == e4m3 ? 0x7f : 0x7e);
        if (x[j] != x[j]) out.w.v[j / 4] = (out.w.v[j / 4] & ~byte) | (nan & byte);
      }
    }
    return out;
  }
  // The values of these codes.
  template <class S, i32 V> DEVICE Words<S, V> rounded(const Words<S, V> &in) const {
    f32 x[V];
    unpack(x, in);
    const bool nan = may_have_nan(x);
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      f32 v = from_bits(bits_of(size(x[j]) * whole) | (bits_of(x[j]) & 1u << 31));
      x[j] = nan && x[j] != x[j] ? x[j] : v;
    }
    return pack_usual<S>(x);
  }
};

template <i32 KIND, class T> struct LevelsOf {
  typedef Float8Levels<KIND, T> type;
};
template <class T> struct LevelsOf<no_float8, T> {
  typedef Levels<T> type;
};
