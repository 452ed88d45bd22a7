// A stable sort of (key, position) pairs by key: least significant digit
// first, 8 bits a pass. Stability is what gives every destination its
// contributions in ascending source order. Each pass counts the digits of
// every tile, scans the counts of every digit over the tiles, and scatters.
#include "scatter.cuh"

const i32 sort_threads = 256;
const i32 sort_warps = sort_threads / 32;
const i32 sort_rounds = 16; // keys per thread
const i32 sort_tile = sort_threads * sort_rounds;
const i32 digits = 256;

struct SortArgs {
  i64 n, tiles;
  const u32 *keys, *values; // values: null for 0, 1, 2, ...
  u32 *keys_out, *values_out;
  u32 *counts; // [digits][tiles]
  u32 *totals; // [digits]
  i32 shift, pad;
};

KERNEL(sort_count, SortArgs) {
  __shared__ u32 count[digits];
  for (i64 tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    count[threadIdx.x] = 0;
    __syncthreads();
    for (i32 r = 0; r < sort_rounds; r++) {
      i64 i = tile * sort_tile + r * sort_threads + threadIdx.x;
      if (i < a.n) atomicAdd(&count[a.keys[i] >> a.shift & (digits - 1)], 1u);
    }
    __syncthreads();
    a.counts[threadIdx.x * a.tiles + tile] = count[threadIdx.x];
    __syncthreads();
  }
}

// Turns each thread's value into the sum of those of the threads before it;
// returns the sum of all. Called by a whole block of sort_threads.
DEVICE u32 scan_block(u32 *shared, u32 &value) {
  u32 sum = value;
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (i32 step = 1; step < sort_threads; step *= 2) {
    u32 before = (i32)threadIdx.x >= step ? shared[threadIdx.x - step] : 0;
    __syncthreads();
    sum += before;
    shared[threadIdx.x] = sum;
    __syncthreads();
  }
  u32 total = shared[sort_threads - 1];
  value = sum - value;
  __syncthreads();
  return total;
}

// One block of threads per digit: counts become offsets among equal digits.
KERNEL(sort_scan, SortArgs) {
  __shared__ u32 shared[sort_threads];
  u32 *row = a.counts + blockIdx.x * a.tiles, done = 0;
  if (a.tiles == 1) {
    if (threadIdx.x == 0) a.totals[blockIdx.x] = row[0], row[0] = 0;
    return;
  }
  for (i64 from = 0; from < a.tiles; from += sort_threads) {
    i64 i = from + threadIdx.x;
    u32 value = i < a.tiles ? row[i] : 0;
    u32 total = scan_block(shared, value);
    if (i < a.tiles) row[i] = done + value;
    done += total;
  }
  if (threadIdx.x == 0) a.totals[blockIdx.x] = done;
}

KERNEL(sort_scatter, SortArgs) {
  __shared__ u32 shared[sort_threads];
  __shared__ u32 next[sort_warps][digits]; // first the counts, then the places, of a warp's keys
  u32 start = a.totals[threadIdx.x];
  scan_block(shared, start);
  const i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (i64 tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    for (i32 w = 0; w < sort_warps; w++) next[w][threadIdx.x] = 0;
    __syncthreads();
    // A warp takes consecutive keys, 32 at a time.
    i64 first = tile * sort_tile + warp * (32 * sort_rounds) + lane;
    u32 key[sort_rounds], rank[sort_rounds];
#pragma unroll
    for (i32 r = 0; r < sort_rounds; r++) {
      bool valid = first + r * 32 < a.n;
      key[r] = valid ? a.keys[first + r * 32] : 0;
      u32 digit = valid ? key[r] >> a.shift & (digits - 1) : digits;
      u32 peers = __match_any_sync(0xffffffffu, digit);
      u32 before = __popc(peers & ((1u << lane) - 1));
      rank[r] = valid ? next[warp][digit] + before : 0;
      __syncwarp();
      if (valid && before == 0) next[warp][digit] += __popc(peers);
      __syncwarp();
    }
    __syncthreads();
    u32 place = start + a.counts[threadIdx.x * a.tiles + tile];
    for (i32 w = 0; w < sort_warps; w++) {
      u32 count = next[w][threadIdx.x];
      next[w][threadIdx.x] = place;
      place += count;
    }
    __syncthreads();
#pragma unroll
    for (i32 r = 0; r < sort_rounds; r++) {
      i64 i = first + r * 32;
      if (i >= a.n) continue;
      u32 to = next[warp][key[r] >> a.shift & (digits - 1)] + rank[r];
      a.keys_out[to] = key[r];
      a.values_out[to] = a.values ? a.values[i] : (u32)i;
    }
    __syncthreads();
  }
}

// Where each key's run of equal keys starts and stops; keys that do not occur
// keep the 0, 0 that fill has put there.
KERNEL(sort_runs, RunArgs) {
  for (i64 i = thread_number(); i < a.n; i += thread_count()) {
    u32 key = a.keys[i];
    if (key >= a.limit) continue;
    if (i == 0 || a.keys[i - 1] != key) a.start[key] = (u32)i;
    if (i == a.n - 1 || a.keys[i + 1] != key) a.stop[key] = (u32)i + 1;
  }
}

KERNEL(fill, FillArgs) {
  for (i64 i = thread_number(); i < a.n; i += thread_count()) a.words[i] = a.value;
}
