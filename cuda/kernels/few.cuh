// Stripe order of reductions that are long, and too few to keep a GPU busy with a thread
// or half of one for each lane: all threads of a block make terms, V neighbours at a
// time, and then one adds those of a chain. A block's chains are the lanes of a reduction
// or, of columns, one lane of 64 reductions that are neighbours in memory. Turns have
// registers and shared memory of two sets: a thread asks two turns ahead, and makes terms
// while others add the last turn's.
#pragma once
#include "rows.cuh"

const i32 few_chains = stripe_lanes;

// EACH: how often a thread makes V terms in a turn.
template <class T, i32 S, i32 V, i32 EACH> struct FewTerms {
  static constexpr i32 high = stripe_threads / (few_chains / V), steps = EACH * high;
  T terms[2][S][steps][few_chains];
};

// A Walk of columns.
template <i32 STEP> struct ColumnWalk {
  i64 place, stride;
  DEVICE ColumnWalk(const Stripe &s, i64 from, i64 column)
      : place(from * s.reductions + column), stride(STEP * s.reductions) {}
  DEVICE i64 at() const { return place; }
  DEVICE void next() { place += stride; }
};

template <class Job, i32 V, i32 EACH, bool COLUMNS>
DEVICE void stripe_few(const typename Job::Args &a, FewTerms<typename Job::T, Job::SUMS, V, EACH> &t) {
  typedef typename Job::T T;
  typedef FewTerms<T, Job::SUMS, V, EACH> Terms;
  typedef typename Job::template In<V> In;
  const i32 S = Job::SUMS, wide = few_chains / V, high = Terms::high, steps = Terms::steps, turn = steps * stripe_lanes;
  const i32 x = threadIdx.x % wide * V, y = threadIdx.x / wide; // of the first term: its chain, and its step
  const i32 chain = threadIdx.x % few_chains, which = threadIdx.x / few_chains; // of the sum
  const Stripe &s = a.stripe;
  const i64 tiles = COLUMNS ? (s.reductions + few_chains - 1) / few_chains * stripe_lanes : s.reductions;
  for (i64 w = blockIdx.x; w < tiles * s.blocks; w += gridDim.x) {
    const i64 block = div_(w, tiles), tile = w - block * tiles, start = block * s.block;
    const i64 first = COLUMNS ? tile / stripe_lanes * few_chains : tile, c = COLUMNS ? first + x : first;
    const i32 lane = COLUMNS ? (i32)(tile % stripe_lanes) : x;
    const bool here = c < s.reductions;
    typename Job::Channel ch[COLUMNS ? V : 1] = {};
    if (!COLUMNS) ch[0] = Job::start(a, c);
    const i64 total = (COLUMNS ? s.longest : ch[0].total) - start;
    const i32 count = (i32)(total < s.block ? total : s.block);
    i32 left = here ? count - lane - y * stripe_lanes : 0; // positions from the next one on
    auto walk = [&]() {
      const i64 from = start + lane + y * stripe_lanes;
      if constexpr (COLUMNS)
        return ColumnWalk<high * stripe_lanes>(s, from, c);
      else
        return typename Job::template Walk<high * stripe_lanes, true>(a, ch[0], from);
    }();
    i64 at[2][EACH];
    In in[2][EACH];
    auto load = [&](i32 set, i32 turns) {
#pragma unroll
      for (i32 u = 0; u < EACH; u++) {
        at[set][u] = walk.at();
        walk.next();
        if (left > turns * turn + u * high * stripe_lanes)
          in[set][u] = Job::template load<V, true>(a, ch[0], at[set][u]);
      }
    };
    load(0, 0);
    load(1, 1);
#pragma unroll
    for (i32 j = 0; j < (COLUMNS ? V : 1); j++) Job::ready(a, here ? c + j : 0, ch[j]);
    T sum = 0;
    auto take = [&](i32 set) {
#pragma unroll
      for (i32 u = 0; u < EACH; u++) {
        T terms[S][V] = {};
        if (left > u * high * stripe_lanes) Job::template add<V, true>(a, ch, at[set][u], in[set][u], terms);
#pragma unroll
        for (i32 k = 0; k < S; k++) {
          Pack<T, V> pack;
#pragma unroll
          for (i32 j = 0; j < V; j++) pack.v[j] = terms[k][j];
          *(Pack<T, V> *)&t.terms[set][k][y + u * high][x] = pack;
        }
      }
      load(set, 2);
      left -= turn;
      __syncthreads();
      if (which < S) {
#pragma unroll
        for (i32 n = 0; n < steps; n++) sum = Job::join(which, sum, t.terms[set][which][n][chain]);
      }
    };
#pragma unroll 1
    for (i32 p = 0; p < count; p += 2 * turn) {
      take(0);
      if (p + turn < count) take(1);
    }
    __syncthreads();
    if (COLUMNS) {
      if (which < S && first + chain < s.reductions)
        ((T *)s.lanes)[((block * stripe_lanes + lane) * s.reductions + first + chain) * S + which] = sum;
      continue;
    }
    if (which < S) t.terms[0][which][0][chain] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
      T sums[S];
#pragma unroll
      for (i32 k = 0; k < S; k++) {
        sums[k] = Job::join(k, t.terms[0][k][0][threadIdx.x], t.terms[0][k][0][threadIdx.x + 32]);
#pragma unroll
        for (i32 by = 16; by > 0; by /= 2) sums[k] = Job::join(k, sums[k], __shfl_down_sync(0xffffffffu, sums[k], by));
      }
      if (threadIdx.x == 0) put_sums<Job>(a, c, block, sums);
    }
    __syncthreads();
  }
}
