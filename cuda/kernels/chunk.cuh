// Chunk order (NUMERICS.md, section 4): terms add left to right, so many at a
// time, and the sums of these chunks fold pairwise.
#pragma once
#include "dtypes.cuh"

const i32 chunk_terms = 256;

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

// Folds chunk sums [lo, hi) of one column.
template <class T> DEVICE T fold_sums(const T *sums, i64 pitch, u32 lo, u32 hi) {
  Fold<T> chunks;
  for (u32 i = lo; i < hi; i++) chunks.add(sums[i * pitch]);
  return chunks.sum();
}
