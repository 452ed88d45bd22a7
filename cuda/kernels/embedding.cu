#include "embedding.cuh"
#include "rows.cuh"

struct EmbeddingArgs {
  i64 n, rows, columns; // indices, rows of weight, columns
  Tensor weight, indices, out;
};

// Stops everything if an index is out of bounds, before anything is written:
// a kernel can report nothing else.
KERNEL(embedding_check, EmbeddingArgs) {
  for (i64 i = thread_number(); i < a.n; i += thread_count()) {
    i64 row = index_at(a.indices, i);
    if (in_bounds(row, a.rows)) continue;
    printf("isobit: embedding: indices is %lld at position %lld; want 0 to %lld\n", row, i, a.rows - 1);
    __trap();
  }
}

// Copies rows; an index out of bounds gives a row of zeros.
template <class S> DEVICE void embedding(const EmbeddingArgs &a) {
  const i32 V = 16 / sizeof(S);
  const bool packs = a.weight.rank == 0 && a.out.rank == 0;
  const i64 step = packs ? V : 1, each = a.columns / step;
  for (i64 w = thread_number(); w < a.n * each; w += thread_count()) {
    i64 i = div_(w, each), column = (w - i * each) * step;
    i64 row = index_at(a.indices, i), to = i * a.columns + column;
    bool read = in_bounds(row, a.rows);
    i64 from = row * a.columns + column;
    if (packs) {
      Pack<S, V> p = {};
      if (read) p = *(const Pack<S, V> *)((const S *)a.weight.data + from);
      *(Pack<S, V> *)((S *)a.out.data + to) = p;
    } else {
      S v = {};
      if (read) v = element<S>(a.weight, from);
      element<S>(a.out, to) = v;
    }
  }
}

#define EMBEDDING(S) \
  KERNEL(embedding_##S, EmbeddingArgs) { embedding<S>(a); }
EACH_FLOAT(EMBEDDING)

// max_norm: the first position that names a row owns it and scales it.
struct RenormArgs {
  Stripe stripe; // a reduction per index
  i64 n, rows, columns;
  Tensor weight, indices;
  u32 *owner; // [rows]: the first position that names it
  void *factor; // [n], in the compute type; NaN leaves the row as it is
  f64 max_norm;
  i32 norm; // 1, 2, or 0 for infinity
  i32 skip; // whether an index out of bounds is passed over
};

KERNEL(embedding_renorm_own, RenormArgs) {
  for (i64 i = thread_number(); i < a.n; i += thread_count()) {
    i64 row = index_at(a.indices, i);
    if (in_bounds(row, a.rows)) atomicMin(a.owner + row, (u32)i);
  }
}

// Whether index i names a row that no index before it does.
DEVICE bool owns(const RenormArgs &a, i64 i, i64 row) { return in_bounds(row, a.rows) && a.owner[row] == (u32)i; }

template <class S> struct Renorm : Adding {
  typedef RenormArgs Args;
  typedef typename Compute<S>::type T;
  struct Channel {
    i64 total, row;
  };
  template <i32 STEP, bool> using Walk = Straight<STEP>;
  template <i32 V> using In = Words<S, V>;
  static constexpr i32 SUMS = 2; // the sum of powers, and the largest

  static DEVICE Channel start(const Args &a, i64 i) {
    Channel ch = {0, index_at(a.indices, i)};
    if (owns(a, i, ch.row)) ch.total = a.columns;
    return ch;
  }
  static DEVICE void ready(const Args &, i64, Channel &) {}
  template <i32 V, bool PLAIN> static DEVICE In<V> load(const Args &a, const Channel &ch, i64 column) {
    In<V> in;
    load_words<PLAIN>(in, a.weight, ch.row * a.columns + column);
    return in;
  }
  template <i32 V, bool>
  static DEVICE void add(const Args &a, const Channel (&)[1], i64, const In<V> &in, T (&sums)[2][V]) {
    T v[V];
    unpack(v, in);
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      T size = abs_(v[j]);
      sums[0][j] += a.norm == 1 ? size : size * size;
      sums[1][j] = join(1, sums[1][j], size);
    }
  }
  static DEVICE T join(i32 which, T kept, T other) {
    if (which == 0) return kept + other;
    return other > kept || other != other ? other : kept;
  }
  static DEVICE void finish(const Args &a, i64 i, const T (&sums)[2]) {
    T norm = a.norm == 0 ? sums[1] : a.norm == 1 ? sums[0] : sqrt_(sums[0]);
    T most = (T)a.max_norm, none = 0;
    ((T *)a.factor)[i] = norm > most ? most / (norm + (T)1e-7) : none / none;
  }
};

template <class S> DEVICE void renorm_scale(const RenormArgs &a) {
  typedef typename Compute<S>::type T;
  for (i64 w = thread_number(); w < a.n * a.columns; w += thread_count()) {
    i64 i = div_(w, a.columns), row = index_at(a.indices, i);
    T factor = ((const T *)a.factor)[i];
    if (!owns(a, i, row) || factor != factor) continue;
    i64 at = row * a.columns + w - i * a.columns;
    element<S>(a.weight, at) = Narrow<S>::from(get<S>(a.weight, at) * factor);
  }
}

#define RENORM(S)                                                  \
  ROWS_KERNELS(embedding_renorm_##S, Renorm<S>, 16 / sizeof(S), 4) \
  KERNEL(embedding_renorm_scale_##S, RenormArgs) { renorm_scale<S>(a); }
EACH_FLOAT(RENORM)
