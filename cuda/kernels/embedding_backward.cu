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
  typedef i64 Item; // the first element of a row of grad
  static constexpr i32 LISTS = 1, WIDTH = 4;
  static constexpr bool BY_COLUMN = true, SPARSE = false;

  static DEVICE i64 key(const Args &, i64 row, i32) { return row; }
  static DEVICE Item item(const Args &a, u32 source, i32) { return source * a.scatter.columns; }
  static DEVICE void load(const Args &a, Item row, i64 column, i32 n, T (&term)[WIDTH]) {
    if (a.gradient.packs) { // so are those of grad
      load_pack<T, S>(term, a.grad, row + column);
      return;
    }
#pragma unroll
    for (i32 j = 0; j < WIDTH; j++) term[j] = j < n ? get<S>(a.grad, row + column + j) : (T)0;
  }
  static DEVICE void store(const Args &a, i64 row, i64 column, i32 n, u32 count, T (&sum)[WIDTH]) {
    store_gradient<S>(a.gradient, row * a.scatter.columns + column, n, count, sum);
  }
};

#define EMBEDDING_BACKWARD(S) SCATTER_KERNELS(embedding_backward_##S, EmbeddingBackward<S>)
EACH_FLOAT(EMBEDDING_BACKWARD)
