// Ops that map every element of a quantize problem on its own.
#pragma once
#include "quant.cuh"
#include "words.cuh"

// How many elements move at once: 16 bytes of the widest type, so that
// neighbouring threads' accesses, vectors, are neighbours in memory.
template <class A, class B, class S> struct PackSize {
  static constexpr i32 wide = sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B);
  static constexpr i32 value = 16 / (wide > sizeof(S) ? wide : sizeof(S));
};

// A divisor of numbers below 2^31: n / by is n * multiplier >> shift.
struct Ratio {
  u32 by, multiplier, shift;
  DEVICE u32 of(u32 n) const { return (u32)((u64)n * multiplier >> shift); }
};

// How packs of elements are shared out that come in runs of one parameter. A warp does a
// tile at a time: up to tile_packs packs of a long run, or several short runs side by side.
// Each run has 1 << log_lanes of its lanes.
struct Tiles {
  i64 packs, run, row; // packs: of all, of a run, of a row of q.groups runs, the last of which may be shorter
  u32 tiles, runs;
  i32 log_lanes, scale_step, zero_step; // steps: elements from a parameter to the next
  Ratio pieces, params, groups; // tiles of a run; parameters; runs of a row
};
const i32 log_warp = 5, warp = 1 << log_warp, tile_each = 4, tile_packs = warp * tile_each;

// Calls quickly(parameters, load(first, i), first, i) for every pack first + i, or run where
// the parameters, a P, are not quick. A thread loads EACH packs before it uses any.
template <class P, i32 EACH, class Load, class Quickly, class Run>
DEVICE void each_pack(const Quant &q, const Tiles &t, Load load, Quickly quickly, Run run) {
  const u32 lane = threadIdx.x % warp, step = (u32)(thread_count() / warp);
  const i32 lanes = 1 << t.log_lanes;
#pragma unroll 1
  for (u32 tile = (u32)(thread_number() / warp); tile < t.tiles; tile += step) {
    u32 piece = t.pieces.of(tile), number = (piece << (log_warp - t.log_lanes)) + (lane >> t.log_lanes);
    if (number >= t.runs) continue;
    i64 at = (i64)(tile - piece * t.pieces.by) * tile_packs + (lane & (lanes - 1)), first = number * t.run + at;
    i64 rest = t.run - at;
    if (q.groups > 1) {
      u32 row = t.groups.of(number);
      i64 before = (number - row * t.groups.by) * t.run;
      first = row * t.row + before + at;
      rest = before + t.run > t.row ? t.row - before - at : rest;
    }
    const i32 left = rest < tile_packs ? (i32)rest : tile_packs;
    i64 c = number - t.params.of(number) * t.params.by;
    P p;
#pragma unroll 1
    for (i32 j = 0; j < tile_each; j += EACH) {
      decltype(load(first, 0)) in[EACH];
#pragma unroll
      for (i32 e = 0; e < EACH; e++) {
        if ((j + e) * lanes < left) in[e] = load(first, (j + e) * lanes);
      }
      if (j == 0) p.load_at(q, c * t.scale_step, c * t.zero_step);
      if (p.quick) {
#pragma unroll
        for (i32 e = 0; e < EACH; e++) {
          if ((j + e) * lanes < left) quickly(p, in[e], first, (j + e) * lanes);
        }
      } else { // it loads them again, so that this is code for one
#pragma unroll 1
        for (i32 e = j; e < j + EACH && e * lanes < left; e++) run(p, first + e * lanes);
      }
    }
  }
}

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
template <class Q, class T, bool = code_bias<Q> >= 0 && sizeof(T) == 4> struct Values : Plain<T> {};
template <class Q> struct Values<Q, f32, true> : Param<f32> {
  static constexpr f32 unit = 1 << 23;
  f32 base;
  bool quick;

  DEVICE void load_at(const Quant &q, i64 scale, i64 zero) {
    Param<f32>::load_at(q, scale, zero);
    base = unit + code_bias<Q> + z;
    quick = abs_(z) <= 1 << 20 && s - s == 0;
  }
  template <i32 V> DEVICE void values(f32 (&v)[V], const Words<Q, V> &codes) const {
    const i32 each = Words<Q, V>::each;
    const u32 bias = code_bias<Q> * (each == 4 ? 0x01010101u : 0x00010001u);
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      u32 select = each == 4 ? 0x7440 + j % 4 : j % 2 ? 0x7432 : 0x7410;
      v[j] = (from_bits(__byte_perm(codes.w.v[j / each] ^ bias, bits_of(unit), select)) - base) * s;
    }
  }
};

