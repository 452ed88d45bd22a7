// Reductions over the elements of each parameter.
#pragma once
#include "packed.cuh"
#include "quant.cuh"
#include "rows.cuh"

// The elements of one parameter, by their position in row-major order.
struct Members {
  i64 total, base, width, pitch, param;
};

// The extent of block c along every dimension, from the innermost; calls
// f(d, first index, extent).
template <class F> DEVICE void each_extent(const Quant &q, i64 c, F f) {
#pragma unroll 1
  for (i32 d = q.dims - 1; d >= 0; d--) {
    i64 next = div_(c, q.count[d]);
    i64 first = (c - next * q.count[d]) * q.block[d];
    f(d, first, q.block[d] < q.extent[d] - first ? q.block[d] : q.extent[d] - first);
    c = next;
  }
}

DEVICE Members members_of(const Quant &q, i64 c) {
  Members m = {0, 0, 1, 0, c};
  if (q.n == 0) return m;
  if (q.dims == 0) {
    i64 row = div_(c, q.groups), first = (c - row * q.groups) * q.group;
    m.width = q.group < q.inner - first ? q.group : q.inner - first;
    m.pitch = q.rows * q.inner;
    m.base = row * q.inner + first;
    m.total = div_(q.n, m.pitch) * m.width;
    return m;
  }
  m.total = 1;
  i64 pitch = 1;
  each_extent(q, c, [&](i32 d, i64 first, i64 extent) {
    m.total *= extent;
    m.base += first * pitch;
    pitch *= q.extent[d];
  });
  return m;
}

template <bool PLAIN> DEVICE i64 member(const Quant &q, const Members &m, i64 position) {
  if (PLAIN) return m.base + position;
  if (q.dims == 0) {
    if (m.total == m.width) return m.base + position;
    i64 row = div_(position, m.width);
    return m.base + row * m.pitch + (position - row * m.width);
  }
  i64 element = m.base, pitch = 1;
  each_extent(q, m.param, [&](i32 d, i64, i64 extent) {
    i64 next = div_(position, extent);
    element += (position - next * extent) * pitch;
    pitch *= q.extent[d];
    position = next;
  });
  return element;
}

struct QuantSumArgs {
  Quant q;
  Stripe stripe;
  Tensor dy, x, dx; // x: codes, for dequantize; the input, for choose_qparams
  Tensor ds, dz; // the results, one per parameter; absent ones have no type
  f64 factor;
  i64 columns; // of packed codes: the extent of the last dimension
  i32 symmetric, pad;
};

template <class P> struct ParamChannel : Members {
  P p;
};

// Parameters that have gradients. quick(x) says whether quick_step(x, u) will do,
// which sets u to x / s and returns rint(u).
template <class T> struct Learned : Param<T> {
  DEVICE bool quick(T) const { return false; }
  DEVICE T quick_step(T, T &u) const { return u = 0; }
};

// In f32: x * (1 / s) has an error of less than 2 units in the last place, which a
// step of Newton's corrects, unless denormals are near. x is clamped to a code
// more than there are, so that all stays in range; a NaN is below.
template <> struct Learned<f32> : Param<f32> {
  f32 inverse, step, least, most;
  bool tame;

  DEVICE void load(const Quant &q, i64 c) {
    const f32 large = 1 << 20, tiny = 1.0f / (1ll << 60);
    Param<f32>::load(q, c);
    inverse = 1 / s;
    step = q.reciprocal ? 0 : inverse;
    least = (lo - z - 1) * s;
    most = (hi - z + 1) * s;
    tame = s >= tiny && s <= 1 / tiny && abs_(z) <= large && lo >= -large && hi <= large && !float8;
  }
  DEVICE bool quick(f32 x) const {
    const u32 tiny = 2 * (127 - 60) << 23; // as below, 0 being none
    u32 b = bits_of(x);
    return tame && b + b - 1 >= tiny - 1;
  }
  DEVICE f32 quick_step(f32 x, f32 &u) const {
    x = fminf(fmaxf(x, least), most);
    u = x * inverse;
    u = fma_(fma_(-s, u, x), step, u);
    return rint_(u);
  }
};

