#include "rows.cuh"

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
// base of the last column is 1. This is what folds need of it.
template <class S, i32 D> struct AffineGradient : Adding {
  typedef AffineArgs Args;
  typedef typename Compute<S>::type T;
  static constexpr i32 SUMS = D + 1;
  struct Channel {
    i64 total;
  };

  static DEVICE Channel start(const Args &a, i64) { return {a.positions}; }
  static DEVICE void finish(const Args &a, i64 row, const T (&sums)[SUMS]) {
    for (i32 d = 0; d <= D; d++) element<S>(a.theta, row * SUMS + d) = Narrow<S>::from(sums[d]);
  }
};

// An axis along which threads walk. Its quotients in f32 are exact as those of Levels are.
DEVICE f32 quotient(f32 n, f32 by, f32 inverse) {
  f32 u = n * inverse;
  return fma_(fma_(-by, u, n), inverse, u);
}
DEVICE f64 quotient(f64 n, f64 by, f64) { return n / by; }

template <class T> struct Axis {
  u32 size, odd;
  T by, inverse, less;

  DEVICE void set(i64 extent, i32 align_corners) { // as base_coordinate
    size = extent > 0 ? (u32)extent : 1;
    odd = !align_corners;
    by = (T)(align_corners && size > 1 ? size - 1 : size);
    inverse = 1 / by;
    less = align_corners && size == 1 ? 0 : 1;
  }
  DEVICE T base(u32 i) const { return quotient((T)(2 * i + odd), by, inverse) - less; }
};

// A position, or a distance of positions, along the axes.
template <i32 D> struct Steps {
  u32 at[D];

  template <class T> DEVICE Steps(const Axis<T> (&axis)[D], i64 positions) {
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      i64 next = d + 1 < D ? div_(positions, axis[d].size) : 0;
      at[d] = (u32)(positions - next * axis[d].size);
      positions = next;
    }
  }
  template <class T> DEVICE void advance(const Axis<T> (&axis)[D], const Steps &by) {
    u32 carry = 0;
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      at[d] += by.at[d] + carry;
      carry = d + 1 < D && at[d] >= axis[d].size;
      if (carry) at[d] -= axis[d].size;
    }
  }
};

// A block of threads has 16 of the lanes of a block of positions of an image. All
// threads make terms, each of some positions of a lane; then one adds those of a
// lane and a sum. They leave lanes' sums in a.stripe.lanes.
const i32 affine_lanes = 16, affine_rows = stripe_threads / affine_lanes;

template <class S, i32 D> struct AffineTile {
  typedef typename Compute<S>::type T;
  static constexpr i32 SUMS = D * (D + 1), each = 96 / (sizeof(T) * SUMS); // positions of a thread
  Pack<T, each> terms[SUMS][affine_rows][affine_lanes];
};

template <class S, i32 D> DEVICE void affine_sums(const AffineArgs &a, AffineTile<S, D> &t) {
  typedef typename Compute<S>::type T;
  const i32 each = AffineTile<S, D>::each, SUMS = AffineTile<S, D>::SUMS, parts = stripe_lanes / affine_lanes,
            turn = affine_rows * each * stripe_lanes; // positions from one to the next
  const i32 lane = threadIdx.x % affine_lanes, row = threadIdx.x / affine_lanes;
  Axis<T> axis[D];
#pragma unroll
  for (i32 d = 0; d < D; d++) axis[d].set(a.size[d], a.align_corners);
  const i64 apart = a.grid.rank == 0 ? 1 : a.grid.stride[a.grid.rank - 1]; // coordinates of a position
  const Steps<D> one(axis, stripe_lanes), rest(axis, turn - (each - 1) * stripe_lanes);
  for (i64 w = blockIdx.x; w < a.n * a.stripe.blocks * parts; w += gridDim.x) {
    const i64 image = div_(w / parts, a.stripe.blocks), block = w / parts - image * a.stripe.blocks;
    const i64 start = block * stripe_block, left = a.positions - start;
    const i32 count = (i32)(left < stripe_block ? left : stripe_block);
    const i32 own = (i32)(w % parts) * affine_lanes + lane;
    i32 p = row * each * stripe_lanes + own; // from start on
    Steps<D> place(axis, start + p);
    S in[each][D];
    auto load = [&]() {
#pragma unroll
      for (i32 u = 0; u < each; u++) {
        const i64 at = (image * a.positions + start + p + u * stripe_lanes) * D;
        if (p + u * stripe_lanes >= count) {
          for (i32 d = 0; d < D; d++) in[u][d] = S{};
        } else if (D == 2 && a.grid.rank == 0) {
          Pack<S, 2> v = *(const Pack<S, 2> *)((const S *)a.grid.data + at);
          for (i32 d = 0; d < 2; d++) in[u][d] = v.v[d];
        } else {
          const S *v = (const S *)a.grid.data + offset_of(a.grid, at);
          for (i32 d = 0; d < D; d++) in[u][d] = v[d * apart];
        }
      }
    };
    load();
    T sum = 0;
#pragma unroll 1
    for (i32 from = 0; from < count; from += turn) {
      Pack<T, each> terms[SUMS];
#pragma unroll
      for (i32 u = 0; u < each; u++) {
        T b[D + 1];
#pragma unroll
        for (i32 d = 0; d < D; d++) b[d] = axis[d].base(place.at[d]);
        b[D] = 1;
#pragma unroll
        for (i32 k = 0; k < SUMS; k++) terms[k].v[u] = widen<T>(in[u][k / (D + 1)]) * b[k % (D + 1)];
        place.advance(axis, u + 1 < each ? one : rest);
      }
#pragma unroll
      for (i32 k = 0; k < SUMS; k++) t.terms[k][row][lane] = terms[k];
      p += turn;
      load();
      __syncthreads();
      if (row < SUMS) {
#pragma unroll
        for (i32 r = 0; r < affine_rows; r++) {
          const Pack<T, each> v = t.terms[row][r][lane];
#pragma unroll
          for (i32 u = 0; u < each; u++) sum += v.v[u];
        }
      }
      __syncthreads();
    }
    if (row < SUMS) ((T *)a.stripe.lanes)[((block * stripe_lanes + own) * a.n + image) * SUMS + row] = sum;
  }
}

#define AFFINE_GRID(S, D)                                              \
  KERNEL(affine_grid_##D##d_##S, AffineArgs) { affine_grid<S, D>(a); } \
  typedef AffineGradient<S, D> Gradient##S##D;                         \
  KERNEL(affine_grid_backward_##D##d_##S, AffineArgs) {                \
    __shared__ AffineTile<S, D> tile;                                  \
    affine_sums<S, D>(a, tile);                                        \
  }                                                                    \
  LANES_KERNELS(affine_grid_backward_##D##d_##S, Gradient##S##D)
AFFINE_GRID(f32, 2)
AFFINE_GRID(f64, 2)
AFFINE_GRID(f16, 2)
AFFINE_GRID(bf16, 2)
AFFINE_GRID(f32, 3)
AFFINE_GRID(f64, 3)
AFFINE_GRID(f16, 3)
AFFINE_GRID(bf16, 3)
