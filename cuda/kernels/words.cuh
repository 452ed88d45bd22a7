// Packs of short elements as words, of which one instruction makes two or four.
#pragma once
#include "dtypes.cuh"

template <class S, i32 V> struct Words {
  static constexpr i32 count = sizeof(S) * V / 4, each = 4 / sizeof(S); // words; elements of a word
  Pack<u32, count> w;
  // An element's bits, and others above them.
  DEVICE u32 bits(i32 j) const { return w.v[j / each] >> 32 / each * (j % each); }
};
template <class S, i32 V> DEVICE Words<S, V> &words_at(const Tensor &t, i64 pack) {
  return ((Words<S, V> *)t.data)[pack];
}

template <i32 V> DEVICE void unpack(f32 (&v)[V], const Words<f32, V> &p) {
#pragma unroll
  for (i32 j = 0; j < V; j++) v[j] = from_bits(p.w.v[j]);
}
template <i32 V> DEVICE void unpack(f32 (&v)[V], const Words<bf16, V> &p) {
#pragma unroll
  for (i32 j = 0; j < V; j++) v[j] = from_bits(j % 2 ? p.w.v[j / 2] & 0xffff0000 : p.w.v[j / 2] << 16);
}
template <i32 V> DEVICE void unpack(f32 (&v)[V], const Words<f16, V> &p) {
#pragma unroll
  for (i32 j = 0; j < V; j++) v[j] = half_to_float((u16)p.bits(j));
}

// Packs the last bytes of words, or of two the first.
template <class S, bool FIRST = false, i32 V> DEVICE Words<S, V> pack_words(const u32 (&v)[V]) {
  const i32 each = Words<S, V>::each;
  Words<S, V> p;
#pragma unroll
  for (i32 j = 0; j < V; j += each) {
    u32 w = v[j];
    if constexpr (each == 2) w = __byte_perm(w, v[j + 1], FIRST ? 0x7632 : 0x5410);
    if constexpr (each == 4)
      w = __byte_perm(__byte_perm(w, v[j + 1], 0x0040), __byte_perm(v[j + 2], v[j + 3], 0x0040), 0x5410);
    p.w.v[j / each] = w;
  }
  return p;
}

DEVICE u32 element_bits(f32 v) { return bits_of(v); }
DEVICE u32 element_bits(f16 v) { return v.bits; }
DEVICE u32 element_bits(bf16 v) { return v.bits; }
template <class S> constexpr bool is_bf16 = false;
template <> constexpr bool is_bf16<bf16> = true;

// Narrows numbers; a NaN needs NANS.
template <class S, bool NANS = false, i32 V> DEVICE Words<S, V> pack_numbers(const f32 (&v)[V]) {
  const bool first = is_bf16<S> && !NANS;
  u32 w[V];
#pragma unroll
  for (i32 j = 0; j < V; j++) {
    u32 b = bits_of(v[j]);
    w[j] = first ? b + 0x7fff + (b >> 16 & 1) : element_bits(Narrow<S>::from(v[j]));
  }
  return pack_words<S, first>(w);
}
