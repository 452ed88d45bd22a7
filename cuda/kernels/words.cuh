// Packs of elements as words, which one instruction may make of two or four, and which are
// taken apart where they are used and not where they are loaded, which would wait.
#pragma once
#include "dtypes.cuh"

template <class S, i32 V> struct Words {
  static constexpr i32 bytes = sizeof(S) * V;
  static constexpr i32 count = (bytes + 3) / 4, each = 4 / sizeof(S); // words; elements of a word
  Pack<u32, count> w;

  // An element's bits, and others above them.
  DEVICE u32 bits(i32 j) const { return w.v[j / each] >> 32 / each * (j % each); }
  DEVICE S operator[](i32 j) const {
    if constexpr (sizeof(S) == 8)
      return from_bits((u64)w.v[2 * j + 1] << 32 | w.v[2 * j]);
    else if constexpr (sizeof(S) == 4)
      return from_bits(w.v[j]);
    else if constexpr (sizeof(S) == 2)
      return S{(u16)bits(j)};
    else
      return (S)bits(j);
  }
  // Loads V elements, which are aligned as a Pack of them is.
  DEVICE void load(const S *p) {
    if constexpr (bytes == 1)
      w.v[0] = *(const u8 *)p;
    else if constexpr (bytes == 2)
      w.v[0] = *(const u16 *)p;
    else
      w = *(const Pack<u32, count> *)p;
  }
};
template <class S, i32 V> DEVICE Words<S, V> &words_at(const Tensor &t, i64 pack) {
  return ((Words<S, V> *)t.data)[pack];
}

template <class T, class S, i32 V> DEVICE void unpack(T (&v)[V], const Words<S, V> &p) {
#pragma unroll
  for (i32 j = 0; j < V; j++) v[j] = widen<T>(p[j]);
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

#ifndef ISOBIT_SHIM
// Two numbers as f16, the first one in the last bits.
DEVICE u32 two_halves(f32 x, f32 y) {
  u32 w;
  asm("{ .reg .b16 x, y; cvt.rn.f16.f32 x, %1; cvt.rn.f16.f32 y, %2; mov.b32 %0, {x, y}; }" : "=r"(w) : "f"(x), "f"(y));
  return w;
}
#endif

// The first bytes of four elements from j on.
template <class S, i32 V> DEVICE u32 first_bytes(const Words<S, V> &p, i32 j) {
  const u32 *w = p.w.v + j / Words<S, V>::each;
  if constexpr (sizeof(S) == 2) return __byte_perm(w[0], w[1], 0x7531);
  return __byte_perm(__byte_perm(w[0], w[1], 0x0073), __byte_perm(w[2], w[3], 0x0073), 0x5410);
}

template <class S> constexpr bool is_bf16 = false;
template <> constexpr bool is_bf16<bf16> = true;

// Numbers as bits of S, which are the first ones of a word where S is bf16.
template <class S> DEVICE u32 narrow_bits(f32 v) {
  if constexpr (is_bf16<S>) return v != v ? 0x7fc00000 : bits_of(v) + 0x7fff + (bits_of(v) >> 16 & 1);
  if constexpr (sizeof(S) == 2) return float_to_half(v);
  return bits_of(v);
}
template <class S, i32 V> DEVICE Words<S, V> pack_numbers(const f32 (&v)[V]) {
  u32 w[V];
#pragma unroll
  for (i32 j = 0; j < V; j++) w[j] = narrow_bits<S>(v[j]);
  return pack_words<S, is_bf16<S>>(w);
}

// The same of zeros, of sizes from 2^-100 to 2^100 and of NaNs. Their product with 2^16 + 1,
// rounded, ends where a bf16 does: what is left beside it is rounded there, ties to even.
template <class S, i32 V> DEVICE Words<S, V> pack_usual(const f32 (&v)[V]) {
  u32 w[V];
#pragma unroll
  for (i32 j = 0; j < V; j++) {
    const f32 far = v[j] * 65537;
    w[j] = is_bf16<S> ? bits_of(far - (far - v[j])) : narrow_bits<S>(v[j]);
  }
  return pack_words<S, is_bf16<S>>(w);
}
