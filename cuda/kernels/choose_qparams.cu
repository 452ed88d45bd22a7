#include "dynamic.cuh"

// Any groups: their keys join in any order.
template <class X> struct ChooseQParams {
  typedef QuantSumArgs Args;
  typedef typename KeyOf<X>::type T;
  typedef Members Channel;
  template <i32 STEP, bool PLAIN> using Walk = MemberWalk<STEP, PLAIN>;
  template <i32 V> using In = Words<X, V>;
  static constexpr i32 SUMS = 2;
  static constexpr bool ANY_ORDER = true;

  static DEVICE Members start(const Args &a, i64 c) { return members_of(a.q, c); }
  static DEVICE void ready(const Args &, i64, Members &) {}
  template <i32 V, bool PLAIN> static DEVICE In<V> load(const Args &a, const Channel &, i64 at) {
    In<V> in;
    load_words<PLAIN>(in, a.x, at);
    return in;
  }
  template <i32 V, bool PLAIN, i32 C, i32 W>
  static DEVICE void add(const Args &, const Members (&)[C], i64, const In<V> &in, T (&keys)[2][W]) {
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      for (i32 k = 0; k < 2; k++) keys[k][j % W] = join(k, keys[k][j % W], key_of(in[j]));
    }
  }
  static DEVICE T join(i32 which, T a, T b) { return join_keys(which, a, b); }
  static DEVICE void finish(const Args &a, i64 c, const T (&keys)[2]) {
    Ends<X>{{keys[0], keys[1]}}.choice(a).store(a, c);
  }
};

// Longer groups: a block has a piece of one, or all of it; each warp's packs lie side by side,
// at distances that are known.
template <class X> DEVICE void choose_pieces(const QuantSumArgs &a, typename KeyOf<X>::type (*shared)[32]) {
  const Stripe &s = a.stripe;
  const i32 each = 4, V = 16 / sizeof(X), step = each * (i32)blockDim.x,
            self = threadIdx.x / 32 * (each * 32) + threadIdx.x % 32;
  const u32 n = blockIdx.x, c = s.blocks == 1 ? n : n / (u32)s.blocks;
  const i64 start = (n - c * (u32)s.blocks) * s.block, rest = s.longest - start;
  const Quad *from = &quad_at(a.x, (c * s.longest + start) / V + self);
  Ends<X> ends;
#pragma unroll 1
  for (i32 left = (i32)((rest < s.block ? rest : s.block) / V) - self; left > 0; left -= step, from += step) {
    if (left > (each - 1) * 32) {
      Quad in[each];
#pragma unroll
      for (i32 e = 0; e < each; e++) in[e] = from[e * 32];
#pragma unroll
      for (i32 e = 0; e < each; e++) ends.add(in[e]);
    } else {
#pragma unroll 1
      for (i32 e = 0; e * 32 < left; e++) {
        const Quad one = from[e * 32];
        ends.add(one);
      }
    }
  }
  ends.fold_block(shared);
  if (self != 0) return;
  if (s.blocks == 1)
    ends.choice(a).store(a, c);
  else
    for (i32 k = 0; k < 2; k++) ((typename KeyOf<X>::type *)s.partial)[2 * n + k] = ends.key[k];
}

// Groups of which each has an element in every row of memory, whole packs of them: a warp has
// 32 packs of rows, which a block's warps take in turns; of a block of rows if there are
// several, whose keys are left in s.partial, [blocks][reductions][2].
const i32 column_warps = 8;
template <class X> struct ColumnKeys {
  typedef typename KeyOf<X>::type Key;
  static constexpr i32 V = 16 / sizeof(X);
  Key of[column_warps][2][V][32];
};
template <class X> DEVICE void choose_columns(const QuantSumArgs &a, ColumnKeys<X> &shared) {
  typedef typename KeyOf<X>::type Key;
  const Stripe &s = a.stripe;
  const i32 V = 16 / sizeof(X), each = 4;
  const u32 packs = (u32)s.reductions / V, tiles = (packs + 31) / 32, block = blockIdx.x / tiles;
  const u32 lane = threadIdx.x % 32, own = threadIdx.x / 32, first = (blockIdx.x - block * tiles) * 32;
  const i64 start = block * s.block, rest = s.longest - start;
  const i32 rows = first + lane < packs ? (i32)(rest < s.block ? rest : s.block) : 0;
  const Quad *from = &quad_at(a.x, (start + own) * packs + first + lane);
  Key keys[2][V] = {};
  auto add = [&](const Quad &q) {
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      for (i32 k = 0; k < 2; k++) keys[k][j] = join_keys(k, keys[k][j], key_in<X>(q, j));
    }
  };
  const i64 step = (i64)column_warps * packs;
