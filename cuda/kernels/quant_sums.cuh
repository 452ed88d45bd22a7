// Reductions over the elements of each parameter.
#pragma once
#include "packed.cuh"
#include "quant_quick.cuh"
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
  f64 factor; // of what is summed; for choose_qparams the least scale
  i64 columns; // of packed codes: the extent of the last dimension
  i32 symmetric, pad;
};

template <class P> struct ParamChannel : Members {
  P p;
};

// Parameters that may be those of another lane of the warp.
template <class T> struct Lent : Param<T> {
  DEVICE void take(const Lent &own, i32 lane) {
    *this = own;
    this->s = __shfl_sync(0xffffffff, own.s, lane);
    this->z = __shfl_sync(0xffffffff, own.z, lane);
  }
};

// Parameters that have gradients: some have a short way to an error.
template <class T> struct Learned : Lent<T> {
  DEVICE bool usual(T) const { return false; }
  DEVICE bool exact(T) const { return false; }
  DEVICE bool error(T, T &) const { return false; }
};

// In f32: the quotient is exact unless denormals are near, and the error is that of the
// nearest code from qmin to qmax, less the quotient where that is its own.
template <> struct Learned<f32> : Levels<f32, 1> {
  f32 first, last, small; // small: of quotients that are exact, or a NaN

  DEVICE void load(const Quant &q, i64 c) {
    load_at(q, offset_of(q.scale, c), offset_of(q.zero, c));
    small = quick && !float8 ? tiny : from_bits(0x7fc00000u);
    bound_codes();
  }
  DEVICE void bound_codes() {
    first = lo - z;
    last = hi - z;
  }
  DEVICE void take(const Learned &own, i32 lane) {
    (Levels<f32, 1> &)*this = own.lent(lane);
    step = __shfl_sync(0xffffffff, own.step, lane); // some lane's inverse is 0
    small = __shfl_sync(0xffffffff, own.small, lane);
    bound_codes();
  }
  // Whether x is one of those that most are; or one of all that have a short way.
  DEVICE bool usual(f32 x) const { return abs_(x) >= small; }
  DEVICE bool exact(f32 x) const { return usual(x) || (x == 0 && small == small); }
  // Whether x is inside, and e.
  DEVICE bool error(f32 x, f32 &e) const {
    f32 u = quotient(x), r = u + shift - shift, code = fminf(fmaxf(r, first), last);
    bool inside = code == r;
    e = code - (inside ? u : 0);
    return inside;
  }
};

// Goes through the elements of a parameter in steps, within a block of Stripe. Where
// parameters are rows of runs, left is how many columns are left of one.
template <i32 STEP, bool PLAIN> struct MemberWalk {
  static constexpr i32 far = 1 << 30; // more than a block has
  const Quant &q;
  const Members &m;
  i64 position, place, stride;
  i32 left, width, down;

  DEVICE MemberWalk(const QuantSumArgs &a, const Members &members, i64 from) : q(a.q), m(members), position(from) {
    i64 row = m.total == m.width ? 0 : div_(from, m.width), rows = m.total == m.width ? 0 : div_(STEP, m.width);
    i64 column = from - row * m.width;
    place = m.base + row * m.pitch + column;
    width = (i32)(m.width < far ? m.width : far);
    left = (i32)(m.width - column < far ? m.width - column : far);
    down = (i32)(STEP - rows * m.width); // columns further on
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
    left -= down;
    if (left > 0) return;
    left += width;
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
template <class T, i32 V, bool WHOLE> struct Codes {
  Words<u8, V> bytes;

  template <bool PLAIN> DEVICE void load(const QuantSumArgs &a, i64 at) {
    if (a.x.dtype == s4_ || a.x.dtype == u4_) {
      Words<u8, V / 2> halves;
      load_words<PLAIN>(halves, a.x, at / 2);
      bytes.w.v[0] = halves.w.v[0];
    } else if (a.x.dtype != none_) {
      load_words<PLAIN>(bytes, a.x, at);
    }
  }
  // The codes less the zero points z(j).
  template <class Z> DEVICE void less_zero(const QuantSumArgs &a, Z z, T (&q)[V]) const {
    const i32 dtype = a.x.dtype;
    if (dtype == s4_ || dtype == u4_)
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

// Whole numbers of a byte: from 2^23 on the last bits of an f32 are one.
template <class T, i32 V> struct Codes<T, V, true> {
  Words<u8, V> bytes;

  template <bool PLAIN> DEVICE void load(const QuantSumArgs &a, i64 at) { load_words<PLAIN>(bytes, a.x, at); }
  template <class Z> DEVICE void less_zero(const QuantSumArgs &a, Z z, T (&q)[V]) const {
    const bool negative = a.x.dtype == s8_;
    const f32 unit = 1 << 23, zero = unit + (negative ? 128 : 0);
#pragma unroll
    for (i32 j = 0; j < V; j++) {
      u32 word = bytes.w.v[j / 4] ^ (negative ? 0x80808080 : 0);
      q[j] = (T)(from_bits(__byte_perm(word, bits_of(unit), 0x7440 + j % 4)) - zero) - z(j);
    }
  }
};

// A code of any type: of i32 its bits, where T does not hold it.
template <class T> struct Codes<T, 1, false> {
  T code;

  template <bool PLAIN> DEVICE void load(const QuantSumArgs &a, i64 at) { code = code_at<PLAIN, T>(a, at); }
  template <class Z> DEVICE void less_zero(const QuantSumArgs &a, Z z, T (&q)[1]) const {
    q[0] = code_less_zero(a, code, z(0));
  }
};
