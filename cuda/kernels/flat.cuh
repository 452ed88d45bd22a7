// Taps of images within which i32 offsets reach: pixels of a row are
// neighbours, grids are aligned pairs, extents are at most 2^24
// (samplerKernel.pick in ../grid.go).
#pragma once
#include "linear.cuh"

// What Cell is for any image, and for either mode.
template <class T, bool ROUNDED = false> struct FlatCell {
  typedef i32 Offset;
  static constexpr bool NEAREST = ROUNDED;
  T s[2], t[2], k[2];
  i32 at[2]; // the near pixel, perhaps outside; nearest: the pixel
  bool in[2][2]; // whether the near and the far one are inside

  DEVICE FlatCell(const Sampler &sampler, const Position<2> &p) {
    T g[2], size[2];
    Coordinate<T> x[2];
    load_grid<Offset>(sampler, sampler.grid, p, g);
#pragma unroll
    for (i32 d = 0; d < 2; d++) {
      size[d] = (T)(i32)sampler.size[d];
      x[d] = unpadded<T>(sampler, g[d], size[d]);
    }
    if (sampler.padding != zeros) {
#pragma unroll
      for (i32 d = 0; d < 2; d++) x[d] = pad<T>(sampler, x[d], size[d]);
    }
#pragma unroll
    for (i32 d = 0; d < 2; d++) {
      const T c = abs_(x[d].c) < (T)(1 << 30) ? x[d].c : (T)-2; // there are taps at neither, nor at a NaN
      const T base = NEAREST ? rint_(c) : floor_(c);
      t[d] = c - base;
      s[d] = (base + 1) - c;
      k[d] = x[d].k;
      at[d] = (i32)base;
      in[d][0] = (u32)at[d] < (u32)sampler.size[d];
      in[d][1] = (u32)at[d] + 1 < (u32)sampler.size[d];
    }
  }
  DEVICE i32 offset(const Image &m, const Position<2> &p) const {
    return (i32)((u32)p.image * (u32)m.image + (u32)at[1] * (u32)m.axis[1] + (u32)at[0]);
  }
  DEVICE T derivative(i32 axis) const { return k[axis]; }
  DEVICE bool still(const Sampler &sampler, i32 axis) const { return k[axis] == 0 && sampler.padding != zeros; }
};

// So many blocks of 256 threads fit a multiprocessor; of f64 half as many.
#define FLAT_FIT(S, blocks) (sizeof(Compute<S>::type) == sizeof(f32) ? blocks : (blocks) / 2)

// Where the positions of a warp lie far from each other, two threads load the
// taps of both together, one the near column, one the far one: what is asked for
// at once then lies in one sector mostly.
// FEW: there are at most few_channels (group.cuh).
template <class Element, bool FEW_CHANNELS = false>
struct FlatTaps : LinearRules<Element, 2, FlatCell<typename Compute<Element>::type>> {
  typedef LinearRules<Element, 2, FlatCell<typename Compute<Element>::type>> Rules;
  typedef typename Rules::T T;
  typedef typename Rules::Pixels Pixels;
  typedef u32 Number;
  static constexpr i32 FOLDS = 1;
  static constexpr bool QUADS = true, FEW = FEW_CHANNELS;
  const i32 row; // from one to the next
  i32 own; // the near tap
  bool close; // whether the warp's taps are all inside, those of two threads near each other
  i32 at[2]; // of both positions, in the near row and this thread's column
  bool interior; // whether the warp's taps are all inside; else
  bool inside[2][2]; // of both positions, in the near row and in the far one

  DEVICE FlatTaps(const Sampler &sampler, const Image &image, const Position<2> &p)
      : Rules(sampler, p), row((i32)image.axis[1]) {
    const FlatCell<T> &cell = this->place;
    const bool (&in)[2][2] = cell.in;
#pragma unroll
    for (i32 i = 0; i < 4; i++) this->weight[i] = (i & 1 ? cell.t[0] : cell.s[0]) * (i & 2 ? cell.t[1] : cell.s[1]);
    this->any = (in[0][0] || in[0][1]) && (in[1][0] || in[1][1]);
    own = cell.offset(image, p);
    const i32 other = partners(own);
    const bool all = in[0][0] && in[0][1] && in[1][0] && in[1][1];
    close = !__any_sync(0xffffffffu, !all || (u32)own - (u32)other + 8 > 16);
    if (close) return;
    at[0] = (far_column() ? other : own) + far_column();
    at[1] = (far_column() ? own : other) + far_column();
    interior = !__any_sync(0xffffffffu, !all);
    if (interior) return;
#pragma unroll
    for (i32 y = 0; y < 2; y++) {
      const u32 near = __ballot_sync(0xffffffffu, in[0][0] && in[1][y]);
      const u32 far = __ballot_sync(0xffffffffu, in[0][1] && in[1][y]);
#pragma unroll
      for (i32 i = 0; i < 2; i++) inside[i][y] = (far_column() ? far : near) >> ((threadIdx.x & 30) + i) & 1;
    }
  }
  static DEVICE i32 far_column() { return threadIdx.x & 1; } // blockDim.x is a multiple of 32
  template <class V> static DEVICE V partners(V v) { return __shfl_xor_sync(0xffffffffu, v, 1); }

  template <i32 N> DEVICE void load(const Element *in, const i32 (&channel)[N], Pixels (&out)[N]) const {
    if (close) {
      const Element *rows[2] = {as_it_is(in + own), as_it_is(in + own + row)};
#pragma unroll
      for (i32 j = 0; j < N; j++) {
#pragma unroll
        for (i32 i = 0; i < 4; i++) out[j].v[i] = widen<T>(rows[i >> 1][channel[j] + (i & 1)]);
      }
      return;
    }
    const Element *from[4];
#pragma unroll
    for (i32 i = 0; i < 4; i++) from[i] = as_it_is(in + at[i & 1] + (i >> 1) * row);
    T v[N][2][2];
    if (interior)
      fetch<true>(from, channel, v);
    else
      fetch<false>(from, channel, v);
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
  // Loads this thread's column of both positions, in both rows.
  template <bool ALL, i32 N>
  DEVICE void fetch(const Element *const (&from)[4], const i32 (&channel)[N], T (&v)[N][2][2]) const {
#pragma unroll
    for (i32 j = 0; j < N; j++) {
#pragma unroll
      for (i32 i = 0; i < 4; i++) {
        if (!ALL) v[j][i >> 1][i & 1] = 0;
        if (ALL || inside[i & 1][i >> 1]) v[j][i >> 1][i & 1] = widen<T>(from[i][channel[j]]);
      }
    }
  }
};

// The only tap of nearest.
template <class Element> struct FlatNearest {
  typedef Element S;
  typedef typename Compute<S>::type T;
  typedef T Pixels;
  typedef i32 Offset;
  typedef u32 Number;
  static constexpr i32 DIMS = 2, AT_ONCE = 4;
  i32 at;
  bool inside;

  DEVICE FlatNearest(const Sampler &sampler, const Image &image, const Position<2> &p) {
    const FlatCell<T, true> cell(sampler, p);
    at = cell.offset(image, p);
    inside = cell.in[0][0] && cell.in[1][0];
  }
  template <i32 N> DEVICE void load(const S *in, const i32 (&channel)[N], T (&out)[N]) const {
    const S *from = as_it_is(in + at);
#pragma unroll
    for (i32 j = 0; j < N; j++) {
      out[j] = 0;
      if (inside) out[j] = widen<T>(from[channel[j]]);
    }
  }
  DEVICE T value(T pixel) const { return pixel; }
};
