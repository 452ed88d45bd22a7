// Stripe order of short reductions that follow one another in memory, all of one
// length. A warp takes 32 of them, 8 at a time: four threads share one, so that most
// of its tree is within a thread. Each thread loads what one of the 32 needs, for
// others to take from it, and finishes that one.
#pragma once
#include "rows.cuh"

const i32 short_threads = 4; // that share a reduction

template <class Job, i32 V> DEVICE void stripe_short(const typename Job::Args &a) {
  typedef typename Job::T T;
  typedef typename Job::template In<V> In;
  const i32 S = Job::SUMS, threads = short_threads, side = 32 / threads, packs = stripe_lanes / threads / V;
  const Stripe &s = a.stripe;
  const i32 lane = threadIdx.x % 32, self = lane % threads, group = lane - self;
  const i32 length = (i32)s.longest, steps = (length + stripe_lanes - 1) / stripe_lanes;
  for (i64 w = thread_number() / 32; w * 32 < s.reductions; w += thread_count() / 32) {
    const i64 first = w * 32 + group / threads, own = first + self * side;
    const i64 left = s.reductions - first; // turns' reductions are side apart
    In in[packs];
    typename Job::Channel mine, ch[1];
    // Pack n of a thread, in a step of 64 positions, is of lanes from lane_of(n) on.
    auto lane_of = [&](i32 n) { return (n * threads + self) * V; };
    i64 next = first * length + self * V; // what is asked for
    i32 next_step = 0, next_turn = 0;
    auto load = [&](i32 n) {
      if (next_turn < left && next_step * stripe_lanes + lane_of(n) < length)
        in[n] = Job::template load<V, true>(a, mine, next + n * threads * V);
    };
    auto advance = [&]() {
      next += stripe_lanes;
      if (++next_step < steps) return;
      next += (i64)side * length - steps * stripe_lanes;
      next_step = 0;
      next_turn += side;
      if (next_turn == 32) next_turn = 1 << 30; // no more
    };
#pragma unroll
    for (i32 n = 0; n < packs; n++) load(n);
    advance();
    Job::ready(a, own < s.reductions ? own : 0, mine);
    T total[S];
    i64 at = first * length + self * V;
#pragma unroll 1
    for (i32 turn = 0; turn < threads; turn++, at += (i64)side * length) {
      Job::take(ch[0], mine, group + turn);
      T sums[packs][S][V];
#pragma unroll
      for (i32 n = 0; n < packs * S * V; n++) sums[n / (S * V)][n / V % S][n % V] = 0;
#pragma unroll 1
      for (i32 step = 0; step < steps; step++) {
#pragma unroll
        for (i32 n = 0; n < packs; n++) {
          if (turn * side < left && step * stripe_lanes + lane_of(n) < length)
            Job::template add<V, true>(a, ch, at + step * stripe_lanes + n * threads * V, in[n], sums[n]);
          load(n);
        }
        advance();
      }
      // The tree: lanes are threads * V apart in a thread's packs, then V in threads.
#pragma unroll
      for (i32 k = 0; k < S; k++) {
#pragma unroll
        for (i32 j = 0; j < V; j++) {
#pragma unroll
          for (i32 by = packs / 2; by > 0; by /= 2) {
            for (i32 n = 0; n < by; n++) sums[n][k][j] = Job::join(k, sums[n][k][j], sums[n + by][k][j]);
          }
#pragma unroll
          for (i32 by = threads / 2; by > 0; by /= 2)
            sums[0][k][j] = Job::join(k, sums[0][k][j], __shfl_xor_sync(0xffffffffu, sums[0][k][j], by));
        }
#pragma unroll
        for (i32 by = V / 2; by > 0; by /= 2) {
          for (i32 j = 0; j < by; j++) sums[0][k][j] = Job::join(k, sums[0][k][j], sums[0][k][j + by]);
        }
        total[k] = turn == 0 || turn == self ? sums[0][k][0] : total[k];
      }
    }
    if (own < s.reductions) Job::finish(a, own, total);
  }
}
