// What the quantize family shares: which parameter belongs to an element, and
// the rules of NUMERICS.md, section 3.
#pragma once
#include "dtypes.cuh"

// The elements of a problem and the parameters that they belong to.
//
// With dims == 0 the elements are rows of inner elements; row r belongs to
// parameters (r % rows) * groups + column / group. That is every granularity
// but some blocks in several dimensions: per tensor (1 row of 1 group), per
// channel (1 row of a group for each channel), per token or group likewise.
// Otherwise element (i0, i1, ...) of extent belongs to parameter
// (i0 / block[0], i1 / block[1], ...) of count.
struct Quant {
  i64 n, params;
  i64 inner, rows, groups, group;
  i64 extent[max_rank], block[max_rank], count[max_rank];
  i32 dims, reciprocal, float8, pad; // float8: which 8-bit float codes are, or 0
  f64 lo, hi; // quant_min, quant_max
  Tensor scale, zero;
};

// rint, clamp and their neighbours, as in the definitions.
template <class T> DEVICE T clamp_(T v, T lo, T hi) { return v < lo ? lo : v > hi ? hi : v; }

// The zero point that a learned one stands for; never -0.
template <class T> DEVICE T round_zero(T z, T lo, T hi) {
  if (z != z) z = 0;
  return clamp_(rint_(z), lo, hi) + (T)0;
}

template <class T> DEVICE T quantized(T u, T z, T lo, T hi, i32 float8) {
  if (float8) return round_float8(clamp_(u, lo, hi), float8);
  if (u != u) return clamp_(z, lo, hi);
  return clamp_(rint_(u) + z, lo, hi);
}

// The parameters of one element, in the compute type.
template <class T> struct Param {
  T s, z, lo, hi;
  i32 float8;

  DEVICE void load(const Quant &q, i64 c) {
    lo = (T)q.lo;
    hi = (T)q.hi;
    float8 = q.float8;
    s = get_any<T>(q.scale, c);
    z = get_any<T>(q.zero, c);
    if (q.zero.dtype >= f32_ && q.zero.dtype <= bf16_) z = round_zero(z, lo, hi);
  }
  DEVICE T divide(bool reciprocal, T x) const { return reciprocal ? x * ((T)1 / s) : x / s; }
  // u = x / s of N elements, which asks how once.
  template <i32 N> DEVICE void divide(bool reciprocal, const T (&x)[N], T (&u)[N]) const {
    if (reciprocal) {
#pragma unroll
      for (i32 j = 0; j < N; j++) u[j] = divide(true, x[j]);
    } else {
#pragma unroll
      for (i32 j = 0; j < N; j++) u[j] = divide(false, x[j]);
    }
  }
  // KIND is float8, so that a kernel's loop need not ask.
  template <i32 KIND> DEVICE T code(T u) const { return quantized(u, z, lo, hi, KIND); }
  template <i32 KIND> DEVICE bool inside(T u) const {
    T t = place(u, KIND);
    return t >= lo && t <= hi;
  }
  // Where u = x / s falls among the codes: to be compared with lo and hi.
  DEVICE T place(T u, i32 kind) const { return kind ? u : rint_(u) + z; }
};

// The parameter that an element belongs to, where dims == 0.
DEVICE i64 row_param(const Quant &q, i64 i) {
  if (q.params == 1) return 0;
  i64 row = i < q.inner ? 0 : div_(i, q.inner), column = i - row * q.inner;
  if (q.rows == 1)
    row = 0;
  else if (row >= q.rows)
    row -= div_(row, q.rows) * q.rows;
  return row * q.groups + (q.groups > 1 ? div_(column, q.group) : 0);
}

// The same of any.
DEVICE i64 param_of(const Quant &q, i64 i) {
  if (q.dims == 0) return row_param(q, i);
  i64 c = 0, pitch = 1;
#pragma unroll 1
  for (i32 d = q.dims - 1; d >= 0; d--) {
    i64 next = div_(i, q.extent[d]);
    c += div_(i - next * q.extent[d], q.block[d]) * pitch;
    pitch *= q.count[d];
    i = next;
  }
  return c;
}

