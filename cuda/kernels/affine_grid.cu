#include "stripe.cuh"

struct AffineArgs {
  Stripe stripe; // backward: a reduction per row of theta
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

// dtheta[row][column] sums dgrid[..., row] * base over the positions; the
// base of the last column is 1.
template <class S, i32 D> struct AffineGradient : Adding {
  typedef AffineArgs Args;
  typedef typename Compute<S>::type T;
  struct Channel {
    i64 total, row;
  };
  typedef T In;
  static constexpr i32 SUMS = D + 1;

  static DEVICE Channel start(const Args &a, i64 row) {
    Channel ch = {a.positions, row};
    return ch;
  }
  template <bool> static DEVICE In load(const Args &a, const Channel &ch, i64 position) {
    i64 image = ch.row / D;
    return get<S>(a.grid, (image * a.positions + position) * D + ch.row % D);
  }
  template <bool> static DEVICE void terms(const Args &a, const Channel &, i64 position, const In &in, T (&out)[SUMS]) {
    T b[D];
    base_coordinates<T, D>(a, position, b);
#pragma unroll
    for (i32 d = 0; d < D; d++) out[d] = in * b[d];
    out[D] = in;
  }
  static DEVICE void finish(const Args &a, i64 row, const T (&sums)[SUMS]) {
    for (i32 d = 0; d <= D; d++) element<S>(a.theta, row * SUMS + d) = Narrow<S>::from(sums[d]);
  }
};

#define AFFINE_GRID(S, D)                                              \
  KERNEL(affine_grid_##D##d_##S, AffineArgs) { affine_grid<S, D>(a); } \
  typedef AffineGradient<S, D> Gradient##S##D;                         \
  STRIPE_KERNELS(affine_grid_backward_##D##d_##S, Gradient##S##D)
AFFINE_GRID(f32, 2)
AFFINE_GRID(f64, 2)
AFFINE_GRID(f16, 2)
AFFINE_GRID(bf16, 2)
AFFINE_GRID(f32, 3)
AFFINE_GRID(f64, 3)
AFFINE_GRID(f16, 3)
AFFINE_GRID(bf16, 3)
