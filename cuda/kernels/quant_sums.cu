#include "quant_sums.cuh"

template <class F> struct Pair {
  F dy, x;
};

template <bool PLAIN, class S> DEVICE typename Compute<S>::type read(const Tensor &t, i64 i) {
  return widen<typename Compute<S>::type>(((const S *)t.data)[plain_offset<PLAIN>(t, i)]);
}

// Fake-quantize with learned parameters: dx = inside ? dy : +0, and the sums
// ds = sum(dy * e) * g, dz = (0 - s * sum(dy outside)) * g.
template <class X> struct FakeQuantizeSums : Adding {
  typedef QuantSumArgs Args;
  typedef typename Compute<X>::type T;
  typedef ParamChannel<T> Channel;
  typedef Pair<T> In;
  static constexpr i32 SUMS = 2;

  static DEVICE bool plain(const Args &a) { return a.plain; }
  static DEVICE Channel start(const Args &a, i64 c) { return param_channel<T>(a, c); }
  template <bool PLAIN> static DEVICE In load(const Args &a, const Channel &ch, i64 position) {
    i64 i = member<PLAIN>(a.q, ch, position);
    In in = {read<PLAIN, X>(a.dy, i), read<PLAIN, X>(a.x, i)};
    return in;
  }
  template <bool PLAIN>
  static DEVICE void terms(const Args &a, const Channel &ch, i64 position, const In &in, T (&out)[2]) {
    T u = ch.p.divide(a.q.reciprocal, in.x), t = ch.p.place(u, ch.p.float8), dx = 0;
    if (t < ch.p.lo || t > ch.p.hi) {
      out[0] = in.dy * ((t < ch.p.lo ? ch.p.lo : ch.p.hi) - ch.p.z);
      out[1] = in.dy;
    } else if (u == u) {
      dx = in.dy;
      T r = ch.p.float8 ? round_float8(u, ch.p.float8) : rint_(u);
      out[0] = in.dy * (r - u);
    }
    if (a.dx.data) ((X *)a.dx.data)[plain_offset<PLAIN>(a.dx, member<PLAIN>(a.q, ch, position))] = Narrow<X>::from(dx);
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&sums)[2]) {
    T factor = (T)a.factor;
    set_any(a.ds, c, sums[0] * factor);
    set_any(a.dz, c, ((T)0 - get_any<T>(a.q.scale, c) * sums[1]) * factor);
  }
};

// Dequantize: dq = dy * s, ds = sum(dy * (q - z)), dz = 0 - s * sum(dy).
template <class Y> struct DequantizeSums : Adding {
  typedef QuantSumArgs Args;
  typedef typename Compute<Y>::type T;
  typedef ParamChannel<T> Channel;
  typedef Pair<T> In;
  static constexpr i32 SUMS = 2;

  static DEVICE bool plain(const Args &a) { return a.plain; }
  static DEVICE Channel start(const Args &a, i64 c) { return param_channel<T>(a, c); }
  template <bool PLAIN> static DEVICE In load(const Args &a, const Channel &ch, i64 position) {
    i64 i = member<PLAIN>(a.q, ch, position);
    In in = {read<PLAIN, Y>(a.dy, i), code_at<PLAIN, T>(a, i)};
    return in;
  }
  template <bool PLAIN>
  static DEVICE void terms(const Args &a, const Channel &ch, i64 position, const In &in, T (&out)[2]) {
    out[0] = in.dy * less_zero(a, in.x, ch.p.z);
    out[1] = in.dy;
    if (a.dx.data)
      ((Y *)a.dx.data)[plain_offset<PLAIN>(a.dx, member<PLAIN>(a.q, ch, position))] = Narrow<Y>::from(in.dy * ch.p.s);
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&sums)[2]) {
    set_any(a.ds, c, sums[0]);
    set_any(a.dz, c, (T)0 - get_any<T>(a.q.scale, c) * sums[1]);
  }
};

