#include "embedding.cuh"
#include "scatter.cuh"

struct EmbeddingBackwardArgs {
  Scatter scatter;
  Tensor grad, indices;
  Gradient gradient;
  u32 *keys; // [n]
  i64 n, rows, padding;
};

// The key of a position is its row; positions that do not count come last.
KERNEL(embedding_keys, EmbeddingBackwardArgs) {
  for (i64 i = thread_number(); i < a.n; i += thread_count()) {
    i64 row = index_at(a.indices, i);
    a.keys[i] = in_bounds(row, a.rows) && row != a.padding ? (u32)row : (u32)a.rows;
  }
}

template <class S> struct EmbeddingBackward {
  typedef EmbeddingBackwardArgs Args;
  typedef typename Compute<S>::type T;
  typedef i64 Place, Item; // a row; the first element of a row of grad
  static constexpr i32 LISTS = 1, WIDTH = 4, AHEAD = 24 / sizeof(T);
  typedef Pack<S, WIDTH> Raw;
  static constexpr bool BY_COLUMN = true, SPARSE = false;

  static DEVICE Place place(const Args &, i64 row) { return row; }
  static DEVICE i64 key(const Args &, Place row, i32) { return row; }
  static DEVICE Item item(const Args &a, u32 source, i32) { return source * a.scatter.columns; }
  static DEVICE Raw fetch(const Args &a, Item row, i64 column) {
    return *(const Raw *)((const S *)a.grad.data + row + column);
  }
  static DEVICE void terms(const Args &, Item, const Raw &raw, T (&term)[WIDTH]) { unpack(term, raw); }
  static DEVICE void load(const Args &a, Item row, i64 column, i32 n, T (&term)[WIDTH]) {
#pragma unroll
    for (i32 j = 0; j < WIDTH; j++) term[j] = j < n ? get<S>(a.grad, row + column + j) : (T)0;
  }
  static DEVICE void store(const Args &a, i64 row, i64 column, i32 n, u32 count, T (&sum)[WIDTH]) {
    store_gradient<S>(a.gradient, row * a.scatter.columns + column, n, count, sum);
  }
};

#define EMBEDDING_BACKWARD(S) SCATTER_KERNELS(embedding_backward_##S, EmbeddingBackward<S>)
EACH_FLOAT(EMBEDDING_BACKWARD)
