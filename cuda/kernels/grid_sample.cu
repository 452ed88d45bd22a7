#include "bicubic.cuh"

struct GridSampleArgs {
  Sampler sampler;
  i64 positions; // of all images
  i64 channels; // per thread
};

// One thread samples some channels at one output position: the sum of v * w
// over the taps inside, in order, from +0; nearest copies.
template <class S, i32 D> DEVICE void grid_sample(const GridSampleArgs &a) {
  typedef typename Compute<S>::type T;
  const Sampler &s = a.sampler;
  const i32 taps = 1 << D;
  const i64 groups = (s.channels + a.channels - 1) / a.channels;
  for (i64 w = thread_number(); w < a.positions * groups; w += thread_count()) {
    i64 group = div_(w, a.positions);
    Position<D> p(s, w - group * a.positions);
    Cell<T, D> cell(s, p);
    i64 offset[taps];
    T weight[taps];
    bool inside[taps];
#pragma unroll
    for (i32 i = 0; i < taps; i++) {
      inside[i] = cell.tap(s, i, s.input.axis, offset[i]);
      weight[i] = cell.weight(i);
    }
    i64 c = group * a.channels, stop = c + a.channels < s.channels ? c + a.channels : s.channels;
    const S *in = (const S *)s.input.data + p.image * s.input.image + c * s.input.channel;
    S *out = (S *)s.output.data + p.in(s.output) + c * s.output.channel;
    for (; c < stop; c++, in += s.input.channel, out += s.output.channel) {
      T sum = 0;
      if (s.mode == nearest) {
        if (inside[0]) sum = widen<T>(in[offset[0]]);
      } else {
#pragma unroll
        for (i32 i = 0; i < taps; i++) {
          if (inside[i]) sum += widen<T>(in[offset[i]]) * weight[i];
        }
      }
      *out = Narrow<S>::from(sum);
    }
  }
}

// The same with bicubic, of images.
template <class S> DEVICE void grid_sample_bicubic(const GridSampleArgs &a) {
  typedef typename Compute<S>::type T;
  const Sampler &s = a.sampler;
  const i64 groups = (s.channels + a.channels - 1) / a.channels;
  for (i64 w = thread_number(); w < a.positions * groups; w += thread_count()) {
    i64 group = div_(w, a.positions);
    Position<2> p(s, w - group * a.positions);
    CubicAxis<T> x(s, p, 0), y(s, p, 1);
    i64 c = group * a.channels, stop = c + a.channels < s.channels ? c + a.channels : s.channels;
    const S *in = (const S *)s.input.data + p.image * s.input.image;
    S *out = (S *)s.output.data + p.in(s.output);
    for (; c < stop; c++) {
      T sum = cubic_sum<S, T>(in + c * s.input.channel, s.input.axis, x, y, x.weight, y.weight);
      out[c * s.output.channel] = Narrow<S>::from(sum);
    }
  }
}

#define GRID_SAMPLE_BICUBIC(S) \
  KERNEL(grid_sample_bicubic_##S, GridSampleArgs) { grid_sample_bicubic<S>(a); }
GRID_SAMPLE_BICUBIC(f32)
GRID_SAMPLE_BICUBIC(f64)
GRID_SAMPLE_BICUBIC(f16)
GRID_SAMPLE_BICUBIC(bf16)

#define GRID_SAMPLE(S, D) \
  KERNEL(grid_sample_##D##d_##S, GridSampleArgs) { grid_sample<S, D>(a); }
EACH_SAMPLER(GRID_SAMPLE)
