// Sums over the threads of a block.
#pragma once
#include "dtypes.cuh"

// The sum of the values of the threads before this one; all becomes that of all
// threads. Called by a block of so many WARPS; sums is for this call alone.
template <i32 WARPS> DEVICE u32 sum_before(u32 (&sums)[WARPS], u32 value, u32 &all) {
  const i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 sum = value;
#pragma unroll
  for (i32 step = 1; step < 32; step *= 2) {
    u32 before = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  all = 0;
#pragma unroll
  for (i32 w = 0; w < WARPS; w++) {
    sum += w < warp ? sums[w] : 0;
    all += sums[w];
  }
  return sum - value;
}
template <i32 WARPS> DEVICE u32 sum_before(u32 (&sums)[WARPS], u32 value) {
  u32 all;
  return sum_before(sums, value, all);
}
