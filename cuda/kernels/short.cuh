// Stripe order of short reductions that follow one another in memory, all of one
// length. A warp takes 32 of them, several at a time, each of which has as many
// threads as reductions have turns: so in the end every thread has one to finish,
// and at first loads what that one needs, for all to take from it.
#pragma once
#include "rows.cuh"

const i32 short_steps = 4; // of 64 positions: the longest reduction

// What another thread of the warp has.
template <class P> DEVICE P from_lane(const P &p, i32 lane) {
  union Parts {
    P p;
    u32 w[sizeof(P) / 4];
    DEVICE Parts() {}
  } to, from;
  from.p = p;
#pragma unroll
  for (i32 n = 0; n < (i32)(sizeof(P) / 4); n++) to.w[n] = __shfl_sync(0xffffffffu, from.w[n], lane);
  return to.p;
}

template <class Job, i32 V> DEVICE void stripe_short(const typename Job::Args &a) {
  typedef typename Job::T T;
  typedef typename Job::template In<V> In;
  const i32 ahead = 4, half = ahead / 2, S = Job::SUMS, W = Job::ANY_ORDER ? 1 : V;
  const Stripe &s = a.stripe;
  const i32 threads = 1 << s.log_threads, lane = threadIdx.x % 32, self = lane % threads, group = lane - self;
  const i32 steps = (i32)((s.longest + stripe_lanes - 1) / stripe_lanes), count = threads * steps;
  const i64 length = s.longest;
  for (i64 w = thread_number() / 32; w * 32 < s.reductions; w += thread_count() / 32) {
    const i64 first = w * 32 + group / threads, own = first + self * (32 / threads);
    const i64 left = s.reductions - first; // turns' reductions are 32 / threads apart
    In in[ahead];
    typename Job::Channel mine, ch[1];
    // Slot n is step n % steps of turn n / steps.
    auto at = [&](i32 n) {
      i32 turn = n / steps;
      return (first + turn * (32 / threads)) * length + (n - turn * steps) * stripe_lanes + self * V;
    };
    auto here = [&](i32 n) {
      i32 turn = n / steps;
      return n < count && turn * (32 / threads) < left && (n - turn * steps) * stripe_lanes + self * V < length;
    };
#pragma unroll
    for (i32 u = 0; u < ahead; u++) {
      if (here(u)) in[u] = Job::template load<V, true>(a, mine, at(u));
    }
    if (own < s.reductions) Job::ready(a, own, mine);
    T total[S], sums[S][W];
#pragma unroll
    for (i32 k = 0; k < S; k++) total[k] = 0;
#pragma unroll 1
    for (i32 n = 0; n < count; n += ahead) {
#pragma unroll
      for (i32 u = 0; u < ahead; u++) {
        const i32 turn = (n + u) / steps, step = n + u - turn * steps;
        if (step == 0) {
#pragma unroll
          for (i32 k = 0; k < S * W; k++) sums[k / W][k % W] = 0;
          Job::take(ch[0], mine, group + turn);
        }
        if (here(n + u)) Job::template add<V, true>(a, ch, at(n + u), in[u], sums);
        if (step == steps - 1) {
#pragma unroll
          for (i32 k = 0; k < S; k++) {
#pragma unroll
            for (i32 j = 0; j < W; j++) {
              for (i32 by = threads / 2; by > 0; by /= 2)
                sums[k][j] = Job::join(k, sums[k][j], __shfl_xor_sync(0xffffffffu, sums[k][j], by));
            }
#pragma unroll
            for (i32 by = W / 2; by > 0; by /= 2) {
              for (i32 j = 0; j < by; j++) sums[k][j] = Job::join(k, sums[k][j], sums[k][j + by]);
            }
            if (turn == self) total[k] = sums[k][0];
          }
        }
        if (u % half != half - 1) continue;
#pragma unroll
        for (i32 l = u + 1 - half; l <= u; l++) {
          if (here(n + ahead + l)) in[l] = Job::template load<V, true>(a, mine, at(n + ahead + l));
        }
      }
    }
    if (own < s.reductions) Job::finish(a, own, total);
  }
}
