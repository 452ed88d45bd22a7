// Groups that follow one another in memory, of whole packs of 16 bytes: their parameters
// and, where C makes some, their codes. Threads keep the numbers in registers in between.
#pragma once
#include "choice.cuh"
#include "packed.cuh"

// What words become that have a code in their last bits: elements of Q, or halves of bytes.
struct NoCodes {
  static constexpr bool any = false;
};
template <class Q> struct WholeCodes {
  static constexpr bool any = true;
  template <i32 V> static DEVICE Words<Q, V> pack(const u32 (&w)[V]) { return pack_words<Q>(w); }
};
struct HalfCodes {
  static constexpr bool any = true;
  template <i32 V> static DEVICE typename HalfPack<V>::type pack(const u32 (&w)[V]) { return pack_halves(w); }
};

// What makes codes of a group's numbers: Levels that no NaN comes to.
struct Coder : Levels<f32> {
  DEVICE Coder(const QuantSumArgs &a, const Choice<f32> &choice) {
    lo = (f32)a.q.lo;
    hi = (f32)a.q.hi;
    float8 = no_float8;
    s = choice.stored(a.ds.dtype);
    z = choice.z;
    derive(false);
  }
  // Stores the codes of pack first + i.
  template <class C, class X> DEVICE void put(const Tensor &codes, i64 first, i32 i, const Quad &q) const {
    const i32 V = 16 / sizeof(X);
    f32 x[V];
    u32 w[V];
    unpack(x, Words<X, V>{q});
#pragma unroll
    for (i32 j = 0; j < V; j++) w[j] = bits_of(level(x[j]) + z);
    store(codes, first, i, C::pack(w));
  }
  // The same of any parameters.
  template <class C, class X> DEVICE void put_slowly(const Tensor &codes, i64 first, i32 i, const Quad &q) const {
    const i32 V = 16 / sizeof(X);
    f32 x[V];
    u32 w[V];
    unpack(x, Words<X, V>{q});
#pragma unroll
    for (i32 j = 0; j < V; j++) w[j] = (u32)(i32)code(divide(false, x[j]));
    store(codes, first, i, C::pack(w));
  }
  template <class P> static DEVICE void store(const Tensor &t, i64 first, i32 i, const P &p) {
    ((P *)t.data + first)[i] = p;
  }
};

// Groups of up to 32 packs: each has 4 to 32 lanes, of which each has packs of turns
// groups. In the end each fourth of the lanes has the parameters of one.
const i32 turns = 4;
template <class X, class C> DEVICE void choose_short(const QuantSumArgs &a) {
  typedef typename KeyOf<X>::type Key;
  const i32 log = a.stripe.log_threads, lanes = 1 << log, lane = threadIdx.x % 32, self = lane & (lanes - 1);
  const i32 side = 32 >> log, packs = (i32)a.stripe.longest / (16 / (i32)sizeof(X));
  const i64 first = (thread_number() >> 5) * (turns * side) + (lane >> log);
  if (first - (lane >> log) >= a.stripe.reductions) return;
  const i64 left = a.stripe.reductions - first; // of groups
  auto here = [&](i32 t) { return self < packs && t * side < left; };
  auto at = [&](i32 t) { return (first + t * side) * packs + self; };
  Quad in[turns];
  Ends<X> ends[turns];
#pragma unroll
  for (i32 t = 0; t < turns; t++) in[t] = here(t) ? quad_at(a.x, at(t)) : Quad{};
#pragma unroll
  for (i32 t = 0; t < turns; t++) ends[t].add(in[t]);
  // Lanes exchange the ends of half the groups that they have for those of the others.
#pragma unroll
  for (i32 half = turns / 2, by = lanes / 2; half > 0; half /= 2, by /= 2) {
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
  ends[0].fold(lanes / turns);
  const i32 turn = self * turns >> log;
  const Choice<typename Compute<X>::type> choice = ends[0].choice(a);
  if ((self & (lanes / turns - 1)) == 0 && turn * side < left) choice.store(a, first + turn * side);
  if constexpr (C::any) {
    const Coder own(a, choice);
    const i32 from = lane - self;
    if (!__any_sync(0xffffffffu, !own.quick)) {
#pragma unroll
      for (i32 t = 0; t < turns; t++) {
        Coder p = own;
        (Levels<f32> &)p = own.lent(from + t * (lanes / turns));
        if (here(t)) p.template put<C, X>(a.dx, at(t), 0, in[t]);
      }
    } else {
#pragma unroll 1
      for (i32 t = 0; t < turns; t++) {
        Coder p = own;
        (Levels<f32> &)p = own.lent(from + t * (lanes / turns));
        if (here(t)) p.template put_slowly<C, X>(a.dx, at(t), 0, quad_at(a.x, at(t)));
      }
    }
  }
}

// Longer groups: a warp has EACH packs for each lane, side by side, and shares a group with
// the block's others if it takes more than one.
template <class X, class C, i32 EACH> DEVICE void quantize_groups(const QuantSumArgs &a, u32 (*shared)[32]) {
  const u32 packs = (u32)a.stripe.longest / (16 / (u32)sizeof(X));
  const bool one = packs <= EACH * 32;
  const i64 group = one ? thread_number() / 32 : blockIdx.x;
  if (group >= a.stripe.reductions) return;
  const u32 self = (one ? 0 : threadIdx.x / 32 * (EACH * 32)) + threadIdx.x % 32;
  const i32 left = (i32)packs - (i32)self;
  const Quad *from = &quad_at(a.x, group * packs + self);
  Quad in[EACH];
  Ends<X> ends;
#pragma unroll
  for (i32 e = 0; e < EACH; e++) in[e] = e * 32 < left ? from[e * 32] : Quad{};
#pragma unroll
  for (i32 e = 0; e < EACH; e++) ends.add(in[e]);
  if (one)
    ends.fold(32);
  else
    ends.fold_block(shared);
  const Choice<f32> choice = ends.choice(a);
  const Coder p(a, choice);
  if (p.quick) {
#pragma unroll
    for (i32 e = 0; e < EACH; e++) {
      if (e * 32 < left) p.template put<C, X>(a.dx, group * packs + self, e * 32, in[e]);
    }
  } else { // they are loaded again, so that this is code for one
#pragma unroll 1
    for (i32 e = 0; e < EACH && e * 32 < left; e++)
      p.template put_slowly<C, X>(a.dx, group * packs + self, e * 32, from[e * 32]);
  }
  if (self == 0) choice.store(a, group); // now that no numbers take registers
}
