// Stripe order without shared memory. Threads own lanes and keep their sums in
// registers; each asks for what it adds several steps ahead.
//
// rows: threads of a warp share a reduction; a thread takes V positions that are
// neighbours in memory, and those 64 further on. For positions that lie in runs.
// columns: a thread takes one lane of V reductions that are neighbours in memory,
// whose positions are as far apart as there are reductions.
#pragma once
#include "stripe.cuh"
#include "words.cuh"

// A Job says what is reduced:
//   Args (with a Stripe named stripe), T, SUMS per reduction
//   Channel: what its terms need; from start(args, reduction), which sets total, the number of
//     positions, and what Walk needs, and ready(args, reduction, channel), which loads the rest
//   Walk<STEP, PLAIN>: from (args, channel, position); at(): where the position is; next(): STEP further on
//   In<V>: inputs of V elements, from load<V, PLAIN>(args, channel, place)
//   add<V, PLAIN>(args, channels, place, in, sums[SUMS][V]): adds their terms, and stores what is made of each;
//     channels are one of them all, or one of each
// PLAIN: tensors are compact; for packs, V > 1, aligned, too
//   join(which, a, b): adds two sums, or whatever Stripe is used for
//   ANY_ORDER: join gives the same in any, so that sums of rows may be of fewer lanes than V
//   finish(args, reduction, sums)

// An element of a plain tensor, or of any.
template <bool PLAIN> DEVICE i64 plain_offset(const Tensor &t, i64 i) { return PLAIN ? i : offset_of(t, i); }

// Loads and stores V neighbours, from element i on.
template <bool PLAIN, class S, i32 V> DEVICE void load_words(Words<S, V> &words, const Tensor &t, i64 i) {
  words.load((const S *)t.data + plain_offset<PLAIN>(t, i));
}
template <bool PLAIN, class S, i32 V> DEVICE void put_pack(const Tensor &t, i64 i, const Pack<S, V> &p) {
  *(Pack<S, V> *)((S *)t.data + plain_offset<PLAIN>(t, i)) = p;
}

// A Walk of jobs to which positions are places.
template <i32 STEP> struct Straight {
  i64 position;
  template <class A, class C> DEVICE Straight(const A &, const C &, i64 from) : position(from) {}
  DEVICE i64 at() const { return position; }
  DEVICE void next() { position += STEP; }
};

const i32 row_span = 512; // positions that spans divide

// A thread asks AHEAD steps ahead: of halves in turn, since what waits for one
// load waits for those that share its scoreboard, of which there are few. SPAN steps
// follow one another in memory, of which only the first one's place is worked out.
template <class Job, i32 V, bool PLAIN, i32 AHEAD, i32 SPAN = 1> DEVICE void stripe_rows(const typename Job::Args &a) {
  typedef typename Job::T T;
  typedef typename Job::template In<V> In;
  static_assert(SPAN == 1 || row_span % (SPAN * stripe_lanes) == 0, "plain counts in spans");
  // With V = 1 a thread has two lanes, l and l + 32, and takes them in turn.
  const i32 turns = V == 1 ? 2 : 1, step = stripe_lanes / turns, ahead = AHEAD, S = Job::SUMS,
            W = Job::ANY_ORDER ? 1 : V, half = ahead / 2;
  const Stripe &s = a.stripe;
  const i32 threads = 1 << s.log_threads, self = threadIdx.x & (threads - 1);
  const i64 warp = threadIdx.x / 32 * 32;
  for (i64 from = 0;; from += gridDim.x) {
    const i64 first = (from + blockIdx.x) * blockDim.x + warp; // of the warp's threads, which stay together
    if (first >> s.log_threads >= s.reductions * s.blocks) return;
    const i64 w = (first + (threadIdx.x & 31)) >> s.log_threads, block = s.blocks == 1 ? 0 : div_(w, s.reductions),
              c = w - block * s.reductions;
    const bool here = w < s.reductions * s.blocks;
    const i64 start = block * s.block;
    T sums[turns][S][W];
#pragma unroll
    for (i32 n = 0; n < turns * S * W; n++) sums[n / (S * W)][n / W % S][n % W] = 0;
    if (here) {
      typename Job::Channel ch[1];
      ch[0] = Job::start(a, c);
      i32 left = (i32)(ch[0].total - start < s.block ? ch[0].total - start : s.block) - self * V;
      typename Job::template Walk<step * SPAN, PLAIN> walk(a, ch[0], start + self * V);
      decltype(walk.at()) at[ahead / SPAN];
      In in[ahead];
      auto load = [&](i32 u, i32 from) {
        if (u % SPAN == 0) {
          at[u / SPAN] = walk.at();
          walk.next();
        }
        if (left > from * step) in[u] = Job::template load<V, PLAIN>(a, ch[0], at[u / SPAN] + u % SPAN * step);
      };
#pragma unroll
      for (i32 u = 0; u < ahead; u++) load(u, u);
      Job::ready(a, c, ch[0]);
#pragma unroll 1
      for (; left > 0; left -= ahead * step) {
#pragma unroll
        for (i32 u = 0; u < ahead; u++) {
          if (left > u * step)
            Job::template add<V, PLAIN>(a, ch, at[u / SPAN] + u % SPAN * step, in[u], sums[u % turns]);
          if (u % half != half - 1) continue;
#pragma unroll
          for (i32 l = u + 1 - half; l <= u; l++) load(l, ahead + l);
        }
      }
    }
    // The lanes' tree: a lane's distance is that of threads times V.
#pragma unroll
    for (i32 k = 0; k < S; k++) {
#pragma unroll
      for (i32 j = 0; j < W; j++) {
        if (turns == 2) sums[0][k][j] = Job::join(k, sums[0][k][j], sums[turns - 1][k][j]);
        for (i32 by = threads / 2; by > 0; by /= 2)
          sums[0][k][j] = Job::join(k, sums[0][k][j], __shfl_down_sync(0xffffffffu, sums[0][k][j], by));
      }
#pragma unroll
      for (i32 by = W / 2; by > 0; by /= 2) {
        for (i32 j = 0; j < by; j++) sums[0][k][j] = Job::join(k, sums[0][k][j], sums[0][k][j + by]);
      }
    }
    if (!here || self != 0) continue;
    T total[S];
#pragma unroll
    for (i32 k = 0; k < S; k++) total[k] = sums[0][k][0];
    put_sums<Job>(a, c, block, total);
  }
}