// How many elements move at once: 16 bytes of the widest type, so that
// neighbouring threads' accesses, vectors, are neighbours in memory.
template <class A, class B, class S> struct PackSize {
  static constexpr i32 wide = sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B);
  static constexpr i32 value = 16 / (wide > sizeof(S) ? wide : sizeof(S));
};

struct MapArgs {
  Quant q;
  Tensor in, x, out; // in: x, codes or grad_output; x: of a backward
  i64 packs; // how many packs from the start share a parameter each and move at once
};

// Holds<A, T>::type is what Op takes elements of type A in: T, unless it does not
// hold them all.
template <class A, class T> struct Holds {
  typedef T type;
};
template <> struct Holds<i32, f32> {
  typedef f64 type;
};

// Computes N elements of parameter c.
template <class Op, class H, class T, i32 N>
DEVICE void map_some(const Quant &q, i64 c, const H (&in)[N], const T (&x)[N], T (&out)[N]) {
  Param<T> p;
  p.load(q, c);
  T u[N];
  if (Op::divides) p.divide(q.reciprocal, x, u);
#pragma unroll
  for (i32 j = 0; j < N; j++) out[j] = Op::run(in[j], Op::divides ? u[j] : x[j], p);
}

// What a thread loads for a pack, if there is a pack k.
template <class A, class B, i32 V, bool BACKWARD> struct MapPack {
  Pack<A, V> in;
  Pack<B, V> x;
  DEVICE void load(const MapArgs &a, i64 k) {
    if (k >= a.packs) return;
    in = ((const Pack<A, V> *)a.in.data)[k];
    if (BACKWARD) x = ((const Pack<B, V> *)a.x.data)[k];
  }
};

// Runs Op over all elements: out[i] = Op::run(in[i], u, parameters of i) with
// u = x[i] / s where Op divides. A, B, S are the storage types of in, x and
// out; x is in unless Op is a backward. A thread asks for packs two steps
// ahead, since the compiler moves no load before a store.
template <class A, class B, class S, class T, class Op> DEVICE void map(const MapArgs &a) {
  typedef typename Holds<A, T>::type H;
  const i32 V = PackSize<A, B, S>::value;
  const i64 step = thread_count();
  MapPack<A, B, V, Op::backward> now, next, last;
  i64 k = thread_number();
  now.load(a, k);
  next.load(a, k + step);
#pragma unroll 1
  for (; k < a.packs; k += step) {
    last.load(a, k + 2 * step);
    H in[V];
    T x[V], out[V];
    unpack(in, now.in);
    if (Op::backward)
      unpack(x, now.x);
    else
      unpack(x, now.in);
    map_some<Op>(a.q, row_param(a.q, k * V), in, x, out);
    store_pack<S>(a.out, k * V, out);
    now = next;
    next = last;
  }
#pragma unroll 1
  for (i64 i = a.packs * V + thread_number(); i < a.q.n; i += step) {
    H in[1] = {widen<H>(element<A>(a.in, i))};
    T x[1] = {(T)in[0]}, out[1];
    if (Op::backward) x[0] = widen<T>(element<B>(a.x, i));
    map_some<Op>(a.q, param_of(a.q, i), in, x, out);
    element<S>(a.out, i) = Narrow<S>::from(out[0]);
  }
}

// The same for an Op that depends on which codes there are.
template <class A, class B, class S, class T, template <i32> class Op> DEVICE void map_kinds(const MapArgs &a) {
  switch (a.q.float8) {
  case no_float8:
    return map<A, B, S, T, Op<no_float8>>(a);
  case e4m3:
    return map<A, B, S, T, Op<e4m3>>(a);
  case e5m2:
    return map<A, B, S, T, Op<e5m2>>(a);
  }
}
