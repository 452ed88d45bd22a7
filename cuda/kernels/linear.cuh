// Bilinear and nearest grid_sample at one position of an image or a volume
// (NUMERICS.md, section 6).
#pragma once
#include "sampler.cuh"

// What grid_sample and its gradients ask of the taps of a position, those of
// bicubic (bicubic.cuh) alike:
//   S, T, DIMS, Place
//   FOLDS: how often a fold of channels is unrolled
//   AT_ONCE, sample(channel of the image, pitch, out): the values there of some channels
//   Slopes, terms(channel, g, slopes): terms of a gradient by the grid
//   gradient(sums of slopes, axis): the gradient of a coordinate
//   Bends, terms(channel, g, bends), bend(sums of bends, axis, other): likewise
//     second derivatives along two axes; SELF: whether along one axis twice
template <class Element, i32 D> struct LinearTaps {
  typedef Element S;
  typedef typename Compute<S>::type T;
  typedef Cell<T, D> Place;
  static constexpr i32 DIMS = D, FOLDS = 2, AT_ONCE = D == 2 ? 16 / sizeof(T) : 1, taps = 1 << D, each = taps / 2;
  static constexpr bool SELF = false;
  typedef Sums<T, D * each> Slopes;
  typedef Sums<T, D == 2 ? 1 : 6> Bends;
  const Sampler &s;
  Place place;
  i64 offset[taps];
  T weight[taps];
  bool inside[taps], any;

  DEVICE LinearTaps(const Sampler &sampler, const Image &image, const Position<D> &p)
      : s(sampler), place(sampler, p), any(false) {
#pragma unroll
    for (i32 i = 0; i < taps; i++) {
      inside[i] = place.inside(i) && (i == 0 || s.mode != nearest);
      offset[i] = place.offset(i, image.axis);
      weight[i] = inside[i] ? place.weight(i) : (T)0;
      any = any || inside[i];
    }
  }
  // The sum of v * w over the taps, in order, from +0, which a tap outside adds,
  // too; nearest copies. All loads come before the first use.
  template <i32 N> DEVICE void sample(const S *in, i64 pitch, T (&out)[N]) const {
    T v[N][taps];
#pragma unroll
    for (i32 j = 0; j < N; j++) load(in + j * pitch, v[j]);
#pragma unroll
    for (i32 j = 0; j < N; j++) {
      T sum = 0;
#pragma unroll
      for (i32 i = 0; i < taps; i++) sum += v[j][i] * weight[i];
      out[j] = s.mode == nearest ? v[j][0] : sum;
    }
  }
  DEVICE void load(const S *in, T (&v)[taps]) const {
#pragma unroll
    for (i32 i = 0; i < taps; i++) {
      v[i] = 0;
      if (inside[i]) v[i] = widen<T>(in[offset[i]]);
    }
  }
  // The tap with a zero bit inserted at an axis.
  static DEVICE i32 near_tap(i32 i, i32 axis) { return (i >> axis << (axis + 1)) | (i & ((1 << axis) - 1)); }

  // Differences of taps along each axis, times the upstream gradient. For each
  // axis: those with the other axes' near taps first, as in cpu.differences.
  DEVICE void terms(const S *in, T g, Slopes &out) const {
    T v[taps];
    load(in, v);
#pragma unroll
    for (i32 axis = 0; axis < D; axis++) {
#pragma unroll
      for (i32 i = 0; i < each; i++) {
        i32 near = near_tap(i, axis);
        out.sum[axis * each + i] = g * (v[near | 1 << axis] - v[near]);
      }
    }
  }
  DEVICE bool still(i32 axis) const { return !any || place.still(s, axis); }
  DEVICE T gradient(const Slopes &total, i32 axis) const {
    return still(axis) || s.mode == nearest ? (T)0 : weighted(total, axis) * place.k[axis];
  }
  // Weights the sums of one axis by the distances along the other axes.
  DEVICE T weighted(const Slopes &total, i32 axis) const {
    const T *d = total.sum + axis * each;
    if (D == 3 && axis == 2) {
      T sum = 0;
#pragma unroll
      for (i32 i = 0; i < 4; i++) sum += d[i] * ((i & 1 ? place.t[0] : place.s[0]) * (i & 2 ? place.t[1] : place.s[1]));
      return sum;
    }
    T s = place.s[1 - axis], t = place.t[1 - axis];
    T top = d[0] * s + d[1] * t;
    if (D == 2) return top;
    T bottom = d[each - 2] * s + d[each - 1] * t;
    return top * place.s[D - 1] + bottom * place.t[D - 1];
  }

  // Second differences along two axes, the first of which comes first; in
  // volumes those on the third axis' near side, then on its far side.
  DEVICE void terms(const S *in, T g, Bends &out) const {
    T v[taps];
    load(in, v);
#pragma unroll
    for (i32 pair = 0; pair < D * (D - 1) / 2; pair++) {
      const i32 first = pair / 2, second = (pair + 3) / 2;
#pragma unroll
      for (i32 i = 0; i < D - 1; i++) {
        i32 near = i << (D - first - second), far = near | 1 << first, step = 1 << second;
        out.sum[pair * (D - 1) + i] = g * ((v[far + step] - v[near + step]) - (v[far] - v[near]));
      }
    }
  }
  DEVICE T bend(const Bends &total, i32 axis, i32 other) const {
    if constexpr (D == 2) return total.sum[0];
    const T *d = total.sum + (axis + other - 1) * 2;
    const i32 third = 3 - axis - other;
    return d[0] * place.s[third] + d[1] * place.t[third];
  }
};
