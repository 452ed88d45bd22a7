#include "rows.cuh"

struct AffineArgs {
  Stripe stripe; // backward: a reduction per element of theta
  i64 n, positions; // images; positions of one
  i64 size[3]; // extents along x, y, z
  Tensor theta, grid; // [n, D, D+1], [n, ..., D]
  i32 align_corners, pad;
};

template <class T> DEVICE T base_coordinate(i64 i, i64 size, i32 align_corners) {
  if (!align_corners) return (T)(2 * i + 1) / (T)size - 1;
  return size == 1 ? (T)0 : (T)(2 * i) / (T)(size - 1) - 1;
}

// The base coordinates of a position of an image.
template <class T, i32 D> DEVICE void base_coordinates(const AffineArgs &a, i64 position, T (&b)[D]) {
#pragma unroll
  for (i32 d = 0; d < D; d++) {
    i64 next = div_(position, a.size[d]);
    b[d] = base_coordinate<T>(position - next * a.size[d], a.size[d], a.align_corners);
    position = next;
  }
}

template <class S, i32 D> DEVICE void affine_grid(const AffineArgs &a) {
  typedef typename Compute<S>::type T;
  for (i64 w = thread_number(); w < a.n * a.positions; w += thread_count()) {
    i64 image = div_(w, a.positions);
    T b[D];
    base_coordinates<T, D>(a, w - image * a.positions, b);
    for (i32 row = 0; row < D; row++) {
      i64 t = (image * D + row) * (D + 1);
      T v = get<S>(a.theta, t) * b[0] + get<S>(a.theta, t + 1) * b[1];
      if (D == 3) v += get<S>(a.theta, t + 2) * b[D - 1];
      element<S>(a.grid, w * D + row) = Narrow<S>::from(v + get<S>(a.theta, t + D));
    }
  }
}

// An element of theta, whose gradient has terms dgrid[..., row] * base, the base
// of column; that of the last column is 1. Divisors of base_coordinate are size.
template <class T> struct AffineElement {
  i64 total, first; // first: of dgrid's elements, which are D apart
  i64 period, extent; // positions between two indices along the column's axis; indices
  T size, inverse;
  i32 first_numerator; // of index 0
  bool last;
};

struct AffinePlace {
  i64 element, index;
};

// Goes through the positions, with their indices along an axis.
template <i32 STEP, i32 D> struct AffineWalk {
  AffinePlace place;
  i64 period, extent, phase, phases, indices;

  template <class T>
  DEVICE AffineWalk(const AffineArgs &, const AffineElement<T> &e, i64 position) : period(e.period), extent(e.extent) {
    i64 index = div_(position, period), step = div_(STEP, period);
    place = {e.first + position * D, index - div_(index, extent) * extent};
    phase = position - index * period;
    phases = STEP - step * period;
    indices = step - div_(step, extent) * extent;
  }
  DEVICE AffinePlace at() const { return place; }
  DEVICE void next() {
    place.element += STEP * D;
    place.index += indices;
    phase += phases;
    if (phase >= period) {
      phase -= period;
      place.index++;
    }
    if (place.index >= extent) place.index -= extent;
  }
};

// x / s, which in f32 a step of Newton's makes of x times the inverse of s, for
// every significand of both.
DEVICE f32 divide(f32 x, f32 s, f32 inverse) {
  f32 u = x * inverse;
  return fma_(fma_(-s, u, x), inverse, u);
}
DEVICE f64 divide(f64 x, f64 s, f64) { return x / s; }

template <class S, i32 D> struct AffineGradient : Adding {
  typedef AffineArgs Args;
  typedef typename Compute<S>::type T;
  typedef AffineElement<T> Channel;
  template <i32 STEP, bool> using Walk = AffineWalk<STEP, D>;
  template <i32 V> using In = Loaded<S, V>;
  static constexpr i32 SUMS = 1;

  static DEVICE Channel start(const Args &a, i64 c) {
    Channel ch = {};
    i64 row = div_(c, D + 1), image = div_(row, D);
    i32 column = (i32)(c - row * (D + 1));
    ch.total = a.positions;
    ch.first = image * a.positions * D + row - image * D;
    ch.last = column == D;
    ch.period = ch.extent = 1;
    for (i32 d = 0; d < D; d++) {
      if (d < column) ch.period *= a.size[d];
      if (d == column) ch.extent = a.size[d];
    }
    if (ch.total == 0) ch.period = ch.extent = 1;
    ch.size = (T)(a.align_corners ? ch.extent - 1 : ch.extent);
    ch.inverse = 1 / ch.size;
    ch.first_numerator = a.align_corners ? 0 : 1;
    return ch;
  }
  static DEVICE void ready(const Args &, i64, Channel &) {}
  template <i32 V, bool PLAIN> static DEVICE In<V> load(const Args &a, const Channel &, const AffinePlace &p) {
    In<V> in;
    in.template load<PLAIN>(a.grid, p.element);
    return in;
  }
  template <i32 V, bool>
  static DEVICE void add(const Args &, const Channel (&ch)[1], const AffinePlace &p, const In<V> &in, T (&sums)[1][1]) {
    i64 twice = 2 * p.index + ch[0].first_numerator;
    T v[1], base = divide(ch[0].extent < 1 << 30 ? (T)(i32)twice : (T)twice, ch[0].size, ch[0].inverse) - 1;
    in.unpack(v);
    if (ch[0].size == 0) base = 0; // of one index, with align_corners
    sums[0][0] += ch[0].last ? v[0] : v[0] * base;
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&sums)[1]) {
    element<S>(a.theta, c) = Narrow<S>::from(sums[0]);
  }
};

#define AFFINE_GRID(S, D)                                              \
  KERNEL(affine_grid_##D##d_##S, AffineArgs) { affine_grid<S, D>(a); } \
  typedef AffineGradient<S, D> Gradient##S##D;                         \
  ROW_KERNELS(affine_grid_backward_##D##d_##S, Gradient##S##D)
AFFINE_GRID(f32, 2)
AFFINE_GRID(f64, 2)
AFFINE_GRID(f16, 2)
AFFINE_GRID(bf16, 2)
AFFINE_GRID(f32, 3)
AFFINE_GRID(f64, 3)
AFFINE_GRID(f16, 3)
AFFINE_GRID(bf16, 3)
