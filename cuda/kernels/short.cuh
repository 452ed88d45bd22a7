// Stripe order of short reductions that follow one another in memory, all of one
// length. A warp takes 32 of them, several at a time, each of which has as many
// threads as reductions have turns: so in the end every thread has one to finish,
// and at first loads what that one needs, for all to take from it.
#pragma once
#include "rows.cuh"

template <i32 STEPS> struct ShortForm {
  static DEVICE constexpr i32 channel(i32 n, i32) { return n / STEPS; }
  static DEVICE constexpr i32 sums(i32 n) { return n / STEPS; }
};

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

// A thread has up to STEPS packs of a reduction, and takes two packs at a time or
// a reduction's, while it waits for the next.
template <class Job, i32 V, i32 STEPS> DEVICE void stripe_short(const typename Job::Args &a) {
  typedef typename Job::T T;
  const i32 each = STEPS < 2 ? 2 : STEPS, turns = each / STEPS, S = Job::SUMS, W = Job::ANY_ORDER ? 1 : V;
  const Stripe &s = a.stripe;
  const i32 threads = 1 << s.log_threads, lane = threadIdx.x % 32, self = lane % threads, group = lane - self;
  const i32 apart = 32 / threads, length = (i32)s.longest; // a thread's next reduction is so far from this one
  for (i64 w = thread_number() / 32; w * 32 < s.reductions; w += thread_count() / 32) {
    const i64 first = w * 32 + group / threads, own = first + self * apart;
    const i32 left = (i32)(s.reductions - first < 32 ? s.reductions - first : 32);
    i64 at[2][each];
    typename Job::template In<V> in[2][each];
    typename Job::Channel mine = {}, ch[turns] = {};
    auto here = [&](i32 turn, i32 u) {
      return (turn + u / STEPS) * apart < left && turn + u / STEPS < threads &&
             u % STEPS * stripe_lanes + self * V < length;
    };
    auto ask = [&](i32 h, i32 turn) {
#pragma unroll
      for (i32 u = 0; u < each; u++) {
        at[h][u] = (first + (turn + u / STEPS) * apart) * length + u % STEPS * stripe_lanes + self * V;
        in[h][u] = {};
        if (here(turn, u)) Job::template load<true>(a, mine, at[h][u], in[h][u]);
      }
    };
    ask(0, 0);
    ask(1, turns);
    if (own < s.reductions) Job::ready(a, own, mine);
    T total[S];
#pragma unroll
    for (i32 k = 0; k < S; k++) total[k] = 0;
#pragma unroll 1
    for (i32 turn = 0; turn < threads; turn += 2 * turns) {
#pragma unroll
      for (i32 h = 0; h < 2; h++) {
        const i32 now = turn + h * turns;
        T sums[turns][S][W];
#pragma unroll
        for (i32 n = 0; n < turns * S * W; n++) sums[n / (S * W)][n / W % S][n % W] = 0;
#pragma unroll
        for (i32 r = 0; r < turns; r++) Job::take(ch[r], mine, group + (now + r) % threads);
        Job::template add<ShortForm<STEPS>, true>(a, ch, at[h], in[h], [&](i32 u) { return here(now, u); }, sums);
        ask(h, now + 2 * turns);
        for (i32 by = threads / 2; by > 0; by /= 2) {
#pragma unroll
          for (i32 n = 0; n < turns * S * W; n++) {
            T &sum = sums[n / (S * W)][n / W % S][n % W];
            sum = Job::join(n / W % S, sum, __shfl_xor_sync(0xffffffffu, sum, by));
          }
        }
#pragma unroll
        for (i32 n = 0; n < turns * S; n++) {
          T(&row)[W] = sums[n / S][n % S];
          for (i32 by = W / 2; by > 0; by /= 2) {
            for (i32 j = 0; j < by; j++) row[j] = Job::join(n % S, row[j], row[j + by]);
          }
          if (now + n / S == self) total[n % S] = row[0];
        }
      }
    }
    if (own < s.reductions) Job::finish(a, own, total);
  }
}

// Reductions of up to 4 steps.
template <class Job, i32 V> DEVICE void stripe_short(const typename Job::Args &a) {
  if (a.stripe.longest <= stripe_lanes)
    stripe_short<Job, V, 1>(a);
  else if (a.stripe.longest <= 2 * stripe_lanes)
    stripe_short<Job, V, 2>(a);
  else
    stripe_short<Job, V, 4>(a);
}
