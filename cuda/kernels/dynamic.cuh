// Groups that follow one another in memory, of whole packs of 16 bytes: their parameters
// and, where C makes some, their codes. Threads keep the numbers in registers in between.
#pragma once
#include "choice.cuh"
#include "packed.cuh"

// Pairs of bf16 by masks: with the shifts that others take, the short kernels are 4 % longer.
template <i32 V> DEVICE void unpack(f32 (&v)[V], const Words<bf16, V> &p) {
#pragma unroll
  for (i32 j = 0; j < V; j++) v[j] = from_bits(j % 2 ? p.w.v[j / 2] & 0xffff0000 : p.w.v[j / 2] << 16);
}

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

// A lane's packs: of TURNS groups, side groups apart, PER packs each, 32 packs apart; left of
// a group's packs begin at the first, groups of all groups. lend(t) codes turn t's group.
template <class X, class C, i32 TURNS, i32 PER> struct Packs {
  static constexpr i32 V = 16 / sizeof(X), bytes = V * C::bits / 8, EACH = TURNS * PER;
  const Quad *from;
  u8 *to;
  i32 side, groups, left, step; // step: packs from a turn to the next
  Quad in[EACH];

  DEVICE Packs(const QuantSumArgs &a, i64 first) : from(&quad_at(a.x, first)), to((u8 *)a.dx.data + first * bytes) {}
  DEVICE bool has(i32 e) const { return e / PER * side < groups && e % PER * 32 < left; }
  DEVICE i32 offset(i32 e) const { return e / PER * step + e % PER * 32; }
  DEVICE void load() {
#pragma unroll
    for (i32 e = 0; e < EACH; e++) in[e] = has(e) ? from[offset(e)] : Quad{};
  }
  template <bool NEAR, class Lend> DEVICE void put(Lend lend) const {
#pragma unroll
    for (i32 t = 0; t < TURNS; t++) {
      const Coder p = lend(t);
#pragma unroll
      for (i32 e = t * PER; e < (t + 1) * PER; e++) {
        f32 x[V];
        unpack(x, Words<X, V>{in[e]});
        if (has(e)) p.template put<C, NEAR>(to + offset(e) * bytes, x);
      }
    }
  }
  // They are loaded again, so that this is code for one.
  template <class Lend> DEVICE void put_slowly(Lend lend) const {
#pragma unroll 1
    for (i32 e = 0; e < EACH; e++) {
      const Coder p = lend(e / PER);
      if (!has(e)) continue;
      const Quad again = from[offset(e)];
      f32 x[V];
      unpack(x, Words<X, V>{again});
      p.template put_slowly<C>(to + offset(e) * bytes, x);
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

// Groups of up to PER packs for each lane of a warp: 4 to 32 lanes, which have packs of TURNS
// groups each. In the end equal parts of the lanes have the parameters of one each.
template <class X, class C, i32 TURNS, i32 PER> DEVICE void choose_short(const QuantSumArgs &a) {
  typedef typename KeyOf<X>::type Key;
  const u32 log = PER == 1 ? a.stripe.log_threads : 5, lanes = 1 << log, lane = threadIdx.x % 32,
            self = lane & (lanes - 1);
  const u32 packs = (u32)a.stripe.longest / (16 / (u32)sizeof(X)), side = 32 >> log, all = (u32)a.stripe.reductions;
  const u32 first = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * (TURNS * side), own = first + (lane >> log);
  if (first >= all) return;
  Packs<X, C, TURNS, PER> packed(a, (i64)own * packs + self);
  packed.side = side;
  packed.step = side * packs;
  packed.left = (i32)packs - (i32)self;
  packed.groups = (i32)(all - first < TURNS * side ? all - first : TURNS * side) - (i32)(lane >> log);
  packed.load();
  Ends<X> ends[TURNS];
#pragma unroll
  for (i32 e = 0; e < TURNS * PER; e++) ends[e / PER].add(packed.in[e]);
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
  if ((self & (lanes / TURNS - 1)) == 0 && (i32)(turn * side) < packed.groups) choice.store(a, own + turn * side);
  if constexpr (C::bits != 0) {
    const Coder coder(a, choice);
    packed.code(!__any_sync(0xffffffffu, !coder.quick), coder.near,
                [&](i32 t) { return coder.lent(lane - self + t * (lanes / TURNS)); });
  }
}

// Longer groups: a block has one, each warp EACH packs for each lane, side by side.
template <class X, class C, i32 EACH> DEVICE void quantize_groups(const QuantSumArgs &a, u32 (*shared)[32]) {
  const u32 packs = (u32)a.stripe.longest / (16 / (u32)sizeof(X)), group = blockIdx.x;
  const u32 self = threadIdx.x / 32 * (EACH * 32) + threadIdx.x % 32;
  Packs<X, C, 1, EACH> packed(a, (i64)group * packs + self);
  packed.side = packed.step = 0;
  packed.groups = 1;
  packed.left = (i32)packs - (i32)self;
  packed.load();
  Ends<X> ends;
#pragma unroll
  for (i32 e = 0; e < EACH; e++) ends.add(packed.in[e]);
  ends.fold_block(shared);
  const Choice<f32> choice = ends.choice(a);
  const Coder coder(a, choice);
  packed.code(coder.quick, coder.near, [&](i32) { return coder; });
  if (self == 0) choice.store(a, group); // now that no numbers take registers
}
