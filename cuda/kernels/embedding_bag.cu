#include "chunk.cuh"
#include "embedding.cuh"
#include "rows.cuh"
#include "weights.cuh"

// Stops everything if offsets do not begin at 0, descend, or exceed the number
// of indices, before anything is read through them.
KERNEL(bags_check, Bags) {
  for (i64 i = thread_number(); i < a.offset_count; i += thread_count()) {
    i64 at = index_at(a.offsets, i), low = i == 0 ? 0 : index_at(a.offsets, i - 1), high = i == 0 ? 0 : a.n;
    if (at >= low && at <= high) continue;
    printf("isobit: embedding_bag: offsets is %lld at position %lld; want %lld to %lld\n", at, i, low, high);
    __trap();
  }
}

struct BagArgs {
  Bags bags;
  Tensor weight, factors, out, chosen;
  i64 columns;
  i32 mode, weighted, noted, pad;
};

// Rows of numbers, and of codes that stand for numbers of y's type.
template <class S> struct FloatRows {
  typedef BagArgs Args;
  typedef typename Compute<S>::type T;
  static DEVICE T at(const Args &a, i64 row, i64 column) { return get<S>(a.weight, row * a.columns + column); }
};
struct CodeBagArgs : BagArgs {
  Tensor scale, zero;
  i64 group, groups;
  f64 lo, hi; // bounds of learned zero points
  i32 learned, none;
};
template <class S> struct CodeRows {
  typedef CodeBagArgs Args;
  typedef typename Compute<S>::type T;
  static DEVICE T at(const Args &a, i64 row, i64 column) {
    return widen<T>(Narrow<S>::from(weight_of<T>(a, row, a.columns, column)));
  }
};

// A sum in Chunk order of terms that come one after the other.
template <class T> struct ChunkSum {
  T sum = 0; // of the last chunk
  Fold<T> chunks; // before it
  i64 count = 0;
  DEVICE void add(T term) {
    if (count > 0 && count % chunk_terms == 0) {
      chunks.add(sum);
      sum = 0;
    }
    sum = sum + term;
    count++;
  }
  DEVICE T total() {
    if (chunks.n == 0) return sum;
    chunks.add(sum);
    return chunks.sum();
  }
};

// A thread sums one column of a bag.
template <class S, class Rows> DEVICE void embedding_bag(const typename Rows::Args &a) {
  typedef typename Compute<S>::type T;
  for (i64 w = thread_number(); w < a.bags.count * a.columns; w += thread_count()) {
    i64 bag = div_(w, a.columns), column = w - bag * a.columns;
    ChunkSum<T> sum;
    i64 end = bag_end(a.bags, bag);
    for (i64 p = bag_begin(a.bags, bag); p < end; p++) {
      i64 row = index_at(a.bags.indices, p);
      if (!bag_keeps(a.bags, row)) continue;
      T term = Rows::at(a, row, column);
      if (a.weighted) term = term * get<S>(a.factors, p);
      sum.add(term);
    }
    T y = sum.total();
    if (a.mode == bag_mean_ && sum.count > 0) y = y / (T)sum.count;
    element<S>(a.out, w) = Narrow<S>::from(y);
  }
}

// A thread takes the largest of one column of a bag: of equals the first, and
// the first NaN before all.
template <class S, class Rows> DEVICE void embedding_bag_max(const typename Rows::Args &a) {
  typedef typename Compute<S>::type T;
  for (i64 w = thread_number(); w < a.bags.count * a.columns; w += thread_count()) {
    i64 bag = div_(w, a.columns), column = w - bag * a.columns;
    T best = 0;
    i64 from = -1, end = bag_end(a.bags, bag);
    for (i64 p = bag_begin(a.bags, bag); p < end; p++) {
      i64 row = index_at(a.bags.indices, p);
      if (!bag_keeps(a.bags, row)) continue;
      T v = Rows::at(a, row, column);
      if (from < 0 || v > best || (v != v && best == best)) best = v, from = p;
    }
    element<S>(a.out, w) = Narrow<S>::from(best);
    if (a.noted) element<i64>(a.chosen, w) = from;
  }
}

// The gradient of each per_sample_weight: dy * row, summed over columns.
struct BagWeightsArgs {
  Stripe stripe; // a reduction per position
  Bags bags;
  Tensor grad, weight, out;
  i64 columns;
};

template <class S> struct BagWeights : Adding {
  typedef BagWeightsArgs Args;
  typedef typename Compute<S>::type T;
  struct Channel {
    i64 total, bag, row;
  };
  template <i32 STEP, bool> using Walk = Straight<STEP>;
  template <i32 V> struct In {
    Words<S, V> dy, w;
  };
  static constexpr i32 SUMS = 1;

  static DEVICE Channel start(const Args &a, i64 position) {
    Channel ch = {0, bag_of(a.bags, position), index_at(a.bags.indices, position)};
    if (ch.bag < a.bags.count && bag_keeps(a.bags, ch.row)) ch.total = a.columns;
    return ch;
  }
  static DEVICE void ready(const Args &, i64, Channel &) {}
  template <i32 V, bool PLAIN> static DEVICE In<V> load(const Args &a, const Channel &ch, i64 column) {
    In<V> in;
    load_words<PLAIN>(in.dy, a.grad, ch.bag * a.columns + column);
    load_words<PLAIN>(in.w, a.weight, ch.row * a.columns + column);
    return in;
  }
  template <i32 V, bool>
  static DEVICE void add(const Args &, const Channel (&)[1], i64, const In<V> &in, T (&sums)[1][V]) {
    T dy[V], w[V];
    unpack(dy, in.dy);
    unpack(w, in.w);
#pragma unroll
    for (i32 j = 0; j < V; j++) sums[0][j] += dy[j] * w[j];
  }
  static DEVICE void finish(const Args &a, i64 position, const T (&sums)[1]) {
    element<S>(a.out, position) = Narrow<S>::from(sums[0]);
  }
};

#define EMBEDDING_BAG(S)                                                            \
  KERNEL(embedding_bag_##S, BagArgs) { embedding_bag<S, FloatRows<S>>(a); }         \
  KERNEL(embedding_bag_max_##S, BagArgs) { embedding_bag_max<S, FloatRows<S>>(a); } \
  KERNEL(code_bag_##S, CodeBagArgs) { embedding_bag<S, CodeRows<S>>(a); }           \
  KERNEL(code_bag_max_##S, CodeBagArgs) { embedding_bag_max<S, CodeRows<S>>(a); }   \
  ROWS_KERNELS(embedding_bag_weights_##S, BagWeights<S>, 16 / sizeof(S), 4)
EACH_FLOAT(EMBEDDING_BAG)
