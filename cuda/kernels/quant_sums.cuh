// Reductions over the elements of each parameter.
#pragma once
#include "packed.cuh"
#include "quant.cuh"
#include "stripe.cuh"

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
  i32 symmetric;
  i32 plain; // all elements of a parameter are neighbours, in compact tensors
};

template <class F> struct ParamChannel : Members {
  Param<F> p;
};

template <class F> DEVICE ParamChannel<F> param_channel(const QuantSumArgs &a, i64 c) {
  ParamChannel<F> ch;
  (Members &)ch = members_of(a.q, c);
  ch.p.load(a.q, c);
  return ch;
}

// An element of a plain tensor, or of any.
template <bool PLAIN> DEVICE i64 plain_offset(const Tensor &t, i64 i) { return PLAIN ? i : offset_of(t, i); }

// A code, for dequantize: of i32 its bits, where T does not hold it.
template <bool PLAIN, class T> DEVICE T code_at(const QuantSumArgs &a, i64 i) {
  if (a.x.dtype == s4_ || a.x.dtype == u4_) return (T)packed_code(a.x, i, a.columns);
  if (sizeof(T) == 4 && a.x.dtype == i32_) return (T)from_bits(((const u32 *)a.x.data)[plain_offset<PLAIN>(a.x, i)]);
  return get_as<T>(a.x.data, a.x.dtype, plain_offset<PLAIN>(a.x, i));
}

// What code_at gives, less the zero point.
DEVICE f32 less_zero(const QuantSumArgs &a, f32 q, f32 z) {
  return a.x.dtype == i32_ ? (f32)((f64)(i32)bits_of(q) - (f64)z) : q - z;
}
DEVICE f64 less_zero(const QuantSumArgs &, f64 q, f64 z) { return q - z; }
