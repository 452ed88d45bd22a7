#include "few.cuh"
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
  static DEVICE void take(Channel &ch, const Channel &from, i32 lane) { ch.p.take(from.p, lane); }
};

// Fake-quantize with learned parameters: dx = inside ? dy : +0, and the sums
// ds = sum(dy * e) * g, dz = (0 - s * sum(dy outside)) * g.
template <class X> struct FakeQuantizeSums : QuantSums<typename Compute<X>::type, Learned<typename Compute<X>::type>> {
  typedef QuantSums<typename Compute<X>::type, Learned<typename Compute<X>::type>> Base;
  typedef typename Base::T T;
  typedef typename Base::Args Args;
  typedef typename Base::Channel Channel;
  template <i32 V> struct In {
    Words<X, V> dy, x;
  };
  typedef FakeQuantizeSums Whole; // see DequantizeSums
  static DEVICE bool whole(const Args &) { return false; }

  template <i32 V, bool PLAIN> static DEVICE In<V> load(const Args &a, const Channel &, i64 at) {
    In<V> in;
    load_words<PLAIN>(in.dy, a.dy, at);
    load_words<PLAIN>(in.x, a.x, at);
    return in;
  }
  template <i32 V, bool PLAIN, i32 C>
  static DEVICE void add(const Args &a, const Channel (&ch)[C], i64 at, const In<V> &in, T (&sums)[2][V]) {
    T dy[V], x[V];
    unpack(dy, in.dy);
    unpack(x, in.x);
    Pack<X, V> dx; // the bits of dy: narrowing what was widened gives no others
    bool quick = true;
#pragma unroll
    for (i32 j = 0; j < V; j++) quick = quick & ch[C == 1 ? 0 : j].p.usual(x[j]);
    if (!quick) {
      quick = true;
#pragma unroll
      for (i32 j = 0; j < V; j++) quick = quick & ch[C == 1 ? 0 : j].p.exact(x[j]);
    }
    if (quick) {
#pragma unroll
      for (i32 j = 0; j < V; j++) {
        T e;
        bool inside = ch[C == 1 ? 0 : j].p.error(x[j], e);
        sums[0][j] += dy[j] * e;
        if (!inside) sums[1][j] += dy[j];
        dx.v[j] = inside ? in.dy[j] : X{};
      }
    } else {
#pragma unroll
      for (i32 j = 0; j < V; j++) {
        const Learned<T> &p = ch[C == 1 ? 0 : j].p;
        T u = p.divide(a.q.reciprocal, x[j]), t = p.place(u, p.float8);
        bool below = t<p.lo, above = t> p.hi;
        T r = p.float8 ? round_float8(u, p.float8) : rint_(u);
        if (u == u) sums[0][j] += dy[j] * (below ? p.lo - p.z : above ? p.hi - p.z : r - u);
        if (below || above) sums[1][j] += dy[j];
        dx.v[j] = t >= p.lo && t <= p.hi ? in.dy[j] : X{};
      }
    }
    if (a.dx.data) put_pack<PLAIN>(a.dx, at, dx);
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&sums)[2]) {
    T factor = (T)a.factor;
    set_any(a.ds, c, sums[0] * factor);
    set_any(a.dz, c, ((T)0 - get_any<T>(a.q.scale, c) * sums[1]) * factor);
  }
};

// Dequantize: dq = dy * s, ds = sum(dy * (q - z)), dz = 0 - s * sum(dy). WHOLE: codes are
// s8 or u8.
template <class Y, bool WHOLE = false>
struct DequantizeSums : QuantSums<typename Compute<Y>::type, Lent<typename Compute<Y>::type>> {
  typedef QuantSums<typename Compute<Y>::type, Lent<typename Compute<Y>::type>> Base;
  typedef typename Base::T T;
  typedef typename Base::Args Args;
  typedef typename Base::Channel Channel;
  template <i32 V> struct In {
    Words<Y, V> dy;
    Codes<T, V, WHOLE> q;
  };
  typedef DequantizeSums<Y, true> Whole;
  static DEVICE bool whole(const Args &a) { return a.x.dtype == s8_ || a.x.dtype == u8_; }

