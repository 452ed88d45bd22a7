// The gradient of grid_sample's input, of volumes and of bicubic (that of other
// images: tiles.cuh): a scatter of grad_output, weighted.
// Output positions are sorted by the cell that they fall in; a pixel then draws
// from the cells around it, one for each tap, in the order of positions.
#pragma once
#include "bicubic.cuh"
#include "scatter.cuh"

struct InputGradientArgs {
  Scatter scatter; // a destination per pixel, a column per channel
  Sampler sampler; // output: grad_output
  Image out;
  u32 *keys; // [positions], with bicubic [positions][taps]
  i64 positions;
};

// Cells are numbered with a rim of one before pixel 0 (a far tap may still be
// inside there); with nearest, cells are pixels.
template <i32 D> DEVICE i64 cell_number(const Sampler &s, i64 image, const i64 (&base)[D], i32 rim) {
  i64 number = image;
#pragma unroll
  for (i32 d = D - 1; d >= 0; d--) number = number * (s.size[d] + rim) + base[d] + rim;
  return number;
}

// What sources are, by mode: EACH of a position, which LISTS of keys name;
// Weights has those of LISTS times EACH taps.
template <class T, i32 D> struct NearestSources {
  static constexpr i32 LISTS = 1, EACH = 1;
  struct Weights {
    DEVICE Weights(const Sampler &, const Position<D> &) {}
    DEVICE T weight(i32) const { return 1; }
  };
};
template <class T, i32 D> struct LinearSources {
  static constexpr i32 LISTS = 1 << D, EACH = 1;
  typedef Cell<T, D> Weights;
};
// With bicubic, every tap is a source of its own, in the order of positions,
// then taps, sorted by pixel: taps of one position may be one pixel.
template <class T, i32 D> struct CubicSources {
  typedef CubicCell<T, D> Weights;
  static constexpr i32 LISTS = 1, EACH = Weights::taps;
};

template <class Element, i32 D, template <class, i32> class Sources, i32 COLUMNS> struct InputGradient {
  typedef InputGradientArgs Args;
  typedef Element S;
  typedef typename Compute<S>::type T;
  typedef typename Sources<T, D>::Weights Weights;
  typedef Position<D> Place;
  struct Item {
    const S *dy;
    T weight;
  };
  static constexpr i32 LISTS = Sources<T, D>::LISTS, EACH = Sources<T, D>::EACH;
  static constexpr i32 WIDTH = COLUMNS, DIMS = D;

  static DEVICE Position<D> place(const InputGradientArgs &a, i64 pixel) { return Position<D>(a.sampler.size, pixel); }
  static DEVICE i64 key(const InputGradientArgs &a, const Position<D> &pixel, i32 tap) {
    i64 base[D];
#pragma unroll
    for (i32 d = 0; d < D; d++) base[d] = (i64)pixel.at[d] - (tap >> d & 1);
    return cell_number<D>(a.sampler, pixel.image, base, LISTS == 1 ? 0 : 1);
  }
  // The tap of a source that a list names.
  static DEVICE i32 tap(u32 source, i32 list) { return EACH == 1 ? list : (i32)(source % EACH); }
  static DEVICE Item item(const InputGradientArgs &a, u32 source, i32 list) {
    const Sampler &s = a.sampler;
    Position<D> p(s.out, source / EACH);
    Item item = {(const S *)s.output.data + p.in(s.output), Weights(s, p).weight(tap(source, list))};
    return item;
  }
  static DEVICE void load(const InputGradientArgs &a, const Item &item, i64 column, i32 n, T (&term)[WIDTH]) {
    const i64 pitch = a.sampler.output.channel;
#pragma unroll
    for (i32 j = 0; j < WIDTH; j++) term[j] = j < n ? widen<T>(item.dy[(column + j) * pitch]) * item.weight : (T)0;
  }
  static DEVICE void store(const InputGradientArgs &a, i64 pixel, i64 column, i32 n, u32, T (&sum)[WIDTH]) {
    S *out = (S *)a.out.data + place(a, pixel).in(a.out) + column * a.out.channel;
#pragma unroll
    for (i32 j = 0; j < WIDTH; j++) {
      if (j < n) out[j * a.out.channel] = Narrow<S>::from(sum[j]);
    }
  }
};
