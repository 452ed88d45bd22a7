#include "bicubic.cuh"
#include "linear.cuh"

struct GridSampleArgs {
  Sampler sampler;
  i64 channels; // per thread
};

template <class Taps> struct Sample {
  typedef GridSampleArgs Args;
  typedef typename Taps::S S;
  static constexpr i32 DIMS = Taps::DIMS, AT_ONCE = Taps::AT_ONCE;
  const Image &image;
  const S *in;
  Taps taps;

  DEVICE Sample(const Args &a, const Position<DIMS> &p)
      : image(a.sampler.input), in((const S *)image.data + p.image * image.image), taps(a.sampler, image, p) {}
  template <i32 N> DEVICE void at(i64 c, typename Taps::T (&y)[N]) const {
    taps.sample(in + c * image.channel, image.channel, y);
  }
};

// A type contains commas, which a macro's argument must not.
#define GRID_SAMPLE(S, D)                                                                               \
  typedef Sample<LinearTaps<S, D>> Linear##S##D;                                                        \
  typedef Sample<CubicTaps<S, D>> Cubic##S##D;                                                          \
  KERNEL_FIT(grid_sample_##D##d_##S, GridSampleArgs, D == 2 ? 4 : 2) { each_channel<Linear##S##D>(a); } \
  KERNEL(grid_sample_bicubic_##D##d_##S, GridSampleArgs) { each_channel<Cubic##S##D>(a); }
EACH_SAMPLER(GRID_SAMPLE)
