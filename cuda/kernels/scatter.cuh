// Sums at destinations in Chunk order (NUMERICS.md, section 4): a destination
// takes its contributions in ascending source order, sums them left to right
// in chunks of 256, and folds the chunk sums pairwise.
//
// The sources have been sorted by key (sort.cu), so each key has a run of
// ascending source positions. A destination draws from LISTS runs, one per
// tap; no source is in two of them. Destinations with one chunk are summed by
// one thread. The others are hot: they claim slots for their chunks, which
// are summed by a thread each, then folded. Which slots a destination gets
// depends on the schedule; what it computes does not. Where a source is a
// contribution to some columns alone (SPARSE), each column counts its own: its
// thread sums all of its chunks, and no destination is hot.
#pragma once
#include "dtypes.cuh"

const i32 scatter_chunk = 256;

struct RunArgs {
  i64 n, limit;
  const u32 *keys;
  u32 *start, *stop;
};

struct FillArgs {
  i64 n;
  u32 *words;
  u32 value, pad;
};

struct Scatter {
  i64 destinations, columns;
  const u32 *source; // sorted sources
  const u32 *start, *stop; // the run of each key
  u32 *hot; // [1 + slots]: how many slots are claimed; the destination of each
  u32 *slot; // [destinations]: 1 + the first slot of a hot one, else 0
  void *sums; // [slots][columns], in the compute type
};

// A Job says what is scattered:
//   Args (with a Scatter named scatter), T, LISTS, SPARSE
//   key(args, destination, list): the key of a list's run, or -1 for none
//   Item: what all columns of a contribution share, from item(args, source, list)
//   load(args, item, column, n, out[WIDTH]): the terms of n columns
//   has(args, item, column), where SPARSE: whether the column has one
//   store(args, destination, column, n, count, sums[WIDTH])

// Merge steps through a destination's contributions in ascending source order.
template <class Job> struct Merge {
  u32 at[Job::LISTS], stop[Job::LISTS], head[Job::LISTS]; // head: the source at, or none
  const u32 *source;
  static constexpr u32 none = 0xffffffffu;

  DEVICE Merge(const typename Job::Args &a, i64 destination) : source(a.scatter.source) {
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) {
      i64 key = Job::key(a, destination, k);
      stop[k] = key < 0 ? 0 : a.scatter.stop[key];
      go(k, key < 0 ? 0 : a.scatter.start[key]);
    }
  }
  DEVICE void go(i32 k, u32 to) {
    at[k] = to;
    head[k] = to < stop[k] ? source[to] : none;
  }
  DEVICE u32 count() const {
    u32 n = 0;
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) n += stop[k] - at[k];
    return n;
  }
  // The first contribution of list k from a source not below one.
  DEVICE u32 find(i32 k, u32 least) const {
    u32 lo = at[k], hi = stop[k];
    while (lo < hi) {
      u32 middle = lo + (hi - lo) / 2;
      if (source[middle] < least)
        lo = middle + 1;
      else
        hi = middle;
    }
    return lo;
  }
  // Skips n contributions of more than n: moves on to the source that n
  // others precede.
  DEVICE void skip(u32 n) {
    if (Job::LISTS == 1) {
      go(0, at[0] + n);
      return;
    }
    u32 lo = 0, hi = 0;
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) {
      if (at[k] < stop[k] && source[stop[k] - 1] > hi) hi = source[stop[k] - 1];
    }
    while (lo < hi) { // the largest source that at most n others are below
      u32 middle = lo + (hi - lo) / 2 + 1, below = 0;
#pragma unroll
      for (i32 k = 0; k < Job::LISTS; k++) below += find(k, middle) - at[k];
      if (below <= n)
        lo = middle;
      else
        hi = middle - 1;
    }
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) go(k, find(k, lo));
  }
  DEVICE bool next(u32 &from, i32 &list) {
    from = none;
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) from = head[k] < from ? head[k] : from;
    if (from == none) return false;
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) {
      if (head[k] != from) continue;
      list = k;
      go(k, at[k] + 1);
    }
    return true;
  }
};

// Folds the sums of chunks pairwise: a binary counter of finished subtrees.
template <class T> struct Fold {
  T level[32];
  u32 n = 0;

  DEVICE void add(T v) {
    i32 k = 0;
    for (; n >> k & 1; k++) v = level[k] + v;
    level[k] = v;
    n++;
  }
  DEVICE T sum() const {
    T sum = 0;
    bool first = true;
    for (i32 k = 0; n >> k; k++) {
      if ((n >> k & 1) == 0) continue;
      sum = first ? level[k] : level[k] + sum;
      first = false;
    }
    return sum;
  }
};

