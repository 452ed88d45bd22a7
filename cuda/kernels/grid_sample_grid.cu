#include "bicubic.cuh"
#include "flat.cuh"
#include "group.cuh"
#include "link.cuh"

// The gradient of grid_sample's grid.
struct GridGradientArgs {
  Sampler sampler; // output: grad_output
  Grid out;
  Links links; // for the input's gradient: heads are null where there is none, or another kernel links
};

template <class Taps> DEVICE void grid_gradient(const GridGradientArgs &a, typename Taps::Slopes *shared) {
  const i32 D = Taps::DIMS;
  const Sampler &s = a.sampler;
  each_position<D, typename Taps::Number>(s, 1, [&](const Position<D> &p, bool here, i64) {
    const Taps taps(s, s.input, p);
    const bool first = here && threadIdx.y == 0;
    if constexpr (Taps::QUADS) {
      if (a.links.heads && threadIdx.y == 0) link_taps(a.links, taps, p, here);
    }
    typename Taps::Slopes total;
    total.clear();
    if (s.mode != nearest) group_sums(s, s.input, taps, p, here, shared, total);
    if (!first) return;
    typename Taps::T v[D];
#pragma unroll
    for (i32 d = 0; d < D; d++) v[d] = taps.gradient(total, d);
    store_grid<typename Taps::Offset>(s, a.out, p, v);
  });
}

// A type contains commas, which a macro's argument must not.
#define GRID_GRADIENT_OF(name, Taps, blocks)       \
  KERNEL_FIT(name, GridGradientArgs, blocks) {     \
    __shared__ Taps::Slopes shared[group_threads]; \
    grid_gradient<Taps>(a, shared);                \
  }
#define GRID_GRADIENT(S, D)                                   \
  typedef LinearTaps<S, D> Linear##S##D;                      \
  typedef CubicTaps<S, D> Cubic##S##D;                        \
  GRID_GRADIENT_OF(grid_gradient_##D##d_##S, Linear##S##D, 2) \
  GRID_GRADIENT_OF(grid_gradient_bicubic_##D##d_##S, Cubic##S##D, 1)
EACH_SAMPLER(GRID_GRADIENT)
#define FLAT_GRADIENT(S)                                          \
  typedef FlatTaps<S, true> Few##S;                               \
  GRID_GRADIENT_OF(grid_gradient_few_##S, Few##S, FLAT_FIT(S, 5)) \
  GRID_GRADIENT_OF(grid_gradient_flat_##S, FlatTaps<S>, FLAT_FIT(S, 4))
EACH_FLOAT(FLAT_GRADIENT)