  template <i32 V, bool PLAIN> static DEVICE In<V> load(const Args &a, const Channel &, i64 at) {
    In<V> in;
    load_words<PLAIN>(in.dy, a.dy, at);
    in.q.template load<PLAIN>(a, at);
    return in;
  }
  template <i32 V, bool PLAIN, i32 C>
  static DEVICE void add(const Args &a, const Channel (&ch)[C], i64 at, const In<V> &in, T (&sums)[2][V]) {
    T dy[V], q[V];
    unpack(dy, in.dy);
    in.q.less_zero(a, [&](i32 j) { return ch[C == 1 ? 0 : j].p.z; }, q);
    Pack<Y, V> dx;
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      const Param<T> &p = ch[C == 1 ? 0 : j].p;
      sums[0][j] += dy[j] * q[j];
      sums[1][j] += dy[j];
      dx.v[j] = Narrow<Y>::from(dy[j] * p.s);
    }
    if (a.dx.data) put_pack<PLAIN>(a.dx, at, dx);
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&sums)[2]) {
    set_any(a.ds, c, sums[0]);
    set_any(a.dz, c, (T)0 - get_any<T>(a.q.scale, c) * sums[1]);
  }
};

// What moves at once, as measured: 8 bytes of long rows that are many keep more threads
// busy than 16.
template <class S> constexpr i32 whole_pack = 16 / sizeof(S);
template <class S> constexpr i32 column_pack = sizeof(S) > 4 ? 2 : 4;
template <class S> constexpr i32 few_each = sizeof(S) == 4 ? 1 : 2;
template <class S> constexpr i32 half_pack = sizeof(S) > 4 ? 2 : 8 / sizeof(S);

#define EACH_KIND(Job, call) \
  if (Job::whole(a)) {       \
    typedef Job::Whole Kind; \
    call;                    \
  } else {                   \
    typedef Job Kind;        \
    call;                    \
  }
#define SUM_KERNEL(name, Job, call) \
  KERNEL(name, Job::Args) { EACH_KIND(Job, call) }
#define FEW_KERNEL(name, Job, V, EACH, COLUMNS)                    \
  KERNEL_FIT(name, Job::Args, sizeof(Job::T) > 4 ? 2 : 3) {        \
    __shared__ FewTerms<Job::T, Job::SUMS, V, EACH> terms;         \
    EACH_KIND(Job, (stripe_few<Kind, V, EACH, COLUMNS>(a, terms))) \
  }
#define QUANT_SUMS_OF(name, Job, X, ROW, AHEAD)                                                                       \
  KERNEL(name, Job::Args) { a.stripe.plain ? stripe_rows<Job, 1, true, 8>(a) : stripe_rows<Job, 1, false, 2>(a); }    \
  SUM_KERNEL(                                                                                                         \
      name##_packs, Job,                                                                                              \
      (a.stripe.plain == 2 ? stripe_rows<Kind, ROW, true, AHEAD, AHEAD / 2>(a) : stripe_rows<Kind, ROW, true, 2>(a))) \
  KERNEL(name##_column, Job::Args) { stripe_columns<Job, 1, 8>(a); }                                                  \
  SUM_KERNEL(name##_columns, Job, (stripe_columns<Kind, 2, 16>(a)))                                                   \
  SUM_KERNEL(name##_short, Job, (stripe_short<Kind, whole_pack<X>>(a)))                                               \
  FEW_KERNEL(name##_few, Job, column_pack<X>, few_each<X>, false)                                                     \
  FEW_KERNEL(name##_few_columns, Job, column_pack<X>, few_each<X>, true)                                              \
  LANES_KERNELS(name, Job)
#define QUANT_SUMS(X)                                                            \
  QUANT_SUMS_OF(fake_quantize_sums_##X, FakeQuantizeSums<X>, X, half_pack<X>, 8) \
  QUANT_SUMS_OF(dequantize_sums_##X, DequantizeSums<X>, X, whole_pack<X>, 4)

EACH_FLOAT(QUANT_SUMS)