// Leaves the lanes' sums in s.lanes, [blocks][lanes][reductions][SUMS].
template <class Job, i32 V, i32 AHEAD> DEVICE void stripe_columns(const typename Job::Args &a) {
  typedef typename Job::T T;
  typedef typename Job::template In<V> In;
  const i32 ahead = AHEAD, half = ahead / 2, S = Job::SUMS;
  const Stripe &s = a.stripe;
  const i64 packs = s.reductions / V, step = stripe_lanes * s.reductions;
  for (i64 w = thread_number(); w < packs * stripe_lanes * s.blocks; w += thread_count()) {
    const i64 row = div_(w, packs), c = (w - row * packs) * V, block = row / stripe_lanes, lane = row % stripe_lanes;
    const i64 start = block * s.block + lane;
    const i64 left = s.longest - block * s.block;
    const i32 count = (i32)(left < s.block ? left : s.block);
    i64 at = start * s.reductions + c;
    In in[ahead];
    typename Job::Channel ch[V] = {};
#pragma unroll
    for (i32 u = 0; u < ahead; u++) {
      if (lane + u * stripe_lanes < count) in[u] = Job::template load<V, true>(a, ch[0], at + u * step);
    }
#pragma unroll
    for (i32 j = 0; j < V; j++) Job::ready(a, c + j, ch[j]);
    T sums[S][V];
#pragma unroll
    for (i32 n = 0; n < S * V; n++) sums[n / V][n % V] = 0;
#pragma unroll 1
    for (i32 p = (i32)lane; p < count; p += ahead * stripe_lanes) {
#pragma unroll
      for (i32 u = 0; u < ahead; u++) {
        if (p + u * stripe_lanes < count) Job::template add<V, true>(a, ch, at, in[u], sums);
        at += step;
        if (u % half != half - 1) continue;
#pragma unroll
        for (i32 l = 0; l < half; l++) {
          if (p + (ahead + u - l) * stripe_lanes < count)
            in[u - l] = Job::template load<V, true>(a, ch[0], at + (ahead - 1 - l) * step);
        }
      }
    }
    T *to = (T *)s.lanes + (row * s.reductions + c) * S;
#pragma unroll
    for (i32 n = 0; n < S * V; n++) to[n] = sums[n % S][n / S];
  }
}

// Folds what stripe_columns left: of a warp's threads each has 8 lanes of one
// of 4 reductions, lane l, l + 8, ...
template <class Job> DEVICE void stripe_lanes_fold(const typename Job::Args &a) {
  typedef typename Job::T T;
  const i32 each = 8, channels = 32 / (stripe_lanes / each), S = Job::SUMS;
  const Stripe &s = a.stripe;
  const i64 groups = (s.reductions + channels - 1) / channels;
  const i32 channel = threadIdx.x % channels, lane = threadIdx.x % 32 / channels;
  for (i64 w = thread_number() / 32; w < groups * s.blocks; w += thread_count() / 32) {
    const i64 block = div_(w, groups), c = (w - block * groups) * channels + channel;
    T sums[S][each];
#pragma unroll
    for (i32 n = 0; n < S * each; n++) {
      i64 row = block * stripe_lanes + n / S * (stripe_lanes / each) + lane;
      sums[n % S][n / S] = c < s.reductions ? ((const T *)s.lanes)[(row * s.reductions + c) * S + n % S] : (T)0;
    }
    T total[S];
#pragma unroll
    for (i32 k = 0; k < S; k++) {
#pragma unroll
      for (i32 half = each / 2; half > 0; half /= 2) {
        for (i32 n = 0; n < half; n++) sums[k][n] = Job::join(k, sums[k][n], sums[k][n + half]);
      }
      total[k] = sums[k][0];
#pragma unroll
      for (i32 half = 16; half >= channels; half /= 2)
        total[k] = Job::join(k, total[k], __shfl_down_sync(0xffffffffu, total[k], half));
    }
    if (c >= s.reductions || lane != 0) continue;
    put_sums<Job>(a, c, block, total);
  }
}

// Folds what jobs leave in s.lanes.
#define LANES_KERNELS(name, Job) \
  STRIPE_FOLD(name, Job)         \
  KERNEL(name##_lanes, Job::Args) { stripe_lanes_fold<Job>(a); }

// Declares a job's entry points: V elements move at once, and are asked for AHEAD
// steps ahead.
#define ROWS_KERNELS(name, Job, V, AHEAD)                                                                          \
  KERNEL(name, Job::Args) { a.stripe.plain ? stripe_rows<Job, 1, true, 8>(a) : stripe_rows<Job, 1, false, 2>(a); } \
  STRIPE_FOLD(name, Job)                                                                                           \
  KERNEL(name##_packs, Job::Args) {                                                                                \
    a.stripe.plain == 2 ? stripe_rows<Job, V, true, AHEAD, AHEAD / 2>(a) : stripe_rows<Job, V, true, AHEAD>(a);    \
  }
