// The gradient of grid_sample's input, of images, without a sort of all
// positions: pixels in tiles. A position is listed, in whatever order, with
// each tile that it has a tap in; a block of threads then takes a tile. It
// lists, in shared memory, what contributes to each pixel, puts that in the
// order of positions, and sums in Chunk order (NUMERICS.md, section 4).
#pragma once
#include "chunk.cuh"
#include "tile_lists.cuh"

template <class T> struct TileShare {
  static constexpr i32 log_entries = sizeof(T) == 4 ? 9 : 8, entries = 1 << log_entries;
  union {
    T weight[4][entries];
    struct { // while a list is sorted
      u32 next[256], count[tile_warps][256]; // of digits: where the next goes; how many a warp has
    } digits;
  };
  union {
    T dy[tile_channels][entries];
    struct { // while pixels are listed
      u16 place[4][entries]; // of a tap's pixel in the tile, or none
      u32 next[tile_warps][tile_pixels]; // where a warp puts a pixel's next entry
    } pixels;
  };
  u32 source[entries];
  u16 list[4 * entries]; // of each pixel, one after the other: an entry and its tap
  u32 stop[tile_pixels]; // of each pixel's list
  u32 scan[tile_warps];
};

// Sorts a list that a tile's block takes in several parts, 8 bits at a time from
// the lowest. A pass counts digits, then places 128 positions after the other.
template <class T> DEVICE void sort_list(TileShare<T> &t, u32 *list, u32 *spare, u32 n, u32 largest) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 1
  for (i32 shift = 0; shift < 32 && (largest >> shift || shift / 8 % 2); shift += 8) {
    for (u32 i = threadIdx.x; i < 256 * (1 + tile_warps); i += tile_threads) t.digits.next[i] = 0;
    __syncthreads();
    for (u32 i = threadIdx.x; i < n; i += tile_threads) atomicAdd(&t.digits.next[list[i] >> shift & 255], 1u);
    __syncthreads();
    start_runs(t.scan, t.digits.next + threadIdx.x * 2, 2);
    for (u32 from = 0; from < n; from += tile_threads) {
      const u32 i = from + threadIdx.x, source = i < n ? list[i] : 0, digit = i < n ? source >> shift & 255 : 256;
      const u32 peers = __match_any_sync(0xffffffffu, digit), before = __popc(peers & ((1u << lane) - 1));
      if (digit < 256 && before == 0) t.digits.count[warp][digit] = __popc(peers);
      __syncthreads();
      if (digit < 256) {
        u32 to = t.digits.next[digit] + before;
        for (u32 w = 0; w < warp; w++) to += t.digits.count[w][digit];
        spare[to] = source;
      }
      __syncthreads();
      if (digit < 256 && before == 0) {
        atomicAdd(&t.digits.next[digit], (u32)__popc(peers));
        t.digits.count[warp][digit] = 0;
      }
      __syncthreads();
    }
    u32 *other = list;
    list = spare;
    spare = other;
  }
}

