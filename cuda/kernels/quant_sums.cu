#include "quant_sums.cuh"
#include "short.cuh"

// What sums over the elements of parameters have in common.
template <class F, class P> struct QuantSums : Adding {
  typedef QuantSumArgs Args;
  typedef F T;
  typedef ParamChannel<P> Channel;
  template <i32 STEP, bool PLAIN> using Walk = MemberWalk<STEP, PLAIN>;
  static constexpr i32 SUMS = 2;

  static DEVICE Channel start(const Args &a, i64 c) {
    Channel ch;
    (Members &)ch = members_of(a.q, c);
    return ch;
  }
  static DEVICE void ready(const Args &a, i64 c, Channel &ch) { ch.p.load(a.q, c); }
  static DEVICE void take(Channel &ch, const Channel &from, i32 lane) { ch.p = from_lane(from.p, lane); }
};

// Fake-quantize with learned parameters: dx = inside ? dy : +0, and the sums
// ds = sum(dy * e) * g, dz = (0 - s * sum(dy outside)) * g.
template <class X> struct FakeQuantizeSums : QuantSums<typename Compute<X>::type, Learned<typename Compute<X>::type>> {
  typedef QuantSums<typename Compute<X>::type, Learned<typename Compute<X>::type>> Base;
  typedef typename Base::T T;
  typedef typename Base::Args Args;
  typedef typename Base::Channel Channel;
  template <i32 V> struct In {
    Loaded<X, V> dy, x;
  };

  template <bool PLAIN, i32 V> static DEVICE void load(const Args &a, const Channel &, i64 at, In<V> &in) {
    in.dy.template load<PLAIN>(a.dy, at);
    in.x.template load<PLAIN>(a.x, at);
  }
  template <class Form, bool PLAIN, class H, i32 V, i32 C, i32 N, i32 R>
  static DEVICE void add(const Args &a, const Channel (&ch)[C], const i64 (&at)[N], const In<V> (&in)[N], const H &here,
                         T (&sums)[R][2][V]) {
    Pack<X, V> dx[N]; // the bits of dy: narrowing what was widened gives no others
    bool quick = true;
#pragma unroll
    for (i32 n = 0; n < N * V; n++)
      quick = quick && ch[Form::channel(n / V, n % V)].p.quick(widen<T>(in[n / V].x[n % V]));
    if (quick) {
#pragma unroll
      for (i32 n = 0; n < N * V; n++) {
        const i32 u = n / V, j = n % V;
        const Learned<T> &p = ch[Form::channel(u, j)].p;
        T x = widen<T>(in[u].x[j]), v, r = p.quick_step(x, v), first = p.lo - p.z, last = p.hi - p.z;
        T dy = x == x ? widen<T>(in[u].dy[j]) : (T)0;
        const bool below = r < first;
        const bool above = r > last;
        sums[Form::sums(u)][0][j] += dy * (below ? first : above ? last : r - v);
        if (below || above) sums[Form::sums(u)][1][j] += dy;
        dx[u].v[j] = below || above ? X{} : in[u].dy[j];
      }
    } else {
      slow_add<Form>(a, ch, in, sums, dx);
    }
    if (!a.dx.data) return;
#pragma unroll
    for (i32 u = 0; u < N; u++) {
      if (here(u)) put_pack<PLAIN>(a.dx, at[u], dx[u]);
    }
  }
  // One after the other, as in the definition. A term left out is +0.
  template <class Form, i32 V, i32 C, i32 N, i32 R>
  static DEVICE void slow_add(const Args &a, const Channel (&ch)[C], const In<V> (&in)[N], T (&sums)[R][2][V],
                              Pack<X, V> (&dx)[N]) {
    struct {
      T x, dy, s, z, terms[2];
      bool inside;
    } e[N * V];
#pragma unroll
    for (i32 n = 0; n < N * V; n++) {
      const Learned<T> &p = ch[Form::channel(n / V, n % V)].p;
      e[n] = {widen<T>(in[n / V].x[n % V]), widen<T>(in[n / V].dy[n % V]), p.s, p.z, {0, 0}, false};
    }
    Param<T> p = ch[0].p;
#pragma unroll 1
    for (i32 n = 0; n < N * V; n++) {
      p.s = e[n].s;
      p.z = e[n].z;
      T u = p.divide(a.q.reciprocal, e[n].x), t = p.place(u, p.float8);
      const bool below = t < p.lo;
      const bool above = t > p.hi;
      T r = p.float8 ? round_float8(u, p.float8) : rint_(u);
      if (u == u) e[n].terms[0] = e[n].dy * (below ? p.lo - p.z : above ? p.hi - p.z : r - u);
      if (below || above) e[n].terms[1] = e[n].dy;
      e[n].inside = t >= p.lo && t <= p.hi;
    }
#pragma unroll
    for (i32 n = 0; n < N * V; n++) {
      const i32 u = n / V, j = n % V;
      for (i32 k = 0; k < 2; k++) sums[Form::sums(u)][k][j] += e[n].terms[k];
      dx[u].v[j] = e[n].inside ? in[u].dy[j] : X{};
    }
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&sums)[2]) {
    T factor = (T)a.factor;
    set_any(a.ds, c, sums[0] * factor);
    set_any(a.dz, c, ((T)0 - get_any<T>(a.q.scale, c) * sums[1]) * factor);
  }
};

