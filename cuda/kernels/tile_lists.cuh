// The lists of positions that tiles.cuh starts from: which tiles an image has,
// and which positions have a tap in each of them, in whatever order.
#pragma once
#include "cell.cuh"
#include "link.cuh"
#include "scan.cuh"

const i32 log_width = 5, log_height = 3;
const i32 tile_width = 1 << log_width, tile_height = 1 << log_height;
const i32 tile_pixels = tile_width * tile_height;
const i32 tile_threads = 128, tile_warps = tile_threads / 32;
const i32 tile_channels = 4; // that are summed at a time
const i32 few_tiles = 16; // so many scan all positions of their image sooner than they sort what they have
const i32 pixels_each = tile_pixels / tile_threads; // of a thread
const i32 counter_pitch = 8; // counters lie apart, for atomics on one sector wait for each other

struct TileArgs {
  Sampler sampler; // output: grad_output
  Image out;
  Grid tangent; // of the grid, where SECOND
  i64 positions; // of an image
  i64 columns, tiles; // tiles in a row, and of an image
  u32 *count, *next; // [images][tiles][counter_pitch]: the length of a list, and where its next position goes
  u32 *lists, *spare; // [images][4 * positions]: an image's lists follow one another
  Links links; // positions are listed by their sources, too
  u32 *heavy; // [images][tiles]: whether a tile is summed here; then whether any is; null: all are
  // See links.cuh. channels: of a thread. packs: whether a patch's pixels in a row may be written together.
  i32 channels, log_groups, packs, pad;
};

DEVICE bool any_heavy(const TileArgs &a) { return !a.heavy || a.heavy[a.sampler.images * a.tiles] != 0; }
DEVICE bool is_heavy(const TileArgs &a, i64 tile) { return !a.heavy || a.heavy[tile] != 0; }

DEVICE Position<2> listed_position(const TileArgs &a, i64 image, u32 source) {
  Position<2> p;
  p.image = (u32)image;
  p.at[1] = source >> a.links.log_row;
  p.at[0] = source & ((1u << a.links.log_row) - 1);
  return p;
}

// The pixels that a position has taps at.
template <class T> struct TileTaps : Cell<T, 2> {
  i32 far; // 1, or 0 where there is but one tap
  DEVICE TileTaps(const Sampler &s, const Position<2> &p) : Cell<T, 2>(s, p), far(s.mode != nearest) {}
  // The place of a tap's pixel in a tile, or -1.
  DEVICE i32 place(i32 tap, i32 left, i32 top) const {
    i32 x = this->pixel[0][tap & 1], y = this->pixel[1][tap >> 1];
    bool here = x >= left && x < left + tile_width && y >= top && y < top + tile_height;
    return here && (far || tap == 0) ? (y - top) * tile_width + (x - left) : -1;
  }
  // The tiles that the position has taps in: along each axis that of the first
  // pixel inside, or -1, and that of the second, if it is another, or -1.
  DEVICE void tiles(i32 (&column)[2], i32 (&row)[2]) const {
    span(this->pixel[0], log_width, column);
    span(this->pixel[1], log_height, row);
  }
  DEVICE bool in(i32 left, i32 top) const {
    i32 column[2], row[2];
    tiles(column, row);
    return (column[0] == left || column[1] == left) && (row[0] == top || row[1] == top);
  }
  DEVICE void span(const i32 (&pixel)[2], i32 log, i32 (&tile)[2]) const {
    const i32 last = far ? pixel[1] : -1;
    tile[0] = (pixel[0] >= 0 ? pixel[0] : last) >> log;
    tile[1] = last >= 0 && last >> log != tile[0] ? last >> log : -1;
  }
};

// Adds 1 to counters, all threads of a warp that name the same one at once, and
// returns the number that each gets. All threads call it; none names nothing.
DEVICE u32 count_together(u32 *counters, u32 which, u32 none, u32 (*shared)[32]) {
  const i32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 peers = __match_any_sync(0xffffffffu, which);
  const i32 leader = __ffs(peers) - 1;
  if (lane == leader && which != none)
    shared[warp][lane] = atomicAdd(counters + (i64)which * counter_pitch, (u32)__popc(peers));
  __syncwarp();
  const u32 number = shared[warp][leader] + __popc(peers & ((1u << lane) - 1));
  __syncwarp();
  return number;
}

// Counts each tile's positions, or puts them into the lists.
template <class T, bool FILL> DEVICE void list_positions(const TileArgs &a, u32 (*shared)[32]) {
  const Sampler &s = a.sampler;
  const u32 none = 0xffffffffu;
  u32 *counters = FILL ? a.next : a.count;
  if (!any_heavy(a)) return;
  each_position<2>(s, 1, [&](const Position<2> &p, bool here, i64) { // all threads of a warp
    TileTaps<T> taps(s, p);
    i32 column[2], row[2];
    taps.tiles(column, row);
    const u32 tiles = (u32)(a.tiles * p.image), source = p.at[1] << a.links.log_row | p.at[0];
    u32 *list = a.lists + 4 * a.positions * p.image;
    here = here && column[0] >= 0 && row[0] >= 0;
    u32 first = here ? tiles + row[0] * (u32)a.columns + column[0] : none;
    if (here && !is_heavy(a, first)) first = none;
    const u32 to = count_together(counters, first, none, shared);
    if (FILL && first != none) list[to] = source;
    if (!here || (column[1] < 0 && row[1] < 0)) return;
#pragma unroll
    for (i32 i = 1; i < 4; i++) { // seldom
      if (column[i & 1] < 0 || row[i >> 1] < 0) continue;
      const u32 tile = tiles + row[i >> 1] * (u32)a.columns + column[i & 1];
      if (!is_heavy(a, tile)) continue;
      const u32 place = atomicAdd(counters + (i64)tile * counter_pitch, 1u);
      if (FILL) list[place] = source;
    }
  });
}

// Turns a thread's n counters into where runs of so many begin, after those of
// the threads before it.
DEVICE void start_runs(u32 (&shared)[tile_warps], u32 *counters, i32 n) {
  u32 sum = 0;
  for (i32 i = 0; i < n; i++) sum += counters[i];
  sum = sum_before(shared, sum);
  for (i32 i = 0; i < n; i++) {
    const u32 count = counters[i];
    counters[i] = sum;
    sum += count;
  }
  __syncthreads();
}

// Where the lists of an image's tiles begin: a block of threads takes an image.
DEVICE void place_lists(const TileArgs &a, u32 (&shared)[tile_warps]) {
  if (!any_heavy(a)) return;
  const i32 each = 32; // tiles of a thread
  for (i64 image = blockIdx.x; image < a.sampler.images; image += gridDim.x) {
    const u32 *count = a.count + image * a.tiles * counter_pitch;
    u32 *next = a.next + image * a.tiles * counter_pitch, done = 0;
    for (i64 from = 0; from < a.tiles; from += each * tile_threads) {
      const i64 first = from + threadIdx.x * each;
      u32 here[each], sum = 0;
#pragma unroll
      for (i32 i = 0; i < each; i++) {
        here[i] = first + i < a.tiles ? count[(first + i) * counter_pitch] : 0;
        sum += here[i];
      }
      u32 total;
      sum = done + sum_before(shared, sum, total);
#pragma unroll
      for (i32 i = 0; i < each; i++) {
        if (first + i < a.tiles) next[(first + i) * counter_pitch] = sum;
        sum += here[i];
      }
      done += total;
      __syncthreads();
    }
  }
}
