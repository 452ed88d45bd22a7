// The taps of bicubic grid_sample (NUMERICS.md, section 6): 16 for each
// position, row by row; in volumes 64, plane by plane.
#pragma once
#include "cell.cuh"

// The weight of a tap at distance u, from 1 to 2 or up to 1, and its derivatives.
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
template <class T> DEVICE T cubic_outer_bend(T u) {
  const T a = -0.75f;
  return (6 * a) * u - 10 * a;
}
template <class T> DEVICE T cubic_inner_bend(T u) {
  const T a = -0.75f;
  return (6 * (a + 2)) * u - 2 * (a + 3);
}

const i32 cubic_taps = 4; // along an axis

// The taps of a position along one axis. T is the compute type.
template <class T> struct CubicAxis {
  i32 at[cubic_taps]; // pixels, or -1
  T weight[3][cubic_taps], k; // weight: then its derivatives, then second ones
  bool finite; // else k counts as 0

  DEVICE void locate(const Sampler &sampler, i32 axis, T g) {
    const T size = (T)(i32)sampler.size[axis];
    Coordinate<T> x = unpadded<T>(sampler, g, size);
    finite = x.c - x.c == 0;
    k = x.k;
    if (!finite) x.c = sampler.padding == border && x.c > 0 ? size - 1 : (T)0;
    T base = floor_(x.c), t = x.c - base, s = 1 - t;
    weight[0][0] = cubic_outer<T>(t + 1), weight[0][1] = cubic_inner<T>(t);
    weight[0][2] = cubic_inner<T>(s), weight[0][3] = cubic_outer<T>(s + 1);
    weight[1][0] = cubic_outer_slope<T>(t + 1), weight[1][1] = cubic_inner_slope<T>(t);
    weight[1][2] = -cubic_inner_slope<T>(s), weight[1][3] = -cubic_outer_slope<T>(s + 1);
    weight[2][0] = cubic_outer_bend<T>(t + 1), weight[2][1] = cubic_inner_bend<T>(t);
    weight[2][2] = cubic_inner_bend<T>(s), weight[2][3] = cubic_outer_bend<T>(s + 1);
#pragma unroll
    for (i32 i = 0; i < cubic_taps; i++) {
      Coordinate<T> place = {base + (T)(i - 1), 0};
      place = pad<T>(sampler, place, size);
      at[i] = finite || sampler.padding != zeros ? pixel_at(place.c, sampler.size[axis]) : -1;
    }
  }
  // The weight, or its derivative, of a tap that is only known at run time.
  DEVICE T pick(i32 order, i32 tap) const {
    T w = 0;
#pragma unroll
    for (i32 i = 0; i < cubic_taps; i++) {
      if (i == tap) w = weight[order][i];
    }
    return w;
  }
};

// The taps of a position: what Cell is for bilinear. Two bits of a tap's
// number, from the lowest, are its number along each axis.
template <class T, i32 D> struct CubicCell {
  static constexpr i32 taps = 1 << 2 * D;
  typedef i64 Offset;
  CubicAxis<T> axis[D];

  DEVICE CubicCell(const Sampler &sampler, const Position<D> &p) {
    T g[D];
    load_grid<Offset>(sampler, sampler.grid, p, g);
#pragma unroll
    for (i32 d = 0; d < D; d++) axis[d].locate(sampler, d, g[d]);
  }
  // The row-major number of a tap's pixel in all images, or none.
  DEVICE i64 pixel(const Sampler &sampler, const Position<D> &p, i32 tap, i64 none) const {
    i64 number = p.image;
    bool inside = true;
#pragma unroll
    for (i32 d = D - 1; d >= 0; d--) {
      const i32 at = axis[d].at[tap >> 2 * d & 3];
      number = number * sampler.size[d] + at;
      inside = inside && at >= 0;
    }
    return inside ? number : none;
  }
  // The product of the weights along the axes, differentiated along one of them.
  DEVICE T product(i32 tap, i32 along) const {
    T w = axis[0].pick(along == 0, tap & 3);
#pragma unroll
    for (i32 d = 1; d < D; d++) w *= axis[d].pick(along == d, tap >> 2 * d & 3);
    return w;
  }
  DEVICE T weight(i32 tap) const { return product(tap, -1); }
  DEVICE T slope(i32 tap, i32 along) const { return product(tap, along); }
  DEVICE T derivative(i32 d) const { return axis[d].k; }
  DEVICE bool still(const Sampler &, i32 d) const { return !axis[d].finite; }
};

