#include "bicubic.cuh"

// The gradient of grid_sample's grid. Sums over channels are in Group order
// (numerics.md, section 4): a group of 16 folds by halves, groups add left to
// right. The threads of a block share positions: blockDim.y of them take the
// groups of one position in turn.
struct GridGradientArgs {
  Sampler sampler;
  i64 positions;
  void *out; // like the grid
  i64 out_image, out_axis[3], out_coordinate;
};

const i32 group_channels = 16;
const i32 group_threads = 128;

// N sums at a position.
template <class T, i32 N> struct Sums {
  T sum[N];

  DEVICE void clear() {
#pragma unroll
    for (i32 i = 0; i < N; i++) sum[i] = 0;
  }
  DEVICE void add(const Sums &o) {
#pragma unroll
    for (i32 i = 0; i < N; i++) sum[i] += o.sum[i];
  }
};

// Terms of a position say what is summed over channels:
//   S, T, DIMS; Totals: the sums
//   any: whether a tap is inside
//   term(image's channel, upstream gradient, out): the terms of a channel
//   gradient(totals, axis): the gradient of a coordinate

// The tap with a zero bit inserted at an axis.
DEVICE i32 near_tap(i32 i, i32 axis) { return (i >> axis << (axis + 1)) | (i & ((1 << axis) - 1)); }

// Differences of taps along each axis, times the upstream gradient. For each
// axis: those with the other axes' near taps first, as in cpu.differences.
template <class Element, i32 D> struct LinearTerms {
  typedef Element S;
  typedef typename Compute<S>::type T;
  static constexpr i32 DIMS = D, taps = 1 << D, each = taps / 2;
  typedef Sums<T, D * each> Totals;
  const Sampler &s;
  Cell<T, D> cell;
  i64 offset[taps];
  bool inside[taps], any;

  DEVICE LinearTerms(const Sampler &sampler, const Position<D> &p) : s(sampler), cell(sampler, p), any(false) {
#pragma unroll
    for (i32 i = 0; i < taps; i++) {
      inside[i] = cell.tap(s, i, s.input.axis, offset[i]);
      any = any || inside[i];
    }
  }
  DEVICE void term(const S *in, T g, Totals &out) const {
    T v[taps];
#pragma unroll
    for (i32 i = 0; i < taps; i++) {
      v[i] = 0;
      if (inside[i]) v[i] = widen<T>(in[offset[i]]);
    }
#pragma unroll
    for (i32 axis = 0; axis < D; axis++) {
#pragma unroll
      for (i32 i = 0; i < each; i++) {
        i32 near = near_tap(i, axis);
        out.sum[axis * each + i] = g * (v[near | 1 << axis] - v[near]);
      }
    }
  }
  DEVICE T gradient(const Totals &total, i32 axis) const {
    bool has = (cell.k[axis] != 0 || s.padding == zeros) && s.mode != nearest;
    return has ? weighted(total, axis) * cell.k[axis] : (T)0;
  }
  // Weights the sums of one axis by the distances along the other axes.
  DEVICE T weighted(const Totals &total, i32 axis) const {
    const T *d = total.sum + axis * each;
    if (D == 3 && axis == 2) {
      T sum = 0;
#pragma unroll
      for (i32 i = 0; i < 4; i++) sum += d[i] * ((i & 1 ? cell.t[0] : cell.s[0]) * (i & 2 ? cell.t[1] : cell.s[1]));
      return sum;
    }
    T s = cell.s[1 - axis], t = cell.t[1 - axis];
    T top = d[0] * s + d[1] * t;
    if (D == 2) return top;
    T bottom = d[each - 2] * s + d[each - 1] * t;
    return top * cell.s[D - 1] + bottom * cell.t[D - 1];
  }
};

// With bicubic, one sum for each axis.
template <class Element> struct CubicTerms {
  typedef Element S;
  typedef typename Compute<S>::type T;
  static constexpr i32 DIMS = 2;
  typedef Sums<T, DIMS> Totals;
  const Sampler &s;
  CubicAxis<T> x, y;
  bool any;

  DEVICE CubicTerms(const Sampler &sampler, const Position<2> &p) : s(sampler), x(s, p, 0), y(s, p, 1) {
    bool some[2] = {false, false};
#pragma unroll
    for (i32 i = 0; i < cubic_taps; i++) {
      some[0] = some[0] || x.inside[i];
      some[1] = some[1] || y.inside[i];
    }
    any = some[0] && some[1];
  }
  DEVICE void term(const S *in, T g, Totals &out) const {
    out.sum[0] = g * cubic_sum<S, T>(in, s.input.axis, x, y, x.slope, y.weight);
    out.sum[1] = g * cubic_sum<S, T>(in, s.input.axis, x, y, x.weight, y.slope);
  }
  DEVICE T gradient(const Totals &total, i32 axis) const {
    const CubicAxis<T> &own = axis == 0 ? x : y;
    return own.finite ? total.sum[axis] * own.k : (T)0;
  }
};

