#include "packed.cuh"
#include "quant.cuh"

struct PackedArgs {
  Quant q;
  Tensor codes, x; // bytes; the floats
  i64 rows, columns;
};

// A thread makes one byte of codes, or two floats out of one.
template <class F> DEVICE void each_byte(const PackedArgs &a, F f) {
  const i64 bytes = (a.columns + 1) / 2;
  for (i64 b = thread_number(); b < a.rows * bytes; b += thread_count()) {
    i64 row = div_(b, bytes), column = 2 * (b - row * bytes);
    f(b, row * a.columns + column, a.columns - column < 2 ? 1 : 2);
  }
}

template <class X> DEVICE void quantize_packed(const PackedArgs &a) {
  typedef typename Compute<X>::type T;
  each_byte(a, [&](i64 b, i64 i, i32 n) {
    u32 byte = 0;
#pragma unroll 1
    for (i32 j = 0; j < n; j++) {
      Param<T> p;
      p.load(a.q, param_of(a.q, i + j));
      byte |= ((u32)(i32)p.template code<no_float8>(get<X>(a.x, i + j)) & 15) << 4 * j;
    }
    element<u8>(a.codes, b) = (u8)byte;
  });
}

template <class Y> DEVICE void dequantize_packed(const PackedArgs &a) {
  typedef typename Compute<Y>::type T;
  each_byte(a, [&](i64 b, i64 i, i32 n) {
    u8 byte = element<u8>(a.codes, b);
#pragma unroll 1
    for (i32 j = 0; j < n; j++) {
      Param<T> p;
      p.load(a.q, param_of(a.q, i + j));
      T q = (T)nibble(byte, j, a.codes.dtype);
      element<Y>(a.x, i + j) = Narrow<Y>::from((q - p.z) * p.s);
    }
  });
}

#define PACKED(X)                                                    \
  KERNEL(quantize_packed_##X, PackedArgs) { quantize_packed<X>(a); } \
  KERNEL(dequantize_packed_##X, PackedArgs) { dequantize_packed<X>(a); }
EACH_FLOAT(PACKED)
