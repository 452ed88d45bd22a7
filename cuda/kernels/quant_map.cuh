// Ops that map every element of a quantize problem on its own.
#pragma once
#include "quant.cuh"

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

// How packs of elements that have one parameter each are shared out. Long runs of packs
// are cut into tiles, whose packs have one parameter, too.
struct Tiles {
  i64 packs, run; // how many packs there are from the start; in a long run, else 0
  u32 tiles;
  Ratio pieces; // tiles of a long run
  Ratio row, rows, group; // row and group of a short one in packs; rows.by == 0: they do not go round
};
const i32 warp = 32, tile_each = 4, tile_packs = warp * tile_each;

DEVICE u32 round_row(const Tiles &t, u32 row) { return t.rows.by ? row - t.rows.of(row) * t.rows.by : row; }

// The parameter of a pack among short runs.
DEVICE i64 pack_param(const Quant &q, const Tiles &t, u32 k) {
  u32 row = t.row.of(k), column = k - row * t.row.by;
  i64 c = round_row(t, row);
  return q.groups > 1 ? c * q.groups + t.group.of(column) : c;
}

// Calls quickly(parameters, load(k), k) for every pack k, or run where the parameters, a
// P, are not quick. A warp does a tile at a time, all packs of which it loads first.
template <class P, class Load, class Quickly, class Run>
DEVICE void each_of_long(const Quant &q, const Tiles &t, Load load, Quickly quickly, Run run) {
  const u32 step = (u32)(thread_count() / warp);
#pragma unroll 1
  for (u32 tile = (u32)(thread_number() / warp); tile < t.tiles; tile += step) {
    u32 row = t.pieces.of(tile);
    i64 at = (i64)(tile - row * t.pieces.by) * tile_packs + threadIdx.x % warp, k = row * t.run + at;
    i32 left = (i32)(t.run - at > tile_packs ? tile_packs : t.run - at);
    decltype(load(k)) in[tile_each];
#pragma unroll
    for (i32 j = 0; j < tile_each; j++) {
      if (j * warp < left) in[j] = load(k + j * warp);
    }
    P p;
    p.load(q, round_row(t, row));
    if (p.quick) {
#pragma unroll
      for (i32 j = 0; j < tile_each; j++) {
        if (j * warp < left) quickly(p, in[j], k + j * warp);
      }
    } else { // it loads them again, so that this is code for one
#pragma unroll 1
      for (i32 j = 0; j < left; j += warp) run(p, load(k + j), k + j);
    }
  }
}

// The same where every pack has a parameter of its own. A thread asks for packs two
// steps ahead, since the compiler moves no load before a store.
template <class P, class Load, class Quickly, class Run>
DEVICE void each_of_short(const Quant &q, const Tiles &t, Load load, Quickly quickly, Run run) {
  const i64 step = thread_count();
  i64 k = thread_number();
  decltype(load(k)) now, next, last;
  if (k < t.packs) now = load(k);
  if (k + step < t.packs) next = load(k + step);
#pragma unroll 1
  for (; k < t.packs; k += step) {
    if (k + 2 * step < t.packs) last = load(k + 2 * step);
    P p;
    p.load(q, pack_param(q, t, (u32)k));
    if (p.quick)
      quickly(p, now, k);
    else
      run(p, now, k);
    now = next;
    next = last;
  }
}

