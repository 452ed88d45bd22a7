#include "bicubic.cuh"
#include "channels.cuh"
#include "flat.cuh"
#include "group.cuh"

// Two of the gradients of grid_sample's gradients (NUMERICS.md, section 6): by
// the upstream gradient and by the grid.
struct GridDoubleArgs {
  Sampler sampler; // output: grad_grad_output, or to sum over channels grad_output
  i64 channels; // per thread
  Image input_tangent; // u
  Grid grid_tangent; // v
  Grid out; // grad_grid
  i32 has_input, has_grid; // whether there is a u, a v
};

// By the upstream gradient: the sample of u, then the channel's slopes times v.
template <class Taps> struct Tangent {
  typedef GridDoubleArgs Args;
  typedef typename Taps::S S;
  typedef typename Taps::T T;
  typedef typename Taps::Offset Offset;
  typedef typename Taps::Number Number;
  static constexpr i32 DIMS = Taps::DIMS, AT_ONCE = Taps::QUADS ? Taps::AT_ONCE : 1;
  const Args &a;
  Taps taps, of_tangent;
  T v[DIMS];

  DEVICE Tangent(const Args &args, const Position<DIMS> &p)
      : a(args), taps(a.sampler, a.sampler.input, p), of_tangent(a.sampler, a.input_tangent, p) {
    if (a.has_grid) load_grid<Offset>(a.sampler, a.grid_tangent, p, v);
  }
  template <i32 N>
  DEVICE void load(const Taps &at, const Image &m, Offset c, typename Taps::Pixels (&pixels)[N]) const {
    Offset channel[N];
#pragma unroll
    for (i32 j = 0; j < N; j++) channel[j] = (c + j) * (Offset)m.channel;
    at.load((const S *)m.data, channel, pixels);
  }
  template <i32 N> DEVICE void at(Offset c, T (&y)[N]) const {
    typename Taps::Pixels pixels[N];
#pragma unroll
    for (i32 j = 0; j < N; j++) y[j] = 0;
    if (a.has_input) {
      load(of_tangent, a.input_tangent, c, pixels);
#pragma unroll
      for (i32 j = 0; j < N; j++) y[j] += of_tangent.value(pixels[j]);
    }
    if (!a.has_grid) return;
    if (a.sampler.mode != nearest) load(taps, a.sampler.input, c, pixels);
#pragma unroll
    for (i32 j = 0; j < N; j++) {
      typename Taps::Slopes slopes;
      slopes.clear();
      if (a.sampler.mode != nearest) taps.terms(pixels[j], (T)1, slopes);
#pragma unroll
      for (i32 d = 0; d < DIMS; d++) y[j] += taps.gradient(slopes, d) * v[d];
    }
  }
};

// What threads of a block share: sums of one order, then of the next.
template <class Taps> union GroupShare {
  typename Taps::Slopes slopes[group_threads];
  typename Taps::Bends bends[group_threads];
};

// By the grid: what the first gradient would be of u, and how the slopes of
// the input change along q.
template <class Taps> DEVICE void grid_double(const GridDoubleArgs &a, GroupShare<Taps> &shared) {
  typedef typename Taps::T T;
  const i32 D = Taps::DIMS;
  const Sampler &s = a.sampler;
  each_position<D, typename Taps::Number>(s, 1, [&](const Position<D> &p, bool here, i64) {
    T slopes[D];
#pragma unroll
    for (i32 d = 0; d < D; d++) slopes[d] = 0;
    if (a.has_input && s.mode != nearest) {
      Taps taps(s, a.input_tangent, p);
      typename Taps::Slopes total;
      group_sums(s, a.input_tangent, taps, p, here, shared.slopes, total);
#pragma unroll
      for (i32 d = 0; d < D; d++) slopes[d] = taps.gradient(total, d);
    }
    if (a.has_grid && s.mode != nearest) {
      Taps taps(s, s.input, p);
      typename Taps::Bends total;
      group_sums(s, s.input, taps, p, here, shared.bends, total);
      Shift<T, D> shift(s, a.grid_tangent, p, taps.place);
#pragma unroll
      for (i32 d = 0; d < D; d++) {
        T sum = 0;
#pragma unroll
        for (i32 other = 0; other < D; other++) {
          if ((Taps::SELF || other != d) && !taps.still(other)) sum += shift.q[other] * taps.bend(total, d, other);
        }
        if (!taps.still(d)) slopes[d] += sum * taps.place.derivative(d);
      }
    }
    if (here && threadIdx.y == 0) store_grid<typename Taps::Offset>(s, a.out, p, slopes);
  });
}

// A type contains commas, which a macro's argument must not.
#define GRID_DOUBLE_OF(name, Taps, blocks)                 \
  KERNEL_FIT(grid_double_##name, GridDoubleArgs, blocks) { \
    __shared__ GroupShare<Taps> shared;                    \
    grid_double<Taps>(a, shared);                          \
  }
#define GRID_DOUBLE_OUTPUT_OF(name, Taps, blocks) \
  KERNEL_FIT(grid_double_output_##name, GridDoubleArgs, blocks) { each_channel<Tangent<Taps>>(a); }
#define GRID_DOUBLE(S, D)                            \
  typedef LinearTaps<S, D> Linear##S##D;             \
  typedef CubicTaps<S, D> Cubic##S##D;               \
  GRID_DOUBLE_OF(D##d_##S, Linear##S##D, 1)          \
  GRID_DOUBLE_OF(bicubic_##D##d_##S, Cubic##S##D, 1) \
  GRID_DOUBLE_OUTPUT_OF(D##d_##S, Linear##S##D, 1)   \
  GRID_DOUBLE_OUTPUT_OF(bicubic_##D##d_##S, Cubic##S##D, 1)
EACH_SAMPLER(GRID_DOUBLE)
#define FLAT_DOUBLE(S)                                  \
  typedef FlatTaps<S, true> Few##S;                     \
  GRID_DOUBLE_OF(few_##S, Few##S, FLAT_FIT(S, 5))       \
  GRID_DOUBLE_OF(flat_##S, FlatTaps<S>, FLAT_FIT(S, 4)) \
  GRID_DOUBLE_OUTPUT_OF(flat_##S, FlatTaps<S>, FLAT_FIT(S, 4))
EACH_FLOAT(FLAT_DOUBLE)