template <class Terms> struct GroupFold {
  typedef typename Terms::S S;
  typedef typename Terms::T T;
  typedef typename Terms::Totals Totals;
  Terms terms;
  const S *in, *dy; // of the position, at channel 0

  DEVICE GroupFold(const Sampler &s, const Position<Terms::DIMS> &p)
      : terms(s, p), in((const S *)s.input.data + p.image * s.input.image),
        dy((const S *)s.output.data + p.in(s.output)) {}

  // Folds the channels c, c + STEP, ... of a group: halves first, so that the
  // whole group folds c with c + 8, then with c + 4, + 2, + 1.
  template <i32 STEP> DEVICE void fold(i64 c, Totals &out) const {
    if constexpr (STEP == group_channels) {
      const Sampler &s = terms.s;
      out.clear();
      if (c < s.channels) terms.term(in + c * s.input.channel, widen<T>(dy[c * s.output.channel]), out);
    } else {
      Totals right;
      fold<2 * STEP>(c, out);
      fold<2 * STEP>(c + STEP, right);
      out.add(right);
    }
  }
};

template <class Terms> DEVICE void grid_gradient(const GridGradientArgs &a, typename Terms::Totals *shared) {
  const i32 D = Terms::DIMS;
  const Sampler &s = a.sampler;
  const i64 groups = (s.channels + group_channels - 1) / group_channels;
  for (i64 from = (i64)blockIdx.x * blockDim.x; from < a.positions; from += (i64)gridDim.x * blockDim.x) {
    i64 number = from + threadIdx.x;
    bool here = number < a.positions;
    Position<D> p(s, here ? number : 0);
    GroupFold<Terms> fold(s, p);
    typename Terms::Totals total, group;
    total.clear();
    for (i64 first = 0; first < groups; first += blockDim.y) {
      group.clear();
      if (here && fold.terms.any && first + threadIdx.y < groups)
        fold.template fold<1>((first + threadIdx.y) * group_channels, group);
      if (blockDim.y == 1) {
        total.add(group);
        continue;
      }
      shared[threadIdx.y * blockDim.x + threadIdx.x] = group;
      __syncthreads();
      for (i32 y = 0; y < (i32)blockDim.y; y++) total.add(shared[y * blockDim.x + threadIdx.x]);
      __syncthreads();
    }
    if (!here || threadIdx.y != 0) continue;
    i64 at = p.image * a.out_image;
#pragma unroll
    for (i32 d = 0; d < D; d++) at += p.at[d] * a.out_axis[d];
#pragma unroll
    for (i32 d = 0; d < D; d++) {
      typename Terms::T v = fold.terms.any ? fold.terms.gradient(total, d) : 0;
      set_as(a.out, s.grid_dtype, at + d * a.out_coordinate, v);
    }
  }
}

// A type contains commas, which a macro's argument must not.
#define GRID_GRADIENT_OF(name, Terms)               \
  KERNEL(name, GridGradientArgs) {                  \
    __shared__ Terms::Totals shared[group_threads]; \
    grid_gradient<Terms>(a, shared);                \
  }
#define GRID_GRADIENT(S, D)                  \
  typedef LinearTerms<S, D> Terms##D##d_##S; \
  GRID_GRADIENT_OF(grid_gradient_##D##d_##S, Terms##D##d_##S)
EACH_SAMPLER(GRID_GRADIENT)
GRID_GRADIENT_OF(grid_gradient_bicubic_f32, CubicTerms<f32>)
GRID_GRADIENT_OF(grid_gradient_bicubic_f64, CubicTerms<f64>)
GRID_GRADIENT_OF(grid_gradient_bicubic_f16, CubicTerms<f16>)
GRID_GRADIENT_OF(grid_gradient_bicubic_bf16, CubicTerms<bf16>)
