// Bilinear and nearest taps of images within which i32 offsets reach: pixels of
// a row are neighbours, grids are aligned pairs, extents are at most 2^24
// (samplerArgs.flat in ../grid.go).
#pragma once
#include "linear.cuh"

// What Cell is for any image.
template <class T> struct FlatCell {
  typedef i32 Offset;
  T s[2], t[2], k[2];
  i32 at[2]; // the near pixel, perhaps outside
  bool in[2][2]; // whether the near and the far one are inside; nearest: only the near one

  DEVICE FlatCell(const Sampler &sampler, const Position<2> &p) {
    T g[2];
    load_grid<Offset>(sampler, sampler.grid, p, g);
#pragma unroll
    for (i32 d = 0; d < 2; d++) {
      const T size = (T)(i32)sampler.size[d];
      const Coordinate<T> x = pad<T>(sampler, unpadded<T>(sampler, g[d], size), size);
      const T c = abs_(x.c) < (T)(1 << 30) ? x.c : (T)-2; // there are taps at neither, nor at a NaN
      const T base = sampler.mode == nearest ? rint_(c) : floor_(c);
      t[d] = c - base;
      s[d] = (base + 1) - c;
      k[d] = x.k;
      at[d] = (i32)base;
      in[d][0] = (u32)at[d] < (u32)sampler.size[d];
      in[d][1] = (u32)at[d] + 1 < (u32)sampler.size[d] && sampler.mode != nearest;
    }
  }
  DEVICE T derivative(i32 axis) const { return k[axis]; }
  DEVICE bool still(const Sampler &sampler, i32 axis) const { return k[axis] == 0 && sampler.padding != zeros; }
};

// A pointer to global memory that the compiler takes as it is, so that one step
// goes from it to each channel.
template <class S> DEVICE const S *as_it_is(const S *p) {
#ifdef ISOBIT_SHIM
  return p;
#else
  size_t address = __cvta_generic_to_global(p);
  asm("" : "+l"(address));
  return (const S *)__cvta_global_to_generic(address);
#endif
}

// Two threads load the taps of their two positions together, one the near
// column, one the far one: what is asked for at once lies in one sector mostly.
template <class Element> struct FlatTaps : LinearRules<Element, 2, FlatCell<typename Compute<Element>::type>> {
  typedef LinearRules<Element, 2, FlatCell<typename Compute<Element>::type>> Rules;
  typedef typename Rules::T T;
  typedef typename Rules::Pixels Pixels;
  typedef u32 Number;
  static constexpr i32 FOLDS = 1;
  static constexpr bool QUADS = true;
  const i32 row; // from one to the next
  i32 at[2]; // of both positions, in the near row and this thread's column
  bool inside[2][2]; // of both positions, in the near row and in the far one

  DEVICE FlatTaps(const Sampler &sampler, const Image &image, const Position<2> &p)
      : Rules(sampler, p), row((i32)image.axis[1]) {
    const FlatCell<T> &cell = this->place;
#pragma unroll
    for (i32 i = 0; i < 4; i++) this->weight[i] = (i & 1 ? cell.t[0] : cell.s[0]) * (i & 2 ? cell.t[1] : cell.s[1]);
    this->any = (cell.in[0][0] || cell.in[0][1]) && (cell.in[1][0] || cell.in[1][1]);
    const i32 own = (i32)((u32)p.image * (u32)image.image + (u32)cell.at[1] * (u32)row + (u32)cell.at[0]);
    const u32 column = 1 + far_column(),
              mask = cell.in[0][0] | cell.in[0][1] << 1 | cell.in[1][0] << 2 | cell.in[1][1] << 3;
    const i32 other = partners(own);
    const u32 others = partners(mask);
    at[0] = (far_column() ? other : own) + far_column();
    at[1] = (far_column() ? own : other) + far_column();
#pragma unroll
    for (i32 i = 0; i < 2; i++) {
      const u32 in = far_column() == i ? mask : others;
      inside[i][0] = (in & (column | 4)) == (column | 4);
      inside[i][1] = (in & (column | 8)) == (column | 8);
    }
  }
  static DEVICE i32 far_column() { return threadIdx.x & 1; } // blockDim.x is even
  template <class V> static DEVICE V partners(V v) { return __shfl_xor_sync(0xffffffffu, v, 1); }

  template <i32 N> DEVICE void load(const Element *in, const i32 (&channel)[N], Pixels (&out)[N]) const {
    const Element *from[4];
#pragma unroll
    for (i32 i = 0; i < 4; i++) from[i] = as_it_is(in + (at[i & 1] + (i >> 1) * row));
    T v[N][2][2];
#pragma unroll
    for (i32 j = 0; j < N; j++) {
#pragma unroll
      for (i32 i = 0; i < 4; i++) {
        v[j][i >> 1][i & 1] = 0;
        if (inside[i & 1][i >> 1]) v[j][i >> 1][i & 1] = widen<T>(from[i][channel[j]]);
      }
    }
#pragma unroll
    for (i32 j = 0; j < N; j++) {
#pragma unroll
      for (i32 y = 0; y < 2; y++) {
        const T other = partners(far_column() ? v[j][y][0] : v[j][y][1]);
        out[j].v[2 * y] = far_column() ? other : v[j][y][0];
        out[j].v[2 * y + 1] = far_column() ? v[j][y][1] : other;
      }
    }
  }
};
