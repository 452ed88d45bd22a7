// Sums at destinations in Chunk order (NUMERICS.md, section 4): a destination
// takes its contributions in ascending source order, sums them left to right
// in chunks of 256, and folds the chunk sums pairwise.
//
// The sources have been sorted by key (sort.cu), so each key has a run of
// ascending source positions. A destination draws from LISTS runs, one per
// tap; no source is in two of them. Destinations with one chunk are summed by
// one thread. The others are hot: they claim slots for their chunks, which
// are summed by a thread each, then folded. Which slots a destination gets
// depends on the schedule; what it computes does not.
#pragma once
#include "chunk.cuh"
#include "merge.cuh"

struct Scatter {
  i64 destinations, columns;
  const u32 *source; // sorted sources
  const u32 *start, *stop; // the run of each key
  u32 *hot; // [1 + slots]: how many slots are claimed; the destination of each
  u32 *slot; // [destinations]: 1 + the first slot of a hot one
  void *sums; // [slots][columns], in the compute type
};

// A Job says what is scattered:
//   Args (with a Scatter named scatter), T, LISTS
//   Place: what the keys of a destination share, from place(args, destination)
//   key(args, place, list): the key of a list's run
//   Item: what all columns of a contribution share, from item(args, source, list)
//   load(args, item, column, n, out[WIDTH]): the terms of n columns
//   store(args, destination, column, n, count, sums[WIDTH])

// Sums up to a chunk of contributions, left to right from +0.
template <class Job>
DEVICE void sum_chunk(const typename Job::Args &a, Merge<Job> &m, i64 column, i32 n,
                      typename Job::T (&sum)[Job::WIDTH]) {
  const i32 W = Job::WIDTH;
#pragma unroll
  for (i32 j = 0; j < W; j++) sum[j] = 0;
  u32 from;
  i32 list = 0;
  for (i32 i = 0; i < chunk_terms && m.next(from, list); i++) {
    typename Job::T term[W];
    Job::load(a, Job::item(a, from, list), column, n, term);
#pragma unroll
    for (i32 j = 0; j < W; j++) sum[j] += term[j];
  }
}

DEVICE i64 width_groups(i64 columns, i32 width) { return (columns + width - 1) / width; }
DEVICE i32 width_left(i64 columns, i64 column, i32 width) {
  return columns - column < width ? (i32)(columns - column) : width;
}

// Claims slots for the chunks of hot destinations.
template <class Job> DEVICE void scatter_hot(const typename Job::Args &a) {
  const Scatter &s = a.scatter;
  for (i64 d = thread_number(); d < s.destinations; d += thread_count()) {
    u32 count = Merge<Job>::count(a, d);
    if (count <= (u32)chunk_terms) continue;
    u32 chunks = (count - 1) / chunk_terms + 1, first = 1 + atomicAdd(s.hot, chunks);
    for (u32 i = 0; i < chunks; i++) s.hot[first + i] = (u32)d;
    s.slot[d] = first;
  }
}

// Sums the chunk of every claimed slot.
template <class Job> DEVICE void scatter_chunks(const typename Job::Args &a) {
  const Scatter &s = a.scatter;
  const i64 groups = width_groups(s.columns, Job::WIDTH);
  const i64 work = s.hot[0] * groups;
  for (i64 w = thread_number(); w < work; w += thread_count()) {
    i64 slot = div_(w, groups), column = (w - slot * groups) * Job::WIDTH;
    i64 d = s.hot[1 + slot];
    i32 n = width_left(s.columns, column, Job::WIDTH);
    Merge<Job> m(a, d);
    m.skip((u32)(slot + 1 - s.slot[d]) * chunk_terms);
    typename Job::T sum[Job::WIDTH];
    sum_chunk<Job>(a, m, column, n, sum);
#pragma unroll
    for (i32 j = 0; j < Job::WIDTH; j++) {
      if (j < n) ((typename Job::T *)s.sums)[slot * s.columns + column + j] = sum[j];
    }
  }
}

// Folds the chunk sums of every hot destination into its first slot. A block
// of threads takes 8 columns; 32 threads fold aligned subtrees of each, then
// the subtrees' results.
template <class Job> DEVICE void scatter_fold(const typename Job::Args &a, typename Job::T (*shared)[32]) {
  typedef typename Job::T T;
  const Scatter &s = a.scatter;
  const i32 lane = threadIdx.x % 32, line = threadIdx.x / 32;
  const i64 groups = width_groups(s.columns, 8), work = s.hot[0] * groups;
  for (i64 w = blockIdx.x; w < work; w += gridDim.x) {
    i64 slot = div_(w, groups), column = (w - slot * groups) * 8 + line;
    i64 d = s.hot[1 + slot];
    if (slot + 1 != s.slot[d]) continue; // not a first slot
    u32 chunks = (Merge<Job>::count(a, d) - 1) / chunk_terms + 1, each = 1;
    while (each * 32 < chunks) each *= 2;
    T *sums = (T *)s.sums + slot * s.columns + column;
    u32 lo = lane * each, hi = lo + each < chunks ? lo + each : chunks;
    if (column < s.columns && lo < chunks) shared[line][lane] = fold_sums(sums, s.columns, lo, hi);
    __syncthreads();
    if (column < s.columns && lane == 0) *sums = fold_sums(shared[line], 1, 0, (chunks - 1) / each + 1);
    __syncthreads();
  }
}

// Sums the other destinations and stores all of them. Neighbouring threads
// take neighbouring destinations.
template <class Job> DEVICE void scatter_store(const typename Job::Args &a) {
  const Scatter &s = a.scatter;
  const i64 work = s.destinations * width_groups(s.columns, Job::WIDTH);
  for (i64 w = thread_number(); w < work; w += thread_count()) {
    i64 group = div_(w, s.destinations), d = w - group * s.destinations, column = group * Job::WIDTH;
    i32 n = width_left(s.columns, column, Job::WIDTH);
    Merge<Job> m(a, d);
    u32 count = m.count();
    typename Job::T sum[Job::WIDTH];
    if (count <= (u32)chunk_terms) {
      sum_chunk<Job>(a, m, column, n, sum);
    } else {
      const typename Job::T *folded = (const typename Job::T *)s.sums + (s.slot[d] - 1) * s.columns + column;
#pragma unroll
      for (i32 j = 0; j < Job::WIDTH; j++) sum[j] = j < n ? folded[j] : (typename Job::T)0;
    }
    Job::store(a, d, column, n, count, sum);
  }
}

#define SCATTER_KERNELS(name, Job)                             \
  KERNEL(name##_hot, Job::Args) { scatter_hot<Job>(a); }       \
  KERNEL(name##_chunks, Job::Args) { scatter_chunks<Job>(a); } \
  KERNEL(name##_fold, Job::Args) {                             \
    __shared__ Job::T shared[8][32];                           \
    scatter_fold<Job>(a, shared);                              \
  }                                                            \
  KERNEL(name##_store, Job::Args) { scatter_store<Job>(a); }
