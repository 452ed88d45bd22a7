#include "packed.cuh"
#include "quant_map.cuh"

struct PackedArgs {
  Quant q;
  Tensor codes, x; // bytes; the floats
  i64 rows, columns;
  Tiles tiles;
};

// A thread makes one byte of codes, or two floats out of one.
template <class F> DEVICE void each_byte(const PackedArgs &a, i64 first, F f) {
  const i64 bytes = (a.columns + 1) / 2;
#pragma unroll 1
  for (i64 b = first + thread_number(); b < a.rows * bytes; b += thread_count()) {
    i64 row = div_(b, bytes), column = 2 * (b - row * bytes);
    f(b, row * a.columns + column, a.columns - column < 2 ? 1 : 2);
  }
}

// A code of u = x / s in four bits.
template <class T> DEVICE u32 four_bits(const Param<T> &p, T u) { return (u32)(i32)p.code(u) & 15; }

template <class X> DEVICE void quantize_packed(const PackedArgs &a) {
  typedef typename Compute<X>::type T;
  const i32 V = 16 / sizeof(X);
  typedef typename HalfPack<V>::type Codes;
  auto run = [&](const Levels<T> &p, i64 k) {
    T x[V];
    u32 code[V];
    load_pack<T, X>(x, a.x, k * V);
#pragma unroll
    for (i32 j = 0; j < V; j++) code[j] = four_bits(p, p.divide(a.q.reciprocal, x[j]));
    ((Codes *)a.codes.data)[k] = pack_halves(code);
  };
  if constexpr (sizeof(T) == 4)
    each_pack<Levels<T>, tile_each, true>(
        a.q, a.tiles, [&](i64 first, i32 i) { return (&words_at<X, V>(a.x, first))[i]; },
        [&](const Levels<T> &p, const Words<X, V> &in, i64 first, i32 i) {
          T x[V];
          u32 code[V];
          p.prepare(x, in);
#pragma unroll
          for (i32 j = 0; j < V; j++) code[j] = bits_of(p.level(x[j]) + p.z);
          ((Codes *)a.codes.data + first)[i] = pack_halves(code);
        },
        run);
  else
    each_pack_slowly<Levels<T>>(a.q, a.tiles, run);
  each_byte(a, a.tiles.packs * (V / 2), [&](i64 b, i64 i, i32 n) {
    u32 byte = 0;
#pragma unroll 1
    for (i32 j = 0; j < n; j++) {
      Param<T> p;
      p.load(a.q, param_of(a.q, i + j));
      byte |= four_bits(p, p.divide(a.q.reciprocal, get<X>(a.x, i + j))) << 4 * j;
    }
    element<u8>(a.codes, b) = (u8)byte;
  });
}

template <class Y> DEVICE void dequantize_packed(const PackedArgs &a) {
  typedef typename Compute<Y>::type T;
  const i32 V = 16 / sizeof(Y);
  typedef typename HalfPack<V>::type Codes;
  auto run = [&](const Param<T> &p, i64 k) {
    T y[V];
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      u8 byte = (u8)(((const Codes *)a.codes.data)[k] >> 8 * (j / 2));
      y[j] = ((T)nibble(byte, j & 1, a.codes.dtype) - p.z) * p.s;
    }
    store_pack<Y>(a.x, k * V, y);
  };
  if constexpr (sizeof(T) == 4) {
    // Signed codes, less -8, are unsigned ones.
    const bool is_signed = a.codes.dtype == s4_;
    each_pack<Values<u8, T>, tile_each, true>(
        a.q, a.tiles, [&](i64 first, i32 i) { return ((const Codes *)a.codes.data + first)[i]; },
        [&](const Values<u8, T> &p, Codes codes, i64 first, i32 i) {
          u32 w = is_signed ? codes ^ 0x88888888 : codes;
          f32 y[V], less = is_signed ? 8 : 0;
#pragma unroll
          for (i32 j = 0; j < V; j++) y[j] = p.value((j % 2 ? w >> 4 : w) & 0x0f0f0f0f, j / 2, less);
          (&words_at<Y, V>(a.x, first))[i] = pack_usual<Y>(y);
        },
        run);
  } else {
    each_pack_slowly<Plain<T>>(a.q, a.tiles, run);
  }
  each_byte(a, a.tiles.packs * (V / 2), [&](i64 b, i64 i, i32 n) {
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

#define PACKED(X)                                                           \
  KERNEL_FIT(quantize_packed_##X, PackedArgs, 4) { quantize_packed<X>(a); } \
  KERNEL_FIT(dequantize_packed_##X, PackedArgs, 5) { dequantize_packed<X>(a); }
EACH_FLOAT(PACKED)
