#include "rows.cuh"
#include "scatter.cuh"
#include "sort.cuh"

struct BagBackwardArgs {
  Bags bags;
  Tensor grad, factors, chosen;
  Gradient gradient;
  Keys keys;
  u32 *bag; // [n]: of each position
  u32 *kept; // [bags]: how many indices a bag keeps; mean alone
  i32 mode, weighted;
};

// The key of a position is its row; positions that do not count come last.
KERNEL(bag_keys, BagBackwardArgs) {
  put_keys(a.keys, a.bags.n, [&](i64 i) {
    i64 bag = bag_of(a.bags, i), row = index_at(a.bags.indices, i);
    bool keeps = bag < a.bags.count && bag_keeps(a.bags, row);
    a.bag[i] = (u32)bag;
    if (keeps && a.mode == bag_mean_) atomicAdd(a.kept + bag, 1u);
    return keeps ? (u32)row : (u32)a.bags.rows;
  });
}

struct BagRowsArgs : BagBackwardArgs {
  Rows rows;
};

template <class Element> struct BagBackward {
  typedef BagRowsArgs Args;
  typedef Element S;
  typedef typename Compute<S>::type T;
  static constexpr bool SCALED = true;

  static DEVICE RowItem<T> item(const Args &a, u32 source) {
    RowItem<T> item = {a.bag[source], 1};
    if (a.weighted) item.factor = get<S>(a.factors, source);
    if (a.mode == bag_mean_) item.factor = (T)a.kept[item.row];
    return item;
  }
  template <i32 W> static DEVICE void scale(const Args &a, T factor, T (&term)[W]) {
#pragma unroll
    for (i32 j = 0; j < W; j++) {
      if (a.weighted) term[j] = term[j] * factor;
      if (a.mode == bag_mean_) term[j] = term[j] / factor;
    }
  }
};

struct BagMaxArgs : BagBackwardArgs {
  Scatter scatter;
};

// With mode=max a bag's gradient goes to the positions that its elements came
// from.
template <class S> struct BagMaxBackward {
  typedef BagMaxArgs Args;
  typedef typename Compute<S>::type T;
  typedef i64 Place;
  struct Item {
    i64 row; // the first element of a row of grad
    u32 source;
  };
  static constexpr i32 LISTS = 1, WIDTH = 4;
  static constexpr bool BY_COLUMN = true, SPARSE = true;

  static DEVICE Place place(const Args &, i64 row) { return row; }
  static DEVICE i64 key(const Args &, Place row, i32) { return row; }
  static DEVICE Item item(const Args &a, u32 source, i32) { return {a.bag[source] * a.scatter.columns, source}; }
  static DEVICE void load(const Args &a, const Item &item, i64 column, i32 n, T (&term)[WIDTH]) {
#pragma unroll
    for (i32 j = 0; j < WIDTH; j++) term[j] = j < n ? get<S>(a.grad, item.row + column + j) : (T)0;
  }
  static DEVICE bool has(const Args &a, const Item &item, i64 column) {
    return element<i64>(a.chosen, item.row + column) == (i64)item.source;
  }
  static DEVICE void store(const Args &a, i64 row, i64 column, i32 n, u32 count, T (&sum)[WIDTH]) {
    const i64 at = row * a.scatter.columns + column;
    if (a.gradient.packs)
      store_gradient<S, true>(a.gradient, at, n, count, sum);
    else
      store_gradient<S, false>(a.gradient, at, n, count, sum);
  }
};

#define EMBEDDING_BAG_BACKWARD(S)                         \
  ROW_KERNELS(embedding_bag_backward_##S, BagBackward<S>) \
  SCATTER_KERNELS(embedding_bag_max_backward_##S, BagMaxBackward<S>)
EACH_FLOAT(EMBEDDING_BAG_BACKWARD)
