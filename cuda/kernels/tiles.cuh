// The gradient of grid_sample's input, of images, without a sort of all
// positions: pixels in tiles. A position is listed, in whatever order, with
// each tile that it has a tap in; a block of threads then takes a tile. It
// lists, in shared memory, what contributes to each pixel, puts that in the
// order of positions, and sums in Chunk order (NUMERICS.md, section 4).
#pragma once
#include "merge.cuh"
#include "sampler.cuh"

const i32 log_width = 5, log_height = 3;
const i32 tile_width = 1 << log_width, tile_height = 1 << log_height;
const i32 tile_pixels = tile_width * tile_height;
const i32 tile_threads = 128;
const i32 tile_channels = 4; // that are summed at a time
const i32 tile_chunk = 256;
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
  i32 log_row, pad; // positions are listed as y << log_row | x
};

DEVICE Position<2> listed_position(const TileArgs &a, i64 image, u32 source) {
  Position<2> p;
  p.image = (u32)image;
  p.at[1] = source >> a.log_row;
  p.at[0] = source & ((1u << a.log_row) - 1);
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
  // The tile of a tap's pixel, or -1 where that is none, or that of a tap before it.
  DEVICE i64 tile(const TileArgs &a, i32 tap) const {
    const i32(&pixel)[2][2] = this->pixel;
    const i32 x = pixel[0][tap & 1], y = pixel[1][tap >> 1];
    if (x < 0 || y < 0 || (tap > 0 && !far)) return -1;
    const i32 column = x >> log_width, row = y >> log_height;
    if ((tap & 1) && pixel[0][0] >> log_width == column) return -1;
    if ((tap & 2) && pixel[1][0] >> log_height == row) return -1;
    return row * a.columns + column;
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
  each_position<2>(s, 1, [&](const Position<2> &p, bool here, i64) {
    TileTaps<T> taps(s, p);
    u32 *list = a.lists + 4 * a.positions * p.image;
#pragma unroll
    for (i32 tap = 0; tap < 4; tap++) {
      const i64 tile = here ? taps.tile(a, tap) : -1;
      const u32 which = tile < 0 ? none : (u32)(a.tiles * p.image + tile);
      u32 to = 0;
      if (tap == 0)
        to = count_together(counters, which, none, shared);
      else if (which != none) // seldom
        to = atomicAdd(counters + (i64)which * counter_pitch, 1u);
      if (FILL && which != none) list[to] = p.at[1] << a.log_row | p.at[0];
    }
  });
}

// Turns each thread's value into the sum of those of the threads before it, and
// returns the sum of all. A whole block calls it.
DEVICE u32 sum_before(u32 *shared, u32 &value) {
  u32 sum = value;
  shared[threadIdx.x] = sum;
  __syncthreads();
#pragma unroll 1
  for (i32 step = 1; step < tile_threads; step *= 2) {
    const u32 before = (i32)threadIdx.x >= step ? shared[threadIdx.x - step] : 0;
    __syncthreads();
    sum += before;
    shared[threadIdx.x] = sum;
    __syncthreads();
  }
  const u32 total = shared[tile_threads - 1];
  value = sum - value;
  __syncthreads();
  return total;
}

// Where the lists of an image's tiles begin: a block of threads takes an image.
DEVICE void place_lists(const TileArgs &a, u32 *shared) {
  const i32 each = 8; // tiles of a thread
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
      const u32 total = sum_before(shared, sum);
      sum += done;
#pragma unroll
      for (i32 i = 0; i < each; i++) {
        if (first + i < a.tiles) next[(first + i) * counter_pitch] = sum;
        sum += here[i];
      }
      done += total;
    }
  }
}

template <class T> struct TileShare {
  static constexpr i32 log_entries = sizeof(T) == 4 ? 9 : 8, entries = 1 << log_entries;
  union {
    T weight[4][entries];
    u32 counts[16 * tile_threads]; // of digits, while a list is sorted
  };
  union {
    T dy[tile_channels][entries];
    u16 place[4][entries]; // of a tap's pixel in the tile, or none, while pixels are listed
  };
  u32 source[entries];
  u16 list[4 * entries]; // of each pixel, one after the other: an entry and its tap
  u32 stop[tile_pixels]; // of each pixel's list
  u32 scan[tile_threads];
};

