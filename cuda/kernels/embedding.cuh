// What the kernels of embeddings and of bags of them have in common.
#pragma once
#include "dtypes.cuh"

DEVICE i64 index_at(const Tensor &indices, i64 i) {
  return indices.dtype == i32_ ? (i64)element<i32>(indices, i) : element<i64>(indices, i);
}

DEVICE bool in_bounds(i64 row, i64 rows) { return row >= 0 && row < rows; }

// How a finished sum of count contributions goes to a row of a gradient.
struct Gradient {
  Tensor out;
  i32 accumulate, by_freq, packs, pad; // packs: rows, of grad too, are whole packs of 4, aligned
};

// Stores n of W columns of a row from element at on, all where rows are PACKS.
template <class S, bool PACKS, class T, i32 W>
DEVICE void store_gradient(const Gradient &g, i64 at, i32 n, u32 count, T (&sum)[W]) {
  if (g.by_freq && count > 0) {
#pragma unroll
    for (i32 j = 0; j < W; j++) sum[j] = sum[j] / (T)count;
  }
  if (PACKS) {
    if (g.accumulate) {
      T before[W];
      load_pack<T, S>(before, g.out, at);
#pragma unroll
      for (i32 j = 0; j < W; j++) sum[j] = before[j] + sum[j];
    }
    store_pack<S>(g.out, at, sum);
    return;
  }
#pragma unroll
  for (i32 j = 0; j < W; j++) {
    if (j >= n) continue;
    S &out = element<S>(g.out, at + j);
    if (g.accumulate) sum[j] = widen<T>(out) + sum[j];
    out = Narrow<S>::from(sum[j]);
  }
}

// Bags of indices: runs that begin at offsets, or rows of length indices.
struct Bags {
  Tensor indices, offsets; // offsets: none_ where rows are bags
  i64 n, count, length, offset_count;
  i64 rows, padding; // indices of none of the rows, and of the padding row, are left out
};
enum { bag_sum_, bag_mean_, bag_max_ };

DEVICE i64 bag_begin(const Bags &b, i64 bag) {
  return b.offsets.dtype == none_ ? bag * b.length : index_at(b.offsets, bag);
}

DEVICE i64 bag_end(const Bags &b, i64 bag) {
  if (b.offsets.dtype == none_) return (bag + 1) * b.length;
  return bag + 1 < b.offset_count ? index_at(b.offsets, bag + 1) : b.n;
}

// The bag that a position is in: the first that ends behind it, or count.
DEVICE i64 bag_of(const Bags &b, i64 position) {
  if (b.offsets.dtype == none_) return div_(position, b.length);
  i64 lo = 0, hi = b.count;
  while (lo < hi) {
    i64 middle = lo + (hi - lo) / 2;
    if (bag_end(b, middle) > position)
      hi = middle;
    else
      lo = middle + 1;
  }
  return lo;
}

DEVICE bool bag_keeps(const Bags &b, i64 row) { return in_bounds(row, b.rows) && row != b.padding; }
