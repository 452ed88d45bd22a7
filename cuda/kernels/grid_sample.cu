#include "bicubic.cuh"
#include "channels.cuh"
#include "flat.cuh"

struct GridSampleArgs {
  Sampler sampler;
  i64 channels; // per thread
};

template <class Taps> struct Sample {
  typedef GridSampleArgs Args;
  typedef typename Taps::S S;
  typedef typename Taps::Offset Offset;
  typedef typename Taps::Number Number;
  static constexpr i32 DIMS = Taps::DIMS, AT_ONCE = Taps::AT_ONCE;
  const Image &image;
  Taps taps;

  DEVICE Sample(const Args &a, const Position<DIMS> &p) : image(a.sampler.input), taps(a.sampler, a.sampler.input, p) {}
  template <i32 N> DEVICE void at(Offset c, typename Taps::T (&y)[N]) const {
    Offset channel[N];
    typename Taps::Pixels pixels[N];
#pragma unroll
    for (i32 j = 0; j < N; j++) channel[j] = (c + j) * (Offset)image.channel;
    taps.load((const S *)image.data, channel, pixels);
#pragma unroll
    for (i32 j = 0; j < N; j++) y[j] = taps.value(pixels[j]);
  }
};

// A type contains commas, which a macro's argument must not.
#define GRID_SAMPLE(S, D)                                                                               \
  typedef Sample<LinearTaps<S, D>> Linear##S##D;                                                        \
  typedef Sample<CubicTaps<S, D>> Cubic##S##D;                                                          \
  KERNEL_FIT(grid_sample_##D##d_##S, GridSampleArgs, D == 2 ? 4 : 2) { each_channel<Linear##S##D>(a); } \
  KERNEL(grid_sample_bicubic_##D##d_##S, GridSampleArgs) { each_channel<Cubic##S##D>(a); }
EACH_SAMPLER(GRID_SAMPLE)

#define FLAT_SAMPLE(S)                                                                                       \
  KERNEL_FIT(grid_sample_flat_##S, GridSampleArgs, FLAT_FIT(S, 6)) { each_channel<Sample<FlatTaps<S>>>(a); } \
  KERNEL_FIT(grid_sample_nearest_##S, GridSampleArgs, FLAT_FIT(S, 6)) { each_channel<Sample<FlatNearest<S>>>(a); }
EACH_FLOAT(FLAT_SAMPLE)