// Sorts a list that a tile's block takes in several parts: 4 bits at a time
// from the lowest, a thread its share of the list.
template <class T> DEVICE void sort_list(TileShare<T> &t, u32 *list, u32 *spare, u32 n, u32 largest) {
  const u32 each = (n - 1) / tile_threads + 1;
  const u32 lo = min_(threadIdx.x * each, n), hi = min_(lo + each, n);
#pragma unroll 1
  for (i32 shift = 0; shift < 32 && (largest >> shift || shift / 4 % 2); shift += 4) {
    for (i32 d = 0; d < 16; d++) t.counts[d * tile_threads + threadIdx.x] = 0;
    for (u32 i = lo; i < hi; i++) t.counts[(list[i] >> shift & 15) * tile_threads + threadIdx.x]++;
    __syncthreads();
    u32 sum = 0, *mine = t.counts + threadIdx.x * 16; // of 16 threads, for one digit
    for (i32 i = 0; i < 16; i++) sum += mine[i];
    sum_before(t.scan, sum);
    for (i32 i = 0; i < 16; i++) {
      const u32 count = mine[i];
      mine[i] = sum;
      sum += count;
    }
    __syncthreads();
    for (u32 i = lo; i < hi; i++) spare[t.counts[(list[i] >> shift & 15) * tile_threads + threadIdx.x]++] = list[i];
    __syncthreads();
    u32 *other = list;
    list = spare;
    spare = other;
  }
}

// Puts entries [lo, hi) of pixels' lists in the order of positions, which they
// nearly are in.
template <class T> DEVICE void order_list(TileShare<T> &t, u32 lo, u32 hi) {
  const u32 mask = TileShare<T>::entries - 1;
  u32 last = 0;
  for (u32 i = lo; i < hi; i++) {
    const u16 entry = t.list[i];
    const u32 source = t.source[entry & mask];
    if (source >= last) {
      last = source;
      continue;
    }
    u32 to = i;
    for (; to > lo && t.source[t.list[to - 1] & mask] > source; to--) t.list[to] = t.list[to - 1];
    t.list[to] = entry;
  }
}

// Fills pixels' lists from entries that are in order: a warp takes them in turn.
template <class T> DEVICE void list_in_order(TileShare<T> &t, u32 n) {
  const u32 lane = threadIdx.x, none = 0xffffu;
  for (u32 i = lane; i - lane < 4 * n; i += 32) {
    const u32 tap = i & 3, e = i >> 2, place = i < 4 * n ? t.place[tap][e] : none;
    const u32 peers = __match_any_sync(0xffffffffu, place), before = __popc(peers & ((1u << lane) - 1));
    const u32 to = place != none ? t.stop[place] : 0;
    __syncwarp();
    if (place != none) {
      if (before == 0) t.stop[place] = to + __popc(peers);
      t.list[to + before] = (u16)(tap << TileShare<T>::log_entries | e);
    }
    __syncwarp();
  }
}

// Lists what n positions contribute to a tile's pixels. sorted: whether the
// positions are in order.
template <class T, bool SECOND>
DEVICE void list_entries(const TileArgs &a, TileShare<T> &t, i64 image, i32 left, i32 top, const u32 *sources, u32 n,
                         bool sorted) {
  const Sampler &s = a.sampler;
  for (i32 i = threadIdx.x; i < tile_pixels; i += tile_threads) t.stop[i] = 0;
  __syncthreads();
#pragma unroll 2
  for (u32 e = threadIdx.x; e < n; e += tile_threads) {
    const u32 source = sources[e];
    t.source[e] = source;
    const Position<2> p = listed_position(a, image, source);
    TileTaps<T> taps(s, p);
    T q[2] = {0, 0};
    if constexpr (SECOND) {
      Shift<T, 2> shift(s, a.tangent, p, taps);
      q[0] = shift.q[0], q[1] = shift.q[1];
    }
#pragma unroll
    for (i32 tap = 0; tap < 4; tap++) {
      const i32 place = taps.place(tap, left, top);
      t.place[tap][e] = (u16)place;
      if (place >= 0) atomicAdd(&t.stop[place], 1u);
      T w = taps.far ? taps.weight(tap) : (T)1;
      if constexpr (SECOND) {
        w = 0;
        w += taps.slope(tap, 0) * q[0];
        w += taps.slope(tap, 1) * q[1];
      }
      t.weight[tap][e] = w;
    }
  }
  __syncthreads();
  u32 sum = 0, *mine = t.stop + threadIdx.x * pixels_each;
  for (i32 i = 0; i < pixels_each; i++) sum += mine[i];
  sum_before(t.scan, sum);
  for (i32 i = 0; i < pixels_each; i++) {
    const u32 count = mine[i];
    mine[i] = sum;
    sum += count;
  }
  __syncthreads();
  if (sorted) {
    if (threadIdx.x < 32) list_in_order(t, n);
    __syncthreads();
    return;
  }
  for (u32 i = threadIdx.x; i < 4 * n; i += tile_threads) {
    const u32 tap = i & 3, e = i >> 2, place = t.place[tap][e];
    if (place < tile_pixels) t.list[atomicAdd(&t.stop[place], 1u)] = (u16)(tap << TileShare<T>::log_entries | e);
  }
  __syncthreads();
  for (i32 i = threadIdx.x; i < tile_pixels; i += tile_threads) order_list(t, i ? t.stop[i - 1] : 0, t.stop[i]);
}

