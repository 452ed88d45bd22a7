// Outputs that are like grad_output: what each channel has at a position.
#pragma once
#include "sampler.cuh"

// Computes channels [c, c + N) at a position, where out is channel 0.
template <i32 N, class Values, class S, class Offset>
DEVICE void some_channels(const Values &values, const Image &image, S *out, bool here, Offset c) {
  typename Compute<S>::type y[N];
  values.at(c, y);
  if (!here) return;
#pragma unroll
  for (i32 j = 0; j < N; j++) out[(c + j) * (Offset)image.channel] = Narrow<S>::from(y[j]);
}

// Computes an output that is like grad_output: one thread takes up to
// a.channels channels at one position, AT_ONCE at a time, from Values, made for
// that position by all threads of a warp.
template <class Values> DEVICE void each_channel(const typename Values::Args &a) {
  typedef typename Values::S S;
  typedef typename Values::Offset Offset;
  const i32 N = Values::AT_ONCE;
  const Sampler &s = a.sampler;
  const Offset channels = (Offset)s.channels, each = (Offset)a.channels;
  const Offset groups = channels <= each ? 1 : (channels + each - 1) / each;
  each_position<Values::DIMS, typename Values::Number>(
      s, groups, [&](const Position<Values::DIMS> &p, bool here, Offset group) {
        Values values(a, p);
        Offset c = group * each;
        const Offset stop = channels - c < each ? channels : c + each;
        S *out = as_it_is((S *)s.output.data + p.template in<Offset>(s.output));
#pragma unroll 1
        for (; c + N <= stop; c += N) some_channels<N>(values, s.output, out, here, c);
        if constexpr (N == 4) {
          if (stop - c == 3) return some_channels<3>(values, s.output, out, here, c);
        }
#pragma unroll 1
        for (; c < stop; c++) some_channels<1>(values, s.output, out, here, c);
      });
}
