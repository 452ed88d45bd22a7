// Bilinear and nearest grid_sample at one position of an image or a volume
// (NUMERICS.md, section 6).
#pragma once
#include "cell.cuh"

// What grid_sample and its gradients ask of the taps of a position, those of
// bicubic (bicubic.cuh) and of flat images (flat.cuh) alike:
//   S, T, DIMS, Place
//   Offset, Number: of elements in a tensor; of positions
//   FOLDS: how often a fold of channels is unrolled; QUADS: whether it takes four at
//     once; FEW: whether there are not more
//   AT_ONCE: of how many channels samples are computed at once
//   Pixels, load(tensor, offsets of channels, pixels): what the taps of some channels are
//   value(pixels): the sample
//   Slopes, terms(pixels, g, slopes): terms of a gradient by the grid
//   gradient(sums of slopes, axis): the gradient of a coordinate
//   Bends, terms(pixels, g, bends), bend(sums of bends, axis, other): likewise
//     second derivatives along two axes; SELF: whether along one axis twice
// All threads of a warp call load together.

// What follows from the pixels at the taps. Cell is where they are.
template <class Element, i32 D, class Cell> struct LinearRules {
  typedef Element S;
  typedef typename Compute<S>::type T;
  typedef Cell Place;
  typedef typename Place::Offset Offset;
  static constexpr i32 DIMS = D, AT_ONCE = D == 2 ? 16 / sizeof(T) : 1, taps = 1 << D, each = taps / 2;
  static constexpr bool SELF = false;
  typedef Sums<T, D * each> Slopes;
  typedef Sums<T, D == 2 ? 1 : 6> Bends;
  struct Pixels {
    T v[taps]; // 0 outside
  };
  const Sampler &s;
  Place place;
  T weight[taps];
  bool any; // whether there is a tap inside

  DEVICE LinearRules(const Sampler &sampler, const Position<D> &p) : s(sampler), place(sampler, p), any(false) {}
  // The sum of v * w over the taps, in order, from +0, which a tap outside adds,
  // too; nearest copies.
  DEVICE T value(const Pixels &p) const {
    T sum = 0;
#pragma unroll
    for (i32 i = 0; i < taps; i++) sum += p.v[i] * weight[i];
    return copies() ? p.v[0] : sum;
  }
  DEVICE bool copies() const { return Place::NEAREST && s.mode == nearest; }
  // The tap with a zero bit inserted at an axis.
  static DEVICE i32 near_tap(i32 i, i32 axis) { return (i >> axis << (axis + 1)) | (i & ((1 << axis) - 1)); }

  // Differences of taps along each axis, times the upstream gradient. For each
  // axis: those with the other axes' near taps first, as in cpu.differences.
  DEVICE void terms(const Pixels &p, T g, Slopes &out) const {
    const T *v = p.v;
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
    return still(axis) || copies() ? (T)0 : weighted(total, axis) * place.k[axis];
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
  DEVICE void terms(const Pixels &p, T g, Bends &out) const {
    const T *v = p.v;
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

// The taps of any image or volume.
template <class Element, i32 D> struct LinearTaps : LinearRules<Element, D, Cell<typename Compute<Element>::type, D>> {
  typedef LinearRules<Element, D, Cell<typename Compute<Element>::type, D>> Rules;
  typedef typename Rules::T T;
  typedef typename Rules::Pixels Pixels;
  typedef i64 Number;
  static constexpr i32 FOLDS = 2, taps = Rules::taps;
  static constexpr bool QUADS = false, FEW = false;
  i64 offset[taps];
  bool inside[taps];

  DEVICE LinearTaps(const Sampler &sampler, const Image &image, const Position<D> &p) : Rules(sampler, p) {
#pragma unroll
    for (i32 i = 0; i < taps; i++) {
      inside[i] = this->place.inside(i) && (i == 0 || sampler.mode != nearest);
      offset[i] = p.image * image.image + this->place.offset(i, image.axis);
      this->weight[i] = inside[i] ? this->place.weight(i) : (T)0;
      this->any = this->any || inside[i];
    }
  }
  template <i32 N> DEVICE void load(const Element *in, const i64 (&channel)[N], Pixels (&out)[N]) const {
#pragma unroll
    for (i32 j = 0; j < N; j++) {
#pragma unroll
      for (i32 i = 0; i < taps; i++) {
        out[j].v[i] = 0;
        if (inside[i]) out[j].v[i] = widen<T>(in[channel[j] + offset[i]]);
      }
    }
  }
};
