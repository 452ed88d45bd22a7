// Groups that follow one another in memory, of whole packs of 16 bytes: their parameters
// and, where C makes some, their codes. Threads keep the numbers in registers in between.
#pragma once
#include "choice.cuh"
#include "packed.cuh"

// What words become that have a code in their last bits: bytes or halves of them, if codes
// are made at all.
struct NoCodes {
  static constexpr i32 bits = 0;
};
struct ByteCodes {
  static constexpr i32 bits = 8;
  template <i32 V> static DEVICE Words<u8, V> pack(const u32 (&w)[V]) { return pack_words<u8>(w); }
};
struct HalfCodes {
  static constexpr i32 bits = 4;
  template <i32 V> static DEVICE typename HalfPack<V>::type pack(const u32 (&w)[V]) { return pack_halves(w); }
};

// What makes codes of a group's numbers, none of which is a NaN where it is quick: as Levels
// does, but numbers need no bounds, since the scale is of the largest. near: their levels
// need none, either, and there is no zero point.
struct Coder {
  f32 s, z, lo, hi, inverse;
  bool quick, near;

  DEVICE Coder(const QuantSumArgs &a, const Choice<f32> &choice) {
    lo = (f32)a.q.lo;
    hi = (f32)a.q.hi;
    s = choice.stored(a.ds.dtype);
    z = choice.z;
    inverse = 1 / s;
    quick = s >= Levels<f32>::tiny && s <= 1 / Levels<f32>::tiny;
    near = a.symmetric && lo <= -hi && a.ds.dtype == f32_;
  }
  // Takes another lane's parameters.
  DEVICE Coder lent(u32 lane) const {
    Coder p = *this;
    p.s = __shfl_sync(0xffffffffu, s, lane);
    p.inverse = __shfl_sync(0xffffffffu, inverse, lane);
    if (!near) p.z = __shfl_sync(0xffffffffu, z, lane);
    return p;
  }
  template <class C, bool NEAR, i32 V> DEVICE void put(u8 *to, const f32 (&x)[V]) const {
    const f32 shift = Levels<f32>::shift;
    u32 w[V];
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      f32 u = x[j] * inverse;
      u = fma_(fma_(-s, u, x[j]), inverse, u) + shift;
      w[j] = bits_of(NEAR ? u : fminf(fmaxf(u + z, lo + shift), hi + shift));
    }
    store(to, C::pack(w));
  }
  // The same of any parameters.
  template <class C, i32 V> DEVICE void put_slowly(u8 *to, const f32 (&x)[V]) const {
    u32 w[V];
#pragma unroll
    for (i32 j = 0; j < V; j++) w[j] = (u32)(i32)quantized(x[j] / s, z, lo, hi, no_float8);
    store(to, C::pack(w));
  }
  template <class P> static DEVICE void store(u8 *to, const P &p) { *(P *)to = p; }
};

// The packs of a thread that are of count numbers, by of them apart and step packs in memory;
// lend(e) is what codes pack e.
template <class X, class C, i32 EACH> struct Packs {
  static constexpr i32 V = 16 / sizeof(X), bytes = V * C::bits / 8;
  const Quad *from;
  u8 *to;
  i32 step, by, count;
  Quad in[EACH];

  DEVICE Packs(const QuantSumArgs &a, i64 first) : from(&quad_at(a.x, first)), to((u8 *)a.dx.data + first * bytes) {}
  DEVICE bool has(i32 e) const { return e * by < count; }
  DEVICE void load() {
#pragma unroll
    for (i32 e = 0; e < EACH; e++) in[e] = has(e) ? from[e * step] : Quad{};
  }
  template <bool NEAR, class Lend> DEVICE void put(Lend lend) const {
#pragma unroll
    for (i32 e = 0; e < EACH; e++) {
      const Coder p = lend(e);
      f32 x[V];
      unpack(x, Words<X, V>{in[e]});
      if (has(e)) p.template put<C, NEAR>(to + e * step * bytes, x);
    }
  }
  // They are loaded again, so that this is code for one.
  template <class Lend> DEVICE void put_slowly(Lend lend) const {
#pragma unroll 1
    for (i32 e = 0; e < EACH; e++) {
      const Coder p = lend(e);
      if (!has(e)) continue;
      const Quad again = from[e * step];
      f32 x[V];
      unpack(x, Words<X, V>{again});
      p.template put_slowly<C>(to + e * step * bytes, x);
    }
  }
  template <class Lend> DEVICE void code(bool quick, bool near, Lend lend) const {
    if (!quick)
      put_slowly(lend);
    else if (near)
      put<true>(lend);
    else
      put<false>(lend);
  }
};

