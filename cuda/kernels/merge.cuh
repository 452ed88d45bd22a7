// How a scatter's contributions come one after the other.
#pragma once
#include "dtypes.cuh"

// Merge steps through a destination's contributions in ascending source order.
template <class Job> struct Merge {
  u32 at[Job::LISTS], stop[Job::LISTS], head[Job::LISTS]; // head: the source at, or none
  const u32 *source;
  static constexpr u32 none = 0xffffffffu;

  DEVICE Merge(const typename Job::Args &a, i64 destination) : source(a.scatter.source) {
    const typename Job::Place place = Job::place(a, destination);
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) {
      i64 key = Job::key(a, place, k);
      stop[k] = a.scatter.stop[key];
      go(k, a.scatter.start[key]);
    }
  }
  DEVICE void go(i32 k, u32 to) {
    at[k] = to;
    head[k] = to < stop[k] ? source[to] : none;
  }
  // How many contributions a destination has.
  static DEVICE u32 count(const typename Job::Args &a, i64 destination) {
    const typename Job::Place place = Job::place(a, destination);
    u32 n = 0;
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) {
      i64 key = Job::key(a, place, k);
      n += a.scatter.stop[key] - a.scatter.start[key];
    }
    return n;
  }
  DEVICE u32 count() const {
    u32 n = 0;
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) n += stop[k] - at[k];
    return n;
  }
  // The first contribution of list k from a source not below one.
  DEVICE u32 find(i32 k, u32 least) const {
    u32 lo = at[k], hi = stop[k];
    while (lo < hi) {
      u32 middle = lo + (hi - lo) / 2;
      if (source[middle] < least)
        lo = middle + 1;
      else
        hi = middle;
    }
    return lo;
  }
  // Skips n contributions of more than n: moves on to the source that n
  // others precede.
  DEVICE void skip(u32 n) {
    if (Job::LISTS == 1) {
      go(0, at[0] + n);
      return;
    }
    u32 lo = 0, hi = 0;
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) {
      if (at[k] < stop[k] && source[stop[k] - 1] > hi) hi = source[stop[k] - 1];
    }
    while (lo < hi) { // the largest source that at most n others are below
      u32 middle = lo + (hi - lo) / 2 + 1, below = 0;
#pragma unroll
      for (i32 k = 0; k < Job::LISTS; k++) below += find(k, middle) - at[k];
      if (below <= n)
        lo = middle;
      else
        hi = middle - 1;
    }
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) go(k, find(k, lo));
  }
  DEVICE bool next(u32 &from, i32 &list) {
    from = none;
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) from = head[k] < from ? head[k] : from;
    if (from == none) return false;
#pragma unroll
    for (i32 k = 0; k < Job::LISTS; k++) {
      if (head[k] != from) continue;
      list = k;
      go(k, at[k] + 1);
    }
    return true;
  }
};