// Makes a list that has a large part of an image's positions, in order: of all
// positions it keeps those that have a tap in the tile.
template <class T>
DEVICE void scan_list(const TileArgs &a, TileShare<T> &t, i64 image, i32 column, i32 row, u32 *list) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 done = 0;
  for (i64 from = 0; from < a.sampler.out[1] << a.links.log_row; from += tile_threads) {
    const u32 source = (u32)from + threadIdx.x;
    const Position<2> p = listed_position(a, image, source);
    bool here = p.at[1] < (u32)a.sampler.out[1] && p.at[0] < (u32)a.sampler.out[0];
    if (here) here = TileTaps<T>(a.sampler, p).in(column, row);
    const u32 votes = __ballot_sync(0xffffffffu, here);
    if (lane == 0) t.scan[warp] = __popc(votes);
    __syncthreads();
    u32 to = done + __popc(votes & ((1u << lane) - 1));
#pragma unroll
    for (u32 w = 0; w < tile_warps; w++) {
      if (w < warp) to += t.scan[w];
      done += t.scan[w];
    }
    if (here) list[to] = source;
    __syncthreads();
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

// Fills pixels' lists from entries that are in order: each warp takes a part of
// them in turn, behind the parts of those before it.
template <class T> DEVICE void list_in_order(TileShare<T> &t, u32 n) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, none = 0xffffu;
  const u32 part = (n + 31) / 32 * 32, first = warp * part + lane; // 4 * n taps, by four warps
  u32 *const next = t.pixels.next[warp];
  const auto place_of = [&](u32 i) { return i < 4 * n ? t.pixels.place[i & 3][i >> 2] : none; };
  for (i32 i = lane; i < tile_pixels; i += 32) next[i] = 0;
  __syncwarp();
  for (u32 i = first; i < first + part; i += 32) {
    const u32 place = place_of(i);
    if (place != none) atomicAdd(next + place, 1u);
  }
  __syncthreads();
  for (i32 i = threadIdx.x; i < tile_pixels; i += tile_threads) {
#pragma unroll
    for (u32 w = 0; w < tile_warps; w++) {
      const u32 count = t.pixels.next[w][i];
      t.pixels.next[w][i] = t.stop[i];
      t.stop[i] += count;
    }
  }
  __syncthreads();
  for (u32 i = first; i < first + part; i += 32) {
    const u32 place = place_of(i), peers = __match_any_sync(0xffffffffu, place);
    const u32 before = __popc(peers & ((1u << lane) - 1)), to = place != none ? next[place] : 0;
    __syncwarp();
    if (place != none) {
      if (before == 0) next[place] = to + __popc(peers);
      t.list[to + before] = (u16)((i & 3) << TileShare<T>::log_entries | i >> 2);
    }
    __syncwarp();
  }
  __syncthreads();
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
      t.pixels.place[tap][e] = (u16)place;
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
  start_runs(t.scan, t.stop + threadIdx.x * pixels_each, pixels_each);
  if (sorted) return list_in_order(t, n);
  for (u32 i = threadIdx.x; i < 4 * n; i += tile_threads) {
    const u32 tap = i & 3, e = i >> 2, place = t.pixels.place[tap][e];
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
      if (filled == chunk_terms) {
#pragma unroll
        for (i32 j = 0; j < tile_channels; j++) chunks[j].add(sum[j]), sum[j] = 0;
        filled = 0;
      }
      const u32 to = min_(hi, lo + (chunk_terms - filled));
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
  if (!any_heavy(a)) return;
  for (i64 w = blockIdx.x; w < s.images * a.tiles; w += gridDim.x) {
    if (!is_heavy(a, w)) continue;
    const i64 image = div_(w, a.tiles), tile = w - image * a.tiles, row = div_(tile, a.columns);
    const i32 left = (i32)(tile - row * a.columns) * tile_width, top = (i32)row * tile_height;
    const u32 n = a.count[w * counter_pitch], first = a.next[w * counter_pitch] - n;
    u32 *const list = a.lists + image * 4 * a.positions + first;
    if (n > part && n > a.positions / few_tiles)
      scan_list(a, t, image, left >> log_width, (i32)row, list);
    else if (n > part)
      sort_list(t, list, a.spare + (list - a.lists), n, (u32)(s.out[1] << a.links.log_row) - 1);
    for (i64 c = 0; c < s.channels; c += tile_channels) {
      const i32 channels = s.channels - c < tile_channels ? (i32)(s.channels - c) : tile_channels;
      PixelSums<T> sums[pixels_each];
#pragma unroll
      for (i32 k = 0; k < pixels_each; k++) sums[k].clear();
      for (u32 from = 0; from < n; from += part) {
        const u32 here = min_(n - from, part);
        if (c == 0 || n > part) list_entries<T, SECOND>(a, t, image, left, top, list + from, here, n > part);
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
