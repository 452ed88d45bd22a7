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
    T u = ch.p.divide(in.x), t = ch.p.place(u, ch.p.float8), dx = 0;
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
    out[0] = in.dy * (in.x - ch.p.z);
    out[1] = in.dy;
    if (a.dx.data)
      ((Y *)a.dx.data)[plain_offset<PLAIN>(a.dx, member<PLAIN>(a.q, ch, position))] = Narrow<Y>::from(in.dy * ch.p.s);
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&sums)[2]) {
    set_any(a.ds, c, sums[0]);
    set_any(a.dz, c, (T)0 - get_any<T>(a.q.scale, c) * sums[1]);
  }
};

// Parameters from the data: the smallest and the largest element and 0, exact
// in any order; a NaN makes both a NaN.
template <class X> struct ChooseQParams {
  typedef QuantSumArgs Args;
  typedef typename Compute<X>::type T;
  typedef Members Channel;
  typedef T In;
  static constexpr i32 SUMS = 2;

  static DEVICE bool plain(const Args &a) { return a.plain; }
  static DEVICE Channel start(const Args &a, i64 c) { return members_of(a.q, c); }
  template <bool PLAIN> static DEVICE In load(const Args &a, const Channel &ch, i64 position) {
    return read<PLAIN, X>(a.x, member<PLAIN>(a.q, ch, position));
  }
  template <bool PLAIN> static DEVICE void terms(const Args &, const Channel &, i64, const In &in, T (&out)[2]) {
    out[0] = out[1] = in;
  }
  static DEVICE T join(i32 which, T kept, T other) {
    bool better = which == 0 ? other < kept : other > kept;
    return better || other != other ? other : kept;
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&sums)[2]) {
    T lo = sums[0], hi = sums[1], qmin = (T)a.q.lo, qmax = (T)a.q.hi;
    T largest = -lo > hi || lo != lo ? -lo : hi;
    T s = a.symmetric ? largest / qmax : (hi - lo) / (qmax - qmin);
    if (s == 0) s = 1;
    set_any(a.ds, c, s);
    if (a.dz.dtype != none_) set_any(a.dz, c, a.symmetric ? (T)0 : round_zero(qmin - lo / s, qmin, qmax));
  }
};

#define QUANT_SUMS(X)                                         \
  STRIPE_KERNELS(fake_quantize_sums_##X, FakeQuantizeSums<X>) \
  STRIPE_KERNELS(dequantize_sums_##X, DequantizeSums<X>)      \
  STRIPE_KERNELS(choose_qparams_##X, ChooseQParams<X>)

EACH_FLOAT(QUANT_SUMS)