template <class P, class Load, class Quickly, class Run>
DEVICE void each_pack(const Quant &q, const Tiles &t, Load load, Quickly quickly, Run run) {
  if (t.run)
    each_of_long<P>(q, t, load, quickly, run);
  else
    each_of_short<P>(q, t, load, quickly, run);
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

// Parameters that make whole steps of x / s.
template <class T, i32 MARGIN = 0> struct Levels : Param<T> {
  static constexpr bool quick = false;
  DEVICE T level(T x) const { return x; }
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

  DEVICE void load(const Quant &q, i64 c) {
    Param<f32>::load(q, c);
    inverse = 1 / s;
    step = q.reciprocal ? 0 : inverse;
    least = (lo - z - MARGIN) * s;
    most = (hi - z + MARGIN) * s;
    quick = s >= tiny && s <= 1 / tiny && abs_(z) <= large && lo >= -large && hi <= large;
    if (float8) quick = quick && lo < 0 && hi > 0; // no bound takes a zero's sign
  }
  // Near 0 only as exact as rounding it to a code asks; -0 may be +0.
  DEVICE f32 quotient(f32 x) const {
    if (MARGIN == 0) x = x == x ? x : 0;
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
  // The code that shift + v stands for.
  template <class S> static DEVICE S code_of(f32 v) {
    if constexpr (is_float<S>)
      return Narrow<S>::from(v - shift);
    else
      return (S)((i32)bits_of(v) - (i32)bits_of(shift));
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
  template <i32 KIND> static DEVICE u8 float8_bits(f32 v) {
    u32 b = bits_of(v * power_of_two(-126 - float8_least(KIND), v));
    return v == v ? (u8)(b >> 24 & 0x80 | b >> (23 - float8_mantissa(KIND)) & 0x7f) : encode_float8(v, KIND);
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

template <class A, class B, i32 V> struct MapPack {
  Pack<A, V> in;
  Pack<B, V> x;
};

template <class S, class A, class B, i32 V, class F>
DEVICE void map_pack(const Tensor &t, i64 k, const MapPack<A, B, V> &pack, F f) {
  Pack<S, V> out;
#pragma unroll
  for (i32 j = 0; j < V; j++) out.v[j] = f(pack.in.v[j], pack.x.v[j]);
  ((Pack<S, V> *)t.data)[k] = out;
}

// Runs Op over all elements: out[i] = Op::run(in[i], u, parameters of i) with
// u = x[i] / s where Op divides. A, B, S are the storage types of in, x and
// out; x is in unless Op is a backward.
template <class A, class B, class S, class T, class Op> DEVICE void map(const MapArgs &a) {
  typedef typename Holds<A, T>::type H;
  typedef typename Op::template Params<T> P;
  const i32 V = PackSize<A, B, S>::value;
  typedef MapPack<A, B, V> In;
  auto load = [&](i64 k) {
    In in;
    in.in = ((const Pack<A, V> *)a.in.data)[k];
    if (Op::backward) in.x = ((const Pack<B, V> *)a.x.data)[k];
    return in;
  };
  auto one = [&](const Param<T> &p, A in, B x) {
    T v = Op::backward ? widen<T>(x) : (T)widen<H>(in);
    return Op::run(widen<H>(in), Op::divides ? p.divide(a.q.reciprocal, v) : v, p);
  };
  each_pack<P>(
      a.q, a.tiles, load,
      [&](const P &p, const In &pack, i64 k) {
        map_pack<S>(a.out, k, pack, [&](A in, B x) {
          if constexpr (Op::template quick<T>)
            return Op::template quickly<S>(widen<H>(in), Op::backward ? widen<T>(x) : (T)widen<H>(in), p);
          else
            return Narrow<S>::from(one(p, in, x));
        });
      },
      [&](const P &p, const In &pack, i64 k) {
        map_pack<S>(a.out, k, pack, [&](A in, B x) { return Narrow<S>::from(one(p, in, x)); });
      });
#pragma unroll 1
  for (i64 i = a.tiles.packs * V + thread_number(); i < a.q.n; i += thread_count()) {
    B x;
    if (Op::backward) x = element<B>(a.x, i);
    Param<T> p;
    p.load(a.q, param_of(a.q, i));
    element<S>(a.out, i) = Narrow<S>::from(one(p, element<A>(a.in, i), x));
  }
}

// The same for an Op that depends on which codes there are.
template <class A, class B, class S, class T, template <i32> class Op> DEVICE void map_kinds(const MapArgs &a) {
  switch (a.q.float8) {
  case no_float8:
    return map<A, B, S, T, Op<no_float8>>(a);
  case e4m3:
    return map<A, B, S, T, Op<e4m3>>(a);
  case e5m2:
    return map<A, B, S, T, Op<e5m2>>(a);
  }
}
