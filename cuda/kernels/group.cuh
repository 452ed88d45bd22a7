// Sums over channels in Group order (NUMERICS.md, section 4): a group of 16
// folds by halves, groups add left to right. The threads of a block share
// positions: blockDim.y of them take the groups of one position in turn.
#pragma once
#include "sampler.cuh"

const i32 group_channels = 16;
const i32 few_channels = 4;
const i32 group_threads = 256;

// The channels of a position whose terms are Totals, of an image and of
// grad_output.
template <class Taps, class Totals> struct GroupFold {
  typedef typename Taps::S S;
  typedef typename Taps::T T;
  typedef typename Taps::Offset Offset;
  const Sampler &s;
  const Image &image;
  const Taps &taps;
  const S *dy; // of the position, at channel 0
  const Offset channels;

  DEVICE GroupFold(const Sampler &sampler, const Image &m, const Taps &t, const Position<Taps::DIMS> &p)
      : s(sampler), image(m), taps(t),
        dy(as_it_is((const S *)sampler.output.data + p.template in<Offset>(sampler.output))),
        channels((Offset)sampler.channels) {}

  // Folds N channels, from c on every STEP-th: c with c + 2 * STEP first. Not ALL
  // need be there; those that are not read as c does, and add +0.
  template <i32 N, i32 STEP, bool ALL = true> DEVICE void some(Offset c, Totals &out) const {
    Offset at[N];
    typename Taps::Pixels v[N];
    T g[N];
    Totals part[N];
#pragma unroll
    for (i32 i = 0; i < N; i++) {
      const Offset own = ALL || c + i * STEP < channels ? c + i * STEP : c;
      at[i] = own * (Offset)image.channel;
      g[i] = widen<T>(dy[own * (Offset)s.output.channel]);
    }
    taps.load((const S *)image.data, at, v);
#pragma unroll
    for (i32 i = 0; i < N; i++) {
      taps.terms(v[i], g[i], part[i]);
      if (!ALL && c + i * STEP >= channels) part[i].clear();
    }
#pragma unroll
    for (i32 i = 2; i < N; i++) part[i - 2].add(part[i]);
    if constexpr (N > 1) part[0].add(part[1]);
    out = part[0];
  }
  // Folds the channels c, c + STEP, ... of a group: halves first, so that the
  // whole group folds c with c + 8, then with c + 4, + 2, + 1. From step LAST on
  // there is none but c: the others' +0 could change the sign of a zero alone,
  // which does not outlive the +0 that total begins with.
  template <i32 STEP, i32 LAST> DEVICE void fold(Offset c, Totals &out) const {
    if constexpr (STEP * (Taps::QUADS ? 4 : 1) == LAST) {
      out.clear();
      if (c >= channels) return;
      if constexpr (!Taps::QUADS)
        some<1, STEP>(c, out);
      else if (c + 3 * STEP < channels)
        some<4, STEP>(c, out);
      else
        some<4, STEP, false>(c, out);
    } else {
#pragma unroll Taps::FOLDS
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
  // Folds the group that begins at c.
  DEVICE void group(Offset c, Totals &out) const {
    if constexpr (Taps::FEW) {
      if (channels == 3) return some<3, 1>(c, out);
      if (channels == 1) return some<1, 1>(c, out);
      fold<1, few_channels>(c, out);
    } else {
      if (Taps::FOLDS > 1 && channels <= few_channels) return fold<1, few_channels>(c, out); // long code stands once
      fold<1, group_channels>(c, out);
    }
  }
};

// Sums the terms of all channels at a position, or nothing where there is
// none here. All threads of a block call it, and those of a warp have one
// threadIdx.y where Taps::QUADS.
template <class Taps, class Totals>
DEVICE void group_sums(const Sampler &s, const Image &image, const Taps &taps, const Position<Taps::DIMS> &p, bool here,
                       Totals *shared, Totals &total) {
  typedef typename Taps::Offset Offset;
  const GroupFold<Taps, Totals> fold(s, image, taps, p);
  const Offset groups = (fold.channels + group_channels - 1) / group_channels;
  Totals group;
  total.clear();
  if constexpr (Taps::FEW) {
    group.clear();
    if (groups > 0) fold.group(0, group);
    return total.add(group);
  }
  for (Offset first = 0; first < groups; first += blockDim.y) {
    const Offset own = first + threadIdx.y;
    group.clear();
    if (own < groups && (Taps::QUADS || (here && taps.any))) fold.group(own * group_channels, group);
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
