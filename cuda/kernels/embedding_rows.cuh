// Sums of rows of a gradient in Chunk order (NUMERICS.md, section 4), for
// embeddings: as scatter.cuh, but of one list a destination, and of rows whose
// columns lie one after the other.
//
// The sources have been sorted by the row that they go to (sort.cu). Most rows
// of the result have no source or a few: a warp takes some rows, one after the
// other, its lanes their columns. Others are in a list. Each has a warp for
// every 32 lanes of columns, which has many loads on their way; with more than
// a chunk of sources, for every chunk, whose sums fold in the end.
#pragma once
#include "chunk.cuh"
#include "embedding.cuh"

const u32 few_sources = 8;
const i32 warp_lanes = 32;
const i32 row_threads = 256;
const u32 all_lanes = 0xffffffffu;

// An entry of a list, read at once: of a row, count sources from at on; or its
// count sources in chunks from at on.
struct alignas(16) RowPart {
  u32 row, at, count, pad;
};

struct Rows {
  i64 rows, columns;
  const u32 *source; // sorted sources
  const u32 *start, *stop; // the run of each row
  u32 *found; // how many are in each of three lists; 0 at first
  RowPart *chunks; // of rows of several, side by side
  RowPart *single; // rows of one chunk, but of more than a few sources
  RowPart *several; // rows of several chunks
  void *sums; // [chunks][columns], in the compute type
  i32 chunk_blocks; // the first blocks, which sum what is in the lists
  i32 log_lanes, each; // of the others a warp has so many lanes a row, and takes each rows
  i32 pad;
};

// A source: the row of the gradient that it is, and what that is scaled with.
template <class T> struct RowItem {
  u32 row;
  T factor;
};

// A Job says what is summed:
//   Args (with a Rows named rows, a Tensor grad, a Gradient gradient), S, SCALED
//   item(args, source): the RowItem
//   scale(args, factor, terms), where SCALED

// W columns of a row of the gradient.
template <class Job, bool PACKS, i32 W>
DEVICE Pack<typename Job::S, W> fetch_row(const typename Job::Args &a, u32 row, i64 column) {
  typedef typename Job::S S;
  const i64 at = (i64)((u64)row * (u32)a.rows.columns) + column;
  if (PACKS) return *(const Pack<S, W> *)((const S *)a.grad.data + at);
  Pack<S, W> one;
  one.v[0] = element<S>(a.grad, at);
  return one;
}

template <class Job, i32 W, class T>
DEVICE void add_row(const typename Job::Args &a, const Pack<typename Job::S, W> &raw, T factor, T (&sum)[W]) {
  T term[W];
  unpack(term, raw);
  if constexpr (Job::SCALED) Job::scale(a, factor, term);
#pragma unroll
  for (i32 j = 0; j < W; j++) sum[j] += term[j];
}

// Sums up to a chunk of sources, left to right from +0. Called by a whole warp.
// What would lie behind the last source, or column, is another one: loads that
// depend on nothing are on their way together.
template <class Job, bool PACKS, i32 W, class T>
DEVICE void sum_sources(const typename Job::Args &a, const u32 *source, u32 count, i64 column, T (&sum)[W]) {
  const i32 lane = threadIdx.x % warp_lanes;
  const i32 ahead = PACKS ? 64 / sizeof(T) : 1; // what may lie anywhere is long code
  const i64 from = column < a.rows.columns ? column : 0;
#pragma unroll
  for (i32 j = 0; j < W; j++) sum[j] = 0;
  RowItem<T> next = Job::item(a, source[min_(lane, count - 1)]);
#pragma unroll 1
  for (u32 first = 0; first < count; first += warp_lanes) {
    const RowItem<T> item = next;
    next = Job::item(a, source[min_(first + warp_lanes + lane, count - 1)]);
#pragma unroll 1
    for (i32 some = 0; some < warp_lanes; some += ahead) {
      Pack<typename Job::S, W> raw[ahead];
#pragma unroll
      for (i32 i = 0; i < ahead; i++)
        raw[i] = fetch_row<Job, PACKS, W>(a, __shfl_sync(all_lanes, item.row, some + i), from);
#pragma unroll
      for (i32 i = 0; i < ahead; i++) {
        T factor = Job::SCALED ? __shfl_sync(all_lanes, item.factor, some + i) : 0;
        if (first + some + i < count) add_row<Job>(a, raw[i], factor, sum);
      }
    }
  }
}

// Sums what is in the lists. A row of one chunk is done with that.
template <class Job, bool PACKS> DEVICE void sum_lists(const typename Job::Args &a) {
  typedef typename Job::S S;
  typedef typename Compute<S>::type T;
  const i32 W = PACKS && sizeof(S) == 2 ? 2 : 1, wide = W * warp_lanes;
  const Rows &r = a.rows;
  const u32 chunks = r.found[0], all = chunks + r.found[1];
  const i64 groups = (r.columns + wide - 1) / wide, warps = (i64)r.chunk_blocks * (row_threads / warp_lanes);
  for (i64 w = thread_number() / warp_lanes; w < all * groups; w += warps) {
    u32 slot = (u32)div_(w, groups);
    i64 column = (w - slot * groups) * wide + threadIdx.x % warp_lanes * W;
    const RowPart p = slot < chunks ? r.chunks[slot] : r.single[slot - chunks];
    T sum[W];
    sum_sources<Job, PACKS>(a, r.source + p.at, p.count, column, sum);
    if (column >= r.columns) continue;
    if (slot >= chunks) {
      store_gradient<S, PACKS>(a.gradient, p.row * r.columns + column, W, p.count, sum);
      continue;
    }
#pragma unroll
    for (i32 j = 0; j < W; j++) ((T *)r.sums)[slot * r.columns + column + j] = sum[j];
  }
}