// Sums up to a chunk of contributions, left to right from +0.
template <class Job>
DEVICE void sum_chunk(const typename Job::Args &a, Merge<Job> &m, i64 column, i32 n,
                      typename Job::T (&sum)[Job::WIDTH]) {
  const i32 W = Job::WIDTH;
#pragma unroll
  for (i32 j = 0; j < W; j++) sum[j] = 0;
  u32 from;
  i32 list = 0;
  for (i32 i = 0; i < scatter_chunk && m.next(from, list); i++) {
    typename Job::T term[W];
    Job::load(a, Job::item(a, from, list), column, n, term);
#pragma unroll
    for (i32 j = 0; j < W; j++) sum[j] += term[j];
  }
}

// Sums all contributions to columns that have chunks of their own.
template <class Job>
DEVICE void sum_sparse(const typename Job::Args &a, Merge<Job> &m, i64 column, i32 n,
                       typename Job::T (&sum)[Job::WIDTH]) {
  typedef typename Job::T T;
  const i32 W = Job::WIDTH;
  Fold<T> chunks[W];
  i32 count[W] = {};
#pragma unroll
  for (i32 j = 0; j < W; j++) sum[j] = 0;
  u32 from;
  i32 list = 0;
  while (m.next(from, list)) {
    typename Job::Item item = Job::item(a, from, list);
    T term[W];
    Job::load(a, item, column, n, term);
#pragma unroll
    for (i32 j = 0; j < W; j++) {
      if (j >= n || !Job::has(a, item, column + j)) continue;
      if (count[j] == scatter_chunk) {
        chunks[j].add(sum[j]);
        sum[j] = 0;
        count[j] = 0;
      }
      sum[j] += term[j];
      count[j]++;
    }
  }
#pragma unroll
  for (i32 j = 0; j < W; j++) {
    if (chunks[j].n == 0) continue;
    chunks[j].add(sum[j]);
    sum[j] = chunks[j].sum();
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
    u32 count = Merge<Job>(a, d).count(), first = 0;
    if (!Job::SPARSE && count > (u32)scatter_chunk) {
      u32 chunks = (count - 1) / scatter_chunk + 1;
      first = 1 + atomicAdd(s.hot, chunks);
      for (u32 i = 0; i < chunks; i++) s.hot[first + i] = (u32)d;
    }
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
    m.skip((u32)(slot + 1 - s.slot[d]) * scatter_chunk);
    typename Job::T sum[Job::WIDTH];
    sum_chunk<Job>(a, m, column, n, sum);
#pragma unroll
    for (i32 j = 0; j < Job::WIDTH; j++) {
      if (j < n) ((typename Job::T *)s.sums)[slot * s.columns + column + j] = sum[j];
    }
  }
}

// Folds chunk sums [lo, hi) of one column.
template <class T> DEVICE T fold_sums(const T *sums, i64 pitch, u32 lo, u32 hi) {
  Fold<T> chunks;
  for (u32 i = lo; i < hi; i++) chunks.add(sums[i * pitch]);
  return chunks.sum();
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
    u32 chunks = (Merge<Job>(a, d).count() - 1) / scatter_chunk + 1, each = 1;
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
// take neighbouring columns where BY_COLUMN, else neighbouring destinations.
template <class Job> DEVICE void scatter_store(const typename Job::Args &a) {
  const Scatter &s = a.scatter;
  const i64 groups = width_groups(s.columns, Job::WIDTH);
  for (i64 w = thread_number(); w < s.destinations * groups; w += thread_count()) {
    i64 outer = div_(w, Job::BY_COLUMN ? groups : s.destinations);
    i64 inner = w - outer * (Job::BY_COLUMN ? groups : s.destinations);
    i64 d = Job::BY_COLUMN ? outer : inner;
    i64 column = (Job::BY_COLUMN ? inner : outer) * Job::WIDTH;
    i32 n = width_left(s.columns, column, Job::WIDTH);
    Merge<Job> m(a, d);
    u32 count = m.count();
    typename Job::T sum[Job::WIDTH];
    if constexpr (Job::SPARSE) {
      sum_sparse<Job>(a, m, column, n, sum);
    } else if (count <= (u32)scatter_chunk) {
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
