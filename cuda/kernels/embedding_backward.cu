#include "embedding_rows.cuh"
#include "sort.cuh"

struct EmbeddingBackwardArgs {
  Rows rows;
  Tensor grad, indices;
  Gradient gradient;
  Keys keys;
  i64 n, padding;
};

// The key of a position is its row; positions that do not count come last.
KERNEL(embedding_keys, EmbeddingBackwardArgs) {
  const i64 rows = a.rows.rows;
  put_keys<1>(a.keys, a.n, [&](i64 i) {
    i64 row = index_at(a.indices, i);
    return in_bounds(row, rows) && row != a.padding ? (u32)row : (u32)rows;
  });
}

// A source is a row of grad.
template <class Element> struct EmbeddingBackward {
  typedef EmbeddingBackwardArgs Args;
  typedef Element S;
  static constexpr bool SCALED = false;

  static DEVICE RowItem<typename Compute<S>::type> item(const Args &, u32 source) { return {source, 0}; }
};

#define EMBEDDING_BACKWARD(S) ROW_KERNELS(embedding_backward_##S, EmbeddingBackward<S>)
EACH_FLOAT(EMBEDDING_BACKWARD)