#pragma unroll 1
  for (i32 left = rows - (i32)own; left > 0; left -= each * column_warps, from += each * step) {
    if (left > (each - 1) * column_warps) {
      Quad in[each];
#pragma unroll
      for (i32 e = 0; e < each; e++) in[e] = from[e * step];
#pragma unroll
      for (i32 e = 0; e < each; e++) add(in[e]);
    } else {
#pragma unroll 1
      for (i32 e = 0; e * column_warps < left; e++) {
        const Quad one = from[e * step];
        add(one);
      }
    }
  }
#pragma unroll
  for (i32 n = 0; n < 2 * V; n++) shared.of[own][n / V][n % V][lane] = keys[n / V][n % V];
  __syncthreads();
  for (u32 n = threadIdx.x; n < V * 32; n += column_warps * 32) {
    const u32 c = first * V + n;
    if (c >= (u32)s.reductions) break;
    Ends<X> ends;
#pragma unroll
    for (i32 w = 0; w < column_warps; w++) {
      for (i32 k = 0; k < 2; k++) ends.key[k] = join_keys(k, ends.key[k], shared.of[w][k][n % V][n / V]);
    }
    if (s.blocks == 1)
      ends.choice(a).store(a, c);
    else
      ((Ends<X> *)s.partial)[block * s.reductions + c] = ends;
  }
}

// Four lanes fold a group's.
template <class X> DEVICE void choose_columns_fold(const QuantSumArgs &a) {
  const Stripe &s = a.stripe;
  const i64 c = thread_number() / 4;
  Ends<X> ends;
  if (c < s.reductions) {
#pragma unroll 8
    for (i32 b = threadIdx.x % 4; b < (i32)s.blocks; b += 4)
      ends.join(((const Ends<X> *)s.partial)[b * s.reductions + c]);
  }
  ends.fold(4);
  if (c < s.reductions && threadIdx.x % 4 == 0) ends.choice(a).store(a, c);
}

#define CHOOSE_QPARAMS(X)                                                                          \
  ROWS_KERNELS(choose_qparams_##X, ChooseQParams<X>, 16 / sizeof(X), 4)                            \
  KERNEL(choose_qparams_##X##_column, QuantSumArgs) { stripe_columns<ChooseQParams<X>, 1, 8>(a); } \
  KERNEL(choose_qparams_##X##_lanes, QuantSumArgs) { stripe_lanes_fold<ChooseQParams<X>>(a); }     \
  KERNEL(choose_qparams_##X##_short, QuantSumArgs) { choose_short<X, NoCodes, 4, 1>(a); }          \
  KERNEL_FIT(choose_qparams_##X##_pair, QuantSumArgs, 5) { choose_short<X, NoCodes, 2, 4>(a); }    \
  KERNEL_FIT(choose_qparams_##X##_columns, QuantSumArgs, 4) {                                      \
    __shared__ ColumnKeys<X> shared;                                                               \
    choose_columns<X>(a, shared);                                                                  \
  }                                                                                                \
  KERNEL(choose_qparams_##X##_columns_fold, QuantSumArgs) { choose_columns_fold<X>(a); }           \
  KERNEL_FIT(choose_qparams_##X##_pieces, QuantSumArgs, 6) {                                       \
    __shared__ KeyOf<X>::type shared[2][32];                                                       \
    choose_pieces<X>(a, shared);                                                                   \
  }
EACH_FLOAT(CHOOSE_QPARAMS)
