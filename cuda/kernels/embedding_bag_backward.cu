#include "embedding_rows.cuh"
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
  put_keys<1>(a.keys, a.bags.n, [&](i64 i) {
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

// With mode=max a bag's gradient goes to the positions that its elements came
// from: each column of a row has chunks of its own. A thread sums 4 columns.
template <class S> DEVICE void bag_max_backward(const BagRowsArgs &a) {
  typedef typename Compute<S>::type T;
  const i32 W = 4;
  const Rows &r = a.rows;
  const i64 groups = (r.columns + W - 1) / W;
  for (i64 w = thread_number(); w < r.rows * groups; w += thread_count()) {
    const i64 row = div_(w, groups), column = (w - row * groups) * W;
    const i32 n = r.columns - column < W ? (i32)(r.columns - column) : W;
    const u32 start = r.start[row], stop = r.stop[row];
    Fold<T> chunks[W];
    T sum[W] = {};
    i32 count[W] = {};
    for (u32 i = start; i < stop; i++) {
      const u32 source = r.source[i];
      const i64 from = a.bag[source] * r.columns + column;
#pragma unroll
      for (i32 j = 0; j < W; j++) {
        if (j >= n || element<i64>(a.chosen, from + j) != (i64)source) continue;
        if (count[j] == chunk_terms) {
          chunks[j].add(sum[j]);
          sum[j] = 0;
          count[j] = 0;
        }
        sum[j] += get<S>(a.grad, from + j);
        count[j]++;
      }
    }
#pragma unroll
    for (i32 j = 0; j < W; j++) {
      if (chunks[j].n == 0) continue;
      chunks[j].add(sum[j]);
      sum[j] = chunks[j].sum();
    }
    const i64 to = row * r.columns + column;
    if (a.gradient.packs)
      store_gradient<S, true>(a.gradient, to, n, stop - start, sum);
    else
      store_gradient<S, false>(a.gradient, to, n, stop - start, sum);
  }
}

#define EMBEDDING_BAG_BACKWARD(S)                         \
  ROW_KERNELS(embedding_bag_backward_##S, BagBackward<S>) \
  KERNEL(embedding_bag_max_backward_##S, BagRowsArgs) { bag_max_backward<S>(a); }
EACH_FLOAT(EMBEDDING_BAG_BACKWARD)
