// Sums over channels in Group order (NUMERICS.md, section 4): a group of 16
// folds by halves, groups add left to right. The threads of a block share
// positions: blockDim.y of them take the groups of one position in turn.
#pragma once
#include "sampler.cuh"

const i32 group_channels = 16;
const i32 few_channels = 4;
const i32 group_threads = 128;

// The channels of a position whose terms are Totals, of an image and of
// grad_output. UNROLL: 2, or 1 where terms are long code.
template <i32 UNROLL, class Taps, class Totals> struct GroupFold {
  typedef typename Taps::S S;
  typedef typename Taps::T T;
  const Sampler &s;
  const Image &image;
  const Taps &taps;
  const S *in, *dy; // of the position, at channel 0

  DEVICE GroupFold(const Sampler &sampler, const Image &m, const Taps &t, const Position<Taps::DIMS> &p)
      : s(sampler), image(m), taps(t), in((const S *)m.data + p.image * m.image),
        dy((const S *)sampler.output.data + p.in(sampler.output)) {}

  // Folds the channels c, c + STEP, ... of a group: halves first, so that the
  // whole group folds c with c + 8, then with c + 4, + 2, + 1. From step LAST on
  // there are none but c: their +0 could change the sign of a zero alone, which
  // does not outlive the +0 that total begins with.
  template <i32 STEP, i32 LAST> DEVICE void fold(u32 c, Totals &out) const {
    if constexpr (STEP == LAST) {
      out.clear();
      if (c < (u32)s.channels) taps.terms(in + c * image.channel, widen<T>(dy[c * s.output.channel]), out);
    } else {
#pragma unroll UNROLL
      for (i32 half = 0; half < 2; half++) {
        Totals part;
        fold<2 * STEP, LAST>(c + half * STEP, part);
        if (half == 0)
          out = part;
        else
          out.add(part);
      }
    }
  }
};

// Sums the terms of all channels at a position, or nothing where there is
// none here. All threads of a block call it.
template <i32 UNROLL, class Taps, class Totals>
DEVICE void group_sums(const Sampler &s, const Image &image, const Taps &taps, const Position<Taps::DIMS> &p, bool here,
                       Totals *shared, Totals &total) {
  const i64 groups = (s.channels + group_channels - 1) / group_channels;
  GroupFold<UNROLL, Taps, Totals> fold(s, image, taps, p);
  Totals group;
  total.clear();
  for (i64 first = 0; first < groups; first += blockDim.y) {
    group.clear();
    if (here && taps.any && first + threadIdx.y < groups) {
      if (UNROLL > 1 && s.channels <= few_channels) // long code stands once
        fold.template fold<1, few_channels>(0, group);
      else
        fold.template fold<1, group_channels>((u32)(first + threadIdx.y) * group_channels, group);
    }
    if (blockDim.y == 1) {
      total.add(group);
      continue;
    }
    shared[threadIdx.y * blockDim.x + threadIdx.x] = group;
    __syncthreads();
    for (i32 y = 0; y < (i32)blockDim.y; y++) total.add(shared[y * blockDim.x + threadIdx.x]);
    __syncthreads();
  }
}