// Numbers of warps, groups and pieces have 31 bits.
DEVICE u32 warp_number() { return blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; }

// Groups of up to 32 packs: each has 4 to 32 lanes, of which each has packs of TURNS groups.
// In the end equal parts of the lanes have the parameters of one each.
template <class X, class C, i32 TURNS> DEVICE void choose_short(const QuantSumArgs &a) {
  typedef typename KeyOf<X>::type Key;
  const u32 log = a.stripe.log_threads, lanes = 1 << log, lane = threadIdx.x % 32, self = lane & (lanes - 1);
  const u32 packs = (u32)a.stripe.longest / (16 / (u32)sizeof(X)), side = 32 >> log, all = (u32)a.stripe.reductions;
  const u32 first = warp_number() * (TURNS * side),
            own = first + (lane >> log); // turn t's group is t * side further on
  if (first >= all) return;
  const i32 groups = (i32)(all - first < TURNS * side ? all - first : TURNS * side) - (i32)(lane >> log);
  Packs<X, C, TURNS> packed(a, (i64)own * packs + self);
  packed.step = side * packs;
  packed.by = side;
  packed.count = self < packs ? groups : 0;
  packed.load();
  Ends<X> ends[TURNS];
#pragma unroll
  for (i32 t = 0; t < TURNS; t++) ends[t].add(packed.in[t]);
  // Lanes exchange the ends of half the groups that they have for those of the others.
#pragma unroll
  for (i32 half = TURNS / 2, by = lanes / 2; half > 0; half /= 2, by /= 2) {
    const bool upper = self & by;
#pragma unroll
    for (i32 t = 0; t < half; t++) {
#pragma unroll
      for (i32 k = 0; k < 2; k++) {
        Key mine = ends[t].key[k], other = ends[t + half].key[k];
        Key got = __shfl_xor_sync(0xffffffffu, upper ? mine : other, by);
        ends[t].key[k] = join_keys(k, upper ? other : mine, got);
      }
    }
  }
  ends[0].fold(lanes / TURNS);
  const u32 turn = self * TURNS >> log;
  const Choice<typename Compute<X>::type> choice = ends[0].choice(a);
  if ((self & (lanes / TURNS - 1)) == 0 && (i32)(turn * side) < groups) choice.store(a, own + turn * side);
  if constexpr (C::bits != 0) {
    const Coder coder(a, choice);
    packed.code(!__any_sync(0xffffffffu, !coder.quick), coder.near,
                [&](i32 t) { return coder.lent(lane - self + t * (lanes / TURNS)); });
  }
}

// Longer groups: a warp has EACH packs for each lane, side by side, and shares a group with
// the block's others if it takes more than one.
template <class X, class C, i32 EACH> DEVICE void quantize_groups(const QuantSumArgs &a, u32 (*shared)[32]) {
  const u32 packs = (u32)a.stripe.longest / (16 / (u32)sizeof(X));
  const bool one = packs <= EACH * 32;
  const u32 group = one ? warp_number() : blockIdx.x;
  if (group >= (u32)a.stripe.reductions) return;
  const u32 self = (one ? 0 : threadIdx.x / 32 * (EACH * 32)) + threadIdx.x % 32;
  Packs<X, C, EACH> packed(a, (i64)group * packs + self);
  packed.step = packed.by = 32;
  packed.count = (i32)packs - (i32)self;
  packed.load();
  Ends<X> ends;
#pragma unroll
  for (i32 e = 0; e < EACH; e++) ends.add(packed.in[e]);
  if (one)
    ends.fold(32);
  else
    ends.fold_block(shared);
  const Choice<f32> choice = ends.choice(a);
  const Coder coder(a, choice);
  packed.code(coder.quick, coder.near, [&](i32) { return coder; });
  if (self == 0) choice.store(a, group); // now that no numbers take registers
}
