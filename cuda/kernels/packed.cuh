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
