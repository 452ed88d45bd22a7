// What kernels that make keys have in common: they count the digits that
// sort.cu sorts by.
#pragma once
#include "dtypes.cuh"

const i32 sort_threads = 256;
const i32 digit_bits = 8, digits = 1 << digit_bits, max_passes = 4;

struct Keys {
  u32 *keys; // [n], or null: they are not stored
  u32 *totals; // [passes][digits]: how often each digit occurs; 0 at first
  i32 passes, pad;
};

DEVICE u32 digit_of(u32 key, i32 pass) { return __byte_perm(key, 0, 0x4440 + pass); }

// Stores the keys make(0) to make(n - 1) and counts their digits. Called by whole
// blocks of sort_threads; few, since each adds up what it has counted. AHEAD: how
// many keys a thread makes at once.
template <i32 AHEAD, class Make> DEVICE void put_keys(const Keys &k, i64 n, const Make &make) {
  const i64 step = thread_count();
  __shared__ u32 count[max_passes][digits];
  for (i32 p = 0; p < k.passes; p++) count[p][threadIdx.x] = 0;
  __syncthreads();
  for (i64 first = thread_number(); first < n; first += step * AHEAD) {
    u32 key[AHEAD];
#pragma unroll
    for (i32 r = 0; r < AHEAD; r++) {
      if (first + r * step < n) key[r] = make(first + r * step);
    }
#pragma unroll
    for (i32 r = 0; r < AHEAD; r++) {
      if (first + r * step >= n) continue;
      if (k.keys) k.keys[first + r * step] = key[r];
      for (i32 p = 0; p < k.passes; p++) atomicAdd(&count[p][digit_of(key[r], p)], 1u);
    }
  }
  __syncthreads();
  for (i32 p = 0; p < k.passes; p++) {
    u32 some = count[p][threadIdx.x];
    if (some > 0) atomicAdd(k.totals + p * digits + threadIdx.x, some);
  }
}
