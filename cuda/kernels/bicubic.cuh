// The taps of bicubic grid_sample (numerics.md, section 6).
#pragma once
#include "sampler.cuh"

// The weight of a tap at distance u, from 1 to 2 or up to 1, and its derivative.
template <class T> DEVICE T cubic_outer(T u) {
  const T a = -0.75f;
  return ((a * u - 5 * a) * u + 8 * a) * u - 4 * a;
}
template <class T> DEVICE T cubic_inner(T u) {
  const T a = -0.75f;
  return (((a + 2) * u - (a + 3)) * u) * u + 1;
}
template <class T> DEVICE T cubic_outer_slope(T u) {
  const T a = -0.75f;
  return ((3 * a) * u - 10 * a) * u + 8 * a;
}
template <class T> DEVICE T cubic_inner_slope(T u) {
  const T a = -0.75f;
  return ((3 * (a + 2)) * u - 2 * (a + 3)) * u;
}

const i32 cubic_taps = 4; // along an axis

// The taps of a position along one axis. T is the compute type.
template <class T> struct CubicAxis {
  i64 at[cubic_taps];
  bool inside[cubic_taps];
  T weight[cubic_taps], slope[cubic_taps], k;
  bool finite; // else k counts as 0

  DEVICE CubicAxis(const Sampler &sampler, const Position<2> &p, i32 axis) {
    i64 from = p.image * sampler.grid_image + p.at[0] * sampler.grid_axis[0] + p.at[1] * sampler.grid_axis[1];
    T g = get_as<T>(sampler.grid, sampler.grid_dtype, from + axis * sampler.grid_coordinate);
    const T size = (T)sampler.size[axis];
    Coordinate<T> x = unpadded<T>(sampler, g, size);
    finite = x.c - x.c == 0;
    k = x.k;
    if (!finite) x.c = sampler.padding == border && x.c > 0 ? size - 1 : (T)0;
    T base = floor_(x.c), t = x.c - base, s = 1 - t;
    weight[0] = cubic_outer<T>(t + 1), weight[1] = cubic_inner<T>(t);
    weight[2] = cubic_inner<T>(s), weight[3] = cubic_outer<T>(s + 1);
    slope[0] = cubic_outer_slope<T>(t + 1), slope[1] = cubic_inner_slope<T>(t);
    slope[2] = -cubic_inner_slope<T>(s), slope[3] = -cubic_outer_slope<T>(s + 1);
#pragma unroll
    for (i32 i = 0; i < cubic_taps; i++) {
      Coordinate<T> place = {base + (T)(i - 1), 0};
      place = pad<T>(sampler, place, size);
      inside[i] = whole_below(place.c, sampler.size[axis]) && (finite || sampler.padding != zeros);
      at[i] = inside[i] ? (i64)place.c : 0;
    }
  }
};

// The sum over a position's taps of values times weights: first along rows, by
// those of x, then over rows, by those of y.
template <class S, class T>
DEVICE T cubic_sum(const S *in, const i64 *stride, const CubicAxis<T> &x, const CubicAxis<T> &y,
                   const T (&wx)[cubic_taps], const T (&wy)[cubic_taps]) {
  T sum = 0;
#pragma unroll
  for (i32 i = 0; i < cubic_taps; i++) {
    T row = 0;
#pragma unroll
    for (i32 j = 0; j < cubic_taps; j++) {
      if (y.inside[i] && x.inside[j]) row += widen<T>(in[y.at[i] * stride[1] + x.at[j] * stride[0]]) * wx[j];
    }
    sum += row * wy[i];
  }
  return sum;
}
