// Packed codes (s4, u4): two to a byte along the last dimension, the lower half
// first; each row starts at a byte. Their tensor is one of bytes.
#pragma once
#include "dtypes.cuh"

DEVICE i32 nibble(u8 byte, i32 upper, i32 dtype) {
  i32 code = byte >> 4 * upper & 15;
  return dtype == s4_ && code > 7 ? code - 16 : code;
}

// The code of element i of a tensor whose rows have so many columns.
DEVICE i32 packed_code(const Tensor &t, i64 i, i64 columns) {
  i64 row = div_(i, columns), column = i - row * columns;
  return nibble(element<u8>(t, row * ((columns + 1) / 2) + column / 2), column & 1, t.dtype);
}

// The codes of so many elements.
template <i32 V> struct HalfPack;
template <> struct HalfPack<2> {
  typedef u8 type;
};
template <> struct HalfPack<4> {
  typedef u16 type;
};
template <> struct HalfPack<8> {
  typedef u32 type;
};

// Codes from words with a code in the last bits of each: the first ones' half bytes are
// those of even elements.
template <i32 V> DEVICE typename HalfPack<V>::type pack_halves(const u32 (&w)[V]) {
  u32 even = w[0], odd = w[1];
  if constexpr (V >= 4) even = __byte_perm(even, w[2], 0x0040), odd = __byte_perm(odd, w[3], 0x0040);
  if constexpr (V == 8) {
    even = __byte_perm(even, __byte_perm(w[4], w[6], 0x0040), 0x5410);
    odd = __byte_perm(odd, __byte_perm(w[5], w[7], 0x0040), 0x5410);
  }
  return (typename HalfPack<V>::type)((even & 0x0f0f0f0f) | (odd << 4 & 0xf0f0f0f0));
}
