// The range of a group's numbers, and the parameters for it: choose_qparams, and what
// quantizes in the same pass.
#pragma once
#include "quant_quick.cuh"
#include "quant_sums.cuh"

// The keys of numbers are their bits, those of short types as the first of a word, whose
// others may be anything. The largest key is, of signed integers, that of the largest
// number; of unsigned ones, if a number is below 0, that of the smallest. NaNs are beyond.
template <class X> struct KeyOf {
  typedef u32 type;
};
template <> struct KeyOf<f64> {
  typedef u64 type;
};

// which: 0 of the smallest number, 1 of the largest. A key of 0 changes nothing.
DEVICE u32 join_keys(i32 which, u32 a, u32 b) {
  if (which == 0) return a > b ? a : b;
  return (i32)a > (i32)b ? a : b;
}
DEVICE u64 join_keys(i32 which, u64 a, u64 b) {
  if (which == 0) return a > b ? a : b;
  return (i64)a > (i64)b ? a : b;
}

DEVICE u32 key_of(f32 x) { return bits_of(x); }
DEVICE u64 key_of(f64 x) { return bits_of(x); }
template <class X> DEVICE u32 key_of(X x) { return (u32)x.bits << 16; }
// Back to a number.
template <class X> DEVICE X number_of(u32 key) { return X{(u16)(key >> 16)}; }
template <> DEVICE f32 number_of<f32>(u32 key) { return from_bits(key); }
template <class X> DEVICE X number_of(u64 key) { return from_bits(key); }

// The parameters for a range that has 0 in it, or a NaN at one end.
template <class T> struct Choice {
  T s, z;

  DEVICE Choice(const QuantSumArgs &a, T lo, T hi) {
    T qmin = (T)a.q.lo, qmax = (T)a.q.hi;
    T largest = -lo > hi || lo != lo ? -lo : hi;
    s = a.symmetric ? largest / qmax : (hi - lo) / (qmax - qmin);
    if (s == 0) s = 1;
    if (s < (T)a.factor) s = (T)a.factor;
    z = a.symmetric || a.dz.dtype == none_ ? (T)0 : round_zero(qmin - lo / s, qmin, qmax);
  }
  // The scale as it is read again.
  DEVICE T stored(i32 dtype) const {
    return dtype == f16_ ? widen<T>(Narrow<f16>::from(s)) : dtype == bf16_ ? widen<T>(Narrow<bf16>::from(s)) : s;
  }
  DEVICE void store(const QuantSumArgs &a, i64 c) const {
    set_any(a.ds, c, s);
    if (a.dz.dtype != none_) set_any(a.dz, c, z);
  }
};

// 16 bytes of numbers as they lie in memory.
typedef Pack<u32, 4> Quad;
DEVICE Quad &quad_at(const Tensor &t, i64 i) { return ((Quad *)t.data)[i]; }

// The key of number j.
template <class X> DEVICE typename KeyOf<X>::type key_in(const Quad &q, i32 j) {
  if constexpr (sizeof(X) == 8)
    return (u64)q.v[2 * j + 1] << 32 | q.v[2 * j];
  else if constexpr (sizeof(X) == 4)
    return q.v[j];
  else
    return j % 2 ? q.v[j / 2] : q.v[j / 2] << 16;
}

// The keys of the smallest and of the largest of 0 and some numbers.
template <class X> struct Ends {
  typedef typename KeyOf<X>::type Key;
  typedef typename Compute<X>::type T;
  Key key[2] = {0, 0};

  DEVICE void add(const Quad &q) {
#pragma unroll
    for (i32 j = 0; j < 16 / (i32)sizeof(X); j++) {
      for (i32 k = 0; k < 2; k++) key[k] = join_keys(k, key[k], key_in<X>(q, j));
    }
  }
  DEVICE void join(const Ends &other) {
    for (i32 k = 0; k < 2; k++) key[k] = join_keys(k, key[k], other.key[k]);
  }
  DEVICE Choice<T> choice(const QuantSumArgs &a) const {
    T least = widen<T>(number_of<X>(key[0])), most = widen<T>(number_of<X>(key[1]));
    return Choice<T>(a, least >= 0 ? 0 : least, most);
  }
  // Joins what a warp's lanes have whose numbers differ in bits below so many.
  DEVICE void fold(i32 lanes) {
#pragma unroll
    for (i32 k = 0; k < 2; k++) {
      for (i32 by = lanes / 2; by > 0; by /= 2) key[k] = join_keys(k, key[k], __shfl_xor_sync(0xffffffffu, key[k], by));
    }
  }
  // Joins what the threads of a block have, all of whom call it once.
  DEVICE void fold_block(Key (*shared)[32]) {
    const u32 lane = threadIdx.x % 32;
    fold(32);
#pragma unroll
    for (i32 k = 0; k < 2; k++) {
      if (lane == 0) shared[k][threadIdx.x / 32] = key[k];
    }
    __syncthreads();
#pragma unroll
    for (i32 k = 0; k < 2; k++) key[k] = lane < blockDim.x / 32 ? shared[k][lane] : 0;
    fold(32);
  }
};
