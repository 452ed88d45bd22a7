#include "embedding.cuh"
#include "scatter.cuh"

struct BagBackwardArgs {
  Scatter scatter;
  Bags bags;
  Tensor grad, factors, chosen;
  Gradient gradient;
  u32 *keys; // [n]
  u32 *bag; // [n]: of each position
  u32 *kept; // [bags]: how many indices a bag keeps; mean alone
  i32 mode, weighted;
};

// The key of a position is its row; positions that do not count come last.
KERNEL(bag_keys, BagBackwardArgs) {
  for (i64 i = thread_number(); i < a.bags.n; i += thread_count()) {
    i64 bag = bag_of(a.bags, i), row = index_at(a.bags.indices, i);
    bool keeps = bag < a.bags.count && bag_keeps(a.bags, row);
    a.keys[i] = keeps ? (u32)row : (u32)a.bags.rows;
    a.bag[i] = (u32)bag;
    if (keeps && a.mode == bag_mean_) atomicAdd(a.kept + bag, 1u);
  }
}

// MAX: with mode=max a bag's gradient goes to the positions that its elements
// came from.
template <class S, bool MAX> struct BagBackward {
  typedef BagBackwardArgs Args;
  typedef typename Compute<S>::type T;
  typedef i64 Place;
  struct Item {
    i64 row; // the first element of a row of grad
    u32 source;
    T factor; // that the row is multiplied by, or in mean divided
  };
  static constexpr i32 LISTS = 1, WIDTH = 4, AHEAD = MAX ? 1 : 3;
  typedef Pack<S, WIDTH> Raw;
  static constexpr bool BY_COLUMN = true, SPARSE = MAX;

  static DEVICE Place place(const Args &, i64 row) { return row; }
  static DEVICE i64 key(const Args &, Place row, i32) { return row; }
  static DEVICE Item item(const Args &a, u32 source, i32) {
    Item item = {a.bag[source] * a.scatter.columns, source, 1};
    if (a.weighted) item.factor = get<S>(a.factors, source);
    if (a.mode == bag_mean_) item.factor = (T)a.kept[a.bag[source]];
    return item;
  }
  static DEVICE Raw fetch(const Args &a, const Item &item, i64 column) {
    return *(const Raw *)((const S *)a.grad.data + item.row + column);
  }
  static DEVICE void terms(const Args &a, const Item &item, const Raw &raw, T (&term)[WIDTH]) {
    unpack(term, raw);
    scale(a, item, term);
  }
  static DEVICE void load(const Args &a, const Item &item, i64 column, i32 n, T (&term)[WIDTH]) {
#pragma unroll
    for (i32 j = 0; j < WIDTH; j++) term[j] = j < n ? get<S>(a.grad, item.row + column + j) : (T)0;
    scale(a, item, term);
  }
  static DEVICE void scale(const Args &a, const Item &item, T (&term)[WIDTH]) {
#pragma unroll
    for (i32 j = 0; j < WIDTH; j++) {
      if (a.weighted) term[j] = term[j] * item.factor;
      if (a.mode == bag_mean_) term[j] = term[j] / item.factor;
    }
  }
  static DEVICE bool has(const Args &a, const Item &item, i64 column) {
    return element<i64>(a.chosen, item.row + column) == (i64)item.source;
  }
  static DEVICE void store(const Args &a, i64 row, i64 column, i32 n, u32 count, T (&sum)[WIDTH]) {
    store_gradient<S>(a.gradient, row * a.scatter.columns + column, n, count, sum);
  }
};

#define EMBEDDING_BAG_BACKWARD(S)                                       \
  typedef BagBackward<S, false> EmbeddingBagBackward_##S;               \
  typedef BagBackward<S, true> EmbeddingBagMaxBackward_##S;             \
  SCATTER_KERNELS(embedding_bag_backward_##S, EmbeddingBagBackward_##S) \
  SCATTER_KERNELS(embedding_bag_max_backward_##S, EmbeddingBagMaxBackward_##S)
EACH_FLOAT(EMBEDDING_BAG_BACKWARD)