// Brings channels [c, c + n) of grad_output at the entries.
template <class S, class T>
DEVICE void load_entries(const TileArgs &a, TileShare<T> &t, i64 image, i64 c, i32 channels, u32 n) {
  const Image &m = a.sampler.output;
  const S *dy = (const S *)m.data + c * m.channel;
  for (u32 e = threadIdx.x; e < n; e += tile_threads) {
    const i64 offset = listed_position(a, image, t.source[e]).in(m);
#pragma unroll
    for (i32 j = 0; j < tile_channels; j++) {
      if (j < channels) t.dy[j][e] = widen<T>(dy[offset + j * m.channel]);
    }
  }
}

// The sums of a pixel, and what chunks it has behind it.
template <class T> struct PixelSums {
  T sum[tile_channels];
  Fold<T> chunks[tile_channels];
  i32 filled; // of the chunk that sum is of

  DEVICE void clear() {
#pragma unroll
    for (i32 j = 0; j < tile_channels; j++) sum[j] = 0, chunks[j].n = 0;
    filled = 0;
  }
  DEVICE void add(const TileShare<T> &t, u32 lo, u32 hi) {
    const u32 mask = TileShare<T>::entries - 1;
    while (lo < hi) {
      if (filled == tile_chunk) {
#pragma unroll
        for (i32 j = 0; j < tile_channels; j++) chunks[j].add(sum[j]), sum[j] = 0;
        filled = 0;
      }
      const u32 to = min_(hi, lo + (tile_chunk - filled));
      filled += to - lo;
      for (; lo < to; lo++) {
        const u32 entry = t.list[lo], e = entry & mask;
        const T w = t.weight[entry >> TileShare<T>::log_entries][e];
#pragma unroll
        for (i32 j = 0; j < tile_channels; j++) sum[j] += t.dy[j][e] * w;
      }
    }
  }
  DEVICE void finish() {
    if (chunks[0].n == 0) return;
#pragma unroll
    for (i32 j = 0; j < tile_channels; j++) chunks[j].add(sum[j]), sum[j] = chunks[j].sum();
  }
};

template <class S, bool SECOND> DEVICE void sum_tiles(const TileArgs &a, TileShare<typename Compute<S>::type> &t) {
  typedef typename Compute<S>::type T;
  const Sampler &s = a.sampler;
  const u32 part = TileShare<T>::entries;
  for (i64 w = blockIdx.x; w < s.images * a.tiles; w += gridDim.x) {
    const i64 image = div_(w, a.tiles), tile = w - image * a.tiles, row = div_(tile, a.columns);
    const i32 left = (i32)(tile - row * a.columns) * tile_width, top = (i32)row * tile_height;
    const u32 n = a.count[w * counter_pitch], first = a.next[w * counter_pitch] - n;
    const i64 lists = image * 4 * a.positions + first;
    if (n > part) sort_list(t, a.lists + lists, a.spare + lists, n, (u32)(s.out[1] << a.log_row) - 1);
    for (i64 c = 0; c < s.channels; c += tile_channels) {
      const i32 channels = s.channels - c < tile_channels ? (i32)(s.channels - c) : tile_channels;
      PixelSums<T> sums[pixels_each];
#pragma unroll
      for (i32 k = 0; k < pixels_each; k++) sums[k].clear();
      for (u32 from = 0; from < n; from += part) {
        const u32 here = min_(n - from, part);
        if (c == 0 || n > part) list_entries<T, SECOND>(a, t, image, left, top, a.lists + lists + from, here, n > part);
        load_entries<S>(a, t, image, c, channels, here);
        __syncthreads();
#pragma unroll
        for (i32 k = 0; k < pixels_each; k++) {
          const i32 i = threadIdx.x + k * tile_threads;
          sums[k].add(t, i ? t.stop[i - 1] : 0, t.stop[i]);
        }
        __syncthreads();
      }
#pragma unroll
      for (i32 k = 0; k < pixels_each; k++) {
        const i32 i = threadIdx.x + k * tile_threads, x = left + i % tile_width, y = top + i / tile_width;
        if (x >= s.size[0] || y >= s.size[1]) continue;
        sums[k].finish();
        S *out = (S *)a.out.data + image * a.out.image + y * a.out.axis[1] + x * a.out.axis[0] + c * a.out.channel;
#pragma unroll
        for (i32 j = 0; j < tile_channels; j++) {
          if (j < channels) out[j * a.out.channel] = Narrow<S>::from(sums[k].sum[j]);
        }
      }
    }
  }
}