// How often weights along an axis are differentiated, for each of SUMS sums;
// along x less often than KINDS.
struct CubicValue {
  static constexpr i32 SUMS = 1, KINDS = 1;
  static DEVICE i32 order(i32, i32) { return 0; }
};
template <i32 D> struct CubicSlopes { // by each axis
  static constexpr i32 SUMS = D, KINDS = 2;
  static DEVICE i32 order(i32 sum, i32 axis) { return sum == axis; }
};
template <i32 D> struct CubicBends { // by pairs of an axis with itself and those after it
  static constexpr i32 SUMS = D * (D + 1) / 2, KINDS = 3;
  static DEVICE i32 number(i32 first, i32 second) { return first * D - first * (first + 1) / 2 + second; }
  static DEVICE i32 order(i32 sum, i32 axis) {
    const i32 first = (sum >= number(1, 1)) + (D == 3 && sum >= number(D - 1, D - 1));
    return (first == axis) + (sum - number(first, 0) == axis);
  }
};

// What LinearTaps is for bilinear.
template <class Element, i32 D> struct CubicTaps {
  typedef Element S;
  typedef typename Compute<S>::type T;
  typedef CubicCell<T, D> Place;
  typedef i64 Offset, Number;
  static constexpr i32 DIMS = D, FOLDS = 1, AT_ONCE = 1;
  static constexpr bool QUADS = false, FEW = false, SELF = true;
  typedef Sums<T, CubicSlopes<D>::SUMS> Slopes;
  typedef Sums<T, CubicBends<D>::SUMS> Bends;
  typedef const S *Pixels; // pixel 0 of the image's channel
  const Image &image;
  i64 first; // of the image
  Place place;
  bool any;

  DEVICE CubicTaps(const Sampler &s, const Image &m, const Position<D> &p)
      : image(m), first(p.image * m.image), place(s, p), any(true) {
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      bool some = false;
#pragma unroll
      for (i32 i = 0; i < cubic_taps; i++) some = some || place.axis[d].at[i] >= 0;
      any = any && some;
    }
  }
  DEVICE void load(const S *in, const i64 (&channel)[1], Pixels (&out)[1]) const { out[0] = in + first + channel[0]; }
  // The pixel of a tap; 0 outside, which adds nothing to a sum.
  DEVICE T tap(Pixels in, i32 x, i32 y, i32 z) const {
    const i32 n[] = {x, y, z};
    i64 offset = 0;
    bool inside = true;
#pragma unroll
    for (i32 d = D - 1; d >= 0; d--) {
      inside = inside && place.axis[d].at[n[d]] >= 0;
      offset += (i64)(u32)place.axis[d].at[n[d]] * image.axis[d];
    }
    return inside ? widen<T>(in[offset]) : (T)0;
  }
  // Sums of values times weights: along rows, over the rows of a plane, then
  // over planes.
  template <class Orders> DEVICE void sums(Pixels in, T (&sum)[Orders::SUMS]) const {
    const i32 N = Orders::SUMS;
#pragma unroll
    for (i32 n = 0; n < N; n++) sum[n] = 0;
#pragma unroll
    for (i32 z = 0; z < (D == 3 ? cubic_taps : 1); z++) {
      T plane[N];
#pragma unroll
      for (i32 n = 0; n < N; n++) plane[n] = 0;
#pragma unroll
      for (i32 y = 0; y < cubic_taps; y++) {
        T row[Orders::KINDS];
#pragma unroll
        for (i32 r = 0; r < Orders::KINDS; r++) row[r] = 0;
#pragma unroll
        for (i32 x = 0; x < cubic_taps; x++) {
          T v = tap(in, x, y, z);
#pragma unroll
          for (i32 r = 0; r < Orders::KINDS; r++) row[r] += v * place.axis[0].weight[r][x];
        }
#pragma unroll
        for (i32 n = 0; n < N; n++) plane[n] += row[Orders::order(n, 0)] * place.axis[1].weight[Orders::order(n, 1)][y];
      }
#pragma unroll
      for (i32 n = 0; n < N; n++) {
        if constexpr (D == 3)
          sum[n] += plane[n] * place.axis[D - 1].weight[Orders::order(n, D - 1)][z];
        else
          sum[n] = plane[n];
      }
    }
  }
  DEVICE T value(Pixels in) const {
    T out[1];
    sums<CubicValue>(in, out);
    return out[0];
  }
  DEVICE void terms(Pixels in, T g, Slopes &out) const {
    sums<CubicSlopes<D>>(in, out.sum);
#pragma unroll
    for (i32 n = 0; n < CubicSlopes<D>::SUMS; n++) out.sum[n] *= g;
  }
  DEVICE void terms(Pixels in, T g, Bends &out) const {
    sums<CubicBends<D>>(in, out.sum);
#pragma unroll
    for (i32 n = 0; n < CubicBends<D>::SUMS; n++) out.sum[n] *= g;
  }
  DEVICE bool still(i32 d) const { return !any || !place.axis[d].finite; }
  DEVICE T gradient(const Slopes &total, i32 d) const { return still(d) ? (T)0 : total.sum[d] * place.axis[d].k; }
  DEVICE T bend(const Bends &total, i32 axis, i32 other) const {
    return total.sum[axis < other ? CubicBends<D>::number(axis, other) : CubicBends<D>::number(other, axis)];
  }
};