// Parameters that make whole steps of x / s.
template <class T, i32 MARGIN = 0> struct Levels : Param<T> {
  static constexpr bool quick = false;
};

// In f32 where quick: x / s by a product with 1 / s, whose error of less than 2 units in
// the last place one step of Newton's corrects. (No quotient of two significands is so near
// to the middle of two floats that the step misses it.) x is clamped to MARGIN codes beyond
// those from lo to hi, which keeps all of it in range. A NaN becomes 0, or with a MARGIN
// the least, which is outside.
template <i32 MARGIN> struct Levels<f32, MARGIN> : Param<f32> {
  static constexpr f32 shift = 12582912; // 1.5 * 2^23: numbers near it are whole
  static constexpr f32 tiny = 1.0f / (1ll << 60), large = 1 << 20;
  f32 inverse, step, least, most;
  bool quick;

  DEVICE void load_at(const Quant &q, i64 scale, i64 zero) {
    Param<f32>::load_at(q, scale, zero);
    inverse = 1 / s;
    step = q.reciprocal ? 0 : inverse;
    least = (lo - z - MARGIN) * s;
    most = (hi - z + MARGIN) * s;
    quick = s >= tiny && s <= 1 / tiny && abs_(z) <= large && lo >= -large && hi <= large;
    if (float8) quick = quick && lo < 0 && hi > 0; // no bound takes a zero's sign
  }
  // Unpacks numbers and, without a MARGIN, makes NaNs 0.
  template <class X, i32 V> DEVICE void prepare(f32 (&x)[V], const Words<X, V> &in) const {
    unpack(x, in);
    if (MARGIN) return;
    f32 sum = x[0];
#pragma unroll
    for (i32 j = 1; j < V; j++) sum += x[j];
    if (sum == sum) return; // none is a NaN
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
  // round_float8 of the clamped x / s, by a sum whose last bit is the code's.
  template <i32 KIND> DEVICE f32 float8_of(f32 x) const {
    const u32 sign = 1u << 31, normal = (u32)(float8_least(KIND) + 127) << 23;
    f32 size = abs_(fminf(fmaxf(quotient(x), lo), hi));
    u32 exponent = bits_of(size) & 0x7f800000;
    f32 sum = from_bits((exponent > normal ? exponent : normal) + ((u32)(23 - float8_mantissa(KIND)) << 23));
    return x == x ? from_bits(bits_of(size + sum - sum) | (bits_of(x) & sign)) : x;
  }
  // The bits of what float8_of makes: scaled, those of an f32 begin as they do.
  template <i32 KIND> static DEVICE u32 float8_bits(f32 v) {
    u32 b = bits_of(v * power_of_two(-126 - float8_least(KIND), v));
    return v == v ? (b >> 24 & 0x80) | (b >> (23 - float8_mantissa(KIND)) & 0x7f) : encode_float8(v, KIND);
  }
  template <i32 KIND, class S, i32 V> DEVICE Words<S, V> float8_codes(const f32 (&x)[V]) const {
    u32 w[V];
#pragma unroll
    for (i32 j = 0; j < V; j++) w[j] = float8_bits<KIND>(float8_of<KIND>(x[j]));
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

struct MapArgs {
  Quant q;
  Tensor in, x, out; // in: x, codes or grad_output; x: of a backward
  Tiles tiles;
};

// Holds<A, T>::type is what Op takes elements of type A in: T, unless it does not
// hold them all.
template <class A, class T> struct Holds {
  typedef T type;
};
template <> struct Holds<i32, f32> {
  typedef f64 type;
};

// What each_pack loads for a backward.
template <class A, class B, i32 V> struct Two {
  Words<A, V> in;
  Words<B, V> x;
};

// out[i] = Op::run(in[i], u, parameters of i) with u = x[i] / s where Op divides. A, B, S are
// the storage types of in, x and out; x is in unless Op is a backward.
template <class A, class B, class S, class T, class Op>
DEVICE S map_one(const MapArgs &a, const Param<T> &p, A in, B x) {
  typedef typename Holds<A, T>::type H;
  T v = Op::backward ? widen<T>(x) : (T)widen<H>(in);
  return Narrow<S>::from(Op::run(widen<H>(in), Op::divides ? p.divide(a.q.reciprocal, v) : v, p));
}

// Runs Op over packs, with Op::quickly where it has that.
template <class A, class B, class S, class T, class Op> DEVICE void map_packs(const MapArgs &a) {
  typedef typename Op::template Params<A, T> P;
  const i32 V = PackSize<A, B, S>::value, each = Op::backward ? tile_each / 2 : tile_each;
  constexpr bool quick = Op::template quick<A, T> && sizeof(A) <= 4 && sizeof(S) <= 4;
  auto run = [&](const P &p, i64 k) {
    Pack<A, V> in = ((const Pack<A, V> *)a.in.data)[k];
    Pack<B, V> x;
    Pack<S, V> out;
    if (Op::backward) x = ((const Pack<B, V> *)a.x.data)[k];
#pragma unroll
    for (i32 j = 0; j < V; j++) out.v[j] = map_one<A, B, S, T, Op>(a, p, in.v[j], x.v[j]);
    ((Pack<S, V> *)a.out.data)[k] = out;
  };
  if constexpr (!quick) {
    each_pack<P, 1>(
        a.q, a.tiles, [&](i64, i32) { return 0; }, [&](const P &p, i32, i64 first, i32 i) { run(p, first + i); }, run);
  } else if constexpr (Op::backward) {
    each_pack<P, each>(
        a.q, a.tiles,
        [&](i64 first, i32 i) {
          Two<A, B, V> two = {(&words_at<A, V>(a.in, first))[i], (&words_at<B, V>(a.x, first))[i]};
          return two;
        },
        [&](const P &p, const Two<A, B, V> &two, i64 first, i32 i) {
          (&words_at<S, V>(a.out, first))[i] = Op::template quickly<S>(p, two.in, two.x);
        },
        run);
  } else {
    each_pack<P, each>(
        a.q, a.tiles, [&](i64 first, i32 i) { return (&words_at<A, V>(a.in, first))[i]; },
        [&](const P &p, const Words<A, V> &in, i64 first, i32 i) {
          (&words_at<S, V>(a.out, first))[i] = Op::template quickly<S>(p, in);
        },
        run);
  }
}

// Runs Op over what is not in packs.
template <class A, class B, class S, class T, class Op> DEVICE void map_rest(const MapArgs &a) {
#pragma unroll 1
  for (i64 i = a.tiles.packs * PackSize<A, B, S>::value + thread_number(); i < a.q.n; i += thread_count()) {
    B x;
    if (Op::backward) x = element<B>(a.x, i);
    Param<T> p;
    p.load(a.q, param_of(a.q, i));
    element<S>(a.out, i) = map_one<A, B, S, T, Op>(a, p, element<A>(a.in, i), x);
  }
}

template <class A, class B, class S, class T, class Op> DEVICE void map(const MapArgs &a) {
  map_packs<A, B, S, T, Op>(a);
  map_rest<A, B, S, T, Op>(a);
}

// The same for an Op that depends on which codes there are; run asks the parameters.
template <class A, class B, class S, class T, template <i32> class Op> DEVICE void map_kinds(const MapArgs &a) {
  switch (a.q.float8) {
  case no_float8:
    map_packs<A, B, S, T, Op<no_float8>>(a);
    break;
  case e4m3:
    map_packs<A, B, S, T, Op<e4m3>>(a);
    break;
  case e5m2:
    map_packs<A, B, S, T, Op<e5m2>>(a);
    break;
  }
  map_rest<A, B, S, T, Op<no_float8>>(a);
}
