// A stable sort of (key, position) pairs by key: least significant digit
// first, 8 bits a pass. Stability is what gives every destination its
// contributions in ascending source order. One kernel counts the digits of all
// passes. In a pass, every block orders a tile of pairs in shared memory and
// asks the tiles before it how many keys of each digit they have.
#include "embedding_rows.cuh"
#include "scan.cuh"
#include "sort.cuh"

const i32 sort_warps = sort_threads / 32;

typedef Pack<u32, 2> Pair; // a key and a position

struct SortArgs {
  i64 n;
  const u32 *keys; // where pairs is null: keys of 0, 1, 2, ...
  const Pair *pairs;
  Pair *pairs_out; // or, where null, apart:
  u32 *keys_out, *values_out;
  u32 *totals; // [passes][digits]: how often each occurs
  u64 *tiles; // [tiles][digits]: what a tile tells those behind it, 0 at first
  u32 *taken; // [passes]: how many tiles blocks have taken; 0 at first
  i32 pass, pad;
};

struct CountArgs {
  Keys counts;
  const u32 *keys;
  i64 n;
};

// Counts the digits of keys that another kernel has made.
KERNEL(sort_count, CountArgs) {
  put_keys<4>(a.counts, a.n, [&](i64 i) { return a.keys[i]; });
}

const u32 whole_warp = 0xffffffffu;

// The lanes of a warp whose bit is the same as this one's.
DEVICE u32 same_bit(u32 digit, i32 bit) {
#ifdef ISOBIT_SHIM
  u32 ones = __ballot_sync(whole_warp, digit >> bit & 1);
  return digit >> bit & 1 ? ones : ~ones;
#else // one predicate where the compiler makes two
  u32 same;
  asm("{\n.reg .pred p;\nand.b32 %0, %1, %2;\nsetp.ne.u32 p, %0, 0;\n"
      "vote.sync.ballot.b32 %0, p, 0xffffffff;\n@!p not.b32 %0, %0;\n}"
      : "=r"(same)
      : "r"(digit), "r"(1 << bit));
  return same;
#endif
}

// The lanes of a warp whose digits are the same as this one's.
DEVICE u32 same_digit(u32 digit) {
  u32 same = whole_warp;
#pragma unroll
  for (i32 bit = 0; bit < digit_bits; bit++) same &= same_bit(digit, bit);
  return same;
}

// A tile tells how many keys of a digit it has, then how many it and all
// before it have, in one word with a mark that other passes do not use.
DEVICE u64 tile_says(const SortArgs &a, bool all, u32 count) { return (u64)(2 * a.pass + 1 + all) << 32 | count; }

// How many keys of a digit the tiles before this one have. They are on their
// way: a block takes the next tile when it begins.
DEVICE u32 ask_tiles(const SortArgs &a, u32 tile, i32 digit) {
  const i32 ahead = 4;
  const u32 all = (u32)(tile_says(a, true, 0) >> 32);
  u32 sum = 0;
  for (;;) {
    u64 says[ahead];
#pragma unroll
    for (i32 i = 0; i < ahead; i++) {
      u32 before = tile > i ? tile - 1 - i : 0;
      says[i] = *(const volatile u64 *)(a.tiles + (u64)before * digits + digit);
    }
#pragma unroll
    for (i32 i = 0; i < ahead; i++) {
      u32 mark = (u32)(says[i] >> 32);
      if (mark + 1 < all) break; // not yet
      sum += (u32)says[i];
      if (mark == all) return sum;
      tile--;
    }
  }
}

// A thread's pairs of a tile that begins at from and has left of them: of consecutive keys of a warp, from first on, 32
// a round. Behind the last key there are some of the last digit, which come last.
template <i32 ROUNDS> DEVICE void read_pairs(const SortArgs &a, i64 from, i32 first, i32 left, Pair (&pair)[ROUNDS]) {
  if (a.pairs) {
#pragma unroll
    for (i32 r = 0; r < ROUNDS; r++) {
      pair[r].v[0] = whole_warp;
      if (first + r * 32 < left) pair[r] = (a.pairs + from)[first + r * 32];
    }
  } else {
#pragma unroll
    for (i32 r = 0; r < ROUNDS; r++) {
      pair[r].v[0] = first + r * 32 < left ? (a.keys + from)[first + r * 32] : whole_warp;
      pair[r].v[1] = (u32)from + first + r * 32;
    }
  }
}

// How many keys of its digit a warp has before each of a thread's; counts is how many it has of every digit.
template <i32 ROUNDS> DEVICE void rank_pairs(i32 pass, u32 *counts, const Pair (&pair)[ROUNDS], u32 (&rank)[ROUNDS]) {
  const i32 lane = threadIdx.x % 32;
#pragma unroll
  for (i32 r = 0; r < ROUNDS; r++) {
    u32 d = digit_of(pair[r].v[0], pass), same = same_digit(d);
    u32 &count = counts[d], before = count;
    __syncwarp();
    count = before + __popc(same);
    __syncwarp();
    rank[r] = before + __popc(same & ((1u << lane) - 1));
  }
}

// Stores a tile in order; shift is from a place in it to one among all, by digit.
template <i32 ROUNDS> DEVICE void write_pairs(const SortArgs &a, const Pair *ordered, const u32 *shift, i32 left) {
  if (a.pairs_out) {
#pragma unroll
    for (i32 r = 0; r < ROUNDS; r++) {
      const i32 i = r * sort_threads + threadIdx.x;
      const Pair p = ordered[i];
      if (i < left) a.pairs_out[shift[digit_of(p.v[0], a.pass)] + i] = p;
    }
  } else {
#pragma unroll
    for (i32 r = 0; r < ROUNDS; r++) {
      const i32 i = r * sort_threads + threadIdx.x;
      const Pair p = ordered[i];
      const u32 to = shift[digit_of(p.v[0], a.pass)] + i;
      if (i < left) a.keys_out[to] = p.v[0], a.values_out[to] = p.v[1];
    }
  }
}

