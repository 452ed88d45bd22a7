#include "sampler.cuh"

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

// Differences of taps along each axis, times the upstream gradient. For each
// axis: those with the other axes' near taps first, as in cpu.differences.
template <class T, i32 D> struct Differences {
  static constexpr i32 each = 1 << (D - 1);
  T sum[D * each];

  DEVICE void clear() {
#pragma unroll
    for (i32 i = 0; i < D * each; i++) sum[i] = 0;
  }
  DEVICE void add(const Differences &o) {
#pragma unroll
    for (i32 i = 0; i < D * each; i++) sum[i] += o.sum[i];
  }
};

// The tap with a zero bit inserted at an axis.
DEVICE i32 near_tap(i32 i, i32 axis) { return (i >> axis << (axis + 1)) | (i & ((1 << axis) - 1)); }

template <class S, i32 D> struct GroupFold {
  typedef typename Compute<S>::type T;
  static constexpr i32 taps = 1 << D;
  const Sampler &s;
  const S *in, *dy; // of the position, at channel 0
  i64 offset[taps];
  bool inside[taps];

  DEVICE GroupFold(const Sampler &sampler) : s(sampler) {}

  DEVICE void term(i64 c, Differences<T, D> &out) const {
    out.clear();
    if (c >= s.channels) return;
    T g = widen<T>(dy[c * s.output.channel]), v[taps];
#pragma unroll
    for (i32 i = 0; i < taps; i++) {
      v[i] = 0;
      if (inside[i]) v[i] = widen<T>(in[c * s.input.channel + offset[i]]);
    }
#pragma unroll
    for (i32 axis = 0; axis < D; axis++) {
#pragma unroll
      for (i32 i = 0; i < out.each; i++) {
        i32 near = near_tap(i, axis);
        out.sum[axis * out.each + i] = g * (v[near | 1 << axis] - v[near]);
      }
    }
  }
  // Folds the channels c, c + STEP, ... of a group: halves first, so that the
  // whole group folds c with c + 8, then with c + 4, + 2, + 1.
  template <i32 STEP> DEVICE void fold(i64 c, Differences<T, D> &out) const {
    if constexpr (STEP == group_channels) {
      term(c, out);
    } else {
      Differences<T, D> right;
      fold<2 * STEP>(c, out);
      fold<2 * STEP>(c + STEP, right);
      out.add(right);
    }
  }
};

// Weights the sums of one axis by the distances along the other axes.
template <class T, i32 D> DEVICE T weighted(const Differences<T, D> &total, const Cell<T, D> &cell, i32 axis) {
  const T *d = total.sum + axis * total.each;
  if (D == 3 && axis == 2) {
    T sum = 0;
#pragma unroll
    for (i32 i = 0; i < 4; i++) sum += d[i] * ((i & 1 ? cell.t[0] : cell.s[0]) * (i & 2 ? cell.t[1] : cell.s[1]));
    return sum;
  }
  T s = cell.s[1 - axis], t = cell.t[1 - axis];
  T top = d[0] * s + d[1] * t;
  if (D == 2) return top;
  T bottom = d[total.each - 2] * s + d[total.each - 1] * t;
  return top * cell.s[D - 1] + bottom * cell.t[D - 1];
}

template <class S, i32 D>
DEVICE void grid_gradient(const GridGradientArgs &a, Differences<typename Compute<S>::type, D> *shared) {
  typedef typename Compute<S>::type T;
  const Sampler &s = a.sampler;
  const i64 groups = (s.channels + group_channels - 1) / group_channels;
  for (i64 from = (i64)blockIdx.x * blockDim.x; from < a.positions; from += (i64)gridDim.x * blockDim.x) {
    i64 number = from + threadIdx.x;
    bool here = number < a.positions;
    Position<D> p(s, here ? number : 0);
    Cell<T, D> cell(s, p);
    GroupFold<S, D> fold(s);
    fold.in = (const S *)s.input.data + p.image * s.input.image;
    fold.dy = (const S *)s.output.data + p.in(s.output);
    bool any = false;
#pragma unroll
    for (i32 i = 0; i < fold.taps; i++) {
      fold.inside[i] = cell.tap(s, i, s.input.axis, fold.offset[i]);
      any = any || fold.inside[i];
    }
    Differences<T, D> total, group;
    total.clear();
    for (i64 first = 0; first < groups; first += blockDim.y) {
      group.clear();
      if (here && any && first + threadIdx.y < groups)
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
      T v = 0;
      if (any && (cell.k[d] != 0 || s.padding == zeros) && s.mode != nearest) v = weighted(total, cell, d) * cell.k[d];
      set_as(a.out, s.grid_dtype, at + d * a.out_coordinate, v);
    }
  }
}

#define GRID_GRADIENT(S, D)                                            \
  KERNEL(grid_gradient_##D##d_##S, GridGradientArgs) {                 \
    __shared__ Differences<Compute<S>::type, D> shared[group_threads]; \
    grid_gradient<S, D>(a, shared);                                    \
  }
EACH_SAMPLER(GRID_GRADIENT)