// Goes through the elements of a parameter in steps. (row, column) is a
// position, where parameters are rows of runs.
template <i32 STEP, bool PLAIN> struct MemberWalk {
  const Quant &q;
  const Members &m;
  i64 position, column, place, stride, down;

  DEVICE MemberWalk(const QuantSumArgs &a, const Members &members, i64 from) : q(a.q), m(members), position(from) {
    i64 row = m.total == m.width ? 0 : div_(from, m.width), rows = m.total == m.width ? 0 : div_(STEP, m.width);
    column = from - row * m.width;
    place = m.base + row * m.pitch + column;
    down = STEP - rows * m.width; // columns further on
    stride = rows * m.pitch + down;
    if (!PLAIN) place = member<false>(q, m, from);
  }
  DEVICE i64 at() const { return place; }
  DEVICE void next() {
    if (!PLAIN) {
      place = member<false>(q, m, position += STEP);
      return;
    }
    place += stride;
    column += down;
    if (column < m.width) return;
    column -= m.width;
    place += m.pitch - m.width;
  }
};

// A code, for dequantize: of i32 its bits, where T does not hold it.
template <bool PLAIN, class T> DEVICE T code_at(const QuantSumArgs &a, i64 i) {
  if (a.x.dtype == s4_ || a.x.dtype == u4_) return (T)packed_code(a.x, i, a.columns);
  if (sizeof(T) == 4 && a.x.dtype == i32_) return (T)from_bits(((const u32 *)a.x.data)[plain_offset<PLAIN>(a.x, i)]);
  return get_as<T>(a.x.data, a.x.dtype, plain_offset<PLAIN>(a.x, i));
}

// What code_at gives, less the zero point.
DEVICE f32 code_less_zero(const QuantSumArgs &a, f32 q, f32 z) {
  return a.x.dtype == i32_ ? (f32)((f64)(i32)bits_of(q) - (f64)z) : q - z;
}
DEVICE f64 code_less_zero(const QuantSumArgs &, f64 q, f64 z) { return q - z; }

// V codes of a byte, or of half of one, or none, as they lie in memory.
template <class T, i32 V> struct Codes {
  Loaded<u8, V> bytes;

  template <bool PLAIN> DEVICE void load(const QuantSumArgs &a, i64 at) {
    if (a.x.dtype == s4_ || a.x.dtype == u4_) {
      Loaded<u8, V / 2> halves;
      halves.template load<PLAIN>(a.x, at / 2);
      bytes.bits.w[0] = halves.bits.w[0];
    } else if (a.x.dtype != none_) {
      bytes.template load<PLAIN>(a.x, at);
    }
  }
  // The codes less the zero points z(j).
  template <class Z> DEVICE void less_zero(const QuantSumArgs &a, Z z, T (&q)[V]) const {
    const i32 dtype = a.x.dtype;
    if (dtype == s8_)
      each(q, [&](i32 j) { return (T)(s8)bytes[j]; });
    else if (dtype == u8_)
      each(q, [&](i32 j) { return (T)bytes[j]; });
    else if (dtype == s4_ || dtype == u4_)
      each(q, [&](i32 j) { return (T)nibble(bytes[j / 2], j % 2, dtype); });
    else
      each(q,
           [&](i32 j) { return dtype == none_ ? (T)0 : (T)decode_float8(bytes[j], dtype == f8e4m3_ ? e4m3 : e5m2); });
#pragma unroll
    for (i32 j = 0; j < V; j++) q[j] -= z(j);
  }
  template <class F> static DEVICE void each(T (&q)[V], F f) {
#pragma unroll
    for (i32 j = 0; j < V; j++) q[j] = f(j);
  }
};

// A code of any type: of i32 its bits, where T does not hold it.
template <class T> struct Codes<T, 1> {
  T code;

  template <bool PLAIN> DEVICE void load(const QuantSumArgs &a, i64 at) { code = code_at<PLAIN, T>(a, at); }
  template <class Z> DEVICE void less_zero(const QuantSumArgs &a, Z z, T (&q)[1]) const {
    q[0] = code_less_zero(a, code, z(0));
  }
};