// Sorts a tile of ROUNDS keys a thread. A warp takes consecutive keys, 32 a round.
template <i32 ROUNDS> DEVICE void sort_pass(const SortArgs &a) {
  const i32 size = ROUNDS * sort_threads, warp = threadIdx.x / 32, lane = threadIdx.x % 32, digit = threadIdx.x;
  __shared__ Pair ordered[size];
  __shared__ u32 next[sort_warps][digits]; // how many keys a warp has; then where they go
  __shared__ u32 shift[digits]; // from a place in the tile to one among all
  __shared__ u32 sums[2][sort_warps];
  __shared__ u32 taken;
  if (threadIdx.x == 0) taken = atomicAdd(a.taken + a.pass, 1u);
#pragma unroll
  for (i32 w = 0; w < sort_warps; w++) next[w][digit] = 0;
  __syncthreads();
  const u32 tile = taken;
  const i64 from = (i64)tile * size;
  const i32 left = a.n - from < size ? (i32)(a.n - from) : size;
  Pair pair[ROUNDS];
  u32 rank[ROUNDS];
  read_pairs(a, from, warp * (32 * ROUNDS) + lane, left, pair);
  rank_pairs(a.pass, next[warp], pair, rank);
  __syncthreads();
  u32 count[sort_warps], total = 0;
#pragma unroll
  for (i32 w = 0; w < sort_warps; w++) total += count[w] = next[w][digit];
  volatile u64 *said = a.tiles + (u64)tile * digits + digit;
  if (tile > 0) *said = tile_says(a, false, total);
  const u32 begin = sum_before(sums[0], total);
  u32 to = begin;
#pragma unroll
  for (i32 w = 0; w < sort_warps; w++) {
    next[w][digit] = to;
    to += count[w];
  }
  __syncthreads();
#pragma unroll
  for (i32 r = 0; r < ROUNDS; r++) ordered[next[warp][digit_of(pair[r].v[0], a.pass)] + rank[r]] = pair[r];
  u32 before;
  if (tile > 0)
    before = ask_tiles(a, tile, digit);
  else
    before = sum_before(sums[1], a.totals[a.pass * digits + digit]);
  *said = tile_says(a, true, before + total);
  shift[digit] = before - begin;
  __syncthreads();
  write_pairs<ROUNDS>(a, ordered, shift, left);
}

KERNEL_FIT(sort_pass_4, SortArgs, 4) { sort_pass<4>(a); }
KERNEL_FIT(sort_pass_16, SortArgs, 3) { sort_pass<16>(a); }

struct RunArgs {
  i64 n, limit;
  const u32 *keys;
  u32 *start, *stop;
};

// Where each key's run of equal keys starts and stops; keys that do not occur
// keep the 0, 0 that fill has put there.
KERNEL(sort_runs, RunArgs) {
  const i32 ahead = 4;
  const i64 step = thread_count();
  for (i64 first = thread_number(); first < a.n; first += step * ahead) {
    u32 before[ahead], key[ahead], after[ahead];
#pragma unroll
    for (i32 r = 0; r < ahead; r++) {
      const i64 i = first + r * step;
      key[r] = i < a.n ? a.keys[i] : 0xffffffffu;
      before[r] = i > 0 && i < a.n ? a.keys[i - 1] : 0xffffffffu;
      after[r] = i + 1 < a.n ? a.keys[i + 1] : 0xffffffffu;
    }
#pragma unroll
    for (i32 r = 0; r < ahead; r++) {
      const u32 i = (u32)(first + r * step);
      if (key[r] >= a.limit) continue;
      if (key[r] != before[r]) a.start[key[r]] = i;
      if (key[r] != after[r]) a.stop[key[r]] = i + 1;
    }
  }
}

// Lists rows with more than a few sources.
KERNEL(rows_find, Rows) {
  for (i64 row = thread_number(); row < a.rows; row += thread_count()) {
    const u32 start = a.start[row], count = a.stop[row] - start;
    if (count <= few_sources) continue;
    if (count <= chunk_terms) {
      a.single[atomicAdd(a.found + 1, 1u)] = {(u32)row, start, count, 0};
      continue;
    }
    const u32 chunks = (count - 1) / chunk_terms + 1, slot = atomicAdd(a.found, chunks);
    for (u32 i = 0; i < chunks; i++)
      a.chunks[slot + i] = {(u32)row, start + i * chunk_terms, min_(chunk_terms, count - i * chunk_terms), 0};
    a.several[atomicAdd(a.found + 2, 1u)] = {(u32)row, slot, count, 0};
  }
}

struct FillArgs {
  i64 n;
  u32 *words;
  u32 value, pad;
};

// words is aligned for packs.
KERNEL(fill, FillArgs) {
  const Pack<u32, 4> pack = {a.value, a.value, a.value, a.value};
  for (i64 i = thread_number() * 4; i < a.n; i += thread_count() * 4) {
    if (i + 4 <= a.n) {
      *(Pack<u32, 4> *)(a.words + i) = pack;
      continue;
    }
    for (i64 j = i; j < a.n; j++) a.words[j] = a.value;
  }
}