// Sums and stores the rows that have a few sources, or none. A warp takes rows
// side by side where they are short, and then others far away: neighbours tend
// to have as many sources.
template <class Job, bool PACKS> DEVICE void sum_few(const typename Job::Args &a) {
  typedef typename Job::S S;
  typedef typename Compute<S>::type T;
  const i32 W = PACKS ? 4 : 1, ahead = !PACKS ? 1 : sizeof(T) == 4 ? 3 : 2;
  const Rows &r = a.rows;
  const i32 lane = threadIdx.x % warp_lanes, log_side = 5 - r.log_lanes, side = 1 << log_side;
  const i32 sub = lane >> r.log_lanes, part = lane & ((1 << r.log_lanes) - 1), step = W << r.log_lanes;
  const i64 warp = thread_number() / warp_lanes - (i64)r.chunk_blocks * (row_threads / warp_lanes);
  const i64 warps = (r.rows + r.each - 1) / r.each;
  if (warp >= warps) return;
  // A lane asks what one of the rows has, for all.
  const i64 mine = ((warp + (lane >> log_side) * warps) << log_side) + (lane & (side - 1));
  u32 start = 0, count = 0;
  RowItem<T> head = {};
  if (lane < r.each && mine < r.rows) {
    start = r.start[mine], count = r.stop[mine] - start;
    if (count > 0) head = Job::item(a, r.source[start]);
  }
  for (i32 i = 0; i < r.each; i += side) {
    const i32 from = i + sub;
    const i64 row = ((warp + (i >> log_side) * warps) << log_side) + sub;
    const u32 at = __shfl_sync(all_lanes, start, from), n = __shfl_sync(all_lanes, count, from);
    RowItem<T> begin = {__shfl_sync(all_lanes, head.row, from), 0};
    if (Job::SCALED) begin.factor = __shfl_sync(all_lanes, head.factor, from);
    if (row >= r.rows || n > few_sources) continue;
    for (i64 column = part * W; column < r.columns; column += step * ahead) {
      T sum[ahead][W];
#pragma unroll
      for (i32 k = 0; k < ahead; k++) {
#pragma unroll
        for (i32 j = 0; j < W; j++) sum[k][j] = 0;
      }
      RowItem<T> item = begin;
      for (u32 s = 0; s < n; s++) {
        Pack<S, W> raw[ahead];
#pragma unroll
        for (i32 k = 0; k < ahead; k++) { // as in sum_sources
          const i64 there = column + k * step;
          raw[k] = fetch_row<Job, PACKS, W>(a, item.row, there < r.columns ? there : column);
        }
        T factor = item.factor;
        if (s + 1 < n) item = Job::item(a, r.source[at + s + 1]);
#pragma unroll
        for (i32 k = 0; k < ahead; k++) add_row<Job>(a, raw[k], factor, sum[k]);
      }
#pragma unroll
      for (i32 k = 0; k < ahead; k++) {
        const i64 there = column + k * step;
        if (there < r.columns) store_gradient<S, PACKS>(a.gradient, row * r.columns + there, W, n, sum[k]);
      }
    }
  }
}

template <class Job> DEVICE void sum_rows(const typename Job::Args &a) {
  const bool listed = (i32)blockIdx.x < a.rows.chunk_blocks;
  if (a.gradient.packs)
    listed ? sum_lists<Job, true>(a) : sum_few<Job, true>(a);
  else
    listed ? sum_lists<Job, false>(a) : sum_few<Job, false>(a);
}

// Folds the sums of a row's chunks. A block takes 8 columns; 32 threads fold
// aligned subtrees of each, then the subtrees' results.
template <class Job> DEVICE void fold_rows(const typename Job::Args &a) {
  typedef typename Job::S S;
  typedef typename Compute<S>::type T;
  const i32 wide = 8, trees = row_threads / wide;
  __shared__ T shared[trees][wide];
  const Rows &r = a.rows;
  const i32 line = threadIdx.x / wide, place = threadIdx.x % wide;
  const i64 groups = (r.columns + wide - 1) / wide, work = r.found[2] * groups;
  for (i64 w = blockIdx.x; w < work; w += gridDim.x) {
    const i64 which = div_(w, groups), column = (w - which * groups) * wide + place;
    const RowPart p = r.several[which];
    const u32 chunks = (p.count - 1) / chunk_terms + 1;
    u32 each = 1;
    while (each * trees < chunks) each *= 2;
    const u32 lo = line * each, hi = lo + each < chunks ? lo + each : chunks;
    const bool here = column < r.columns && lo < chunks;
    if (here) shared[line][place] = fold_sums((const T *)r.sums + p.at * r.columns + column, r.columns, lo, hi);
    __syncthreads();
    for (i32 step = 1; step < trees; step *= 2) {
      if (here && line % (2 * step) == 0 && (line + step) * each < chunks)
        shared[line][place] += shared[line + step][place];
      __syncthreads();
    }
    T sum[1] = {shared[0][place]};
    if (here && line == 0) store_gradient<S, false>(a.gradient, p.row * r.columns + column, 1, p.count, sum);
    __syncthreads();
  }
}

#define ROW_KERNELS(name, Job)                                \
  KERNEL_FIT(name##_sums, Job::Args, 3) { sum_rows<Job>(a); } \
  KERNEL(name##_fold, Job::Args) { fold_rows<Job>(a); }
