// Where a position's coordinates are, padded, and the cell of pixels around it
// (NUMERICS.md, section 6).
#pragma once
#include "sampler.cuh"

// A padded coordinate along one axis and its derivative k, which is 0 where
// the padding sets it so.
template <class T> struct Coordinate {
  T c, k;
};

template <class T> DEVICE Coordinate<T> clip(T c, T k, T size) {
  Coordinate<T> r = {0, 0}; // at or before pixel 0, a NaN, or a single pixel
  if (c >= size - 1 && size > 1)
    r.c = size - 1;
  else if (c > 0 && size > 1)
    r.c = c, r.k = k;
  return r;
}

// Folds a coordinate at low and at low + span, with an exact remainder: the
// truncated quotient is right or one too high.
template <class T> DEVICE Coordinate<T> reflect(T c, T k, T low, T span, T size) {
  const Coordinate<T> none = {0, 0};
  const T limit = 1 << 23;
  T a = abs_(c - low), flips = trunc_(a / span);
  if (!(span > 0) || !(flips <= limit)) return none;
  T extra = fma_(-flips, span, a);
  if (extra < 0) {
    flips = flips - 1;
    extra = extra + span;
  }
  if (!(flips < limit)) return none;
  bool odd = (i32)flips & 1;
  if (odd != (c < low)) k = -k;
  return clip((odd ? span - extra : extra) + low, k, size);
}

template <class T> DEVICE Coordinate<T> unpadded(const Sampler &s, T grid, T size) {
  Coordinate<T> r;
  if (s.align_corners)
    r.c = ((grid + 1) / 2) * (size - 1), r.k = (size - 1) / 2;
  else
    r.c = ((grid + 1) * size - 1) / 2, r.k = size / 2;
  return r;
}

template <class T> DEVICE Coordinate<T> pad(const Sampler &s, Coordinate<T> r, T size) {
  if (s.padding == border) return clip(r.c, r.k, size);
  if (s.padding == reflection) {
    return s.align_corners ? reflect<T>(r.c, r.k, 0, size - 1, size) : reflect<T>(r.c, r.k, -0.5f, size, size);
  }
  return r;
}

// The pixel at a whole number p along an axis, or -1 where there is none. Extents
// are below 2^31.
template <class T> DEVICE i32 pixel_at(T p, i64 size) {
  i32 at = p >= 0 && p < 2147483648.0f ? (i32)p : -1;
  return at < (i32)size ? at : -1;
}

// The cell that a position falls in. T is the compute type.
template <class T, i32 D> struct Cell {
  typedef i64 Offset;
  static constexpr bool NEAREST = true; // or bilinear, which it may always be
  T base[D]; // the near pixel, a whole number, perhaps outside; nearest: the pixel
  T s[D], t[D], k[D];
  i32 pixel[D][2]; // the near and the far one, or -1

  DEVICE Cell(const Sampler &sampler, const Position<D> &p) {
    T g[D];
    load_grid<Offset>(sampler, sampler.grid, p, g);
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      Coordinate<T> x = pad<T>(sampler, unpadded<T>(sampler, g[d], (T)(i32)sampler.size[d]), (T)(i32)sampler.size[d]);
      base[d] = sampler.mode == nearest ? rint_(x.c) : floor_(x.c);
      t[d] = x.c - base[d];
      s[d] = (base[d] + 1) - x.c;
      k[d] = x.k;
      pixel[d][0] = pixel_at(base[d], sampler.size[d]);
      pixel[d][1] = pixel_at(base[d] + 1, sampler.size[d]);
    }
  }
  // Bit d of a tap says whether it is the near (0) or the far one along axis d.
  DEVICE bool inside(i32 tap) const {
    bool all = true;
#pragma unroll
    for (i32 d = 0; d < D; d++) all = all && pixel[d][tap >> d & 1] >= 0;
    return all;
  }
  DEVICE i64 offset(i32 tap, const i64 *stride) const {
    i64 offset = 0;
#pragma unroll
    for (i32 d = 0; d < D; d++) offset += (i64)(u32)pixel[d][tap >> d & 1] * stride[d];
    return offset;
  }
  DEVICE T weight(i32 tap) const {
    T w = tap & 1 ? t[0] : s[0];
#pragma unroll
    for (i32 d = 1; d < D; d++) w *= tap >> d & 1 ? t[d] : s[d];
    return w;
  }
  // The derivative of a corner's weight along an axis.
  DEVICE T slope(i32 tap, i32 axis) const {
    T w = tap >> axis & 1 ? 1 : -1;
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      if (d != axis) w *= tap >> d & 1 ? t[d] : s[d];
    }
    return w;
  }
  DEVICE T derivative(i32 axis) const { return k[axis]; }
  // Whether the padding has set the derivative aside.
  DEVICE bool still(const Sampler &sampler, i32 axis) const { return k[axis] == 0 && sampler.padding != zeros; }
};

// The tangents v of a position's coordinates, and q, in pixels: +0 where the
// coordinate is still. Place is a Cell, or what bicubic has for one.
template <class T, i32 D> struct Shift {
  T v[D], q[D];

  template <class Place> DEVICE Shift(const Sampler &s, const Grid &tangent, const Position<D> &p, const Place &place) {
    load_grid<typename Place::Offset>(s, tangent, p, v);
#pragma unroll
    for (i32 d = 0; d < D; d++) q[d] = place.still(s, d) ? (T)0 : v[d] * place.derivative(d);
  }
};