// Parameters from the data: the smallest and the largest element and 0; a NaN
// makes both a NaN. They are exact in any order, so that threads keep their own
// in registers, and only blocks of a long reduction are folded as sums are.
template <class X> struct ChooseQParams {
  typedef QuantSumArgs Args;
  typedef typename Compute<X>::type T;
  static constexpr i32 SUMS = 2;

  static DEVICE Members start(const Args &a, i64 c) { return members_of(a.q, c); }
  static DEVICE T join(i32 which, T kept, T other) {
    bool better = which == 0 ? other < kept : other > kept;
    return better || other != other ? other : kept;
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&ends)[2]) {
    T lo = ends[0], hi = ends[1], qmin = (T)a.q.lo, qmax = (T)a.q.hi;
    T largest = -lo > hi || lo != lo ? -lo : hi;
    T s = a.symmetric ? largest / qmax : (hi - lo) / (qmax - qmin);
    if (s == 0) s = 1;
    set_any(a.ds, c, s);
    if (a.dz.dtype != none_) set_any(a.dz, c, a.symmetric ? (T)0 : round_zero(qmin - lo / s, qmin, qmax));
  }
  // Joins every step-th of the positions from first to stop, 8 of which are
  // loaded before any is used.
  template <bool PLAIN>
  static DEVICE void range(const Args &a, const Members &m, i64 first, i64 stop, i32 step, T (&ends)[2]) {
    const i32 each = PLAIN ? 8 : 1;
#pragma unroll 1
    for (i64 at = first; at < stop; at += each * step) {
      T in[each];
#pragma unroll
      for (i32 u = 0; u < each; u++) {
        in[u] = 0;
        if (at + u * step < stop) in[u] = read<PLAIN, X>(a.x, member<PLAIN>(a.q, m, at + u * step));
      }
#pragma unroll
      for (i32 u = 0; u < each; u++) {
        for (i32 k = 0; k < 2; k++) ends[k] = join(k, ends[k], in[u]);
      }
    }
  }
};

// The threads of a block share as many reductions as a tile has.
template <class X> DEVICE void choose_qparams(const QuantSumArgs &a, typename Compute<X>::type (*shared)[2]) {
  typedef ChooseQParams<X> Job;
  typedef typename Job::T T;
  const Stripe &s = a.stripe;
  const i32 lanes = stripe_threads >> s.log_channels;
  const TilePlace p(s, threadIdx.x, stripe_threads);
  T(*row)[2] = shared + (p.channel * lanes + p.position);
  for (i64 w = blockIdx.x; w < stripe_tiles(s) * s.blocks; w += gridDim.x) {
    i64 tile = div_(w, s.blocks), block = w - tile * s.blocks, c = (tile << s.log_channels) + p.channel;
    T ends[2] = {0, 0};
    if (c < s.reductions) {
      Members m = members_of(a.q, c);
      i64 first = block * stripe_block, stop = first + stripe_block < m.total ? first + stripe_block : m.total;
      if (a.plain)
        Job::template range<true>(a, m, first + p.position, stop, lanes, ends);
      else
        Job::template range<false>(a, m, first + p.position, stop, lanes, ends);
    }
    for (i32 k = 0; k < 2; k++) row[0][k] = ends[k];
    __syncthreads();
    for (i32 half = lanes / 2; half > 0; half /= 2) {
      if (p.position < half) {
        for (i32 k = 0; k < 2; k++) row[0][k] = Job::join(k, row[0][k], row[half][k]);
      }
      __syncthreads();
    }
    if (p.position != 0 || c >= s.reductions) continue;
    for (i32 k = 0; k < 2; k++) ends[k] = row[0][k];
    if (s.blocks == 1)
      Job::finish(a, c, ends);
    else
      for (i32 k = 0; k < 2; k++) ((T *)s.partial)[(c * s.blocks + block) * 2 + k] = ends[k];
  }
}

#define QUANT_SUMS(X)                                         \
  STRIPE_KERNELS(fake_quantize_sums_##X, FakeQuantizeSums<X>) \
  STRIPE_KERNELS(dequantize_sums_##X, DequantizeSums<X>)      \
  KERNEL(choose_qparams_##X, QuantSumArgs) {                  \
    __shared__ Compute<X>::type shared[stripe_threads][2];    \
    choose_qparams<X>(a, shared);                             \
  }                                                           \
  KERNEL(choose_qparams_##X##_fold, QuantSumArgs) { stripe_fold<ChooseQParams<X>>(a); }

EACH_FLOAT(QUANT_SUMS)
