// What the kernels of weight_only_linear share.
#pragma once
#include "stripe.cuh"
#include "weights.cuh"

// y[m, n] = sum of x[m, k] * w[n, k] over k in Stripe order, + bias[n].
struct WeightArgs {
  Stripe stripe; // a reduction for each y[m, n]
  i64 n, k, group;
  i64 groups; // of a row
  Ratio group_of; // where k is below 2^31
  i32 pad;
  Tensor x, weight, scale, zero, bias, y;
  i32 has_bias, learned;
  f64 lo, hi; // bounds of learned zero points
};

template <class X> struct WeightOnlyLinear : Adding {
  typedef WeightArgs Args;
  typedef typename Compute<X>::type T;
  struct Channel {
    i64 total, m, n;
  };
  static constexpr i32 SUMS = 1;

  static DEVICE Channel start(const Args &a, i64 c) {
    Channel ch = {a.k, div_(c, a.n), 0};
    ch.n = c - ch.m * a.n;
    return ch;
  }
  static DEVICE void terms(const Args &a, const Channel &ch, i64 k, T (&out)[1]) {
    out[0] = get<X>(a.x, ch.m * a.k + k) * weight_of<T>(a, ch.n, a.k, k);
  }
  static DEVICE void finish(const Args &a, i64 c, const T (&sums)[1]) {
    T y = sums[0];
    if (a.has_bias) y += get_any<T>(a.bias, c - div_(c, a.n) * a.n);
    element<X>(a.y, c) = Narrow<X>::from(y);
  }
};