// Dequantize: dq = dy * s, ds = sum(dy * (q - z)), dz = 0 - s * sum(dy).
template <class Y> struct DequantizeSums : QuantSums<typename Compute<Y>::type, Param<typename Compute<Y>::type>> {
  typedef QuantSums<typename Compute<Y>::type, Param<typename Compute<Y>::type>> Base;
  typedef typename Base::T T;
  typedef typename Base::Args Args;
  typedef typename Base::Channel Channel;
  template <i32 V> struct In {
    Loaded<Y, V> dy;
    Codes<T, V> q;
  };

  template <bool PLAIN, i32 V> static DEVICE void load(const Args &a, const Channel &, i64 at, In<V> &in) {
    in.dy.template load<PLAIN>(a.dy, at);
    in.q.template load<PLAIN>(a, at);
  }
  template <class Form, bool PLAIN, class H, i32 V, i32 C, i32 N, i32 R>
  static DEVICE void add(const Args &a, const Channel (&ch)[C], const i64 (&at)[N], const In<V> (&in)[N], const H &here,
                         T (&sums)[R][2][V]) {
#pragma unroll
    for (i32 u = 0; u < N; u++) {
      T dy[V], q[V];
      in[u].dy.unpack(dy);
      in[u].q.less_zero(a, [&](i32 j) { return ch[Form::channel(u, j)].p.z; }, q);
      Pack<Y, V> dx;
#pragma unroll
      for (i32 j = 0; j < V; j++) {
        sums[Form::sums(u)][0][j] += dy[j] * q[j];
        sums[Form::sums(u)][1][j] += dy[j];
        dx.v[j] = Narrow<Y>::from(dy[j] * ch[Form::channel(u, j)].p.s);
      }
      if (a.dx.data && here(u)) put_pack<PLAIN>(a.dx, at[u], dx);
    }
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&sums)[2]) {
    set_any(a.ds, c, sums[0]);
    set_any(a.dz, c, (T)0 - get_any<T>(a.q.scale, c) * sums[1]);
  }
};

// Parameters from the data: the smallest and the largest element and 0; a NaN
// makes both a NaN. They are exact in any order.
template <class X> struct ChooseQParams {
  typedef QuantSumArgs Args;
  typedef typename Compute<X>::type T;
  typedef Members Channel;
  template <i32 STEP, bool PLAIN> using Walk = MemberWalk<STEP, PLAIN>;
  template <i32 V> using In = Loaded<X, V>;
  static constexpr i32 SUMS = 2;
  static constexpr bool ANY_ORDER = true;

  static DEVICE Members start(const Args &a, i64 c) { return members_of(a.q, c); }
  static DEVICE void ready(const Args &, i64, Members &) {}
  static DEVICE void take(Members &, const Members &, i32) {}
  template <bool PLAIN, i32 V> static DEVICE void load(const Args &a, const Channel &, i64 at, In<V> &in) {
    in.template load<PLAIN>(a.x, at);
  }
  template <class Form, bool PLAIN, class H, i32 V, i32 C, i32 N, i32 R, i32 W>
  static DEVICE void add(const Args &, const Members (&)[C], const i64 (&)[N], const In<V> (&in)[N], const H &,
                         T (&ends)[R][2][W]) {
#pragma unroll
    for (i32 u = 0; u < N; u++) {
      T x[V], least[W], most[W];
      bool nan[W];
      in[u].unpack(x);
#pragma unroll
      for (i32 j = 0; j < V; j++) {
        least[j % W] = j < W ? x[j] : min_(least[j % W], x[j]);
        most[j % W] = j < W ? x[j] : max_(most[j % W], x[j]);
        nan[j % W] = (j >= W && nan[j % W]) || x[j] != x[j];
      }
#pragma unroll
      for (i32 j = 0; j < W; j++) {
        T(&to)[2][W] = ends[Form::sums(u)];
        to[0][j] = join(0, to[0][j], nan[j] ? not_number() : least[j]);
        to[1][j] = join(1, to[1][j], nan[j] ? not_number() : most[j]);
      }
    }
  }
  static DEVICE T not_number() { return from_bits((u32)0x7fc00000); }
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
};

#define QUANT_SUMS_OF(name, Job, S)    \
  ROWS_KERNELS(name, Job, row_pack<S>) \
  COLUMNS_KERNELS(name, Job, 2)        \
  KERNEL(name##_short, Job::Args) { stripe_short<Job, 16 / sizeof(S)>(a); }
#define QUANT_SUMS(X)                                           \
  QUANT_SUMS_OF(fake_quantize_sums_##X, FakeQuantizeSums<X>, X) \
  QUANT_SUMS_OF(dequantize_sums_##X, DequantizeSums<X>, X)      \
  QUANT_SUMS_OF(choose_qparams_##X, ChooseQParams<X>, X)

EACH_FLOAT(QUANT_SUMS)
